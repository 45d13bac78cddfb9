#include <algorithm>
#include <atomic>
#include <string>
#include <system_error>
#include <unordered_map>
#include <utility>

#include <unistd.h>

#include <hero/autograd/graph/grad_mode.h>
#include <hero/core/random.h>
#include <hero/core/thread_pool.h>
#include <hero/nn/data/loader_workers.h>

namespace hero::nn::data {
namespace {

// A list of the workers of parent processes, which keeps them reachable for leak checkers.
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

thread_local ExampleNumbers* ExampleNumbers::current_ = nullptr;

ExampleNumbers::ExampleNumbers(uint64_t seed, int64_t epoch, std::span<const int64_t> indices,
                               std::span<const int64_t> repeats)
    : seed_(seed),
      epoch_(epoch),
      indices_(indices),
      repeats_(repeats),
      former_(std::exchange(current_, this)) {}

ExampleNumbers* ExampleNumbers::of_batch(size_t count) {
  return current_ != nullptr && current_->indices_.size() == count ? current_ : nullptr;
}

void ExampleNumbers::begin() {
  const std::string name = "examples of epoch " + std::to_string(epoch_);
  const RandomStream first = named_stream(seed_, name);
  for (size_t i = 0; i < indices_.size(); ++i) {
    const int64_t repeat = repeats_.empty() ? 0 : repeats_[i];
    const RandomStream stream =
        repeat == 0 ? first : named_stream(seed_, name + ", again " + std::to_string(repeat));
    uint64_t mixed = 0;
    // an index below 0 is the dataset's to refuse
    fill_bits(std::span(&mixed, 1), stream, std::max<int64_t>(indices_[i], 0));
    states_.push_back({mixed, 0});
  }
}

ExampleNumbers::Scope::Scope(ExampleNumbers* of, size_t i)
    : of_(of), i_(i), former_(default_generator().state()) {
  if (of_ == nullptr) return;
  if (of_->states_.empty()) of_->begin();
  current_ = nullptr;
  default_generator().set_state(of_->states_[i_]);
}

ExampleNumbers::Scope::~Scope() {
  if (of_ == nullptr) return;
  of_->states_[i_] = default_generator().state();
  default_generator().set_state(former_);
  current_ = of_;
}

std::vector<int64_t> repeats_of(const std::vector<int64_t>& order, const Share& share) {
  std::vector<int64_t> repeats;
  const auto count = static_cast<int64_t>(order.size());
  if (share.turn > 0 && share.period > 0) {
    const auto repeat = [&](int64_t i) {
      const int64_t turn = share.rank + i / share.turn * share.ranks;
      return (turn * share.turn + i % share.turn) / share.period;
    };
    if (count == 0 || repeat(count - 1) == 0) return {};
    for (int64_t i = 0; i < count; ++i) repeats.push_back(repeat(i));
    return repeats;
  }
  std::vector<int64_t> sorted = order;
  std::sort(sorted.begin(), sorted.end());
  if (std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end()) return {};
  std::unordered_map<int64_t, int64_t> before;
  for (const int64_t index : order) repeats.push_back(before[index]++);
  return repeats;
}

Example PassPlan::make(int64_t batch) const {
  const NoGrad no_grad;
  const LedgerScope charged_to(*ledger);
  const MemoryScope tagged(MemoryTag::other);
  const auto begin = static_cast<size_t>(batch * batch_size);
  const size_t count = std::min(static_cast<size_t>(batch_size), order.size() - begin);
  const std::span<const int64_t> indices = std::span(order).subspan(begin, count);
  // What is drawn for the batch as a whole is that of the batch's number among those of all ranks.
  const BatchNumbers numbers(seed, epoch, share.rank + batch * share.ranks);
  ExampleNumbers examples(
      seed, epoch, indices,
      repeats.empty() ? std::span<const int64_t>() : std::span(repeats).subspan(begin, count));
  if (!collate) return dataset->get_batch(indices);
  std::vector<Example> samples;
  for (size_t i = 0; i < count; ++i) {
    const ExampleNumbers::Scope drawing(&examples, i);
    samples.push_back(dataset->get(indices[i]));
  }
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
  const core::ThreadState::Scope use(state_);
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
