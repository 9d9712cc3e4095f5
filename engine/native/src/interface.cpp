// The C interface that engine/native/library.py calls. Nothing is checked here: the Python side has done it.
#include <sys/mman.h>

#include <algorithm>
#include <cfloat>
#include <cstdlib>

#include "select.h"
#include "step.h"

#define MINDSPEC_API extern "C" __attribute__((visibility("default")))

using namespace mindspec;

namespace {
constexpr int64_t HUGE_PAGE = 2 << 20;
}

#if defined(MINDSPEC_SANITISED)

// From the heap, exactly so many bytes: the sanitiser watches both ends, which it does not do for mapped memory.
MINDSPEC_API void* mindspec_map(int64_t bytes) {
  void* start = nullptr;
  if (posix_memalign(&start, 64, size_t(bytes))) return nullptr;
  return std::memset(start, 0, size_t(bytes));
}

MINDSPEC_API void mindspec_unmap(void* start, int64_t) { std::free(start); }

MINDSPEC_API void mindspec_touch(void*, int64_t, int64_t) {}  // it is written already

#else

// So many zeroed bytes, in huge pages where the system gives them, that take memory only as they are written; or null.
MINDSPEC_API void* mindspec_map(int64_t bytes) {
  const int64_t whole = (bytes + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
  char* raw = (char*)mmap(nullptr, size_t(whole + HUGE_PAGE), PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (raw == MAP_FAILED) return nullptr;
  char* start = (char*)((uintptr_t(raw) + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE);
  if (start > raw) munmap(raw, size_t(start - raw));
  munmap(start + whole, size_t(raw + HUGE_PAGE - start));
  madvise(start, size_t(whole), MADV_HUGEPAGE);  // a wish: whether it came true shows when the memory is written
  return start;
}

MINDSPEC_API void mindspec_unmap(void* start, int64_t bytes) {
  munmap(start, size_t((bytes + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE));
}

// Lets mapped memory between two offsets take room now; what is written there stays. Systems that cannot do nothing.
MINDSPEC_API void mindspec_touch(void* start, int64_t begin, int64_t end) {
  constexpr int POPULATE_WRITE = 23;  // MADV_POPULATE_WRITE of Linux 5.14
  // In pieces: others who map memory wait for one.
  for (int64_t at = begin / HUGE_PAGE * HUGE_PAGE; at < end; at += HUGE_PAGE)
    if (madvise((char*)start + at, size_t(HUGE_PAGE), POPULATE_WRITE)) return;
}

#endif

MINDSPEC_API void* mindspec_pool_new(int32_t threads) {
  try {
    return new Pool(threads);
  } catch (...) {
    return nullptr;
  }
}

MINDSPEC_API void mindspec_pool_free(void* pool) { delete static_cast<Pool*>(pool); }

// Packs rows of a weight matrix [rows, width] as columns: row i becomes column base + i / run * stride + i % run.
MINDSPEC_API void mindspec_pack(void* pool, uint16_t* target, const uint16_t* source, int64_t rows, int64_t width,
                                int64_t base, int64_t run, int64_t stride) {
  Pool& threads = *static_cast<Pool*>(pool);
  constexpr int64_t SOME = 16;
  const int64_t units = (rows + SOME - 1) / SOME;
  threads.run(true, [&](int thread) {
    for (int64_t unit = units * thread / threads.active(); unit < units * (thread + 1) / threads.active(); unit++) {
      const int64_t first = unit * SOME, count = std::min(SOME, rows - first);
      uint16_t* columns[SOME];
      for (int64_t i = 0; i < count; i++) {
        const int64_t column = base + (first + i) / run * stride + (first + i) % run;
        columns[i] = target + column / BLOCK * BLOCK * width + column % BLOCK * 2;
      }
      for (int64_t k = 0; k < width; k += 2)
        for (int64_t i = 0; i < count; i++) std::memcpy(columns[i] + k * BLOCK, source + (first + i) * width + k, 4);
    }
  });
}

// Packs the same as int8, each row a multiple of its scale; scales[column] is 0 where a row is, and no number where it has one.
MINDSPEC_API void mindspec_pack_int8(void* pool, int8_t* target, float* scales, const uint16_t* source, int64_t rows,
                                     int64_t width, int64_t base, int64_t run, int64_t stride) {
  Pool& threads = *static_cast<Pool*>(pool);
  threads.run(true, [&](int thread) {
    for (int64_t row = rows * thread / threads.active(); row < rows * (thread + 1) / threads.active(); row++) {
      const uint16_t* from = source + row * width;
      uint16_t most = 0;  // absolute values are in the order of their bits, and what is no number is the largest
      for (int64_t k = 0; k < width; k++) most = std::max(most, uint16_t(from[k] & 0x7fff));
      const int64_t column = base + row / run * stride + row % run;
      int8_t* to = target + column / BLOCK * BLOCK * width + column % BLOCK * 2;
      const float scale = scales[column] = float_of(most) / 127.f;
      if (!(scale >= FLT_MIN && scale <= FLT_MAX)) continue;  // the memory is zeroed
      for (int64_t k = 0; k < width; k += 2)
        for (int64_t i = 0; i < 2; i++) to[k * BLOCK + i] = int8_t(std::nearbyint(float_of(from[k + i]) / scale));
    }
  });
}

MINDSPEC_API void* mindspec_step_new(const Model* model, void* pool, uint16_t* pages) {
  try {
    return new Step(*model, *static_cast<Pool*>(pool), pages);
  } catch (...) {
    return nullptr;
  }
}

MINDSPEC_API void mindspec_step_free(void* step) { delete static_cast<Step*>(step); }

// 0, or 1 without memory for the rows.
MINDSPEC_API int32_t mindspec_step_run(void* step, const Batch* batch, float* logits, int32_t all_threads) {
  try {
    static_cast<Step*>(step)->run(*batch, logits, all_threads != 0);
    return 0;
  } catch (...) {
    return 1;
  }
}

MINDSPEC_API void mindspec_copy_pages(uint16_t* pages, int64_t page_bytes, const int32_t* source, const int32_t* target,
                                      int64_t count) {
  char* base = (char*)pages;
  for (int64_t i = 0; i < count; i++)
    std::memcpy(base + target[i] * page_bytes, base + source[i] * page_bytes, size_t(page_bytes));
}

MINDSPEC_API void* mindspec_selection_new(void* pool) {
  try {
    return new Selection(*static_cast<Pool*>(pool));
  } catch (...) {
    return nullptr;
  }
}

MINDSPEC_API void mindspec_selection_free(void* selection) { delete static_cast<Selection*>(selection); }

// These return 0, or 1 without memory.
MINDSPEC_API int32_t mindspec_likeliest(void* selection, const float* logits, int64_t rows, int64_t vocab, int64_t* ids,
                                        int64_t* finite, int32_t all_threads) {
  try {
    static_cast<Selection*>(selection)->likeliest(logits, rows, vocab, ids, finite, all_threads != 0);
    return 0;
  } catch (...) {
    return 1;
  }
}

MINDSPEC_API int32_t mindspec_draw(void* selection, const float* logits, int64_t vocab, const DrawQuery* queries,
                                   int64_t count, int64_t* tokens, int32_t all_threads) {
  try {
    static_cast<Selection*>(selection)->draw(logits, vocab, queries, count, tokens, all_threads != 0);
    return 0;
  } catch (...) {
    return 1;
  }
}

MINDSPEC_API int32_t mindspec_logprobs(void* selection, const float* logits, int64_t vocab, const LogprobQuery* queries,
                                       int64_t count, float* chosen, int64_t* top_ids, float* top_values, int32_t all_threads) {
  try {
    static_cast<Selection*>(selection)->logprobs(logits, vocab, queries, count, chosen, top_ids, top_values, all_threads != 0);
    return 0;
  } catch (...) {
    return 1;
  }
}
