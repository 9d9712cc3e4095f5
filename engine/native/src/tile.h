// The one matrix kernel: a few rows times packed weights, each row's sums in the same order whatever rows are beside it.
#pragma once
#include <array>
#include <utility>

#include "simd.h"

namespace mindspec {

constexpr int BLOCK = 32;  // columns of a packed block of weights; also keys of a packed block of keys
constexpr int NARROW = 2 * LANES, WIDE = 4 * LANES;  // columns of a tile; few rows take wide ones to keep the adders busy
constexpr int WIDE_ROWS = TILE_ROWS / 2;

// y[M][C * LANES] = x[M][2 * pairs] * w.
// w: `pairs` lines, ldw apart, of 32 columns times 2 consecutive k; the next 32 columns are ldb further on.
// In each of the `pairs` turns FETCH cache lines at `ahead` are fetched to the second cache (the first has no room for
// them: the products of 16 rows took 11.5 ms with it instead of 9.7); then `ahead` moves by ahead_step bytes.
template <int M, int C, int FETCH>
void tile(const bf16* x, long ldx, const bf16* w, long ldw, long ldb, long pairs, float* y, long ldy, const char* ahead,
          long ahead_step) {
  Vec sums[M][C];
  UNROLL(24)
  for (int i = 0; i < M * C; i++) sums[i / C][i % C] = zero();
  UNROLL(1)
  for (long k = 0; k < pairs; k++) {
    Weights weights[C];
    UNROLL(4)
    for (int c = 0; c < C; c++) weights[c] = load_weights(w + k * ldw + c * LANES / BLOCK * ldb + c * LANES % BLOCK * 2);
    if (FETCH) {
      UNROLL(4)
      for (int i = 0; i < FETCH; i++) _mm_prefetch(ahead + 64 * i, _MM_HINT_T1);
      ahead += ahead_step;
    }
    UNROLL(16)
    for (int m = 0; m < M; m++) {
      const Pair pair = load_pair(x + m * ldx + 2 * k);
      UNROLL(4)
      for (int c = 0; c < C; c++) sums[m][c] = dot(sums[m][c], weights[c], pair);
    }
  }
  UNROLL(24)
  for (int i = 0; i < M * C; i++) store(y + i / C * ldy + i % C * LANES, sums[i / C][i % C]);
}

using Tile = void (*)(const bf16*, long, const bf16*, long, long, long, float*, long, const char*, long);

template <int C, int FETCH, int... I>
constexpr std::array<Tile, sizeof...(I)> tiles_of(std::integer_sequence<int, I...>) {
  return {&tile<I + 1, C, FETCH>...};
}

extern const std::array<Tile, TILE_ROWS> NARROW_TILES[3];  // by cache lines fetched, then by rows less one
extern const std::array<Tile, WIDE_ROWS> WIDE_TILES;       // these fetch two lines

// All columns of a product, for attention: y[rows][columns] = x * w, while what lies at `ahead` is fetched.
inline void multiply(const bf16* x, long ldx, long rows, const bf16* w, long ldw, long ldb, long columns, long pairs,
                     float* y, long ldy, const char*& ahead) {
  const long count = (rows + TILE_ROWS - 1) / TILE_ROWS;
  for (long column = 0; column < columns;) {
    const bool wide = rows <= WIDE_ROWS && column + WIDE <= columns;
    const bf16* first = w + column / BLOCK * ldb + column % BLOCK * 2;
    for (long i = 0; i < count; i++) {
      const long row = rows * i / count, some = rows * (i + 1) / count - row;
      (wide ? WIDE_TILES[some - 1] : NARROW_TILES[0][some - 1])(x + row * ldx, ldx, first, ldw, ldb, pairs,
                                                                y + row * ldy + column, ldy, ahead, 128);
      if (wide) ahead += 128 * pairs;
    }
    column += wide ? WIDE : NARROW;
  }
}

}  // namespace mindspec
