/* replay.cpp - the transfers of transfers.c in SimGrid (S4U): an independent answer to compare ours with.
 *
 *     replay FILE [PLATFORM.xml]
 *
 * Network model CM02, no TCP window (TCP-gamma 0), no cross-traffic, and times much finer than the default 10 us. Communications go
 * directly from host to host and are created when they may start, so that SimGrid pays for nothing but the transfers. Without a platform
 * file the links and the routes in FILE make the platform. Prints one line: simulated time in us, processor seconds of the simulation
 * itself (without reading files), overlaps.
 *
 * SimGrid lets the latency pass first and the bytes after it, we the other way round: when a message arrives here, its last byte left
 * there. So the next message of a connection may start a latency before the one before it arrives. Here it starts as soon as its data is
 * ready; where that is even earlier, the two transfers overlap, which our rule forbids: such cases are counted, and comparing them would
 * compare the rules. */
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <iostream>
#include <set>
#include <simgrid/s4u.hpp>
#include <string>
#include <vector>

namespace sg4 = simgrid::s4u;

struct Link {
    double bytes_per_s, latency_ps;
    int half;
};
struct Conn {
    unsigned src, dst;
    std::vector<unsigned> links;
    std::vector<unsigned> messages;
    size_t next = 0;
    double latency_s = 0;
    double started_s = 0; /* the last one */
};
struct Message {
    unsigned conn;
    unsigned long long bytes;
    unsigned send, recv;
};
struct Op {
    unsigned need;
    int message = -1; /* that it sends */
    unsigned first, count;
};

static std::vector<Link> links;
static std::vector<Conn> conns;
static std::vector<Message> messages;
static std::vector<Op> ops;
static std::vector<unsigned> successors;
static std::vector<sg4::Host *> hosts;
static std::vector<sg4::CommPtr> running;
static size_t through, overlaps;

static void fail(const std::string &why)
{
    std::fprintf(stderr, "replay: %s\n", why.c_str());
    std::exit(1);
}

static void expect(std::istream &in, const char *word)
{
    std::string got;
    if (!(in >> got) || got != word)
        fail(std::string("expected ") + word + ", found " + got);
}

static unsigned read_file(const char *name)
{
    std::ifstream in(name);
    std::vector<char> room(1 << 20);
    in.rdbuf()->pubsetbuf(room.data(), static_cast<std::streamsize>(room.size()));
    unsigned version, ranks;
    size_t nlinks, nconns, nmessages, nops;
    expect(in, "tutti-transfers");
    if (!(in >> version >> ranks >> nlinks >> nconns >> nmessages >> nops) || version != 1)
        fail("not a list of transfers");
    links.resize(nlinks);
    conns.resize(nconns);
    messages.resize(nmessages);
    ops.resize(nops);
    for (auto &l : links) {
        expect(in, "link");
        in >> l.bytes_per_s >> l.latency_ps >> l.half;
    }
    for (auto &c : conns) {
        size_t n;
        expect(in, "conn");
        in >> c.src >> c.dst >> n;
        c.links.resize(n);
        for (auto &l : c.links)
            in >> l;
    }
    for (size_t i = 0; i < nmessages; i++) {
        Message &m = messages[i];
        expect(in, "msg");
        in >> m.conn >> m.bytes >> m.send >> m.recv;
        conns.at(m.conn).messages.push_back(static_cast<unsigned>(i));
        ops.at(m.send).message = static_cast<int>(i);
    }
    for (auto &o : ops) {
        expect(in, "op");
        in >> o.need >> o.count;
        o.first = static_cast<unsigned>(successors.size());
        for (unsigned k = 0, s; k < o.count && in >> s; k++)
            successors.push_back(s);
    }
    if (!in)
        fail("the file ends too early");
    return ranks;
}

