/* Vectors of 16 floats and of 16 integers on every processor: in one register (AVX-512), two (AVX2) or four (NEON, plain C).
 *
 * Whatever the registers, every operation gives the same bits: multiply-adds are fused, sums over the lanes add lane i
 * and i + 8, then 4, 2 and 1 apart, and rounding is half to even. The compiler is told to form no fused operation of its own.
 *
 * A variant defines WIDTH (lanes of a register), the few operations that C cannot say, and its product:
 *   PANELS   vectors of columns computed together
 *   TILE     rows computed together, so that TILE * PANELS * PARTS sums and the operands fit the registers
 *   QUERIES  rows of an attention product computed together
 *   ZERO     what is added to a signed weight to store it: 128 where the instruction takes unsigned weights
 */
#include <math.h>
#include <stdint.h>
#include <string.h>

#ifdef ISA_AMX /* AVX-512 VNNI, and products of many rows in tile registers */
#define ISA_AVX512VNNI 1
#include <sys/syscall.h>
#include <unistd.h>
#endif
#if defined ISA_AVX512VNNI || defined ISA_AVXVNNI || defined ISA_AVX2
#include <immintrin.h>
#elif defined ISA_DOTPROD || defined ISA_I8MM
#define ISA_NEON 1
#include <arm_neon.h>
#endif

#define ALWAYS static inline __attribute__((always_inline))
#ifdef __clang__ /* early, so that arrays of vectors become registers */
#define UNROLLED _Pragma("unroll")
#else
#define UNROLLED _Pragma("GCC unroll 16")
#endif

enum { LANES = 16 };

#if defined ISA_AVX512VNNI
enum { WIDTH = 16, PANELS = 4, TILE = 6, QUERIES = 8, ZERO = 128 };
#elif defined ISA_AVXVNNI
enum { WIDTH = 8, PANELS = 1, TILE = 6, QUERIES = 4, ZERO = 128 };
#elif defined ISA_AVX2
enum { WIDTH = 8, PANELS = 1, TILE = 4, QUERIES = 4, ZERO = 0 };
#elif defined ISA_I8MM
enum { WIDTH = 4, PANELS = 1, TILE = 4, QUERIES = 4, ZERO = 0 };
#elif defined ISA_DOTPROD
enum { WIDTH = 4, PANELS = 1, TILE = 6, QUERIES = 4, ZERO = 0 };
#else
enum { WIDTH = 4, PANELS = 1, TILE = 4, QUERIES = 4, ZERO = 0 };
#endif
#ifdef ISA_AVX2
#define SATURATING 1 /* the second of layout.h's layouts */
#else
#define SATURATING 0
#endif
#ifdef ISA_I8MM
enum { DEPTH = 8 };
#else
enum { DEPTH = 4 };
#endif
enum { PARTS = LANES / WIDTH, PANEL = PANELS * LANES };

typedef float Floats __attribute__((vector_size(4 * WIDTH)));
typedef int32_t Ints __attribute__((vector_size(4 * WIDTH)));
typedef Floats LooseFloats __attribute__((aligned(4), may_alias)); /* wherever floats lie */
typedef struct { Floats part[PARTS]; } F16;
typedef struct { Ints part[PARTS]; } I16;

#define EACH_PART UNROLLED for (int p = 0; p < PARTS; p++)

/* ---- What a register can do ------------------------------------------------------------------------------- */

#if defined ISA_AVX512VNNI

ALWAYS Floats fused_part(Floats a, Floats b, Floats c) { return (Floats)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c); }
ALWAYS Floats max_part(Floats a, Floats b) { return (Floats)_mm512_max_ps((__m512)a, (__m512)b); }
ALWAYS Ints max_int_part(Ints a, Ints b) { return (Ints)_mm512_max_epi32((__m512i)a, (__m512i)b); }
ALWAYS Ints rounded_part(Floats x) { return (Ints)_mm512_cvtps_epi32((__m512)x); }
ALWAYS Floats select_part(Ints mask, Floats a, Floats b) {
    return (Floats)_mm512_mask_mov_ps((__m512)b, _mm512_movepi32_mask((__m512i)mask), (__m512)a);
}

#elif defined ISA_AVXVNNI || defined ISA_AVX2

ALWAYS Floats fused_part(Floats a, Floats b, Floats c) { return (Floats)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c); }
ALWAYS Floats max_part(Floats a, Floats b) { return (Floats)_mm256_max_ps((__m256)a, (__m256)b); }
ALWAYS Ints max_int_part(Ints a, Ints b) { return (Ints)_mm256_max_epi32((__m256i)a, (__m256i)b); }
ALWAYS Ints rounded_part(Floats x) { return (Ints)_mm256_cvtps_epi32((__m256)x); }
ALWAYS Floats select_part(Ints mask, Floats a, Floats b) {
    return (Floats)_mm256_blendv_ps((__m256)b, (__m256)a, (__m256)mask);
}

#elif defined ISA_NEON

