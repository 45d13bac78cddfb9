#include <algorithm>
#include <atomic>
#include <string>
#include <system_error>
#include <utility>

#include <unistd.h>

#include <hero/autograd/grad_mode.h>
#include <hero/core/random.h>
#include <hero/core/thread_pool.h>
#include <hero/nn/data/batch_maker.h>

namespace hero::nn::data {
namespace {

// Workers of a parent process; what the list reaches counts as in use.
constinit std::atomic<BatchWorkers*> last_kept = nullptr;

}  // namespace

BatchNumbers::BatchNumbers(uint64_t seed, int64_t epoch, int64_t batch)
    : former_(default_generator().state()) {
  // A seed of its own for each batch: draws in one never run into those of the next.
  const std::string name = "batch " + std::to_string(batch) + " of epoch " + std::to_string(epoch);
  uint64_t mixed = 0;
  fill_bits(std::span(&mixed, 1), named_stream(seed, name), 0);
  default_generator().seed(mixed);
}

Example PassPlan::make(int64_t batch) const {
  const NoGrad no_grad;
  const LedgerScope charged_to(*ledger);
  const MemoryScope tagged(MemoryTag::other);
  const BatchNumbers numbers(seed, epoch, turns.rank + batch * turns.ranks);
  const auto begin = static_cast<size_t>(batch * batch_size);
  const std::span<const int64_t> indices = std::span(order).subspan(
      begin, std::min(static_cast<size_t>(batch_size), order.size() - begin));
  if (!collate) return dataset->get_batch(indices);
  std::vector<Example> samples;
  for (const int64_t index : indices) samples.push_back(dataset->get(index));
  return collate(samples);
}

BatchWorkers::BatchWorkers(const PassPlan& plan, int64_t first, int workers, int prefetch)
    : plan_(plan),
      // No more than the batches that there are.
      slots_(static_cast<size_t>(std::min(int64_t{workers} * prefetch, plan.batches - first))),
      claimed_(first),
      taken_(first),
      process_(::getpid()) {
  const int64_t useful = std::min<int64_t>(workers, plan.batches - first);
  try {
    for (int64_t i = 0; i < useful; ++i) threads_.emplace_back([this] { work(); });
  } catch (const std::system_error& error) {
    stop();
    fail("data_loader: cannot start worker ", threads_.size() + 1, " of ", workers, ": ",
         error.what());
  }
}

BatchWorkers::~BatchWorkers() { stop(); }

bool BatchWorkers::foreign() const { return process_ != ::getpid(); }

void BatchWorkers::End::operator()(BatchWorkers* workers) const {
  if (!workers->foreign()) {
    delete workers;
    return;
  }
  workers->kept_before_ = last_kept.exchange(workers);
}

void BatchWorkers::stop() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
  }
  room_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void BatchWorkers::work() {
  const SerialRegion serial;  // the pool is left to the training step
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    const auto ahead = static_cast<int64_t>(slots_.size());
    room_.wait(lock,
               [&] { return stopping_ || claimed_ == plan_.batches || claimed_ < taken_ + ahead; });
    if (stopping_ || claimed_ == plan_.batches) return;
    const int64_t batch = claimed_++;
    lock.unlock();
    Slot made;
    try {
      made.batch = plan_.make(batch);
    } catch (...) {
      made.error = std::current_exception();
    }
    made.ready = true;
    lock.lock();
    slot(batch) = std::move(made);
    if (batch == taken_) ready_.notify_one();
  }
}

Example BatchWorkers::take() {
  std::unique_lock<std::mutex> lock(mutex_);
  Slot& next = slot(taken_);
  ready_.wait(lock, [&] { return next.ready; });
  const Slot taken = std::exchange(next, {});
  ++taken_;
  lock.unlock();
  room_.notify_all();
  if (taken.error != nullptr) std::rethrow_exception(taken.error);
  return taken.batch;
}

}  // namespace hero::nn::data
