#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/arrays.h"
#include "support/catch.h"
#include "support/temp_dir.h"

#include <hero/autograd/ops.h>
#include <hero/core/safetensors.h>
#include <hero/nn/data/loader.h>

namespace {

using namespace hero::nn::data;
using Catch::Matchers::ContainsSubstring;
using Indices = std::vector<int64_t>;
using Batches = std::vector<Indices>;

struct Numbers : Dataset {
  int64_t count = 0;
  int64_t failing = -1;
  std::shared_ptr<std::atomic<int>> calls = std::make_shared<std::atomic<int>>(0);

  explicit Numbers(int64_t size, int64_t fails = -1) : count(size), failing(fails) {}
  int64_t size() const override { return count; }
  Example get(int64_t index) const override {
    ++*calls;
    if (index == failing) throw std::runtime_error("sample 17 is broken");
    return {hero::tensor({static_cast<double>(index)}, {.dtype = hero::kInt64})};
  }
};

Indices numbers(const Example& batch) { return batch[0].to_vector<int64_t>(); }

Batches pass(DataLoader& loader) {
  Batches batches;
  for (const Example& batch : loader) batches.push_back(numbers(batch));
  return batches;
}

TEST_CASE("a loader goes through a dataset in batches", "[nn][data]") {
  DataLoader loader(Numbers(7), {.batch_size = 3});
  CHECK(loader.size() == 3);
  CHECK(pass(loader) == Batches{{0, 1, 2}, {3, 4, 5}, {6}});
  DataLoader dropping(Numbers(7), {.batch_size = 3, .drop_last = true});
  CHECK(dropping.size() == 2);
  CHECK(pass(dropping) == Batches{{0, 1, 2}, {3, 4, 5}});
  DataLoader empty(Numbers(0), {.batch_size = 3, .shuffle = true, .workers = 2});
  CHECK(pass(empty).empty());
  CHECK(numbers(*loader.begin()) == Indices{0, 1, 2});
}

TEST_CASE("shuffling gives each epoch an order of its own, fixed by the seed", "[nn][data]") {
  const DataLoaderOptions options{.batch_size = 4, .shuffle = true, .seed = 11};
  DataLoader loader(Numbers(20), options), again(Numbers(20), options);
  const Batches first = pass(loader);
  CHECK(loader.epoch() == 1);
  const Batches second = pass(loader);
  CHECK(first != second);
  CHECK(pass(again) == first);
  again.set_epoch(1);
  CHECK(pass(again) == second);
  DataLoader other(Numbers(20), {.batch_size = 4, .shuffle = true, .seed = 12});
  CHECK(pass(other) != first);
}

TEST_CASE("batches and random transforms have the same bits with any number of workers",
          "[nn][data][threads]") {
  const MapDataset noisy(Numbers(50), [](const Example& sample) {
    return Example{sample[0].to(hero::kFloat32) + hero::randn({1, 3})};
  });
  std::vector<uint64_t> expected;
  for (const int workers : {0, 1, 2, 5}) {
    hero::manual_seed(1000 + static_cast<uint64_t>(workers));
    const hero::Generator::State before = hero::default_generator().state();
    DataLoader loader(noisy, {.batch_size = 4, .shuffle = true, .seed = 2, .workers = workers});
    std::vector<uint64_t> hashes;
    for (int epoch = 0; epoch < 2; ++epoch) {
      for (const Example& batch : loader) hashes.push_back(hero::test::hash(batch[0].array()));
    }
    REQUIRE(hashes.size() == 26);
    CHECK(hero::default_generator().state() == before);
    if (expected.empty()) expected = hashes;
    CHECK(hashes == expected);
  }
}

TEST_CASE("an exception in a worker reaches the consumer in its turn", "[nn][data][threads]") {
  for (const int workers : {0, 1, 3}) {
    DataLoader loader(Numbers(40, 17), {.batch_size = 4, .workers = workers});
    Batches seen;
    std::string message;
    try {
      for (const Example& batch : loader) seen.push_back(numbers(batch));
    } catch (const std::runtime_error& error) {
      message = error.what();
    }
    CHECK(message == "sample 17 is broken");
    CHECK(seen.size() == 4);
    CHECK(pass(*std::make_unique<DataLoader>(Numbers(8), DataLoaderOptions{.batch_size = 4}))
              .size() == 2);
  }
}

TEST_CASE("leaving a pass early ends its workers, and the next pass is the next epoch",
          "[nn][data][threads]") {
  const Numbers set(100000);
  DataLoader loader(set, {.batch_size = 2, .workers = 3, .prefetch = 2});
  for (int round = 0; round < 5; ++round) {
    for (const Example& batch : loader) {
      if (numbers(batch)[0] >= 8) break;
    }
    // 5 batches taken, at most 3 * 2 made ahead and one in the making by each worker
    CHECK(*set.calls <= (round + 1) * 2 * (5 + 6 + 3));
    CHECK(loader.epoch() == round);
  }
  const int made = *set.calls;
  CHECK(numbers(*loader.begin()) == Indices{0, 1});
  CHECK(*set.calls >= made + 2);
}

TEST_CASE("a loader resumes in mid-epoch with the same batches", "[nn][data][threads]") {
  const hero_test::TempDir dir;
  for (const int workers : {0, 2}) {
    const DataLoaderOptions options{
        .batch_size = 3, .shuffle = true, .seed = 5, .workers = workers};
    DataLoader loader(Numbers(31), options);
    Batches all;
    std::vector<std::vector<hero::core::NamedArray>> states{loader.state_dict()};
    for (int epoch = 0; epoch < 2; ++epoch) {
      for (const Example& batch : loader) {
        all.push_back(numbers(batch));
        states.push_back(loader.state_dict());
      }
    }
    REQUIRE(all.size() == 22);
    for (size_t done = 0; done < states.size(); ++done) {
      hero::core::save_safetensors(dir / "state", states[done]);
      DataLoader resumed(Numbers(31), options);
      resumed.load_state_dict(hero::core::load_safetensors(dir / "state").arrays);
      Batches rest;
      // after an epoch's last batch the saved epoch still stands, with nothing left in it
      CHECK(resumed.epoch() == (done <= 11 ? 0 : 1));
      while (resumed.epoch() < 2) {
        for (const Example& batch : resumed) rest.push_back(numbers(batch));
      }
      CHECK(rest == Batches(all.begin() + static_cast<std::ptrdiff_t>(done), all.end()));
    }
  }
}

TEST_CASE("a state of another loader is refused and changes nothing", "[nn][data]") {
  DataLoader loader(Numbers(31), {.batch_size = 3});
  const auto state = loader.state_dict();
  DataLoader other(Numbers(31), {.batch_size = 4});
  CHECK_THROWS_WITH(other.load_state_dict(state),
                    ContainsSubstring("batch_size 3, this one has 4"));
  DataLoader larger(Numbers(32), {.batch_size = 3});
  CHECK_THROWS_WITH(larger.load_state_dict(state), ContainsSubstring("dataset_size 31"));
  DistributedSampler half(Numbers(31), {.num_replicas = 2, .rank = 0});
  DataLoader share(Numbers(31), {.batch_size = 3, .sampler = &half});
  CHECK_THROWS_WITH(share.load_state_dict(state),
                    ContainsSubstring("samples 31, this one has 16; another number of ranks "
                                      "resumes it if they take turns"));
  CHECK_THROWS_WITH(loader.load_state_dict({}), ContainsSubstring("has no number 'dataset_size'"));
  CHECK(loader.epoch() == 0);
  CHECK(pass(loader).size() == 11);
}

TEST_CASE("a loader follows a sampler and moves its epoch on", "[nn][data]") {
  DistributedSampler sampler(10, {.num_replicas = 2, .rank = 1, .seed = 3});
  DataLoader loader(Numbers(10), {.batch_size = 2, .sampler = &sampler});
  CHECK(loader.size() == 3);
  const auto flat = [](const Batches& batches) {
    Indices all;
    for (const Indices& batch : batches) all.insert(all.end(), batch.begin(), batch.end());
    return all;
  };
  const Indices first = sampler.indices();
  CHECK(flat(pass(loader)) == first);
  CHECK(sampler.epoch() == 1);
  sampler.set_epoch(4);
  const Indices fifth = sampler.indices();
  CHECK(flat(pass(loader)) == fifth);
  CHECK(fifth != first);
  CHECK_THROWS_WITH(DataLoader(Numbers(10), {.shuffle = true, .sampler = &sampler}),
                    ContainsSubstring("both a sampler and shuffle"));
  loader.load_state_dict(loader.state_dict());
  sampler.set_epoch(9);
  CHECK_THROWS_WITH(loader.begin(), ContainsSubstring("epoch 5, the sampler was set to 9"));
}

TEST_CASE("other numbers of ranks go on from a loader's state where ranks take turns",
          "[nn][data]") {
  const auto sampler_of = [](int64_t ranks, int64_t rank) {
    return DistributedSampler(24, {.num_replicas = ranks, .rank = rank, .seed = 3, .turn = 2});
  };
  DistributedSampler alone = sampler_of(1, 0);
  DataLoader whole(Numbers(24), {.batch_size = 2, .sampler = &alone});
  const Batches expected = pass(whole);
  REQUIRE(expected.size() == 12);
  DistributedSampler first = sampler_of(4, 1);
  DataLoader four(Numbers(24), {.batch_size = 2, .sampler = &first});
  auto it = four.begin();  // each of four has taken one
  const auto state = four.state_dict();
  for (const int64_t ranks : {1, 2, 4}) {
    for (int64_t rank = 0; rank < ranks; ++rank) {
      DistributedSampler sampler = sampler_of(ranks, rank);
      DataLoader loader(Numbers(24), {.batch_size = 2, .sampler = &sampler});
      loader.load_state_dict(state);
      const Batches rest = pass(loader);
      REQUIRE(rest.size() == static_cast<size_t>(8 / ranks));
      for (size_t i = 0; i < rest.size(); ++i) {
        CHECK(rest[i] == expected[4 + i * static_cast<size_t>(ranks) + static_cast<size_t>(rank)]);
      }
    }
  }
  DistributedSampler three = sampler_of(3, 0);
  DataLoader other(Numbers(24), {.batch_size = 2, .sampler = &three});
  CHECK_THROWS_WITH(other.load_state_dict(state),
                    ContainsSubstring("behind 4 batches of the order, of which 3 ranks"));
}

using Noise = std::map<int64_t, std::vector<float>>;  // of each example, all that it got

// What the examples of a pass get from a loader of each of `ranks`, by a random function and by one
// that a stacked dataset has beside it.
Noise noise_of(const AnyDataset& dataset, DataLoaderOptions options, int64_t ranks, int64_t turn,
               int64_t epoch = 0) {
  Noise noise;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    DistributedSampler sampler(dataset->size(),
                               {.num_replicas = ranks, .rank = rank, .seed = 3, .turn = turn});
    options.sampler = &sampler;
    DataLoader loader(dataset, options);
    loader.set_epoch(epoch);
    for (const Example& batch : loader) {
      const Indices examples = batch[0].to_vector<int64_t>();
      const std::vector<float> drawn = batch[1].to_vector<float>();
      REQUIRE(drawn.size() == examples.size() * 2);
      for (size_t i = 0; i < examples.size(); ++i) {
        for (size_t j = 0; j < 2; ++j) noise[examples[i]].push_back(drawn[2 * i + j]);
      }
    }
  }
  return noise;
}

