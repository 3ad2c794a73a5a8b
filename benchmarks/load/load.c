/* Load on a server of Kafka's protocol: raw frames, one thread, epoll.

     load HOST PORT WORK [connections] [in flight] [seconds] [members a group] [server's pid]
          [control's port]
     load fixed PORT

   WORK: `beats` (Heartbeat 4 of members that joined), `commits` (OffsetCommit 8 of ten partitions
   of the topic `load` by such members), `herd` (all connections join one group at once, and send
   heartbeats once they are synced, as clients do; the time until all are synced in one generation),
   `life` (a heartbeat of each member, then the server's virtual clock is moved on by three seconds
   through its control, and so on; `seconds` of virtual time), `plain` (the frames of beats without
   joining: for a server that answers anything). `fixed` is that server: it splits frames and
   answers each with the same twelve bytes; what the generator reaches with it is its own ceiling.
   Prints one line of JSON. Linux only: CPU seconds of the server are read from /proc. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>
#include <fcntl.h>
#include "frames.h"
#include "times.h"

enum { JOIN = 11, HEARTBEAT = 12, LEAVE = 13, SYNC = 14,
       COMMIT = 8, PARTITIONS = 10, SESSION_MS = 60000 };
enum { REBALANCE_IN_PROGRESS = 27, ILLEGAL_GENERATION = 22, UNKNOWN_MEMBER_ID = 25, SLOTS = 160,
       MOST_IN_FLIGHT = 256, BEAT_MS = 3000, HERD_BEAT_MS = 500 };
typedef enum { BEATS, COMMITS, HERD, LIFE, PLAIN } Work;
typedef enum { JOINING, SYNCING, READY, RUNNING } State;

typedef struct {
    int fd, state, in_flight, waits_to_write, beating;
    uint64_t beats_at_ns;
    int32_t id, generation;
    char group[32], member[128];
    Buffer in, out, request;
    uint64_t sent_ns[MOST_IN_FLIGHT];
    unsigned first_sent, last_sent;
} Conn;

static struct {
    Work work;
    int in_flight, poll, stopping, leaving;
    long ready, connections, answers, errors;
    long latencies[SLOTS];
    uint64_t slowest_ns;
} all;

/* Four slots for each doubling of a time from 1 microsecond on. */
static int slot_of(uint64_t ns)
{
    double us = (double)ns / 1000.0, edge = 1.0;
    int slot = 0;
    while (slot < SLOTS - 1 && us > edge) { edge *= 1.189207115; slot++; }
    return slot;
}

static double quantile_us(double q)
{
    long total = 0, seen = 0;
    double edge = 1.0;
    for (int n = 0; n < SLOTS; n++) total += all.latencies[n];
    for (int n = 0; n < SLOTS; n++, edge *= 1.189207115) {
        seen += all.latencies[n];
        if ((double)seen >= q * (double)total) return edge;
    }
    return edge;
}

static void flush_out(Conn *c)
{
    struct epoll_event event = { .events = EPOLLIN, .data.ptr = c };
    size_t sent = 0;
    while (sent < c->out.size) {
        ssize_t n = write(c->fd, c->out.data + sent, c->out.size - sent);
        if (n < 0 && errno == EAGAIN) break;
        if (n < 0) fail("the server closed a connection");
        sent += (size_t)n;
    }
    memmove(c->out.data, c->out.data + sent, c->out.size - sent);
    c->out.size -= sent;
    if ((c->out.size > 0) != c->waits_to_write) {
        c->waits_to_write = c->out.size > 0;
        if (c->waits_to_write) event.events |= EPOLLOUT;
        epoll_ctl(all.poll, EPOLL_CTL_MOD, c->fd, &event);
    }
}

