// Loaders with the largest numbers, and in a forked child.
#include <limits>
#include <numeric>
#include <vector>

#include "support/catch.h"
#include "support/fork.h"

#include <hero/autograd/ops/creation/creation.h>
#include <hero/core/error.h>
#include <hero/core/thread_pool.h>
#include <hero/nn/data/loader.h>
#include <hero/nn/data/tokens.h>

namespace {

using namespace hero;
using namespace hero::nn::data;
using hero_test::run_forked;
using Indices = std::vector<int64_t>;
using Batches = std::vector<Indices>;

constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
constexpr int kMostInt = std::numeric_limits<int>::max();

TensorDataset numbers(int64_t count) { return TensorDataset({arange(count)}); }

Batches pass(DataLoader& loader) {
  Batches batches;
  for (const Example& batch : loader) batches.push_back(batch[0].to_vector<int64_t>());
  return batches;
}

TEST_CASE("a batch may be larger than the dataset by any number", "[nn][data]") {
  Indices all(7);
  std::iota(all.begin(), all.end(), 0);
  for (int64_t size :
       {int64_t{8}, int64_t{1} << 32, int64_t{1} << 62, kMost - 6, kMost - 1, kMost}) {
    for (int workers : {0, 2}) {
      DataLoader loader(numbers(7), {.batch_size = size, .workers = workers});
      REQUIRE(loader.size() == 1);
      REQUIRE(pass(loader) == Batches{all});
      DataLoader dropping(numbers(7), {.batch_size = size, .drop_last = true, .workers = workers});
      REQUIRE(dropping.size() == 0);
      REQUIRE(pass(dropping).empty());
      REQUIRE(BatchSampler(SequentialSampler(7), size).batches() == Batches{all});
    }
  }
}

TEST_CASE("workers may make any number of batches ahead", "[nn][data]") {
  for (int workers : {1, 3}) {
    for (int prefetch : {1, 1000, kMostInt - 1, kMostInt}) {
      DataLoader loader(numbers(5), {.batch_size = 2, .workers = workers, .prefetch = prefetch});
      REQUIRE(pass(loader) == Batches{{0, 1}, {2, 3}, {4}});
    }
  }
}

#if !defined(__SANITIZE_ADDRESS__)  // whose operator new ends the process
TEST_CASE("samplers take the largest numbers or refuse them", "[nn][data]") {
  REQUIRE(DistributedSampler(7, {.num_replicas = kMost, .rank = 3, .shuffle = false}).indices() ==
          Indices{3});
  REQUIRE(DistributedSampler(7, {.num_replicas = kMost, .rank = 3, .drop_last = true}).size() == 0);
  REQUIRE_THROWS_AS(SequentialSampler(kLeast), Error);
  for (int64_t size : {int64_t{1} << 50, int64_t{1} << 61, kMost - 1, kMost}) {
    REQUIRE_THROWS_AS(SequentialSampler(size).indices(), Error);
    REQUIRE_THROWS_AS(RandomSampler(size).indices(), Error);
    REQUIRE_THROWS_AS(RandomSampler(3, {.num_samples = size}).indices(), Error);
    REQUIRE_THROWS_AS(RandomSampler(3, {.replacement = true, .num_samples = size}).indices(),
                      Error);
    REQUIRE_THROWS_AS(WeightedRandomSampler({1.0, 2.0}, size).indices(), Error);
    REQUIRE_THROWS_AS(random_split(numbers(7), Indices{size, size, 7}, 1), Error);
    REQUIRE_THROWS_AS(random_split(numbers(7), Indices{kMost, kMost, 9}, 1), Error);
    const Indices tokens{1, 2, 3, 4, 5, 6};
    REQUIRE_THROWS_AS(TokenDataset(Tokens(tokens), {.block = size}), Error);
    const TokenDataset pieces(Tokens(tokens), {.block = 2, .stride = size});
    REQUIRE(pieces.size() == 1);
    REQUIRE_THROWS_AS(pieces.random_batch(size, 1, 0), Error);
    if (size > kMost / 2) REQUIRE_THROWS_AS(pieces.random_batch(2, 1, size), Error);
  }
}
#endif

#if !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)  // whose own locks a child may inherit held
TEST_CASE("a loader with workers goes on in a forked child", "[nn][data][process]") {
  const DataLoaderOptions options{.batch_size = 2, .shuffle = true, .seed = 3, .workers = 2};
  DataLoader plain(numbers(21), {.batch_size = 2, .shuffle = true, .seed = 3});
  const Batches first = pass(plain), second = pass(plain);

  DataLoader loader(numbers(21), options);
  auto it = loader.begin();
  for (int i = 0; i < 3; ++i) ++it;  // in the middle of a pass, its workers ahead
  const auto child = [&] {
    size_t at = 3;
    for (; it != loader.end(); ++it, ++at) {
      check((*it)[0].to_vector<int64_t>() == first[at], "batch ", static_cast<int64_t>(at));
    }
    check(at == first.size(), "the pass has ", static_cast<int64_t>(at), " batches");
    check(pass(loader) == second, "the second epoch");
    DataLoader other(numbers(21), options);
    check(pass(other) == first, "a loader of the child's own");
  };
  REQUIRE(run_forked(child) == 0);
  REQUIRE(run_forked([] {}) == 0);  // which ends with its parent's pass
  REQUIRE(run_forked([&] { auto dropped = std::move(it); }) == 0);  // or lets it go
  for (size_t at = 3; it != loader.end(); ++it, ++at) {             // the parent's goes on too
    REQUIRE((*it)[0].to_vector<int64_t>() == first[at]);
  }
  REQUIRE(pass(loader) == second);
}
#endif

TEST_CASE("a forked child begins loaders of its own", "[nn][data][process]") {
  const ThreadLimit limit(3);
  for (int round = 0; round < 5; ++round) {
    const auto child = [] {
      DataLoader loader(numbers(100), {.batch_size = 7, .workers = 3, .prefetch = 4});
      int64_t count = 0;
      for (const Example& batch : loader) count += batch[0].size(0);
      check(count == 100, "samples: ", count);
    };
    REQUIRE(run_forked(child) == 0);
  }
}

}  // namespace
