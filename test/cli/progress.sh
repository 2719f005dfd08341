#!/usr/bin/env bash
# On a terminal, work over a second says how far it is and how long the rest takes, or for how long it has run; an interrupt ends it. Elsewhere it is silent.
. "$(dirname "$0")/lib.sh"

# watched PATTERN ARGS...: on a terminal the command prints PATTERN; then it is interrupted
watched() {
    python3 - "$tutti" "$@" <<'PROGRAM' || bad "no progress on a terminal: $*"
import os, pty, re, select, signal, sys, time
tool, pattern, args = sys.argv[1], sys.argv[2].encode(), sys.argv[3:]
pid, fd = pty.fork()
if pid == 0:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # background jobs of a shell ignore it
    os.execv(tool, ["tutti"] + args)
text, ended, deadline = b"", False, time.monotonic() + 120
while not re.search(pattern, text) and not ended and time.monotonic() < deadline:
    if select.select([fd], [], [], 1)[0]:
        try:
            text += os.read(fd, 4096)
        except OSError:
            ended = True
seen = re.search(pattern, text)
os.kill(pid, signal.SIGINT)
os.waitpid(pid, 0)
if not seen:
    print(text[-300:])
sys.exit(0 if seen else 1)
PROGRAM
}

# Long messages arrive in the end, all at once: the line moves all the same.
watched 'simulating \[.*\] +([1-9]|[0-9]{2,})% about [0-9]+ (s|min|h) left' sim --topo torus:8x8@16GB/s,150ns --algo direct --size 4M --level packet
watched 'planning: [a-z-]+, [0-9]+%, [0-9]+ s, about [0-9]+ (s|min|h) left' explain --topo dln:16384,t=5 --size 64M --budget 600s
watched 'repro multitree, [0-9]+%, [0-9]+ s, about [0-9]+ (s|min|h) left' repro multitree
watched 'simulating, [0-9]+%, [0-9]+ s, about [0-9]+ (s|min|h) left' train-sim --model bert-large --topo torus:16x16 --level flow
runs 0 explain --topo torus:16x16 --size 16M
[ ! -s err ] || bad "progress where there is no terminal: $(cat err)"
finish