static void send_join(Conn *c)
{
    size_t at = begin_frame(&c->out, JOIN, 3, c->id++, 0);
    text(&c->out, c->group);
    i32(&c->out, SESSION_MS); i32(&c->out, SESSION_MS);
    text(&c->out, c->member);
    text(&c->out, "consumer");
    i32(&c->out, 1);
    text(&c->out, "range");
    i32(&c->out, 8); i64(&c->out, 0);
    end_frame(&c->out, at);
    c->state = JOINING;
}

/* The leader gives every member eight bytes. */
static void send_sync(Conn *c, Reader *members, int32_t number)
{
    size_t at = begin_frame(&c->out, SYNC, 2, c->id++, 0);
    char member[128];
    text(&c->out, c->group);
    i32(&c->out, c->generation);
    text(&c->out, c->member);
    i32(&c->out, number);
    for (int32_t n = 0; n < number; n++) {
        get_text(members, member, sizeof member);
        take(members, (size_t)get32(members));
        text(&c->out, member);
        i32(&c->out, 8); i64(&c->out, 0);
    }
    end_frame(&c->out, at);
    c->state = SYNCING;
}

/* A heartbeat of a member that is synced, while others still join. */
static void send_beat(Conn *c, uint64_t now)
{
    size_t at = begin_frame(&c->out, HEARTBEAT, 1, c->id++, 0);
    text(&c->out, c->group);
    i32(&c->out, c->generation);
    text(&c->out, c->member);
    end_frame(&c->out, at);
    c->beating = 1;
    c->beats_at_ns = now + HERD_BEAT_MS * 1000000ull;
}

static void make_request(Conn *c)
{
    Buffer *b = &c->request;
    int commits = all.work == COMMITS;
    size_t at = begin_frame(b, commits ? COMMIT : HEARTBEAT, commits ? 8 : 4, 0, 1);
    compact(b, c->group);
    i32(b, c->generation);
    compact(b, c->member);
    i8(b, 0);
    if (commits) {
        count(b, 1);
        compact(b, "load");
        count(b, PARTITIONS);
        for (int n = 0; n < PARTITIONS; n++) {
            i32(b, n); i64(b, 1000 + n); i32(b, -1); compact(b, ""); i8(b, 0);
        }
        i8(b, 0);
    }
    i8(b, 0);
    end_frame(b, at);
}

static void send_requests(Conn *c, uint64_t now)
{
    while (c->in_flight < all.in_flight && !all.stopping) {
        put32(c->request.data + 8, c->id++);
        add(&c->out, c->request.data, c->request.size);
        c->sent_ns[c->last_sent++ % MOST_IN_FLIGHT] = now;
        c->in_flight++;
    }
}

static int commit_error(Reader *r)
{
    int error = 0;
    unsigned topics = get_count(r);
    for (unsigned t = 0; t < topics && !r->bad; t++) {
        take(r, get_count(r));
        unsigned partitions = get_count(r);
        for (unsigned p = 0; p < partitions && !r->bad; p++) {
            int one;
            get32(r);
            one = get16(r);
            if (one) error = one;
            take(r, 1);
        }
        take(r, 1);
    }
    return error;
}

static void answered(Conn *c, Reader *r, uint64_t now)
{
    uint64_t took;
    int error;
    take(r, 1);
    get32(r);
    error = all.work == COMMITS ? commit_error(r) : get16(r);
    if (r->bad) fail("an answer is too short");
    if (error && all.errors++ == 0) fprintf(stderr, "load: error %d\n", error);
    took = now - c->sent_ns[c->first_sent++ % MOST_IN_FLIGHT];
    all.latencies[slot_of(took)]++;
    if (took > all.slowest_ns) all.slowest_ns = took;
    all.answers++;
    c->in_flight--;
}

