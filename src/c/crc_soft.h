/* A reflected 32-bit CRC by table, eight bytes a step ("slicing by 8"), for any polynomial.
 *
 * tables[0] is the usual byte table; tables[k][b] is the CRC of byte b followed by k zero bytes.
 * The initial and the final inversion are the caller's. Works on either byte order, because words
 * are assembled from bytes. About 2 GB/s.
 */
#ifndef COTERIE_CRC_SOFT_H
#define COTERIE_CRC_SOFT_H

#include <stddef.h>
#include <stdint.h>

/* Runs a function when the extension is loaded, before any thread can compute a checksum. MSVC has
 * no such attribute: there the module calls the init function when it is imported. */
#if defined(__GNUC__) || defined(__clang__)
#define COTERIE_AT_LOAD __attribute__((constructor))
#else
#define COTERIE_AT_LOAD
#endif

static void coterie_crc_fill(uint32_t tables[8][256], uint32_t polynomial) {
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t c = i;
        for (int bit = 0; bit < 8; bit++) c = (c >> 1) ^ (polynomial & (0u - (c & 1u)));
        tables[0][i] = c;
    }
    for (int k = 1; k < 8; k++)
        for (uint32_t i = 0; i < 256; i++) {
            uint32_t before = tables[k - 1][i];
            tables[k][i] = tables[0][before & 0xFFu] ^ (before >> 8);
        }
}

static inline uint32_t coterie_load_le32(const uint8_t *p) {
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static uint32_t coterie_crc_soft(uint32_t tables[8][256], uint32_t c, const uint8_t *data,
                                 size_t size) {
    for (; size >= 8; size -= 8, data += 8) {
        uint32_t low = c ^ coterie_load_le32(data);
        uint32_t high = coterie_load_le32(data + 4);
        c = tables[7][low & 0xFFu] ^ tables[6][(low >> 8) & 0xFFu]
          ^ tables[5][(low >> 16) & 0xFFu] ^ tables[4][low >> 24]
          ^ tables[3][high & 0xFFu] ^ tables[2][(high >> 8) & 0xFFu]
          ^ tables[1][(high >> 16) & 0xFFu] ^ tables[0][high >> 24];
    }
    for (; size > 0; size--, data++) c = tables[0][(c ^ *data) & 0xFFu] ^ (c >> 8);
    return c;
}

#endif
