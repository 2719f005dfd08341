"""Readers of the exported formats, written from their descriptions, and machines that run what they read on numbers.

They share nothing with src/export. Each machine takes a generator of random numbers for what may happen in any order
(which thread block or rank goes next), and raises Wrong with a sentence when a program breaks a rule of its format,
waits forever, or leaves a wrong number."""

import json
import re
import xml.etree.ElementTree as ET


class Wrong(Exception):
    pass


def need(ok, text, *args):
    if not ok:
        raise Wrong(text % args)


# ---- what a collective must give ----


def inputs(coll, ranks, n, root=0):
    """A number for every unit of every rank's input; sums of distinct powers tell who contributed."""
    return [[(r + 1) * 1000003 + u * 17 for u in range(n)] for r in range(ranks)]


def check_outputs(coll, given, outputs, units, root=0):
    ranks = len(given)
    total = [sum(given[r][u] for r in range(ranks)) for u in range(units)] if coll != "allgather" else None
    for r in range(ranks):
        if coll == "allreduce":
            want = total
        elif coll in ("reduce_scatter", "reducescatter"):
            block = units // ranks
            want = total[r * block : (r + 1) * block]
        elif coll == "allgather":
            want = [x for q in range(ranks) for x in given[q]]
        else:
            want = given[root]
        need(outputs[r] == want, "rank %d has a wrong result for %s", r, coll)


# ---- MSCCL XML ----

XML_LIMITS = {"msccl": (256, 216), "azure": (64, 127), "rccl": (64, 64)}
TYPES = {"s", "r", "rrc", "cpy", "re", "nop"}


def read_xml(text, target):
    algo = ET.fromstring(text)
    need(algo.tag == "algo", "the root is <%s>", algo.tag)
    for key in "name proto nchannels nchunksperloop ngpus coll inplace outofplace minBytes maxBytes".split():
        need(key in algo.attrib, "algo has no %s", key)
    need(algo.get("proto") in ("Simple", "LL", "LL128"), "proto %s", algo.get("proto"))
    steps_max, blocks_max = XML_LIMITS[target]
    gpus, seen = [], set()
    for number, gpu in enumerate(algo):
        need(gpu.tag == "gpu" and int(gpu.get("id")) == number, "gpu %s at place %d", gpu.get("id"), number)
        blocks = []
        need(len(gpu) <= blocks_max, "gpu %d has %d thread blocks", number, len(gpu))
        for place, tb in enumerate(gpu):
            need(int(tb.get("id")) == place, "thread block ids are not dense")
            send, recv, chan = int(tb.get("send")), int(tb.get("recv")), int(tb.get("chan"))
            need(chan < int(algo.get("nchannels")) <= 32, "channel %d", chan)
            need(number not in (send, recv), "gpu %d talks to itself", number)
            for way, peer in (("send", send), ("recv", recv)):
                need(peer < 0 or (number, way, peer, chan) not in seen, "two blocks of gpu %d have one connection", number)
                seen.add((number, way, peer, chan))
            need(len(tb) <= steps_max, "%d steps in a thread block", len(tb))
            steps = []
            for k, step in enumerate(tb):
                need(int(step.get("s")) == k and step.get("type") in TYPES, "step %s of type %s", step.get("s"), step.get("type"))
                s = {key: step.get(key) for key in ("type", "srcbuf", "dstbuf")}
                s.update({key: int(step.get(key)) for key in ("srcoff", "dstoff", "cnt", "depid", "deps", "hasdep")})
                need(s["cnt"] < 72 and max(s["srcoff"], s["dstoff"]) < 32768, "a step of %d chunks", s["cnt"])
                need((s["type"] == "s") <= (send >= 0) and (s["type"] in ("r", "rrc")) <= (recv >= 0), "a step without its peer")
                steps.append(s)
            blocks.append({"send": send, "recv": recv, "chan": chan, "steps": steps})
        for b in blocks:
            for s in b["steps"]:
                if s["depid"] >= 0:
                    need(s["depid"] < len(blocks) and s["deps"] < len(blocks[s["depid"]]["steps"]), "a wait for nothing")
                    need(blocks[s["depid"]]["steps"][s["deps"]]["hasdep"] == 1, "a wait for a step that does not tell")
        gpus.append({"blocks": blocks, "sizes": {k: int(gpu.get(k + "_chunks")) for k in "ios"}})
    need(len(gpus) == int(algo.get("ngpus")), "%d gpus of %s", len(gpus), algo.get("ngpus"))
    return algo.attrib, gpus


