// Vectors of floats for one instruction set, chosen by the compiler's flags: the rest of the source knows these names only.
#pragma once
#include <immintrin.h>

#include <cmath>
#include <cstdint>
#include <cstring>

#define MINDSPEC_TEXT(text) #text
#if defined(__clang__)
#define UNROLL(count) _Pragma("unroll")
#else
#define UNROLL(count) _Pragma(MINDSPEC_TEXT(GCC unroll count))
#endif

// Keeps a vector in its register: GCC would load it again wherever it is used.
#if defined(__AVX512F__)
#define KEEP(vector) asm("" : "+v"(vector))
#else
#define KEEP(vector) asm("" : "+x"(vector))
#endif

namespace mindspec {

using bf16 = uint16_t;

inline float float_of(bf16 value) {
  const uint32_t bits = uint32_t(value) << 16;
  float result;
  std::memcpy(&result, &bits, 4);
  return result;
}
inline bf16 round_bf16(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  return bf16((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

#if defined(__AVX512F__)

constexpr int LANES = 16;
constexpr int TILE_ROWS = 12;  // rows of one register tile of two vectors: 24 of 32 registers hold sums
constexpr int EVEN_ROWS = 8;   // rows of each tile where it takes several: 96 % of the peak of products, 12 reach 92
using Vec = __m512;
using Int = __m512i;

inline Vec set1(float value) { return _mm512_set1_ps(value); }
inline Vec load(const float* p) { return _mm512_loadu_ps(p); }
inline void store(float* p, Vec v) { _mm512_storeu_ps(p, v); }
inline Vec add(Vec a, Vec b) { return _mm512_add_ps(a, b); }
inline Vec sub(Vec a, Vec b) { return _mm512_sub_ps(a, b); }
inline Vec mul(Vec a, Vec b) { return _mm512_mul_ps(a, b); }
inline Vec div(Vec a, Vec b) { return _mm512_div_ps(a, b); }
inline Vec fma(Vec a, Vec b, Vec c) { return _mm512_fmadd_ps(a, b, c); }
inline Vec max(Vec a, Vec b) { return _mm512_max_ps(a, b); }
inline float sum(Vec v) { return _mm512_reduce_add_ps(v); }
inline float top(Vec v) { return _mm512_reduce_max_ps(v); }
inline Int load_int(const void* p) { return _mm512_loadu_si512(p); }
inline Int set1_int(int value) { return _mm512_set1_epi32(value); }
inline Vec low_halves(Int v) { return _mm512_castsi512_ps(_mm512_slli_epi32(v, 16)); }
inline Vec high_halves(Int v) { return _mm512_castsi512_ps(_mm512_and_si512(v, _mm512_set1_epi32(int(0xffff0000)))); }
inline Vec from_bf16(const bf16* p) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i*)p)), 16));
}
inline __m256i rounded(Vec v) {
#if defined(__AVX512BF16__)
  return (__m256i)_mm512_cvtneps_pbh(v);
#else
  const Int bits = _mm512_castps_si512(v);
  const Int odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
  const Int up = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd);
  return _mm512_cvtepi32_epi16(_mm512_srli_epi32(up, 16));
#endif
}
inline void to_bf16(bf16* p, Vec v) { _mm256_storeu_si256((__m256i*)p, rounded(v)); }
inline Vec abs(Vec v) { return _mm512_abs_ps(v); }
// The nearest whole numbers, of 16 bits.
inline void to_fixed(int16_t* p, Vec v) { _mm256_storeu_si256((__m256i*)p, _mm512_cvtsepi32_epi16(_mm512_cvtps_epi32(v))); }
inline Vec to_float(Int v) { return _mm512_cvtepi32_ps(v); }
inline Int widen(const int8_t* p) { return _mm512_cvtepi8_epi16(_mm256_loadu_si256((const __m256i*)p)); }
// Adds the products of two pairs of 16 bits to each lane of 32.
inline Int add_products(Int sum, Int a, Int b) {
#if defined(__AVX512VNNI__)
  return _mm512_dpwssd_epi32(sum, a, b);
#else
  return _mm512_add_epi32(sum, _mm512_madd_epi16(a, b));
#endif
}
// 2 to the power of `whole` times `fraction`; 0 where that is too small for a float.
inline Vec scaled(Vec fraction, Vec whole) { return _mm512_scalef_ps(fraction, whole); }
inline Vec nearest(Vec v) { return _mm512_roundscale_ps(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
constexpr float LEAST_POWER = -200.f, LARGEST_POWER = 200.f;
// Lanes numbered first, first + 1, ...: those outside of low..high become `other`.
inline Vec keep_between(Vec v, int first, int low, int high, Vec other) {
  const Int lane = _mm512_add_epi32(_mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0), set1_int(first));
  const __mmask16 outside = _mm512_cmpgt_epi32_mask(lane, set1_int(high)) | _mm512_cmplt_epi32_mask(lane, set1_int(low));
  return _mm512_mask_blend_ps(outside, v, other);
}
inline void store_first(float* p, Vec v, long count) {
  _mm512_mask_storeu_ps(p, count >= LANES ? 0xffff : (1u << count) - 1, v);
}
// One bit a lane; nothing compares with a NaN.
inline unsigned above(Vec a, Vec b) { return _mm512_cmp_ps_mask(a, b, _CMP_GT_OQ); }
inline unsigned at_least(Vec a, Vec b) { return _mm512_cmp_ps_mask(a, b, _CMP_GE_OQ); }
inline unsigned equal(Vec a, Vec b) { return _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ); }
inline unsigned no_number(Vec v) { return _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q); }
// v where a > b, else 0.
inline Vec where_above(Vec a, Vec b, Vec v) { return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(a, b, _CMP_GT_OQ), v); }
// Writes 16 values beside 16 others: to every second place from p[odd] on.
inline void store_interleaved(bf16* p, Vec v, bool odd) {
  const Int wide = _mm512_cvtepu16_epi32(rounded(v));
  _mm512_mask_storeu_epi16(p, odd ? 0xaaaaaaaau : 0x55555555u, odd ? _mm512_slli_epi32(wide, 16) : wide);
}

