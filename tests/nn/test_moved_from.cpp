// What was moved from, and what is null: an Error, or still as it was, and never a crash.
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "support/catch.h"
#include <unistd.h>

#include <hero/autograd/ops.h>
#include <hero/core/safetensors.h>
#include <hero/nn/data/bpe.h>
#include <hero/nn/data/iterable.h>
#include <hero/nn/data/loader.h>
#include <hero/nn/data/tokens.h>
#include <hero/nn/distributions_composed.h>
#include <hero/nn/nn.h>
#include <hero/nn/training/checkpoint.h>
#include <hero/optim/accumulator.h>
#include <hero/optim/newton.h>

using namespace hero;
using namespace hero::nn;
using namespace hero::nn::data;
using Catch::Matchers::ContainsSubstring;

namespace {

using Calls = std::vector<std::function<void()>>;

// Every call is an Error of `what`, which was moved from.
void refused(const std::string& what, const Calls& calls) {
  for (const auto& call : calls) {
    CHECK_THROWS_WITH(call(),
                      ContainsSubstring(what) && ContainsSubstring("it was moved from; use the "));
  }
}

// Takes what is in `from`, which lives on; what is returned is destroyed at the caller's.
template <class T>
T taken(T& from) {
  return T(std::move(from));
}

struct Squares : IterableDataset {
  Samples samples() const override {
    return [i = int64_t{0}]() mutable -> std::optional<Example> {
      if (i == 4) return std::nullopt;
      ++i;
      return Example{tensor(i * i)};
    };
  }
};

struct Nothing : IterableDataset {
  Samples samples() const override { return {}; }
};

struct TwoInputs : Module {
  Linear& fc = add<Linear>("fc", 2, 2);
  Tensor operator()(const Tensor& a, const Tensor& b) {
    return run_hooked({a, b}, [&](const Tensors& in) { return Tensors{fc(in[0]) + in[1]}; })[0];
  }
};

}  // namespace

// NOLINTBEGIN(bugprone-use-after-move)

TEST_CASE("modules that were moved from are refused, whatever is done to them") {
  const Tensor x = ones({1, 2});
  Linear linear(2, 2);
  { const Linear into = taken(linear); }  // the parameters are gone as well
  const StateDict none;
  refused("Linear: ", {[&] { linear(x); },
                       [&] { linear.parameters(); },
                       [&] { linear.named_buffers(); },
                       [&] { linear.named_modules(); },
                       [&] { linear.children(); },
                       [&] { linear.slots(); },
                       [&] { linear.parameter_count(); },
                       [&] { linear.train(); },
                       [&] { linear.to(kFloat64); },
                       [&] { linear.to(kCpu); },
                       [&] { linear.requires_grad_(false); },
                       [&] { linear.zero_grad(); },
                       [&] { linear.apply([](Module&) {}); },
                       [&] { linear.reset_parameters(); },
                       [&] { linear.materialize(); },
                       [&] { linear.state_dict(); },
                       [&] { linear.load_state_dict(none); },
                       [&] { linear.get_parameter("weight"); },
                       [&] { linear.get_submodule(""); },
                       [&] { linear.run_fused(x, [](const Tensor& y) { return y; }); },
                       [&] { linear.register_forward_hook([](auto&, auto&, auto&) {}); },
                       [&] { to_string(linear); },
                       [&] { summary(linear); },
                       [&] { add_lora(linear, {.targets = {"weight"}}); },
                       [&] { prune::l1_unstructured(linear, "weight", 0.5); },
                       [&] { spectral_norm(linear); }});
  Sequential net{Linear(2, 2), ReLU()};
  const Sequential holder{taken(net)};
  refused("Sequential: ", {[&] { net(x); }, [&] { net.forward(x); }, [&] { net.size(); },
                           [&] { net[0]; }, [&] { net.append<ReLU>(); },
                           [&] { net.push_back(ReLU()); }, [&] { net.replace("0", ReLU()); }});
  ModuleList list;
  list.append<ReLU>();
  const ModuleList other_list = taken(list);
  refused("ModuleList: ", {[&] { list.size(); }, [&] { list[0]; }, [&] { list.begin(); },
                           [&] { list.append<ReLU>(); }});
  ModuleDict dict;
  dict.insert<ReLU>("a");
  const ModuleDict other_dict = taken(dict);
  refused("ModuleDict: ",
          {[&] { dict["a"]; }, [&] { dict.contains("a"); }, [&] { dict.insert<ReLU>("b"); }});
  ParameterList parameters({ones({2})});
  const ParameterList other_parameters = taken(parameters);
  refused("ParameterList: ", {[&] { parameters.size(); }, [&] { parameters[0]; },
                              [&] { parameters.append(ones({2})); }});
  ParameterDict named;
  named.insert("a", ones({2}));
  const ParameterDict other_named = taken(named);
  refused("ParameterDict: ", {[&] { named.size(); }, [&] { named["a"]; },
                              [&] { named.contains("a"); }, [&] { named.insert("b", ones({2})); }});
  LSTM lstm(2, 2);
  const LSTM other_lstm = taken(lstm);
  refused("LSTM: ", {[&] {
                       lstm(ones({3, 1, 2}));
                     },
                     [&] {
                       lstm(pack_padded_sequence(ones({3, 1, 2}), {3}));
                     }});
  MultiheadAttention attention(2, 1);
  const MultiheadAttention other_attention = taken(attention);
  refused("MultiheadAttention: ", {[&] { attention(x, x, x); }});
  GPT gpt({.vocab_size = 8, .block_size = 4, .n_layer = 1, .n_head = 1, .n_embd = 4});
  const GPT other_gpt = taken(gpt);
  const Tensor tokens = zeros({1, 2}, kInt64);
  refused("GPT: ",
          {[&] { gpt(tokens); }, [&] { gpt.loss(tokens, tokens); }, [&] { gpt.generate(tokens); },
           [&] { gpt.save("/tmp/never-written.safetensors"); }});
  TwoInputs two;
  const TwoInputs other_two = taken(two);
  refused("TwoInputs: ", {[&] { two(x, x); }});
}

