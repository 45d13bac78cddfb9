#include "support/pictures/attention.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "support/options/device.h"
#include "support/pictures/plot.h"

#include <hero/nn/nn.h>

namespace tutorial {

namespace nn = hero::nn;
using hero::Tensor;

namespace {

constexpr int64_t kTokens = 12;
constexpr double kGap = 2.4;  // between the two tables

// Queries, keys and values of a block [T, 3 C] for tokens [T], as its c_attn gives them.
Tensor projections(nn::GPT& model, const Tensor& tokens, int64_t block) {
  Tensor seen;
  nn::Module& layer =
      model.get_submodule("transformer.h." + std::to_string(block) + ".attn.c_attn");
  hero::HookHandle hook = layer.register_forward_hook(
      [&seen](nn::Module&, const auto&, const auto& outputs) { seen = outputs.front(); });
  const hero::NoGrad no_grad;
  const bool training = model.training();
  model.eval();
  model(tokens);
  model.train(training);
  hook.remove();
  return seen.reshape({tokens.numel(), -1});
}

// White for 0 and a full blue for 1.
std::string shade(double share) {
  const auto part = [&](int full) { return static_cast<int>(255 + share * (full - 255)); };
  char text[8];
  std::snprintf(text, sizeof text, "#%02x%02x%02x", part(0x56), part(0xb4), part(0xe9));
  return text;
}

// The text of a token, with what begins a word to be seen.
std::string shown(std::string token) {
  if (token.starts_with(' ')) token.replace(0, 1, "␣");
  return plain(token);
}

}  // namespace

void draw_attention(const std::string& title, const std::vector<std::string>& tokens,
                    const Tensor& scores, const Tensor& weights, const std::string& folder,
                    const std::string& name) {
  const auto count = static_cast<int64_t>(tokens.size());
  const auto left = scores.to(hero::kFloat64).to_vector<double>();
  const auto right = weights.to(hero::kFloat64).to_vector<double>();
  double low = INFINITY, high = -INFINITY;
  for (const double score : left) {
    high = std::max(high, score);
    if (std::isfinite(score)) low = std::min(low, score);
  }
  Figure figure(title + ": a row for each query, a column for each key", "", "");
  const auto n = static_cast<double>(count);
  const double second = -n - kGap;  // where the lower table begins
  for (int64_t query = 0; query < count; ++query) {
    const double y = -static_cast<double>(query);
    for (int64_t key = 0; key < count; ++key) {
      const auto at = static_cast<size_t>(query * count + key);
      const double x = static_cast<double>(key) + 0.03;
      const bool seen = key <= query;
      char score[16] = "-∞", weight[16] = "";
      if (seen) {
        std::snprintf(score, sizeof score, "%.1f", left[at]);
        std::snprintf(weight, sizeof weight, "%.0f", 100.0 * right[at]);
      }
      figure.box(x, y - 0.97, 0.94, 0.94,
                 seen ? shade(0.8 * (left[at] - low) / (high - low)) : "#e6e6e6", score);
      figure.box(x, second + y - 0.97, 0.94, 0.94, seen ? shade(right[at]) : "#e6e6e6", weight);
    }
    const std::string number = std::to_string(query);
    for (const double top : {0.0, second}) {
      figure.label(number + " " + shown(tokens[static_cast<size_t>(query)]), -0.15, top + y - 0.5,
                   "#111111", Align::right);
      figure.label(number, static_cast<double>(query) + 0.5, top + 0.45, "#555555");
    }
  }
  figure.label("scores, after the mask", n / 2, 1.35, "#111111");
  figure.label("weights in %, a row adds up to 100", n / 2, second + 1.35, "#111111");
  figure.x_range(-2.3 * n / 12, n + 0.05)
      .y_range(second - n - 0.1, 1.8)
      .height(static_cast<int>(std::lround(1000 * (2 * n + 4.3) / 28.3)))
      .bare();
  figure.save(folder, name);
}

void draw_head(nn::GPT& model, const nn::data::Tokenizer& tokenizer, const std::string& text,
               HeadOf which, const std::string& folder) {
  const nn::GPTConfig& config = model.config();
  std::vector<int64_t> tokens = tokenizer.encode(text);
  tokens.resize(static_cast<size_t>(
      std::min({kTokens, config.block_size, static_cast<int64_t>(tokens.size())})));
  const int64_t block = std::min(which.block, config.n_layer - 1), width = config.n_embd,
                d = width / config.n_head;
  const Tensor qkv = projections(model, hero::tensor(tokens, {.device = device()}), block);
  const Tensor q = qkv.narrow(1, which.head * d, d), k = qkv.narrow(1, width + which.head * d, d);
  const Tensor scores = matmul(q, k.t()) / std::sqrt(static_cast<double>(d));
  const Tensor after = triu(ones_like(scores), 1).to(hero::kBool);  // keys behind their query
  const Tensor masked = scores.masked_fill(after, -INFINITY);
  std::vector<std::string> names;
  for (const int64_t& token : tokens) names.push_back(tokenizer.decode(std::span(&token, 1)));
  draw_attention("Head " + std::to_string(which.head) + " of block " + std::to_string(block), names,
                 masked, softmax(masked, 1), folder, "08a_gpt_attention");
}

}  // namespace tutorial