ALWAYS Floats fused_part(Floats a, Floats b, Floats c) {
    return (Floats)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
}
ALWAYS Floats select_part(Ints mask, Floats a, Floats b) {
    return (Floats)vbslq_f32((uint32x4_t)mask, (float32x4_t)a, (float32x4_t)b);
}
ALWAYS Floats max_part(Floats a, Floats b) { return select_part(a > b, a, b); } /* of NaNs the second, as on x86 */
ALWAYS Ints max_int_part(Ints a, Ints b) { return (Ints)vmaxq_s32((int32x4_t)a, (int32x4_t)b); }
ALWAYS Ints rounded_part(Floats x) { return (Ints)vcvtnq_s32_f32((float32x4_t)x); }

#else

ALWAYS Floats fused_part(Floats a, Floats b, Floats c) {
    Floats out;
    for (int i = 0; i < WIDTH; i++) out[i] = fmaf(a[i], b[i], c[i]);
    return out;
}
ALWAYS Floats select_part(Ints mask, Floats a, Floats b) { return (Floats)((mask & (Ints)a) | (~mask & (Ints)b)); }
ALWAYS Floats max_part(Floats a, Floats b) { return select_part(a > b, a, b); }
ALWAYS Ints max_int_part(Ints a, Ints b) {
    const Ints larger = a > b;
    return (larger & a) | (~larger & b);
}
ALWAYS Ints rounded_part(Floats x) { /* |x| under 2^22: the sum has the integer in its last bits */
    const Floats shift = {12582912.0f, 12582912.0f, 12582912.0f, 12582912.0f};
    return (Ints)(x + shift) - (Ints)shift;
}

#endif

/* y, and 0 where x < bound */
ALWAYS Floats zero_below(Floats x, float bound, Floats y) {
#if defined ISA_AVX512VNNI
    const __mmask16 kept = _mm512_cmp_ps_mask((__m512)x, _mm512_set1_ps(bound), _CMP_NLT_UQ);
    return (Floats)_mm512_maskz_mov_ps(kept, (__m512)y);
#else
    return (Floats)((Ints)y & ~(Ints)(x < bound));
#endif
}

/* ---- 16 lanes --------------------------------------------------------------------------------------------- */

ALWAYS F16 load(const float *from) {
    F16 x;
    EACH_PART x.part[p] = ((const LooseFloats *)from)[p];
    return x;
}
ALWAYS void store(float *to, F16 x) { EACH_PART ((LooseFloats *)to)[p] = x.part[p]; }
ALWAYS F16 splat(float value) {
    F16 x;
    EACH_PART x.part[p] = value - (Floats){0};
    return x;
}
ALWAYS I16 splat_int(int32_t value) {
    I16 x;
    EACH_PART x.part[p] = value - (Ints){0};
    return x;
}
ALWAYS I16 load_ints(const void *from) { /* aligned to a register */
    I16 x;
    EACH_PART x.part[p] = ((const Ints *)from)[p];
    return x;
}
ALWAYS F16 add(F16 a, F16 b) {
    EACH_PART a.part[p] += b.part[p];
    return a;
}
ALWAYS F16 subtract(F16 a, F16 b) {
    EACH_PART a.part[p] -= b.part[p];
    return a;
}
ALWAYS F16 times(F16 a, F16 b) {
    EACH_PART a.part[p] *= b.part[p];
    return a;
}
/* a * b + c, rounded once */
ALWAYS F16 fused(F16 a, F16 b, F16 c) {
    EACH_PART a.part[p] = fused_part(a.part[p], b.part[p], c.part[p]);
    return a;
}
/* a > b ? a : b, so b where one is NaN */
ALWAYS F16 larger(F16 a, F16 b) {
    EACH_PART a.part[p] = max_part(a.part[p], b.part[p]);
    return a;
}
ALWAYS F16 to_floats(I16 x) {
    F16 y;
    EACH_PART y.part[p] = __builtin_convertvector(x.part[p], Floats);
    return y;
}

/* A finite number in half precision (IEEE 754-2019, binary16) as a float, exactly. */
ALWAYS float from_half(uint16_t half) {
    const uint32_t magnitude = (uint32_t)(half & 0x7fff) << 13; /* as a float, 2^112 times too small */
    float x;
    memcpy(&x, &magnitude, sizeof x);
    return half & 0x8000 ? x * -0x1p112f : x * 0x1p112f;
}