TEST_CASE("a module into which another one is moved can be used again") {
  ModuleDict dict;
  dict.insert<Linear>("a", 2, 2);
  ModuleDict into = taken(dict);
  CHECK_THROWS_WITH(dict.parameters(), ContainsSubstring("ModuleDict: it was moved from"));
  dict = ModuleDict();
  CHECK(dict.parameters().empty());
  dict = std::move(into);
  CHECK(dict.parameters().size() == 2);
  CHECK_THROWS_WITH(into.parameters(), ContainsSubstring("ModuleDict: it was moved from"));
  const ModuleDict again = taken(dict);
  CHECK(again.parameters().size() == 2);
}

TEST_CASE("a member into which another module is moved keeps its names, and its hooks refuse") {
  struct Pair : Module {
    LSTM& first = add<LSTM>("first", 2, 3);
    ModuleDict& second = add<ModuleDict>("second");
  };
  Pair pair;
  pair.first = LSTM(2, 5);
  ModuleDict dict;
  dict.insert<Linear>("a", 2, 2);
  pair.second = std::move(dict);
  std::vector<std::string> names;
  for (const auto& [name, parameter] : pair.named_parameters()) names.push_back(name);
  CHECK(names == std::vector<std::string>{"first.weight_ih_l0", "first.weight_hh_l0",
                                          "first.bias_ih_l0", "first.bias_hh_l0", "second.a.weight",
                                          "second.a.bias"});
  CHECK_THROWS_WITH(pair.first(zeros({4, 1, 3})), ContainsSubstring(", in first"));
  CHECK_THROWS_WITH(pair.second["a"](zeros({1, 3})), ContainsSubstring(", in second.a"));
  const HookHandle hook =
      pair.first.register_forward_pre_hook([](Module&, const Tensors& inputs) { return inputs; });
  CHECK_THROWS_WITH((pair.first = LSTM(2, 7)),
                    "operator=: first has hooks, which the module that is moved into it would not; "
                    "move it there before they are registered (and before DDP, ZeRO, fully_shard() "
                    "or tensor_parallel()), or remove them");
  CHECK(pair.first.parameters()[0].shape() == Shape{20, 2});
}

