/* Survive the truncation of a file that is mapped into memory.
 *
 * The kernel sends SIGBUS to a thread that reads a page of a mapping beyond the end of its file.
 * For a registered range the handler puts pages of zeros in place of the missing ones, marks the
 * range as damaged, and lets the thread go on. The reader sees zeros, finishes, and then asks for
 * the mark. This works in any thread and within any function. The alternatives do not: _exit would
 * end a user's process, and siglongjmp would leave half-changed objects and lost memory behind.
 *
 * A fault outside of all ranges goes to the handler that was there before. The handler calls only
 * mmap (a plain system call) and functions that are safe in a handler; it takes no lock. Ranges are
 * registered and removed by one thread at a time: the callers hold Python's lock. A range has to be
 * removed before it is unmapped. Without POSIX signals nothing is guarded.
 */
#ifndef COTERIE_SIGBUS_H
#define COTERIE_SIGBUS_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#if defined(__unix__) || defined(__APPLE__)

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

#if !defined(MAP_ANONYMOUS)
#define MAP_ANONYMOUS MAP_ANON
#endif
#if !defined(MAP_NORESERVE)
#define MAP_NORESERVE 0
#endif

typedef struct coterie_range {
    struct coterie_range *next; /* never changes: ranges are used again, not freed */
    _Atomic uintptr_t start;
    _Atomic size_t size; /* 0: not in use */
    atomic_int damaged;
} coterie_range;

static _Atomic(coterie_range *) coterie_ranges;
static struct sigaction coterie_sigbus_before;
static atomic_int coterie_sigbus_passed_on;
static uintptr_t coterie_page_size;

/* Replace the pages from an address to the end of its range; false if it is in no range. */
static int coterie_replace_pages(uintptr_t at) {
    int replaced = 0;
    coterie_range *range = atomic_load(&coterie_ranges);
    for (; range != NULL; range = range->next) {
        size_t size = atomic_load(&range->size);
        uintptr_t start = atomic_load(&range->start);
        if (at < start || at - start >= size || atomic_load(&range->size) != size) continue;
        uintptr_t page = at & ~(coterie_page_size - 1);
        uintptr_t end = (start + size + coterie_page_size - 1) & ~(coterie_page_size - 1);
        if (mmap((void *)page, end - page, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0) == MAP_FAILED)
            return 0;
        atomic_store(&range->damaged, 1);
        replaced = 1; /* goes on: a mapping can be registered twice */
    }
    return replaced;
}

static void coterie_on_sigbus(int number, siginfo_t *info, void *context) {
    int saved = errno;
    /* A positive code: the kernel's, with an address. Else somebody sent the signal. */
    if (info->si_code > 0 && coterie_replace_pages((uintptr_t)info->si_addr)) {
        errno = saved;
        return;
    }
    struct sigaction before = coterie_sigbus_before;
    int again = atomic_exchange(&coterie_sigbus_passed_on, 1);
    int is_plain = !(before.sa_flags & SA_SIGINFO);
    if ((is_plain && (before.sa_handler == SIG_DFL || before.sa_handler == SIG_IGN))
            /* A handler that raises the signal anew, such as faulthandler's, may lead back here. */
            || (again && info->si_code <= 0)) {
        (void)signal(number, SIG_DFL);
        (void)raise(number); /* blocked until this handler returns */
    } else if (is_plain) {
        before.sa_handler(number);
    } else {
        before.sa_sigaction(number, info, context);
    }
    errno = saved;
}

/* Install the handler, also after another one took its place. */
static int coterie_install_sigbus(void) {
    struct sigaction now, ours = {.sa_sigaction = coterie_on_sigbus,
                                  .sa_flags = SA_SIGINFO | SA_ONSTACK};
    if (sigaction(SIGBUS, NULL, &now) != 0) return -1;
    if ((now.sa_flags & SA_SIGINFO) && now.sa_sigaction == coterie_on_sigbus) return 0;
    coterie_page_size = (uintptr_t)sysconf(_SC_PAGESIZE);
    coterie_sigbus_before = now;
    sigemptyset(&ours.sa_mask);
    return sigaction(SIGBUS, &ours, NULL);
}

static int coterie_is_page(const void *start) {
    return ((uintptr_t)start & ((uintptr_t)sysconf(_SC_PAGESIZE) - 1)) == 0;
}

/* Register a mapping; NULL: no memory, or no handler could be installed. */
static coterie_range *coterie_add_range(const void *start, size_t size) {
    coterie_range *range = atomic_load(&coterie_ranges);
    if (coterie_install_sigbus() != 0) return NULL;
    while (range != NULL && atomic_load(&range->size) != 0) range = range->next;
    if (range == NULL) {
        range = (coterie_range *)calloc(1, sizeof *range);
        if (range == NULL) return NULL;
        range->next = atomic_load(&coterie_ranges);
        atomic_store(&coterie_ranges, range);
    }
    atomic_store(&range->damaged, 0);
    atomic_store(&range->start, (uintptr_t)start);
    atomic_store(&range->size, size);
    return range;
}

static void coterie_remove_range(coterie_range *range) {
    atomic_store(&range->size, 0);
}

static int coterie_is_damaged(coterie_range *range) {
    return atomic_load(&range->damaged);
}

#else

typedef struct coterie_range {
    size_t size;
} coterie_range;

static int coterie_is_page(const void *start) {
    return 1;
}

static coterie_range *coterie_add_range(const void *start, size_t size) {
    return (coterie_range *)calloc(1, sizeof(coterie_range));
}

static void coterie_remove_range(coterie_range *range) {
    free(range);
}

static int coterie_is_damaged(coterie_range *range) {
    return 0;
}

#endif
#endif
