/* Java's String.hashCode of a UTF-8 text, and Kafka's choice of a partition for a group.
 *
 * Java hashes UTF-16 code units: a sequence of four bytes is two units, and an encoded surrogate of
 * three bytes (Python's "surrogatepass") is one. The text must be UTF-8. Other bytes give an
 * arbitrary hash, but nothing past the end is read.
 */
#ifndef COTERIE_JAVAHASH_H
#define COTERIE_JAVAHASH_H

#include <stddef.h>
#include <stdint.h>

static int32_t coterie_java_hash(const uint8_t *text, size_t size) {
    const uint8_t *end = text + size;
    uint32_t h = 0; /* unsigned: Java's int wraps, C's may not */
    while (text < end) {
        uint32_t lead = *text++;
        int more = lead < 0x80 ? 0 : lead < 0xE0 ? 1 : lead < 0xF0 ? 2 : 3;
        uint32_t point = more == 0 ? lead : lead & (0x3Fu >> more);
        for (; more > 0 && text < end; more--) point = point << 6 | (*text++ & 0x3Fu);
        if (point < 0x10000u) {
            h = 31u * h + point;
        } else {
            point -= 0x10000u;
            h = 31u * h + (0xD800u | (point >> 10 & 0x3FFu));
            h = 31u * h + (0xDC00u | (point & 0x3FFu));
        }
    }
    return (int32_t)h;
}

/* Utils.abs: -2^31 becomes 0. Some clients use a bit mask instead, with another result. */
static inline int32_t coterie_partition_for(int32_t hash, int32_t partitions) {
    uint32_t magnitude = hash < 0 ? 0u - (uint32_t)hash : (uint32_t)hash;
    return hash == INT32_MIN ? 0 : (int32_t)(magnitude % (uint32_t)partitions);
}

#endif
