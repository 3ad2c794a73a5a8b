/* Which blocks of compiled code have run: gcc's -fsanitize-coverage=trace-pc calls the first
 * function at the start of each block. The places are listed until blocks_taken asks for them. */
#include <stdint.h>

#define BITS 20
static uintptr_t table[1u << BITS]; /* open addressing; 0 is free */
static uint32_t used[1u << (BITS - 1)], count;

void __sanitizer_cov_trace_pc(void) {
    uintptr_t place = (uintptr_t)__builtin_return_address(0), seen;
    uint32_t at = (uint32_t)(place * UINT64_C(0x9E3779B97F4A7C15) >> (64 - BITS));
    while ((seen = __atomic_load_n(&table[at], __ATOMIC_RELAXED)) != place) {
        if (!seen) {
            uint32_t turn = __atomic_fetch_add(&count, 1, __ATOMIC_RELAXED);
            if (turn >= 1u << (BITS - 1)) { /* full: what comes next is lost */
                __atomic_store_n(&count, 1u << (BITS - 1), __ATOMIC_RELAXED);
                return;
            }
            used[turn] = at;
            __atomic_store_n(&table[at], place, __ATOMIC_RELAXED);
            return;
        }
        at = (at + 1) & ((1u << BITS) - 1);
    }
}

/* Move the places to `places`, at most `room` of them, and start anew. */
uint32_t blocks_taken(uintptr_t *places, uint32_t room) {
    uint32_t taken = count < room ? count : room;
    for (uint32_t turn = 0; turn < taken; turn++) {
        places[turn] = table[used[turn]];
        table[used[turn]] = 0;
    }
    for (uint32_t turn = taken; turn < count; turn++) table[used[turn]] = 0;
    count = 0;
    return taken;
}
