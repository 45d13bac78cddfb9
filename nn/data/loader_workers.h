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
#include <hero/core/threads/thread_state.h>
#include <hero/nn/data/dataset.h>
#include <hero/nn/data/sampler.h>

namespace hero::nn::data {

/// While it lives, this thread's generator draws the random numbers of one batch; afterwards it has
/// its former state.
class BatchNumbers {
 public:
  /// Begins random numbers that depend only on seed, epoch and batch.
  BatchNumbers(uint64_t seed, int64_t epoch, int64_t batch);
  ~BatchNumbers() { default_generator().set_state(former_); }
  BatchNumbers(const BatchNumbers&) = delete;
  BatchNumbers& operator=(const BatchNumbers&) = delete;

 private:
  Generator::State former_;
};

/// While it lives, what this thread draws for an example of one batch depends on the example alone:
/// on its index in the dataset, on how often the pass has drawn it before, and on seed and epoch.
/// So the numbers are the same in whatever batch of whatever rank an example is.
class ExampleNumbers {
 public:
  /// If `repeats` is empty, each index is drawn for the first time. Both lists must outlive it.
  ExampleNumbers(uint64_t seed, int64_t epoch, std::span<const int64_t> indices,
                 std::span<const int64_t> repeats);
  ~ExampleNumbers() { current_ = former_; }
  ExampleNumbers(const ExampleNumbers&) = delete;
  ExampleNumbers& operator=(const ExampleNumbers&) = delete;
  /// The ExampleNumbers of the batch that this thread is making; null if there is none, if the
  /// batch does not have `count` examples, and within an example, all of whose random numbers are
  /// one sequence.
  static ExampleNumbers* of_batch(size_t count);

  /// While it lives, this thread's generator draws the random numbers of example i, after those
  /// that the example has drawn before; afterwards it has its former state. Does nothing if `of` is
  /// null.
  class Scope {
   public:
    /// Begins, for example i of the batch.
    Scope(ExampleNumbers* of, size_t i);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    ExampleNumbers* of_;
    size_t i_;
    Generator::State former_;
  };

 private:
  void begin();

  static thread_local ExampleNumbers* current_;
  uint64_t seed_;
  int64_t epoch_;
  std::span<const int64_t> indices_, repeats_;
  std::vector<Generator::State> states_;  // empty until an example draws by itself
  ExampleNumbers* former_;
};

/// For each position of a rank's order: how often its index occurs at earlier positions of that
/// order, or of the whole order if ranks share one. Empty if no index occurs twice.
std::vector<int64_t> repeats_of(const std::vector<int64_t>& order, const Share& share);

/// Everything that the batches of a pass depend on.
struct PassPlan {
  AnyDataset dataset;
  std::function<Example(const std::vector<Example>&)> collate;  ///< may be empty
  std::vector<int64_t> order;
  int64_t batch_size;
  int64_t batches;
  uint64_t seed;
  int64_t epoch;
  Ledger* ledger;                     ///< the ledger of the thread that uses the batches
  Share share = {};                   ///< how ranks share the order, if they do
  std::vector<int64_t> repeats = {};  ///< repeats_of() the order

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
  const core::ThreadState state_ = core::ThreadState::of_going_on();
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
