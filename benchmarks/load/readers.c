/* Latencies of a client beside readers of large fetches: raw frames, a thread for each reader.

     readers HOST PORT BEAT FETCH SILENT HONEST SECONDS PID

   BEAT and FETCH are files with one request each. SILENT readers send FETCH and never read; HONEST
   readers send it again and again and read the responses. Beside them one client sends BEAT each
   millisecond, or once it has its response. Prints one line of JSON; memory is the resident set
   of the server at the start, and its highest value. Linux only: /proc. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include "frames.h"
#include "times.h"

enum { CHUNK = 1 << 20, MOST = 1 << 20, STEP_NS = 1000000, SETTLE_NS = 500000000 };

static struct sockaddr_in server;
static Buffer beat, fetch;
static atomic_long received, responses;
static atomic_int stopping;
static double latencies_ms[MOST];

static void load_file(Buffer *into, const char *path)
{
    uint8_t chunk[4096];
    FILE *file = fopen(path, "r");
    size_t n;
    if (!file) fail("a request's file is missing");
    while ((n = fread(chunk, 1, sizeof chunk, file)) > 0) add(into, chunk, n);
    fclose(file);
}

static int open_connection(const Buffer *request)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    if (fd < 0 || connect(fd, (struct sockaddr *)&server, sizeof server)) fail("no connection");
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (request && write(fd, request->data, request->size) != (ssize_t)request->size)
        fail("a request was not sent");
    return fd;
}

static long size_of_response(int fd)
{
    uint8_t head[4];
    if (recv(fd, head, 4, MSG_WAITALL) != 4) fail("the server closed a connection");
    Reader r = { head, head + 4, 0 };
    return get32(&r);
}

static void *read_honestly(void *unused)
{
    uint8_t *chunk = malloc(CHUNK);
    int fd = open_connection(NULL);
    (void)unused;
    while (!stopping) {
        long left;
        if (write(fd, fetch.data, fetch.size) != (ssize_t)fetch.size)
            fail("a request was not sent");
        for (left = size_of_response(fd); left > 0 && !stopping;) {
            ssize_t n = read(fd, chunk, left < CHUNK ? (size_t)left : CHUNK);
            if (n <= 0) fail("the server closed a connection");
            left -= n;
            received += n;
        }
        responses += left == 0;
    }
    close(fd);
    free(chunk);
    return NULL;
}

static long memory_kb(int pid)
{
    char path[64], line[256];
    long kb = 0;
    FILE *file;
    snprintf(path, sizeof path, "/proc/%d/status", pid);
    file = fopen(path, "r");
    if (!file) fail("no such pid");
    while (fgets(line, sizeof line, file) && !sscanf(line, "VmRSS: %ld", &kb)) {}
    fclose(file);
    return kb;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void one_beat(int fd, uint8_t *response, size_t room)
{
    long size;
    if (write(fd, beat.data, beat.size) != (ssize_t)beat.size) fail("a request was not sent");
    size = size_of_response(fd);
    if (size > (long)room || recv(fd, response, (size_t)size, MSG_WAITALL) != size)
        fail("a heartbeat's response is wrong");
}

int main(int argc, char **argv)
{
    uint8_t response[4096];
    pthread_t threads[64];
    long before_kb, highest_kb, count = 0, last_kb_ns = 0;
    int silent, honest, pid, fd;
    double seconds, cpu, own, took;
    uint64_t began, end;
    if (argc != 9) fail("readers HOST PORT BEAT FETCH SILENT HONEST SECONDS PID");
    server = (struct sockaddr_in){ .sin_family = AF_INET,
                                   .sin_port = htons((uint16_t)atoi(argv[2])) };
    if (inet_pton(AF_INET, argv[1], &server.sin_addr) != 1) fail("HOST is an IPv4 address");
    load_file(&beat, argv[3]);
    load_file(&fetch, argv[4]);
    silent = atoi(argv[5]); honest = atoi(argv[6]); seconds = atof(argv[7]); pid = atoi(argv[8]);
    if (honest > 64) fail("HONEST is at most 64");
    fd = open_connection(NULL);
    for (began = now_ns(); now_ns() < began + SETTLE_NS;) one_beat(fd, response, sizeof response);
    before_kb = highest_kb = memory_kb(pid);
    cpu = cpu_of(pid); own = own_cpu();
    began = now_ns();
    end = began + (uint64_t)(seconds * 1e9);
    for (int n = 0; n < honest; n++)
        if (pthread_create(&threads[n], NULL, read_honestly, NULL)) fail("no thread");
    for (int n = 0; n < silent; n++) open_connection(&fetch);
    while (now_ns() < end && count < MOST) {
        uint64_t sent = now_ns(), now;
        one_beat(fd, response, sizeof response);
        now = now_ns();
        latencies_ms[count++] = (double)(now - sent) / 1e6;
        if ((long)now - last_kb_ns > 20 * STEP_NS) {
            long kb = memory_kb(pid);
            if (kb > highest_kb) highest_kb = kb;
            last_kb_ns = (long)now;
        }
        if (now - sent < STEP_NS) {
            struct timespec rest = { 0, (long)(STEP_NS - (now - sent)) };
            nanosleep(&rest, NULL);
        }
    }
    took = (double)(now_ns() - began) / 1e9;
    cpu = cpu_of(pid) - cpu; own = own_cpu() - own;
    stopping = 1;
    qsort(latencies_ms, (size_t)count, sizeof *latencies_ms, by_size);
    printf("{\"seconds\": %.3f, \"beats\": %ld, \"p50_ms\": %.3f, \"p99_ms\": %.3f, "
           "\"most_ms\": %.1f, \"bytes\": %ld, \"responses\": %ld, \"server_cpu_s\": %.2f, "
           "\"own_cpu_s\": %.2f, \"before_kb\": %ld, \"highest_kb\": %ld}\n",
           took, count, latencies_ms[count / 2], latencies_ms[count * 99 / 100],
           latencies_ms[count - 1], received, responses, cpu, own, before_kb, highest_kb);
    return 0;
}