#else

constexpr int LANES = 8;
constexpr int TILE_ROWS = 4;  // 8 of 16 registers hold sums
constexpr int EVEN_ROWS = 4;
using Vec = __m256;
using Int = __m256i;

inline Vec set1(float value) { return _mm256_set1_ps(value); }
inline Vec load(const float* p) { return _mm256_loadu_ps(p); }
inline void store(float* p, Vec v) { _mm256_storeu_ps(p, v); }
inline Vec add(Vec a, Vec b) { return _mm256_add_ps(a, b); }
inline Vec sub(Vec a, Vec b) { return _mm256_sub_ps(a, b); }
inline Vec mul(Vec a, Vec b) { return _mm256_mul_ps(a, b); }
inline Vec div(Vec a, Vec b) { return _mm256_div_ps(a, b); }
inline Vec fma(Vec a, Vec b, Vec c) { return _mm256_fmadd_ps(a, b, c); }
inline Vec max(Vec a, Vec b) { return _mm256_max_ps(a, b); }
inline float sum(Vec v) {
  __m128 half = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  half = _mm_add_ps(half, _mm_movehl_ps(half, half));
  return _mm_cvtss_f32(_mm_add_ss(half, _mm_movehdup_ps(half)));
}
inline float top(Vec v) {
  __m128 half = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  half = _mm_max_ps(half, _mm_movehl_ps(half, half));
  return _mm_cvtss_f32(_mm_max_ss(half, _mm_movehdup_ps(half)));
}
inline Int load_int(const void* p) { return _mm256_loadu_si256((const __m256i*)p); }
inline Int set1_int(int value) { return _mm256_set1_epi32(value); }
inline Vec low_halves(Int v) { return _mm256_castsi256_ps(_mm256_slli_epi32(v, 16)); }
inline Vec high_halves(Int v) { return _mm256_castsi256_ps(_mm256_and_si256(v, _mm256_set1_epi32(int(0xffff0000)))); }
inline Vec from_bf16(const bf16* p) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i*)p)), 16));
}
inline __m128i rounded(Vec v) {
  const Int bits = _mm256_castps_si256(v);
  const Int odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  const Int up = _mm256_srli_epi32(_mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd), 16);
  return _mm_packus_epi32(_mm256_castsi256_si128(up), _mm256_extracti128_si256(up, 1));
}
inline void to_bf16(bf16* p, Vec v) { _mm_storeu_si128((__m128i*)p, rounded(v)); }
inline Vec abs(Vec v) { return _mm256_andnot_ps(set1(-0.f), v); }
// The nearest whole numbers, of 16 bits.
inline void to_fixed(int16_t* p, Vec v) {
  const Int whole = _mm256_cvtps_epi32(v);
  _mm_storeu_si128((__m128i*)p, _mm_packs_epi32(_mm256_castsi256_si128(whole), _mm256_extracti128_si256(whole, 1)));
}
inline Vec to_float(Int v) { return _mm256_cvtepi32_ps(v); }
inline Int widen(const int8_t* p) { return _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i*)p)); }
// Adds the products of two pairs of 16 bits to each lane of 32.
inline Int add_products(Int sum, Int a, Int b) { return _mm256_add_epi32(sum, _mm256_madd_epi16(a, b)); }
// The power is written into the exponent's bits, so it may not go below the smallest normal number.
constexpr float LEAST_POWER = -126.f, LARGEST_POWER = 128.f;
inline Vec scaled(Vec fraction, Vec whole) {
  const Int power = _mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(whole), _mm256_set1_epi32(127)), 23);
  const Vec enough = _mm256_cmp_ps(whole, set1(LEAST_POWER), _CMP_NLE_UQ);
  return _mm256_and_ps(enough, mul(fraction, _mm256_castsi256_ps(power)));
}
inline Vec nearest(Vec v) { return _mm256_round_ps(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
// Lanes numbered first, first + 1, ...: those outside of low..high become `other`.
inline Vec keep_between(Vec v, int first, int low, int high, Vec other) {
  const Int lane = _mm256_add_epi32(_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), set1_int(first));
  const Int outside = _mm256_or_si256(_mm256_cmpgt_epi32(lane, set1_int(high)), _mm256_cmpgt_epi32(set1_int(low), lane));
  return _mm256_blendv_ps(v, other, _mm256_castsi256_ps(outside));
}
inline void store_first(float* p, Vec v, long count) {
  if (count >= LANES) return store(p, v);
  float all[LANES];
  store(all, v);
  for (long i = 0; i < count; i++) p[i] = all[i];
}
// One bit a lane; nothing compares with a NaN.
inline unsigned above(Vec a, Vec b) { return unsigned(_mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_GT_OQ))); }
inline unsigned at_least(Vec a, Vec b) { return unsigned(_mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_GE_OQ))); }
inline unsigned equal(Vec a, Vec b) { return unsigned(_mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_EQ_OQ))); }
inline unsigned no_number(Vec v) { return unsigned(_mm256_movemask_ps(_mm256_cmp_ps(v, v, _CMP_UNORD_Q))); }
// v where a > b, else 0.
inline Vec where_above(Vec a, Vec b, Vec v) { return _mm256_and_ps(_mm256_cmp_ps(a, b, _CMP_GT_OQ), v); }
// Writes 8 values beside 8 others: to every second place from p[odd] on.
inline void store_interleaved(bf16* p, Vec v, bool odd) {
  bf16 all[LANES];
  to_bf16(all, v);
  for (int i = 0; i < LANES; i++) p[2 * i + odd] = all[i];
}