static void take_answer(Conn *c, Reader r, uint64_t now)
{
    char word[128], leader[128];
    int error;
    get32(&r);
    if (all.leaving) return;
    if (c->state == RUNNING) { answered(c, &r, now); return; }
    get32(&r);
    error = get16(&r);
    if (c->state == READY) {
        c->beating = 0;
        if (!error) return;
        all.ready--;
        if (error == UNKNOWN_MEMBER_ID) { all.errors++; c->member[0] = 0; }
        send_join(c);
    } else if (c->state == JOINING) {
        c->generation = get32(&r);
        get_text(&r, word, sizeof word);
        get_text(&r, leader, sizeof leader);
        get_text(&r, c->member, sizeof c->member);
        if (error || r.bad) { fprintf(stderr, "load: join: error %d\n", error); exit(1); }
        send_sync(c, &r, get32(&r));
    } else if (error == REBALANCE_IN_PROGRESS || error == ILLEGAL_GENERATION) {
        send_join(c);
    } else if (error == UNKNOWN_MEMBER_ID) {
        all.errors++;
        c->member[0] = 0;
        send_join(c);
    } else {
        if (error) { fprintf(stderr, "load: sync: error %d\n", error); exit(1); }
        c->state = READY;
        c->beats_at_ns = now + HERD_BEAT_MS * 1000000ull;
        all.ready++;
    }
}

static void receive(Conn *c)
{
    uint8_t chunk[65536];
    size_t at = 0;
    ssize_t n = read(c->fd, chunk, sizeof chunk);
    uint64_t now = now_ns();
    if (n < 0 && errno == EAGAIN) return;
    if (n <= 0) fail("the server closed a connection");
    add(&c->in, chunk, (size_t)n);
    while (c->in.size - at >= 4) {
        Reader head = { c->in.data + at, c->in.data + at + 4, 0 };
        size_t size = (size_t)(uint32_t)get32(&head);
        if (c->in.size - at - 4 < size) break;
        take_answer(c, (Reader){ c->in.data + at + 4, c->in.data + at + 4 + size, 0 }, now);
        at += 4 + size;
    }
    memmove(c->in.data, c->in.data + at, c->in.size - at);
    c->in.size -= at;
    if (c->state == RUNNING) send_requests(c, now);
    flush_out(c);
}

static void turn(int wait_ms)
{
    struct epoll_event events[256];
    int n = epoll_wait(all.poll, events, 256, wait_ms);
    for (int k = 0; k < n; k++) {
        Conn *c = events[k].data.ptr;
        if (events[k].events & EPOLLOUT) flush_out(c);
        if (events[k].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) receive(c);
    }
}

static void open_all(Conn *conns, const char *host, int port, int a_group)
{
    struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
    int one = 1;
    if (inet_pton(AF_INET, host, &to.sin_addr) != 1) fail("HOST is an IPv4 address");
    for (long n = 0; n < all.connections; n++) {
        Conn *c = &conns[n];
        struct epoll_event event = { .events = EPOLLIN, .data.ptr = c };
        c->fd = socket(AF_INET, SOCK_STREAM, 0);
        if (c->fd < 0 || connect(c->fd, (struct sockaddr *)&to, sizeof to)) {
            perror("load: connect");
            exit(1);
        }
        setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        fcntl(c->fd, F_SETFL, O_NONBLOCK);
        snprintf(c->group, sizeof c->group, "load-%ld", all.work == HERD ? 0 : n / a_group);
        if (all.work == PLAIN) snprintf(c->member, sizeof c->member, "load-%036ld", n);
        epoll_ctl(all.poll, EPOLL_CTL_ADD, c->fd, &event);
    }
}

/* Members that are synced learn of a rebalance by their heartbeats. Only a herd needs them: what
   joins alone, or as few, is synced before the first is due. */
static void beat_while_joining(Conn *conns)
{
    uint64_t now = now_ns();
    for (long n = 0; n < all.connections; n++) {
        Conn *c = &conns[n];
        if (c->state == READY && !c->beating && now >= c->beats_at_ns) {
            send_beat(c, now);
            flush_out(c);
        }
    }
}