def run_xml(text, random, target="msccl", root=0, in_place=False):
    head, gpus = read_xml(text, target)
    coll, units = head["coll"], int(head["nchunksperloop"])
    given = inputs(coll, len(gpus), gpus[0]["sizes"]["i"])
    memory = [{"i": list(given[r]), "o": [None] * g["sizes"]["o"], "s": [None] * g["sizes"]["s"]} for r, g in enumerate(gpus)]
    for m in memory:
        if in_place:
            need(head["inplace"] == "1", "not made for in place")
            m["o"] = m["i"]
    at = [[0] * len(g["blocks"]) for g in gpus]
    wires = {}
    live = [(r, b) for r, g in enumerate(gpus) for b in range(len(g["blocks"])) if g["blocks"][b]["steps"]]
    while live:
        random.shuffle(live)
        moved = [x for x in live if xml_step(gpus, memory, at, wires, *x)]
        need(moved, "thread blocks wait for each other: %s", live[:3])
        live = [(r, b) for r, b in live if at[r][b] < len(gpus[r]["blocks"][b]["steps"])]
    need(not any(wires.values()), "messages are left over")
    check_outputs(coll, given, [m["o"] for m in memory], units, root)
    return head


def xml_step(gpus, memory, at, wires, r, b):
    block = gpus[r]["blocks"][b]
    s, m = block["steps"][at[r][b]], memory[r]
    if s["depid"] >= 0 and at[r][s["depid"]] <= s["deps"]:
        return False
    take = lambda buf, off: [m[buf][off + k] for k in range(s["cnt"])]
    if s["type"] == "s":
        wires.setdefault((r, block["send"], block["chan"]), []).append(take(s["srcbuf"], s["srcoff"]))
    elif s["type"] != "nop":
        if s["type"] in ("r", "rrc"):
            wire = wires.get((block["recv"], r, block["chan"]))
            if not wire:
                return False
            data = wire.pop(0)
            need(len(data) == s["cnt"], "a message of %d chunks is received as %d", len(data), s["cnt"])
        else:
            data = take(s["srcbuf"], s["srcoff"])
        if s["type"] in ("rrc", "re"):
            own = take(s["srcbuf"], s["srcoff"]) if s["type"] == "rrc" else take(s["dstbuf"], s["dstoff"])
            need(None not in own and None not in data, "rank %d adds what is not there", r)
            data = [x + y for x, y in zip(own, data)]
        need(s["dstoff"] + s["cnt"] <= len(m[s["dstbuf"]]), "rank %d writes past a buffer", r)
        m[s["dstbuf"]][s["dstoff"] : s["dstoff"] + s["cnt"]] = data
    at[r][b] += 1
    return True


# ---- MSCCL++ JSON ----


# A thread block has two threads. They share the units of a put, a copy or a reduction, and which of them begins
# is by chance; thread 0 alone does signals, waits, flushes and semaphores. Each runs ahead on its own: only a
# nop lets them meet. A port's puts and signals go to a queue that somebody else empties, in order and at any time.
THREADS = 2


def run_plan(text, random, root=0, in_place=False):
    plan = json.loads(text)
    coll, gpus = plan["collective"], plan["gpus"]
    given = inputs(coll, len(gpus), gpus[0]["input_chunks"])
    memory = [{"i": list(given[r]), "o": [None] * g["output_chunks"], "s": [None] * g["scratch_chunks"]} for r, g in enumerate(gpus)]
    for m in memory:
        if in_place:
            need(plan["inplace"], "not made for in place")
            m["o"] = m["i"]
    state = {"signals": {}, "semaphores": {}, "entered": set(), "queues": {}}
    peers = [[p for c in g["channels"] for p in c["connected_to"]] for g in gpus]
    live = []
    for r, g in enumerate(gpus):
        need(g["id"] == r, "gpu %d at place %d", g["id"], r)
        need(len(g["semaphores"]) <= 16, "%d semaphores", len(g["semaphores"]))
        for tb in g["threadblocks"]:
            need(len(tb["ops"]) <= 64, "%d operations in a thread block", len(tb["ops"]))
            need(all(len(c["channel_ids"]) <= 16 for c in tb["channels"]), "too many channels")
            at, turn = [0] * THREADS, [random.randrange(THREADS) for _ in tb["ops"]]
            live += [(r, tb["ops"], turn, at, thread) for thread in range(THREADS) if tb["ops"]]
    while live:
        random.shuffle(live)
        moved = False
        for x in live:
            for _ in range(random.choice((0, 1, 3, 64))):
                if x[3][x[4]] == len(x[1]) or not plan_op(plan, memory, state, peers, *x):
                    break
                moved = True
        for queue in list(state["queues"].values()):
            for _ in range(random.choice((0, 0, 1, len(queue)))):
                if queue:
                    queue.pop(0)()
                    moved = True
        if not moved:
            moved = any(plan_op(plan, memory, state, peers, *x) for x in live) or any(state["queues"].values())
        need(moved, "thread blocks wait for each other")
        live = [x for x in live if x[3][x[4]] < len(x[1])]
    for queue in state["queues"].values():
        while queue:
            queue.pop(0)()
    check_outputs(coll, given, [m["o"] for m in memory], gpus[0]["output_chunks"] * (len(gpus) if "scatter" in coll else 1), root)