static void make_platform(unsigned ranks)
{
    auto *zone = sg4::create_full_zone("tutti");
    std::vector<sg4::Link *> made;
    for (unsigned r = 0; r < ranks; r++)
        zone->create_host("rank-" + std::to_string(r), 1e9);
    for (size_t d = 0; d < links.size(); d++)
        made.push_back(
            links[d].half && d % 2
                ? made.back()
                : zone->create_link("link-" + std::to_string(d), links[d].bytes_per_s)->set_latency(links[d].latency_ps * 1e-12)->seal());
    std::set<std::pair<unsigned, unsigned>> joined; /* channels of the same two ranks share a route */
    for (auto const &c : conns) {
        std::vector<sg4::LinkInRoute> route;
        if (!joined.emplace(c.src, c.dst).second)
            continue;
        for (unsigned l : c.links)
            route.emplace_back(made[l]);
        auto *from = sg4::Host::by_name("rank-" + std::to_string(c.src))->get_netpoint();
        auto *to = sg4::Host::by_name("rank-" + std::to_string(c.dst))->get_netpoint();
        zone->add_route(from, to, nullptr, nullptr, route, false);
    }
    zone->seal();
}

static void count_down(unsigned op);

/* Messages of a connection start in order, each as soon as it is ready. */
static void try_next(Conn &c)
{
    while (c.next < c.messages.size() && ops[messages[c.messages[c.next]].send].need == 0) {
        unsigned i = c.messages[c.next++];
        c.started_s = sg4::Engine::get_clock();
        running[i] = sg4::Comm::sendto_init(hosts[c.src], hosts[c.dst])->set_payload_size(messages[i].bytes);
        running[i]->set_data(&messages[i]);
        running[i]->start();
    }
}

static void finish(unsigned op)
{
    for (unsigned k = 0; k < ops[op].count; k++)
        count_down(successors[ops[op].first + k]);
}

static void count_down(unsigned op)
{
    if (--ops[op].need > 0)
        return;
    if (ops[op].message >= 0)
        try_next(conns[messages[static_cast<size_t>(ops[op].message)].conn]);
    else
        finish(op);
}

static void completed(sg4::Activity const &a)
{
    auto const *m = static_cast<Message *>(static_cast<sg4::Comm const &>(a).get_data<void>());
    size_t i = static_cast<size_t>(m - messages.data());
    Conn const &c = conns[m->conn];
    through++;
    running[i] = nullptr;
    if (c.next > 0 && c.messages[c.next - 1] != i && c.started_s + c.latency_s < sg4::Engine::get_clock() - 1e-12)
        overlaps++;
    finish(m->send);
    count_down(m->recv);
}

int main(int argc, char **argv)
{
    std::vector<std::string> settings = {"--log=xbt_cfg.thresh:warning", "--cfg=network/model:CM02", "--cfg=network/TCP-gamma:0",
                                         "--cfg=network/crosstraffic:0", "--cfg=surf/precision:1e-12"};
    std::vector<char *> args(argv, argv + argc);
    for (auto &x : settings)
        args.push_back(&x[0]);
    argc = static_cast<int>(args.size());
    args.push_back(nullptr);
    argv = args.data();
    sg4::Engine e(&argc, argv);
    if (argc < 2)
        fail("usage: replay FILE [PLATFORM.xml]");
    unsigned ranks = read_file(argv[1]);
    if (argc > 2)
        e.load_platform(argv[2]);
    else
        make_platform(ranks);
    for (unsigned r = 0; r < ranks; r++)
        hosts.push_back(sg4::Host::by_name("rank-" + std::to_string(r)));
    for (auto &c : conns)
        for (unsigned l : c.links)
            c.latency_s += links[l].latency_ps * 1e-12;
    running.resize(messages.size());
    sg4::Activity::on_completion_cb(completed);
    std::clock_t begin = std::clock();
    std::vector<unsigned> first;
    for (unsigned i = 0; i < ops.size(); i++)
        if (ops[i].need == 0)
            first.push_back(i);
    for (unsigned i : first) {
        ops[i].need = 1;
        count_down(i);
    }
    e.run();
    double took = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
    if (through != messages.size())
        fail("only " + std::to_string(through) + " of " + std::to_string(messages.size()) + " messages went through");
    std::printf("%.6f %.3f %zu\n", sg4::Engine::get_clock() * 1e6, took, overlaps);
    return 0;
}
