// Datasets whose samples come one after another.
#include "support/catch.h"

#include <hero/autograd/ops.h>
#include <hero/nn/data/data.h>

using namespace hero;
using namespace hero::nn::data;
using Catch::Matchers::ContainsSubstring;
using Numbers = std::vector<double>;

namespace {

// from, from + 1, .., each with a random number beside it.
struct Counting : IterableDataset {
  int from, to;
  Counting(int first, int end) : from(first), to(end) {}
  Samples samples() const override {
    return [at = from, end = to]() mutable -> std::optional<Example> {
      if (at == end) return std::nullopt;
      return Example{tensor(static_cast<double>(at++)), rand({})};
    };
  }
};

std::vector<Numbers> batches_of(IterableLoader& loader, int field = 0) {
  std::vector<Numbers> all;
  for (const Example& batch : loader) all.push_back(batch[field].to_vector<double>());
  return all;
}

}  // namespace

TEST_CASE("a chain gives the samples of one dataset after the other, in batches", "[nn][data]") {
  const ChainDataset chain({Counting(0, 3), Counting(5, 5), Counting(7, 9)});
  IterableLoader loader(chain, {.batch_size = 2});
  const std::vector<Numbers> expected = {{0, 1}, {2, 7}, {8}};
  CHECK(batches_of(loader) == expected);
  CHECK(batches_of(loader) == expected);  // passes begin anew
  IterableLoader whole(chain, {.batch_size = 2, .drop_last = true});
  CHECK(batches_of(whole).size() == 2);
  IterableLoader none(ChainDataset({}), {.batch_size = 2});
  CHECK(batches_of(none).empty());
  IterableLoader pairs(chain, {.batch_size = 3, .collate = [](const std::vector<Example>& samples) {
                                 return Example{samples.back()[0]};
                               }});
  CHECK(batches_of(pairs) == std::vector<Numbers>{{2}, {8}});
  CHECK_THROWS_WITH(IterableLoader(chain, {.batch_size = 0}), ContainsSubstring("not positive: 0"));
  auto it = loader.begin();
  while (!(it == loader.end())) ++it;
  CHECK_THROWS_WITH(++it, ContainsSubstring("at its end"));
}

TEST_CASE("random numbers of a stream depend on seed, epoch and batch, also when resumed",
          "[nn][data]") {
  const Counting stream(0, 7);
  IterableLoader loader(stream, {.batch_size = 2, .seed = 3});
  const std::vector<Numbers> first = batches_of(loader, 1), second = batches_of(loader, 1);
  CHECK(first != second);
  manual_seed(99);
  IterableLoader again(stream, {.batch_size = 2, .seed = 3});
  const Tensor before = rand({2});
  CHECK(batches_of(again, 1) == first);
  manual_seed(99);
  CHECK(equal(rand({2}), before));

  IterableLoader stopped(stream, {.batch_size = 2, .seed = 3});
  CHECK(batches_of(stopped, 1) == first);
  {
    auto it = stopped.begin();
    ++it;  // two batches of the second pass
    CHECK((*it)[1].to_vector<double>() == second[1]);
    const auto state = stopped.state_dict();
    IterableLoader resumed(stream, {.batch_size = 2, .seed = 3});
    resumed.load_state_dict(state);
    CHECK(batches_of(resumed, 1) == std::vector<Numbers>(second.begin() + 2, second.end()));
    // Behind its end the state is that of the next pass.
    IterableLoader next(stream, {.batch_size = 2, .seed = 3});
    next.load_state_dict(loader.state_dict());
    CHECK(batches_of(next, 1) == batches_of(loader, 1));
  }
  CHECK_THROWS_WITH(stopped.load_state_dict({}), ContainsSubstring("no number 'epoch'"));
  CHECK_THROWS_WITH(stopped.load_state_dict({{"epoch", Array::zeros({2})}}),
                    ContainsSubstring("not one int64 number, but float32 of shape [2]"));
  const auto number = [](int64_t value) { return Array::full({}, value, kInt64); };
  CHECK_THROWS_WITH(stopped.load_state_dict({{"epoch", number(0)}, {"batch", number(-1)}}),
                    ContainsSubstring("the state stands at batch -1 in epoch 0"));
}
