// What a step does to single rows: embeddings, norms, rotation, and their place among the keys and values.
#include "step.h"

namespace mindspec {

void Step::embed(int64_t row) {
  const int64_t hidden = model_.hidden, token = batch_.token_ids[row];
  float* out = &residual_[row * hidden];
  if (model_.embeddings) {
    const Vec factor = set1(model_.embedding_factor);
    for (int64_t i = 0; i < hidden; i += LANES) store(out + i, mul(from_bf16(model_.embeddings + token * hidden + i), factor));
    return;
  }
  const bf16* column = model_.head.weights + token / BLOCK * BLOCK * hidden + token % BLOCK * 2;
  for (int64_t i = 0; i < hidden; i += 2) {
    for (int k = 0; k < 2; k++) out[i + k] = float_of(column[i * BLOCK + k]) * model_.embedding_factor;
  }
}

float Step::inverse_rms(const float* values, int64_t count) const {
  Vec squares = zero();
  for (int64_t i = 0; i < count; i += LANES) {
    const Vec v = load(values + i);
    squares = fma(v, v, squares);
  }
  return 1.f / std::sqrt(sum(squares) / float(count) + model_.epsilon);
}

void Step::norm(const float* values, const float* gains, bf16* out) const {
  const Vec factor = set1(inverse_rms(values, model_.hidden));
  for (int64_t i = 0; i < model_.hidden; i += LANES) to_bf16(out + i, mul(mul(load(values + i), factor), load(gains + i)));
}

// Makes a row of a product's input fixed point numbers of 16 bits, in place, where the product's weights are int8.
void Step::fix(const Linear& linear, bf16* input, int64_t row) {
  if (!linear.scales) return;
  const int64_t width = linear.inputs;
  bf16* values = input + row * width;
  Vec most = zero(), broken = zero();
  for (int64_t i = 0; i < width; i += LANES) {
    const Vec v = from_bf16(values + i);
    most = max(most, abs(v));
    broken = fma(v, zero(), broken);  // 0, or no number
  }
  const float peak = std::max(top(most), 1e-30f);
  const Vec factor = set1(32767.f / peak);
  for (int64_t i = 0; i < width; i += LANES) to_fixed((int16_t*)values + i, mul(from_bf16(values + i), factor));
  factors_[row] = peak / 32767.f + sum(broken);
}

// Adds a branch that is normed before; without gains the products have added it already.
void Step::add_branch(int64_t row, const float* gains) {
  if (!gains) return;
  const float* branch = &branch_[row * model_.hidden];
  float* out = &residual_[row * model_.hidden];
  const Vec factor = set1(inverse_rms(branch, model_.hidden) * model_.residual_factor);
  for (int64_t i = 0; i < model_.hidden; i += LANES)
    store(out + i, fma(mul(load(branch + i), factor), load(gains + i), load(out + i)));
}

// Rotates and norms the row's heads: queries go to queries_, keys and values into the page.
void Step::place(const Layer& layer, size_t index, int64_t row) {
  const int64_t dim = model_.head_dim, half = layer.rotated / 2, position = batch_.positions[row];
  const int64_t slot = position % model_.page;
  const int32_t page = page_of(row, position / model_.page);
  const float *cosines = layer.cosines + position * half, *sines = layer.sines + position * half;
  float* v = &qkv_[row * qkv_width()];
  for (int64_t head = 0; head < model_.heads + model_.kv_heads; head++, v += dim) {
    const bool is_key = head >= model_.heads;
    if (const float* gains = is_key ? layer.key_norm : layer.query_norm) {
      const Vec factor = set1(inverse_rms(v, dim));
      for (int64_t i = 0; i < dim; i += LANES) store(v + i, mul(mul(load(v + i), factor), load(gains + i)));
    }
    for (int64_t i = 0; i < half; i++) {
      const float a = v[i], b = v[i + half];
      v[i] = a * cosines[i] - b * sines[i];
      v[i + half] = b * cosines[i] + a * sines[i];
    }
    if (!is_key) {
      bf16* out = &queries_[((head / group_) * batch_.rows + row) * group_ * dim + head % group_ * dim];
      for (int64_t i = 0; i < dim; i += LANES) to_bf16(out + i, load(v + i));
      continue;
    }
    bf16* column = cell(index, page, head - model_.heads, 0) + slot / BLOCK * BLOCK * dim + slot % BLOCK * 2;
    alignas(64) bf16 key[LANES];
    for (int64_t i = 0; i < dim; i += LANES) {
      to_bf16(key, load(v + i));
      for (int k = 0; k < LANES; k += 2) std::memcpy(column + (i + k) * BLOCK, key + k, 4);
    }
  }
  for (int64_t head = 0; head < model_.kv_heads; head++, v += dim) {
    bf16* values = cell(index, page, head, 1);
    if (slot % BLOCK == 0) clear_after(values, slot, row);
    // The other half of each pair is the neighbouring token's, which another thread may be writing.
    for (int64_t i = 0; i < dim; i += LANES) store_interleaved(values + (slot / 2 * dim + i) * 2, load(v + i), slot & 1);
  }
}

// Attention reads whole blocks of 32 slots and gives those after the last token the weight 0; but 0 times what an earlier
// owner left there may be no number. So the first token of a block clears the slots that this step does not write.
void Step::clear_after(bf16* values, int64_t slot, int64_t row) const {
  const int64_t dim = model_.head_dim;
  const int64_t written = last_positions_[batch_.sequences[row]] - batch_.positions[row];
  for (int64_t after = slot + written + 1; after < slot + BLOCK; after++)
    for (int64_t i = 0; i < dim; i += LANES) store_interleaved(values + (after / 2 * dim + i) * 2, zero(), after & 1);
}

}  // namespace mindspec
