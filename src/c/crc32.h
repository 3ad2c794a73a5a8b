/* CRC-32 (IEEE 802.3, reflected 0xEDB88320), the checksum of Kafka's message sets of magic 0 and 1.
 *
 * By tables alone, as old logs are rare: about 2 GB/s.
 */
#ifndef COTERIE_CRC32_H
#define COTERIE_CRC32_H

#include "crc_soft.h"

static uint32_t coterie_crc32_tables[8][256];

COTERIE_AT_LOAD static void coterie_crc32_init(void) {
    coterie_crc_fill(coterie_crc32_tables, 0xEDB88320u);
}

static uint32_t coterie_crc32(const uint8_t *data, size_t size) {
    return ~coterie_crc_soft(coterie_crc32_tables, 0xFFFFFFFFu, data, size);
}

#endif