/* 16 floats in half precision, rounded half to even; larger magnitudes become 65,504, the largest. A NaN comes through. */
ALWAYS void store_halves(uint16_t *to, F16 x) {
    const F16 largest = splat(65504);
    EACH_PART x.part[p] = max_part(-largest.part[p], x.part[p]); /* in this order a NaN comes through */
    EACH_PART x.part[p] = -max_part(-largest.part[p], -x.part[p]);
#if defined ISA_AVX512VNNI
    _mm256_storeu_si256((__m256i *)to, _mm512_cvtps_ph((__m512)x.part[0], _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
#elif defined ISA_AVXVNNI || defined ISA_AVX2
    EACH_PART _mm_storeu_si128((__m128i *)to + p, _mm256_cvtps_ph((__m256)x.part[p], _MM_FROUND_TO_NEAREST_INT));
#elif defined ISA_NEON
    EACH_PART vst1_u16(to + 4 * p, vreinterpret_u16_f16(vcvt_f16_f32((float32x4_t)x.part[p])));
#else
    for (int i = 0; i < LANES; i++) {
        const float value = x.part[i / WIDTH][i % WIDTH], magnitude = fabsf(value);
        uint32_t bits;
        memcpy(&bits, &magnitude, sizeof bits);
        if (isnan(value)) bits = 0x7e00;
        else if (magnitude < 0x1p-14f) bits = (uint32_t)rintf(magnitude * 0x1p24f); /* subnormal */
        else bits = (bits - 0x38000000 + 0xfff + (bits >> 13 & 1)) >> 13;
        to[i] = bits | (signbit(value) ? 0x8000 : 0);
    }
#endif
}

/* 16 numbers in half precision, none of them infinite, as floats. */
ALWAYS F16 load_halves(const uint16_t *from) {
    F16 x;
#if defined ISA_AVX512VNNI
    x.part[0] = (Floats)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)from));
#elif defined ISA_AVXVNNI || defined ISA_AVX2
    EACH_PART x.part[p] = (Floats)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)from + p));
#elif defined ISA_NEON
    EACH_PART x.part[p] = (Floats)vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(from + 4 * p)));
#else
    for (int i = 0; i < LANES; i++) {
        const uint16_t half = from[i];
        x.part[i / WIDTH][i % WIDTH] = (half & 0x7c00) == 0x7c00 ? NAN : from_half(half);
    }
#endif
    return x;
}

/* The first `count` lanes of x, and `other` in the lanes after them. */
ALWAYS F16 first_lanes(F16 x, int count, float other) {
    static const int32_t masks[2 * LANES] = {-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1};
    if (count >= LANES) return x;
    I16 mask;
    memcpy(&mask, masks + LANES - count, sizeof mask);
    const F16 others = splat(other);
    EACH_PART x.part[p] = select_part(mask.part[p], x.part[p], others.part[p]);
    return x;
}

/* Folds 16 lanes in two until one is left: lane i with i + 8, then with i + 4, i + 2 and i + 1. */
#if defined ISA_AVX512VNNI || defined ISA_AVXVNNI || defined ISA_AVX2 /* in registers: through memory a store delays the load */

#ifdef ISA_AVX512VNNI
#define LOW_HALF(x) _mm512_castps512_ps256((__m512)(x).part[0])
#define HIGH_HALF(x) _mm512_extractf32x8_ps((__m512)(x).part[0], 1)
#else
#define LOW_HALF(x) (__m256)(x).part[0]
#define HIGH_HALF(x) (__m256)(x).part[1]
#endif
#define FOLDED(x, combined, combined_128)                                                                              \
    const __m256 eight = combined(LOW_HALF(x), HIGH_HALF(x));                                                          \
    const __m128 four = combined_128(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));                  \
    const __m128 two = combined_128(four, _mm_movehl_ps(four, four));                                                  \
    const __m128 one = combined_128(two, _mm_movehdup_ps(two))

ALWAYS float sum_of(F16 x) {
    FOLDED(x, _mm256_add_ps, _mm_add_ps);
    return _mm_cvtss_f32(one);
}
ALWAYS float largest_of(F16 x) {
    FOLDED(x, _mm256_max_ps, _mm_max_ps);
    return _mm_cvtss_f32(one);
}

#else

ALWAYS float sum_of(F16 x) {
    float lanes[LANES];
    UNROLLED for (int half = PARTS / 2; half > 0; half /= 2)
        UNROLLED for (int p = 0; p < half; p++) x.part[p] += x.part[p + half];
    memcpy(lanes, &x.part[0], sizeof x.part[0]);
    UNROLLED for (int half = WIDTH / 2; half > 0; half /= 2)
        UNROLLED for (int i = 0; i < half; i++) lanes[i] += lanes[i + half];
    return lanes[0];
}
ALWAYS float largest_of(F16 x) {
    float lanes[LANES];
    UNROLLED for (int half = PARTS / 2; half > 0; half /= 2)
        UNROLLED for (int p = 0; p < half; p++) x.part[p] = max_part(x.part[p], x.part[p + half]);
    memcpy(lanes, &x.part[0], sizeof x.part[0]);
    UNROLLED for (int half = WIDTH / 2; half > 0; half /= 2)
        UNROLLED for (int i = 0; i < half; i++) lanes[i] = lanes[i] > lanes[i + half] ? lanes[i] : lanes[i + half];
    return lanes[0];
}

#endif

