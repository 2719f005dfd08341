#!/usr/bin/env bash
# TUTTI_LOG and TUTTI_LOG_FILE, and warnings of the library about variables that nobody knows.
# Usage: log.sh TUTTI SOURCE_DIR PROGRAM
. "$(dirname "$0")/../cli/lib.sh"
program=$3
export XDG_CACHE_HOME=$work TMPDIR=$work
unset TUTTI_RANK TUTTI_SIZE RANK WORLD_SIZE TUTTI_TRANSPORT TUTTI_DUMP TUTTI_PLAN TUTTI_TUNING TUTTI_LOG TUTTI_LOG_FILE
line='^tutti [0-2][0-9]:[0-5][0-9]:[0-6][0-9]\.[0-9]{6} rank [0-9]+ (error|warn|info|debug): .'

# A library that nobody asked says nothing, and knows its variables.
runs 0 run -n 3 -- "$program"
[ ! -s err ] || bad "unasked: $(cat err)"
TUTTI_TOPPO=1 runs 0 run -n 3 -- "$program"
[ "$(grep -c . err)" = 1 ] || bad "not one warning: $(cat err)"
grep -Eq 'rank 0 warn: unknown variable TUTTI_TOPPO; did you mean TUTTI_TOPO' err || bad "warning: $(cat err)"
TUTTI_TOPPO=1 TUTTI_LOG=none runs 0 run -n 3 -- "$program"
[ ! -s err ] || bad "TUTTI_LOG=none: $(cat err)"
TUTTI_TOPPO=1 runs 0 bench -n 2 -b 1K -e 1K -i 2
[ "$(grep -c TUTTI_TOPPO err)" = 1 ] || bad "bench does not warn once: $(cat err)"

TUTTI_LOG=info runs 0 run -n 3 -- "$program"
grep -Evq "$line" err && bad "not in the form: $(grep -Ev "$line" err | head -2)"
[ "$(grep -c ' info: open on ' err)" = 3 ] || bad "not every rank says that it is open: $(cat err)"
grep -Eq 'rank 0 info: allreduce of .* f64 on 3 ranks runs by [a-z-]+, the planner.s choice; predicted .*, plan [0-9a-f]{16}$' err || bad "no plan: $(cat err)"
grep -q ' rank [12] debug' err && bad "debug at level info: $(cat err)"
TUTTI_LOG=debug runs 0 run -n 3 -- "$program"
grep -q ' rank [12] debug: ' err || bad "no debug: $(cat err)"
TUTTI_LOG=warn TUTTI_LOG_FILE=$work/warn.log runs 0 run -n 2 -- "$program"
[ -e warn.log ] && [ ! -s warn.log ] || bad "level warn writes: $(cat warn.log)"
TUTTI_LOG=info TUTTI_LOG_FILE=$work/log-%r-%% runs 0 run -n 2 -- "$program"
[ ! -s err ] || bad "with a file: $(cat err)"
grep -q 'rank 1 info: open on' log-1-% && ! grep -q 'rank 0' log-1-% || bad "the file of rank 1: $(cat log-1-%)"
# A failure that calls return is in the log of whoever asked for one.
TUTTI_LOG=error TUTTI_LOG_FILE=$work/failed.log runs 1 run -n 2 --timeout 3s -- "$program" leave
grep -Eq "$line" failed.log && grep -q 'rank 0 error: rank 1' failed.log || bad "no verdict in the log: $(cat failed.log)"
TUTTI_LOG=loud runs 1 run -n 2 -- "$program"
grep -q "TUTTI_LOG is 'loud': none, error, warn, info or debug" err || bad "bad level: $(cat err)"
TUTTI_LOG_FILE=/nowhere/x runs 1 run -n 1 -- "$program"
grep -q 'TUTTI_LOG_FILE: cannot write /nowhere/x: No such file' err || bad "bad file: $(cat err)"
TUTTI_LOG_FILE=x%q runs 1 run -n 1 -- "$program"
grep -q 'after % r, h, p or % is expected' err || bad "bad file: $(cat err)"
finish
