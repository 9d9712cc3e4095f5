// The pool's waiting: why and for how long is in pool.h and ARCHITECTURE.md.
#include "pool.h"

#include <immintrin.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <climits>

namespace mindspec {
namespace {

constexpr double SPIN_US = 20;

// A pause takes from 40 to 140 cycles, by the processor's make.
int pauses_in(double us) {
  constexpr int TRIED = 2000;
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < TRIED; i++) _mm_pause();
  const std::chrono::duration<double, std::micro> spent = std::chrono::steady_clock::now() - begin;
  return int(TRIED * us / (spent.count() + 1e-3)) + 1;
}

long futex(std::atomic<int>& word, int operation, int value) {
  return syscall(SYS_futex, reinterpret_cast<int*>(&word), operation, value, nullptr, nullptr, 0);
}

}  // namespace

Pool::Pool(int threads) : size_(threads), spins_(pauses_in(SPIN_US)) {
  try {
    for (int thread = 1; thread < size_; thread++) workers_.emplace_back([this, thread] { work(thread); });
  } catch (...) {
    stop();  // the system gave some of the threads; one that is not joined would end the process
    throw;
  }
}

Pool::~Pool() { stop(); }

void Pool::stop() {
  stop_ = true;
  epoch_.fetch_add(1);
  futex(epoch_, FUTEX_WAKE_PRIVATE, INT_MAX);
  for (std::thread& worker : workers_) worker.join();
}

void Pool::work(int thread) {
  for (int seen = 0;;) {
    if (!spun(epoch_, seen))
      while (epoch_.load() == seen) futex(epoch_, FUTEX_WAIT_PRIVATE, seen);
    seen = epoch_.load();
    if (stop_) return;
    (*job_)(thread);
    barrier();
  }
}

void Pool::run(bool all, const std::function<void(int)>& job) {
  active_ = all ? size_ : 1;
  job_ = &job;
  if (active_ > 1) {
    epoch_.fetch_add(1);
    futex(epoch_, FUTEX_WAKE_PRIVATE, INT_MAX);
  }
  job(0);
  barrier();
}

void Pool::barrier() {
  const int active = active_;  // before arriving: after the last arrival the next job may set another one
  if (active == 1) return;
  const int phase = phase_.load(std::memory_order_acquire);
  if (arrived_.fetch_add(1) == active - 1) {
    arrived_.store(0, std::memory_order_relaxed);
    phase_.fetch_add(1);
  } else if (!spun(phase_, phase)) {
    // Never asleep within a step; but another process may have the core of the thread that is waited for.
    while (phase_.load(std::memory_order_acquire) == phase) sched_yield();
  }
}

bool Pool::spun(const std::atomic<int>& value, int old) const {
  for (int i = 0; i < spins_; i++) {
    if (value.load(std::memory_order_acquire) != old) return true;
    _mm_pause();
  }
  return false;
}

}  // namespace mindspec