/* Four lanes for each of four floats. */
ALWAYS F16 spread(const float *four) {
    F16 x;
#if defined ISA_AVX512VNNI
    const __m512i of = _mm512_set_epi32(3, 3, 3, 3, 2, 2, 2, 2, 1, 1, 1, 1, 0, 0, 0, 0);
    x.part[0] = (Floats)_mm512_permutevar_ps(_mm512_broadcast_f32x4(_mm_loadu_ps(four)), of);
#elif defined ISA_AVXVNNI || defined ISA_AVX2
    const __m256 twice = _mm256_broadcast_ps((const __m128 *)four);
    x.part[0] = (Floats)_mm256_permutevar_ps(twice, _mm256_set_epi32(1, 1, 1, 1, 0, 0, 0, 0));
    x.part[1] = (Floats)_mm256_permutevar_ps(twice, _mm256_set_epi32(3, 3, 3, 3, 2, 2, 2, 2));
#else
    EACH_PART x.part[p] = four[p] - (Floats){0};
#endif
    return x;
}

/* to[i] = the sum of lanes i, 4 + i, 8 + i and 12 + i, first of the first two and of the last two. */
ALWAYS void store_sums_of_four(float *to, F16 x) {
#if defined ISA_AVX512VNNI /* not through memory: GCC 12 then keeps x there all along */
    const __m512 sums = (__m512)x.part[0];
    const __m128 first = _mm_add_ps(_mm512_extractf32x4_ps(sums, 0), _mm512_extractf32x4_ps(sums, 1));
    const __m128 last = _mm_add_ps(_mm512_extractf32x4_ps(sums, 2), _mm512_extractf32x4_ps(sums, 3));
    _mm_storeu_ps(to, _mm_add_ps(first, last));
#elif defined ISA_AVXVNNI || defined ISA_AVX2
    __m128 halves[2];
    EACH_PART {
        const __m256 sums = (__m256)x.part[p];
        halves[p] = _mm_add_ps(_mm256_castps256_ps128(sums), _mm256_extractf128_ps(sums, 1));
    }
    _mm_storeu_ps(to, _mm_add_ps(halves[0], halves[1]));
#else
    *(LooseFloats *)to = (x.part[0] + x.part[1]) + (x.part[2] + x.part[3]);
#endif
}

#if defined ISA_AVX512VNNI || defined ISA_AVXVNNI || defined ISA_AVX2

#define INT_HALF(x, half) _mm256_castps_si256(half(x))
#define FOLDED_INTS(x, combined, combined_128)                                                                         \
    const __m256i eight = combined(INT_HALF(x, LOW_HALF), INT_HALF(x, HIGH_HALF));                                     \
    const __m128i four = combined_128(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));              \
    const __m128i two = combined_128(four, _mm_shuffle_epi32(four, 0x4e));                                             \
    const __m128i one = combined_128(two, _mm_shuffle_epi32(two, 0xb1))

ALWAYS int32_t int_sum_of(I16 x) {
    FOLDED_INTS(x, _mm256_add_epi32, _mm_add_epi32);
    return _mm_cvtsi128_si32(one);
}
ALWAYS int32_t largest_int_of(I16 x) {
    FOLDED_INTS(x, _mm256_max_epi32, _mm_max_epi32);
    return _mm_cvtsi128_si32(one);
}

#else

ALWAYS int32_t int_sum_of(I16 x) {
    int32_t sum = 0;
    EACH_PART UNROLLED for (int i = 0; i < WIDTH; i++) sum += x.part[p][i];
    return sum;
}
ALWAYS int32_t largest_int_of(I16 x) {
    int32_t largest = x.part[0][0];
    EACH_PART UNROLLED for (int i = 0; i < WIDTH; i++) largest = x.part[p][i] > largest ? x.part[p][i] : largest;
    return largest;
}

#endif

/* The largest of 16 floats that are not negative, or NaN where one is; given as their bits. */
ALWAYS float magnitude_of(I16 bits) {
    const int32_t largest = largest_int_of(bits);
    float value;
    memcpy(&value, &largest, sizeof value);
    return value;
}

/* e^x for x <= 0, and 0 under -86, where a float nears its least. As 2^n 2^f, the second a minimax polynomial of
 * relative error 7.5e-8 on [-1/2, 1/2]. A NaN comes through. */
ALWAYS F16 exponential(F16 x) {
    static const float coefficients[] = {9.675541334e-3f, 5.550713274e-2f, 2.402211972e-1f, 6.931469671e-1f, 1.000000072f};
    const F16 shift = splat(12582912.0f); /* 1.5 * 2^23: the sum's last bits are the nearest integer, half to even */
    const F16 t = times(x, splat(1.442695041f)), shifted = add(t, shift), f = subtract(t, subtract(shifted, shift));
    F16 p = splat(1.327647198e-3f);
    UNROLLED for (int i = 0; i < 5; i++) p = fused(p, f, splat(coefficients[i]));
    for (int i = 0; i < PARTS; i++) {
        const Floats power = (Floats)(((Ints)shifted.part[i] << 23) + 0x3f800000);
        p.part[i] = zero_below(x.part[i], -86.0f, p.part[i] * power);
    }
    return p;
}

