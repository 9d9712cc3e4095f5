// The phases of a step in their order, and the matrix products between them.
#include "step.h"

#include <algorithm>

namespace mindspec {
namespace {

constexpr int64_t PASS_ROWS = 512;    // more rows are run in passes, so that a pass stays near the second cache
constexpr int64_t BY_PAGE_ROWS = 32;  // up to so many rows attention is shared out by page
constexpr int64_t ITEM_ROWS = 48;     // query rows of an attention item at most
constexpr int64_t QUIET_ROWS = 6;     // up to so many rows the processor's own prefetcher does better alone
constexpr int64_t CACHE_LINE = 64;
constexpr int64_t AHEAD = 8192;       // bytes fetched ahead of the weights' stream

}  // namespace

Step::Step(const Model& model, Pool& pool, bf16* pages)
    : model_(model), layers_(model.layer, model.layer + model.layers), pool_(pool), pages_(pages),
      group_(model.heads / model.kv_heads), item_rows_(std::max<int64_t>(1, ITEM_ROWS / group_)),
      next_item_(new std::atomic<int>[size_t(model.layers)]) {
  const size_t rows = size_t(item_rows_ * group_), page = size_t(model.page), dim = size_t(model.head_dim);
  for (int thread = 0; thread < pool.size(); thread++) {
    Scratch scratch;
    scratch.scores.grow(rows * page);
    scratch.weights.grow(rows * page);
    for (Buffer<float>* values : {&scratch.values, &scratch.all_values}) values->grow(rows * dim);
    for (Buffer<float>* one : {&scratch.peak, &scratch.total, &scratch.all_peak, &scratch.all_total}) one->grow(rows);
    scratch_.push_back(std::move(scratch));
  }
}

void Step::run(const Batch& batch, float* logits, bool all_threads) {
  int64_t wanted = 0;
  for (int64_t begin = 0; begin < batch.rows; begin += PASS_ROWS) {
    const int64_t rows = std::min(PASS_ROWS, batch.rows - begin), first = wanted;
    std::vector<int32_t> wanted_rows;
    for (; wanted < batch.wanted && batch.wanted_rows[wanted] < begin + rows; wanted++)
      wanted_rows.push_back(int32_t(batch.wanted_rows[wanted] - begin));
    prepare({rows, wanted - first, batch.token_ids + begin, batch.positions + begin, batch.sequences + begin,
             batch.page_begins, batch.pages, wanted_rows.data()});
    logits_ = logits + first * model_.vocab;
    pool_.run(all_threads, [this](int thread) { walk(thread); });
  }
}

void Step::prepare(const Batch& batch) {
  batch_ = batch;
  const int64_t rows = batch.rows, heads_width = model_.heads * model_.head_dim;
  residual_.grow(size_t(rows * model_.hidden));
  branch_.grow(size_t(rows * model_.hidden));
  qkv_.grow(size_t(rows * qkv_width()));
  input_.grow(size_t(rows * std::max(model_.hidden, heads_width)));
  inner_.grow(size_t(rows * model_.inner));
  factors_.grow(size_t(rows));
  queries_.grow(size_t(rows * heads_width));
  by_page_ = rows <= BY_PAGE_ROWS;
  items_.clear();
  last_positions_.clear();
  part_begins_.clear();
  int64_t parts = 0;
  for (int64_t row = 0; row < rows; row++) {
    const size_t sequence = size_t(batch.sequences[row]);
    if (sequence >= last_positions_.size()) last_positions_.resize(sequence + 1);
    last_positions_[sequence] = batch.positions[row];
    part_begins_.push_back(parts);
    parts += by_page_ ? model_.heads * (last_page(row) + 1) : 0;
  }
  parts_.grow(size_t(parts * part_width()));
  for (int64_t row = 0, end; row < rows; row = end) {
    for (end = row + 1; end < rows && batch.sequences[end] == batch.sequences[row] && end - row < item_rows_;) end++;
    for (int64_t page = 0; page <= (by_page_ ? last_page(end - 1) : 0); page++)
      for (int64_t head = 0; head < model_.kv_heads; head++) items_.push_back({int(row), int(end - row), int(head), int(page)});
  }
  if (!by_page_) std::reverse(items_.begin(), items_.end());  // of a prompt the longest come first
  items_at_once_ = std::clamp<int64_t>(int64_t(items_.size()) / (8 * pool_.size()), 1, 16);
  for (int64_t layer = 0; layer < model_.layers; layer++) next_item_[size_t(layer)] = 0;
}

// A block of columns for the rows of a tile: y[rows][BLOCK]. Each turn of the kernel moves `ahead` by `step` bytes.
void Step::multiply_tile(const Linear& linear, int64_t block, const bf16* x, int64_t rows, int fetched, const char* ahead,
                         int64_t step, float* y) const {
  const int64_t width = linear.inputs, first = block * width * BLOCK;
  for (int column = 0; column < BLOCK; column += NARROW) {
    if (linear.scales)
      INT8_TILES[fetched ? 1 : 0][size_t(rows - 1)]((const int16_t*)x, width, linear.int8_weights() + first + column * 2,
                                                    width / 2, y + column, ahead, step);
    else
      NARROW_TILES[fetched][size_t(rows - 1)](x, width, linear.weights + first + column * 2, 2 * BLOCK, 0, width / 2,
                                              y + column, BLOCK, ahead, step);
  }
}

// y = x * w, 32 columns at a time, each row's given to take(row, first column, float[32]).
template <class F>
void Step::product(int thread, const bf16* x, int64_t rows, const Linear& linear, F take) {
  const int64_t blocks = (linear.outputs + BLOCK - 1) / BLOCK, width = linear.inputs, threads = pool_.active();
  // Blocks that do not come out even among many threads are shared out by rows as well, where there are many.
  const int64_t shares = blocks % threads && rows >= 4 * TILE_ROWS ? std::min(threads, rows / (2 * TILE_ROWS)) : 1;
  const int64_t units = blocks * shares, line = 2 * BLOCK * (linear.scales ? 1 : 2);  // bytes of 32 columns and 2 inputs
  alignas(64) float y[TILE_ROWS * BLOCK];
  for (int64_t unit = units * thread / threads; unit < units * (thread + 1) / threads; unit++) {
    const int64_t block = unit / shares, begin = rows * (unit % shares) / shares;
    const int64_t count = rows * (unit % shares + 1) / shares - begin;
    const int64_t tiles = count <= TILE_ROWS ? count > 0 : (count + EVEN_ROWS - 1) / EVEN_ROWS;  // none where no row wants logits
    const int64_t fetchers = tiles == 1 ? 1 : std::min<int64_t>(2, line / CACHE_LINE);  // tiles that fetch
    const char* weights = (const char*)linear.weights + block * width * line / 2;
    for (int64_t i = 0; i < tiles; i++) {
      const int64_t row = begin + count * i / tiles, some = begin + count * (i + 1) / tiles - row;
      // One tile runs ahead in the stream of weights; of several, the first fetch the next block.
      const char* ahead = weights + (tiles == 1 ? AHEAD : width * line / 2 * (fetchers + i) / fetchers);
      const bool fetches = LANES == 16 && rows > QUIET_ROWS && i < fetchers;
      const int64_t step = line / fetchers;
      multiply_tile(linear, block, x + row * width, some, fetches ? int(step / CACHE_LINE) : 0, ahead, step, y);
      for (int64_t j = 0; j < some; j++) {
        if (linear.scales)
          for (int c = 0; c < BLOCK; c++) y[j * BLOCK + c] *= factors_[row + j] * linear.scales[block * BLOCK + c];
        if (linear.bias)
          for (int c = 0; c < BLOCK; c++) y[j * BLOCK + c] += linear.bias[block * BLOCK + c];
        take(row + j, block * BLOCK, y + j * BLOCK);
      }
    }
  }
  pool_.barrier();
}

void Step::walk(int thread) {
  each_row(thread, batch_.rows, [&](int64_t row) { embed(row); });
  for (size_t index = 0; index < layers_.size(); index++) layer_phases(thread, index);
  head_phases(thread);
}

void Step::layer_phases(int thread, size_t index) {
  const Layer& layer = layers_[index];
  const int64_t rows = batch_.rows, hidden = model_.hidden, inner = model_.inner;
  const auto into_residual = [&](const float* post) {
    float* out = post ? branch_.get() : residual_.get();
    return [=](int64_t row, int64_t column, const float* y) {
      float* to = out + row * hidden + column;
      for (int i = 0; i < BLOCK; i += LANES)
        store(to + i, post ? load(y + i) : fma(load(y + i), set1(model_.residual_factor), load(to + i)));
    };
  };
  each_row(thread, rows, [&](int64_t row) {
    if (index) add_branch(row, layers_[index - 1].feed_forward_post);
    norm(&residual_[row * hidden], layer.attention_norm, &input_[row * hidden]);
    fix(layer.qkv, input_.get(), row);
  });
  product(thread, input_.get(), rows, layer.qkv, [&](int64_t row, int64_t column, const float* y) {
    std::memcpy(&qkv_[row * qkv_width() + column], y, BLOCK * sizeof(float));
  });
  each_row(thread, rows, [&](int64_t row) { place(layer, index, row); });
  const int64_t items = int64_t(items_.size());
  for (int64_t i; (i = next_item_[index].fetch_add(int(items_at_once_))) < items;) {
    const int64_t end = std::min(i + items_at_once_, items);
    for (; i < end; i++) attend(layer, index, items_[i], items_[std::min(i + 1, end - 1)], scratch_[thread]);
  }
  pool_.barrier();
  if (by_page_ || layer.out.scales)
    each_row(thread, rows, [&](int64_t row) {
      if (by_page_) combine(layer, row);
      fix(layer.out, input_.get(), row);
    });
  product(thread, input_.get(), rows, layer.out, into_residual(layer.attention_post));
  each_row(thread, rows, [&](int64_t row) {
    add_branch(row, layer.attention_post);
    norm(&residual_[row * hidden], layer.feed_forward_norm, &input_[row * hidden]);
    fix(layer.gate_up, input_.get(), row);
  });
  product(thread, input_.get(), rows, layer.gate_up, [&](int64_t row, int64_t column, const float* y) {
    for (int i = 0; i < BLOCK / 2; i += LANES) {
      const Vec gate = load(y + i), up = load(y + BLOCK / 2 + i);
      // tanh GELU is g * sigmoid(2 * sqrt(2 / pi) * (g + 0.044715 g^3)).
      const Vec cubic = fma(mul(gate, gate), set1(0.044715f), set1(1.f));
      const Vec inside = model_.gelu ? mul(set1(1.5957691216f), mul(gate, cubic)) : gate;
      to_bf16(&inner_[row * inner + column / 2 + i], mul(mul(gate, sigmoid(inside)), up));
    }
  });
  if (layer.down.scales) each_row(thread, rows, [&](int64_t row) { fix(layer.down, inner_.get(), row); });
  product(thread, inner_.get(), rows, layer.down, into_residual(layer.feed_forward_post));
}

void Step::head_phases(int thread) {
  const int64_t hidden = model_.hidden, vocab = model_.vocab;
  each_row(thread, batch_.wanted, [&](int64_t i) {
    const int64_t row = batch_.wanted_rows[i];
    add_branch(row, layers_.back().feed_forward_post);
    norm(&residual_[row * hidden], model_.norm, &input_[i * hidden]);
    fix(model_.head, input_.get(), i);
  });
  product(thread, input_.get(), batch_.wanted, model_.head, [&](int64_t row, int64_t column, const float* y) {
    for (int64_t i = 0; i < BLOCK && column + i < vocab; i += LANES) {
      Vec v = mul(load(y + i), set1(model_.logit_factor));
      if (model_.logit_cap > 0) v = mul(tanh(div(v, set1(model_.logit_cap))), set1(model_.logit_cap));
      store_first(logits_ + row * vocab + column + i, v, vocab - column - i);
    }
  });
}

}  // namespace mindspec
