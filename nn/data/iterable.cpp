#include <utility>

#include <hero/autograd/graph/grad_mode.h>
#include <hero/nn/data/iterable.h>
#include <hero/nn/data/loader_workers.h>
#include <hero/nn/data/state_number.h>

namespace hero::nn::data {

IterableDataset::Samples ChainDataset::samples() const {
  return [rest = datasets_, at = size_t{0}, now = Samples()]() mutable -> std::optional<Example> {
    for (; at < rest.size(); ++at, now = {}) {
      if (!now) {
        now = rest[at]->samples();
        check(static_cast<bool>(now), "chain_dataset: samples() of dataset ", at,
              " returned nothing");
      }
      if (std::optional<Example> sample = now()) return sample;
    }
    return std::nullopt;
  };
}

struct IterableLoader::State {
  AnyIterable dataset;
  IterableLoaderOptions options;
  int64_t epoch = 0, batch = 0;  // of the newest pass, or where the next one resumes
  bool begun = false;            // the epoch has been begun, so that the next pass is another one
  int64_t passes = 0;
};

IterableLoader::IterableLoader(const AnyIterable& dataset, const IterableLoaderOptions& options)
    : state_(std::make_shared<State>(State{dataset, options})) {
  check(options.batch_size > 0,
        "iterable_loader: batch_size is not positive: ", options.batch_size);
}

IterableLoader::State& IterableLoader::state() const {
  check(state_ != nullptr,
        "iterable_loader: it was moved from; use the one that it was moved into");
  return *state_;
}

IterableLoader::Iterator IterableLoader::begin() {
  State& s = state();
  if (s.begun) s.epoch += 1;
  const int64_t skipped = s.begun ? 0 : s.batch;
  s.begun = true;
  s.batch = 0;
  Iterator it(state_);
  for (int64_t i = 0; i <= skipped && !(it == end()); ++i) ++it;
  return it;
}

std::vector<core::NamedArray> IterableLoader::state_dict() const {
  return {{"epoch", Array::full({}, state().epoch, kInt64)},
          {"batch", Array::full({}, state().batch, kInt64)}};
}

void IterableLoader::load_state_dict(const std::vector<core::NamedArray>& state) {
  State& s = this->state();
  const int64_t epoch = state_number("iterable_loader", state, "epoch");
  const int64_t batch = state_number("iterable_loader", state, "batch");
  check(epoch >= 0 && batch >= 0, "iterable_loader: the state stands at batch ", batch,
        " in epoch ", epoch);
  s.epoch = epoch;
  s.batch = batch;
  s.begun = false;
}

IterableLoader::Iterator::Iterator(std::shared_ptr<State> state)
    : state_(std::move(state)),
      number_(++state_->passes),
      epoch_(state_->epoch),
      samples_(state_->dataset->samples()) {
  check(static_cast<bool>(samples_), "iterable_loader: samples() of the dataset returned nothing");
}

const Example& IterableLoader::Iterator::operator*() const {
  check(static_cast<bool>(samples_), "iterable_loader: the pass is at its end");
  return current_;
}

IterableLoader::Iterator& IterableLoader::Iterator::operator++() {
  check(static_cast<bool>(samples_), "iterable_loader: the pass is at its end");
  const IterableLoaderOptions& o = state_->options;
  current_ = {};  // its memory may serve the next one
  const NoGrad no_grad;
  const MemoryScope tagged(MemoryTag::other);
  const BatchNumbers numbers(o.seed, epoch_, batch_);
  std::vector<Example> batch;
  while (static_cast<int64_t>(batch.size()) < o.batch_size) {
    std::optional<Example> sample = samples_();
    if (!sample) break;
    batch.push_back(*std::move(sample));
  }
  if (batch.empty() || (o.drop_last && static_cast<int64_t>(batch.size()) < o.batch_size)) {
    samples_ = {};
    if (number_ == state_->passes) {
      state_->epoch = epoch_ + 1;
      state_->batch = 0;
      state_->begun = false;
    }
    return *this;
  }
  current_ = (o.collate ? o.collate(batch) : collate(batch)).to(o.device);
  ++batch_;
  if (number_ == state_->passes) state_->batch = batch_;
  return *this;
}

}  // namespace hero::nn::data
