#include <algorithm>
#include <numeric>
#include <vector>

#include "support/catch.h"

#include <hero/autograd/ops.h>
#include <hero/nn/data/dataset.h>
#include <hero/nn/data/sampler.h>

namespace {

using namespace hero::nn::data;
using Catch::Matchers::ContainsSubstring;
using Indices = std::vector<int64_t>;

// Sample i is {[2i, 2i + 1], i}.
TensorDataset counting(int64_t size) {
  return TensorDataset({hero::arange(2 * size).reshape({size, 2}), hero::arange(size)});
}

Indices targets(const Example& batch) { return batch[1].to_vector<int64_t>(); }

// A dataset of one's own: a label and nothing else, one of them different on request.
struct Squares : Dataset {
  int64_t odd_one = -1;
  int64_t size() const override { return 6; }
  Example get(int64_t index) const override {
    return {index == odd_one ? hero::zeros({2})
                             : hero::full({1}, static_cast<double>(index * index))};
  }
};

TEST_CASE("a tensor dataset gives rows, and batches of rows", "[nn][data]") {
  const TensorDataset set = counting(5);
  CHECK(set.size() == 5);
  const auto [x, y] = set.get(3);
  CHECK(x.shape() == hero::Shape{2});
  CHECK(x.to_vector<int64_t>() == Indices{6, 7});
  CHECK(y.item<int64_t>() == 3);
  const Indices picks{4, 0, 4};
  const auto [xs, ys] = set.get_batch(picks);
  CHECK(xs.shape() == hero::Shape{3, 2});
  CHECK(xs.to_vector<int64_t>() == Indices{8, 9, 0, 1, 8, 9});
  CHECK(ys.to_vector<int64_t>() == picks);
  CHECK_THROWS_WITH(set.get(5), ContainsSubstring("there is no sample 5, there are 5"));
  CHECK_THROWS_WITH(set.get(-1), ContainsSubstring("there is no sample -1"));
  CHECK_THROWS_WITH(TensorDataset({hero::zeros({2}), hero::zeros({3})}),
                    ContainsSubstring("2 and 3 samples"));
  CHECK_THROWS_WITH(TensorDataset({}), ContainsSubstring("no tensors"));
}

TEST_CASE("an example comes apart only into as many names as it has fields", "[nn][data]") {
  const Example three{hero::zeros({1}), hero::zeros({1}), hero::zeros({1})};
  CHECK_THROWS_WITH(get<0>(three), ContainsSubstring("two fields, there are 3"));
  CHECK_THROWS_WITH(three[3], ContainsSubstring("no field 3"));
}

TEST_CASE("samples of a dataset of one's own are stacked", "[nn][data]") {
  Squares squares;
  const Indices all{0, 1, 2, 3, 4, 5};
  const Example batch = squares.get_batch(all);
  CHECK(batch.size() == 1);
  CHECK(batch[0].shape() == hero::Shape{6, 1});
  CHECK(batch[0].to_vector<int64_t>() == Indices{0, 1, 4, 9, 16, 25});
  squares.odd_one = 4;
  CHECK_THROWS_WITH(squares.get_batch(all),
                    ContainsSubstring("field 0 of sample 4 is float32 [2]"));
  CHECK_THROWS_WITH(collate({Example{hero::zeros({1})}, Example{hero::Tensor()}}),
                    ContainsSubstring("field 0 of sample 1 is an undefined tensor"));
  CHECK_THROWS_WITH(collate({Example{hero::zeros({1})}, Example{}}),
                    ContainsSubstring("sample 1 has 0 fields"));
}

TEST_CASE("subsets, joined and mapped datasets give the samples they stand for", "[nn][data]") {
  const Subset odd(counting(10), {1, 3, 5, 7, 9});
  CHECK(odd.size() == 5);
  CHECK(targets(odd.get_batch(Indices{4, 0})) == Indices{9, 1});
  CHECK_THROWS_WITH(Subset(counting(3), {3}), ContainsSubstring("no sample 3"));
  const ConcatDataset joined({odd, counting(3), Subset(counting(2), {})});
  CHECK(joined.size() == 8);
  CHECK(targets(joined.get_batch(Indices{4, 5, 7})) == Indices{9, 0, 2});
  CHECK(targets(joined.get_batch(Indices{6, 5})) == Indices{1, 0});
  CHECK(joined.get(5)[1].item<int64_t>() == 0);
  CHECK_THROWS_WITH(joined.get(8), ContainsSubstring("no sample 8"));
  const MapDataset doubled(joined, [](const Example& sample) {
    return Example{sample[0] + sample[0], sample[1]};
  });
  CHECK(doubled.get(0)[0].to_vector<int64_t>() == Indices{4, 6});
  CHECK(targets(doubled.get_batch(Indices{0, 7})) == Indices{1, 2});
}

TEST_CASE("stacked datasets have the fields of each sample side by side", "[nn][data]") {
  const StackDataset both({counting(6), Squares{}, Subset(counting(9), {8, 7, 6, 5, 4, 3})});
  CHECK(both.size() == 6);
  const Example one = both.get(2), batch = both.get_batch(Indices{5, 2});
  REQUIRE(one.size() == 5);
  CHECK(one[1].item<int64_t>() == 2);
  CHECK(one[2].item<int64_t>() == 4);
  CHECK(one[4].item<int64_t>() == 6);
  REQUIRE(batch.size() == 5);
  CHECK(targets(batch) == Indices{5, 2});
  CHECK(batch[2].to_vector<int64_t>() == Indices{25, 4});
  CHECK(batch[4].to_vector<int64_t>() == Indices{3, 6});
  CHECK_THROWS_WITH(both.get(6), ContainsSubstring("stack_dataset: there is no sample 6"));
  CHECK_THROWS_WITH(StackDataset({counting(4), counting(3)}), ContainsSubstring("4 and 3 samples"));
  CHECK_THROWS_WITH(StackDataset({}), ContainsSubstring("there are no datasets"));
}

TEST_CASE("a random split gives each sample to one part", "[nn][data]") {
  const auto parts = random_split(counting(10), {7, 3}, 5);
  REQUIRE(parts.size() == 2);
  CHECK(parts[0].size() == 7);
  Indices all = parts[0].indices();
  all.insert(all.end(), parts[1].indices().begin(), parts[1].indices().end());
  CHECK(!std::is_sorted(all.begin(), all.end()));
  std::sort(all.begin(), all.end());
  CHECK(all == SequentialSampler(10).indices());
  CHECK(random_split(counting(10), {7, 3}, 5)[0].indices() == parts[0].indices());
  CHECK(random_split(counting(10), {7, 3}, 6)[0].indices() != parts[0].indices());
  // 10 * 0.35 = 3.5 twice, 10 * 0.3 = 3: of the floors 3, 3, 3 the first gets what is left
  const auto shares = random_split(counting(10), {0.35, 0.35, 0.3});
  CHECK(shares[0].size() == 4);
  CHECK(shares[1].size() == 3);
  CHECK(shares[2].size() == 3);
  CHECK_THROWS_WITH(random_split(counting(10), {7, 4}), ContainsSubstring("add up to 11"));
  CHECK_THROWS_WITH(random_split(counting(10), {0.5, 0.4}), ContainsSubstring("add up to 0.9"));
}

TEST_CASE("a random sampler permutes anew each epoch, by seed", "[nn][data]") {
  RandomSampler sampler(100, {.seed = 3});
  const Indices first = sampler.indices();
  Indices sorted = first;
  std::sort(sorted.begin(), sorted.end());
  CHECK(sorted == SequentialSampler(100).indices());
  CHECK(sampler.indices() == first);
  sampler.set_epoch(1);
  CHECK(sampler.indices() != first);
  sampler.set_epoch(0);
  CHECK(sampler.indices() == first);
  CHECK(RandomSampler(100, {.seed = 4}).indices() != first);
  CHECK_THROWS_WITH(sampler.set_epoch(-1), ContainsSubstring("negative"));
  // more than one permutation, and part of one
  const Indices longer = RandomSampler(100, {.seed = 3, .num_samples = 250}).indices();
  CHECK(longer.size() == 250);
  CHECK(std::equal(first.begin(), first.end(), longer.begin()));
  CHECK(std::is_permutation(longer.begin() + 100, longer.begin() + 200, first.begin()));
  const Indices drawn =
      RandomSampler(10, {.seed = 3, .replacement = true, .num_samples = 1000}).indices();
  for (int64_t i = 0; i < 10; ++i) {
    // binomial(1000, 0.1): mean 100, deviation 9.5; five deviations either way
    CHECK(std::abs(std::count(drawn.begin(), drawn.end(), i) - 100) < 48);
  }
  CHECK_THROWS_WITH(RandomSampler(0, {.num_samples = 1}), ContainsSubstring("1 of 0"));
}

TEST_CASE("a sampler of some indices permutes these anew each epoch", "[nn][data]") {
  SubsetRandomSampler sampler({9, 2, 4, 4, 7, 30}, 5);
  CHECK(sampler.size() == 6);
  const Indices first = sampler.indices();
  CHECK(first == SubsetRandomSampler({9, 2, 4, 4, 7, 30}, 5).indices());
  sampler.set_epoch(1);
  Indices second = sampler.indices();
  CHECK(first != second);
  std::sort(second.begin(), second.end());
  CHECK(second == Indices{2, 4, 4, 7, 9, 30});
  CHECK(SubsetRandomSampler({}).indices().empty());
}

TEST_CASE("a weighted sampler draws by weight", "[nn][data]") {
  const Indices drawn = WeightedRandomSampler({0, 1, 3, 0}, 4000, {.seed = 1}).indices();
  const auto ones = std::count(drawn.begin(), drawn.end(), 1);
  CHECK(std::abs(ones - 1000) < 140);  // binomial(4000, 1/4): deviation 27; five of them
  CHECK(ones + std::count(drawn.begin(), drawn.end(), 2) == 4000);
  Indices once =
      WeightedRandomSampler({2, 0, 1, 5}, 3, {.seed = 1, .replacement = false}).indices();
  std::sort(once.begin(), once.end());
  CHECK(once == Indices{0, 2, 3});
  CHECK_THROWS_WITH(WeightedRandomSampler({1, 0}, 2, {.replacement = false}),
                    ContainsSubstring("only 1 weights"));
  CHECK_THROWS_WITH(WeightedRandomSampler({1, -1}, 2), ContainsSubstring("-1"));
}

TEST_CASE("a distributed sampler pads or drops as PyTorch's does", "[nn][data]") {
  const auto of = [](int64_t size, int64_t replicas, int64_t rank, bool drop_last) {
    return DistributedSampler(
               size,
               {.num_replicas = replicas, .rank = rank, .shuffle = false, .drop_last = drop_last})
        .indices();
  };
  // torch.utils.data.DistributedSampler(range(10), 4, rank, shuffle=False, drop_last=...)
  CHECK(of(10, 4, 0, false) == Indices{0, 4, 8});
  CHECK(of(10, 4, 1, false) == Indices{1, 5, 9});
  CHECK(of(10, 4, 2, false) == Indices{2, 6, 0});
  CHECK(of(10, 4, 3, false) == Indices{3, 7, 1});
  CHECK(of(10, 4, 2, true) == Indices{2, 6});
  CHECK(of(10, 4, 3, true) == Indices{3, 7});
  // fewer samples than ranks: the padding itself is repeated
  CHECK(of(2, 5, 0, false) == Indices{0});
  CHECK(of(2, 5, 3, false) == Indices{1});
  CHECK(of(2, 5, 4, false) == Indices{0});
  CHECK(of(2, 5, 1, true).empty());
  CHECK_THROWS_WITH(of(10, 4, 4, false), ContainsSubstring("rank 4 is not in [0, 4)"));
}

TEST_CASE("the ranks' shuffled shares are one process's order", "[nn][data]") {
  for (const int64_t epoch : {0, 7}) {
    RandomSampler whole(103, {.seed = 9});
    whole.set_epoch(epoch);
    const Indices order = whole.indices();
    for (int64_t rank = 0; rank < 3; ++rank) {
      DistributedSampler share(103, {.num_replicas = 3, .rank = rank, .seed = 9});
      share.set_epoch(epoch);
      const Indices mine = share.indices();
      REQUIRE(mine.size() == 35);
      for (size_t i = 0; i < mine.size(); ++i) {
        const size_t at = static_cast<size_t>(rank) + 3 * i;
        CHECK(mine[i] == order[at % 103]);
      }
    }
  }
}

TEST_CASE("ranks that take turns have the batches of one process", "[nn][data]") {
  const auto of = [](int64_t size, int64_t replicas, int64_t rank, int64_t turn, bool drop_last) {
    return DistributedSampler(size, {.num_replicas = replicas,
                                     .rank = rank,
                                     .shuffle = false,
                                     .drop_last = drop_last,
                                     .turn = turn})
        .indices();
  };
  CHECK(of(14, 2, 0, 3, false) == Indices{0, 1, 2, 6, 7, 8, 12, 13, 0});
  CHECK(of(14, 2, 1, 3, false) == Indices{3, 4, 5, 9, 10, 11, 1, 2, 3});
  CHECK(of(14, 2, 1, 3, true) == Indices{3, 4, 5, 9, 10, 11});
  CHECK(of(2, 2, 1, 3, true).empty());
  for (const int64_t ranks : {1, 2, 4, 8}) {
    RandomSampler whole(96, {.seed = 9});
    const Indices order = whole.indices();
    Indices together(96);
    for (int64_t rank = 0; rank < ranks; ++rank) {
      const DistributedSampler share(96,
                                     {.num_replicas = ranks, .rank = rank, .seed = 9, .turn = 4});
      const auto batches = BatchSampler(share, 4).batches();
      for (size_t b = 0; b < batches.size(); ++b) {
        const size_t at = 4 * (b * static_cast<size_t>(ranks) + static_cast<size_t>(rank));
        std::copy(batches[b].begin(), batches[b].end(),
                  together.begin() + static_cast<std::ptrdiff_t>(at));
      }
    }
    CHECK(together == order);
  }
  CHECK_THROWS_WITH(of(10, 4, 0, 0, false), ContainsSubstring("turn is not positive: 0"));
  CHECK_THROWS_WITH(of(10, 4, 0, int64_t{1} << 62, false), ContainsSubstring("can be counted"));
}

TEST_CASE("a batch sampler groups indices", "[nn][data]") {
  const SequentialSampler sampler(7);
  CHECK(BatchSampler(sampler, 3).batches() == std::vector<Indices>{{0, 1, 2}, {3, 4, 5}, {6}});
  CHECK(BatchSampler(sampler, 3, true).batches() == std::vector<Indices>{{0, 1, 2}, {3, 4, 5}});
  CHECK(BatchSampler(sampler, 3).size() == 3);
  CHECK(BatchSampler(sampler, 8, true).size() == 0);
  CHECK_THROWS_WITH(BatchSampler(sampler, 0), ContainsSubstring("not positive"));
}

}  // namespace
