/* The time, and what processes have used of the processor: Linux's /proc. */
#ifndef COTERIE_LOAD_TIMES_H
#define COTERIE_LOAD_TIMES_H
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void fail(const char *what)
{
    fprintf(stderr, "load: %s\n", what);
    exit(1);
}

static double cpu_of(int pid)
{
    char path[64], line[1024], *at;
    unsigned long user = 0, system = 0;
    FILE *file;
    if (!pid) return 0;
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    file = fopen(path, "r");
    if (!file || !fgets(line, sizeof line, file) || !(at = strrchr(line, ')'))) fail("no such pid");
    fclose(file);
    sscanf(at + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &system);
    return (double)(user + system) / (double)sysconf(_SC_CLK_TCK);
}

static double own_cpu(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec)
        + (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}
#endif
