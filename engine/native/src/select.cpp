// Selection over the vocabulary: one pass in floats prunes, and doubles decide among what it leaves.
#include "select.h"

#include <algorithm>

#include "noise.h"

namespace mindspec {
namespace {

constexpr int64_t WORTH_WAKING = 1 << 19;  // values to be read from which a second thread saves more than its waking costs
constexpr double LARGEST_SCORE = 1e5, LARGEST_NUMBER = 1e30;  // beyond, floats are left
constexpr double LOOSE = 1e-3;   // pruning allows for this relative error of a weight; rounding makes 1e-5
constexpr double SURE = 1e-4;    // sums of float weights closer than this to top_p do not decide
constexpr double CLOSE = 1e-12;  // scores closer than this, relative, are left to the one logarithm that everybody has
constexpr int64_t FEW = 64;      // so many largest are listed at once rather than drawn among all first
constexpr int64_t FLUSH = 64;    // vectors that are summed in floats

// LANES values from v[i] on; minus infinity behind the last.
inline Vec load_some(const float* v, int64_t i, int64_t count) {
  if (i + LANES <= count) return load(v + i);
  alignas(64) float some[LANES];
  for (int lane = 0; lane < LANES; lane++) some[lane] = i + lane < count ? v[i + lane] : -INFINITY;
  return load(some);
}

// Calls f(id) for each set bit of a mask of the lanes from `first` on, as far as they are inside.
template <class F>
inline void each_bit(unsigned mask, int64_t first, int64_t count, F f) {
  for (; mask; mask &= mask - 1) {
    const int64_t id = first + __builtin_ctz(mask);
    if (id < count) f(id);
  }
}

struct Peak {
  int64_t id;
  float value;
  bool finite() const { return std::isfinite(value); }
};

// The first of the largest, or the first NaN.
Peak peak_of(const float* v, int64_t count) {
  constexpr int64_t SOME = 1024;
  Peak found{0, -INFINITY};
  for (int64_t begin = 0; begin < count; begin += SOME) {
    const int64_t end = std::min(begin + SOME, count);
    Vec best[4] = {set1(-INFINITY), set1(-INFINITY), set1(-INFINITY), set1(-INFINITY)};
    unsigned strange = 0;
    int64_t i = begin;
    for (; i + 4 * LANES <= end; i += 4 * LANES) {
      UNROLL(4)
      for (int j = 0; j < 4; j++) {
        const Vec x = load(v + i + j * LANES);
        strange |= no_number(x);
        best[j] = max(best[j], x);
      }
    }
    for (; i < end; i += LANES) {
      const Vec x = load_some(v, i, end);
      strange |= no_number(x);
      best[0] = max(best[0], x);
    }
    if (strange)
      for (int64_t id = begin; id < end; id++)
        if (std::isnan(v[id])) return {id, v[id]};
    const float largest = top(max(max(best[0], best[1]), max(best[2], best[3])));
    if (largest > found.value) found = {begin, largest};
  }
  while (v[found.id] != found.value) found.id++;
  return found;
}

bool before(const Found& a, const Found& b) {
  return a.value != b.value ? a.value > b.value : a.exact != b.exact ? a.exact > b.exact : a.id < b.id;
}

// Into scratch.found: every value whose f is at least that of some value which k others reach. f rises, k <= count.
template <class F>
void gather(const float* v, int64_t count, int64_t k, SelectScratch& scratch, F f) {
  int64_t width = 1;  // vectors of a group: each lane of a group is a set of values of its own
  while (width < 64 && count >= 8 * k * width) width *= 2;
  float border = -INFINITY;
  if (width > 1) {
    scratch.maxima.clear();
    for (int64_t i = 0; i < count; i += width * LANES) {
      Vec m = load_some(v, i, count);
      for (int64_t j = 1; j < width; j++) m = max(m, load_some(v, i + j * LANES, count));
      alignas(64) float maxima[LANES];
      store(maxima, m);
      scratch.maxima.insert(scratch.maxima.end(), maxima, maxima + LANES);
    }
    const auto kth = scratch.maxima.begin() + (k - 1);
    std::nth_element(scratch.maxima.begin(), kth, scratch.maxima.end(), std::greater<float>());
    border = *kth;
  }
  const Vec least = f(set1(border));
  scratch.found.clear();
  for (int64_t i = 0; i < count; i += LANES)
    each_bit(at_least(f(load_some(v, i, count)), least), i, count,
             [&](int64_t id) { scratch.found.push_back({v[id], id, 0}); });
}

// One draw from one row whose largest value is finite.
class RowDraw {
 public:
  RowDraw(const DrawQuery& query, const float* values, int64_t count, Peak peak, SelectScratch& scratch)
      : query_(query), values_(values), count_(count), peak_(peak), scratch_(scratch), noise_(query.key, query.position),
        peak_score_(double(peak.value) / query.temperature), slack_(query.distinct ? 1e-6 * std::abs(peak_score_) : 0),
        factor_(set1(float(1.4426950408889634 / query.temperature))) {}

