// A module that does not do what its form says is found before it is trained.
#include <memory>
#include <string>
#include <vector>

#include "dist/parallel/tagger.h"
#include "support/catch.h"

#include <hero/dist/check_parallel_form.h>
#include <hero/dist/context_parallel.h>
#include <hero/nn/llama.h>

using namespace hero;
using namespace hero::test;
using Catch::Matchers::ContainsSubstring;

namespace {

constexpr int64_t kForm = 8, kFormHeads = 4, kFormHeadDim = 2, kFormWords = 11;

Tensor form_tokens() {
  std::vector<int64_t> ids;
  for (int64_t i = 0; i < 16; ++i) ids.push_back((3 * i + i * i) % kFormWords);
  return Tensor(Array::from(ids, {2, 8}));
}

Tensor form_rows() { return Tensor(noise({2, 8, kForm}, kFloat32, 4)); }

template <class M>
std::string mistake_of(const Tensor& input, const dist::CheckParallelFormOptions& options = {}) {
  const auto make = [] {
    manual_seed(6);
    return std::unique_ptr<nn::Module>(std::make_unique<M>());
  };
  try {
    dist::check_parallel_form(make, input, options);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

template <class M>
std::vector<std::string> ways_of(const M& make, const Tensor& input,
                                 const dist::CheckParallelFormOptions& options = {}) {
  std::vector<std::string> ways;
  for (const auto& [way, refused] : dist::check_parallel_form(make, input, options)) {
    ways.push_back(refused.empty() ? way : way + " refused");
  }
  return ways;
}

// Two layers that are cut, and what is between them.
struct FormPair : nn::Module, nn::Parallelizable {
  explicit FormPair(int64_t outputs) : up(add<nn::Linear>("up", kForm, outputs)) {}
  nn::Linear& up;
  nn::Linear& down = add<nn::Linear>("down", 12, kForm);
  nn::ParallelForm parallel_form() const override {
    return {.cuts = {{"up", nn::Cut::colwise}, {"down", nn::Cut::rowwise}}};
  }
};
struct PackedGates : FormPair {
  PackedGates() : FormPair(24) {}
  Tensor forward(const Tensor& x) override {
    const std::vector<Tensor> both = chunk(up(x), 2, -1);
    return down(silu(both[0]) * both[1]);
  }
};
struct HiddenSoftmax : FormPair {
  HiddenSoftmax() : FormPair(12) {}
  Tensor forward(const Tensor& x) override { return down(softmax(up(x), -1)); }
};

// Packed queries, keys and values of causal attention; a form that says that queries come first.
struct FormAttention : nn::Module, nn::Parallelizable {
  nn::Linear& qkv = add<nn::Linear>("qkv", kForm, 3 * kForm);
  nn::Linear& out = add<nn::Linear>("out", kForm, kForm);
  nn::ParallelForm parallel_form() const override {
    return {.attention = {{.heads = kFormHeads,
                           .kv_heads = kFormHeads,
                           .weights = {{"qkv",
                                        {nn::Heads::queries, nn::Heads::keys, nn::Heads::values}},
                                       {"out"}}}},
            .by_position = {"qkv", "out"},
            .shares_sequence = true};
  }
  Tensor attend(const Tensor& q, const Tensor& k, const Tensor& v) {
    const Tensor y = shared_attention(q, k, v, {.is_causal = true});
    return out(transpose(y, 1, 2).reshape({y.size(0), y.size(2), y.size(1) * kFormHeadDim}));
  }
  Tensor forward(const Tensor& x) override {
    const Tensor all = qkv(x);
    const auto heads = [](const Tensor& y) {
      const int64_t count = y.size(2) / kFormHeadDim;
      return transpose(y.reshape({y.size(0), y.size(1), count, kFormHeadDim}), 1, 2);
    };
    const std::vector<Tensor> parts = chunk(all, 3, -1);
    return attend(heads(parts[0]), heads(parts[1]), heads(parts[2]));
  }
};
struct NeoXAttention : FormAttention {
  Tensor forward(const Tensor& x) override {  // [q, k, v] of each head
    const Tensor all = qkv(x);
    const int64_t heads = all.size(2) / (3 * kFormHeadDim);
    const Tensor each =
        transpose(all.reshape({all.size(0), all.size(1), heads, 3 * kFormHeadDim}), 1, 2);
    const std::vector<Tensor> parts = chunk(each, 3, -1);
    return attend(parts[0], parts[1], parts[2]);
  }
};
struct HeadSoftmax : FormAttention {
  Tensor forward(const Tensor& x) override {
    const std::vector<Tensor> parts = chunk(qkv(x), 3, -1);
    return out(softmax(parts[0] + parts[1], -1) * parts[2]);
  }
};

// A small decoder; each mistake is one option.
struct FormMistakes {
  bool counts_positions = false, shifts = false, norm_outside = false, convolves = false;
};
struct FormBlock : nn::Module, nn::Parallelizable {
  nn::RMSNorm& norm = add<nn::RMSNorm>("norm", kForm);
  FormAttention& attention = add<FormAttention>("attention");
  Tensor forward(const Tensor& x) override { return x + attention(norm(x)); }
  nn::ParallelForm parallel_form() const override { return {.by_position = {"norm"}}; }
};
template <FormMistakes mistakes>
struct FormDecoder : nn::Module, nn::Parallelizable {
  FormDecoder() {
    for (int i = 0; i < 2; ++i) blocks.append();
    if (mistakes.convolves) {
      conv = &add<nn::Conv1d>("conv", kForm, kForm, 3, nn::Conv1d::Options{.padding = 1});
    }
  }
  nn::Embedding& words = add<nn::Embedding>("words", kFormWords, kForm);
  nn::Embedding& places = add<nn::Embedding>("places", 8, kForm);
  nn::ModuleListOf<FormBlock>& blocks = add<nn::ModuleListOf<FormBlock>>("blocks");
  nn::RMSNorm& norm = add<nn::RMSNorm>("norm", kForm);
  nn::Linear& head = add<nn::Linear>("head", kForm, kFormWords, {.bias = false});
  nn::Conv1d* conv = nullptr;

  Tensor forward(const Tensor& tokens) override {
    const Tensor mine = sequence() ? sequence()->take(tokens, 1) : tokens;
    Tensor positions = arange(Scalar(tokens.size(1)));
    if (sequence() != nullptr) {
      positions =
          mistakes.counts_positions ? arange(Scalar(mine.size(1))) : sequence()->take(positions, 0);
    }
    Tensor x = words(mine) + places(positions);
    if (mistakes.norm_outside) x = blocks[0].norm(x);
    if (mistakes.convolves) x = x + transpose((*conv)(transpose(x, 1, 2)), 1, 2);
    if (mistakes.shifts) x = x + roll(x, {1}, {1});
    for (FormBlock& block : blocks) x = block(x);
    return head(norm(x));
  }
  nn::ParallelForm parallel_form() const override {
    return {.cuts = {{"words", nn::Cut::vocabulary}, {"head", nn::Cut::vocabulary}},
            .stack = {{.embedding = {"words", "places"},
                       .blocks = "blocks",
                       .norm = "norm",
                       .head = "head"}},
            .by_position = {"words", "norm", "head"},
            .position_parameters = {"places.weight"},
            .shares_sequence = true};
  }
};

// A stem that looks at the word before, as a module of its own.
struct Shift : nn::Module {
  nn::Linear& mix = add<nn::Linear>("mix", kForm, kForm);
  Tensor forward(const Tensor& x) override { return x + roll(mix(x), {1}, {1}); }
};
struct ShiftedReader : nn::Module {
  Shift& stem = add<Shift>("stem");
  FormAttention& attention = add<FormAttention>("attention");
  Tensor forward(const Tensor& x) override { return attention(stem(x)); }
};
struct TurnedReader : nn::Module {
  nn::RotaryEmbedding& rotary = add<nn::RotaryEmbedding>("rotary", kForm);
  FormAttention& attention = add<FormAttention>("attention");
  Tensor forward(const Tensor& x) override { return attention(rotary(x)); }
};

// Without a form: a table of paths says all.
struct PlainBlock : nn::Module {
  nn::Linear& qkv = add<nn::Linear>("qkv", kForm, 3 * kForm);
  nn::Linear& proj = add<nn::Linear>("proj", kForm, kForm);
  nn::Linear& fc1 = add<nn::Linear>("fc1", kForm, 12);
  nn::Linear& fc2 = add<nn::Linear>("fc2", 12, kForm);
  Tensor forward(const Tensor& x) override {
    const auto heads = [](const Tensor& y) {
      const int64_t count = y.size(2) / kFormHeadDim;
      return transpose(y.reshape({y.size(0), y.size(1), count, kFormHeadDim}), 1, 2);
    };
    const std::vector<Tensor> p = chunk(qkv(x), 3, -1);
    const Tensor y = scaled_dot_product_attention(heads(p[0]), heads(p[1]), heads(p[2]),
                                                  AttentionOptions{.is_causal = true});
    const Tensor rows =
        transpose(y, 1, 2).reshape({y.size(0), y.size(2), y.size(1) * kFormHeadDim});
    const Tensor z = x + proj(rows);
    return z + fc2(gelu(fc1(z)));
  }
};
struct PlainModel : nn::Module {
  PlainModel() {
    for (int i = 0; i < 2; ++i) blocks.append();
  }
  nn::ModuleListOf<PlainBlock>& blocks = add<nn::ModuleListOf<PlainBlock>>("blocks");
  Tensor forward(const Tensor& x) override { return blocks[1](blocks[0](x)); }
};

}  // namespace

TEST_CASE("Hero's own models and the tagger compute what their forms say", "[tensor][context]") {
  const std::vector<std::string> all = {"tensor_parallel", "tensor_parallel with .sequence",
                                        "context_parallel"};
  for (const int ranks : {2, 4}) {
    CAPTURE(ranks);
    const dist::CheckParallelFormOptions options{.ranks = ranks};
    for (const bool rotary : {false, true}) {
      const auto gpt = [rotary] {
        manual_seed(2);
        return std::make_unique<nn::GPT>(nn::GPTConfig{.vocab_size = kFormWords,
                                                       .block_size = 8,
                                                       .n_layer = 2,
                                                       .n_head = 4,
                                                       .n_embd = 16,
                                                       .n_kv_head = rotary ? 2 : 4,
                                                       .rotary = rotary,
                                                       .tie_weights = !rotary});
      };
      CHECK(ways_of(gpt, form_tokens(), options) == all);
    }
    const auto llama = [] {
      manual_seed(2);
      return std::make_unique<nn::Llama>(nn::LlamaConfig{.vocab_size = kFormWords,
                                                         .hidden_size = 16,
                                                         .intermediate_size = 24,
                                                         .num_hidden_layers = 2,
                                                         .num_attention_heads = 4,
                                                         .num_key_value_heads = 2});
    };
    CHECK(ways_of(llama, form_tokens(), options) == all);
    const auto mixed = [] {  // RMS norms and packed projections, gates and learned positions
      manual_seed(2);
      return std::make_unique<nn::CausalLM>(nn::CausalLMConfig{.vocab_size = kFormWords,
                                                               .context_length = 8,
                                                               .layers = 2,
                                                               .heads = 4,
                                                               .width = 16,
                                                               .kv_heads = 2,
                                                               .gated = true,
                                                               .rms_norm = true});
    };
    CHECK(ways_of(mixed, form_tokens(), options) == all);
    // The tagger's stem mixes neighbours, so that its blocks alone can share sequences.
    const auto tagger = [] { return made_tagger(kCpu, 2); };
    CHECK(ways_of(tagger, tagger_batch(0, 0).first, options) ==
          std::vector<std::string>{all[0], all[1], all[2] + " refused"});
    const auto decoder = [] { return std::make_unique<FormDecoder<FormMistakes{}>>(); };
    CHECK(ways_of(decoder, form_tokens(), options) == all);
  }
}

TEST_CASE("a module that computes something else when it is divided is named, with the mistake",
          "[tensor][context]") {
  CHECK_THAT(mistake_of<PackedGates>(form_rows()),
             ContainsSubstring("under tensor_parallel of 2 ranks the output differs") &&
                 ContainsSubstring("'up' packs 2 matrices") && ContainsSubstring(".parts = 2"));
  CHECK_THAT(mistake_of<HiddenSoftmax>(form_rows()),
             ContainsSubstring("in HiddenSoftmax something between the layers that are cut looks "
                               "at other hidden units, such as a softmax"));
  CHECK_THAT(mistake_of<NeoXAttention>(form_rows()),
             ContainsSubstring("the rows of 'qkv' lie head by head") &&
                 ContainsSubstring("interleaved, as in GPT-NeoX"));
  CHECK_THAT(mistake_of<HeadSoftmax>(form_rows()),
             ContainsSubstring("in HeadSoftmax heads are not computed each by itself"));
  CHECK_THAT(mistake_of<FormDecoder<FormMistakes{.norm_outside = true}>>(form_tokens()),
             ContainsSubstring("under tensor_parallel with .sequence of 2 ranks the gradient of "
                               "'blocks.0.norm.weight' differs") &&
                 ContainsSubstring("'blocks.0.norm' belongs to a block") &&
                 ContainsSubstring("also called outside of the blocks"));
  CHECK_THAT(mistake_of<FormDecoder<FormMistakes{.counts_positions = true}>>(form_tokens()),
             ContainsSubstring("under context_parallel of 2 ranks the output differs") &&
                 ContainsSubstring("Embedding 'places'") && ContainsSubstring("as by arange"));
  CHECK_THAT(mistake_of<ShiftedReader>(form_rows()),
             ContainsSubstring("under context_parallel of 2 ranks the output differs") &&
                 ContainsSubstring("Shift 'stem' mixes positions"));
  CHECK_THAT(mistake_of<TurnedReader>(form_rows()),
             ContainsSubstring("RotaryEmbedding 'rotary' turns the rank's positions as if they "
                               "began at 0"));
  CHECK_THAT(mistake_of<FormDecoder<FormMistakes{.shifts = true}>>(form_tokens()),
             ContainsSubstring("under context_parallel of 2 ranks the output differs") &&
                 ContainsSubstring("RMSNorm 'blocks.0.norm', which already gets something else"));
  CHECK(mistake_of<FormAttention>(form_rows()) == "");
}

TEST_CASE("a module is found in the model, and what was not asked for is not tried", "[tensor]") {
  struct Model : nn::Module {
    nn::Linear& in = add<nn::Linear>("in", kForm, kForm);
    PackedGates& gates = add<PackedGates>("gates");
    HiddenSoftmax& soft = add<HiddenSoftmax>("soft");
    Tensor forward(const Tensor& x) override { return soft(gates(in(x))); }
  };
  CHECK_THAT(mistake_of<Model>(form_rows()), ContainsSubstring("'gates.up' packs 2 matrices"));
  CHECK_THAT(mistake_of<Model>(form_rows(), {.tensor = false}),
             ContainsSubstring("no module of Model says in an nn::ParallelForm"));
  CHECK_THAT(mistake_of<Model>(form_rows(), {.ranks = 1}),
             ContainsSubstring("1 ranks divide nothing"));
  CHECK_THAT(mistake_of<Model>(form_rows(), {.ranks = 5}),
             ContainsSubstring("5 slices do not divide"));
  dist::CheckParallelFormOptions of_loss;
  of_loss.run = [](nn::Module& module, const Tensor& x) { return mean(module(x)); };
  CHECK_THAT(mistake_of<FormAttention>(form_rows(), of_loss),
             ContainsSubstring("output [] have no positions in dimension 1; let .run return"));
  of_loss.context = false;
  CHECK(mistake_of<FormAttention>(form_rows(), of_loss) == "");
  CHECK(mistake_of<FormDecoder<FormMistakes{.counts_positions = true}>>(form_tokens(),
                                                                        {.context = false}) == "");
}

TEST_CASE("a convolution over positions that nobody vouches for cannot share sequences",
          "[context]") {
  const auto errors = errors_of(2, [](dist::Communicator& world) {
    FormDecoder<FormMistakes{.convolves = true}> model;
    dist::context_parallel(model, world);
  });
  for (const std::string& error : errors) {
    CHECK_THAT(error, ContainsSubstring("context_parallel: 'conv.weight' is of a Conv1d, which may "
                                        "look at other positions"));
  }
}

TEST_CASE("a table of paths cuts a model that says nothing of itself", "[tensor]") {
  const dist::TensorPlan plan = {{"blocks.*.qkv", nn::Cut::colwise, 3},
                                 {"blocks.*.proj", nn::Cut::rowwise},
                                 {"blocks.*.fc1", nn::Cut::colwise},
                                 {"blocks.*.fc2", nn::Cut::rowwise}};
  const auto make = [] {
    manual_seed(6);
    return std::make_unique<PlainModel>();
  };
  for (const int ranks : {2, 4}) {
    CHECK(ways_of(make, form_rows(), {.ranks = ranks, .plan = plan}) ==
          std::vector<std::string>{"tensor_parallel"});
  }
  dist::run_ranks(2, [&](dist::Communicator& world) {
    const auto model = make();
    dist::tensor_parallel(*model, world, {.plan = plan});
    for (PlainBlock& block : model->blocks) {
      expect(block.qkv.weight.shape() == Shape{12, kForm}, "half of each of q, k and v");
      expect(block.fc2.weight.shape() == Shape{kForm, 6}, "half of the columns");
    }
  });
  dist::TensorPlan wrong = plan;
  wrong[0].parts = 1;
  CHECK_THAT(mistake_of<PlainModel>(form_rows(), {.plan = wrong}),
             ContainsSubstring("'blocks.*.qkv' packs 3 matrices"));
  wrong[0].path = "blocks.*.attn.qkv";
  CHECK_THAT(mistake_of<PlainModel>(form_rows(), {.plan = wrong}),
             ContainsSubstring("no module is called 'blocks.*.attn.qkv'; the nearest are"));
}
