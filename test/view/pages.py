#!/usr/bin/env python3
"""pages.py TUTTI - pages of tutti view, and of --html: what is in the file, and what a browser makes of it.

The file: one piece, below 1.5 MB, nothing to load, no text of a plan or network as markup. The
browser (Chromium, over its debugging pipe): open, play, scrub, click a rank, compare, keys, labels,
no errors; and that the script, which runs the operations of every plan on counts, ends with every
result complete. Without a browser the second half is skipped, and said so."""

import base64
import html.parser
import json
import os
import re
import subprocess
import sys
import tempfile
import xml.dom.minidom

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import browser  # noqa: E402
import events as trace_events  # noqa: E402

HOSTILE = "</script><script>window.hit=1</script><img src=x onerror=window.hit=1>"
LIMIT = 1500000
# sections whose table is wider than the place it has
CUT = ("[...document.querySelectorAll('.scroll')].filter(e => e.scrollWidth > e.clientWidth + 1)"
       ".map(e => e.closest('section').getAttribute('aria-label'))")
failures = []


def check(what, good, seen=""):
    print("%s %s%s" % ("ok  " if good else "FAIL", what, "" if good else ": %s" % (seen,)))
    if not good:
        failures.append(what)


def tool(*words, status=0):
    done = subprocess.run([TUTTI, *words], capture_output=True, text=True)
    if done.returncode != status:
        check("tutti " + " ".join(words), False, "exit %d: %s" % (done.returncode, done.stderr))
    return done


def view(name, *words):
    path = os.path.join(folder, name + ".html")
    tool("view", *words, "-o", path)
    with open(path, encoding="utf-8") as f:
        return path, f.read()


def document(text):
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.S).group(1))


def numbers(raw):
    """Numbers of 7 bits a byte: (the next one from a place, the place behind it)."""
    def read(at):
        v = shift = 0
        while True:
            b = raw[at]
            at += 1
            v |= (b & 127) << shift
            shift += 7
            if b < 128:
                return v, at

    return read


def stretch(raw):
    """The inverse of src/export/squeeze.c, once more."""
    out, at, read = bytearray(), 0, numbers(raw)
    while at < len(raw):
        n, at = read(at)
        out += raw[at:at + n]
        at += n
        if at < len(raw):
            length, at = read(at)
            distance, at = read(at)
            for _ in range(length + 4):
                out.append(out[-distance])
    return bytes(out)


def unpack(text):
    """The inverse of src/export/column.c, once more."""
    raw, out, at, last = stretch(base64.b64decode(text)), [], 0, 0
    read = numbers(raw)
    while at < len(raw):
        v, at = read(at)
        if v == 0:
            n, at = read(at)
            out += [last] * n
        else:
            last += -(v + 1) // 2 if v % 2 else v // 2
            out.append(last)
    return out


def check_file(name, text):
    check(name + ": below 1.5 MB", len(text) < LIMIT, len(text))
    check(name + ": its policy allows no loading", "default-src 'none'" in text and "script-src 'sha256-" in text)
    loads = re.findall(r"""(?:src|href)\s*=\s*["'](?!#)[^"']*["']|https?://[^\s"']*|@import|url\(""", text)
    check(name + ": nothing to load", not loads, loads)
    check(name + ": two scripts, one of data", text.count("<script") == 2, text.count("<script"))


