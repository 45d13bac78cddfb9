// Sequences of different lengths, and recurrent layers over them, against PyTorch.
#include <functional>
#include <string>

#include "nn/golden/golden_case.h"
#include "support/catch.h"

#include <hero/autograd/functions/gradcheck.h>
#include <hero/autograd/ops.h>
#include <hero/nn/recurrent.h>

using namespace hero;
using Catch::Matchers::ContainsSubstring;
using test::GoldenCase;
using Inputs = GoldenCase::Inputs;

namespace {

const std::vector<int64_t> kLengths{2, 6, 1, 6, 4};

nn::PackedSequence pack(const Tensor& x) {
  return nn::pack_padded_sequence(x, kLengths, {.batch_first = true});
}
Tensor pad(const nn::PackedSequence& packed) {
  return nn::pad_packed_sequence(packed, {.batch_first = true, .padding_value = 0.5}).output;
}

}  // namespace

TEST_CASE("recurrent layers over packed sequences are PyTorch's, with gradients") {
  nn::RNN rnn(3, 2, {.batch_first = true});
  GoldenCase("packed", "rnn").check(rnn, [&](const Inputs& in) -> std::vector<Tensor> {
    const auto [output, h] = rnn(pack(in.at("x")));
    return {output.data, pad(output), h};
  });
  nn::GRU gru(3, 2, {.num_layers = 2, .batch_first = true, .bidirectional = true});
  GoldenCase("packed", "gru").check(gru, [&](const Inputs& in) -> std::vector<Tensor> {
    const auto [output, h] = gru(pack(in.at("x")), in.at("h"));
    return {output.data, pad(output), h};
  });
  nn::LSTM lstm(3, 2, {.num_layers = 2, .batch_first = true, .bidirectional = true});
  GoldenCase("packed", "lstm").check(lstm, [&](const Inputs& in) -> std::vector<Tensor> {
    const auto [output, state] = lstm(pack(in.at("x")), {in.at("h"), in.at("c")});
    return {output.data, pad(output), state.h, state.c};
  });
}

TEST_CASE("a packed sequence gives what the layer gives for the sequence alone") {
  manual_seed(2);
  nn::LSTM lstm(3, 4, {.bidirectional = true});
  const Tensor x = randn({6, 5, 3});
  const auto [output, state] = lstm(nn::pack_padded_sequence(x, kLengths));
  const auto [padded, lengths] = nn::pad_packed_sequence(output);
  CHECK(lengths.to_vector<int64_t>() == kLengths);
  for (int64_t i = 0; i < 5; ++i) {
    const int64_t L = kLengths[static_cast<size_t>(i)];
    const auto alone = lstm(x.select(1, i).slice(0, 0, L));
    CHECK(allclose(padded.select(1, i).slice(0, 0, L), alone.output, 1e-5, 1e-6));
    CHECK(equal(padded.select(1, i).slice(0, L, 6), zeros({6 - L, 8})));
    CHECK(allclose(state.c.select(1, i), alone.state.c, 1e-5, 1e-6));
  }
}

TEST_CASE("sequences are packed, padded and taken apart again") {
  const Tensor a = tensor({1, 2, 3}), b = tensor({4}), c = tensor({5, 6});
  const Tensor padded = nn::pad_sequence({a, b, c}, {.batch_first = true, .padding_value = -1.0});
  CHECK(equal(padded, tensor({{1, 2, 3}, {4, -1, -1}, {5, 6, -1}})));
  CHECK(equal(nn::pad_sequence({a, b, c}), tensor({{1, 4, 5}, {2, 0, 6}, {3, 0, 0}})));
  const auto parts = nn::unpad_sequence(padded, tensor({3, 1, 2}), true);
  CHECK(equal(parts[2], c));
  const nn::PackedSequence packed = nn::pack_sequence({a, b, c});
  CHECK(equal(packed.data, tensor({1, 5, 4, 2, 6, 3})));
  CHECK(packed.batch_sizes == std::vector<int64_t>{3, 2, 1});
  CHECK(packed.sorted_indices == std::vector<int64_t>{0, 2, 1});
  CHECK(packed.unsorted_indices == std::vector<int64_t>{0, 2, 1});
  const auto longer = nn::pad_packed_sequence(packed, {.batch_first = true, .total_length = 4});
  CHECK(equal(longer.output, tensor({{1, 2, 3, 0}, {4, 0, 0, 0}, {5, 6, 0, 0}})));
  CHECK(gradcheck(
      [](const auto& in) {
        return nn::pad_packed_sequence(nn::pack_padded_sequence(in[0], {1, 3})).output;
      },
      {randn({3, 2, 2}, {.dtype = kFloat64, .requires_grad = true})}));
}

TEST_CASE("lengths and states that do not fit packed sequences are refused") {
  const Tensor x = zeros({4, 2, 3});
  CHECK_THROWS_WITH(nn::pack_padded_sequence(x, {4, 5}),
                    ContainsSubstring("length 5 of sequence 1 is outside [1, 4]"));
  CHECK_THROWS_WITH(nn::pack_padded_sequence(x, {0, 4}),
                    ContainsSubstring("length 0 of sequence 0 is outside [1, 4]"));
  CHECK_THROWS_WITH(
      nn::pack_padded_sequence(x, {1, 2, 3, 4}),
      ContainsSubstring("4 lengths for 2 sequences") && ContainsSubstring("batch_first = true"));
  CHECK_THROWS_WITH(nn::pack_padded_sequence(x, {2, 4}, {.enforce_sorted = true}),
                    ContainsSubstring("pass enforce_sorted = false"));
  CHECK_THROWS_WITH(nn::pack_padded_sequence(x, zeros({2})),
                    ContainsSubstring("lengths must be integers"));
  const nn::PackedSequence packed = nn::pack_padded_sequence(x, {2, 4});
  CHECK_THROWS_WITH(nn::pad_packed_sequence(packed, {.total_length = 3}),
                    ContainsSubstring("total_length 3 is less than the longest length 4"));
  nn::GRU gru(3, 2), wide(4, 2);
  CHECK_THROWS_WITH(gru(packed, zeros({1, 3, 2})),
                    ContainsSubstring("h has shape [1, 3, 2]; it should be [1, 2, 2]"));
  CHECK_THROWS_WITH(wide(packed), ContainsSubstring("the layer takes [.., 4]"));
  CHECK_THROWS_WITH(gru(nn::PackedSequence{}), ContainsSubstring("are empty"));
  CHECK_THROWS_WITH(
      nn::pad_sequence({zeros({2, 3}), zeros({4, 2})}),
      ContainsSubstring("sequence 1 is float32 [4, 2], and sequence 0 float32 [2, 3]"));
}

