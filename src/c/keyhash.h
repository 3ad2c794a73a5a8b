/* A 64-bit hash of short keys, for tables inside one process: never stored, never sent.
 *
 * Words of eight bytes folded by a 64 x 64 -> 128 multiplication. The last word may overlap the
 * one before, so no byte beyond the key is read.
 */
#ifndef COTERIE_KEYHASH_H
#define COTERIE_KEYHASH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define COTERIE_HASH_A 0x9E3779B97F4A7C15ull
#define COTERIE_HASH_B 0xD1B54A32D192ED03ull

static inline uint64_t coterie_mum(uint64_t a, uint64_t b) {
    __uint128_t product = (__uint128_t)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static inline uint64_t coterie_keyhash(const uint8_t *key, size_t size) {
    uint64_t hash = COTERIE_HASH_A ^ (size * COTERIE_HASH_B), word, last;
    if (size < 8) {
        word = 0;
        for (size_t i = 0; i < size; i++) word = word << 8 | key[i];
        return coterie_mum(hash ^ word, COTERIE_HASH_B);
    }
    memcpy(&last, key + size - 8, 8);
    for (; size > 8; size -= 8, key += 8) {
        memcpy(&word, key, 8);
        hash = coterie_mum(hash ^ word, COTERIE_HASH_A);
    }
    return coterie_mum(hash ^ last, COTERIE_HASH_B);
}

static inline uint64_t coterie_differ(const uint8_t *one, const uint8_t *other, size_t at) {
    uint64_t a, b;
    memcpy(&a, one + at, 8);
    memcpy(&b, other + at, 8);
    return a ^ b;
}

typedef uint64_t coterie_pair __attribute__((vector_size(16)));

static inline coterie_pair coterie_differ2(const uint8_t *one, const uint8_t *other, size_t at) {
    coterie_pair a, b;
    memcpy(&a, one + at, 16);
    memcpy(&b, other + at, 16);
    return a ^ b;
}

/* memcmp(...) == 0 for short keys: no call, and from 16 to 64 bytes no branch on the size, which
 * would be guessed wrong where names of several lengths take turns. Pieces overlap; none goes
 * beyond the key. */
static inline int coterie_equal(const uint8_t *one, const uint8_t *other, size_t size) {
    uint64_t differs = 0;
    coterie_pair pair;
    size_t at, last = size - 16;
    if (size < 8) {
        for (at = 0; at < size; at++) differs |= one[at] ^ other[at];
        return differs == 0;
    }
    if (size < 16)
        return (coterie_differ(one, other, 0) | coterie_differ(one, other, size - 8)) == 0;
    pair = coterie_differ2(one, other, 0) | coterie_differ2(one, other, last < 16 ? last : 16)
         | coterie_differ2(one, other, last < 32 ? last : 32) | coterie_differ2(one, other, last);
    for (at = 48; at < last; at += 16) pair |= coterie_differ2(one, other, at);
    return (pair[0] | pair[1]) == 0;
}

/* Whether every byte is below 0x80: then the bytes are UTF-8 as they stand. */
static inline int coterie_is_ascii(const uint8_t *at, size_t size) {
    uint64_t seen = 0, word;
    for (; size >= 8; size -= 8, at += 8) {
        memcpy(&word, at, 8);
        seen |= word;
    }
    for (; size > 0; size--, at++) seen |= *at;
    return (seen & 0x8080808080808080ull) == 0;
}

#endif
