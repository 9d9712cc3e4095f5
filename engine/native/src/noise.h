// The noise of engine/sampling/noise.py: exact for one token, and from below for a vector of them.
#pragma once
#include "simd.h"

namespace mindspec {

constexpr uint64_t NOISE_STEP = 0x9E3779B97F4A7C15, NOISE_FACTOR_1 = 0xBF58476D1CE4E5B9, NOISE_FACTOR_2 = 0x94D049BB133111EB;

inline uint64_t mix64(uint64_t value) {
  value += NOISE_STEP;
  value = (value ^ (value >> 30)) * NOISE_FACTOR_1;
  value = (value ^ (value >> 27)) * NOISE_FACTOR_2;
  return value ^ (value >> 31);
}

#if defined(__AVX512F__)
using Long = __m512i;  // LANES / 2 integers of 64 bits
inline Long set1_long(uint64_t value) { return _mm512_set1_epi64((long long)value); }
inline Long add_long(Long a, Long b) { return _mm512_add_epi64(a, b); }
inline Long mul_long(Long a, Long b) { return _mm512_mullo_epi64(a, b); }
template <int BITS>
inline Long fold(Long v) { return _mm512_xor_si512(v, _mm512_srli_epi64(v, BITS)); }
// From the upper halves of all: (2^32 - 1 - half) / 2^32, not rounded up by more than a float's rounding.
inline Vec from_one(Long low, Long high) {
  const __m256i a = _mm512_cvtepi64_epi32(_mm512_srli_epi64(low, 32)), b = _mm512_cvtepi64_epi32(_mm512_srli_epi64(high, 32));
  const Int halves = _mm512_inserti64x4(_mm512_castsi256_si512(a), b, 1);
  const Int rest = _mm512_srli_epi32(_mm512_xor_si512(halves, set1_int(-1)), 1);
  return mul(_mm512_cvtepi32_ps(rest), set1(1.f / 2147483648.f));
}
inline Long load_long(const uint64_t* p) { return _mm512_loadu_si512(p); }
#else
using Long = __m256i;
inline Long set1_long(uint64_t value) { return _mm256_set1_epi64x((long long)value); }
inline Long add_long(Long a, Long b) { return _mm256_add_epi64(a, b); }
inline Long mul_long(Long a, Long b) {
  const Long one = _mm256_mul_epu32(_mm256_srli_epi64(a, 32), b), other = _mm256_mul_epu32(a, _mm256_srli_epi64(b, 32));
  const Long crossed = _mm256_add_epi64(one, other);
  return _mm256_add_epi64(_mm256_mul_epu32(a, b), _mm256_slli_epi64(crossed, 32));
}
template <int BITS>
inline Long fold(Long v) { return _mm256_xor_si256(v, _mm256_srli_epi64(v, BITS)); }
inline Vec from_one(Long low, Long high) {
  const Vec odd = _mm256_shuffle_ps(_mm256_castsi256_ps(low), _mm256_castsi256_ps(high), 0xdd);
  const Int halves = _mm256_permute4x64_epi64(_mm256_castps_si256(odd), 0xd8);
  const Int rest = _mm256_srli_epi32(_mm256_xor_si256(halves, set1_int(-1)), 1);
  return mul(_mm256_cvtepi32_ps(rest), set1(1.f / 2147483648.f));
}
inline Long load_long(const uint64_t* p) { return _mm256_loadu_si256((const __m256i*)p); }
#endif

class Noise {
 public:
  Noise(uint64_t key, uint64_t position) : base_(mix64(key ^ mix64(position))) {
    for (int lane = 0; lane < LANES; lane++) lanes_[lane] = uint64_t(lane) * NOISE_STEP + base_ + NOISE_STEP;
  }
  // The Exponential(1) number of a token.
  double operator()(int64_t token) const {
    const uint64_t state = mix64(base_ + uint64_t(token) * NOISE_STEP);
    return -std::log((double(state >> 12) + 0.5) * 0x1p-52);
  }
  // At most the numbers of LANES tokens from `first` on (but for a float's rounding): -log u > 1 - u, of whose 52 bits
  // the first 31 are taken.
  Vec at_least_of(int64_t first) const {
    const Long start = set1_long(uint64_t(first) * NOISE_STEP);
    return from_one(mixed(add_long(start, load_long(lanes_))), mixed(add_long(start, load_long(lanes_ + LANES / 2))));
  }

 private:
  static Long mixed(Long v) {
    v = mul_long(fold<30>(v), set1_long(NOISE_FACTOR_1));
    v = mul_long(fold<27>(v), set1_long(NOISE_FACTOR_2));
    return fold<31>(v);
  }

  const uint64_t base_;
  alignas(64) uint64_t lanes_[LANES];
};

}  // namespace mindspec
