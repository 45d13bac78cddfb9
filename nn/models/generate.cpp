// Drawing text from a GPT, one token after another.
#include <algorithm>
#include <cmath>
#include <limits>

#include <hero/autograd/creation.h>
#include <hero/autograd/nn_ops.h>
#include <hero/nn/gpt.h>

namespace hero::nn {

namespace {

// The first index whose running sum of weights exceeds u times the whole, u in [0, 1).
int64_t draw(std::span<const double> weights, double u) {
  double total = 0.0;
  for (double weight : weights) total += weight;
  double rest = u * total;
  int64_t last = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    if (weights[i] == 0.0) continue;
    last = static_cast<int64_t>(i);
    if (rest < weights[i]) break;
    rest -= weights[i];
  }
  return last;  // rounding may leave a rest after the last one
}

}  // namespace

Tensor next_tokens(const Tensor& scores, const GenerateOptions& options, Generator& generator) {
  if (options.temperature == 0.0) return argmax(scores, -1, true);
  Tensor x = to(scores, kFloat64) / options.temperature;
  if (options.top_k && *options.top_k < x.size(-1)) {
    const Tensor least = topk(x, *options.top_k).values.slice(-1, -1);
    x = where(x < least, -std::numeric_limits<double>::infinity(), x);
  }
  const int64_t B = x.size(0), V = x.size(1);
  const std::vector<double> weights = softmax(x, -1).to_vector<double>();
  std::vector<double> u(static_cast<size_t>(B));
  fill_uniform(std::span<double>(u), generator.next(), 0);
  std::vector<int64_t> drawn;
  for (int64_t b = 0; b < B; ++b) {
    const std::span<const double> all(weights);
    drawn.push_back(draw(all.subspan(static_cast<size_t>(b * V), static_cast<size_t>(V)),
                         u[static_cast<size_t>(b)]));
  }
  return tensor(drawn).reshape({B, 1}).to(scores.device());
}

Tensor GPT::run_links_after(std::vector<KeyValues>& past, int64_t offset, size_t begin, size_t end,
                            const Tensor& x) {
  const size_t head = transformer.h.size() + 1;
  check(begin < end && end <= links() && past.size() + 1 == head, "GPT: links ", begin, " to ", end,
        " of ", links(), " after a past of ", past.size(), " blocks");
  Tensor y = begin == 0 ? embed(x, offset) : x;
  for (size_t i = std::max<size_t>(begin, 1); i < std::min(end, head); ++i) {
    y = transformer.h[i - 1](y, past[i - 1]);
  }
  return end > head ? lm_head(transformer.ln_f(y.select(1, -1))) : y;
}

Tensor generate(const Tensor& tokens, int64_t block_size, const GenerateOptions& options,
                const NextTokens& next) {
  check(tokens.ndim() == 1 || tokens.ndim() == 2, "generate: tokens must be [B, T] or [T]: got ",
        tokens.shape());
  check(tokens.size(-1) > 0, "generate: there are no tokens to go on from: ", tokens.shape());
  check(options.max_new_tokens >= 0, "generate: max_new_tokens is ", options.max_new_tokens);
  check(options.temperature >= 0.0 && std::isfinite(options.temperature),
        "generate: temperature must be at least 0: got ", options.temperature);
  check(!options.top_k || *options.top_k > 0, "generate: top_k must be positive: got ",
        options.top_k.value_or(0));
  const NoGrad no_grad;
  const EvalScope eval;
  Generator seeded(options.seed.value_or(0));
  Generator& generator = options.seed ? seeded : default_generator();
  Tensor all = tokens.ndim() == 1 ? unsqueeze(tokens, 0) : tokens;
  int64_t offset = 0;
  for (int64_t i = 0; i < options.max_new_tokens; ++i) {
    Tensor fresh = offset > 0 ? all.slice(1, -1) : all;
    if (all.size(1) > block_size) {
      // Every position moves by one, and with it every key: nothing can be kept.
      fresh = all.slice(1, -block_size);
      offset = 0;
    }
    all = cat({all, next(fresh, offset, generator)}, 1);
    offset += fresh.size(1);
  }
  return tokens.ndim() == 1 ? all.squeeze(0) : all;
}

Tensor GPT::generate(const Tensor& tokens, const GenerateOptions& options) {
  check(!sequence_,
        "generate: ranks share each sequence of this model (dist::context_parallel), and one token "
        "at a time is no sequence; load its state into a model of its own");
  std::vector<KeyValues> past;
  const auto next = [&](const Tensor& fresh, int64_t offset, Generator& generator) {
    if (offset == 0) past.assign(transformer.h.size(), {});
    const Tensor scores = run_hooked({fresh}, [&](const Tensors& in) -> Tensors {
      return {run_links_after(past, offset, 0, links(), in[0])};
    })[0];
    return next_tokens(scores, options, generator);
  };
  return nn::generate(tokens, config_.block_size, options, next);
}

}  // namespace hero::nn
