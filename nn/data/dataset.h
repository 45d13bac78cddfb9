#pragma once
// Datasets, which are samples found by index, and how to combine them.
#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <hero/nn/data/example.h>

namespace hero::nn::data {

/// The interface of datasets: samples, found by index. Loaders call get() and get_batch() from
/// several threads at once.
class Dataset {
 public:
  virtual ~Dataset() = default;
  /// The number of samples.
  virtual int64_t size() const = 0;
  /// Returns sample `index`, 0 <= index < size().
  virtual Example get(int64_t index) const = 0;
  /// Returns the samples as one batch: the same as collate() of their get(), for which a dataset
  /// may have a faster way.
  virtual Example get_batch(std::span<const int64_t> indices) const;

 protected:
  Dataset() = default;
  Dataset(const Dataset&) = default;
  Dataset& operator=(const Dataset&) = default;
  /// Throws unless 0 <= index < size().
  void check_index(const char* dataset, int64_t index) const;
};

/// A shared handle to a dataset of any kind, which is passed by value wherever a dataset is kept.
/// The datasets of this library are cheap to copy; move your own in if a copy is expensive. A
/// handle that was moved from still refers to its dataset.
class AnyDataset {
 public:
  AnyDataset(const AnyDataset&) = default;
  AnyDataset& operator=(const AnyDataset&) = default;
  /// Takes the dataset.
  template <std::derived_from<Dataset> D>
  AnyDataset(D dataset) : dataset_(std::make_shared<const D>(std::move(dataset))) {}
  const Dataset& operator*() const { return *dataset_; }
  const Dataset* operator->() const { return dataset_.get(); }

 private:
  std::shared_ptr<const Dataset> dataset_;
};

/// A dataset whose sample i is row i of each tensor.
class TensorDataset : public Dataset {
 public:
  /// Makes a dataset. Throws an Error unless the tensors are on the cpu and have equal first
  /// dimensions.
  explicit TensorDataset(std::vector<Tensor> tensors);
  int64_t size() const override;
  Example get(int64_t index) const override;
  Example get_batch(std::span<const int64_t> indices) const override;
  /// The tensors.
  const std::vector<Tensor>& tensors() const { return tensors_; }

 private:
  std::vector<Tensor> tensors_;
};

/// The samples of another dataset at `indices`, in that order.
class Subset : public Dataset {
 public:
  /// Makes a subset. Throws an Error for an index outside of the dataset.
  Subset(const AnyDataset& dataset, std::vector<int64_t> indices);
  Subset(const Subset&) = default;  // no move: a moved-from object stays valid
  Subset& operator=(const Subset&) = default;
  int64_t size() const override { return static_cast<int64_t>(indices_->size()); }
  Example get(int64_t index) const override;
  Example get_batch(std::span<const int64_t> indices) const override;
  /// The indices in the other dataset.
  const std::vector<int64_t>& indices() const { return *indices_; }

 private:
  AnyDataset dataset_;
  std::shared_ptr<const std::vector<int64_t>> indices_;
};

/// The samples of several datasets, one dataset after the other.
class ConcatDataset : public Dataset {
 public:
  /// Joins the datasets, in this order.
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

/// The fields of several datasets of one size side by side: sample i has the fields of sample i of
/// each.
class StackDataset : public Dataset {
 public:
  /// Puts the datasets side by side. Throws an Error unless there are some, of one size.
  explicit StackDataset(std::vector<AnyDataset> datasets);
  int64_t size() const override;
  Example get(int64_t index) const override;
  Example get_batch(std::span<const int64_t> indices) const override;

 private:
  std::vector<AnyDataset> datasets_;
};

/// The samples of another dataset, each passed through a function, such as an augmentation. Random
/// operations in the function draw numbers that depend on the loader's seed, the epoch and the
/// sample, and not on the number of workers or ranks.
class MapDataset : public Dataset {
 public:
  /// Maps a sample to a sample. It is called by several threads at once.
  using Function = std::function<Example(const Example& sample)>;
  /// Makes a dataset of the function's results, which are computed whenever they are asked for.
  MapDataset(const AnyDataset& dataset, Function function);
  int64_t size() const override;
  Example get(int64_t index) const override;

 private:
  AnyDataset dataset_;
  Function function_;
};

/// \name Random subsets without overlap
/// Lengths add up to the size of the dataset; fractions add up to 1: each subset gets its share
/// rounded down, and the samples that are left go one by one to the first subsets, as in PyTorch.
/// The order is the permutation that `seed` gives.
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
