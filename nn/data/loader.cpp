#include <bit>
#include <optional>
#include <string>
#include <utility>

#include <hero/core/error.h>
#include <hero/core/profile/observer.h>
#include <hero/nn/data/loader.h>
#include <hero/nn/data/loader_workers.h>
#include <hero/nn/data/state_number.h>

namespace hero::nn::data {

struct DataLoader::State {
  State(const AnyDataset& of, const DataLoaderOptions& with) : dataset(of), options(with) {}

  AnyDataset dataset;
  DataLoaderOptions options;
  std::unique_ptr<Sampler> own_sampler;

  // Where the newest pass stands; unset between passes and once a pass is complete.
  struct Position {
    int64_t epoch;
    int64_t batch;  // batches handed out
  };
  std::optional<Position> position;
  bool resumes = false;  // the next begin() goes on from `position`
  int64_t passes = 0;    // begun; only the newest one moves the position

  Sampler& sampler() { return options.sampler != nullptr ? *options.sampler : *own_sampler; }
  int64_t batches() {
    return BatchSampler(sampler(), options.batch_size, options.drop_last).size();
  }
  // Ranks that take turns with the batches of one order; else one rank, with turns of none.
  Share turns() {
    const Share share = sampler().share();
    return share.turn == options.batch_size ? share : Share{};
  }
  // What must agree when a state is loaded; all but where the pass stands, and how many ranks take
  // turns.
  std::vector<std::pair<std::string, int64_t>> identity() {
    const int64_t samples = turns().turn > 0 ? dataset->size() : sampler().size();
    return {{"dataset_size", dataset->size()},  {"samples", samples},
            {"batch_size", options.batch_size}, {"drop_last", options.drop_last},
            {"shuffle", options.shuffle},       {"seed", std::bit_cast<int64_t>(options.seed)}};
  }
};

struct DataLoader::Iterator::Pass {
  std::shared_ptr<State> state;
  int64_t number;  // among the loader's passes
  PassPlan plan;
  int64_t next;  // the batch after the current one
  std::unique_ptr<BatchWorkers, BatchWorkers::End> workers;
  Example current;

  Pass(std::shared_ptr<State> loader, PassPlan made, int64_t first)
      : state(std::move(loader)), number(++state->passes), plan(std::move(made)), next(first) {
    if (state->options.workers > 0 && next < plan.batches) start_workers();
  }

  // From the next batch on.
  void start_workers() {
    workers.reset(new BatchWorkers(plan, next, state->options.workers, state->options.prefetch));
  }

