/* Hash, equality and an ASCII check for short keys.
 *
 * The 64-bit hash is for tables inside one process: it is never stored and never sent.
 * From 16 to 64 bytes no branch depends on the size, because names of several lengths alternate and
 * the branch would be mispredicted: four pieces of 16 bytes, which overlap, cover any such key and
 * never leave it. No function is called.
 */
#ifndef COTERIE_KEYHASH_H
#define COTERIE_KEYHASH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define COTERIE_HASH_A 0x9E3779B97F4A7C15ull
#define COTERIE_HASH_B 0xD1B54A32D192ED03ull
#define COTERIE_HASH_C 0xA0761D6478BD642Full
#define COTERIE_HASH_D 0xE7037ED1A0B428DBull

static inline uint64_t coterie_mum(uint64_t a, uint64_t b) {
    __uint128_t product = (__uint128_t)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static inline uint64_t coterie_word(const uint8_t *at) {
    uint64_t word;
    memcpy(&word, at, 8);
    return word;
}

/* Where the second or third piece begins: at 16 or 32, but not after the last piece. */
static inline size_t coterie_at_most(size_t at, size_t last) { return last < at ? last : at; }

static inline uint64_t coterie_hash_piece(const uint8_t *at, uint64_t a, uint64_t b) {
    return coterie_mum(coterie_word(at) ^ a, coterie_word(at + 8) ^ b);
}

/* The pieces are hashed independently, each with its own constants, as two may be equal. */
static inline uint64_t coterie_keyhash(const uint8_t *key, size_t size) {
    uint64_t hash = COTERIE_HASH_A ^ (size * COTERIE_HASH_B), word = 0;
    size_t at, last = size - 16;
    if (size < 8) {
        for (at = 0; at < size; at++) word = word << 8 | key[at];
        return coterie_mum(hash ^ word, COTERIE_HASH_B);
    }
    if (size < 16)
        return coterie_mum(hash ^ coterie_word(key), COTERIE_HASH_B ^ coterie_word(key + size - 8));
    for (at = 48; at < last; at += 16)
        hash = coterie_mum(hash,
            COTERIE_HASH_A ^ coterie_hash_piece(key + at, hash, COTERIE_HASH_C));
    hash += coterie_hash_piece(key, COTERIE_HASH_A, COTERIE_HASH_B);
    hash += coterie_hash_piece(key + coterie_at_most(16, last), COTERIE_HASH_C, COTERIE_HASH_A);
    hash += coterie_hash_piece(key + coterie_at_most(32, last), COTERIE_HASH_B, COTERIE_HASH_C);
    hash += coterie_hash_piece(key + last, COTERIE_HASH_D, COTERIE_HASH_B);
    return coterie_mum(hash, COTERIE_HASH_B);
}

typedef uint64_t coterie_pair __attribute__((vector_size(16)));

static inline coterie_pair coterie_load_pair(const uint8_t *at) {
    coterie_pair pair;
    memcpy(&pair, at, 16);
    return pair;
}

static inline coterie_pair coterie_differ(const uint8_t *one, const uint8_t *other, size_t at) {
    return coterie_load_pair(one + at) ^ coterie_load_pair(other + at);
}

/* memcmp(...) == 0 */
static inline int coterie_equal(const uint8_t *one, const uint8_t *other, size_t size) {
    uint64_t word = 0;
    coterie_pair pair;
    size_t at, last = size - 16;
    if (size < 8) {
        for (at = 0; at < size; at++) word |= one[at] ^ other[at];
        return word == 0;
    }
    if (size < 16) {
        word = coterie_word(one) ^ coterie_word(other);
        return (word | (coterie_word(one + size - 8) ^ coterie_word(other + size - 8))) == 0;
    }
    pair = coterie_differ(one, other, 0) | coterie_differ(one, other, coterie_at_most(16, last))
         | coterie_differ(one, other, coterie_at_most(32, last)) | coterie_differ(one, other, last);
    for (at = 48; at < last; at += 16) pair |= coterie_differ(one, other, at);
    return (pair[0] | pair[1]) == 0;
}

/* Whether every byte is below 0x80. */
static inline int coterie_is_ascii(const uint8_t *key, size_t size) {
    uint64_t word = 0;
    coterie_pair pair;
    size_t at, last = size - 16;
    if (size < 8) {
        for (at = 0; at < size; at++) word |= key[at];
    } else if (size < 16) {
        word = coterie_word(key) | coterie_word(key + size - 8);
    } else {
        pair = coterie_load_pair(key) | coterie_load_pair(key + coterie_at_most(16, last))
             | coterie_load_pair(key + coterie_at_most(32, last)) | coterie_load_pair(key + last);
        for (at = 48; at < last; at += 16) pair |= coterie_load_pair(key + at);
        word = pair[0] | pair[1];
    }
    return (word & 0x8080808080808080ull) == 0;
}

#endif
