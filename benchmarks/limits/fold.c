/* The least that a fold of plain commits must do, straight down: what the machine allows.
 *
 *     cc -O3 -I src/c benchmarks/limits/fold.c -o build/fold && build/fold ROUNDS SEGMENT...
 *
 * For each segment of v2 batches without compression: the checksum, the records' varints, a hash of
 * each key, its place in a table of pointers into the log (which stays), the last record wins. No
 * growth, no names, no faults, no other records, no metadata kept. Prints the keys, the sum of the
 * last offsets, the records, and the least seconds of a round.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "crc32c.h"
#include "keyhash.h"

enum { SLOTS = 1 << 18, HEADER = 61, AHEAD = 8192, BATCH = 4096 };

typedef struct { const uint8_t *key; const uint8_t *value; uint64_t hash; uint32_t size; } Slot;
typedef struct { const uint8_t *key, *value; uint64_t hash; int32_t size; } Parsed;

static uint64_t be(const uint8_t *at, int width) {
    uint64_t found = 0;
    for (int i = 0; i < width; i++) found = found << 8 | at[i];
    return found;
}

static int64_t varint(const uint8_t **at) {
    uint64_t raw = 0;
    int shift = 0;
    for (;; shift += 7) {
        uint8_t byte = *(*at)++;
        raw |= (uint64_t)(byte & 0x7F) << shift;
        if (byte < 0x80) return (int64_t)(raw >> 1 ^ -(raw & 1));
    }
}

static void put(Slot *slots, const Parsed *one) {
    uint64_t at = one->hash >> 40;
    for (;; at++) {
        Slot *slot = &slots[at & (SLOTS - 1)];
        if (!slot->key) {
            slot->key = one->key;
            slot->size = one->size;
            slot->hash = one->hash;
        } else if (slot->hash != one->hash || slot->size != (uint32_t)one->size
                   || !coterie_equal(slot->key, one->key, one->size)) {
            continue;
        }
        slot->value = one->value;
        return;
    }
}

static int64_t fold(const uint8_t *data, const uint8_t *end, Slot *slots, Parsed *parsed) {
    int64_t records = 0;
    while (data + HEADER <= end) {
        const uint8_t *next = data + 12 + be(data + 8, 4), *at = data + HEADER;
        int32_t count = (int32_t)be(data + 57, 4), n = 0;
        if (coterie_crc32c(data + 21, next - data - 21) != be(data + 17, 4)) exit(3);
        for (int32_t i = 0; i < count && i < BATCH; i++) {
            int64_t size = varint(&at);
            const uint8_t *after = at + size;
            __builtin_prefetch(at + AHEAD);
            __builtin_prefetch(at + AHEAD + 64);
            at++;
            varint(&at);
            varint(&at);
            Parsed *one = &parsed[n];
            one->size = (int32_t)varint(&at) - 2;
            one->key = at + 2;
            at += one->size + 2;
            int64_t value_size = varint(&at);
            if (value_size >= 0 && one->key[-1] < 2) {
                one->value = at;
                one->hash = coterie_keyhash(one->key, one->size);
                __builtin_prefetch(&slots[one->hash >> 40 & (SLOTS - 1)]);
                n++;
            }
            at = after;
        }
        for (int32_t i = 0; i < n; i++) put(slots, &parsed[i]);
        records += count;
        data = next;
    }
    return records;
}

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return now.tv_sec + now.tv_nsec * 1e-9;
}

int main(int argc, char **argv) {
    static Parsed parsed[BATCH];
    Slot *slots = malloc(SLOTS * sizeof(Slot));
    const uint8_t *data[64];
    size_t size[64];
    double least = 1e9;
    int files = 0;
    for (int i = 2; i < argc && files < 64; i++, files++) {
        FILE *file = fopen(argv[i], "rb");
        if (!file) return 2;
        fseek(file, 0, SEEK_END);
        size[files] = (size_t)ftell(file);
        rewind(file);
        uint8_t *bytes = malloc(size[files] + 1);
        if (fread(bytes, 1, size[files], file) != size[files]) return 2;
        data[files] = bytes;
        fclose(file);
    }
    int64_t keys = 0, total = 0, records = 0;
    for (int round = 0; round < atoi(argv[1]); round++) {
        double spent = 0;
        keys = total = records = 0;
        for (int i = 0; i < files; i++) {
            double began = seconds();
            memset(slots, 0, SLOTS * sizeof(Slot));
            records += fold(data[i], data[i] + size[i], slots, parsed);
            spent += seconds() - began;
            for (int at = 0; at < SLOTS; at++) {
                if (!slots[at].key) continue;
                keys++;
                total += (int64_t)be(slots[at].value + 2, 8);
            }
        }
        if (spent < least) least = spent;
    }
    printf("%lld %lld %lld %.9f\n", (long long)keys, (long long)total, (long long)records, least);
    return 0;
}
