"""events.py - a reader of the Trace Event format, as Perfetto and chrome://tracing import it: the
rules for complete events and metadata. Answers with what is wrong, in sentences."""

import json

NUMBER = (int, float)


def _wrong_fields(e):
    """What is wrong with one event by itself; "" if nothing is."""
    if not isinstance(e, dict) or e.get("ph") not in ("X", "M"):
        return "neither a complete event nor metadata"
    if not isinstance(e.get("pid"), int) or not isinstance(e.get("name"), str) or not e["name"]:
        return "no pid or no name"
    if not isinstance(e.get("args", {}), dict):
        return "args is no object"
    if e["ph"] == "M":
        known = e["name"] in ("process_name", "thread_name") and isinstance(e["args"].get("name"), str)
        return "" if known and (e["name"] == "process_name" or isinstance(e.get("tid"), int)) else "metadata without a name"
    if not isinstance(e.get("tid"), int) or not isinstance(e.get("cat"), str):
        return "no tid or no category"
    times = [e.get("ts"), e.get("dur")]
    return "" if all(isinstance(t, NUMBER) and not isinstance(t, bool) and t >= 0 for t in times) else "times that are not numbers from 0 on"


def _wrong_tracks(events):
    """Events of a thread lie beside or inside each other: viewers drop those that overlap otherwise."""
    tracks, out = {}, []
    for e in events:
        tracks.setdefault((e["pid"], e["tid"]), []).append((round(e["ts"] * 1e3), round((e["ts"] + e["dur"]) * 1e3)))
    for track, spans in tracks.items():
        open_ends = []
        for start, end in sorted(spans, key=lambda s: (s[0], -s[1])):
            while open_ends and open_ends[-1] <= start:
                open_ends.pop()
            if open_ends and end > open_ends[-1]:
                out.append("pid %d tid %d: an event from %d to %d ns overlaps one that ends at %d" % (*track, start, end, open_ends[-1]))
                break
            open_ends.append(end)
    return out


def wrong(text):
    """Everything that is wrong with a trace."""
    try:
        data = json.loads(text)
    except ValueError as e:
        return ["no JSON: %s" % e]
    if not isinstance(data, dict) or not isinstance(data.get("traceEvents"), list):
        return ["no object with traceEvents"]
    out = [] if data.get("displayTimeUnit", "ms") in ("ms", "ns") else ["a unit that viewers do not know"]
    out += ["event %d: %s" % (i, _wrong_fields(e)) for i, e in enumerate(data["traceEvents"]) if _wrong_fields(e)][:5]
    if out:
        return out
    complete = [e for e in data["traceEvents"] if e["ph"] == "X"]
    named = {(e["name"], e["pid"], e.get("tid")) for e in data["traceEvents"] if e["ph"] == "M"}
    for pid, tid in {(e["pid"], e["tid"]) for e in complete}:
        if ("process_name", pid, None) not in named or ("thread_name", pid, tid) not in named:
            out.append("pid %d tid %d has no name" % (pid, tid))
    return out + _wrong_tracks(complete)
