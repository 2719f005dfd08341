/* packet_settings.c - the packet level's parameters: checks what the user gave and fills in the
 * defaults. These are those of the published simulator (section 1.9 of the notes on MultiTree):
 * 16-byte flits, packets of 256 bytes and a head, one cycle per flit and router, four virtual
 * channels, buffers that cover the round trip (net_open.c); a rank has as many interfaces as the
 * topology gives it ports. */
#include <math.h>

#include "sim/packet.h"

static tutti_status packet_settings_check(const struct tt_sim_packet *o, struct tutti_error *err)
{
    const uint32_t flit = o->flit_bytes ? o->flit_bytes : 16,
                   payload = o->payload_bytes ? o->payload_bytes : 256;
    if (flit > 1 << 20 || payload > 1 << 30)
        return tt_fail(err, TUTTI_ERR_RANGE,
                       "flits of %u and payloads of %u bytes: at most 1 MiB and 1 GiB", flit,
                       payload);
    if (payload % flit)
        return tt_fail(err, TUTTI_ERR_ARG,
                       "a packet's payload of %u bytes is not a whole number of flits of %u bytes",
                       payload, flit);
    if (o->vcs > 64)
        return tt_fail(err, TUTTI_ERR_RANGE, "%u virtual channels: at most 64", o->vcs);
    if (o->cycles_per_flit > 1000000 || o->router_cycles > 1000000)
        return tt_fail(err, TUTTI_ERR_RANGE, "cycles per flit and of a router: at most a million");
    if (o->buffer_flits > 1 << 24)
        return tt_fail(err, TUTTI_ERR_RANGE, "a buffer of %u flits: at most 2^24", o->buffer_flits);
    if (o->interfaces > 4096)
        return tt_fail(err, TUTTI_ERR_RANGE, "%u interfaces per rank: at most 4096", o->interfaces);
    if (!(o->aggregate_bytes_per_s >= 0) || isinf(o->aggregate_bytes_per_s))
        return tt_fail(err, TUTTI_ERR_RANGE,
                       "the aggregation rate must be a positive number of bytes per second");
    return TUTTI_OK;
}

tutti_status tt_sim_net_settings(const struct tt_sim_input *in, struct tt_net_setup *ret,
                                 struct tutti_error *err)
{
    const struct tt_sim_packet *o = &in->o->packet;
    tutti_status st = packet_settings_check(o, err);
    if (st)
        return st;
    struct tt_net_setup set = {.flit_bytes = o->flit_bytes ? o->flit_bytes : 16,
                               .payload_bytes = o->payload_bytes ? o->payload_bytes : 256,
                               .cycles_per_flit = o->cycles_per_flit ? o->cycles_per_flit : 1,
                               .router_cycles = o->router_cycles ? o->router_cycles : 1,
                               .interfaces = o->interfaces,
                               .vcs = o->vcs,
                               .buffer_flits = o->buffer_flits,
                               .message_mode = o->message_mode,
                               .by_step = o->lockstep,
                               .own_ports = o->interfaces == 0};
    /* The largest rank decides how many interface lanes each rank gets; tt_sim_net_ends limits
     * the others. */
    for (uint32_t r = 0; o->interfaces == 0 && r < in->t->ranks; r++) {
        uint32_t ports = tt_topo_ports(in->t, r);
        set.interfaces = ports > set.interfaces ? ports : set.interfaces;
    }
    set.interfaces = set.interfaces == 0 ? 1 : set.interfaces > 4096 ? 4096 : set.interfaces;
    *ret = set;
    return TUTTI_OK;
}
