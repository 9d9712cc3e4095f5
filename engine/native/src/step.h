// One forward step over packed, ragged rows: what its phases share.
#pragma once
#include <atomic>
#include <cstdlib>
#include <memory>
#include <new>
#include <vector>

#include "model.h"
#include "pool.h"
#include "tile_int8.h"

namespace mindspec {

constexpr int64_t MAX_HEAD_DIM = 512;

// In a sanitised build a step's memory has the size that the step asks for, so that nothing beyond it goes unseen.
#if defined(MINDSPEC_SANITISED)
constexpr bool EXACT = true;
#else
constexpr bool EXACT = false;
#endif

// Memory for a step's rows: aligned, grows, keeps nothing when it does.
template <class T>
class Buffer {
 public:
  Buffer() = default;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  Buffer(Buffer&& other) noexcept : data_(other.data_), size_(other.size_) { other.data_ = nullptr; }
  ~Buffer() { std::free(data_); }
  void grow(size_t count) {
    if (EXACT ? count == size_ : count <= size_) return;
    std::free(data_);
    data_ = nullptr;
    size_ = 0;
    void* found = nullptr;
    if (posix_memalign(&found, 64, count * sizeof(T))) throw std::bad_alloc();
    data_ = static_cast<T*>(found);
    size_ = count;
  }
  T* get() const { return data_; }
  T& operator[](size_t index) const { return data_[index]; }

 private:
  T* data_ = nullptr;
  size_t size_ = 0;
};

// Attention work: neighbouring rows of one sequence, one head of keys and values, and one page where pages are shared out.
struct Item {
  int row, rows, head, page;
};

// What one thread needs for one page: scores, weights, weighted values, and per row the maximum and the sum.
struct Scratch {
  Buffer<float> scores, values, peak, total;
  Buffer<float> all_values, all_peak, all_total;  // of the pages so far
  Buffer<bf16> weights;
};

class Step {
 public:
  Step(const Model& model, Pool& pool, bf16* pages);
  // Logits go to float[wanted, vocab].
  void run(const Batch& batch, float* logits, bool all_threads);

 private:
  const Model model_;
  const std::vector<Layer> layers_;
  Pool& pool_;
  bf16* const pages_;  // [pages, layers, kv_heads, 2, page * head_dim]; keys [page/32][dim/2][32][2], values [page/2][dim][2]
  const int64_t group_;  // query heads of one head of keys and values
  const int64_t item_rows_;  // rows of an attention item at most

  Batch batch_{};
  float* logits_ = nullptr;
  bool by_page_ = false;  // few rows: attention is shared out by page, and combined in a phase of its own
  int64_t items_at_once_ = 1;
  Buffer<float> residual_, branch_, qkv_, parts_;
  Buffer<float> factors_;  // by row: what its fixed point numbers are multiples of, where it meets int8 weights
  Buffer<bf16> input_, inner_, queries_;
  std::vector<int> last_positions_;   // by sequence, of this step
  std::vector<int64_t> part_begins_;  // by row: its first part in `parts_`, counted in parts of one head
  std::vector<Item> items_;
  std::unique_ptr<std::atomic<int>[]> next_item_;  // by layer: the next item that nobody has claimed
  std::vector<Scratch> scratch_;                   // by thread

  void prepare(const Batch& batch);
  void walk(int thread);
  void layer_phases(int thread, size_t index);
  void head_phases(int thread);

  // rows.cpp
  void embed(int64_t row);
  float inverse_rms(const float* values, int64_t count) const;
  void norm(const float* values, const float* gains, bf16* out) const;
  void add_branch(int64_t row, const float* gains);
  void place(const Layer& layer, size_t index, int64_t row);
  void fix(const Linear& linear, bf16* input, int64_t row);
  void clear_after(bf16* values, int64_t slot, int64_t row) const;

  // attention.cpp
  void attend(const Layer& layer, size_t index, const Item& item, const Item& next, Scratch& scratch);
  void attend_page(const Layer& layer, size_t index, const Item& item, int64_t page, const char* ahead, Scratch& scratch);
  void soften(const Layer& layer, const Item& item, int64_t first, int64_t keys, const char*& ahead, Scratch& scratch);
  void merge(float& peak, float& total, float* values, float other_peak, float other_total, const float* other) const;
  void combine(const Layer& layer, int64_t row);
  void finish(int64_t row, int64_t head, float total, const float* values);
  int64_t first_page(const Layer& layer, int64_t position) const;
  int64_t last_page(int64_t row) const { return batch_.positions[row] / model_.page; }
  float* part(int64_t row, int64_t head, int64_t page) const;

  int64_t qkv_width() const { return (model_.heads + 2 * model_.kv_heads) * model_.head_dim; }
  int64_t part_width() const { return model_.head_dim + 16; }
  int32_t page_of(int64_t row, int64_t page) const { return batch_.pages[batch_.page_begins[batch_.sequences[row]] + page]; }
  // Keys (0) or values (1) of one page and head.
  bf16* cell(size_t layer, int32_t page, int64_t head, int which) const {
    const int64_t index = ((page * model_.layers + int64_t(layer)) * model_.kv_heads + head) * 2 + which;
    return pages_ + index * model_.page * model_.head_dim;
  }

  // Calls f(row) for each of `count` rows, shared out among the threads; then waits for the others.
  template <class F>
  void each_row(int thread, int64_t count, F f) {
    const int64_t threads = pool_.active();
    for (int64_t row = count * thread / threads; row < count * (thread + 1) / threads; row++) f(row);
    pool_.barrier();
  }
  void multiply_tile(const Linear& linear, int64_t block, const bf16* x, int64_t rows, int fetched, const char* ahead,
                     int64_t step, float* y) const;
  template <class F>
  void product(int thread, const bf16* x, int64_t rows, const Linear& linear, F take);
};

}  // namespace mindspec
