// What is looked up over the whole vocabulary of rows of logits; engine/native/sampler.py mirrors these structures.
#pragma once
#include <atomic>
#include <functional>
#include <vector>

#include "pool.h"

namespace mindspec {

// One choice that draws from a row. Steps and names are those of engine/sampling/sampler.py.
struct DrawQuery {
  int64_t row;
  uint64_t key, position;
  double temperature, top_p, repetition, frequency, presence;
  int64_t top_k;           // 1..vocab; vocab keeps all
  int64_t distinct;        // tokens that penalties touch
  const int64_t* counted;  // [distinct]
  const double* generated; // [distinct], how often each was
};

struct LogprobQuery {
  int64_t row, token;
  int64_t top;        // so many of the likeliest are listed, 0..vocab
  int64_t top_begin;  // their place among all lists
};

struct Found {
  float value;
  int64_t id;
  double exact;
};

// What one thread needs for one row.
struct SelectScratch {
  std::vector<float> values, maxima;
  std::vector<int32_t> slots;  // by token: 1 + its place in `exact`, or 0
  std::vector<double> exact;   // logits after penalties
  std::vector<Found> found;
};

// Each row is looked at by one thread as a whole: what comes out depends on the row alone.
class Selection {
 public:
  explicit Selection(Pool& pool) : pool_(pool), scratch_(size_t(pool.size())) {}
  // The likeliest token of each of float[rows, vocab], of equals the smallest id, and whether its logit is finite. A NaN
  // counts as the largest.
  void likeliest(const float* logits, int64_t rows, int64_t vocab, int64_t* ids, int64_t* finite, bool all_threads);
  // A token a query; -1 where floats cannot decide it as the torch sampler does.
  void draw(const float* logits, int64_t vocab, const DrawQuery* queries, int64_t count, int64_t* tokens, bool all_threads);
  // Log-softmax of each query's token, and of the likeliest: descending, equals by id.
  void logprobs(const float* logits, int64_t vocab, const LogprobQuery* queries, int64_t count, float* chosen,
                int64_t* top_ids, float* top_values, bool all_threads);

 private:
  // Calls job(scratch, i) for i from 0 to count - 1, each of which reads so many values.
  void each(int64_t count, int64_t values, bool all_threads, const std::function<void(SelectScratch&, int64_t)>& job);

  Pool& pool_;
  std::vector<SelectScratch> scratch_;  // by thread
};

}  // namespace mindspec
