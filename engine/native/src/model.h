// A model as data, as it comes through the C interface; engine/native/library.py mirrors these structures.
#pragma once
#include <cstdint>

#include "simd.h"

namespace mindspec {

struct Linear {
  const bf16* weights;  // packed: blocks of 32 columns, [inputs / 2][32][2]; with scales they are int8_t, in the same order
  const float* scales;  // of int8 weights, one per column, padded to whole blocks; or null
  const float* bias;    // one per column, padded to whole blocks; or null
  int64_t outputs, inputs;

  const int8_t* int8_weights() const { return (const int8_t*)weights; }
};

struct Layer {
  const float* attention_norm;     // gains, [hidden]
  const float* feed_forward_norm;  // [hidden]
  const float* query_norm;         // [head_dim], or null
  const float* key_norm;           // [head_dim], or null
  const float* attention_post;     // gains of a norm of the branch before it is added, [hidden]; or null
  const float* feed_forward_post;  // the same
  const float* cosines;            // [positions, rotated / 2]
  const float* sines;              // the same
  Linear qkv, out, gate_up, down;  // gate_up: 16 columns of the gate, 16 of up, and so on
  int64_t rotated;                 // dimensions of a head that are rotated
  int64_t window;                  // tokens that a row sees, itself included; 0 sees all
};

struct Model {
  int64_t layers, hidden, heads, kv_heads, head_dim, inner, vocab, page;
  int64_t gelu;  // 1: the tanh form of GELU in place of SiLU
  float epsilon, attention_scale, attention_cap, logit_cap;  // caps: 0 for none
  float embedding_factor, residual_factor, logit_factor;
  const bf16* embeddings;  // [vocab, hidden]; null: they are the columns of the head
  const float* norm;       // [hidden]
  Linear head;
  const Layer* layer;
};

// The rows of one step. Rows of one sequence are adjacent and ascend; nothing is checked here.
struct Batch {
  int64_t rows, wanted;
  const int32_t* token_ids;     // [rows]
  const int32_t* positions;     // [rows]
  const int32_t* sequences;     // [rows], each row's sequence
  const int32_t* page_begins;   // [sequences], where each one's pages begin in `pages`
  const int32_t* pages;
  const int32_t* wanted_rows;   // [wanted], ascending
};

}  // namespace mindspec
