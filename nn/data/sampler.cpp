#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <utility>

#include <hero/core/error.h>
#include <hero/core/random.h>
#include <hero/nn/data/sampler.h>

namespace hero::nn::data {
namespace {

// The random stream of one epoch; its name makes it differ from all streams of a Generator with the
// same seed.
RandomStream epoch_stream(uint64_t seed, int64_t epoch, int64_t round = 0) {
  std::string name = "sampler epoch " + std::to_string(epoch);
  if (round > 0) name += " round " + std::to_string(round);
  return named_stream(seed, name);
}

// `size` zeros.
template <class T>
std::vector<T> list(int64_t size) {
  return within_memory("sampler", [=] { return std::vector<T>(static_cast<size_t>(size)); });
}

std::vector<int64_t> permutation(int64_t size, RandomStream stream) {
  std::vector<int64_t> order = list<int64_t>(size);
  fill_permutation(order, stream);
  return order;
}

std::vector<int64_t> ascending(int64_t size) {
  std::vector<int64_t> order = list<int64_t>(size);
  std::iota(order.begin(), order.end(), int64_t{0});
  return order;
}

int64_t ceil_div(int64_t a, int64_t b) { return a / b + (a % b != 0 ? 1 : 0); }

}  // namespace

void Sampler::set_epoch(int64_t epoch) {
  check(epoch >= 0, "sampler: the epoch is negative: ", epoch);
  epoch_ = epoch;
}

SequentialSampler::SequentialSampler(int64_t size) : size_(size) {
  check(size >= 0, "sequential_sampler: the size is negative: ", size);
}

std::vector<int64_t> SequentialSampler::indices() const { return ascending(size_); }

RandomSampler::RandomSampler(int64_t size, const RandomSamplerOptions& options)
    : size_(size), options_(options) {
  check(size >= 0, "random_sampler: the size is negative: ", size);
  if (options_.num_samples == -1) options_.num_samples = size;
  check(options_.num_samples >= 0 && (size > 0 || options_.num_samples == 0),
        "random_sampler: cannot draw ", options_.num_samples, " of ", size, " samples");
}

std::vector<int64_t> RandomSampler::indices() const {
  const auto wanted = static_cast<size_t>(options_.num_samples);
  if (options_.replacement) {
    std::vector<int64_t> drawn = list<int64_t>(options_.num_samples);
    if (wanted > 0) fill_randint(drawn, epoch_stream(options_.seed, epoch()), 0, 0, size_);
    return drawn;
  }
  std::vector<int64_t> order;
  within_memory("sampler", [&] { order.reserve(wanted); });
  for (int64_t round = 0; order.size() < wanted; ++round) {
    const std::vector<int64_t> one =
        permutation(size_, epoch_stream(options_.seed, epoch(), round));
    const size_t take = std::min(one.size(), wanted - order.size());
    order.insert(order.end(), one.begin(), one.begin() + static_cast<std::ptrdiff_t>(take));
  }
  return order;
}

std::vector<int64_t> SubsetRandomSampler::indices() const {
  std::vector<int64_t> order = permutation(size(), epoch_stream(seed_, epoch()));
  for (int64_t& index : order) index = subset_[static_cast<size_t>(index)];
  return order;
}

WeightedRandomSampler::WeightedRandomSampler(std::vector<double> weights, int64_t num_samples,
                                             const WeightedRandomSamplerOptions& options)
    : weights_(std::move(weights)), num_samples_(num_samples), options_(options) {
  check(num_samples >= 0, "weighted_random_sampler: num_samples is negative: ", num_samples);
  double sum = 0;
  int64_t positive = 0;
  for (const double weight : weights_) {
    check(weight >= 0 && weight <= std::numeric_limits<double>::max(),
          "weighted_random_sampler: a weight is not a finite number from 0: ", weight);
    sum += weight;
    positive += weight > 0;
  }
  check(num_samples == 0 || (sum > 0 && sum <= std::numeric_limits<double>::max()),
        "weighted_random_sampler: the weights add up to ", sum);
  check(options.replacement || num_samples <= positive, "weighted_random_sampler: only ", positive,
        " weights are above 0, fewer than the ", num_samples,
        " samples to draw without replacement");
}

std::vector<int64_t> WeightedRandomSampler::indices() const {
  const auto wanted = static_cast<size_t>(num_samples_);
  const RandomStream stream = epoch_stream(options_.seed, epoch());
  if (!options_.replacement) {
    std::vector<double> key(weights_.size());
    fill_exponential(key, stream, 0);
    std::vector<int64_t> order;
    for (size_t i = 0; i < key.size(); ++i) {
      key[i] /= weights_[i];
      if (weights_[i] > 0) order.push_back(static_cast<int64_t>(i));
    }
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
      return key[static_cast<size_t>(a)] < key[static_cast<size_t>(b)];
    });
    order.resize(wanted);
    return order;
  }
  std::vector<double> sums(weights_.size());
  std::partial_sum(weights_.begin(), weights_.end(), sums.begin());
  std::vector<double> uniform = list<double>(num_samples_);
  fill_uniform(uniform, stream, 0);
  std::vector<int64_t> drawn = list<int64_t>(num_samples_);
  for (size_t i = 0; i < wanted; ++i) {
    // The first sum above the number: an index of weight 0 raises no sum and is never first. A
    // product that rounds up to the whole sum stays on the last index that has weight.
    const double x = std::min(uniform[i] * sums.back(), std::nextafter(sums.back(), 0.0));
    drawn[i] = std::upper_bound(sums.begin(), sums.end(), x) - sums.begin();
  }
  return drawn;
}