TEST_CASE("datasets, loaders, samplers and tokens that were moved from") {
  const std::vector<int64_t> first{0};
  TensorDataset rows({arange(6)});
  const TensorDataset other_rows = taken(rows);
  refused("tensor_dataset: ", {[&] { rows.size(); }, [&] { rows.get(0); },
                               [&] { rows.get_batch(first); }, [&] { DataLoader loader(rows); }});
  StackDataset stacked({other_rows, other_rows});
  const StackDataset other_stacked = taken(stacked);
  refused("stack_dataset: ",
          {[&] { stacked.size(); }, [&] { stacked.get(0); }, [&] { stacked.get_batch(first); }});
  MapDataset mapped(other_rows, [](const Example& sample) { return sample; });
  const MapDataset other_mapped = taken(mapped);
  refused("map_dataset: ",
          {[&] { mapped.size(); }, [&] { mapped.get(0); }, [&] { mapped.get_batch(first); }});
  ConcatDataset joined({other_rows, other_rows});
  const ConcatDataset other_joined = taken(joined);
  CHECK(joined.size() == 0);
  CHECK_THROWS_WITH(joined.get(0), ContainsSubstring("concat_dataset: there is no sample 0"));
  Subset subset(other_rows, {4, 5});
  const Subset other_subset = taken(subset);  // shares what it has, and keeps it
  CHECK(subset.size() == 2);
  CHECK(subset.get(0)[0].item<int64_t>() == 4);
  AnyDataset any(other_rows);
  const AnyDataset other_any = taken(any);
  CHECK(any->size() == 6);

  for (const int workers : {0, 2}) {
    DataLoader loader(other_rows, {.batch_size = 2, .workers = workers});
    DataLoader other_loader = taken(loader);
    const auto state = other_loader.state_dict();
    refused("data_loader: ",
            {[&] { loader.size(); }, [&] { loader.epoch(); }, [&] { loader.set_epoch(1); },
             [&] { loader.begin(); }, [&] { loader.state_dict(); },
             [&] { loader.load_state_dict(state); }});
    auto it = other_loader.begin();
    auto other_it = taken(it);
    CHECK(it == other_loader.end());
    CHECK_THROWS_WITH(*it, ContainsSubstring("data_loader: the pass is at its end"));
    CHECK_THROWS_WITH(++it, ContainsSubstring("data_loader: the pass is at its end"));
    CHECK((*other_it)[0].size(0) == 2);
  }

  AnyIterable any_iterable{Squares()};
  const AnyIterable other_iterable = taken(any_iterable);
  CHECK((*any_iterable->samples()()).size() == 1);
  IterableLoader stream(other_iterable, {.batch_size = 2});
  IterableLoader other_stream = taken(stream);
  const auto state = other_stream.state_dict();
  refused("iterable_loader: ", {[&] { stream.begin(); }, [&] { stream.state_dict(); },
                                [&] { stream.load_state_dict(state); }});
  auto it = other_stream.begin();
  auto other_it = taken(it);
  CHECK_THROWS_WITH(*it, ContainsSubstring("iterable_loader: the pass is at its end"));
  CHECK_THROWS_WITH(it->size(), ContainsSubstring("iterable_loader: the pass is at its end"));
  CHECK_THROWS_WITH(++it, ContainsSubstring("iterable_loader: the pass is at its end"));
  CHECK((*other_it)[0].size(0) == 2);
  CHECK_THROWS_WITH(IterableLoader(Nothing()).begin(), ContainsSubstring("returned nothing"));
  const IterableDataset::Samples chained = ChainDataset({Squares(), Nothing()}).samples();
  for (int i = 0; i < 4; ++i) CHECK(chained().has_value());
  CHECK_THROWS_WITH(chained(), ContainsSubstring("samples() of dataset 1 returned nothing"));

  SubsetRandomSampler some({3, 4, 5});
  const SubsetRandomSampler other_some = taken(some);
  CHECK(some.indices() == other_some.indices());
  for (const bool replacement : {false, true}) {
    WeightedRandomSampler weighted({1.0, 2.0}, 2, {.replacement = replacement});
    const WeightedRandomSampler other_weighted = taken(weighted);
    CHECK(weighted.indices() == other_weighted.indices());
  }
  Tokens tokens(std::vector<int64_t>{1, 2, 3, 4});
  const Tokens other_tokens = taken(tokens);
  CHECK(tokens[3] == 4);
  BPETokenizer bpe = BPETokenizer::train("a text of a few words", {.vocab_size = 260});
  const BPETokenizer other_bpe = taken(bpe);
  CHECK(bpe.encode("a few") == other_bpe.encode("a few"));
  CharTokenizer characters("abc");
  const CharTokenizer other_characters = taken(characters);
  CHECK_THROWS_AS(characters.encode("a"), Error);
  CHECK_THROWS_AS(characters.decode(first), Error);
  Example example{ones({1})};
  const Example other_example = taken(example);
  CHECK_THROWS_WITH(example[0], ContainsSubstring("there is no field 0"));
}

