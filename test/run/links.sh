#!/bin/bash
# Connections that cannot be made in the middle of a call: every rank says the same, with the right rank and class.
# Usage: links.sh TUTTI SCALE
tutti=$1 scale=$2 out=$(mktemp)
trap 'rm -f "$out"' EXIT

fail() {
    echo "FAILED: $1"
    cat "$out"
    exit 1
}

# told N PATTERN: N ranks said so, and no rank anything else.
told() {
    [ "$(grep -cE "^.*FAILED: .*$2" "$out")" = "$1" ] && [ "$(grep -c FAILED "$out")" = "$1" ] || fail "$1 ranks should say: $2"
}

# One rank has descriptors for opening and a ring, not for the next algorithm. A rank may still be in the ring when it hears of it.
TUTTI_TRANSPORT=tcp "$tutti" run -n 24 --timeout 20s -- \
    bash -c "test \$TUTTI_RANK != 5 || ulimit -n 20; exec $scale" > "$out" 2>&1 && fail "20 descriptors were enough"
told 24 "(ring|circulant): rank 5 .* has used up the 20 file descriptors it may have"

if [ "$(id -u)" != 0 ] || ! command -v ip > /dev/null; then
    echo "links: the part with emulated hosts is skipped: needs root and ip"
    exit 0
fi
# Two hosts that reach rank 0 and not each other: the job opens, and the first message between them fails.
"$tutti" lab -n 4 --timeout 4s -- \
    bash -c "test \$TUTTI_RANK != 1 || ip route add blackhole 10.77.0.3; exec $scale" > "$out" 2>&1 && fail "nobody missed the connection"
told 4 "ring: rank [12] .* is unreachable from rank [12]:"
