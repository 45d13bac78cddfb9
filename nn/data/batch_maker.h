#pragma once
// What a DataLoader is made of: the plan of one pass, and the threads that carry it out ahead of
// its user.
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include <hero/core/ledger.h>
#include <hero/nn/data/dataset.h>
#include <hero/nn/data/sampler.h>

namespace hero::nn::data {

/// All that a batch of one pass depends on.
struct PassPlan {
  AnyDataset dataset;
  std::function<Example(const std::vector<Example>&)> collate;  ///< may be empty
  std::vector<int64_t> order;
  int64_t batch_size;
  int64_t batches;
  uint64_t seed;
  int64_t epoch;
  Ledger* ledger;    ///< the consumer's
  Share turns = {};  ///< of the ranks that share the order, and have numbers of their own

  /// Batch number `batch`; leaves the calling thread's generator as it was.
  Example make(int64_t batch) const;
};

/// Threads that make the batches of a pass from `first` on, each at most `prefetch` ahead. In a
/// forked child they do not exist: whoever finds them foreign() there begins others.
class BatchWorkers {
 public:
  /// The plan must outlive them.
  BatchWorkers(const PassPlan& plan, int64_t first, int workers, int prefetch);
  /// Waits for batches in the making, no more are begun.
  ~BatchWorkers();
  BatchWorkers(const BatchWorkers&) = delete;
  BatchWorkers& operator=(const BatchWorkers&) = delete;

  /// The next batch in order; throws what its making threw.
  Example take();
  /// Of the process that this one was forked from.
  bool foreign() const;
  /// Ends the workers, or, where they are foreign, keeps what they shared: nobody could wait for
  /// them, and their locks may be held for ever.
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
  const int process_;
  std::vector<std::thread> threads_;
};

}  // namespace hero::nn::data
