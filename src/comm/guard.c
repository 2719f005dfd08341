/* guard.c - what protects the bytes between two ranks: the rule, and the rule as text.
 *
 * A job that encrypts seals every socket. Otherwise payloads between different hosts carry a
 * checksum, since cables and network cards have been seen to flip bits that TCP's 16-bit checksum
 * does not detect. On loopback bytes never leave the memory of one machine, and a checksum is used
 * only on request. Both ends come to the same answer: hosts are in the table that all ranks have,
 * and the settings are compared when the ranks meet. */
#include "comm/comm_int.h"

/* Does the connection to this peer carry checksums (if it is not encrypted)? */
static bool sums(const struct tt_world *w, uint32_t peer)
{
    const struct tt_boot_peer *all = tt_boot_peers(w->boot);
    uint32_t me = tt_boot_config(w->boot)->rank;
    return w->checksum > 0 || (w->checksum == 0 && all[peer].host_id != all[me].host_id);
}

struct tt_tcp_guard tt_comm_guard_of(const struct tt_world *w, uint32_t peer,
                                     const struct tt_seal_keys *keys)
{
    return (struct tt_tcp_guard){.checksum = keys->cipher == TT_CIPHER_NONE && sums(w, peer),
                                 .keys = *keys};
}

void tt_comm_guard(const struct tt_comm *c, char *buf, size_t cap)
{
    const struct tt_world *w = c->world;
    bool some = false;
    for (uint32_t r = 0; r < c->size; r++)
        some = some || (r != c->rank && sums(w, c->members[r]));
    if (c->size == 1 || c->wire.one_host)
        snprintf(buf, cap, "no sockets");
    else if (w->mpi)
        snprintf(buf, cap, "MPI carries the bytes");
    else if (tt_boot_config(w->boot)->encrypt)
        snprintf(buf, cap, "encrypted (%s)",
                 tt_seal_cipher_name(tt_seal_has_aes() ? TT_CIPHER_AES : TT_CIPHER_CHACHA));
    else
        snprintf(buf, cap, some ? "checksums (CRC-32C by %s)" : "no checksums",
                 tt_seal_crc32c_way());
}

void tt_comm_guard_check(const struct tt_comm_config *c, struct tt_check *ret)
{
    const char *cipher = tt_seal_cipher_name(tt_seal_has_aes() ? TT_CIPHER_AES : TT_CIPHER_CHACHA);
    const char *where = c->checksum > 0   ? "on all sockets"
                        : c->checksum < 0 ? "switched off"
                                          : "between hosts";
    *ret = (struct tt_check){.name = "protection", .ok = true};
    if (c->boot.encrypt)
        snprintf(ret->text, sizeof ret->text, "encrypted with %s on all sockets", cipher);
    else
        snprintf(ret->text, sizeof ret->text,
                 "not encrypted (TUTTI_ENCRYPT=1 would use %s); checksums %s, by %s", cipher, where,
                 tt_seal_crc32c_way());
}
