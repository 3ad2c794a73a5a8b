/* Preloaded into a broker: moves the wall clock of its process by as many seconds as the file that
 * COTERIE_CLOCK names holds (an int64 in the machine's order), which may change at any time. The
 * monotonic clock, and with it every timer of the JVM, goes on as it does. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *offset_s;
static int (*real_gettime)(clockid_t, struct timespec *);

__attribute__((constructor)) static void begin(void)
{
	const char *path = getenv("COTERIE_CLOCK");
	int file = path ? open(path, O_RDONLY) : -1;

	real_gettime = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
	if (file < 0)
		return;
	void *page = mmap(NULL, sizeof(int64_t), PROT_READ, MAP_SHARED, file, 0);
	if (page != MAP_FAILED)
		offset_s = page;
	close(file);
}

int clock_gettime(clockid_t clock, struct timespec *at)
{
	if (!real_gettime)
		begin();
	int result = real_gettime(clock, at);
	if (result == 0 && offset_s && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
		at->tv_sec += *offset_s;
	return result;
}

int gettimeofday(struct timeval *restrict at, void *restrict zone)
{
	struct timespec now;
	(void)zone;
	clock_gettime(CLOCK_REALTIME, &now);
	at->tv_sec = now.tv_sec;
	at->tv_usec = now.tv_nsec / 1000;
	return 0;
}

time_t time(time_t *at)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	if (at)
		*at = now.tv_sec;
	return now.tv_sec;
}