def check_times(words):
    """Every message of the page (who, whom, step, start, end) against tutti sim's own timeline."""
    _, text = view("times", *words)
    plan = document(text)["plans"][0]
    s, trace, name = plan["schedule"], os.path.join(folder, "trace.json"), words[3]
    tool("sim", *words, "--timeline", trace)
    with open(trace, encoding="utf-8") as f:
        sends = [e for e in json.load(f)["traceEvents"] if e.get("ph") == "X" and " to rank " in e["name"]]
    want = sorted((e["pid"], e["args"]["peer"], e["args"]["step"], e["ts"], e["ts"] + e["dur"]) for e in sends)
    src, to, step = (unpack(s[k]) for k in ("m_src", "m_to", "m_step"))
    times = list(zip(unpack(s["t_start"]), unpack(s["t_length"])))
    have = sorted((src[i // s["moves"]], src[i // s["moves"]] + to[i // s["moves"]], step[i // s["moves"]],
                   a * s["unit_us"], (a + n) * s["unit_us"]) for i, (a, n) in enumerate(times))
    near = all(x[:3] == y[:3] and abs(x[3] - y[3]) + abs(x[4] - y[4]) <= 3 * s["unit_us"] for x, y in zip(have, want))
    check("messages and times of %s as tutti sim has them" % name, len(have) == len(want) == plan["messages"] and near,
          (len(have), len(want), plan["messages"]))


def check_files():
    _, text = view("compare", "--topo", "torus:4x4", "--algo", "multitree,bucket,ring,hdrm", "--size", "1M")
    check_file("compare", text)
    doc = document(text)
    check("compare: four plans, one refused with its reason", [p["algo"] for p in doc["plans"]] == ["multitree", "bucket", "ring", "hdrm"]
          and "bigraph" in doc["plans"][3]["refused"], doc["plans"][3])
    for words in (["--topo", "torus:4x4", "--algo", "multitree", "--size", "1M"], ["--topo", "star:5", "--algo", "ring", "--size", "12"]):
        check_times(words)
    plan = os.path.join(folder, "plan.json")
    tool("plan", "--topo", "star:4", "--algo", "ring", "--size", "64K", "-o", plan)
    _, text = view("plan", plan)
    check("plan: a made-up network is named as such", document(text)["made_up"])
    tree = os.path.join(folder, "tree.json")
    tool("plan", "--topo", "torus:4x4", "--algo", "multitree", "--size", "64K", "-o", tree)
    _, text = view("named", tree)
    check("plan: multitree brings its network", document(text)["network"]["spec"] == "torus:4x4" and not document(text)["made_up"])
    with open(tree, encoding="utf-8") as f:
        held = f.read()
    with open(tree, "w", encoding="utf-8") as f:
        f.write(held.replace('"torus:4x4"', '"/dev/zero"'))
    done = tool("view", tree, "-o", os.devnull, status=2)
    check("plan: a network that is a file is not opened", "give it with --topo" in done.stderr, done.stderr)
    with open(tree, "w", encoding="utf-8") as f:
        f.write(held.replace('"torus:4x4"', '"torus:2x8"'))
    done = tool("view", tree, "-o", os.devnull, status=2)
    check("plan: another network than it was made for", "give it with --topo" in done.stderr, done.stderr)
    for words, status, sentence in (
        (["view", plan], 2, "-o FILE is needed"),
        (["view", plan, "--topo", "star:5", "-o", os.devnull], 2, "4 ranks"),
        (["view", plan, "--algo", "ring", "-o", os.devnull], 2, "brings its own"),
        (["view", "--topo", "ring:4", "--algo", "hdrm", "--size", "1M", "-o", os.devnull], 1, "bigraph"),
        (["view", "--topo", "ring:4", "--algo", "nosuch", "--size", "1M", "-o", os.devnull], 2, "nosuch"),
        (["view", "/dev/null", "-o", os.devnull], 2, "/dev/null:1:1"),
    ):
        done = tool(*words, status=status)
        check("refusal of %s" % " ".join(words[1:])[:60], sentence in done.stderr + done.stdout, done.stderr)


def check_hostile():
    """Names with markup, of vertices, of the network and of the algorithm, stay text."""
    net, plan = os.path.join(folder, "net.json"), os.path.join(folder, "evil.json")
    tool("plan", "--topo", "ring:4", "--algo", "ring", "--size", "64K", "-o", plan)
    with open(plan, encoding="utf-8") as f:
        text = f.read()
    with open(plan, "w", encoding="utf-8") as f:
        f.write(text.replace('"algo": "ring"', '"algo": "<b onclick=alert(1)>x</b>"'))
    data = json.loads(tool("topo", "ring:4", "--file").stdout)
    data["name"] = HOSTILE
    data["names"] = [HOSTILE, "b&b", "c\u2028", "d"]
    with open(net, "w", encoding="utf-8") as f:
        json.dump(data, f)
    path, text = view("hostile", plan, "--topo", net)
    check_file("hostile", text)
    check("hostile: no markup of the file", "<img" not in text and "<b onclick" not in text)
    return path


def check_traces():
    """A real run: every piece that was sent has arrived, clocks agree; damaged traces are refused."""
    trace = os.path.join(folder, "run.json")
    done = subprocess.run([TUTTI, "run", "-n", "3", "--trace", trace, "--", TUTTI, "bench", "-b", "1K", "-e", "256K", "-f", "16", "--iters", "4"],
                          capture_output=True, text=True, env=dict(os.environ, TUTTI_TRANSPORT="tcp"))
    check("a traced run", done.returncode == 0 and os.path.exists(trace), done.stderr)
    with open(trace, encoding="utf-8") as f:
        text = f.read()
    events = [e for e in json.loads(text)["traceEvents"] if e["ph"] == "X"]
    pieces = {"send": {}, "receive": {}}
    for e in events:
        if e["cat"] in pieces:
            a, ends = e["args"], (e["pid"], e["args"]["peer"])
            pieces[e["cat"]][(ends if e["cat"] == "send" else ends[::-1], a["comm"], a["seq"], a["message"], a["piece"], a["bytes"])] = e["ts"]
    check("trace: what was sent has arrived", pieces["send"].keys() == pieces["receive"].keys() and len(pieces["send"]) > 50,
          (len(pieces["send"]), len(pieces["receive"])))
    check("trace: not before it was sent", all(pieces["receive"][k] >= t for k, t in pieces["send"].items()))
    calls = [e for e in events if e["cat"] == "call"]
    check("trace: every rank has the same calls", len({tuple(e["args"]["seq"] for e in calls if e["pid"] == r) for r in range(3)}) == 1)
    check("trace: by the rules of the format", not trace_events.wrong(text), trace_events.wrong(text))
    path, page = view("run", trace)
    check_file("run", page)
    check("run: three ranks, plans simulated", document(page)["ranks"] == 3 and any("time_us" in p for p in document(page)["plans"]))
    broken = os.path.join(folder, "broken.json")
    for what, bad in (("cut", text[: len(text) // 2]), ("foreign", text.replace("tutti-trace", "trace-tutti")), ("rank", text.replace('"pid":2', '"pid":9')),
                      ("time", re.sub(r'"ts":[0-9.]+', '"ts":-1e99', text, count=9)), ("plan", text.replace('"count":', '"count":-', 1))):
        with open(broken, "w", encoding="utf-8") as f:
            f.write(bad)
        done = tool("view", broken, "-o", os.devnull, status=2)
        check("trace, damaged (%s): an error with its position" % what, re.search(r"broken.json:\d+:\d+: ", done.stderr), done.stderr)
    return path


def check_blame(trace):
    """The headline of a run names what most of the time in calls went to: ranks that entered late, messages, or work. A call of 1,000 us, in
    which rank 2 enters late and the others are idle; rank 2 is named only where waiting for it explains a tenth."""
    with open(trace, encoding="utf-8") as f:
        run = json.load(f)
    call = next(e for e in run["traceEvents"] if e.get("cat") == "call" and e["args"]["plan"] >= 0)
    for late, idle, want, named in ((600.0, 595.0, "waited for ranks to enter (50 %): rank 2", True), (100.0, 800.0, "waited for messages (49 %)", False),
                                    (200.0, 800.0, "waited for messages (43 %)", True), (100.0, 80.0, "worked (93 %)", False)):
        run["traceEvents"] = [dict(call, pid=r, ts=late * (r == 2), dur=1000.0 - late * (r == 2)) for r in range(3)]
        run["traceEvents"] += [{"ph": "X", "cat": "idle", "name": "idle", "pid": r, "tid": 4, "ts": 5.0, "dur": idle, "args": {"comm": 0, "seq": 0, "peer": 2}}
                               for r in range(2)]
        path = os.path.join(folder, "blame.json")
        with open(path, "w", encoding="utf-8") as f:
            json.dump(run, f)
        page, _ = view("blame", path)
        with browser.Page("file://" + page) as p:
            p.wait("window.tutti !== undefined")
            said = p.run("document.querySelector('#verdict').textContent")
            check("browser: the headline, late %g, idle %g us of 1000" % (late, idle), want in said and named == ("rank 2 entered last" in said), said)
            sums = p.run("tutti.rows.map(r => [r.late + r.idle + r.work - r.inside, r.inside + r.outside - 1000])")
            check("browser: the parts of a rank's time add up", all(abs(a) < 1 and abs(b) < 1 for a, b in sums), sums)


def check_event_reader():
    """The reader of the format finds what is wrong."""
    event = {"ph": "X", "name": "a", "cat": "c", "pid": 0, "tid": 1, "ts": 0, "dur": 2.5, "args": {}}
    names = [{"ph": "M", "pid": 0, "name": "process_name", "args": {"name": "p"}}, {"ph": "M", "pid": 0, "tid": 1, "name": "thread_name", "args": {"name": "t"}}]

    def found(*more, names=names):
        return trace_events.wrong(json.dumps({"traceEvents": [*names, event, *more]}))

    inside, beside, across = dict(event, ts=1, dur=1), dict(event, ts=2.5), dict(event, ts=1, dur=5)
    check("events: beside and inside are right", not found(inside) and not found(beside), found(inside) + found(beside))
    for what, seen in (("overlap", found(across)), ("time", found(dict(event, ts=-1))), ("phase", found(dict(event, ph="Q"))), ("no dur", found({k: v for k, v in event.items() if k != "dur"})),
                       ("no name", found(names=names[:1])), ("cut", trace_events.wrong('{"traceEvents": ['))):
        check("events: the reader finds %s" % what, seen, seen)


def check_steps():
    """A trainer's run: steps of every rank, in which launches lie and which waits shorten, and the plan."""
    trace = os.path.join(folder, "steps.json")
    done = subprocess.run([TUTTI, "run", "-n", "2", "--trace", trace, "--", TUTTI, "replay", "--model", "alexnet", "--batch", "1", "--policy", "dear", "--steps", "3"],
                          capture_output=True, text=True)
    check("a traced training", done.returncode == 0 and os.path.exists(trace), done.stderr)
    with open(trace, encoding="utf-8") as f:
        text = f.read()
    check("steps: by the rules of the format", not trace_events.wrong(text), trace_events.wrong(text))
    data = json.loads(text)
    trainer, mine = data["trainers"][0], [e for e in data["traceEvents"] if e["ph"] == "X" and e["args"].get("comm") == data["trainers"][0]["comm"]]
    of = {(k, r): [e for e in mine if e["cat"] == k and e["pid"] == r] for k in ("step", "gradients", "launch", "exposed") for r in (0, 1)}
    numbers = [e["args"]["seq"] for e in of["step", 0]]
    check("steps: the same on both ranks", len(numbers) >= 3 and numbers == [e["args"]["seq"] for e in of["step", 1]], numbers)
    ends = [[(e["ts"], e["ts"] + e["dur"]) for e in of["step", r]] for r in (0, 1)]
    check("steps: each begins where the last one ended", all(abs(a[1] - b[0]) < 0.01 for x in ends for a, b in zip(x, x[1:])))
    want = {(s, k) for s in numbers for k in range(len(trainer["launches"]))}
    check("steps: every launch of every step", all({(e["args"]["seq"], e["args"]["launch"]) for e in of["launch", r]} == want for r in (0, 1)))
    check("steps: launches as described", all(e["name"] == trainer["launches"][e["args"]["launch"]]["coll"] and e["args"]["bytes"] == trainer["launches"][e["args"]["launch"]]["bytes"]
                                            for r in (0, 1) for e in of["launch", r]))
    launch = {(e["pid"], e["args"]["seq"], e["args"]["launch"]): e["ts"] + e["dur"] for r in (0, 1) for e in of["launch", r]}
    check("steps: a wait ends with its launch", of["exposed", 0] and all(e["ts"] + e["dur"] >= launch[e["pid"], e["args"]["seq"], e["args"]["launch"]] - 0.01
                                                                        for r in (0, 1) for e in of["exposed", r]))
    spans = trainer["spans"]
    check("steps: the plan has its time", max(s["end_ps"] for s in spans) == trainer["iteration_ps"] and
          sum(s["end_ps"] - s["start_ps"] for s in spans if s["kind"] == "backward") == trainer["backward_ps"], trainer["iteration_ps"])
    path, page = view("steps", trace)
    check_file("steps", page)
    broken = os.path.join(folder, "broken.json")
    for what, bad in (("span", text.replace('"start_ps":', '"start_ps": 99999999999999999, "was":', 1)), ("coll", re.sub(r'("launches": *\[\s*\{"coll": *)"[a-z-]+"', r'\1"scatter-reduce"', text, count=1)),
                      ("name", text.replace('"policy": "dear"', '"policy": "%s"' % ("d" * 999), 1))):
        with open(broken, "w", encoding="utf-8") as f:
            f.write(bad)
        done = tool("view", broken, "-o", os.devnull, status=2)
        check("trainer, damaged (%s): an error with its position" % what, bad != text and re.search(r"broken.json:\d+:\d+: ", done.stderr), done.stderr)
    with open(broken, "w", encoding="utf-8") as f:
        f.write(text.replace('"policy": "dear"', '"policy": "<img onerror=hit>"').replace('"first": "', '"first": "<b>'))
    view("evil-steps", broken)
    return path, os.path.join(folder, "evil-steps.html")


class Cells(html.parser.HTMLParser):
    """The texts of all table cells of a page, and the names of all its elements."""

    def __init__(self):
        super().__init__()
        self.cells, self.inside, self.tags, self.loads = [], False, set(), []

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.loads += [a for a in attrs if a[0] in ("src", "href", "xlink:href") or a[0].startswith("on")]
        self.inside = tag == "td"
        if self.inside:
            self.cells.append("")

    def handle_data(self, data):
        if self.inside:
            self.cells[-1] += data.rstrip("\n")


def read_report(name, path):
    with open(path, encoding="utf-8") as f:
        text = f.read()
    check(name + ": below 1.5 MB", len(text) < LIMIT, len(text))
    for picture in re.findall(r"<svg.*?</svg>", text, re.S):
        xml.dom.minidom.parseString(picture)
    cells = Cells()
    cells.feed(text)
    check(name + ": no script, nothing to load", "script-src 'none'" in text and "script" not in cells.tags
          and not cells.loads and not re.search(r"@import|url\(", text), cells.loads)
    return text, cells


def check_reports():
    """Pages of explain, train-sim, bench and repro hold the figures that --json has."""
    paths = {name: os.path.join(folder, "page-%s.html" % name) for name in ("explain", "step", "bench")}
    words = ["--topo", os.path.join(folder, "net.json"), "--size", "1M", "--envelope", "1K..64K"]
    want = json.loads(tool("explain", *words, "--json", "--html", paths["explain"]).stdout)
    text, cells = read_report("explain page", paths["explain"])
    check("explain page: names stay text", "img" not in cells.tags and "&lt;img" in text)
    for c in want["candidates"]:
        check("explain page has %s" % c["algo"], c["algo"] in cells.cells and
              (c["refused"] or "%.3f" % ((c["flow_us"] or c["predicted_us"]) / want["bound_us"]) in cells.cells) and c["why"] in cells.cells)
    done = tool("explain", *words, "--json", "--html", "-", status=2)
    check("explain: one of --json and --html -", "standard output" in done.stderr, done.stderr)
    profile = os.path.join(folder, "profile.json")
    tool("train-sim", "--model", "alexnet", "--topo", "star:4", "--policy", "dear", "--write-profile", profile)
    with open(profile, encoding="utf-8") as f:
        data = f.read()
    with open(profile, "w", encoding="utf-8") as f:
        f.write(data.replace("conv1.weight", "<img onerror=hit>"))
    want = json.loads(tool("train-sim", "--model", profile, "--topo", "star:4@1Gbps,30us", "--json", "--html", paths["step"]).stdout)
    text, cells = read_report("step page", paths["step"])
    check("step page: names stay text", "img" not in cells.tags and "<img onerror=hit>" in cells.cells)
    check("step page: a row per policy", all(p["policy"] in cells.cells for p in want["policies"]))
    check("step page: tracks and bars", text.count("<svg") == 1 + min(6, len(want["policies"])), text.count("<svg"))
    want = json.loads(tool("bench", "-n", "2", "-b", "1K", "-e", "4K", "--iters", "2", "--check", "--json", "--html", paths["bench"]).stdout)
    text, cells = read_report("bench page", paths["bench"])
    check("bench page: the rows of the table", all("%.2f" % r["time_us"] in cells.cells and "%.3f" % r["busbw_GBs"] in cells.cells
                                                   for r in want["rows"]), cells.cells)
    done = tool("bench", "-n", "2", "--html", "/nosuch/page.html", status=2)
    check("bench: a page that cannot be written", "nosuch" in done.stderr, done.stderr)
    want = json.loads(tool("repro", "flexreduce", "--quick", "--json", "--html", folder, "--svg", folder).stdout)
    text, cells = read_report("repro page", os.path.join(folder, "flexreduce.html"))
    check("repro page: what must hold", all(c["text"] in cells.cells for c in want["checks"]))
    rows = want["tables"]["hosts_8_4_2_1"]
    check("repro: bus bandwidth and ratio as defined", all(abs(r["busbw_GBs"] / (r["bytes"] / r["time_us"] / 1e3 * 28 / 15) - 1) < 1e-9
                                                          and r["ratio_to_bound"] >= 0.999 for r in rows), rows)
    for name in ("hosts_4_2", "hosts_4_2-busbw_GBs", "hosts_4_2-ratio_to_bound"):
        check("repro: picture " + name, os.path.exists(os.path.join(folder, "flexreduce-%s.svg" % name)))
    return list(paths.values()) + [os.path.join(folder, "flexreduce.html")]


def check_report_pages(paths):
    with browser.Page("about:blank") as p:
        for path in paths:
            p.go("file://" + path)
            check("browser: no errors on " + os.path.basename(path), not p.errors and p.run("document.querySelectorAll('svg.plot').length") > 0, p.errors)
            wide = p.run("[...document.querySelectorAll('svg.plot text')].filter(t => { const b = t.getBBox(), s = t.ownerSVGElement.viewBox.baseVal;"
                         " return !t.getAttribute('transform') && (b.x < -1 || b.x + b.width > s.width + 1 || b.y + b.height > s.height + 1); }).map(t => t.textContent)")
            check("browser: all text inside its picture on " + os.path.basename(path), not wide, wide)


def check_run_page(path):
    with browser.Page("file://" + path) as p:
        p.wait("window.tutti !== undefined")
        check("browser: the run's calls are there", p.run("tutti.calls.length") > 4 and p.run("tutti.view.call !== null"))
        before = p.run("tutti.view.call.seq")
        p.key("Home", 36)
        p.key("+", 187)
        check("browser: + zooms", p.run("tutti.view.to - tutti.view.from < Math.max(...tutti.events.map(e => e.end))"))
        p.key("p", 80)
        check("browser: p selects the call before", p.run("tutti.view.call.seq") <= before)
        p.run("new Promise(requestAnimationFrame)")
        check("browser: the chosen call is described", "entered last" in p.run("document.querySelector('.panel p').textContent"))
        check("browser: no table of the run's page is cut off", not p.run(CUT), p.run(CUT))
        check("browser: no errors on the run's page", not p.errors, p.errors)


def check_steps_page(path, hostile):
    with browser.Page("file://" + path) as p:
        p.wait("window.tutti !== undefined")
        n = p.run("tutti.trainers[0].steps.length")
        check("browser: the steps are there", n >= 3, n)
        adds = "tutti.trainers[0].steps.every(s => s.by.every(x => x.exposed_us >= 0 && x.hidden_us >= 0 && x.busy_us <= x.whole_us + 1 && Math.abs(x.compute_us + x.exposed_us - x.whole_us) < 1))"
        check("browser: compute and waiting are the step", p.run(adds))
        period = "(t => { const s = Steps.planned(t), sum = k => s.filter(x => x.kind === k).reduce((v, x) => v + x.end - x.start, 0);" \
                 " return [sum('forward') - t.forward_us, sum('backward') - t.backward_us, Math.max(...s.map(x => x.end)) - t.iteration_us]; })(tutti.trainers[0])"
        check("browser: the planned step, cut at step(), is whole", all(abs(x) < 1e-3 for x in p.run(period)), p.run(period))
        check("browser: the headline is about steps", "A training step (dear) takes" in p.run("document.getElementById('verdict').textContent"))
        p.run("s = document.getElementById('step'); s.value = '1'; s.dispatchEvent(new Event('change'))")
        check("browser: a step is selected", p.run("tutti.steps.state.step === tutti.trainers[0].steps[1]"))
        check("browser: a row for each rank, and the plan", p.run("document.querySelectorAll('[aria-label=\"Training steps\"] tbody tr').length") == 3)
        check("browser: no table of steps is cut off", not p.run(CUT), p.run(CUT))
        check("browser: no errors on the page of steps", not p.errors, p.errors)
    with browser.Page("file://" + hostile) as p:
        p.wait("window.tutti !== undefined")
        check("browser: names of trainers stay text", p.run("document.querySelectorAll('img, b[onclick]').length === 0") and not p.errors
              and "<img onerror=hit>" in p.run("document.getElementById('verdict').textContent"), p.errors)


def check_browser(hostile):
    words = ["--topo", "torus:4x4", "--algo", "multitree,ring", "--size", "16M"]
    path, _ = view("torus", *words)
    with browser.Page("file://" + path) as p:
        p.wait("window.tutti !== undefined && tutti.cards[0].now.textContent !== ''")
        check("browser: it plays by itself, and pauses by its button", p.run("tutti.state.playing"))
        p.run("document.querySelector('button.play').click()")
        check("browser: paused", not p.run("tutti.state.playing"))
        p.key(" ", 32)
        p.wait("tutti.state.playing")
        p.wait("tutti.state.pos > 0")
        p.key("Escape", 27)
        p.key(" ", 32)
        check("browser: space plays and pauses", not p.run("tutti.state.playing"))
        p.key("Home", 36)
        check("browser: Home", p.run("tutti.state.pos") == 0)
        p.key("ArrowRight", 39)
        first = p.run("tutti.plans[0].stepEnd[0]")
        check("browser: arrow to the end of the first step", abs(p.run("tutti.state.pos") - first) < 1e-6 * first, p.run("tutti.state.pos"))
        p.run("s = document.getElementById('slider'); s.value = 300; s.dispatchEvent(new Event('input'))")
        check("browser: the slider scrubs", abs(p.run("tutti.state.pos / tutti.state.max") - 0.3) < 1e-3)
        check("browser: messages under way", p.run("tutti.underWay(0) + tutti.underWay(1)") >= 16)
        box = json.loads(p.run("JSON.stringify([tutti.cards[1].canvas.getBoundingClientRect(), tutti.vertex(1, 6)])"))
        p.click(box[0]["x"] + box[1][0], box[0]["y"] + box[1][1])
        check("browser: a click selects the rank", p.run("[tutti.state.plan, tutti.state.rank]") == [1, 6], p.run("[tutti.state.plan, tutti.state.rank]"))
        p.wait("document.querySelectorAll('.scroll tbody tr').length > 0 && document.getElementById('rank').value == '6'")
        check("browser: its operations are listed", p.run("document.querySelectorAll('.scroll tbody tr').length") == 60)
        check("browser: the headline compares", re.search(r"multitree is \d\.\d times as fast as ring", p.run("document.getElementById('verdict').textContent")),
              p.run("document.getElementById('verdict').textContent"))
        p.key("t", 84)
        check("browser: by step", p.run("tutti.state.steps && tutti.state.max") == 30)
        p.key("b", 66)
        check("browser: the bound is shown", p.run("tutti.state.bound"))
        nameless = "[...document.querySelectorAll('button,select,input,canvas')].filter(e => !e.getAttribute('aria-label')).length"
        p.run("new Promise(requestAnimationFrame)")
        check("browser: everything has a name for screen readers", p.run(nameless) == 0, p.run(nameless))
        check("browser: no table is cut off", not p.run(CUT), p.run(CUT))
        check("browser: a pause is announced", p.run("document.getElementById('live').textContent") != "")
        check("browser: no errors", not p.errors, p.errors)
    with browser.Page("file://" + hostile) as p:
        p.wait("window.tutti !== undefined")
        check("browser: names stay text", p.run("window.hit === undefined && document.querySelectorAll('img, b[onclick]').length === 0"))
        check("browser: the name is shown", HOSTILE[:9] in p.run("document.getElementById('title').textContent"))
        check("browser: no errors with hostile names", not p.errors, p.errors)
    check_results()


def check_results():
    """The script's own run of the operations ends with every result complete."""
    cases = [("star:6", "allreduce", "ring,recursive-doubling,direct,double-tree,swing,oneshot"), ("torus:4x4", "reduce-scatter", "bucket,ring,multitree"),
             ("fattree:4,2", "all-gather", "ring,forest,direct"), ("star:5", "broadcast", "binomial,chain"), ("star:4", "all-to-all", "direct"),
             ("dragonfly:3,2,2", "reduce", "binomial"), ("tree:((4 4)(4 2))", "allreduce", "flex,hierarchical"), ("torus:24x24", "allreduce", "bucket")]
    whole = ("tutti.plans.map(p => p.folded ? -1 : (p.hold.after(p.stepNumbers.length),"
             " Math.min(...Array.from({length: p.ranks}, (_, r) => p.hold.part(r)))))")
    with browser.Page("about:blank") as p:
        for network, coll, algos in cases:
            path, _ = view("case", "--topo", network, "--coll", coll, "--algo", algos, "--size", "%d" % (4 * 5 * 6 * 7 * 16))
            p.go("file://" + path)
            p.wait("window.tutti !== undefined")
            p.run("tutti.play(false); tutti.moveTo(tutti.state.max / 2)")
            p.run("new Promise(requestAnimationFrame)")
            parts = p.run(whole)
            want = -1 if network == "torus:24x24" else 1
            check("results of %s on %s: %s" % (coll, network, algos), parts and all(x == want for x in parts), parts)
            check("no errors on " + network, not p.errors, p.errors)


TUTTI = os.path.abspath(sys.argv[1])
with tempfile.TemporaryDirectory() as folder:
    check_files()
    evil = check_hostile()
    check_event_reader()
    run = check_traces()
    steps = check_steps()
    reports = check_reports()
    if browser.find():
        check_browser(evil)
        check_run_page(run)
        check_blame(os.path.join(folder, "run.json"))
        check_steps_page(*steps)
        check_report_pages(reports)
    else:
        print("skipped: no browser (Debian: apt install chromium); the pages were not opened")
print("%d failures" % len(failures))
sys.exit(bool(failures))