TEST_CASE("readers, checkpointers, caches and handles that were moved from") {
  const std::string folder = "/tmp/hero-moved-from-" + std::to_string(getpid());
  Checkpointer checkpoint(folder);
  int64_t number = 0;
  checkpoint.track("number", number);
  Checkpointer other_checkpoint = taken(checkpoint);
  refused("checkpoint: ",
          {[&] { checkpoint.save(1); }, [&] { checkpoint.save(1, {.async = true}); },
           [&] { checkpoint.steps(); }, [&] { checkpoint.resume(); }, [&] { checkpoint.load(1); },
           [&] { checkpoint.folder(1); }, [&] { checkpoint.track("other", number); }});
  other_checkpoint.save(1);
  CHECK(other_checkpoint.steps() == std::vector<int64_t>{1});

  const std::string path = folder + "/x.safetensors";
  core::save_safetensors(path, std::vector<core::NamedArray>{{"x", Array::ones({2})}});
  core::SafetensorsReader reader(path);
  const core::SafetensorsReader other_reader = taken(reader);
  const core::SafetensorsReader::Entry entry = other_reader.entries()[0];
  for (const auto& call :
       Calls{[&] { reader.entries(); }, [&] { reader.names(); }, [&] { reader.metadata(); },
             [&] { reader.contains("x"); }, [&] { reader.load("x"); },
             [&] { reader.read(entry, 0, Array::ones({2})); }}) {
    CHECK_THROWS_WITH(call(), ContainsSubstring("safetensors: the reader was moved from"));
  }
  CHECK(other_reader.load("x").numel() == 2);

  KeyValueCache cache(4);
  cache.begin(1, {1});
  const Tensor k = ones({1, 1, 1, 2});
  cache.attend(0, k, k, k);
  cache.end();
  const KeyValueCache other_cache = taken(cache);
  for (int cleared = 0; cleared < 2; ++cleared) {
    for (const auto& call : Calls{[&] { cache.attend(0, k, k, k); }, [&] { cache.end(); },
                                  [&] { cache.positions(kCpu); },
                                  [&] {
                                    cache.last(ones({1, 1, 2}));
                                  }}) {
      CHECK_THROWS_WITH(call(), ContainsSubstring("KeyValueCache: nothing was read"));
    }
    cache.begin(1, {1});
    cache.end();
    cache.clear();
  }

  Linear linear(2, 2);
  HookHandle hook = linear.register_forward_hook([](auto&, auto&, auto&) {});
  HookHandle other_hook = taken(hook);
  hook.remove();
  CHECK(linear.has_hooks());
  other_hook.remove();
  CHECK_FALSE(linear.has_hooks());
  const Tensor w = ones({2}).requires_grad_();
  optim::Newton newton({w});
  const optim::Newton other_newton = taken(newton);
  newton.step([&] { return sum(square(w)); });
  CHECK(equal(w.detach(), zeros({2})));
  static_assert(!std::is_move_constructible_v<optim::Accumulator>);
}

TEST_CASE("nothing in the place of a module, a distribution or a transform") {
  CHECK_THROWS_WITH(prune::global_unstructured({{nullptr, "weight"}}, 0.5),
                    ContainsSubstring("global_unstructured: the module of 'weight' is null"));
  Sequential net{Linear(2, 2)};
  CHECK_THROWS_WITH(net.replace("0", std::unique_ptr<Module>()),
                    ContainsSubstring("replace: the module for '0' is null"));
  using namespace distributions;
  const std::shared_ptr<const Distribution> none;
  CHECK_THROWS_WITH(Independent(none, 1),
                    ContainsSubstring("Independent: the distribution is null"));
  const Categorical mixture({.probs = ones({2})});
  CHECK_THROWS_WITH(MixtureSameFamily(mixture, none),
                    ContainsSubstring("MixtureSameFamily: the distribution is null"));
  CHECK_THROWS_WITH(TransformedDistribution(none, {std::make_shared<ExpTransform>()}),
                    ContainsSubstring("TransformedDistribution: the distribution is null"));
  CHECK_THROWS_WITH(
      TransformedDistribution(std::make_shared<Normal>(ones({}), ones({})), {nullptr}),
      ContainsSubstring("TransformedDistribution: a transform is null"));
}

// NOLINTEND(bugprone-use-after-move)
