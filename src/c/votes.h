/* The vote of one group whose names' ids are all below 64: sets as bits, no counters to wait for.
 *
 * A name that every member's list has once is a candidate, so candidates are the AND of the lists'
 * bits; a list that has a name twice is left to the caller (Kafka counts entries, not members).
 * Members vote for the head of their list in four sets of counters by turns: one set alone would
 * make each vote wait for the one before. Source: GroupMetadata.selectProtocol.
 */
#ifndef COTERIE_VOTES_H
#define COTERIE_VOTES_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { COTERIE_NARROW = 64, COTERIE_VOTES_WIDE = -2 };

/* Whether any of the starts is below the one before, or below 0. No branch and no comparison an
 * element, so that a compiler does several at once; numbers that wrap show by their sign. */
static inline int coterie_falls(const int64_t *starts, size_t count) {
    uint64_t seen = count ? (uint64_t)starts[0] : 0;
    for (size_t i = 1; i < count; i++)
        seen |= (uint64_t)starts[i] | ((uint64_t)starts[i] - (uint64_t)starts[i - 1]);
    return seen >> 63 != 0;
}

/* All ids' bits in one number, which no id is above; a negative id shows by its sign. */
static inline uint32_t coterie_bits(const int32_t *names, size_t count) {
    uint32_t bits = 0;
    for (size_t i = 0; i < count; i++) bits |= (uint32_t)names[i];
    return bits;
}

/* The first entry of a list that is a candidate. The list has one. */
static inline int32_t coterie_choice(const int32_t *at, uint64_t candidates) {
    while (!(candidates >> *at & 1)) at++;
    return *at;
}

/* The votes that `winner` got; 0 and -1 where no name is common to all; COTERIE_VOTES_WIDE where a
 * list has a name twice. `width`: every id is below it, and it is at most 64. */
static inline int32_t coterie_vote_narrow(const int32_t *names, const int64_t *start, int64_t first,
                                          int64_t last, int32_t width, int32_t *winner) {
    uint32_t votes[4][COTERIE_NARROW];
    uint64_t candidates = ~0ull, twice = 0, heads = 0, tied = 0;
    uint32_t best = 0;
    int64_t member, at = start[first], end;
    for (int lane = 0; lane < 4; lane++) memset(votes[lane], 0, (size_t)width * sizeof(uint32_t));
    *winner = -1;
    for (member = first; member < last; member++) {
        uint64_t list = 0, bit;
        end = start[member + 1];
        if (end - at == 3) { /* a common length: no loop whose end must be guessed */
            uint64_t one = 1ull << names[at], two = 1ull << names[at + 1];
            bit = 1ull << names[at + 2];
            list = one | two | bit;
            twice |= (one & two) | ((one | two) & bit);
            heads |= one;
            votes[member & 3][names[at]]++;
        } else if (at < end) {
            heads |= 1ull << names[at];
            votes[member & 3][names[at]]++;
            for (int64_t entry = at; entry < end; entry++) {
                bit = 1ull << names[entry];
                twice |= list & bit;
                list |= bit;
            }
        }
        candidates &= list;
        at = end;
    }
    if (twice) return COTERIE_VOTES_WIDE;
    if (!candidates) return 0;
    if (heads & ~candidates) { /* some voted for what not all support: once more, by the rule */
        for (int lane = 0; lane < 4; lane++)
            memset(votes[lane], 0, (size_t)width * sizeof(uint32_t));
        for (member = first; member < last; member++)
            votes[member & 3][coterie_choice(names + start[member], candidates)]++;
    }
    for (int32_t name = 0; name < width; name++) {
        uint32_t sum = votes[0][name] + votes[1][name] + votes[2][name] + votes[3][name];
        if (sum > best) {
            best = sum;
            tied = 0;
        }
        if (sum == best) tied |= 1ull << name;
    }
    /* Of equals, the one voted for first. */
    for (member = first; *winner < 0; member++) {
        int32_t choice = coterie_choice(names + start[member], candidates);
        if (tied >> choice & 1) *winner = choice;
    }
    return (int32_t)best;
}

#endif
