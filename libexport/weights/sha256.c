/* sha256.c - the blocks of SHA-256, in C and in the instructions of x86. */
#include "libexport/weights/message_digest.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

static const uint32_t k[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t rotate(uint32_t x, unsigned n)
{
    return x >> n | x << (32 - n);
}

static void add_block(uint32_t state[8], const unsigned char *block)
{
    uint32_t w[64];
    uint32_t s[8];

    for (int i = 0; i < 16; i++) {
        w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 |
               (uint32_t)block[4 * i + 2] << 8 | block[4 * i + 3];
    }
    for (int i = 16; i < 64; i++) {
        uint32_t a = rotate(w[i - 15], 7) ^ rotate(w[i - 15], 18) ^ w[i - 15] >> 3;
        uint32_t b = rotate(w[i - 2], 17) ^ rotate(w[i - 2], 19) ^ w[i - 2] >> 10;

        w[i] = w[i - 16] + a + w[i - 7] + b;
    }
    memcpy(s, state, sizeof(s));
    for (int i = 0; i < 64; i += 8) {
        for (int j = 0; j < 8; j++) { /* the eight words change places, not their values */
            uint32_t a = s[(8 - j) & 7];
            uint32_t b = s[(9 - j) & 7];
            uint32_t c = s[(10 - j) & 7];
            uint32_t e = s[(12 - j) & 7];
            uint32_t sum1 = rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25);
            uint32_t choice = (e & s[(13 - j) & 7]) ^ (~e & s[(14 - j) & 7]);
            uint32_t t1 = s[(15 - j) & 7] + sum1 + choice + k[i + j] + w[i + j];
            uint32_t sum0 = rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22);

            s[(11 - j) & 7] += t1;
            s[(15 - j) & 7] = t1 + sum0 + ((a & b) ^ (a & c) ^ (b & c));
        }
    }
    for (int i = 0; i < 8; i++) {
        state[i] += s[i];
    }
}

void exg_sha256_blocks_plain(uint32_t *state, const unsigned char *data, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        add_block(state, data + 64 * i);
    }
}

#if defined(__x86_64__)
/* The instructions keep a, b, e, f in one register and c, d, g, h in the other. */
__attribute__((target("sha,sse4.1"))) static void blocks_x86(uint32_t *state,
                                                             const unsigned char *data,
                                                             size_t count)
{
    const __m128i turn = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
    __m128i abcd = _mm_loadu_si128((const __m128i *)(const void *)state);
    __m128i efgh = _mm_loadu_si128((const __m128i *)(const void *)(state + 4));
    __m128i abef;
    __m128i cdgh;

    abcd = _mm_shuffle_epi32(abcd, 0xb1);
    efgh = _mm_shuffle_epi32(efgh, 0x1b);
    abef = _mm_alignr_epi8(abcd, efgh, 8);
    cdgh = _mm_blend_epi16(efgh, abcd, 0xf0);
    for (; count > 0; count--, data += 64) {
        const __m128i abef_before = abef;
        const __m128i cdgh_before = cdgh;
        __m128i w[4];

        for (int i = 0; i < 16; i++) { /* four rounds each */
            __m128i sum;

            if (i < 4) {
                w[i] = _mm_shuffle_epi8(
                    _mm_loadu_si128((const __m128i *)(const void *)(data + 16 * i)), turn);
            } else {
                __m128i seventh = _mm_alignr_epi8(w[(i + 3) & 3], w[(i + 2) & 3], 4);

                sum = _mm_add_epi32(_mm_sha256msg1_epu32(w[i & 3], w[(i + 1) & 3]), seventh);
                w[i & 3] = _mm_sha256msg2_epu32(sum, w[(i + 3) & 3]);
            }
            sum = _mm_add_epi32(w[i & 3],
                                _mm_loadu_si128((const __m128i *)(const void *)(k + 4 * i)));
            cdgh = _mm_sha256rnds2_epu32(cdgh, abef, sum);
            abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(sum, 0x0e));
        }
        abef = _mm_add_epi32(abef, abef_before);
        cdgh = _mm_add_epi32(cdgh, cdgh_before);
    }
    abcd = _mm_shuffle_epi32(abef, 0x1b);
    efgh = _mm_shuffle_epi32(cdgh, 0xb1);
    _mm_storeu_si128((__m128i *)(void *)state, _mm_blend_epi16(abcd, efgh, 0xf0));
    _mm_storeu_si128((__m128i *)(void *)(state + 4), _mm_alignr_epi8(efgh, abcd, 8));
}

/* Asked once: in a virtual machine the answer takes as long as thousands of bytes. */
static bool has_instructions(void)
{
    static _Atomic int known; /* 1: no, 2: yes */
    int has = atomic_load_explicit(&known, memory_order_relaxed);

    if (has == 0) {
        unsigned a = 0;
        unsigned b = 0;
        unsigned c = 0;
        unsigned d = 0;

        has = __builtin_cpu_supports("sse4.1") && __get_cpuid_count(7, 0, &a, &b, &c, &d) &&
                      (b >> 29 & 1) != 0
                  ? 2
                  : 1;
        atomic_store_explicit(&known, has, memory_order_relaxed);
    }
    return has == 2;
}
#endif

void exg_sha256_blocks(uint32_t *state, const unsigned char *data, size_t count)
{
#if defined(__x86_64__)
    if (has_instructions()) {
        blocks_x86(state, data, count);
        return;
    }
#endif
    exg_sha256_blocks_plain(state, data, count);
}
