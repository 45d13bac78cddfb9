#pragma once
// DataLoader: batches of a dataset, made by background threads where asked for, in an order and
// with bits that depend on the seed and the epoch alone.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include <hero/core/safetensors.h>
#include <hero/nn/data/dataset.h>
#include <hero/nn/data/sampler.h>

namespace hero::nn::data {

struct DataLoaderOptions {
  int64_t batch_size = 1;
  bool shuffle = false;  ///< another random order each epoch
  uint64_t seed = 0;     ///< of the order, and of random operations inside the dataset
  bool drop_last = false;
  int workers = 0;             ///< background threads; 0: batches are made when asked for
  int prefetch = 2;            ///< batches a worker may make ahead
  Device device = kCpu;        ///< where batches are handed out; they are made on cpu
  Sampler* sampler = nullptr;  ///< decides the order instead of `shuffle`; must outlive the loader
  /// Makes a batch from samples; empty: collate().
  std::function<Example(const std::vector<Example>& samples)> collate = {};
};

/// Batches of a dataset:
///
///     DataLoader loader(train, {.batch_size = 64, .shuffle = true});
///     for (const auto& [images, labels] : loader) ...
///
/// Each begin() starts a pass: the next epoch from its first batch, or after load_state_dict() the
/// rest of the saved one. An exception thrown by the dataset in a worker is thrown again where the
/// batch is asked for. Leaving a pass early ends its workers. Batches are charged to
/// MemoryTag::other; operations inside the dataset are not recorded and draw from numbers that the
/// seed, the epoch and the batch fix.
/// \snippet test_examples_networks.cpp DataLoader
class DataLoader {
 public:
  struct End {};
  class Iterator;

  explicit DataLoader(AnyDataset dataset, const DataLoaderOptions& options = {});
  ~DataLoader();
  DataLoader(DataLoader&&) noexcept;

  /// Batches of a whole pass.
  int64_t size() const;
  /// The epoch of the pass that is under way, else of the next one; from 0.
  int64_t epoch() const;
  /// The next pass starts epoch `epoch` from its first batch.
  void set_epoch(int64_t epoch);
  Iterator begin();
  End end() const { return {}; }

  /// Where the loader stands: epoch and batches handed out (where ranks take turns: to all of them
  /// together), with what must be the same when it goes on. Numbers are int64 arrays of shape []
  /// that travel through safetensors.
  std::vector<core::NamedArray> state_dict() const;
  /// The next pass goes on after the last batch that had been handed out, with the same bits. An
  /// Error, and no change, where the state is of another dataset size, batch size, order or seed.
  void load_state_dict(const std::vector<core::NamedArray>& state);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

/// One pass; ended by letting it go.
class DataLoader::Iterator {
 public:
  using value_type = Example;
  using difference_type = std::ptrdiff_t;

  Iterator(Iterator&&) noexcept;
  Iterator& operator=(Iterator&&) noexcept;
  ~Iterator();

  const Example& operator*() const&;
  Example operator*() && { return **this; }
  const Example* operator->() const { return &**this; }
  Iterator& operator++();
  void operator++(int) { ++*this; }
  friend bool operator==(const Iterator& it, End) { return it.pass_ == nullptr; }

 private:
  friend class DataLoader;
  struct Pass;
  explicit Iterator(std::unique_ptr<Pass> pass);
  std::unique_ptr<Pass> pass_;  // null at the end
};

}  // namespace hero::nn::data
