// Drawing text: as transformers does, with and without a cache, rows of different lengths, stops.
#include <cmath>
#include <map>

#include "nn/pretrained.h"
#include "support/arrays.h"
#include "support/catch.h"

#include <hero/autograd/ops/creation/creation.h>
#include <hero/autograd/ops/random/random.h>
#include <hero/nn/gpt.h>
#include <hero/nn/llama.h>

using namespace hero;
using Catch::Matchers::ContainsSubstring;
using test::Pretrained;

namespace {

template <class Model>
void check_greedy(const Pretrained& golden, Model& model) {
  const std::vector<Tensor> prompts = golden.prompts();
  for (const bool penalised : {false, true}) {
    nn::GenerateOptions options{.max_new_tokens = 12, .temperature = 0.0};
    if (penalised) options.repetition_penalty = 1.3;
    const std::vector<Tensor> texts = model.generate(prompts, options);
    for (size_t b = 0; b < prompts.size(); ++b) {
      INFO("prompt " << b << (penalised ? ", penalised" : ""));
      const std::string name = (penalised ? "penalised." : "greedy.") + std::to_string(b);
      CHECK(equal(texts[b], golden.at(name)));
      CHECK(equal(model.generate(prompts[b], options), golden.at(name)));
    }
  }
}

// A model whose logits are those of a table: of the token before alone.
class TableModel : public nn::Decoder {
 public:
  explicit TableModel(const Tensor& table) : table_(table) {}
  int64_t context_length() const override { return 8; }
  Tensor next_logits(const Tensor& tokens, nn::KeyValueCache& cache) override {
    ++calls;
    most = std::max(most, tokens.size(1));
    return cache.last(table_.index_select(0, flatten(tokens))
                          .reshape({tokens.size(0), tokens.size(1), table_.size(1)}));
  }
  int calls = 0;
  int64_t most = 0;

 private:
  Tensor table_;
};

// After token t comes t + 1, of n.
Tensor counting(int64_t n) {
  return 10.0 * one_hot(remainder(arange(Scalar(n)) + 1, n), n).to(kFloat32);
}

// [snippet: decoder]
struct OneLayer : nn::Module, nn::Decoder {
  nn::Embedding& embed = add<nn::Embedding>("embed", 11, 8);
  nn::Linear& qkv = add<nn::Linear>("qkv", 8, 24);
  nn::RotaryEmbedding& rotary = add<nn::RotaryEmbedding>("rotary", 8);
  nn::Linear& head = add<nn::Linear>("head", 8, 11);

  // In training there is no cache, and the tokens [B, T] are whole sequences.
  Tensor features(const Tensor& tokens, nn::KeyValueCache* cache) {
    const auto parts = split(unsqueeze(qkv(embed(tokens)), 1), {8, 8, 8}, -1);  // [B, 1, T, 8]
    const auto turn = [&](const Tensor& x) {
      return cache ? rotary(x, cache->first()) : rotary(x);
    };
    const Tensor q = turn(parts[0]), k = turn(parts[1]);
    const Tensor y = cache ? cache->attend(0, q, k, parts[2])  // to all that layer 0 has read
                           : scaled_dot_product_attention(q, k, parts[2], {.is_causal = true});
    return y.squeeze(1);  // [B, T, 8]
  }
  Tensor forward(const Tensor& tokens) override { return head(features(tokens, nullptr)); }

  int64_t context_length() const override { return 32; }
  Tensor next_logits(const Tensor& tokens, nn::KeyValueCache& cache) override {
    return head(cache.last(features(tokens, &cache)));
  }
};
// [end]

}  // namespace

TEST_CASE("a model of one's own draws text, each row as if it were alone") {
  manual_seed(1);
  OneLayer model;
  const nn::GenerateOptions options{.max_new_tokens = 6, .temperature = 0.0};
  const std::vector<Tensor> prompts = {tensor({1, 2, 3}), tensor({4}), tensor({5, 6})};
  const auto texts = model.generate(prompts, options);
  for (size_t b = 0; b < 3; ++b) CHECK(equal(texts[b], model.generate(prompts[b], options)));
  CHECK(texts[1].shape() == Shape{7});
  const NoGrad no_grad;  // and as forward() computes the whole text, without a cache
  const Tensor likeliest = argmax(model(texts[0].unsqueeze(0)), -1)[0];
  CHECK(equal(likeliest.slice(0, 2, -1), texts[0].slice(0, 3)));
}

TEST_CASE("the likeliest tokens are those of transformers, also of prompts of different lengths") {
  for (const char* name : {"gpt2", "gpt2_bare"}) {
    INFO(name);
    nn::GPT gpt = nn::GPT::from_pretrained(Pretrained(name).folder);
    check_greedy(Pretrained(name), gpt);
  }
  for (const char* name : {"llama", "llama3", "llama_linear", "llama_yarn", "llama_dynamic",
                           "qwen2", "qwen2_yarn", "mistral"}) {
    INFO(name);
    nn::Llama llama = nn::Llama::from_pretrained(Pretrained(name).folder);
    check_greedy(Pretrained(name), llama);
  }
}