DistributedSampler::DistributedSampler(int64_t size, const DistributedSamplerOptions& options)
    : size_(size), num_samples_(0), options_(options) {
  const int64_t replicas = options.num_replicas;
  check(replicas > 0, "distributed_sampler: num_replicas is not positive: ", replicas);
  check(options.rank >= 0 && options.rank < replicas, "distributed_sampler: rank ", options.rank,
        " is not in [0, ", replicas, ")");
  check(size > 0, "distributed_sampler: there are no samples");
  check(options.turn > 0, "distributed_sampler: turn is not positive: ", options.turn);
  int64_t round = 0;  // indices that all ranks take, each in its turn
  check(!__builtin_mul_overflow(replicas, options.turn, &round), "distributed_sampler: ", replicas,
        " replicas that take ", options.turn, " indices at a time are more than can be counted");
  const int64_t rounds = options.drop_last ? size / round : ceil_div(size, round);
  check(rounds == 0 || options.turn <= std::numeric_limits<int64_t>::max() / rounds,
        "distributed_sampler: turn is ", options.turn, " of ", size, " samples");
  num_samples_ = rounds * options.turn;
}

std::vector<int64_t> DistributedSampler::indices() const {
  const std::vector<int64_t> all = options_.shuffle
                                       ? permutation(size_, epoch_stream(options_.seed, epoch()))
                                       : ascending(size_);
  std::vector<int64_t> mine = list<int64_t>(num_samples_);
  for (int64_t i = 0; i < num_samples_; ++i) {
    const int64_t turn = options_.rank + i / options_.turn * options_.num_replicas;
    const int64_t at = turn * options_.turn + i % options_.turn;
    mine[static_cast<size_t>(i)] = all[static_cast<size_t>(at % size_)];
  }
  return mine;
}

BatchSampler::BatchSampler(const Sampler& sampler, int64_t batch_size, bool drop_last)
    : sampler_(&sampler), batch_size_(batch_size), drop_last_(drop_last) {
  check(batch_size > 0, "batch_sampler: the batch size is not positive: ", batch_size);
}

int64_t BatchSampler::size() const {
  return drop_last_ ? sampler_->size() / batch_size_ : ceil_div(sampler_->size(), batch_size_);
}

std::vector<std::vector<int64_t>> BatchSampler::batches() const {
  const std::vector<int64_t> order = sampler_->indices();
  std::vector<std::vector<int64_t>> batches;
  for (int64_t batch = 0; batch < size(); ++batch) {
    const auto begin = order.begin() + batch * batch_size_;
    const int64_t left = order.end() - begin;
    batches.emplace_back(begin, begin + std::min(batch_size_, left));
  }
  return batches;
}

}  // namespace hero::nn::data