/* 1 / (1 + e^-x), by e^-|x|, which cannot overflow. A NaN comes through. */
ALWAYS F16 sigmoid(F16 x) {
    F16 magnitude;
    EACH_PART magnitude.part[p] = (Floats)((Ints)x.part[p] | INT32_MIN); /* -|x| */
    const F16 power = exponential(magnitude);
    EACH_PART {
        const Floats one = 1 - (Floats){0};
        const Floats numerator = select_part(x.part[p] >= 0, one, power.part[p]);
        x.part[p] = numerator / (one + power.part[p]);
    }
    return x;
}

/* x sigmoid(x) (Ramachandran et al. 2017). */
ALWAYS F16 swish(F16 x) { return times(x, sigmoid(x)); }

/* The natural logarithm of a positive normal float, in doubles, so that all libraries give the same: log(m 2^e) with m in
 * [sqrt(1/2), sqrt(2)) as e log(2) + 2 atanh((m - 1) / (m + 1)). NaN for anything else. */
static float logarithm(float x) {
    if (!(x >= 1.17549435e-38f && x <= 3.40282347e+38f)) return NAN;
    int32_t bits;
    memcpy(&bits, &x, sizeof bits);
    int exponent = (bits >> 23) - 127;
    bits = (bits & 0x007fffff) | 0x3f800000;
    float mantissa;
    memcpy(&mantissa, &bits, sizeof mantissa);
    double m = mantissa;
    if (m >= 1.4142135623730951) m *= 0.5, exponent++;
    const double s = (m - 1) / (m + 1), square = s * s;
    double series = 0;
    for (int n = 19; n >= 1; n -= 2) series = series * square + 1.0 / n;
    return (float)(exponent * 0.6931471805599453 + 2 * s * series);
}

/* ---- Products of integers: 16 columns' weights of four inputs, [column][4], by four inputs ------------------ */

#if defined ISA_AVX512VNNI

typedef __m512i Weights;
typedef __m512i Inputs;
ALWAYS Weights load_weights(const int8_t *from) { return _mm512_loadu_si512(from); }
ALWAYS Inputs load_inputs(const int8_t *from) {
    int32_t four;
    memcpy(&four, from, sizeof four);
    return _mm512_set1_epi32(four);
}
/* GCC 12 keeps the intrinsic's sums in memory, which halves the speed; Clang 14 does so with the other form. */
ALWAYS void add_products(I16 *sum, Weights weights, Inputs inputs) {
#ifdef __clang__
    sum->part[0] = (Ints)_mm512_dpbusd_epi32((__m512i)sum->part[0], weights, inputs);
#else
    __asm__("vpdpbusd %2, %1, %0" : "+v"(sum->part[0]) : "v"(weights), "v"(inputs));
#endif
}
ALWAYS void store_bytes(int8_t *to, I16 x, int flip) { 
    _mm_storeu_si128((__m128i *)to, _mm_xor_si128(_mm512_cvtsepi32_epi8((__m512i)x.part[0]), _mm_set1_epi8(flip)));
}

#elif defined ISA_AVXVNNI || defined ISA_AVX2

typedef __m256i Inputs;
ALWAYS Inputs load_inputs(const int8_t *from) {
    int32_t four;
    memcpy(&four, from, sizeof four);
    return _mm256_set1_epi32(four);
}
ALWAYS void store_bytes(int8_t *to, I16 x, int flip) {
    const __m256i words = _mm256_packs_epi32((__m256i)x.part[0], (__m256i)x.part[1]); /* 0-3, 8-11 | 4-7, 12-15 */
    const __m256i ordered = _mm256_permute4x64_epi64(words, 0xd8);
    const __m128i bytes = _mm_packs_epi16(_mm256_castsi256_si128(ordered), _mm256_extracti128_si256(ordered, 1));
    _mm_storeu_si128((__m128i *)to, _mm_xor_si128(bytes, _mm_set1_epi8(flip)));
}

#if defined ISA_AVXVNNI

#ifdef VNNI_AS_AVX512 /* a test on processors that have the instruction in that encoding only */
#define VNNI_ENCODING ""
#else
#define VNNI_ENCODING "%{vex%} "
#endif

typedef struct { __m256i part[2]; } Weights;
ALWAYS Weights load_weights(const int8_t *from) {
    return (Weights){{_mm256_loadu_si256((const __m256i *)from), _mm256_loadu_si256((const __m256i *)from + 1)}};
}
ALWAYS void add_products(I16 *sum, Weights weights, Inputs inputs) {
    EACH_PART {
#if defined __clang__ && !defined VNNI_AS_AVX512
        sum->part[p] = (Ints)_mm256_dpbusd_avx_epi32((__m256i)sum->part[p], weights.part[p], inputs);
#else
        __asm__(VNNI_ENCODING "vpdpbusd %2, %1, %0" : "+x"(sum->part[p]) : "x"(weights.part[p]), "x"(inputs));
#endif
    }
}

#else