TEST_CASE("a Llama's tokens are those of the whole context run anew each time") {
  const Pretrained golden("llama");
  nn::Llama llama = nn::Llama::from_pretrained(golden.folder);
  const Tensor start = golden.at("tokens").slice(1, 0, 3);
  const Tensor got = llama.generate(start, {.max_new_tokens = 60, .temperature = 0.0});
  const NoGrad no_grad;
  Tensor all = start;
  for (int i = 0; i < 60; ++i) {  // beyond the 48 positions that it has
    const Tensor window = all.slice(1, std::max<int64_t>(0, all.size(1) - 48));
    all = cat({all, argmax(llama(window).select(1, -1), -1, true)}, 1);
  }
  CHECK(equal(got, all));
}

TEST_CASE("a batch of prompts of different lengths gives each its logits to the bit") {
  const Pretrained golden("llama");
  nn::Llama llama = nn::Llama::from_pretrained(golden.folder);
  const std::vector<Tensor> prompts = golden.prompts();
  // the logits of each step, of row b
  using Steps = std::vector<Array>;
  const auto scores_of = [&](const std::vector<Tensor>& list) {
    std::vector<Steps> rows(list.size());
    nn::generate(
        list, llama.context_length(), {.max_new_tokens = 6},
        [&](const Tensor& tokens, nn::KeyValueCache& cache, const nn::TokenRows&, Generator&) {
          const Tensor logits = llama.next_logits(tokens, cache);
          for (size_t b = 0; b < rows.size(); ++b) {
            rows[b].push_back(logits[static_cast<int64_t>(b)].array().clone());
          }
          return argmax(logits, -1, true);
        });
    return rows;
  };
  const std::vector<Steps> together = scores_of(prompts);
  for (size_t b = 0; b < prompts.size(); ++b) {
    const Steps alone = scores_of({prompts[b]})[0];
    for (size_t i = 0; i < alone.size(); ++i) CHECK(test::same(together[b][i], alone[i]));
  }
}

TEST_CASE("several new tokens may follow what a cache holds") {
  const Pretrained golden("qwen2");
  nn::Llama llama = nn::Llama::from_pretrained(golden.folder);
  const Tensor tokens = golden.at("tokens");
  nn::KeyValueCache cache(20);
  const NoGrad no_grad;
  Tensor logits;
  for (const auto& [begin, end] : {std::pair<int64_t, int64_t>(0, 7), {7, 8}, {8, 20}}) {
    cache.begin(end - begin, {end - begin, end - begin});
    logits = llama.next_logits(tokens.slice(1, begin, end), cache);
    cache.end();
  }
  // 1e-5: a softmax over fewer keys at once adds in another order
  CHECK(allclose(logits, llama(tokens).select(1, -1), 1e-5, 1e-5));
  CHECK_THROWS_WITH(cache.begin(1, {1, 1}),
                    ContainsSubstring("1 tokens follow 20, and there is room for 20"));
}

TEST_CASE("a row ends with its stop token, and the text with the last row") {
  TableModel model(counting(10));
  const Tensor start = tensor({{1}, {6}});
  const nn::GenerateOptions greedy{.max_new_tokens = 5, .temperature = 0.0, .stop_tokens = {4, 8}};
  CHECK(equal(model.generate(start, greedy), tensor({{1, 2, 3, 4}, {6, 7, 8, 8}})));
  CHECK(model.calls == 3);
  nn::GenerateOptions padded = greedy;
  padded.pad_token = -1;
  CHECK(equal(model.generate(start, padded), tensor({{1, 2, 3, 4}, {6, 7, 8, -1}})));
  const auto texts = model.generate({tensor({5, 1}), tensor({6}), tensor({9, 9, 9, 9})}, greedy);
  REQUIRE(texts.size() == 3);
  CHECK(equal(texts[0], tensor({5, 1, 2, 3, 4})));
  CHECK(equal(texts[1], tensor({6, 7, 8})));
  CHECK(equal(texts[2], tensor({9, 9, 9, 9, 0, 1, 2, 3, 4})));
  CHECK(equal(model.generate(tensor({1}), {.max_new_tokens = 12, .temperature = 0.0}),
              tensor({1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1, 2, 3})));
  CHECK(model.most == 8);  // the context, once the text has outgrown it
}