MapDataset noisy_numbers(int64_t size) {
  return {Numbers(size), [](const Example& sample) {
            return Example{sample[0], hero::stack({hero::rand({}), hero::randn({})})};
          }};
}

TEST_CASE("an example gets the same noise on any ranks, in any batch, from any workers",
          "[nn][data][threads]") {
  const MapDataset noisy = noisy_numbers(24);
  const Noise expected = noise_of(noisy, {.batch_size = 8}, 1, 1);
  REQUIRE(expected.size() == 24);
  std::set<std::vector<float>> all;
  for (const auto& [example, noise] : expected) all.insert(noise);
  CHECK(all.size() == 24);  // each has noise of its own
  for (const int64_t ranks : {1, 2, 4}) {
    for (const int64_t turn : {1, 3}) {
      for (const int64_t size : {2, 3, 5}) {
        for (const int workers : {0, 2}) {
          CHECK(noise_of(noisy, {.batch_size = size, .workers = workers}, ranks, turn) == expected);
        }
      }
    }
  }
  CHECK(noise_of(noisy, {.batch_size = 8}, 2, 1, 1) != expected);
  CHECK(noise_of(noisy, {.batch_size = 8, .seed = 1}, 2, 1) != expected);
  const auto one_by_one = [](const std::vector<Example>& samples) { return collate(samples); };
  CHECK(noise_of(noisy, {.batch_size = 4, .collate = one_by_one}, 2, 1) == expected);
  // As part of other datasets, whose batches come another way.
  Indices backwards(24);
  for (int64_t i = 0; i < 24; ++i) backwards[static_cast<size_t>(i)] = 23 - i;
  for (const int64_t ranks : {1, 2}) {
    const Subset subset(noisy, backwards);
    const Noise reversed = noise_of(subset, {.batch_size = 4}, ranks, 1);
    for (int64_t i = 0; i < 24; ++i) CHECK(reversed.at(23 - i) == expected.at(i));
    const ConcatDataset joined({noisy_numbers(10), noisy_numbers(14)});
    for (const auto& [example, noise] : noise_of(joined, {.batch_size = 4}, ranks, 1)) {
      // Both parts have the examples 0 to 9, with noise by their places in the whole.
      if (example >= 10) CHECK(noise == expected.at(example + 10));
      if (example < 10) CHECK(noise.size() == 4);
    }
  }
}

