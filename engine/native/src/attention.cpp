// Attention of a step's rows over pages: page by page, merged in the order of the pages.
#include <algorithm>
#include <limits>

#include "step.h"

namespace mindspec {
namespace {

constexpr float NOTHING = -std::numeric_limits<float>::infinity();
constexpr float LOG2_E = 1.44269504f;  // weights are powers of two

void fetch_lines(const char*& ahead, int count) {
  for (int i = 0; i < count; i++, ahead += 64) _mm_prefetch(ahead, _MM_HINT_T1);
}

}  // namespace

int64_t Step::first_page(const Layer& layer, int64_t position) const {
  return layer.window ? std::max<int64_t>(0, position - layer.window + 1) / model_.page : 0;
}

float* Step::part(int64_t row, int64_t head, int64_t page) const {
  const int64_t pages = last_page(row) + 1;
  return &parts_[(part_begins_[row] + head * pages + page) * part_width()];
}

// Scores to weights, for all rows of the item over `keys` keys from position `first` on.
void Step::soften(const Layer& layer, const Item& item, int64_t first, int64_t keys, const char*& ahead, Scratch& scratch) {
  const int64_t rows = item.rows * group_, page = model_.page;
  const bool capped = model_.attention_cap > 0;
  const float factor = capped ? LOG2_E : model_.attention_scale * LOG2_E;
  // The next item's keys and values are fetched meanwhile: half of the lines in the products, half here.
  const int lines = rows <= WIDE_ROWS ? int(model_.head_dim * LANES / (128 * rows)) : 0;
  for (int64_t i = 0; i < rows; i++) {
    float* scores = &scratch.scores[i * page];
    const int64_t position = batch_.positions[item.row + i / group_];
    const int high = int(position - first), low = layer.window ? int(position - layer.window + 1 - first) : 0;
    Vec most = set1(NOTHING), all = zero();
    for (int64_t k = 0; k < keys; k += LANES) {
      Vec v = load(scores + k);
      if (capped) v = mul(tanh(mul(v, set1(model_.attention_scale / model_.attention_cap))), set1(model_.attention_cap));
      if (k + LANES - 1 > high || k < low) v = keep_between(v, int(k), low, high, set1(NOTHING));
      store(scores + k, v);
      most = max(most, v);
      fetch_lines(ahead, lines);
    }
    const float peak = top(most) * factor;
    const Vec shift = set1(peak == NOTHING ? 0.f : -peak);
    for (int64_t k = 0; k < keys; k += LANES) {
      const Vec weight = exp2(fma(load(scores + k), set1(factor), shift));
      all = add(all, weight);
      to_bf16(&scratch.weights[i * page + k], weight);
      fetch_lines(ahead, lines);
    }
    scratch.peak[i] = peak;
    scratch.total[i] = sum(all);
  }
}

void Step::attend_page(const Layer& layer, size_t index, const Item& item, int64_t page, const char* ahead, Scratch& scratch) {
  const int64_t dim = model_.head_dim, size = model_.page, rows = item.rows * group_, first = page * size;
  const int64_t last = batch_.positions[item.row + item.rows - 1];
  const int64_t keys = std::min(size, (last + 1 - first + BLOCK - 1) / BLOCK * BLOCK);
  const int32_t held = page_of(item.row, page);
  const bf16* queries = &queries_[(item.head * batch_.rows + item.row) * group_ * dim];
  multiply(queries, dim, rows, cell(index, held, item.head, 0), 2 * BLOCK, BLOCK * dim, keys, dim / 2, scratch.scores.get(),
           size, ahead);
  soften(layer, item, first, keys, ahead, scratch);
  multiply(scratch.weights.get(), size, rows, cell(index, held, item.head, 1), 2 * dim, 2 * BLOCK, dim, keys / 2,
           scratch.values.get(), dim, ahead);
}

void Step::merge(float& peak, float& total, float* values, float other_peak, float other_total, const float* other) const {
  if (other_peak == NOTHING) return;
  const float most = std::max(peak, other_peak), mine = std::exp2(peak - most), its = std::exp2(other_peak - most);
  peak = most;
  total = total * mine + other_total * its;
  for (int64_t i = 0; i < model_.head_dim; i += LANES)
    store(values + i, fma(load(values + i), set1(mine), mul(load(other + i), set1(its))));
}

void Step::attend(const Layer& layer, size_t index, const Item& item, const Item& next, Scratch& scratch) {
  const int64_t dim = model_.head_dim, rows = item.rows * group_, from = first_page(layer, batch_.positions[item.row]);
  if (by_page_) {
    if (item.page < from) return;
    const char* ahead = (const char*)cell(index, page_of(next.row, next.page), next.head, 0);
    attend_page(layer, index, item, item.page, ahead, scratch);
    for (int64_t i = 0; i < rows; i++) {
      const int64_t row = item.row + i / group_;
      if (item.page > last_page(row)) continue;
      float* out = part(row, item.head * group_ + i % group_, item.page);
      out[0] = scratch.peak[i];
      out[1] = scratch.total[i];
      std::memcpy(out + 16, &scratch.values[i * dim], dim * sizeof(float));
    }
    return;
  }
  std::fill_n(scratch.all_peak.get(), rows, NOTHING);
  std::fill_n(scratch.all_total.get(), rows, 0.f);
  std::fill_n(scratch.all_values.get(), rows * dim, 0.f);
  const int64_t to = last_page(item.row + item.rows - 1);
  for (int64_t page = from; page <= to; page++) {
    const char* ahead = (const char*)cell(index, page_of(item.row, std::min(page + 1, to)), item.head, 0);
    attend_page(layer, index, item, page, ahead, scratch);
    for (int64_t i = 0; i < rows; i++)
      merge(scratch.all_peak[i], scratch.all_total[i], &scratch.all_values[i * dim], scratch.peak[i], scratch.total[i],
            &scratch.values[i * dim]);
  }
  for (int64_t i = 0; i < rows; i++)
    finish(item.row + i / group_, item.head * group_ + i % group_, scratch.all_total[i], &scratch.all_values[i * dim]);
}

void Step::combine(const Layer& layer, int64_t row) {
  alignas(64) float values[MAX_HEAD_DIM];
  for (int64_t head = 0; head < model_.heads; head++) {
    float peak = NOTHING, total = 0;
    std::fill_n(values, model_.head_dim, 0.f);
    for (int64_t page = first_page(layer, batch_.positions[row]); page <= last_page(row); page++) {
      const float* found = part(row, head, page);
      merge(peak, total, values, found[0], found[1], found + 16);
    }
    finish(row, head, total, values);
  }
}

void Step::finish(int64_t row, int64_t head, float total, const float* values) {
  bf16* out = &input_[(row * model_.heads + head) * model_.head_dim];
  for (int64_t i = 0; i < model_.head_dim; i += LANES) to_bf16(out + i, div(load(values + i), set1(total)));
}

}  // namespace mindspec