static int all_synced(const Conn *conns)
{
    if (all.ready < all.connections) return 0;
    for (long n = 1; all.work == HERD && n < all.connections; n++)
        if (conns[n].generation != conns[0].generation) return 0;
    /* What goes on with other requests waits for the answers to its heartbeats. */
    for (long n = 0; all.work != HERD && n < all.connections; n++)
        if (conns[n].beating) return 0;
    return 1;
}

/* All members of all groups, each synced in its group's last generation. */
static void join_all(Conn *conns)
{
    uint64_t end = now_ns() + 120000000000u;
    for (long n = 0; n < all.connections; n++) { send_join(&conns[n]); flush_out(&conns[n]); }
    while (!all_synced(conns)) {
        turn(20);
        beat_while_joining(conns);
        if (now_ns() > end) fail("not all members were synced within two minutes");
    }
}

static void drive(Conn *conns, double seconds)
{
    uint64_t end = now_ns() + (uint64_t)(seconds * 1e9);
    for (long n = 0; n < all.connections; n++) {
        conns[n].state = RUNNING;
        make_request(&conns[n]);
        send_requests(&conns[n], now_ns());
        flush_out(&conns[n]);
    }
    while (now_ns() < end) turn(10);
}

/* Asks the control to move the clock, and waits until it has. */
static void advance(const struct sockaddr_in *control, int ms)
{
    char request[256], body[32], answer[1024];
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    int size = snprintf(body, sizeof body, "{\"ms\": %d}", ms);
    ssize_t got;
    size = snprintf(request, sizeof request, "POST /advance HTTP/1.1\r\nHost: 127.0.0.1\r\n"
                    "Content-Length: %d\r\nConnection: close\r\n\r\n%s", size, body);
    if (fd < 0 || connect(fd, (const struct sockaddr *)control, sizeof *control)
        || write(fd, request, (size_t)size) != size || (got = read(fd, answer, sizeof answer)) < 12
        || memcmp(answer + 9, "200", 3))
        fail("the control did not move the clock");
    while (read(fd, answer, sizeof answer) > 0) {}
    close(fd);
}

/* All members go, so that a later load finds its groups empty. */
static void leave(Conn *conns)
{
    uint64_t end = now_ns() + 500000000u;
    all.leaving = all.stopping = 1;
    for (long n = 0; n < all.connections; n++) {
        size_t at = begin_frame(&conns[n].out, LEAVE, 1, 0, 0);
        text(&conns[n].out, conns[n].group);
        text(&conns[n].out, conns[n].member);
        end_frame(&conns[n].out, at);
        flush_out(&conns[n]);
    }
    while (now_ns() < end) turn(50);
}

static void live(Conn *conns, const char *host, int control, double seconds)
{
    struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons((uint16_t)control) };
    long rounds = (long)(seconds * 1000 / BEAT_MS);
    inet_pton(AF_INET, host, &to.sin_addr);
    for (long n = 0; n < all.connections; n++) {
        conns[n].state = RUNNING;
        make_request(&conns[n]);
    }
    for (long round = 0; round < rounds; round++) {
        long wanted = all.answers + all.connections;
        all.stopping = 0;
        for (long n = 0; n < all.connections; n++) {
            send_requests(&conns[n], now_ns());
            flush_out(&conns[n]);
        }
        all.stopping = 1;            /* an answer is not followed by the next heartbeat at once */
        while (all.answers < wanted) turn(100);
        advance(&to, BEAT_MS);
    }
}