TEST_CASE("datasets side by side draw one after the other for each example", "[nn][data]") {
  const StackDataset stacked({noisy_numbers(12), noisy_numbers(12)});
  const auto pass_of = [&](int64_t batch_size, bool by_get) {
    DataLoaderOptions options{.batch_size = batch_size, .shuffle = true, .seed = 4};
    if (by_get) options.collate = [](const std::vector<Example>& list) { return collate(list); };
    std::map<int64_t, std::vector<float>> noise;
    for (const Example& batch : DataLoader(stacked, options)) {
      for (int64_t i = 0; i < batch[0].size(0); ++i) {
        const auto first = hero::select(batch[1], 0, i).to_vector<float>();
        auto& all = noise[hero::select(batch[0], 0, i).item<int64_t>()];
        all = hero::select(batch[3], 0, i).to_vector<float>();
        CHECK(all != first);
        all.insert(all.end(), first.begin(), first.end());
      }
    }
    return noise;
  };
  CHECK(pass_of(5, false) == pass_of(3, true));
}

TEST_CASE("an example that comes again in a pass gets other noise, the same on any ranks",
          "[nn][data]") {
  RandomSampler again(4, {.seed = 1, .replacement = true, .num_samples = 40});
  DataLoader loader(noisy_numbers(4), {.batch_size = 8, .sampler = &again});
  std::set<float> all;
  for (const Example& batch : loader) {
    for (const float noise : hero::select(batch[1], 1, 0).to_vector<float>()) all.insert(noise);
  }
  CHECK(all.size() == 40);
  // Ranks that take turns pad with the order's beginning, as one rank does.
  Noise expected;
  for (const int64_t ranks : {1, 2, 3}) {
    const Noise noise = noise_of(noisy_numbers(9), {.batch_size = 2}, ranks, 2);
    size_t count = 0;
    for (const auto& [example, drawn] : noise) count += drawn.size() / 2;
    CHECK(count == (ranks == 1 ? 10 : 12));
    for (const auto& [example, drawn] : noise) {
      CHECK(std::set<float>(drawn.begin(), drawn.end()).size() == drawn.size());
    }
    if (ranks == 1) expected = noise;
    for (const auto& [example, drawn] : expected) {
      for (const float one : drawn) {
        CHECK(std::count(noise.at(example).begin(), noise.at(example).end(), one) == 1);
      }
    }
  }
}

