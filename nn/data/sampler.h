#pragma once
// Samplers: the order in which a pass goes through a dataset. An order depends on seed and epoch
// alone, not on what was drawn before.
#include <cstdint>
#include <vector>

#include <hero/nn/data/dataset.h>

namespace hero::nn::data {

/// How a sampler's indices are a part of an order that ranks share: runs of `turn` indices, of
/// which rank r of N takes the r-th, the (N + r)-th, ... 0 where it shares none.
struct Share {
  int64_t ranks = 1;
  int64_t rank = 0;
  int64_t turn = 0;
};

/// The indices of one pass; shuffling samplers give each epoch another order.
class Sampler {
 public:
  virtual ~Sampler() = default;
  /// Number of indices of a pass.
  virtual int64_t size() const = 0;
  /// The indices of a pass in the epoch that is set.
  virtual std::vector<int64_t> indices() const = 0;
  /// What of a shared order the indices are.
  virtual Share share() const { return {}; }
  /// The epoch of the next pass, from 0. A DataLoader moves on by one each time a pass begins.
  int64_t epoch() const { return epoch_; }
  void set_epoch(int64_t epoch);

 private:
  int64_t epoch_ = 0;
};

/// 0, 1, ... size - 1.
class SequentialSampler : public Sampler {
 public:
  explicit SequentialSampler(int64_t size);
  explicit SequentialSampler(const Dataset& dataset) : SequentialSampler(dataset.size()) {}
  int64_t size() const override { return size_; }
  std::vector<int64_t> indices() const override;

 private:
  int64_t size_;
};

struct RandomSamplerOptions {
  uint64_t seed = 0;
  bool replacement = false;  ///< draw each index anew, so that some come twice
  int64_t num_samples = -1;  ///< indices of a pass; -1: as many as the dataset has
};

/// A random permutation each epoch; more than one, one after the other, when num_samples asks for
/// it.
class RandomSampler : public Sampler {
 public:
  explicit RandomSampler(int64_t size, const RandomSamplerOptions& options = {});
  explicit RandomSampler(const Dataset& dataset, const RandomSamplerOptions& options = {})
      : RandomSampler(dataset.size(), options) {}
  int64_t size() const override { return options_.num_samples; }
  std::vector<int64_t> indices() const override;

 private:
  int64_t size_;
  RandomSamplerOptions options_;
};

struct WeightedRandomSamplerOptions {
  uint64_t seed = 0;
  bool replacement = true;
};

/// Index i with probability weights[i] / sum; without replacement by Efraimidis and Spirakis's keys
/// (2006).
class WeightedRandomSampler : public Sampler {
 public:
  WeightedRandomSampler(std::vector<double> weights, int64_t num_samples,
                        const WeightedRandomSamplerOptions& options = {});
  int64_t size() const override { return num_samples_; }
  std::vector<int64_t> indices() const override;

 private:
  std::vector<double> weights_;
  int64_t num_samples_;
  WeightedRandomSamplerOptions options_;
};

struct DistributedSamplerOptions {
  int64_t num_replicas = 1;
  int64_t rank = 0;
  bool shuffle = true;
  uint64_t seed = 0;
  bool drop_last = false;  ///< drop the tail that does not divide, instead of padding
  /// Indices that a rank takes at a time. With the loader's batch size the ranks take turns with
  /// the batches of one order: they are the same batches on any number of ranks, with the same
  /// random numbers, and a loader's state is how many of them all ranks have taken together, so
  /// that other numbers of ranks can go on from it.
  int64_t turn = 1;
};

/// Every num_replicas-th index, from rank on, of an order that all ranks share: PyTorch's
/// DistributedSampler. All ranks get equally many: the order is padded by repeating it from its
/// start, or cut. The shared order is RandomSampler's for the same seed and epoch, so N ranks with
/// batches of b see, step by step, the samples that one process sees in batches of N * b.
class DistributedSampler : public Sampler {
 public:
  explicit DistributedSampler(int64_t size, const DistributedSamplerOptions& options = {});
  explicit DistributedSampler(const Dataset& dataset, const DistributedSamplerOptions& options = {})
      : DistributedSampler(dataset.size(), options) {}
  int64_t size() const override { return num_samples_; }
  std::vector<int64_t> indices() const override;
  Share share() const override { return {options_.num_replicas, options_.rank, options_.turn}; }

 private:
  int64_t size_;
  int64_t num_samples_;
  DistributedSamplerOptions options_;
};

/// A sampler's indices in groups of batch_size; the last one is smaller, or dropped. The sampler
/// must outlive it.
class BatchSampler {
 public:
  BatchSampler(const Sampler& sampler, int64_t batch_size, bool drop_last = false);
  /// Number of batches.
  int64_t size() const;
  /// The batches of a pass in the sampler's epoch.
  std::vector<std::vector<int64_t>> batches() const;

 private:
  const Sampler* sampler_;
  int64_t batch_size_;
  bool drop_last_;
};

}  // namespace hero::nn::data
