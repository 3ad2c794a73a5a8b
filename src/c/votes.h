/* The protocol votes of groups with up to 16 protocol names: each name has a byte lane of a vector.
 *
 * An entry of a member's list is a code, 16 times the number of its name. Entries per name are the
 * difference of two prefix sums, so the loops have a fixed length and the branch predictor is never
 * wrong; one misprediction costs as much as three members. A candidate is a name whose lane equals
 * the number of members. Kafka counts entries, so a name that a list has twice counts twice. One
 * table look-up of 16 codes finds the first candidate of a list.
 * Source: GroupMetadata.selectProtocol.
 *
 * Needs a processor with a 16-byte table look-up (SSE4.1 or ARMv8): see `coterie_has_lanes`. Lists
 * have at most COTERIE_LIST_MAX entries. Cost: 2 to 4 ns a member.
 */
#ifndef COTERIE_VOTES_H
#define COTERIE_VOTES_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum {
    COTERIE_LANES = 16,
    COTERIE_LIST_MAX = 15,
    COTERIE_AFTER_CODES = 32, /* bytes that are read after the last code, and must be 0 */
    COTERIE_BLOCK = 1024,     /* entries whose prefix sums are in memory at once: 16 KiB */
    COTERIE_BYTE_MAX = 255    /* entries, or members, that cannot overflow a lane */
};

/* The bitwise OR of the lengths between ascending starts. 2^63 or more: the starts do not ascend,
 * or one is negative. The loop has no branches, so that the compiler vectorises it. */
static inline uint64_t coterie_lengths(const int64_t *starts, size_t count) {
    uint64_t signs = count ? (uint64_t)starts[0] : 0, lengths = 0;
    for (size_t i = 1; i < count; i++) {
        signs |= (uint64_t)starts[i];
        lengths |= (uint64_t)starts[i] - (uint64_t)starts[i - 1];
    }
    return lengths | (signs & 1ull << 63);
}

/* Makes codes of names that are numbers below COTERIE_LANES, and returns the bitwise OR of all
 * names. If that is COTERIE_LANES or more, a name is too large or negative and the codes are
 * invalid. */
static inline uint32_t coterie_codes(const int32_t *restrict names, size_t count,
                                     uint8_t *restrict codes) {
    uint32_t bits = 0;
    for (size_t i = 0; i < count; i++) {
        bits |= (uint32_t)names[i];
        codes[i] = (uint8_t)((uint32_t)names[i] << 4);
    }
    return bits;
}

/* Numbers the names of some entries in the order they are first seen, and makes their codes;
 * `order` gets the names by number. 0: more than COTERIE_LANES names. `seen` has an element for
 * each name, all 0 at first; each call needs a larger `call`, from 1 on, than the one before. */
static inline int coterie_rank(const int32_t *names, int64_t first, int64_t last, uint64_t call,
                               uint64_t *seen, uint8_t *codes, int32_t *order) {
    uint64_t begin = call * COTERIE_LANES, next = begin;
    for (int64_t i = first; i < last; i++) {
        uint64_t known = seen[names[i]];
        if (known < begin) {
            if (next == begin + COTERIE_LANES) return 0;
            order[next - begin] = names[i];
            known = seen[names[i]] = next++;
        }
        codes[i] = (uint8_t)(known << 4);
    }
    return 1;
}

#if (defined(__GNUC__) || defined(__clang__)) && defined(__x86_64__)
#include <smmintrin.h>
#define COTERIE_HAS_LANES
#define COTERIE_VOTES __attribute__((target("sse4.1")))
#elif defined(__aarch64__) && defined(__ARM_NEON) \
    && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#include <arm_neon.h>
#define COTERIE_HAS_LANES
#define COTERIE_VOTES
#endif

#ifdef COTERIE_HAS_LANES

typedef uint8_t coterie_lanes __attribute__((vector_size(COTERIE_LANES), may_alias));
typedef uint16_t coterie_pairs __attribute__((vector_size(COTERIE_LANES)));
#define COTERIE_INLINE COTERIE_VOTES static inline __attribute__((always_inline))