TEST_CASE("what is drawn for a batch as a whole differs from rank to rank", "[nn][data]") {
  const auto mix = [](const std::vector<Example>& samples) {
    return Example{collate(samples)[0], hero::rand({1})};
  };
  std::set<float> all;
  for (const int64_t rank : {0, 1, 2}) {
    DistributedSampler sampler(12, {.num_replicas = 3, .rank = rank});
    DataLoader loader(Numbers(12), {.batch_size = 2, .sampler = &sampler, .collate = mix});
    for (const Example& batch : loader) all.insert(batch[1].item<float>());
  }
  CHECK(all.size() == 6);
}

TEST_CASE("a collate function makes the batches", "[nn][data]") {
  DataLoader loader(Numbers(4),
                    {.batch_size = 4, .collate = [](const std::vector<Example>& samples) {
                       return Example{hero::sum(collate(samples)[0])};
                     }});
  CHECK((*loader.begin())[0].item<int64_t>() == 6);
}

TEST_CASE("a loader charges batches to the consumer's ledger and leaves nothing behind",
          "[nn][data][threads]") {
  hero::Ledger ledger;
  {
    const hero::LedgerScope scope(ledger);
    DataLoader loader(Numbers(64), {.batch_size = 8, .workers = 2});
    int batches = 0;
    for (const Example& batch : loader) {
      CHECK(ledger.live(hero::MemoryTag::other) >= batch[0].array().nbytes());
      CHECK(ledger.live(hero::MemoryTag::activation) == 0);
      if (++batches == 3) break;
    }
  }
  CHECK(ledger.live() == 0);
}

}  // namespace
