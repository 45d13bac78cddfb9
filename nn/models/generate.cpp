// Drawing text from a model, one token after another.
#include <algorithm>
#include <cmath>
#include <limits>

#include <hero/autograd/ops.h>
#include <hero/nn/generate.h>
#include <hero/nn/module.h>

namespace hero::nn {

namespace {

constexpr double kNever = -std::numeric_limits<double>::infinity();

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

// Logits [B, V] with those of each row's own tokens made less likely.
Tensor penalised(const Tensor& logits, const TokenRows& rows, double penalty) {
  size_t longest = 0;
  for (const auto& row : rows) longest = std::max(longest, row.size());
  std::vector<int64_t> seen;
  for (const auto& row : rows) {
    seen.insert(seen.end(), row.begin(), row.end());
    seen.insert(seen.end(), longest - row.size(), row.front());  // twice is as good as once
  }
  const Tensor index = tensor(seen).reshape({logits.size(0), -1}).to(logits.device());
  const Tensor found = gather(logits, 1, index);
  return scatter(logits, 1, index, where(found < 0, found * penalty, found / penalty));
}

// x [B, V] without the tokens behind the likeliest whose probabilities add up to p.
Tensor nucleus(const Tensor& x, double p) {
  const auto [sorted, order] = sort(softmax(x, -1), -1, true);
  const Tensor before = cumsum(sorted, -1) - sorted;
  const Tensor least =
      amin(where(before < p, sorted, std::numeric_limits<double>::infinity()), {-1}, true);
  return where(softmax(x, -1) < least, kNever, x);
}

// Nothing can be drawn from a row that holds NaN, or of which no token can come.
void check_logits(const Tensor& logits, bool draws) {
  const Tensor largest = amax(logits, {-1});  // NaN where a row holds one
  const std::vector<double> values = to(largest, kFloat64).to_vector<double>();
  for (size_t b = 0; b < values.size(); ++b) {
    check(!std::isnan(values[b]), "next_tokens: a logit of row ", b,
          " is NaN; look for the first value in the model that is not finite");
    check(values[b] > kNever, "next_tokens: all logits of row ", b,
          " are -inf; leave at least one token possible");
    check(!draws || std::isfinite(values[b]), "next_tokens: a logit of row ", b,
          " over the temperature is inf; bound the logits, or take the likeliest by temperature 0");
  }
}

// A text would never end with what is no token.
void check_stop_tokens(const GenerateOptions& options, int64_t vocabulary) {
  for (const int64_t token : options.stop_tokens) {
    check(token >= 0 && token < vocabulary, "next_tokens: the stop token ", token,
          " is none of the ", vocabulary,
          " tokens of the model, so that no text would end with it; look at eos_token_id of its "
          "config.json, or give other stop_tokens");
  }
}

void check_generate_options(const GenerateOptions& options) {
  check(options.max_new_tokens >= 0, "generate: max_new_tokens is ", options.max_new_tokens);
  check(options.temperature >= 0.0 && std::isfinite(options.temperature),
        "generate: temperature must be at least 0: got ", options.temperature);
  check(!options.top_k || *options.top_k > 0, "generate: top_k must be positive: got ",
        options.top_k.value_or(0));
  check(!options.top_p || (*options.top_p > 0.0 && *options.top_p <= 1.0),
        "generate: top_p must be in (0, 1]: got ", options.top_p.value_or(0.0));
  check(options.repetition_penalty > 0.0 && std::isfinite(options.repetition_penalty),
        "generate: repetition_penalty must be positive: got ", options.repetition_penalty);
}

// The rows while they grow.
struct Growing {
  TokenRows rows;
  std::vector<bool> ended;
  std::vector<size_t> sizes;  // of each row without what fills it

  // New tokens [B, T] for a cache that has the rest: the newest of each row, or, where there is
  // nothing yet or a row has outgrown the context, all of each row's context. Positions move then,
  // and with them every key.
  Tensor fresh(KeyValueCache& cache, int64_t context, bool anew, Device device) const {
    const auto length = [&](const auto& row) {
      return anew ? std::min(static_cast<int64_t>(row.size()), context) : 1;
    };
    int64_t T = 0;
    for (const auto& row : rows) T = std::max(T, length(row));
    std::vector<int64_t> tokens, counts;
    for (const auto& row : rows) {
      const int64_t count = length(row);
      tokens.insert(tokens.end(), row.end() - count, row.end());
      tokens.insert(tokens.end(), static_cast<size_t>(T - count), row.back());
      counts.push_back(count);
    }
    if (anew) cache.clear();
    cache.begin(T, std::move(counts));
    return tensor(tokens).reshape({-1, T}).to(device);
  }

