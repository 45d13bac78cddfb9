#pragma once
// Datasets without an index, whose samples come one after another: lines of a file, a stream.
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <hero/core/safetensors.h>
#include <hero/nn/data/example.h>

namespace hero::nn::data {

/// The interface of datasets whose samples come one after another.
class IterableDataset {
 public:
  virtual ~IterableDataset() = default;
  /// Returns the next sample, or none at the end.
  using Samples = std::function<std::optional<Example>()>;
  /// Begins a pass from the first sample. Passes are independent of one another.
  virtual Samples samples() const = 0;
};

/// A shared handle to such a dataset of any kind, which is passed by value. A handle that was moved
/// from still refers to its dataset.
class AnyIterable {
 public:
  AnyIterable(const AnyIterable&) = default;
  AnyIterable& operator=(const AnyIterable&) = default;
  /// Takes the dataset.
  template <std::derived_from<IterableDataset> D>
  AnyIterable(D dataset) : dataset_(std::make_shared<const D>(std::move(dataset))) {}
  const IterableDataset& operator*() const { return *dataset_; }
  const IterableDataset* operator->() const { return dataset_.get(); }

 private:
  std::shared_ptr<const IterableDataset> dataset_;
};

/// The samples of several such datasets, one dataset after the other.
class ChainDataset : public IterableDataset {
 public:
  /// Joins the datasets, in this order.
  explicit ChainDataset(std::vector<AnyIterable> datasets) : datasets_(std::move(datasets)) {}
  Samples samples() const override;

 private:
  std::vector<AnyIterable> datasets_;
};

/// Options of IterableLoader.
struct IterableLoaderOptions {
  int64_t batch_size = 1;  ///< samples in a batch
  uint64_t seed = 0;       ///< seed of random operations in the dataset
  bool drop_last = false;  ///< true: leave out a last batch that is smaller
  Device device = kCpu;    ///< where batches are delivered; they are made on the cpu
  /// Makes a batch from samples; when empty, collate() does.
  std::function<Example(const std::vector<Example>& samples)> collate = {};
};

/// Makes batches of such a dataset, in its order, as DataLoader does of others. Each begin() starts
/// a pass, which is the next epoch. Operations in the dataset are not recorded, and draw random
/// numbers that depend on the seed, the epoch and the batch. There are no workers.
class IterableLoader {
 public:
  /// What Iterator is compared with at the end of a pass.
  struct End {};
  class Iterator;

  /// Makes a loader.
  explicit IterableLoader(const AnyIterable& dataset, const IterableLoaderOptions& options = {});
  /// Starts a pass.
  Iterator begin();
  /// The end of every pass.
  End end() const { return {}; }
  /// The position of the newest pass: its epoch, and how many batches it has delivered.
  std::vector<core::NamedArray> state_dict() const;
  /// Makes the next pass resume after the last batch that had been delivered, with the same bits:
  /// the samples before it are drawn again and dropped.
  void load_state_dict(const std::vector<core::NamedArray>& state);

 private:
  struct State;
  State& state() const;
  std::shared_ptr<State> state_;
};

/// One pass.
class IterableLoader::Iterator {
 public:
  using value_type = Example;
  using difference_type = std::ptrdiff_t;
  const Example& operator*() const;
  const Example* operator->() const { return &**this; }
  Iterator& operator++();
  void operator++(int) { ++*this; }
  friend bool operator==(const Iterator& it, End) { return !it.samples_; }

 private:
  friend class IterableLoader;
  explicit Iterator(std::shared_ptr<State> state);

  std::shared_ptr<State> state_;
  int64_t number_;                    // among the loader's passes
  int64_t epoch_, batch_ = 0;         // the batch after the current one
  IterableDataset::Samples samples_;  // empty at the end
  Example current_;
};

}  // namespace hero::nn::data