/* Four or eight inputs of each row at a time, from rows `stride` bytes apart. layout.h says when vpmaddubsw is exact. */

typedef struct { __m256i part[2]; } Weights;
ALWAYS Weights load_weights(const int8_t *from) {
    return (Weights){{_mm256_loadu_si256((const __m256i *)from), _mm256_loadu_si256((const __m256i *)from + 1)}};
}
/* In assembly, since GCC 12 reassociates additions, and then needs more registers than there are. */
ALWAYS void add_widened(Ints *sum, __m256i pairs) {
    const Ints widened = (Ints)_mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
    __asm__("vpaddd %1, %0, %0" : "+x"(*sum) : "x"(widened));
}
/* Inputs from 0 to 127. */
ALWAYS void add_pairs(const int rows, I16 sums[TILE][PANELS], const int8_t *weight, const int8_t *bytes, int stride) {
    const Weights w = load_weights(weight);
    UNROLLED for (int r = 0; r < rows; r++) {
        const Inputs x = load_inputs(bytes + r * stride);
        EACH_PART add_widened(&sums[r][0].part[p], _mm256_maddubs_epi16(x, w.part[p]));
    }
}
/* Eight inputs from 0 to 127, in safe fours. */
ALWAYS void add_fours(const int rows, I16 sums[TILE][PANELS], const int8_t *weight, const int8_t *bytes, int stride) {
    const Weights w = load_weights(weight), v = load_weights(weight + 4 * LANES);
    UNROLLED for (int r = 0; r < rows; r++) {
        const Inputs x = load_inputs(bytes + r * stride), y = load_inputs(bytes + r * stride + 4);
        EACH_PART {
            const __m256i first = _mm256_maddubs_epi16(x, w.part[p]), second = _mm256_maddubs_epi16(y, v.part[p]);
            add_widened(&sums[r][0].part[p], _mm256_add_epi16(first, second));
        }
    }
}
/* Inputs x + 128, four of the block of 16, in safe pairs. */
ALWAYS void add_shuffled_pairs(const int rows, I16 sums[TILE][PANELS], const int8_t *weight, const int8_t *block, int stride,
                               const int8_t *shuffle) {
    const Weights w = load_weights(weight);
    const Inputs order = load_inputs(shuffle);
    UNROLLED for (int r = 0; r < rows; r++) {
        const __m128i all = _mm_loadu_si128((const __m128i *)(block + r * stride));
        const Inputs x = _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(all), order);
        EACH_PART add_widened(&sums[r][0].part[p], _mm256_maddubs_epi16(x, w.part[p]));
    }
}
/* Inputs x + 128 in any pairs: |w| by x or ~x, two products of which sum to at most 2 * 127 * 128. */
ALWAYS void add_any_pairs(const int rows, I16 sums[TILE][PANELS], const int8_t *weight, const int8_t *bytes, int stride) {
    const Weights w = load_weights(weight);
    Weights magnitude, flip;
    EACH_PART magnitude.part[p] = _mm256_abs_epi8(w.part[p]);
    EACH_PART flip.part[p] = _mm256_xor_si256(_mm256_cmpgt_epi8(_mm256_setzero_si256(), w.part[p]), _mm256_set1_epi8(-128));
    UNROLLED for (int r = 0; r < rows; r++) {
        const Inputs x = load_inputs(bytes + r * stride);
        EACH_PART {
            const __m256i signs = _mm256_xor_si256(x, flip.part[p]);
            add_widened(&sums[r][0].part[p], _mm256_maddubs_epi16(magnitude.part[p], signs));
        }
    }
}

#endif

#elif defined ISA_DOTPROD

typedef struct { int8x16_t part[4]; } Weights;
typedef int8x16_t Inputs;
ALWAYS Weights load_weights(const int8_t *from) {
    Weights weights;
    EACH_PART weights.part[p] = vld1q_s8(from + 16 * p);
    return weights;
}
ALWAYS Inputs load_inputs(const int8_t *from) {
    int32_t four;
    memcpy(&four, from, sizeof four);
    return vreinterpretq_s8_s32(vdupq_n_s32(four));
}
ALWAYS void add_products(I16 *sum, Weights weights, Inputs inputs) {
    EACH_PART sum->part[p] = (Ints)vdotq_s32((int32x4_t)sum->part[p], weights.part[p], inputs);
}

#elif defined ISA_I8MM

/* Two rows' eight inputs each by two columns' weights of them: row by column, in the lanes 00 01 10 11. */
ALWAYS int8x16_t load_pair(const int8_t *first, const int8_t *second) { return vcombine_s8(vld1_s8(first), vld1_s8(second)); }
ALWAYS void add_squares(int32x4_t sums[LANES / 2], const int8_t *weight, int8x16_t inputs) {
    UNROLLED for (int c = 0; c < LANES / 2; c++) sums[c] = vmmlaq_s32(sums[c], inputs, vld1q_s8(weight + 16 * c));
}
/* The sums of the pair's first or second row. */
ALWAYS I16 row_of_squares(const int32x4_t sums[LANES / 2], int second) {
    I16 row;
    EACH_PART {
        const int32x4_t a = sums[2 * p], b = sums[2 * p + 1];
        row.part[p] = second ? (Ints)vcombine_s32(vget_high_s32(a), vget_high_s32(b))
                             : (Ints)vcombine_s32(vget_low_s32(a), vget_low_s32(b));
    }
    return row;
}