  int64_t token() {
    const double largest = std::max(query_.temperature, double(std::abs(peak_.value)));
    if (!(std::abs(peak_score_) <= LARGEST_SCORE && largest <= LARGEST_NUMBER)) return -1;
    if (query_.top_k <= FEW) return among_listed();
    // The winner of all is the winner of every set that it is in. Sets are beginnings of the order: when it is not in,
    // the next one comes before it.
    for (int64_t limit = -1;;) {
      const Winner winner = draw_before(limit);
      if (winner.id < 0) return -1;
      const Verdict verdict = judge(winner.id);
      if (verdict == LIST) return among_listed();
      if (verdict == UNSURE) return -1;
      if (verdict == KEPT) return winner.close() ? -1 : winner.id;
      limit = winner.id;
    }
  }

 private:
  enum Verdict { KEPT, OUT, UNSURE, LIST };

  struct Winner {
    int64_t id = -1;
    double score = -INFINITY, second = -INFINITY;
    void meet(int64_t other, double its) {
      if (its > score) {
        second = score;
        score = its;
        id = other;
      } else if (its > second) {
        second = its;
      }
    }
    bool close() const { return score - second <= CLOSE * (100 + std::abs(score)); }
  };

  double exact(int64_t id) const {
    const int32_t slot = query_.distinct ? scratch_.slots[size_t(id)] : 0;
    return slot ? scratch_.exact[size_t(slot - 1)] : double(values_[id]);
  }
  double score(int64_t id) const { return exact(id) / query_.temperature - std::log(noise_(id)); }
  bool precedes(int64_t a, int64_t b) const { return before({values_[a], a, exact(a)}, {values_[b], b, exact(b)}); }
  Vec exponent(Vec x) const { return mul(sub(x, set1(peak_.value)), factor_); }

  // The best of the tokens before `limit` in the order (of all: -1). A token's score is the larger, the smaller its noise
  // over its weight is: what is above the best so far by more than rounding is passed over.
  Winner draw_before(int64_t limit) const {
    Winner winner;
    float bound = 1e30f;
    const auto meet = [&](int64_t id) {
      if (limit >= 0 && !precedes(id, limit)) return;
      winner.meet(id, score(id));
      bound = float(std::min(1e30, std::exp(peak_score_ - winner.score) * (1 + LOOSE + slack_)));
    };
    meet(peak_.id);
    const Vec least = set1(limit >= 0 ? values_[limit] : -INFINITY);
    for (int64_t i = 0; i < count_; i += LANES) {
      const Vec x = load_some(values_, i, count_), power = exponent(x);
      // No noise is below 2^-53.
      if (bound <= 64.f && !above(power, set1(-60.f))) continue;
      const Vec most = mul(exp2(power), set1(bound));
      unsigned mask = at_least(most, noise_.at_least_of(i)) & at_least(x, least);
      each_bit(mask, i, count_, [&](int64_t id) {
        if (id != peak_.id) meet(id);
      });
    }
    return winner;
  }

