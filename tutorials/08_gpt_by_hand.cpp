// A GPT's parts by hand: byte pairs, layer norm, attention, and the whole model made of them
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "support/options/device.h"
#include "support/options/program.h"
#include "support/pictures/attention.h"
#include "support/pictures/block.h"

#include <hero/nn/data/bpe.h>
#include <hero/nn/nn.h>

namespace nn = hero::nn;
using hero::Tensor;
using Values = std::vector<double>;
using Words = std::vector<std::string>;

namespace {

const char* const kText =
    "she sells sea shells by the sea shore the shells she sells are sea shells";
const std::string kBlank = "␣";  // begins a word, as GPT-2 has it

double largest_difference(const Tensor& a, const Tensor& b) { return amax(abs(a - b)).item(); }

// [snippet: merges]
// Joins the two neighbours in a word that occur together most often, and so on, `times` times.
Words join_byte_pairs(Words pieces, int times) {
  for (int i = 0; i < times; ++i) {
    std::map<std::pair<std::string, std::string>, int> counts;  // in the order of the alphabet
    for (size_t at = 1; at < pieces.size(); ++at) {
      const bool word_begins = pieces[at].starts_with(kBlank);
      if (!word_begins) ++counts[{pieces[at - 1], pieces[at]}];
    }
    const auto [pair, count] = *std::max_element(  // of equal counts the first
        counts.begin(), counts.end(), [](auto& a, auto& b) { return a.second < b.second; });
    for (size_t at = 1; at < pieces.size(); ++at) {
      if (pieces[at - 1] != pair.first || pieces[at] != pair.second) continue;
      pieces[at - 1] += pieces[at];
      pieces.erase(pieces.begin() + static_cast<std::ptrdiff_t>(at));
    }
    std::printf("%3d times %s + %s, %zu tokens\n", count, pair.first.c_str(), pair.second.c_str(),
                pieces.size());
  }
  return pieces;
}
// [end]

std::string with_blanks(std::string text) {
  for (size_t at = 0; (at = text.find(' ', at)) != std::string::npos;) text.replace(at, 1, kBlank);
  return text;
}

void byte_pairs() {
  constexpr int kMerges = 8;
  std::printf("# byte pairs of: %s\n", kText);
  Words bytes;
  for (const char* c = kText; *c != '\0'; ++c) bytes.push_back(with_blanks(std::string(1, *c)));
  const Words ours = join_byte_pairs(bytes, kMerges);
  const auto library = nn::data::BPETokenizer::train(kText, {.vocab_size = 256 + kMerges});
  Words theirs;
  for (const int64_t token : library.encode(kText)) {
    theirs.push_back(with_blanks(library.bytes(token)));
  }
  hero::check(ours == theirs, "byte pairs: the library's tokens are others");
  std::string all;
  for (const std::string& piece : ours) all += (all.empty() ? "" : " ") + piece;
  std::printf("%s\nthe library's tokenizer: the same tokens\n", all.c_str());
}

// [snippet: layer norm]
struct Statistics {
  double mean = 0.0, variance = 0.0;
};
Statistics statistics(const Values& row) {
  const auto n = static_cast<double>(row.size());
  Statistics s;
  for (const double x : row) s.mean += x / n;
  for (const double x : row) s.variance += (x - s.mean) * (x - s.mean) / n;
  return s;
}
Values layer_norm_by_hand(const Values& row, const Values& weight, const Values& bias) {
  const auto [mean, variance] = statistics(row);
  Values y;
  for (size_t i = 0; i < row.size(); ++i) {
    y.push_back((row[i] - mean) / std::sqrt(variance + 1e-5) * weight[i] + bias[i]);
  }
  return y;
}
// [end]

hero::TensorOptions in_float64() { return {.dtype = hero::kFloat64, .device = tutorial::device()}; }

void layer_norm() {
  std::printf("\n# layer norm, weight 1 and bias 0\n");
  std::printf("%-22s %6s %9s    %s\n", "row", "mean", "variance", "its norm");
  const std::vector<Values> rows = {{1, 2, 3, 6}, {10, 20, 30, 60}, {5, 5, 5, 6}, {-1, 0, 0, 0}};
  double apart = 0.0;
  for (const Values& row : rows) {
    const Statistics s = statistics(row);
    const Values y = layer_norm_by_hand(row, Values(4, 1.0), Values(4, 0.0));
    std::printf("%4g %4g %4g %4g    %6.2f %9.4f   ", row[0], row[1], row[2], row[3], s.mean,
                s.variance);
    for (const double value : y) std::printf(" %7.4f", value);
    std::printf("\n");
    const Tensor x = hero::tensor(row, in_float64());
    apart = std::max(apart, largest_difference(layer_norm(x, {4}), hero::tensor(y, in_float64())));
  }
  hero::check(apart <= 1e-15, "layer norm: off by ", apart);
  std::printf("the library's layer_norm: within 1e-15\n");
}

// [snippet: attention]
struct Attended {
  Tensor scores, weights, result;
};
// Of one head, with q, k and v [T, d].
Attended attention_by_hand(const Tensor& q, const Tensor& k, const Tensor& v) {
  const double root = std::sqrt(static_cast<double>(q.size(1)));
  Tensor scores = matmul(q, k.t()) / root;                  // [T, T], a row for each query
  scores = scores + triu(full_like(scores, -INFINITY), 1);  // M
  const Tensor powers = exp(scores - amax(scores, {1}, true));
  const Tensor weights = powers / sum(powers, {1}, true);
  return {scores, weights, matmul(weights, v)};
}
// [end]

void attention(const std::string& folder) {
  const Words words = {"to", "be", "or", "not", "to", "be"};
  std::printf("\n# attention of a head that looks for its own word: weights in %%\n");
  // [snippet: own word]
  const Tensor word = hero::tensor({0, 1, 2, 3, 0, 1}, {.device = tutorial::device()});
  const Tensor e = one_hot(word, 4).to(hero::kFloat64);  // each word its own direction
  const Attended head = attention_by_hand(8 * e, e, e);
  // [end]
  const Values weights = head.weights.to_vector<double>();
  for (size_t query = 0; query < words.size(); ++query) {
    std::printf("%d %-4s", static_cast<int>(query), words[query].c_str());
    for (size_t key = 0; key <= query; ++key) {
      std::printf(" %5.1f", 100.0 * weights[query * words.size() + key]);
    }
    std::printf("\n");
  }
  const Tensor library = scaled_dot_product_attention(8 * e, e, e, {.is_causal = true});
  const double apart = largest_difference(library, head.result);
  hero::check(apart <= 1e-15, "attention: off by ", apart);
  std::printf("the library's scaled_dot_product_attention: within 1e-15\n");
  tutorial::draw_attention("A head that looks for its own word", words, head.scores, head.weights,
                           folder, "08_attention");
}

// The model's parameters by their names, and the two layers that have some.
struct Parameters {
  std::map<std::string, Tensor> named;
  explicit Parameters(const nn::GPT& model) {
    for (const auto& [name, value] : model.named_parameters()) named[name] = value;
  }
  Tensor layer(const std::string& name, const Tensor& x) const {
    return matmul(x, named.at(name + ".weight").t()) + named.at(name + ".bias");
  }
  Tensor norm(const std::string& name, const Tensor& x) const {
    const auto weight = named.at(name + ".weight").to_vector<double>();
    const auto bias = named.at(name + ".bias").to_vector<double>();
    std::vector<Tensor> rows;
    for (int64_t t = 0; t < x.size(0); ++t) {
      const Values row = layer_norm_by_hand(x[t].to_vector<double>(), weight, bias);
      rows.push_back(hero::tensor(row, in_float64()));
    }
    return stack(rows, 0);
  }
};

// [snippet: model]
// T tokens -> logits [T, vocabulary]
Tensor gpt_by_hand(const Parameters& p, const nn::GPTConfig& config, const Tensor& tokens) {
  const int64_t T = tokens.size(0), C = config.n_embd, d = C / config.n_head;
  const Tensor table = p.named.at("transformer.wte.weight");
  const Tensor positions = p.named.at("transformer.wpe.weight");
  Tensor x = table.index_select(0, tokens) + positions.slice(0, 0, T);
  for (int64_t i = 0; i < config.n_layer; ++i) {
    const std::string block = "transformer.h." + std::to_string(i);
    const Tensor y = p.norm(block + ".ln_1", x);
    const Tensor qkv = p.layer(block + ".attn.c_attn", y);  // [T, 3 C]
    std::vector<Tensor> heads;
    for (int64_t at = 0; at < C; at += d) {
      const auto part = [&](int64_t which) { return qkv.narrow(1, which * C + at, d); };
      heads.push_back(attention_by_hand(part(0), part(1), part(2)).result);
    }
    x = x + p.layer(block + ".attn.c_proj", cat(heads, 1));
    const Tensor z = p.norm(block + ".ln_2", x);
    const Tensor wide = gelu(p.layer(block + ".mlp.c_fc", z));  // [T, 4 C]
    x = x + p.layer(block + ".mlp.c_proj", wide);
  }
  return matmul(p.norm("transformer.ln_f", x), table.t());
}
// [end]

void whole_model(const std::string& folder) {
  hero::manual_seed(1);
  nn::GPT model({.vocab_size = 264, .block_size = 64, .n_layer = 4, .n_head = 4, .n_embd = 128});
  tutorial::draw_block(model, 12, folder);
  model.to(hero::kFloat64);
  const auto tokenizer = nn::data::BPETokenizer::train(kText, {.vocab_size = 264});
  const Tensor tokens = hero::tensor(tokenizer.encode(kText), {.device = tutorial::device()});
  const hero::NoGrad no_grad;
  const Tensor ours = gpt_by_hand(Parameters(model), model.config(), tokens);
  const double apart = largest_difference(model(tokens.unsqueeze(0))[0], ours);
  hero::check(apart <= 1e-14, "the GPT by hand: off by ", apart);
  std::printf("\n# a GPT of 4 blocks, width 128, 4 heads, untrained\n");
  std::printf("tokens [%lld] -> logits [%lld, %lld]\n", static_cast<long long>(tokens.size(0)),
              static_cast<long long>(ours.size(0)), static_cast<long long>(ours.size(1)));
  std::printf("the library's nn::GPT: within 1e-14\n");
}

}  // namespace

int main(int argc, char** argv) {
  const tutorial::Program program{.title = "The parts of a GPT by hand, and by the library.",
                                  .descends = false};
  return tutorial::run(argc, argv, program, [](const tutorial::Options& options) {
    byte_pairs();
    layer_norm();
    attention(options.out);
    whole_model(options.out);
  });
}