#else

typedef const int8_t *Weights;
typedef const int8_t *Inputs;
ALWAYS Weights load_weights(const int8_t *from) { return from; }
ALWAYS Inputs load_inputs(const int8_t *from) { return from; }
ALWAYS void add_products(I16 *sum, Weights weights, Inputs inputs) {
    for (int column = 0; column < LANES; column++)
        for (int k = 0; k < 4; k++)
            sum->part[column / WIDTH][column % WIDTH] += weights[4 * column + k] * inputs[k];
}

#endif

/* Sums from memory, less what ZERO adds to them. */
ALWAYS I16 load_sums(const int32_t *from, int32_t offset) {
    I16 x = load_ints(from);
    EACH_PART x.part[p] -= offset;
    return x;
}

/* ---- Products of up to 32 rows by 64 columns in AMX's tile registers, of 16 rows by 64 bytes each -------------- */

enum { TILE_ROWS = 16, TILE_INPUTS = 64 };

#ifdef ISA_AMX

enum { SQUARE = 2 * TILE_ROWS, LEAST_SQUARE = 3 }; /* rows computed together; from how many on */

/* Asks Linux for the tile registers, once a process; whether it gives them. */
int kernels_usable(void) {
    enum { REQUEST_PERMISSION = 0x1023, TILE_DATA = 18 }; /* asm/prctl.h and the number of the state component */
    return syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0;
}

/* Before products; loads of tiles fail without it. */
static void start_products(void) {
    static const struct {
        uint8_t palette, start_row, reserved[14];
        uint16_t row_bytes[16];
        uint8_t rows[16];
    } all = {1, 0, {0}, {64, 64, 64, 64, 64, 64, 64, 64}, {16, 16, 16, 16, 16, 16, 16, 16}};
    _tile_loadconfig(&all);
}
/* Else the system saves 8 KiB of tiles whenever it switches to another process. */
static void end_products(void) { _tile_release(); }

/* Clears the four tiles of sums, before loads of others. */
ALWAYS void clear_sums(void) {
    __asm__ volatile("" ::: "memory"); /* GCC 12 does not know that loads of tiles read memory */
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
}

/* Sums of 16 rows by 64 columns; rows past the end are read, and their sums mean nothing. weight: [inputs / 4, 64, 4], unsigned;
 * bytes: rows of `inputs` signed ones. */
static void multiply_16(const int8_t *weight, const int8_t *bytes, int inputs, int32_t sums[TILE_ROWS][64]) {
    clear_sums();
    for (int k = 0; k < inputs; k += TILE_INPUTS, weight += 64 * TILE_INPUTS) {
        _tile_loadd(4, bytes + k, inputs);
        _tile_loadd(5, weight, 256);
        _tile_dpbsud(0, 4, 5);
        _tile_loadd(6, weight + 64, 256);
        _tile_dpbsud(1, 4, 6);
        _tile_loadd(7, weight + 128, 256);
        _tile_dpbsud(2, 4, 7);
        _tile_loadd(5, weight + 192, 256);
        _tile_dpbsud(3, 4, 5);
    }
    _tile_stored(0, sums[0], 256);
    _tile_stored(1, sums[0] + 16, 256);
    _tile_stored(2, sums[0] + 32, 256);
    _tile_stored(3, sums[0] + 48, 256);
}

/* The same of 32 rows, 32 columns at a time, so that each weight loaded serves twice as many rows. */
static void multiply_32(const int8_t *weight, const int8_t *bytes, int inputs, int32_t sums[SQUARE][64]) {
    for (int half = 0; half < 2; half++) {
        const int8_t *from = weight + 128 * half, *below = bytes + (size_t)TILE_ROWS * inputs;
        int32_t *to = sums[0] + 32 * half;
        clear_sums();
        for (int k = 0; k < inputs; k += TILE_INPUTS, from += 64 * TILE_INPUTS) {
            _tile_loadd(4, bytes + k, inputs);
            _tile_loadd(6, from, 256);
            _tile_dpbsud(0, 4, 6);
            _tile_loadd(5, below + k, inputs);
            _tile_dpbsud(2, 5, 6);
            _tile_loadd(7, from + 64, 256);
            _tile_dpbsud(1, 4, 7);
            _tile_dpbsud(3, 5, 7);
        }
        _tile_stored(0, to, 256);
        _tile_stored(1, to + 16, 256);
        _tile_stored(2, to + 64 * TILE_ROWS, 256);
        _tile_stored(3, to + 64 * TILE_ROWS + 16, 256);
    }
}