  // Whether top-k and top-p keep a token.
  Verdict judge(int64_t id) {
    const bool cut = query_.top_k < count_, nucleus = query_.top_p < 1;
    if (!cut && !nucleus) return KEPT;
    const float value = values_[id];
    const Vec at = set1(value), none = zero();
    int64_t rank = 0, equals = 0;  // tokens before this one, and those of them whose logits are equal
    double mass = 0, all = 0;  // weights of the tokens before this one, and of all
    for (int64_t begin = 0; begin < count_; begin += FLUSH * LANES) {
      Vec some = none, whole = none;
      for (int64_t i = begin; i < std::min(count_, begin + FLUSH * LANES); i += LANES) {
        const Vec x = load_some(values_, i, count_);
        rank += __builtin_popcount(above(x, at));
        each_bit(equal(x, at), i, count_, [&](int64_t other) { equals += precedes(other, id); });
        if (!nucleus) continue;
        const Vec weight = exp2(exponent(x));
        some = add(some, where_above(x, at, weight));
        whole = add(whole, weight);
      }
      mass += sum(some);
      all += sum(whole);
    }
    rank += equals;
    if (cut && rank >= query_.top_k) return OUT;
    if (!rank || !nucleus) return KEPT;
    const double own = std::exp(double(value) / query_.temperature - peak_score_);
    const double margin = SURE + slack_, top_p = query_.top_p;
    mass += double(equals) * own;
    if (mass > top_p * all * (1 + margin)) return OUT;
    if (!cut) return mass < top_p * all * (1 - margin) ? KEPT : UNSURE;
    // Of what top-k keeps at least this token and those before it are known.
    if (mass < top_p * (mass + own) * (1 - margin)) return KEPT;
    if (kept_mass_ < 0) kept_mass_ = mass_of_largest();
    return mass < top_p * kept_mass_ * (1 - margin) ? KEPT : mass > top_p * kept_mass_ * (1 + margin) ? OUT : LIST;
  }

  // The k that top-k keeps, in no order.
  std::vector<Found>& largest() {
    const int64_t k = query_.top_k;
    gather(values_, count_, k, scratch_, [](Vec x) { return x; });
    std::vector<Found>& found = scratch_.found;
    for (Found& one : found) one.exact = exact(one.id);
    if (int64_t(found.size()) > k) std::nth_element(found.begin(), found.begin() + (k - 1), found.end(), before);
    found.resize(size_t(k));
    return found;
  }

  double mass_of_largest() {
    alignas(64) float some[LANES];
    double mass = 0;
    const std::vector<Found>& found = largest();
    for (size_t i = 0; i < found.size(); i += LANES) {
      for (size_t lane = 0; lane < LANES; lane++) some[lane] = i + lane < found.size() ? found[i + lane].value : -INFINITY;
      mass += sum(exp2(exponent(load(some))));
    }
    return mass;
  }

  // The exact way, among the k largest.
  int64_t among_listed() {
    const int64_t k = query_.top_k;
    std::vector<Found>& found = largest();
    if (query_.top_p < 1) std::sort(found.begin(), found.end(), before);
    const int64_t kept = query_.top_p < 1 ? nucleus_size(found) : k;
    if (kept < 0) return -1;
    Winner winner;
    for (int64_t i = 0; i < kept; i++) winner.meet(found[size_t(i)].id, score(found[size_t(i)].id));
    return winner.close() ? -1 : winner.id;
  }

  // How many of the likeliest, in their order, top-p keeps; -1 where rounding would decide.
  int64_t nucleus_size(const std::vector<Found>& found) const {
    double all = 0;
    const auto weight = [&](const Found& one) { return std::exp((one.exact - found[0].exact) / query_.temperature); };
    for (const Found& one : found) all += weight(one);
    double mass = 0;
    int64_t kept = 0;
    for (const Found& one : found) {
      if (kept && mass >= query_.top_p * all * (1 - 1e-9)) return mass > query_.top_p * all * (1 + 1e-9) ? kept : -1;
      mass += weight(one);
      kept++;
    }
    return kept;
  }