static void fixed(int port)
{
    static const uint8_t rest[8] = { 0 };
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
    struct epoll_event event = { .events = EPOLLIN }, events[256];
    int listener = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (bind(listener, (struct sockaddr *)&at, sizeof at) || listen(listener, 4096))
        fail("PORT is taken");
    all.poll = epoll_create1(0);
    epoll_ctl(all.poll, EPOLL_CTL_ADD, listener, &event);
    printf("listening\n");
    fflush(stdout);
    for (;;) {
        int n = epoll_wait(all.poll, events, 256, -1);
        for (int k = 0; k < n; k++) {
            Conn *c = events[k].data.ptr;
            uint8_t chunk[65536];
            ssize_t got;
            size_t begin = 0;
            if (!c) {
                c = calloc(1, sizeof *c);
                c->fd = accept(listener, NULL, NULL);
                setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
                epoll_ctl(all.poll, EPOLL_CTL_ADD, c->fd,
                          &(struct epoll_event){ .events = EPOLLIN, .data.ptr = c });
                continue;
            }
            got = read(c->fd, chunk, sizeof chunk);
            if (got <= 0) { close(c->fd); free(c->in.data); free(c->out.data); free(c); continue; }
            add(&c->in, chunk, (size_t)got);
            while (c->in.size - begin >= 12) {
                Reader r = { c->in.data + begin, c->in.data + c->in.size, 0 };
                size_t size = (size_t)(uint32_t)get32(&r);
                if (c->in.size - begin - 4 < size) break;
                i32(&c->out, 12);
                add(&c->out, c->in.data + begin + 8, 4);
                add(&c->out, rest, sizeof rest);
                begin += 4 + size;
            }
            memmove(c->in.data, c->in.data + begin, c->in.size - begin);
            c->in.size -= begin;
            if (c->out.size && write(c->fd, c->out.data, c->out.size) != (ssize_t)c->out.size)
                fail("the answers of one turn do not fit the socket");
            c->out.size = 0;
        }
    }
}

int main(int argc, char **argv)
{
    static const char *const works[] = { "beats", "commits", "herd", "life", "plain" };
    double given[6] = { 100, 8, 5, 1, 0, 0 }, server, own, took;
    uint64_t began;
    Conn *conns;
    if (argc == 3 && !strcmp(argv[1], "fixed")) fixed(atoi(argv[2]));
    if (argc < 4) fail("load HOST PORT WORK [connections] [in flight] [seconds] [members] [pid]");
    for (all.work = BEATS; all.work <= PLAIN && strcmp(works[all.work], argv[3]); all.work++) {}
    if (all.work > PLAIN) fail("WORK is beats, commits, herd, life or plain");
    for (int n = 4; n < argc && n < 10; n++) given[n - 4] = atof(argv[n]);
    all.connections = (long)given[0];
    all.in_flight = (int)given[1];
    if (all.connections < 1 || all.in_flight < 1 || all.in_flight > MOST_IN_FLIGHT || given[3] < 1)
        fail("connections and members: at least 1; in flight: 1 to 256");
    conns = calloc((size_t)all.connections, sizeof *conns);
    all.poll = epoll_create1(0);
    open_all(conns, argv[1], atoi(argv[2]), (int)given[3]);
    began = now_ns();
    server = cpu_of((int)given[4]);
    own = own_cpu();
    if (all.work != PLAIN) join_all(conns);
    if (all.work != HERD) {
        began = now_ns();
        server = cpu_of((int)given[4]);
        own = own_cpu();
        if (all.work == LIFE) live(conns, argv[1], (int)given[5], given[2]);
        else drive(conns, given[2]);
    }
    took = (double)(now_ns() - began) / 1e9;
    printf("{\"work\": \"%s\", \"connections\": %ld, \"in_flight\": %d, \"seconds\": %.3f, "
           "\"answers\": %ld, \"errors\": %ld, \"per_s\": %.0f, \"server_cpu_s\": %.2f, "
           "\"own_cpu_s\": %.2f, \"p50_us\": %.0f, \"p99_us\": %.0f, \"slowest_ms\": %.1f, "
           "\"generation\": %d}\n",
           works[all.work], all.connections, all.in_flight, took, all.answers, all.errors,
           (double)all.answers / took, cpu_of((int)given[4]) - server, own_cpu() - own,
           quantile_us(0.5), quantile_us(0.99), (double)all.slowest_ns / 1e6,
           conns[0].generation);
    if (all.work != PLAIN) leave(conns);
    return 0;
}