static void multiply_square(const char *weight, const int8_t *bytes, int inputs, int height, int32_t (*sums)[64]) {
    if (height > TILE_ROWS) multiply_32((const int8_t *)weight, bytes, inputs, sums);
    else multiply_16((const int8_t *)weight, bytes, inputs, sums);
}

#else

enum { SQUARE = 0, LEAST_SQUARE = 0 };
int kernels_usable(void) { return 1; }
static void start_products(void) {}
static void end_products(void) {}
static void multiply_square(const char *weight, const int8_t *bytes, int inputs, int height, int32_t (*sums)[64]) {}

#endif

#if !(defined ISA_AVX512VNNI || defined ISA_AVXVNNI || defined ISA_AVX2)
ALWAYS void store_bytes(int8_t *to, I16 x, int flip) {
    for (int i = 0; i < LANES; i++) to[i] = (int8_t)(x.part[i / WIDTH][i % WIDTH] ^ flip);
}
#endif

/* ---- Transposition: to[column][row] = from[row][column], 16 by 16; rows from `count` on are taken as 0 ------- */

static void transpose(const float *from, int stride, int count, float *to, int to_stride) {
#if defined ISA_AVX512VNNI
    __m512 a[LANES], b[LANES];
    for (int i = 0; i < LANES; i++) a[i] = i < count ? _mm512_loadu_ps(from + (size_t)i * stride) : _mm512_setzero_ps();
    UNROLLED for (int i = 0; i < LANES; i += 2) {
        b[i] = _mm512_unpacklo_ps(a[i], a[i + 1]);
        b[i + 1] = _mm512_unpackhi_ps(a[i], a[i + 1]);
    }
    /* then a[4 * i + c], lane of four l: column 4 * l + c of rows 4 * i to 4 * i + 3 */
    UNROLLED for (int i = 0; i < LANES; i += 4)
        UNROLLED for (int half = 0; half < 2; half++) {
            const __m512d even = _mm512_castps_pd(b[i + half]), odd = _mm512_castps_pd(b[i + half + 2]);
            a[i + 2 * half] = _mm512_castpd_ps(_mm512_unpacklo_pd(even, odd));
            a[i + 2 * half + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(even, odd));
        }
    UNROLLED for (int c = 0; c < 4; c++) {
        const __m512 even = _mm512_shuffle_f32x4(a[c], a[4 + c], 0x88), odd = _mm512_shuffle_f32x4(a[c], a[4 + c], 0xdd);
        const __m512 even_below = _mm512_shuffle_f32x4(a[8 + c], a[12 + c], 0x88);
        const __m512 odd_below = _mm512_shuffle_f32x4(a[8 + c], a[12 + c], 0xdd);
        _mm512_storeu_ps(to + (size_t)c * to_stride, _mm512_shuffle_f32x4(even, even_below, 0x88));
        _mm512_storeu_ps(to + (size_t)(4 + c) * to_stride, _mm512_shuffle_f32x4(odd, odd_below, 0x88));
        _mm512_storeu_ps(to + (size_t)(8 + c) * to_stride, _mm512_shuffle_f32x4(even, even_below, 0xdd));
        _mm512_storeu_ps(to + (size_t)(12 + c) * to_stride, _mm512_shuffle_f32x4(odd, odd_below, 0xdd));
    }
#elif defined ISA_AVXVNNI || defined ISA_AVX2
    for (int top = 0; top < LANES; top += 8)
        for (int left = 0; left < LANES; left += 8) {
            __m256 a[8], b[8];
            UNROLLED for (int i = 0; i < 8; i++)
                a[i] = top + i < count ? _mm256_loadu_ps(from + (size_t)(top + i) * stride + left) : _mm256_setzero_ps();
            UNROLLED for (int i = 0; i < 8; i += 2) {
                b[i] = _mm256_unpacklo_ps(a[i], a[i + 1]);
                b[i + 1] = _mm256_unpackhi_ps(a[i], a[i + 1]);
            }
            UNROLLED for (int i = 0; i < 8; i += 4)
                UNROLLED for (int half = 0; half < 2; half++) { /* a[i + c]: columns c and c + 4 of rows i to i + 3 */
                    a[i + 2 * half] = _mm256_shuffle_ps(b[i + half], b[i + half + 2], 0x44);
                    a[i + 2 * half + 1] = _mm256_shuffle_ps(b[i + half], b[i + half + 2], 0xee);
                }
            UNROLLED for (int c = 0; c < 4; c++) {
                float *out = to + (size_t)(left + c) * to_stride + top;
                _mm256_storeu_ps(out, _mm256_permute2f128_ps(a[c], a[4 + c], 0x20));
                _mm256_storeu_ps(out + (size_t)4 * to_stride, _mm256_permute2f128_ps(a[c], a[4 + c], 0x31));
            }
        }
#else
    for (int column = 0; column < LANES; column++)
        for (int row = 0; row < LANES; row++)
            to[(size_t)column * to_stride + row] = row < count ? from[(size_t)row * stride + column] : 0;
#endif
}