  // A row that has ended goes on with its last token, so that all have one to read.
  void append(const std::vector<int64_t>& next, const std::vector<int64_t>& stops) {
    for (size_t b = 0; b < rows.size(); ++b) {
      rows[b].push_back(ended[b] ? rows[b].back() : next[b]);
      if (ended[b]) continue;
      ++sizes[b];
      ended[b] = std::find(stops.begin(), stops.end(), next[b]) != stops.end();
    }
  }
};

// A step of the model for the sake of other ranks: nothing of it is kept.
void take_part(const NextTokens& next, Device device) {
  KeyValueCache cache(1);
  cache.begin(1, {1});
  Generator unused;
  (void)next(tensor(std::vector<int64_t>{0}).reshape({1, 1}).to(device), cache, {{0}}, unused);
}

Growing grow(TokenRows rows, int64_t context, const GenerateOptions& options,
             const NextTokens& next, Device device) {
  check_generate_options(options);
  const NoGrad no_grad;
  const EvalScope eval;
  Generator seeded(options.seed.value_or(0));
  Generator& generator = options.seed ? seeded : default_generator();
  Growing text{std::move(rows), {}, {}};
  int64_t longest = 0;
  for (const auto& row : text.rows) {
    longest = std::max(longest, static_cast<int64_t>(row.size()));
    text.sizes.push_back(row.size());
  }
  text.ended.assign(text.rows.size(), false);
  KeyValueCache cache(std::max<int64_t>(std::min(context, longest + options.max_new_tokens), 1));
  for (int64_t i = 0;; ++i) {
    const bool unfinished =
        i < options.max_new_tokens &&
        std::find(text.ended.begin(), text.ended.end(), false) != text.ended.end();
    const bool any = options.any_unfinished ? options.any_unfinished(unfinished) : unfinished;
    check(any || !unfinished,
          "generate: any_unfinished() says that nobody goes on, and rows of this rank do");
    if (!any) break;
    if (!unfinished) {
      take_part(next, device);
      continue;
    }
    const Tensor fresh = text.fresh(cache, context, i == 0 || longest + i > context, device);
    const Tensor drawn = next(fresh, cache, text.rows, generator);
    cache.end();
    text.append(drawn.to_vector<int64_t>(), options.stop_tokens);
  }
  return text;
}

void check_prompt(const Tensor& tokens) {
  check(!is_floating(tokens.dtype()) && tokens.dtype() != kBool, "generate: tokens are ",
        tokens.dtype(), "; they are whole numbers");
  check(tokens.size(-1) > 0, "generate: there are no tokens to go on from: ", tokens.shape());
}

NextTokens drawing_from(Decoder& model, const GenerateOptions& options) {
  return
      [&](const Tensor& fresh, KeyValueCache& cache, const TokenRows& rows, Generator& generator) {
        return next_tokens(model.next_logits(fresh, cache), rows, options, generator);
      };
}

}  // namespace

Tensor next_tokens(const Tensor& logits, const TokenRows& rows, const GenerateOptions& options,
                   Generator& generator) {
  const NoGrad no_grad;
  check_stop_tokens(options, logits.size(-1));
  const double penalty = options.repetition_penalty;
  const Tensor weighed = penalty == 1.0 ? logits : penalised(to(logits, kFloat64), rows, penalty);
  if (options.temperature == 0.0) {
    check_logits(weighed, false);
    return argmax(weighed, -1, true);
  }
  Tensor x = to(weighed, kFloat64) / options.temperature;
  check_logits(x, true);
  if (options.top_k && *options.top_k < x.size(-1)) {
    const Tensor least = topk(x, *options.top_k).values.slice(-1, -1);
    x = where(x < least, kNever, x);
  }
  if (options.top_p && *options.top_p < 1.0) x = nucleus(x, *options.top_p);
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
  return tensor(drawn).reshape({B, 1}).to(logits.device());
}

Tensor generate(const Tensor& tokens, int64_t context_length, const GenerateOptions& options,
                const NextTokens& next) {
  check(tokens.ndim() == 1 || tokens.ndim() == 2, "generate: tokens must be [B, T] or [T]: got ",
        tokens.shape());
  check_prompt(tokens);
  const int64_t T = tokens.size(-1);
  const std::vector<int64_t> all = tokens.to_vector<int64_t>();
  TokenRows rows;
  for (auto at = all.begin(); at != all.end(); at += T) rows.emplace_back(at, at + T);
  if (rows.empty() && !options.any_unfinished) return tokens;
  Growing text = grow(std::move(rows), context_length, options, next, tokens.device());
  if (text.rows.empty()) return tokens;
  std::vector<int64_t> joined;
  for (size_t b = 0; b < text.rows.size(); ++b) {
    auto& row = text.rows[b];
    const auto end = row.begin() + static_cast<std::ptrdiff_t>(text.sizes[b]);
    if (options.pad_token) std::fill(end, row.end(), *options.pad_token);
    joined.insert(joined.end(), row.begin(), row.end());
  }
  const Tensor grown = tensor(joined).to(tokens.device());
  return tokens.ndim() == 1 ? grown : grown.reshape({tokens.size(0), -1});
}

std::vector<Tensor> generate(const std::vector<Tensor>& prompts, int64_t context_length,
                             const GenerateOptions& options, const NextTokens& next) {
  if (prompts.empty() && !options.any_unfinished) return {};
  TokenRows rows;
  for (const Tensor& prompt : prompts) {
    check(prompt.ndim() == 1, "generate: each of several prompts must be [T]: got ",
          prompt.shape());
    check_prompt(prompt);
    rows.push_back(prompt.to_vector<int64_t>());
  }
  const Device device = prompts.empty() ? kCpu : prompts.front().device();
  const Growing text = grow(std::move(rows), context_length, options, next, device);
  std::vector<Tensor> texts;
  for (size_t b = 0; b < text.rows.size(); ++b) {
    const auto begin = text.rows[b].begin();
    const auto size = static_cast<std::ptrdiff_t>(text.sizes[b]);
    texts.push_back(tensor(std::vector<int64_t>(begin, begin + size)).to(device));
  }
  return texts;
}

Tensor Decoder::generate(const Tensor& tokens, const GenerateOptions& options) {
  return nn::generate(tokens, context_length(), options, drawing_from(*this, options));
}

std::vector<Tensor> Decoder::generate(const std::vector<Tensor>& prompts,
                                      const GenerateOptions& options) {
  return nn::generate(prompts, context_length(), options, drawing_from(*this, options));
}

}  // namespace hero::nn
