#pragma once
// Samplers: the order in which a pass goes through a dataset. It depends only on seed and epoch,
// and not on what was drawn before.
#include <cstdint>
#include <utility>
#include <vector>

#include <hero/nn/data/dataset.h>

namespace hero::nn::data {

/// How a sampler's indices are taken from an order that ranks share: the order is divided into runs
/// of `turn` indices, and rank r of N takes runs r, N + r, and so on. turn is 0 if the order is not
/// shared. With it a loader knows the position of an example in the shared order, so that the
/// example's random numbers are the same on any number of ranks.
struct Share {
  int64_t ranks = 1;   ///< how many ranks share the order, N
  int64_t rank = 0;    ///< the rank of this sampler, r
  int64_t turn = 0;    ///< indices in a run
  int64_t period = 0;  ///< indices after which the order begins again as padding; 0: never
};

/// The interface of samplers, which give the indices of a pass; shuffling samplers give each epoch
/// another order.
class Sampler {
 public:
  virtual ~Sampler() = default;
  /// The number of indices in a pass.
  virtual int64_t size() const = 0;
  /// The indices of a pass in the present epoch.
  virtual std::vector<int64_t> indices() const = 0;
  /// How the indices are part of an order that ranks share.
  virtual Share share() const { return {}; }
  /// The epoch of the next pass; the first is 0. A DataLoader increases it by one whenever a pass
  /// begins.
  int64_t epoch() const { return epoch_; }
  /// Sets the epoch of the next pass.
  void set_epoch(int64_t epoch);

 private:
  int64_t epoch_ = 0;
};

/// The indices 0, 1, ..., size - 1 in order.
class SequentialSampler : public Sampler {
 public:
  /// Makes a sampler for a dataset of this size.
  explicit SequentialSampler(int64_t size);
  /// Makes a sampler for this dataset.
  explicit SequentialSampler(const Dataset& dataset) : SequentialSampler(dataset.size()) {}
  int64_t size() const override { return size_; }
  std::vector<int64_t> indices() const override;

 private:
  int64_t size_;
};

/// Options of RandomSampler.
struct RandomSamplerOptions {
  uint64_t seed = 0;         ///< seed of the order
  bool replacement = false;  ///< true: draw with replacement, so that an index can come twice
  int64_t num_samples = -1;  ///< indices in a pass; -1: as many as the dataset has samples
};

/// A random permutation in each epoch, or several, one after the other, if num_samples exceeds the
/// size.
class RandomSampler : public Sampler {
 public:
  /// Makes a sampler for a dataset of this size.
  explicit RandomSampler(int64_t size, const RandomSamplerOptions& options = {});
  /// Makes a sampler for this dataset.
  explicit RandomSampler(const Dataset& dataset, const RandomSamplerOptions& options = {})
      : RandomSampler(dataset.size(), options) {}
  int64_t size() const override { return options_.num_samples; }
  std::vector<int64_t> indices() const override;

 private:
  int64_t size_;
  RandomSamplerOptions options_;
};

/// Some indices of a dataset, in another random order in each epoch.
class SubsetRandomSampler : public Sampler {
 public:
  /// Makes a sampler of these indices.
  explicit SubsetRandomSampler(std::vector<int64_t> indices, uint64_t seed = 0)
      : subset_(std::move(indices)), seed_(seed) {}
  SubsetRandomSampler(const SubsetRandomSampler&) =
      default;  // no move: a moved-from one stays valid
  SubsetRandomSampler& operator=(const SubsetRandomSampler&) = default;
  int64_t size() const override { return static_cast<int64_t>(subset_.size()); }
  std::vector<int64_t> indices() const override;

 private:
  std::vector<int64_t> subset_;
  uint64_t seed_;
};

/// Options of WeightedRandomSampler.
struct WeightedRandomSamplerOptions {
  uint64_t seed = 0;        ///< seed of the order
  bool replacement = true;  ///< true: draw with replacement, so that an index can come twice
};

/// Draws index i with probability weights[i] / sum; without replacement, by the keys of Efraimidis
/// and Spirakis, "Weighted random sampling with a reservoir", 2006.
class WeightedRandomSampler : public Sampler {
 public:
  /// Makes a sampler. Throws an Error unless weights are finite, not negative and not all 0.
  WeightedRandomSampler(std::vector<double> weights, int64_t num_samples,
                        const WeightedRandomSamplerOptions& options = {});
  WeightedRandomSampler(const WeightedRandomSampler&) =
      default;  // no move: a moved-from one stays valid
  WeightedRandomSampler& operator=(const WeightedRandomSampler&) = default;
  int64_t size() const override { return num_samples_; }
  std::vector<int64_t> indices() const override;

 private:
  std::vector<double> weights_;
  int64_t num_samples_;
  WeightedRandomSamplerOptions options_;
};

/// Options of DistributedSampler.
struct DistributedSamplerOptions {
  int64_t num_replicas = 1;  ///< the number of ranks
  int64_t rank = 0;          ///< the rank of this sampler
  bool shuffle = true;       ///< true: a new random order in each epoch
  uint64_t seed = 0;         ///< seed of the order, the same on all ranks
  bool drop_last = false;    ///< true: drop indices that do not divide among the ranks; false: pad
  /// Indices that a rank takes at a time. If this is the loader's batch size, the ranks take turns
  /// with the batches of one order: the batches are the same on any number of ranks, and a loader's
  /// state says how many of them all ranks have taken together, so that another number of ranks can
  /// resume from it.
  int64_t turn = 1;
};

/// Every num_replicas-th index, beginning with index `rank`, of an order that all ranks share, like
/// PyTorch's DistributedSampler. All ranks get equally many indices: the order is padded by
/// repeating its beginning, or cut. The shared order is that of RandomSampler for the same seed and
/// epoch, so in each step N ranks with batches of b samples see the samples that one process sees
/// with batches of N * b.
class DistributedSampler : public Sampler {
 public:
  /// Makes a sampler for a dataset of this size.
  explicit DistributedSampler(int64_t size, const DistributedSamplerOptions& options = {});
  /// Makes a sampler for this dataset.
  explicit DistributedSampler(const Dataset& dataset, const DistributedSamplerOptions& options = {})
      : DistributedSampler(dataset.size(), options) {}
  int64_t size() const override { return num_samples_; }
  std::vector<int64_t> indices() const override;
  Share share() const override {
    return {options_.num_replicas, options_.rank, options_.turn, size_};
  }

 private:
  int64_t size_;
  int64_t num_samples_;
  DistributedSamplerOptions options_;
};

/// Groups a sampler's indices into batches.
class BatchSampler {
 public:
  /// Makes groups of batch_size indices; the last one is smaller, or dropped. The sampler must
  /// outlive it.
  BatchSampler(const Sampler& sampler, int64_t batch_size, bool drop_last = false);
  /// The number of batches in a pass.
  int64_t size() const;
  /// The batches of a pass in the sampler's present epoch.
  std::vector<std::vector<int64_t>> batches() const;

 private:
  const Sampler* sampler_;
  int64_t batch_size_;
  bool drop_last_;
};

}  // namespace hero::nn::data
