#pragma once
// DataLoader: batches of a dataset, made by background threads if you like, in an order and with
// bits that depend only on the seed and the epoch.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include <hero/core/safetensors.h>
#include <hero/nn/data/dataset.h>
#include <hero/nn/data/sampler.h>

namespace hero::nn::data {

/// Options of DataLoader.
struct DataLoaderOptions {
  int64_t batch_size = 1;      ///< samples in a batch
  bool shuffle = false;        ///< true: a new random order in each epoch
  uint64_t seed = 0;           ///< seed of the order, and of random operations in the dataset
  bool drop_last = false;      ///< true: leave out a last batch that is smaller
  int workers = 0;             ///< background threads; 0: batches are made when they are asked for
  int prefetch = 2;            ///< batches that each worker may make in advance
  Device device = kCpu;        ///< where batches are delivered; they are made on the cpu
  Sampler* sampler = nullptr;  ///< decides the order instead of `shuffle`; must outlive the loader
  /// Makes a batch from samples; when empty, collate() does.
  std::function<Example(const std::vector<Example>& samples)> collate = {};
};

/// Makes batches of a dataset:
///
///     DataLoader loader(train, {.batch_size = 64, .shuffle = true});
///     for (const auto& [images, labels] : loader) ...
///
/// Each begin() starts a pass: the next epoch from its first batch, or after load_state_dict() the
/// rest of the saved epoch. An exception that the dataset throws in a worker is thrown again when
/// the batch is asked for. Leaving a pass early ends its workers. Batches are charged to
/// MemoryTag::other. Operations in the dataset are not recorded. What get() draws depends on the
/// seed, the epoch, the index of the sample and how often the pass has drawn it before, so that a
/// sample gets the same random numbers in batches of any size, from any number of workers, and on
/// any number of ranks that share the dataset. What is drawn for a whole batch, by a get_batch() of
/// a dataset or by `collate`, depends on the seed, the epoch and the batch, which differs from rank
/// to rank with a DistributedSampler.
/// \snippet test_examples_networks.cpp DataLoader
class DataLoader {
 public:
  /// What Iterator is compared with at the end of a pass.
  struct End {};
  class Iterator;

  /// Makes a loader.
  explicit DataLoader(const AnyDataset& dataset, const DataLoaderOptions& options = {});
  ~DataLoader();
  DataLoader(DataLoader&&) noexcept;

  /// The number of batches in a whole pass.
  int64_t size() const;
  /// The epoch of the pass that is under way, or else of the next one; the first is 0.
  int64_t epoch() const;
  /// Makes the next pass start epoch `epoch` from its first batch.
  void set_epoch(int64_t epoch);
  /// Starts a pass.
  Iterator begin();
  /// The end of every pass.
  End end() const { return {}; }

  /// The position of the loader: the epoch and the number of batches delivered (to all ranks
  /// together, if ranks take turns), with everything that must be the same when it resumes. Numbers
  /// are int64 arrays of shape [], which core::save_safetensors() can write.
  std::vector<core::NamedArray> state_dict() const;
  /// Makes the next pass resume after the last batch that had been delivered, with the same bits.
  /// Throws an Error, and changes nothing, if the state has another dataset size, batch size, order
  /// or seed.
  void load_state_dict(const std::vector<core::NamedArray>& state);

 private:
  struct State;
  State& state() const;
  std::shared_ptr<State> state_;
};

/// One pass, which its destructor ends.
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