  const DrawQuery& query_;
  const float* const values_;  // logits after penalties, rounded
  const int64_t count_;
  const Peak peak_;
  SelectScratch& scratch_;
  const Noise noise_;
  const double peak_score_, slack_;  // slack: what rounded logits after penalties make a weight err by
  const Vec factor_;
  double kept_mass_ = -1;  // of what top-k keeps, once it is known
};

int64_t draw_one(const DrawQuery& query, const float* row, int64_t vocab, SelectScratch& scratch) {
  const float* values = row;
  if (query.distinct) {
    scratch.values.assign(row, row + vocab);
    scratch.slots.resize(size_t(vocab));
    scratch.exact.resize(size_t(query.distinct));
    for (int64_t i = 0; i < query.distinct; i++) {
      const int64_t id = query.counted[i];
      double logit = row[id];
      logit = logit > 0 ? logit / query.repetition : logit * query.repetition;
      logit -= query.frequency * query.generated[i];
      logit -= query.presence * double(query.generated[i] > 0);
      scratch.exact[size_t(i)] = logit;
      scratch.slots[size_t(id)] = int32_t(i + 1);
      scratch.values[size_t(id)] = float(logit);
    }
    values = scratch.values.data();
  }
  const Peak peak = peak_of(values, vocab);
  const int64_t token = peak.finite() ? RowDraw(query, values, vocab, peak, scratch).token() : -1;
  for (int64_t i = 0; i < query.distinct; i++) scratch.slots[size_t(query.counted[i])] = 0;
  return token;
}

void logprobs_one(const LogprobQuery& query, const float* row, int64_t vocab, SelectScratch& scratch, float& chosen,
                  int64_t* ids, float* values) {
  const Peak peak = peak_of(row, vocab);
  double all = 0;
  const Vec log2e = set1(1.44269504f);
  for (int64_t begin = 0; begin < vocab; begin += FLUSH * LANES) {
    Vec some = zero();
    for (int64_t i = begin; i < std::min(vocab, begin + FLUSH * LANES); i += LANES)
      some = add(some, exp2(mul(sub(load_some(row, i, vocab), set1(peak.value)), log2e)));
    all += sum(some);
  }
  const float rest = float(std::log(all));
  const auto logprob = [&](float logit) { return (logit - peak.value) - rest; };
  chosen = logprob(row[query.token]);
  if (!query.top) return;
  scratch.found.clear();
  if (peak.finite())
    gather(row, vocab, query.top, scratch, [&](Vec x) { return sub(sub(x, set1(peak.value)), set1(rest)); });
  for (Found& one : scratch.found) one.value = logprob(one.value);
  const size_t listed = std::min(size_t(query.top), scratch.found.size());
  std::partial_sort(scratch.found.begin(), scratch.found.begin() + int64_t(listed), scratch.found.end(), before);
  for (size_t i = 0; i < size_t(query.top); i++) {
    ids[i] = i < listed ? scratch.found[i].id : int64_t(i);
    values[i] = i < listed ? scratch.found[i].value : NAN;
  }
}

}  // namespace

void Selection::each(int64_t count, int64_t values, bool all_threads, const std::function<void(SelectScratch&, int64_t)>& job) {
  std::atomic<int64_t> next{0};
  const bool all = all_threads && count > 1 && count * values >= WORTH_WAKING;
  std::atomic<bool> failed{false};
  pool_.run(all, [&](int thread) {
    try {
      for (int64_t i; (i = next.fetch_add(1)) < count;) job(scratch_[size_t(thread)], i);
    } catch (...) {
      failed = true;
    }
  });
  if (failed) throw std::bad_alloc();
}

void Selection::likeliest(const float* logits, int64_t rows, int64_t vocab, int64_t* ids, int64_t* finite, bool all_threads) {
  each(rows, vocab / 8, all_threads, [&](SelectScratch&, int64_t row) {
    const Peak peak = peak_of(logits + row * vocab, vocab);
    ids[row] = peak.id;
    finite[row] = peak.finite();
  });
}

void Selection::draw(const float* logits, int64_t vocab, const DrawQuery* queries, int64_t count, int64_t* tokens,
                     bool all_threads) {
  each(count, 2 * vocab, all_threads, [&](SelectScratch& scratch, int64_t i) {
    tokens[i] = draw_one(queries[i], logits + queries[i].row * vocab, vocab, scratch);
  });
}

void Selection::logprobs(const float* logits, int64_t vocab, const LogprobQuery* queries, int64_t count, float* chosen,
                         int64_t* top_ids, float* top_values, bool all_threads) {
  each(count, vocab, all_threads, [&](SelectScratch& scratch, int64_t i) {
    const LogprobQuery& query = queries[i];
    logprobs_one(query, logits + query.row * vocab, vocab, scratch, chosen[i], top_ids + query.top_begin,
                 top_values + query.top_begin);
  });
}

}  // namespace mindspec