TEST_CASE("packed sequences made or changed by hand are checked where they are taken") {
  const nn::PackedSequence good = nn::pack_padded_sequence(rand({3, 4, 2}), {1, 3, 2, 3});
  REQUIRE(good.batch_sizes == std::vector<int64_t>{4, 3, 2});
  REQUIRE(good.sorted_indices == std::vector<int64_t>{1, 3, 2, 0});
  nn::RNN rnn(2, 3);
  nn::GRU gru(2, 3, {.bidirectional = true});
  nn::LSTM lstm(2, 3);
  const auto refused = [&](const std::function<void(nn::PackedSequence&)>& change,
                           const std::string& text) {
    nn::PackedSequence packed = good;
    change(packed);
    CHECK_THROWS_WITH(nn::pad_packed_sequence(packed),
                      ContainsSubstring("pad_packed_sequence: " + text));
    CHECK_THROWS_WITH(rnn(packed), ContainsSubstring("RNN: " + text));
    CHECK_THROWS_WITH(gru(packed), ContainsSubstring("GRU: " + text));
    CHECK_THROWS_WITH(gru(packed, zeros({2, 4, 3})), ContainsSubstring("GRU: " + text));
    CHECK_THROWS_WITH(lstm(packed), ContainsSubstring("LSTM: " + text));
  };
  const auto sizes = [&](const std::vector<int64_t>& list, const std::string& text) {
    refused([&](auto& packed) { packed.batch_sizes = list; }, text);
  };
  sizes({}, "the packed sequences are empty");
  sizes({2, 3, 4}, "batch_sizes[1] is 3 and follows 2, but sequences only end from step to step");
  sizes({4, 3, 2, 0}, "batch_sizes[3] is 0, and not positive");
  sizes({4, -3, 8}, "batch_sizes[1] is -3, and not positive");
  sizes({4, 3}, "batch_sizes have 7 rows, and the packed data 9");
  sizes({4, 4, 2}, "batch_sizes have more rows than the packed data, which has 9");
  sizes({INT64_MAX, INT64_MAX, 11}, "batch_sizes have more rows than the packed data");
  sizes({3, 3, 3}, "4 sorted_indices and 4 unsorted_indices for 3 sequences");
  const auto sorted = [&](const std::vector<int64_t>& list, const std::string& text) {
    refused([&](auto& packed) { packed.sorted_indices = list; }, text);
  };
  sorted({}, "0 sorted_indices and 4 unsorted_indices for 4 sequences");
  sorted({1, 3, 2, 4}, "sorted_indices[3] is 4, outside [0, 4)");
  sorted({1, 3, 2, -1}, "sorted_indices[3] is -1, outside [0, 4)");
  sorted({1, 3, 2, 1}, "sorted_indices has 1 twice");
  const auto unsorted = [&](const std::vector<int64_t>& list, const std::string& text) {
    refused([&](auto& packed) { packed.unsorted_indices = list; }, text);
  };
  unsorted({0}, "4 sorted_indices and 1 unsorted_indices for 4 sequences");
  unsorted({0, 1, 2, INT64_MAX}, "unsorted_indices[1] is 1, but sequence 1 is number 0");
  unsorted({3, 0, 2, INT64_MAX}, "unsorted_indices[3] is 9223372036854775807");
  refused([](auto& packed) { packed.data = Tensor(); }, "the packed sequences are empty");
  refused([](auto& packed) { packed.data = tensor(1.0F); }, "the packed data has no dimension");
  refused(
      [](auto& packed) {
        packed.data = zeros({8, 2});
      },
      "batch_sizes have more rows than the packed data, which has 8");
  CHECK_THROWS_WITH(
      nn::pad_packed_sequence(good, {.total_length = INT64_MAX}),
      ContainsSubstring("pad_packed_sequence: 9223372036854775807 * 4 does not fit into 64 bits"));
  CHECK_THROWS_WITH(nn::pad_packed_sequence(good, {.total_length = (int64_t{1} << 62) + 3}),
                    ContainsSubstring("pad_packed_sequence: 4611686018427387907 * 4 does not"));
  CHECK_THROWS_WITH(nn::pad_packed_sequence(good, {.total_length = -1}),
                    ContainsSubstring("total_length -1 is less than the longest length 3"));
}

TEST_CASE("a hook of a recurrent layer that changes the rows of packed data is refused") {
  nn::GRU gru(2, 3);
  const auto handle = gru.register_forward_pre_hook(
      [](nn::Module&, const nn::Tensors& in) -> nn::Tensors { return {in[0].slice(0, 0, 8)}; });
  CHECK_THROWS_WITH(gru(nn::pack_padded_sequence(rand({3, 4, 2}), {1, 3, 2, 3})),
                    ContainsSubstring("GRU: a hook made 8 rows of 9 rows of packed data"));
}
