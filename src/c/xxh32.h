/* xxHash32 of a buffer: the checksum of an LZ4 frame's header and of its blocks. */
#ifndef COTERIE_XXH32_H
#define COTERIE_XXH32_H

#include "crc_soft.h"

#define COTERIE_XXH_1 2654435761u
#define COTERIE_XXH_2 2246822519u
#define COTERIE_XXH_3 3266489917u
#define COTERIE_XXH_4 668265263u
#define COTERIE_XXH_5 374761393u

static inline uint32_t coterie_rotl32(uint32_t x, int bits) {
    return x << bits | x >> (32 - bits);
}

static inline uint32_t coterie_xxh_round(uint32_t lane, uint32_t word) {
    return coterie_rotl32(lane + word * COTERIE_XXH_2, 13) * COTERIE_XXH_1;
}

static uint32_t coterie_xxh32(const uint8_t *data, size_t size, uint32_t seed) {
    const uint8_t *end = data + size;
    uint32_t h;
    if (size >= 16) {
        uint32_t a = seed + COTERIE_XXH_1 + COTERIE_XXH_2, b = seed + COTERIE_XXH_2;
        uint32_t c = seed, d = seed - COTERIE_XXH_1;
        for (; end - data >= 16; data += 16) {
            a = coterie_xxh_round(a, coterie_load_le32(data));
            b = coterie_xxh_round(b, coterie_load_le32(data + 4));
            c = coterie_xxh_round(c, coterie_load_le32(data + 8));
            d = coterie_xxh_round(d, coterie_load_le32(data + 12));
        }
        h = coterie_rotl32(a, 1) + coterie_rotl32(b, 7) + coterie_rotl32(c, 12)
          + coterie_rotl32(d, 18);
    } else {
        h = seed + COTERIE_XXH_5;
    }
    h += (uint32_t)size;
    for (; end - data >= 4; data += 4)
        h = coterie_rotl32(h + coterie_load_le32(data) * COTERIE_XXH_3, 17) * COTERIE_XXH_4;
    for (; data < end; data++)
        h = coterie_rotl32(h + *data * COTERIE_XXH_5, 11) * COTERIE_XXH_1;
    h = (h ^ h >> 15) * COTERIE_XXH_2;
    h = (h ^ h >> 13) * COTERIE_XXH_3;
    return h ^ h >> 16;
}

#endif
