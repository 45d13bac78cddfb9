// Layers with the largest and smallest integers as sizes: a layer that works, or an Error at once.
#include <functional>
#include <limits>

#include "support/catch.h"

#include <hero/autograd/ops/creation/creation.h>
#include <hero/nn/nn.h>

namespace {

using namespace hero;

constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();

using Numbers = std::vector<int64_t>;

// A layer of integers, which are right as they stand here, on meta: sizes alone count.
struct Case {
  const char* name;
  Numbers numbers;
  std::function<Tensor(const Numbers& n)> run;
};

Tensor x(const Shape& shape) { return ones(shape, {.device = kMeta}); }

std::vector<Case> cases() {
  using N = const Numbers&;
  return {
      {"Linear",
       {3, 4},
       [](N n) {
         return nn::Linear(n[0], n[1])(x({2, 3}));
       }},
      {"Bilinear",
       {3, 4, 5},
       [](N n) {
         return nn::Bilinear(n[0], n[1], n[2])(x({2, 3}), x({2, 4}));
       }},
      {"Embedding",
       {5, 3, 1},
       [](N n) {
         return nn::Embedding(
             n[0], n[1], {.padding_idx = n[2]})(zeros({2}, {.dtype = kInt64, .device = kMeta}));
       }},
      {"Conv1d",
       {2, 4, 3, 1, 1, 1, 2},
       [](N n) {
         return nn::Conv1d(
             n[0], n[1], n[2],
             {.stride = n[3], .padding = n[4], .dilation = n[5], .groups = n[6]})(x({1, 2, 9}));
       }},
      {"Conv1d that keeps its length",
       {2, 4, 3, 1},
       [](N n) {
         return nn::Conv1d(n[0], n[1], n[2], {.padding = "same", .dilation = n[3]})(x({1, 2, 9}));
       }},
      {"Conv2d",
       {2, 4, 3, 1, 1, 1, 2},
       [](N n) {
         return nn::Conv2d(
             n[0], n[1], n[2],
             {.stride = n[3], .padding = n[4], .dilation = n[5], .groups = n[6]})(x({1, 2, 6, 5}));
       }},
      {"ConvTranspose1d",
       {2, 4, 3, 2, 1, 1, 2, 1},
       [](N n) {
         return nn::ConvTranspose1d(n[0], n[1], n[2],
                                    {.stride = n[3],
                                     .padding = n[4],
                                     .output_padding = n[5],
                                     .groups = n[6],
                                     .dilation = n[7]})(x({1, 2, 9}));
       }},
      {"MaxPool1d",
       {3, 2, 1, 1},
       [](N n) {
         return nn::MaxPool1d(n[0],
                              {.stride = n[1], .padding = n[2], .dilation = n[3]})(x({1, 2, 9}));
       }},
      {"AvgPool1d",
       {3, 2, 1},
       [](N n) {
         return nn::AvgPool1d(n[0], {.stride = n[1], .padding = n[2]})(x({1, 2, 9}));
       }},
      {"AdaptiveAvgPool2d",
       {2, 3},
       [](N n) {
         return nn::AdaptiveAvgPool2d(nn::Size2(n[0], n[1]))(x({1, 2, 6, 6}));
       }},
      {"AdaptiveMaxPool1d",
       {3},
       [](N n) {
         return nn::AdaptiveMaxPool1d(n[0])(x({1, 2, 9}));
       }},
      {"BatchNorm1d",
       {3},
       [](N n) {
         return nn::BatchNorm1d(n[0])(x({4, 3}));
       }},
      {"LayerNorm",
       {4, 3},
       [](N n) {
         return nn::LayerNorm(Shape{n[0], n[1]})(x({2, 4, 3}));
       }},
      {"RMSNorm",
       {3},
       [](N n) {
         return nn::RMSNorm(n[0])(x({2, 3}));
       }},
      {"GroupNorm",
       {2, 4},
       [](N n) {
         return nn::GroupNorm(n[0], n[1])(x({2, 4, 3}));
       }},
      {"MultiheadAttention",
       {8, 2, 1},
       [](N n) {
         const Tensor in = x({3, 1, 8});
         return nn::MultiheadAttention(n[0], n[1], {.num_kv_heads = n[2]})(in, in, in).output;
       }},
      {"RNN",
       {3, 4, 2},
       [](N n) {
         return nn::RNN(n[0], n[1], {.num_layers = n[2]})(x({5, 2, 3})).output;
       }},
      {"LSTM",
       {3, 4, 2},
       [](N n) {
         return nn::LSTM(n[0], n[1], {.num_layers = n[2]})(x({5, 2, 3})).output;
       }},
      {"GRUCell",
       {3, 4},
       [](N n) {
         return nn::GRUCell(n[0], n[1])(x({2, 3}));
       }},
      {"TransformerEncoderLayer",
       {8, 2, 16},
       [](N n) {
         return nn::TransformerEncoderLayer(n[0], n[1], {.dim_feedforward = n[2]})(x({1, 3, 8}));
       }},
      {"GPT",
       {11, 8, 2, 2, 8, 1},
       [](N n) {
         const nn::GPTConfig config{.vocab_size = n[0],
                                    .block_size = n[1],
                                    .n_layer = n[2],
                                    .n_head = n[3],
                                    .n_embd = n[4],
                                    .n_kv_head = n[5]};
         return nn::GPT(config)(zeros({1, 3}, {.dtype = kInt64, .device = kMeta}));
       }},
      {"Flatten",
       {1, -1},
       [](N n) {
         return nn::Flatten(n[0], n[1])(x({2, 3, 4}));
       }},
      {"Unflatten",
       {1, 2, 3},
       [](N n) {
         return nn::Unflatten(n[0], {n[1], n[2]})(x({2, 6}));
       }},
      {"ZeroPad2d",
       {1, 2, 1, 0},
       [](N n) {
         return nn::ZeroPad2d(n[0], n[1], n[2], n[3])(x({1, 2, 3, 4}));
       }},
      {"Upsample",
       {6, 8},
       [](N n) {
         return nn::Upsample({.size = {n[0], n[1]}})(x({1, 2, 3, 4}));
       }},
      {"Upsample by a factor",
       {2, 3},
       [](N n) {
         return nn::Upsample({.scale_factor = {double(n[0]), double(n[1])}})(x({1, 2, 3, 4}));
       }},
      {"rotary_embedding",
       {5},
       [](N n) {
         return nn::rotary_embedding(x({1, 3, 8}), n[0]);
       }},
      {"RotaryEmbedding",
       {8, 5},
       [](N n) {
         return nn::RotaryEmbedding(n[0])(x({1, 3, 8}), n[1]);
       }},
  };
}

TEST_CASE("layers take the largest numbers or refuse them", "[nn]") {
  const nn::DeviceScope on_meta(kMeta);
  Numbers extremes{kLeast, kLeast + 1, -(int64_t{1} << 62), -3, -1, 0, 1, 3, kMost - 1, kMost};
  for (int power : {61, 62}) {
    for (int64_t beside : {-1, 0, 1}) extremes.push_back((int64_t{1} << power) + beside);
  }
  for (const Case& one : cases()) {
    int results = 0, errors = 0;
    const auto attempt = [&](const Numbers& numbers) {
      try {
        const Tensor y = one.run(numbers);
        for (int64_t size : y.shape()) REQUIRE(size >= 0);
        REQUIRE(y.numel() == y.shape().numel());
        ++results;
      } catch (const Error&) {
        ++errors;
      } catch (const std::exception& error) {
        FAIL(one.name << " with " << to_string(Dims(numbers))
                      << ": not an Error: " << error.what());
      }
    };
    INFO(one.name);
    attempt(one.numbers);
    REQUIRE(results == 1);  // as it stands in the table
    for (size_t i = 0; i < one.numbers.size(); ++i) {
      for (int64_t number : extremes) {
        Numbers changed = one.numbers;
        changed[i] = number;
        attempt(changed);
      }
    }
    uint64_t state = 1;
    for (int round = 0; round < 100; ++round) {
      Numbers changed = one.numbers;
      for (int64_t& number : changed) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        if ((state >> 40) % 2 == 0) number = extremes[(state >> 45) % extremes.size()];
      }
      attempt(changed);
    }
    REQUIRE(errors > 0);
  }
}

}  // namespace