/* For each code a vector with 1 in the lane of its name. */
static const uint8_t coterie_one_of[COTERIE_LANES * COTERIE_LANES] __attribute__((aligned(64))) = {
    [0] = 1,   [17] = 1,  [34] = 1,  [51] = 1,  [68] = 1,  [85] = 1,  [102] = 1, [119] = 1,
    [136] = 1, [153] = 1, [170] = 1, [187] = 1, [204] = 1, [221] = 1, [238] = 1, [255] = 1};

#ifdef __x86_64__
enum { COTERIE_LANE_BITS = 1 };

static int coterie_has_lanes(void) {
    __builtin_cpu_init();
    return __builtin_cpu_supports("sse4.1");
}

COTERIE_INLINE coterie_lanes coterie_all(uint32_t byte) {
    return (coterie_lanes)_mm_set1_epi8((char)byte);
}

COTERIE_INLINE coterie_lanes coterie_look_up(coterie_lanes table, coterie_lanes lane) {
    return (coterie_lanes)_mm_shuffle_epi8((__m128i)table, (__m128i)lane);
}

/* A mask as a number: COTERIE_LANE_BITS bits a lane, the lowest of which is set if the lane is. */
COTERIE_INLINE uint64_t coterie_lane_bits(coterie_lanes mask) {
    return (uint32_t)_mm_movemask_epi8((__m128i)mask);
}

/* The first lane that is set; COTERIE_LANES if none is. */
COTERIE_INLINE uint32_t coterie_first_lane(coterie_lanes mask) {
    return (uint32_t)__builtin_ctz((uint32_t)_mm_movemask_epi8((__m128i)mask) | 1u << 16);
}

COTERIE_INLINE uint32_t coterie_highest(coterie_lanes lanes) {
    __m128i low = _mm_xor_si128((__m128i)lanes, _mm_set1_epi8(-1)); /* to find the least */
    low = _mm_minpos_epu16(_mm_min_epu8(low, _mm_srli_epi16(low, 8)));
    return ~(uint32_t)_mm_cvtsi128_si32(low) & 0xFFu;
}
#else
enum { COTERIE_LANE_BITS = 4 };

static int coterie_has_lanes(void) {
    return 1;
}

COTERIE_INLINE coterie_lanes coterie_all(uint32_t byte) {
    return (coterie_lanes)vdupq_n_u8((uint8_t)byte);
}

COTERIE_INLINE coterie_lanes coterie_look_up(coterie_lanes table, coterie_lanes lane) {
    return (coterie_lanes)vqtbl1q_u8((uint8x16_t)table, (uint8x16_t)lane);
}

COTERIE_INLINE uint64_t coterie_lane_bits(coterie_lanes mask) {
    uint8x8_t halves = vshrn_n_u16(vreinterpretq_u16_u8((uint8x16_t)mask), 4);
    return vget_lane_u64(vreinterpret_u64_u8(halves), 0) & 0x1111111111111111u;
}

COTERIE_INLINE uint32_t coterie_first_lane(coterie_lanes mask) {
    uint64_t bits = coterie_lane_bits(mask);
    return bits ? (uint32_t)__builtin_ctzll(bits) / COTERIE_LANE_BITS : COTERIE_LANES;
}

COTERIE_INLINE uint32_t coterie_highest(coterie_lanes lanes) {
    return vmaxvq_u8((uint8x16_t)lanes);
}
#endif

COTERIE_INLINE coterie_lanes coterie_one(uint8_t code) {
    return *(const coterie_lanes *)(coterie_one_of + code);
}

/* The lanes that equal `height`, as a mask. */
COTERIE_INLINE coterie_lanes coterie_as_high(coterie_lanes lanes, uint32_t height) {
    return (coterie_lanes)(lanes == coterie_all(height));
}

