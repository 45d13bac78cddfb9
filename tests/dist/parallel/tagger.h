#pragma once
// A model that Hero does not have, as a user writes one: a convolution over words, then attention
// in both directions, then tags. It is described in a few lines, and trained on any mesh.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "dist/parallel/pipelines.h"

#include <hero/dist/fsdp.h>
#include <hero/dist/mesh.h>
#include <hero/dist/tensor_parallel.h>
#include <hero/dist/zero.h>
#include <hero/nn/nn.h>

namespace hero::test {

// [snippet: layers]
constexpr int64_t kWords = 23, kTags = 7, kWidth = 16, kHeads = 4, kKeyHeads = 2, kHeadDim = 4;

// Each word attends to all others; two heads of queries share one of keys and values.
struct BothWays : nn::Module, nn::Parallelizable {
  nn::Linear& q = add<nn::Linear>("q", kWidth, kHeads* kHeadDim);
  nn::Linear& k = add<nn::Linear>("k", kWidth, kKeyHeads* kHeadDim);
  nn::Linear& v = add<nn::Linear>("v", kWidth, kKeyHeads* kHeadDim);
  nn::Linear& o = add<nn::Linear>("o", kHeads* kHeadDim, kWidth);

  Tensor forward(const Tensor& x) override {
    const auto heads = [](const Tensor& y) {  // as many as are here, [B, H, T, D]
      return transpose(y.reshape({y.size(0), y.size(1), y.size(2) / kHeadDim, kHeadDim}), 1, 2);
    };
    const Tensor y = shared_attention(heads(q(x)), heads(k(x)), heads(v(x)), {.enable_gqa = true});
    return o(transpose(y, 1, 2).reshape({y.size(0), y.size(2), y.size(1) * kHeadDim}));
  }
  nn::ParallelForm parallel_form() const override {
    return {.attention = {{.heads = kHeads,
                           .kv_heads = kKeyHeads,
                           .weights = {{"q", {nn::Heads::queries}},
                                       {"k", {nn::Heads::keys}},
                                       {"v", {nn::Heads::values}},
                                       {"o"}}}},
            .by_position = {"q", "k", "v", "o"},
            .shares_sequence = true};
  }
};

// A layer whose first weight packs gates and values.
struct Layer : nn::Module, nn::Parallelizable {
  nn::RMSNorm& norm1 = add<nn::RMSNorm>("norm1", kWidth);
  BothWays& attention = add<BothWays>("attention");
  nn::RMSNorm& norm2 = add<nn::RMSNorm>("norm2", kWidth);
  nn::Linear& up = add<nn::Linear>("up", kWidth, 2 * 24);
  nn::Linear& down = add<nn::Linear>("down", 24, kWidth);

  Tensor forward(const Tensor& x) override {
    const Tensor y = x + attention(norm1(x));
    const std::vector<Tensor> both = chunk(up(norm2(y)), 2, -1);
    return y + down(silu(both[0]) * both[1]);
  }
  nn::ParallelForm parallel_form() const override {
    return {.cuts = {{"up", nn::Cut::colwise, 2}, {"down", nn::Cut::rowwise}},
            .by_position = {"norm1", "norm2", "up", "down"}};
  }
};
// [end]

// [snippet: model]
// What a word is, with its neighbours.
struct Stem : nn::Module {
  nn::Embedding& words = add<nn::Embedding>("words", kWords, kWidth);
  nn::Conv1d& conv = add<nn::Conv1d>("conv", kWidth, kWidth, 3, {.padding = 1});
  Tensor forward(const Tensor& tokens) override {
    const Tensor x = words(tokens);
    return x + gelu(transpose(conv(transpose(x, 1, 2)), 1, 2));
  }
};

struct Tagger : nn::Module, nn::Stack {
  explicit Tagger(int64_t layers) {
    for (int64_t i = 0; i < layers; ++i) blocks.append();
  }
  Stem& stem = add<Stem>("stem");
  nn::ModuleListOf<Layer>& blocks = add<nn::ModuleListOf<Layer>>("blocks");
  nn::RMSNorm& norm = add<nn::RMSNorm>("norm", kWidth);
  nn::Linear& tags = add<nn::Linear>("tags", kWidth, kTags, {.bias = false});

  Tensor forward(const Tensor& tokens) override { return run_layers(0, layers(), tokens); }
  Tensor loss_of(const Tensor& logits, const Tensor& target) override {
    return cross_entropy(flatten(logits, 0, 1), flatten(target));
  }
  nn::ParallelForm parallel_form() const override {
    return {.cuts = {{"stem.words", nn::Cut::vocabulary}, {"tags", nn::Cut::vocabulary}},
            .stack = {{.embedding = {"stem"}, .blocks = "blocks", .norm = "norm", .head = "tags"}}};
  }
};
// [end]

inline std::unique_ptr<Tagger> made_tagger(Device device = kMeta, int64_t layers = 4) {
  manual_seed(3);
  const nn::DeviceScope scope(device);
  return std::make_unique<Tagger>(layers);
}

/// Words and tags [8, 8].
inline std::pair<Tensor, Tensor> tagger_batch(int step, int replica) {
  const auto ids = [&](uint64_t seed, int64_t count) {
    std::vector<int64_t> list;
    for (const float v : noise({64}, kFloat32, seed).to_vector<float>()) {
      list.push_back(static_cast<int64_t>((v + 2.0f) * 0.25f * static_cast<float>(count)));
    }
    return Tensor(Array::from(list, {8, 8}));
  };
  const auto seed = static_cast<uint64_t>(100 * step + 10 * replica);
  return {ids(seed + 1, kWords), ids(seed + 2, kTags)};
}

}  // namespace hero::test
