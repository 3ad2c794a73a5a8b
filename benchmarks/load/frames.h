/* Frames of Kafka's protocol as the load generator writes and reads them. */
#ifndef COTERIE_LOAD_FRAMES_H
#define COTERIE_LOAD_FRAMES_H
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct { uint8_t *data; size_t size, room; } Buffer;

static inline void add(Buffer *b, const void *at, size_t size)
{
    if (b->size + size > b->room) {
        b->room = 2 * (b->size + size) + 256;
        b->data = realloc(b->data, b->room);
        if (!b->data) { perror("load"); exit(1); }
    }
    memcpy(b->data + b->size, at, size);
    b->size += size;
}

static inline void i8(Buffer *b, int v) { uint8_t x = (uint8_t)v; add(b, &x, 1); }
static inline void i16(Buffer *b, int v) { i8(b, v >> 8); i8(b, v); }
static inline void i32(Buffer *b, int32_t v) { i16(b, v >> 16); i16(b, v); }
static inline void i64(Buffer *b, int64_t v) { i32(b, (int32_t)(v >> 32)); i32(b, (int32_t)v); }
static inline void text(Buffer *b, const char *s) { i16(b, (int)strlen(s)); add(b, s, strlen(s)); }
/* Compact: texts and counts here are below 127, or two bytes are enough. */
static inline void count(Buffer *b, unsigned n)
{
    n += 1;
    if (n > 127) { i8(b, (int)(n & 127) | 128); n >>= 7; }
    i8(b, (int)n);
}
static inline void compact(Buffer *b, const char *s)
{
    count(b, (unsigned)strlen(s));
    add(b, s, strlen(s));
}

/* Begins a frame and gives where; `end_frame` writes its length. */
static inline size_t begin_frame(Buffer *b, int key, int version, int32_t id, int flexible)
{
    size_t at = b->size;
    i32(b, 0); i16(b, key); i16(b, version); i32(b, id); text(b, "load");
    if (flexible) i8(b, 0);
    return at;
}
static inline void put32(uint8_t *at, int32_t v)
{
    at[0] = (uint8_t)(v >> 24); at[1] = (uint8_t)(v >> 16); at[2] = (uint8_t)(v >> 8);
    at[3] = (uint8_t)v;
}
static inline void end_frame(Buffer *b, size_t at)
{
    put32(b->data + at, (int32_t)(b->size - at - 4));
}

/* A reader stops at the end and says so in `bad`. */
typedef struct { const uint8_t *at, *end; int bad; } Reader;

static inline const uint8_t *take(Reader *r, size_t n)
{
    static const uint8_t zero[16];
    if (n > (size_t)(r->end - r->at)) { r->bad = 1; return zero; }
    r->at += n;
    return r->at - n;
}
static inline int16_t get16(Reader *r)
{
    const uint8_t *p = take(r, 2);
    return (int16_t)(p[0] << 8 | p[1]);
}
static inline int32_t get32(Reader *r)
{
    const uint8_t *p = take(r, 4);
    return (int32_t)((uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3]);
}
static inline unsigned get_count(Reader *r)
{
    unsigned n = 0, shift = 0, byte;
    do {
        byte = *take(r, 1);
        n |= (byte & 127) << shift;
        shift += 7;
    } while (byte > 127 && shift < 35);
    return n - 1;
}
static inline void get_text(Reader *r, char *out, size_t room)
{
    int n = get16(r);
    const uint8_t *p;
    if (n < 0) n = 0;
    p = take(r, (size_t)n);
    if (r->bad || (size_t)n >= room) { r->bad = 1; n = 0; }
    memcpy(out, p, (size_t)n);
    out[n] = 0;
}
#endif
