/* Which offsets have expired, by the rule of Kafka 2.1 and later, over columns: a byte for each.
 * Rules: docs/rules/offsets.md#expiration.
 *
 * An explicit expiry (any but -1) decides alone: now >= expiry. Otherwise now - base >= retention,
 * with Java's wrapping subtraction. The loop has no branches, so that the compiler vectorises it.
 */
#ifndef COTERIE_EXPIRED_H
#define COTERIE_EXPIRED_H

#include <stddef.h>
#include <stdint.h>

#if defined(__x86_64__) && defined(__linux__) && defined(__GNUC__) && !defined(__clang__)
#define COTERIE_CLONES __attribute__((target_clones("avx2", "default")))
#else
#define COTERIE_CLONES
#endif

COTERIE_CLONES void coterie_expired(const int64_t* restrict base_ms,
                                    const int64_t* restrict expire_ms, size_t count,
                                    int64_t now_ms, int64_t retention_ms,
                                    uint8_t* restrict out) {
    for (size_t i = 0; i < count; i++) {
        int64_t age_ms = (int64_t)((uint64_t)now_ms - (uint64_t)base_ms[i]);
        uint8_t by_age = age_ms >= retention_ms;
        uint8_t by_expiry = now_ms >= expire_ms[i];
        uint8_t has_expiry = expire_ms[i] != -1;
        out[i] = (uint8_t)((has_expiry & by_expiry) | ((has_expiry ^ 1) & by_age));
    }
}

#endif