TEST_CASE("top_p draws from the fewest tokens that have that probability together") {
  const std::vector<double> odds = {0.1, 0.4, 0.05, 0.3, 0.15};
  const Tensor logits = log(tensor(odds, {.dtype = kFloat64})).unsqueeze(0).expand({4000, 5});
  const auto drawn = [&](const nn::GenerateOptions& options) {
    std::map<int64_t, int> counts;
    Generator generator(5);
    const Tensor tokens = nn::next_tokens(logits, nn::TokenRows(4000, {0}), options, generator);
    for (const int64_t token : tokens.to_vector<int64_t>()) ++counts[token];
    return counts;
  };
  const auto tokens_of = [](const std::map<int64_t, int>& counts) {
    std::vector<int64_t> tokens;
    for (const auto& [token, count] : counts) tokens.push_back(token);
    return tokens;
  };
  CHECK(tokens_of(drawn({.top_p = 0.39})) == std::vector<int64_t>{1});
  CHECK(tokens_of(drawn({.top_p = 0.69})) == std::vector<int64_t>{1, 3});
  CHECK(tokens_of(drawn({.top_p = 0.71})) == std::vector<int64_t>{1, 3, 4});
  CHECK(tokens_of(drawn({.top_p = 1.0})).size() == 5);
  // of the three likeliest, 0.85 together, 0.8 / 0.85 is reached by all three, 0.5 by two
  CHECK(tokens_of(drawn({.top_k = 3, .top_p = 0.8})) == std::vector<int64_t>{1, 3});
  const auto counts = drawn({.top_p = 0.69});
  // 4000 draws: 4 deviations of a share of 4/7
  const double share = counts.at(1) / 4000.0;
  CHECK(std::fabs(share - 4.0 / 7.0) < 4.0 * std::sqrt(4.0 / 7.0 * 3.0 / 7.0 / 4000.0));
}

TEST_CASE("a seed draws the same text again, and options that make no sense are refused") {
  nn::Llama llama = nn::Llama::from_pretrained(Pretrained("llama").folder);
  const Tensor start = Pretrained("llama").at("tokens").slice(1, 0, 4);
  const nn::GenerateOptions options{
      .max_new_tokens = 8, .temperature = 2.0, .top_k = 20, .top_p = 0.95, .seed = 3};
  nn::GenerateOptions other = options;
  other.seed = 4;
  CHECK(equal(llama.generate(start, options), llama.generate(start, options)));
  CHECK(!equal(llama.generate(start, options), llama.generate(start, other)));
  CHECK_THROWS_WITH(llama.generate(start, {.top_p = 0.0}), ContainsSubstring("top_p"));
  CHECK_THROWS_WITH(llama.generate(start, {.repetition_penalty = 0.0}),
                    ContainsSubstring("repetition_penalty"));
  CHECK_THROWS_WITH(llama.generate(std::vector<Tensor>{start}),
                    ContainsSubstring("each of several prompts"));
  CHECK_THROWS_WITH(llama.generate(start.to(kFloat32)), ContainsSubstring("whole numbers"));
  const int64_t vocabulary = llama.config().vocab_size;
  for (const int64_t stop : {vocabulary, int64_t{-1}}) {
    CHECK_THROWS_WITH(
        llama.generate(start, {.stop_tokens = {0, stop}}),
        ContainsSubstring("the stop token " + std::to_string(stop) + " is none of the " +
                          std::to_string(vocabulary) + " tokens of the model"));
  }
  CHECK_NOTHROW(llama.generate(start, {.max_new_tokens = 1, .stop_tokens = {0, vocabulary - 1}}));
}

TEST_CASE("no token is drawn from logits of NaN, from -inf alone or from inf") {
  constexpr float kNan = NAN, kInf = INFINITY;
  Generator generator(1);
  const nn::TokenRows rows{{0}, {1}};
  const auto next = [&](const std::vector<float>& second, const nn::GenerateOptions& options) {
    std::vector<float> both{1.0f, 2.0f, 0.0f};
    both.insert(both.end(), second.begin(), second.end());
    return nn::next_tokens(tensor(both).reshape({2, 3}), rows, options, generator);
  };
  for (const nn::GenerateOptions& options : std::vector<nn::GenerateOptions>{
           {}, {.temperature = 0.0}, {.top_k = 2}, {.top_p = 0.5}, {.repetition_penalty = 1.5}}) {
    CHECK_THROWS_WITH(next({0.0f, kNan, 1.0f}, options),
                      ContainsSubstring("next_tokens: a logit of row 1 is NaN"));
    CHECK_THROWS_WITH(next({-kInf, -kInf, -kInf}, options),
                      ContainsSubstring("next_tokens: all logits of row 1 are -inf"));
    if (options.temperature > 0.0) {
      CHECK_THROWS_WITH(next({0.0f, kInf, 1.0f}, options),
                        ContainsSubstring("next_tokens: a logit of row 1 over the temperature"));
    } else {
      CHECK(next({0.0f, kInf, 1.0f}, options).to_vector<int64_t>() == std::vector<int64_t>{1, 1});
    }
    // -inf forbids a token.
    CHECK(next({-kInf, -kInf, -1.0f}, options).to_vector<int64_t>()[1] == 2);
  }
}
