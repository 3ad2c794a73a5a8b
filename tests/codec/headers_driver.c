/* Puts questions to the headers of src/c, on whatever machine this was compiled for.
 *
 * Standard input: questions, each a letter, the alignment of its bytes (one byte), their number
 * (4 bytes) and the bytes; numbers are little endian. Standard output: one line for each.
 * test_machines.py compiles it and says what each answer must be.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "crc32.h"
#include "crc32c.h"
#include "expired.h"
#include "javahash.h"
#include "keyhash.h"
#include "votes.h"
#include "xxh32.h"

#ifdef COTERIE_WRAP_AUXV
/* The linker puts this in place of getauxval: a kernel that knows of no instruction. */
unsigned long __wrap_getauxval(unsigned long type);
unsigned long __real_getauxval(unsigned long type);

unsigned long __wrap_getauxval(unsigned long type) {
    return getenv("COTERIE_NO_HWCAP") ? 0 : __real_getauxval(type);
}
#endif

static void *claim(size_t size) {
    void *memory = malloc(size ? size : 1);
    if (!memory) exit(3);
    return memory;
}

static int64_t *numbers(const uint8_t *at, size_t count) {
    int64_t *out = claim(count * sizeof(int64_t));
    for (size_t i = 0; i < count; i++) out[i] = (int64_t)coterie_load_le64(at + 8 * i);
    return out;
}

/* now, retention, then bases and expiries. */
static void ask_expired(const uint8_t *at, size_t size) {
    size_t count = (size / 8 - 2) / 2;
    int64_t *row = numbers(at, size / 8);
    uint8_t *out = claim(count);
    coterie_expired(row + 2, row + 2 + count, count, row[0], row[1], out);
    for (size_t i = 0; i < count; i++) putchar('0' + out[i]);
    putchar('\n');
    free(out);
    free(row);
}

/* Numbers names in order of first sight, as votes.pyx does where they are not below 16. */
static int encode(const int32_t *names, size_t entries, uint8_t *codes, int32_t *order) {
    int32_t highest = 0;
    for (size_t i = 0; i < entries; i++) highest = names[i] > highest ? names[i] : highest;
    uint64_t *seen = calloc((size_t)highest + 1, sizeof(uint64_t));
    if (!seen) exit(3);
    int fit = coterie_rank(names, 0, (int64_t)entries, 1, seen, codes, order);
    free(seen);
    return fit;
}

/* groups, members, where each group's members start, where each member's list starts, names. */
static void ask_vote(const uint8_t *at, size_t size) {
    int64_t *row = numbers(at, size / 8), *group = row + 2;
    size_t groups = (size_t)row[0], members = (size_t)row[1];
    int64_t *start = group + groups + 1, *given = start + members + 1;
    size_t entries = size / 8 - (size_t)(given - row);
    int32_t *names = claim(entries * sizeof(int32_t)), order[COTERIE_LANES];
    int32_t *winner = claim(groups * sizeof(int32_t)), *votes = claim(groups * sizeof(int32_t));
    uint8_t *codes = claim(entries + COTERIE_AFTER_CODES);
    uint64_t lengths = coterie_lengths(start, members + 1);
    const char *why = lengths >> 63 ? "falls" : coterie_has_lanes() ? NULL : "no lanes";
    for (size_t i = 0; i < entries; i++) names[i] = (int32_t)given[i];
    for (int32_t lane = 0; lane < COTERIE_LANES; lane++) order[lane] = lane;
    if (!why && coterie_vote(names, codes, start, group, groups, winner, votes) >= COTERIE_LANES) {
        memset(codes, 0, entries + COTERIE_AFTER_CODES);
        if (encode(names, entries, codes, order))
            coterie_vote(NULL, codes, start, group, groups, winner, votes);
        else
            why = "too many names";
    }
    printf("%" PRIx64, lengths);
    if (why) printf(" %s", why);
    for (size_t g = 0; !why && g < groups; g++)
        printf(" %" PRId32 " %" PRId32, winner[g] < 0 ? -1 : order[winner[g]], votes[g]);
    putchar('\n');
    free(codes);
    free(votes);
    free(winner);
    free(names);
    free(row);
}

static void answer(int letter, const uint8_t *at, size_t size) {
    int32_t hash;
    switch (letter) {
    case 'l': printf("%d\n", coterie_crc32c_lanes); break;
    case 'b': printf("%d\n", coterie_has_lanes() != 0); break;
    case 'c': printf("%" PRIu32 "\n", coterie_crc32c(at, size)); break;
    case 't': printf("%" PRIu32 "\n", coterie_crc32c_soft(at, size)); break;
    case 'i': printf("%" PRIu32 "\n", coterie_crc32(at, size)); break;
    case 'x': printf("%" PRIu32 "\n", coterie_xxh32(at, size, 0)); break;
    case 'k': printf("%" PRIu64 "\n", coterie_keyhash(at, size)); break;
    case 'a': printf("%d\n", coterie_is_ascii(at, size)); break;
    case '=': printf("%d\n", coterie_equal(at, at + size / 2, size / 2)); break;
    case 'j':
        hash = coterie_java_hash(at, size);
        printf("%" PRId32 " %" PRId32 "\n", hash, coterie_partition_for(hash, 50));
        break;
    case 'e': ask_expired(at, size); break;
    case 'v': ask_vote(at, size); break;
    default: exit(2);
    }
}

int main(void) {
    uint8_t head[6];
    while (fread(head, 1, sizeof head, stdin) == sizeof head) {
        size_t before = head[1], size = coterie_load_le32(head + 2);
        uint8_t *memory = claim(before + size); /* no byte more: a checker of memory would see it */
        if (fread(memory + before, 1, size, stdin) != size) return 2;
        answer(head[0], memory + before, size);
        free(memory);
    }
    return 0;
}