def wire_end(peers, r, channel):
    """The same connection seen from the other end: the n-th of r's channels to q is the n-th of q's to r."""
    q = peers[r][channel]
    nth = peers[r][:channel].count(q)
    return q, [k for k, p in enumerate(peers[q]) if p == r][nth]


def plan_op(plan, memory, state, peers, r, ops, turn, at, thread):
    """One thread's part of its next operation; False when it must wait."""
    op = ops[at[thread]]
    name = op["name"]
    port = op.get("channel_type") == "port"
    first = (turn[at[thread]] + thread) % THREADS
    if name in ("copy", "re"):
        plan_local(op, memory[r], range(first, op["dst_buff"][0]["size"], THREADS))
    elif name == "put" and not port:
        plan_put(plan, memory, state, peers, r, op, range(first, op["dst_buff"][0]["size"], THREADS))
    elif name == "nop":
        if min(at) < at[thread]:
            return False
    elif thread == 0:
        if not plan_first(plan, memory, state, peers, r, op, name, port):
            return False
    at[thread] += 1
    return True


def plan_first(plan, memory, state, peers, r, op, name, port):
    """What the first thread does alone."""

    def signal():
        end = wire_end(peers, r, op["channel_ids"][0])
        state["signals"][end] = state["signals"].get(end, 0) + 1

    def put():
        plan_put(plan, memory, state, peers, r, op, range(op["dst_buff"][0]["size"]))

    queue = state["queues"].setdefault((r, op["channel_ids"][0]), []) if port else None
    if name in ("signal", "rlxsignal"):
        state["entered"].add(r)
        queue.append(signal) if port else signal()
    elif name == "put":
        queue.append(put)
    elif name == "flush":
        need(port, "a flush without a port")
        return not queue
    elif name in ("wait", "rlxwait"):
        return take_one(state["signals"], (r, op["channel_ids"][0]))
    elif name == "sem_release":
        key = (r, op["semaphore_ids"][0])
        state["semaphores"][key] = state["semaphores"].get(key, 0) + 1
    else:
        need(name == "sem_acquire", "unknown operation %s", name)
        return take_one(state["semaphores"], (r, op["semaphore_ids"][0]))
    return True


def take_one(counts, key):
    if not counts.get(key):
        return False
    counts[key] -= 1
    return True


def plan_put(plan, memory, state, peers, r, op, units):
    to, own = op["dst_buff"][0], op["src_buff"][0]
    remote = plan["gpus"][r]["remote_buffers"][to["buffer_id"]]
    need(remote["rank"] == peers[r][op["channel_ids"][0]], "a put to another rank than its channel's")
    need(remote["rank"] in state["entered"], "a put before the receiver has entered")
    here, there = memory[r][own["type"]], memory[remote["rank"]][remote["type"]]
    need(own["size"] == to["size"] and to["index"] + to["size"] <= len(there), "a put past the buffer")
    for u in units:
        there[to["index"] + u] = here[own["index"] + u]


def plan_local(op, m, units):
    name, to = op["name"], op["dst_buff"][0]
    need(len(op["src_buff"]) == (2 if name == "re" else 1), "%s of %d buffers", name, len(op["src_buff"]))
    need(all(b["size"] == to["size"] for b in op["src_buff"]), "%s of other sizes", name)
    need(to["index"] + to["size"] <= len(m[to["type"]]), "%s past the buffer", name)
    for u in units:
        column = [m[b["type"]][b["index"] + u] for b in op["src_buff"]]
        m[to["type"]][to["index"] + u] = sum(column) if None not in column else None


# ---- GOAL and Chakra: nodes that wait for nodes, messages that match by tag ----

GOAL_LINE = re.compile(r"^l(\d+): (?:(send|recv) (\d+)b (to|from) (\d+) tag (\d+)|calc (\d+))$|^l(\d+) requires l(\d+)$")