#endif

// A vector of weights, two consecutive k a lane, and two values of a row for all lanes; dot adds both products.
#if defined(__AVX512BF16__)
using Weights = __m512bh;
using Pair = __m512bh;
inline Weights load_weights(const bf16* p) {
  Weights w = (Weights)load_int(p);
  KEEP(w);
  return w;
}
inline Pair load_pair(const bf16* p) {
  int both;
  std::memcpy(&both, p, 4);
  return (Pair)set1_int(both);
}
inline Vec dot(Vec sum, Weights w, Pair x) { return _mm512_dpbf16_ps(sum, w, x); }
#else
struct Weights { Vec even, odd; };
struct Pair { Vec even, odd; };
inline Weights load_weights(const bf16* p) {
  Int both = load_int(p);
  Weights w{low_halves(both), high_halves(both)};
  KEEP(w.even);
  KEEP(w.odd);
  return w;
}
inline Pair load_pair(const bf16* p) {
  uint32_t both;
  std::memcpy(&both, p, 4);
  const Int all = set1_int(int(both));
  return {low_halves(all), high_halves(all)};
}
inline Vec dot(Vec sum, const Weights& w, const Pair& x) { return fma(w.odd, x.odd, fma(w.even, x.even, sum)); }
#endif

inline Vec zero() { return set1(0.f); }

// 2^x by a polynomial of degree 6 for the fraction (relative error 1e-7); 0 for large negative x, NaN for NaN.
inline Vec exp2(Vec x) {
  x = max(set1(LEAST_POWER), x);  // this order keeps a NaN
#if defined(__AVX512F__)
  x = _mm512_min_ps(set1(LARGEST_POWER), x);
#else
  x = _mm256_min_ps(set1(LARGEST_POWER), x);
#endif
  const Vec whole = nearest(x), rest = sub(x, whole);
  Vec p = set1(1.5403530e-4f);
  p = fma(p, rest, set1(1.3333558e-3f));
  p = fma(p, rest, set1(9.6181291e-3f));
  p = fma(p, rest, set1(5.5504109e-2f));
  p = fma(p, rest, set1(2.4022651e-1f));
  p = fma(p, rest, set1(6.9314718e-1f));
  p = fma(p, rest, set1(1.f));
  return scaled(p, whole);
}
inline Vec sigmoid(Vec x) {
  const Vec one = set1(1.f);
  return div(one, add(one, exp2(mul(x, set1(-1.44269504f)))));
}
inline Vec tanh(Vec x) { return sub(mul(set1(2.f), sigmoid(add(x, x))), set1(1.f)); }

}  // namespace mindspec