/* The index of the first candidate among the codes at `list`; COTERIE_LANES: none of the 16. */
COTERIE_INLINE uint32_t coterie_choice(const uint8_t *list, coterie_lanes candidates) {
    coterie_pairs pairs;
    memcpy(&pairs, list, sizeof pairs);
    return coterie_first_lane(coterie_look_up(candidates, (coterie_lanes)(pairs >> 4)));
}

/* Counts the votes of up to COTERIE_BYTE_MAX members. Negative: every member has a candidate. */
COTERIE_INLINE int64_t coterie_cast(const uint8_t *codes, const int64_t *start,
                                    const int64_t *last, coterie_lanes candidates,
                                    coterie_lanes *votes) {
    int64_t at = *start, missing = -1;
    coterie_lanes sum = {0};
    while (start < last) {
        int64_t end = *++start, chosen = at + coterie_choice(codes + at, candidates);
        missing &= chosen - end;
        sum += coterie_one(codes[chosen]);
        at = end;
    }
    *votes = sum;
    return missing;
}

/* The first of the members' choices that is in `tied`, as a code; there must be one. */
COTERIE_INLINE uint8_t coterie_first_of(const uint8_t *codes, const int64_t *start,
                                        coterie_lanes candidates, uint64_t tied) {
    for (;; start++) {
        uint8_t code = codes[*start + coterie_choice(codes + *start, candidates)];
        if (tied >> (code >> 4) * COTERIE_LANE_BITS & 1) return code;
    }
}

/* Decides whole groups of at most COTERIE_BYTE_MAX entries each and COTERIE_BLOCK in all: the
 * winners' numbers and votes, or -1 and 0. A group with more members than entries has a member
 * without a candidate, so an overflow there changes no result. */
COTERIE_VOTES static void coterie_vote_small(const uint8_t *restrict codes,
                                             const int64_t *restrict start,
                                             const int64_t *restrict group, size_t groups,
                                             int32_t *restrict winner, int32_t *restrict votes) {
    coterie_lanes sums[COTERIE_BLOCK + 4], sum = {0}, cast;
    const coterie_lanes *from = sums;
    int64_t base = start[group[0]], count = start[group[groups]] - base;
    sums[0] = sum;
    for (int64_t at = 0; at < count; at += 4) /* reads past the last entry; see AFTER_CODES */
        for (int i = 0; i < 4; i++) sums[at + i + 1] = sum += coterie_one(codes[base + at + i]);
    for (size_t g = 0; g < groups; g++) {
        const int64_t *first = start + group[g], *last = start + group[g + 1];
        const coterie_lanes *until = sums + (*last - base);
        coterie_lanes candidates = coterie_as_high(*until - *from, (uint32_t)(last - first));
        int64_t missing = coterie_cast(codes, first, last, candidates, &cast);
        uint32_t most = coterie_highest(cast);
        uint64_t tied = coterie_lane_bits(coterie_as_high(cast, most));
        if (missing >= 0 || first == last) {
            winner[g] = -1;
            votes[g] = 0;
        } else {
            if (tied & (tied - 1)) /* a tie: the one voted for first */
                winner[g] = coterie_first_of(codes, first, candidates, tied) >> 4;
            else
                winner[g] = __builtin_ctzll(tied) / COTERIE_LANE_BITS;
            votes[g] = (int32_t)most;
        }
        from = until;
    }
}

/* Adds lanes, which cannot have overflowed, to the totals. */
COTERIE_INLINE void coterie_total(coterie_lanes lanes, int64_t *total) {
    for (int lane = 0; lane < COTERIE_LANES; lane++) total[lane] += lanes[lane];
}

/* The lanes whose total equals `height`, as a mask. */
COTERIE_INLINE coterie_lanes coterie_totals_as_high(const int64_t *total, int64_t height) {
    coterie_lanes mask;
    for (int lane = 0; lane < COTERIE_LANES; lane++) mask[lane] = total[lane] == height ? 255 : 0;
    return mask;
}

