// The matrix kernel for int8 weights: rows in 16 bit fixed point, exact sums of whole numbers.
#pragma once
#include <algorithm>

#include "tile.h"

namespace mindspec {

// So many pairs of products fit a sum of 32 bits: 2 * 256 * 127 * 32768 < 2^31. Such sums are added up in float32.
constexpr long EXACT_PAIRS = 256;

// A type of its own: Int may alias anything, for which GCC keeps arrays of it in memory as well.
typedef int Sum __attribute__((vector_size(4 * LANES)));

// y[M][NARROW] = x[M][2 * pairs] * w, all of whole numbers; y has rows of BLOCK.
// w: `pairs` lines of 32 columns times 2 consecutive k. In each turn FETCH cache lines at `ahead` are fetched, which then
// moves by ahead_step bytes.
template <int M, int FETCH>
void tile_int8(const int16_t* x, long ldx, const int8_t* w, long pairs, float* y, const char* ahead, long ahead_step) {
  for (long begin = 0; begin < pairs; begin += EXACT_PAIRS) {
    const long end = std::min(begin + EXACT_PAIRS, pairs);
    Sum sums[M][2];
    UNROLL(24)
    for (int i = 0; i < M * 2; i++) sums[i / 2][i % 2] = (Sum)set1_int(0);
    UNROLL(1)
    for (long k = begin; k < end; k++) {
      Int first = widen(w + k * 2 * BLOCK), second = widen(w + k * 2 * BLOCK + 2 * LANES);
      KEEP(first);
      KEEP(second);
      if (FETCH) {
        _mm_prefetch(ahead, _MM_HINT_T1);
        ahead += ahead_step;
      }
      UNROLL(16)
      for (int m = 0; m < M; m++) {
        int both;
        std::memcpy(&both, x + m * ldx + 2 * k, 4);
        const Int pair = set1_int(both);
        sums[m][0] = (Sum)add_products((Int)sums[m][0], first, pair);
        sums[m][1] = (Sum)add_products((Int)sums[m][1], second, pair);
      }
    }
    UNROLL(24)
    for (int i = 0; i < M * 2; i++) {
      float* out = y + i / 2 * BLOCK + i % 2 * LANES;
      const Vec sum = to_float((Int)sums[i / 2][i % 2]);
      store(out, begin ? add(load(out), sum) : sum);
    }
  }
}

using TileInt8 = void (*)(const int16_t*, long, const int8_t*, long, float*, const char*, long);

template <int FETCH, int... I>
constexpr std::array<TileInt8, sizeof...(I)> int8_tiles_of(std::integer_sequence<int, I...>) {
  return {&tile_int8<I + 1, FETCH>...};
}

extern const std::array<TileInt8, TILE_ROWS> INT8_TILES[2];  // by cache lines fetched, then by rows less one

}  // namespace mindspec
