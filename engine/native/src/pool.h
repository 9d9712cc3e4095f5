// Threads that own their waiting: they spin and yield inside a step, and sleep between steps.
#pragma once
#include <atomic>
#include <functional>
#include <thread>
#include <vector>

namespace mindspec {

class Pool {
 public:
  explicit Pool(int threads);
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  int size() const { return size_; }
  // Threads of the job that runs: all, or the caller alone.
  int active() const { return active_; }
  // Calls job(thread) on every thread, or on the caller alone; returns when all have ended.
  void run(bool all, const std::function<void(int)>& job);
  // Waits for the other threads of the job.
  void barrier();

 private:
  void work(int thread);
  void stop();
  bool spun(const std::atomic<int>& value, int old) const;

  const int size_;
  int spins_;  // pauses before a waiting thread lets go of its core
  int active_ = 1;
  bool stop_ = false;
  const std::function<void(int)>* job_ = nullptr;
  alignas(64) std::atomic<int> epoch_{0};
  alignas(64) std::atomic<int> arrived_{0};
  alignas(64) std::atomic<int> phase_{0};
  std::vector<std::thread> workers_;
};

}  // namespace mindspec