/* Counts the codes that equal `code`. */
COTERIE_INLINE int64_t coterie_count(const uint8_t *codes, int64_t count, uint8_t code) {
    int64_t counts[COTERIE_LANES] = {0}, at = 0, end;
    const coterie_lanes all = coterie_all(code);
    while (count - at >= COTERIE_LANES) {
        coterie_lanes lanes, sum = {0};
        end = at + COTERIE_BYTE_MAX * COTERIE_LANES;
        for (; at < end && count - at >= COTERIE_LANES; at += COTERIE_LANES) {
            memcpy(&lanes, codes + at, sizeof lanes);
            sum -= (coterie_lanes)(lanes == all); /* a mask is -1 */
        }
        coterie_total(sum, counts);
    }
    for (; at < count; at++) counts[0] += codes[at] == code;
    for (int lane = 1; lane < COTERIE_LANES; lane++) counts[0] += counts[lane];
    return counts[0];
}

/* Decides one group of any size; returns the winner's votes. */
COTERIE_VOTES static int32_t coterie_vote_large(const uint8_t *codes, const int64_t *start,
                                                const int64_t *last, int32_t *winner) {
    int64_t entries[COTERIE_LANES] = {0}, cast[COTERIE_LANES] = {0}, most = 0;
    int64_t left = *last - *start;
    coterie_lanes candidates, sum;
    for (int lane = 0; lane < COTERIE_LANES && left > 0; lane++) {
        entries[lane] = coterie_count(codes + *start, *last - *start, (uint8_t)(lane << 4));
        left -= entries[lane];
    }
    candidates = coterie_totals_as_high(entries, last - start);
    *winner = -1;
    for (const int64_t *at = start, *to; at < last; at = to) {
        to = last - at > COTERIE_BYTE_MAX ? at + COTERIE_BYTE_MAX : last;
        if (coterie_cast(codes, at, to, candidates, &sum) >= 0) return 0;
        coterie_total(sum, cast);
    }
    for (int lane = 0; lane < COTERIE_LANES; lane++) most = cast[lane] > most ? cast[lane] : most;
    uint64_t tied = coterie_lane_bits(coterie_totals_as_high(cast, most));
    *winner = coterie_first_of(codes, start, candidates, tied) >> 4;
    return (int32_t)most;
}

/* Decides all groups: each winner's number and votes, or -1 and 0 if a group has no member, or has
 * a member without a candidate. Codes are made from `names`, block by block while those are in the
 * cache; if `names` is NULL, the codes are given. Returns the value of coterie_codes: if that is
 * COTERIE_LANES or more, the results are invalid. */
COTERIE_VOTES static uint32_t coterie_vote(const int32_t *names, uint8_t *codes,
                                           const int64_t *start, const int64_t *group,
                                           size_t groups, int32_t *winner, int32_t *votes) {
    uint32_t bits = 0;
    size_t g = 0, end;
    while (g < groups && bits < COTERIE_LANES) {
        int64_t first = start[group[g]], at = first;
        for (end = g; end < groups; end++) {
            int64_t after = start[group[end + 1]];
            if (after - first > COTERIE_BLOCK || after - at > COTERIE_BYTE_MAX) break;
            at = after;
        }
        int64_t last = end > g ? at : start[group[g + 1]];
        if (names) {
            bits |= coterie_codes(names + first, (size_t)(last - first), codes + first);
            memset(codes + last, 0, COTERIE_AFTER_CODES);
        }
        if (end > g)
            coterie_vote_small(codes, start, group + g, end - g, winner + g, votes + g);
        else {
            const int64_t *list = start + group[g];
            votes[g] = coterie_vote_large(codes, list, start + group[g + 1], winner + g);
            end = g + 1;
        }
        g = end;
    }
    return bits;
}

#else
static int coterie_has_lanes(void) {
    return 0;
}

static uint32_t coterie_vote(const int32_t *names, uint8_t *codes, const int64_t *start,
                             const int64_t *group, size_t groups, int32_t *winner,
                             int32_t *votes) {
    (void)names, (void)codes, (void)start, (void)group, (void)groups, (void)winner, (void)votes;
    return 0;
}
#endif

#endif
