#pragma once
// The parts of a DataLoader: the plan of a pass, and the threads that make its batches in advance.
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include <hero/core/ledger.h>
#include <hero/core/random.h>
#include <hero/nn/data/dataset.h>
#include <hero/nn/data/sampler.h>

namespace hero::nn::data {

/// While it lives, this thread's generator draws the numbers of one batch; then it is as it was.
class BatchNumbers {
 public:
  /// Numbers that depend on these three alone.
  BatchNumbers(uint64_t seed, int64_t epoch, int64_t batch);
  ~BatchNumbers() { default_generator().set_state(former_); }
  BatchNumbers(const BatchNumbers&) = delete;
  BatchNumbers& operator=(const BatchNumbers&) = delete;

 private:
  Generator::State former_;
};

/// Everything that the batches of a pass depend on.
struct PassPlan {
  AnyDataset dataset;
  std::function<Example(const std::vector<Example>&)> collate;  ///< may be empty
  std::vector<int64_t> order;
  int64_t batch_size;
  int64_t batches;
  uint64_t seed;
  int64_t epoch;
  Ledger* ledger;    ///< the ledger of the thread that uses the batches
  Share turns = {};  ///< how ranks share the order, if they do

  /// Makes batch number `batch`; leaves the calling thread's generator as it was.
  Example make(int64_t batch) const;
};

/// Threads that make the batches of a pass from batch `first` on, each at most `prefetch` batches
/// in advance. They do not exist in a forked child, where foreign() is true and others have to be
/// started.
class BatchWorkers {
 public:
  /// Starts the threads. The plan must outlive them.
  BatchWorkers(const PassPlan& plan, int64_t first, int workers, int prefetch);
  /// Waits for the batches that are being made; no more are begun.
  ~BatchWorkers();
  BatchWorkers(const BatchWorkers&) = delete;
  BatchWorkers& operator=(const BatchWorkers&) = delete;

  /// Returns the next batch in order; throws what making it threw.
  Example take();
  /// True if the threads belong to the process that this one was forked from.
  bool foreign() const;
  /// Ends the workers. If they are foreign, it keeps what they shared instead, because nothing can
  /// wait for them and their locks may be held for ever.
  struct End {
    void operator()(BatchWorkers* workers) const;
  };

 private:
  struct Slot {
    Example batch;
    std::exception_ptr error;
    bool ready = false;
  };
  Slot& slot(int64_t batch) { return slots_[static_cast<size_t>(batch) % slots_.size()]; }
  void work();
  void stop();

  const PassPlan& plan_;
  std::mutex mutex_;
  std::condition_variable room_;   // a slot is free, or stop
  std::condition_variable ready_;  // a batch is ready
  std::vector<Slot> slots_;
  int64_t claimed_;  // the next batch that no worker has begun
  int64_t taken_;    // the next batch to hand out
  bool stopping_ = false;
  BatchWorkers* kept_before_ = nullptr;  // by End
  const int process_;
  std::vector<std::thread> threads_;
};

}  // namespace hero::nn::data
