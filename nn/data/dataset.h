#pragma once
// Datasets: a number of samples, each found by its index; and how to combine them.
#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <hero/nn/data/example.h>

namespace hero::nn::data {

/// Samples by index. Loaders call get() and get_batch() from several threads at once.
class Dataset {
 public:
  virtual ~Dataset() = default;
  /// Number of samples.
  virtual int64_t size() const = 0;
  /// Sample `index`, 0 <= index < size().
  virtual Example get(int64_t index) const = 0;
  /// The samples as one batch; the same as collating get() of each, where a dataset knows a faster
  /// way.
  virtual Example get_batch(std::span<const int64_t> indices) const;

 protected:
  Dataset() = default;
  Dataset(const Dataset&) = default;
  Dataset& operator=(const Dataset&) = default;
  /// Throws unless 0 <= index < size().
  void check_index(const char* dataset, int64_t index) const;
};

/// A shared handle to a dataset of any kind, taken by value wherever one is kept. Datasets of this
/// library are cheap to copy; move your own in where a copy would cost.
class AnyDataset {
 public:
  template <std::derived_from<Dataset> D>
  AnyDataset(D dataset) : dataset_(std::make_shared<const D>(std::move(dataset))) {}
  const Dataset& operator*() const { return *dataset_; }
  const Dataset* operator->() const { return dataset_.get(); }

 private:
  std::shared_ptr<const Dataset> dataset_;
};

/// Sample i is row i of each tensor: the tensors' first dimensions must agree. Cpu only.
class TensorDataset : public Dataset {
 public:
  explicit TensorDataset(std::vector<Tensor> tensors);
  int64_t size() const override;
  Example get(int64_t index) const override;
  Example get_batch(std::span<const int64_t> indices) const override;
  const std::vector<Tensor>& tensors() const { return tensors_; }

 private:
  std::vector<Tensor> tensors_;
};

/// The samples of another dataset at `indices`, in that order.
class Subset : public Dataset {
 public:
  Subset(AnyDataset dataset, std::vector<int64_t> indices);
  int64_t size() const override { return static_cast<int64_t>(indices_->size()); }
  Example get(int64_t index) const override;
  Example get_batch(std::span<const int64_t> indices) const override;
  const std::vector<int64_t>& indices() const { return *indices_; }

 private:
  AnyDataset dataset_;
  std::shared_ptr<const std::vector<int64_t>> indices_;
};

/// Datasets one after the other.
class ConcatDataset : public Dataset {
 public:
  explicit ConcatDataset(std::vector<AnyDataset> datasets);
  int64_t size() const override { return ends_.empty() ? 0 : ends_.back(); }
  Example get(int64_t index) const override;
  Example get_batch(std::span<const int64_t> indices) const override;

 private:
  struct SampleIndex {
    size_t dataset;
    int64_t index;
  };
  SampleIndex find(int64_t index) const;

  std::vector<AnyDataset> datasets_;
  std::vector<int64_t> ends_;
};

/// Each sample of another dataset passed through a function: augmentation, conversion. Random
/// operations inside it draw from numbers that the loader's seed, the epoch and the batch fix, so
/// they do not depend on the number of workers.
class MapDataset : public Dataset {
 public:
  using Function = std::function<Example(const Example& sample)>;
  MapDataset(AnyDataset dataset, Function function);
  int64_t size() const override { return dataset_->size(); }
  Example get(int64_t index) const override { return function_(dataset_->get(index)); }

 private:
  AnyDataset dataset_;
  Function function_;
};

/// \name Random parts without overlap
/// By lengths that add up to the size, or by fractions that add up to 1: each part gets its share
/// rounded down, what is left goes one by one to the first parts (PyTorch's rule). The order is the
/// permutation that `seed` gives.
/// \{
std::vector<Subset> random_split(const AnyDataset& dataset, const std::vector<int64_t>& lengths,
                                 uint64_t seed = 0);
std::vector<Subset> random_split(const AnyDataset& dataset, const std::vector<double>& fractions,
                                 uint64_t seed = 0);
std::vector<Subset> random_split(const AnyDataset& dataset, std::initializer_list<int> lengths,
                                 uint64_t seed = 0);
std::vector<Subset> random_split(const AnyDataset& dataset, std::initializer_list<double> fractions,
                                 uint64_t seed = 0);
/// \}

}  // namespace hero::nn::data