  // False at the end of the pass.
  bool advance() {
    current = {};  // its memory may serve the next one
    const bool newest = number == state->passes;
    if (next == plan.batches) {
      if (newest) state->position.reset();
      return false;
    }
    if (workers && workers->foreign()) start_workers();
    const ProfileScope profiled("data");
    current = (workers ? workers->take() : plan.make(next)).to(state->options.device);
    ++next;
    if (newest) state->position = {plan.epoch, next};
    return true;
  }
};

namespace {

std::unique_ptr<Sampler> make_sampler(const Dataset& dataset, const DataLoaderOptions& options) {
  if (options.shuffle) {
    return std::make_unique<RandomSampler>(dataset, RandomSamplerOptions{.seed = options.seed});
  }
  return std::make_unique<SequentialSampler>(dataset);
}

}  // namespace

DataLoader::DataLoader(const AnyDataset& dataset, const DataLoaderOptions& options)
    : state_(std::make_shared<State>(dataset, options)) {
  check(options.batch_size > 0, "data_loader: batch_size is not positive: ", options.batch_size);
  check(options.workers >= 0, "data_loader: workers is negative: ", options.workers);
  check(options.prefetch > 0, "data_loader: prefetch is not positive: ", options.prefetch);
  check(options.sampler == nullptr || !options.shuffle,
        "data_loader: both a sampler and shuffle are given; let the sampler shuffle");
  if (options.sampler == nullptr) state_->own_sampler = make_sampler(*state_->dataset, options);
}

DataLoader::~DataLoader() = default;
DataLoader::DataLoader(DataLoader&&) noexcept = default;

DataLoader::State& DataLoader::state() const {
  check(state_ != nullptr, "data_loader: it was moved from; use the one that it was moved into");
  return *state_;
}

int64_t DataLoader::size() const { return state().batches(); }

int64_t DataLoader::epoch() const {
  State& s = state();
  return s.position ? s.position->epoch : s.sampler().epoch();
}

void DataLoader::set_epoch(int64_t epoch) {
  State& s = state();
  s.sampler().set_epoch(epoch);
  s.position.reset();
  s.resumes = false;
}

DataLoader::Iterator DataLoader::begin() {
  State& s = state();
  Sampler& sampler = s.sampler();
  int64_t first = 0;
  if (std::exchange(s.resumes, false)) {
    check(sampler.epoch() == s.position->epoch, "data_loader: the loaded state stands in epoch ",
          s.position->epoch, ", the sampler was set to ", sampler.epoch(),
          "; set_epoch() of the loader starts another epoch");
    first = s.position->batch;
  }
  PassPlan plan{.dataset = s.dataset,
                .collate = s.options.collate,
                .order = sampler.indices(),
                .batch_size = s.options.batch_size,
                .batches = s.batches(),
                .seed = s.options.seed,
                .epoch = sampler.epoch(),
                .ledger = &current_ledger(),
                .share = sampler.share()};
  // the loader's own samplers give no index twice
  if (s.options.sampler != nullptr) plan.repeats = repeats_of(plan.order, plan.share);
  sampler.set_epoch(plan.epoch + 1);
  s.position = {plan.epoch, first};
  Iterator it(std::make_unique<Iterator::Pass>(state_, std::move(plan), first));
  ++it;
  return it;
}

std::vector<core::NamedArray> DataLoader::state_dict() const {
  State& s = this->state();
  const auto number = [](int64_t value) { return Array::full({}, value, kInt64); };
  const State::Position at = s.position.value_or(State::Position{s.sampler().epoch(), 0});
  std::vector<core::NamedArray> state{{"epoch", number(at.epoch)},
                                      {"batch", number(at.batch * s.turns().ranks)}};
  for (const auto& [name, value] : s.identity()) state.push_back({name, number(value)});
  return state;
}

void DataLoader::load_state_dict(const std::vector<core::NamedArray>& state) {
  State& s = this->state();
  const auto number = [&](const std::string& name) {
    return state_number("data_loader", state, name);
  };
  for (const auto& [name, value] : s.identity()) {
    const int64_t saved = number(name);
    check(saved == value, "data_loader: the state is of a loader with ", name, " ", saved,
          ", this one has ", value,
          name == "samples" ? "; another number of ranks resumes it if they take turns (.turn of "
                              "DistributedSampler)"
                            : "");
  }
  const int64_t taken = number("batch"), ranks = s.turns().ranks;
  check(
      taken % ranks == 0, "data_loader: the state stands behind ", taken,
      " batches of the order, of which ", ranks,
      " ranks cannot each have taken as many; save behind a step that all numbers of ranks share");
  const State::Position at{number("epoch"), taken / ranks};
  check(at.epoch >= 0 && at.epoch < INT64_MAX && at.batch >= 0 && at.batch <= size(),
        "data_loader: the state stands at batch ", at.batch, " of ", size(), " in epoch ",
        at.epoch);
  s.sampler().set_epoch(at.epoch);
  s.position = at;
  s.resumes = true;
}

DataLoader::Iterator::Iterator(std::unique_ptr<Pass> pass) : pass_(std::move(pass)) {}
DataLoader::Iterator::Iterator(Iterator&&) noexcept = default;
DataLoader::Iterator& DataLoader::Iterator::operator=(Iterator&&) noexcept = default;
DataLoader::Iterator::~Iterator() = default;

const Example& DataLoader::Iterator::operator*() const& {
  check(pass_ != nullptr, "data_loader: the pass is at its end");
  return pass_->current;
}

DataLoader::Iterator& DataLoader::Iterator::operator++() {
  check(pass_ != nullptr, "data_loader: the pass is at its end");
  bool more = false;
  try {
    more = pass_->advance();
  } catch (...) {
    pass_.reset();
    throw;
  }
  if (!more) pass_.reset();
  return *this;
}

}  // namespace hero::nn::data