def read_goal(text):
    ranks, lines = [], [line for line in text.splitlines() if line]
    match = re.match(r"num_ranks (\d+)$", lines[0])
    need(match, "line 1: %s", lines[0])
    for line in lines[1:]:
        if line.startswith("rank "):
            need(line == "rank %d {" % len(ranks), "%s", line)
            ranks.append({})
            continue
        if line == "}":
            continue
        m = GOAL_LINE.match(line)
        need(m, "not GOAL: %s", line)
        if m.group(8):
            ranks[-1][int(m.group(8))]["waits"].append(int(m.group(9)))
        else:
            ranks[-1][int(m.group(1))] = {"kind": m.group(2) or "calc", "bytes": int(m.group(3) or 0), "peer": int(m.group(5) or 0),
                                          "tag": int(m.group(6) or 0), "waits": []}
    need(len(ranks) == int(match.group(1)), "%d ranks of %s", len(ranks), match.group(1))
    return ranks


def varint(data, at):
    value = shift = 0
    while True:
        need(at < len(data), "the file ends in a number")
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def fields(data):
    at, found = 0, []
    while at < len(data):
        key, at = varint(data, at)
        if key & 7 == 0:
            value, at = varint(data, at)
        else:
            need(key & 7 == 2, "wire type %d", key & 7)
            n, at = varint(data, at)
            need(at + n <= len(data), "a field is longer than its message")
            value, at = data[at : at + n], at + n
        found.append((key >> 3, value))
    return found


# AttributeProto: 7 int32, 9 int64, 13 uint64, 27 bool
CHAKRA_FIELDS = {"is_cpu_op": 27, "num_ops": 9, "tensor_size": 13, "comm_size": 9, "comm_tag": 7, "comm_src": 7, "comm_dst": 7}


def read_chakra(files):
    """The same nodes as read_goal gives, from one trace for each rank."""
    ranks = []
    for rank, data in enumerate(files):
        at, messages = 0, []
        while at < len(data):
            n, at = varint(data, at)
            messages.append(data[at : at + n])
            at += n
        need(messages and dict(fields(messages[0])).get(1), "rank %d has no metadata", rank)
        nodes = {}
        for message in messages[1:]:
            node, attributes = {}, {}
            for key, value in fields(message):
                if key == 10:
                    inner = fields(value)
                    attribute = inner[0][1].decode()
                    need(inner[1][0] == CHAKRA_FIELDS[attribute], "%s has the type of field %d", attribute, inner[1][0])
                    attributes[attribute] = inner[1][1]
                else:
                    node[key] = value
            waits, packed, place = [], node.get(5, b""), 0
            while place < len(packed):
                w, place = varint(packed, place)
                waits.append(w)
            kind = {4: "calc", 5: "send", 6: "recv"}[node[3]]
            mine, peer = ("comm_src", "comm_dst") if kind == "send" else ("comm_dst", "comm_src")
            need(kind == "calc" or attributes[mine] == rank, "a message of another rank")
            nodes[node[1]] = {"kind": kind, "bytes": attributes.get("comm_size", 0), "peer": attributes.get(peer, 0),
                              "tag": attributes.get("comm_tag", 0), "waits": waits}
        ranks.append(nodes)
    return ranks


def run_nodes(ranks, random):
    """Every node runs, every message has one partner with the same bytes; the bytes that were sent by each rank."""
    done = [set() for _ in ranks]
    wires, sent = {}, [0] * len(ranks)
    for r, nodes in enumerate(ranks):
        for n, node in nodes.items():
            need(all(w in nodes and w != n for w in node["waits"]), "rank %d: node %d waits for what is not there", r, n)
    live = [(r, n) for r, nodes in enumerate(ranks) for n in nodes]
    while live:
        random.shuffle(live)
        left = []
        for r, n in live:
            node = ranks[r][n]
            key = (r, node["peer"], node["tag"]) if node["kind"] == "send" else (node["peer"], r, node["tag"])
            if not all(w in done[r] for w in node["waits"]) or (node["kind"] == "recv" and key not in wires):
                left.append((r, n))
                continue
            if node["kind"] == "send":
                need(key not in wires, "two messages with one tag")
                wires[key] = node["bytes"]
                sent[r] += node["bytes"]
            elif node["kind"] == "recv":
                need(wires.pop(key) == node["bytes"], "a message is received with another size")
            done[r].add(n)
        need(len(left) < len(live), "nodes wait for each other: %s", left[:3])
        live = left
    need(not wires, "messages are left over")
    return sent
