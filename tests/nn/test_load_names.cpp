#include <fstream>
#include <limits>

#include "support/arrays.h"
#include "support/catch.h"
#include "support/temp_dir.h"

#include <hero/nn/nn.h>
#include <hero/optim/optim.h>

using Catch::Matchers::ContainsSubstring;
using namespace hero;

TEST_CASE("of many names that do not fit, errors show the first ones and a count") {
  nn::Sequential deep;
  for (int i = 0; i < 12; ++i) deep.append<nn::Linear>(2, 2, {.bias = false});
  CHECK_THROWS_WITH(
      deep.load_state_dict({}),
      ContainsSubstring("6.weight, 7.weight .. and 4 more") && !ContainsSubstring("8.weight"));
  CHECK_THROWS_WITH(deep.get_submodule("head"), ContainsSubstring("7 .. and 4 more"));
  CHECK_THROWS_WITH(deep.get_parameter("head"), ContainsSubstring("7.weight .. and 4 more"));
  optim::SGD sgd(deep.parameters(), {.lr = 0.1, .momentum = 0.9});
  deep(ones({1, 2})).sum().backward();
  sgd.step();
  optim::StateDict renamed = sgd.state_dict();
  for (auto& entry : renamed) entry.name += "_";
  CHECK_THROWS_WITH(sgd.load_state_dict(renamed), ContainsSubstring("state.0.step_ .. and "));
}

TEST_CASE("two values for one tensor are an error that names both, and nothing is loaded") {
  const hero_test::TempDir dir;
  const nn::GPTConfig config = {
      .vocab_size = 5, .block_size = 3, .n_layer = 1, .n_head = 1, .n_embd = 4};
  nn::GPT gpt(config);
  const Array before = gpt.lm_head.weight.array().clone();
  nn::StateDict own;  // copies: loading changes what the module has
  for (const auto& [name, array] : gpt.state_dict()) own.push_back({name, array.clone()});
  const auto with_head = [&](const Array& head) {
    nn::StateDict dict;
    for (const auto& [name, array] : own) {
      dict.push_back({name, name == "lm_head.weight" ? head : array.clone()});
    }
    return dict;
  };
  Array other = before.clone();
  Tensor(other)[4][3].fill_(7.0);
  const auto refused = [&](const nn::StateDict& dict) {
    const auto names =
        ContainsSubstring("transformer.wte.weight and lm_head.weight are one tensor");
    CHECK_THROWS_WITH(gpt.load_state_dict(dict), names && ContainsSubstring("different values"));
    CHECK_THROWS_WITH(gpt.load_state_dict(dict, {.strict = false}), names);
    core::save_safetensors(dir / "model.safetensors", dict);
    CHECK_THROWS_WITH(gpt.load(dir / "model.safetensors"), names);
    CHECK(test::same(gpt.lm_head.weight.array(), before));
  };
  refused(with_head(other));
  nn::StateDict reversed = with_head(other);
  std::reverse(reversed.begin(), reversed.end());
  refused(reversed);
  // a zero of the other sign is another value; a NaN is itself
  nn::StateDict zeros_of = with_head(Array::zeros(before.shape(), kFloat32));
  for (auto& [name, array] : zeros_of) {
    if (name == "transformer.wte.weight") array = Array::full(before.shape(), -0.0, kFloat32);
  }
  refused(zeros_of);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  nn::StateDict nans = with_head(Array::full(before.shape(), nan, kFloat32));
  for (auto& [name, array] : nans) {
    if (name == "transformer.wte.weight") array = Array::full(before.shape(), nan, kFloat32);
  }
  gpt.load_state_dict(nans);
  CHECK(isnan(gpt.lm_head.weight).all().item() == 1.0);
  // equal ones are right, also in another dtype, or under one name alone
  gpt.load_state_dict(with_head(before));
  CHECK(test::same(gpt.lm_head.weight.array(), before));
  gpt.load_state_dict(with_head(before.to(kFloat64)));
  nn::StateDict half = with_head(before);
  for (auto& [name, array] : half) array = array.to(kBFloat16);
  gpt.load_state_dict(half);
  std::erase_if(half, [](const auto& entry) { return entry.name == "lm_head.weight"; });
  gpt.load_state_dict(half);
  // ties of a program's own
  nn::Sequential tied{nn::Linear(2, 2, {.bias = false}), nn::Linear(2, 2, {.bias = false})};
  dynamic_cast<nn::Linear&>(tied[1]).weight = dynamic_cast<nn::Linear&>(tied[0]).weight;
  CHECK_THROWS_WITH(tied.load_state_dict({{"0.weight", Array::full({2, 2}, 1.0, kFloat32)},
                                          {"1.weight", Array::full({2, 2}, 2.0, kFloat32)}}),
                    ContainsSubstring("0.weight and 1.weight are one tensor of Sequential"));
}

TEST_CASE("matrices that all lie the other way round are known as those of transformers") {
  const nn::GPTConfig config = {
      .vocab_size = 5, .block_size = 3, .n_layer = 3, .n_head = 1, .n_embd = 4};
  nn::GPT gpt(config);
  nn::StateDict dict = gpt.state_dict();
  for (auto& [name, array] : dict) {
    if (name.ends_with("c_attn.weight") || name.ends_with("c_proj.weight") ||
        name.ends_with("c_fc.weight")) {
      array = array.t().contiguous();
    }
  }
  const auto hint = ContainsSubstring("GPT::from_pretrained()");
  CHECK_THROWS_WITH(gpt.load_state_dict(dict), ContainsSubstring("mis-shaped: ") &&
                                                   ContainsSubstring(".. and 1 more") && hint);
  CHECK_THROWS_WITH(gpt.load_state_dict(dict, {.strict = false}), hint);
  for (auto& [name, array] : dict) {
    if (name == "transformer.ln_f.weight") array = Array::zeros({3}, kFloat32);
  }
  CHECK_THROWS_WITH(gpt.load_state_dict(dict), !hint);
}

TEST_CASE("a tensor of a dtype that arrays do not have is in the way of its own value alone") {
  const hero_test::TempDir dir;
  const auto write = [&](const std::string& other) {
    std::string json = R"({"weight":{"dtype":"F32","shape":[1,1],"data_offsets":[0,4]},")" + other +
                       R"(":{"dtype":"I8","shape":[1],"data_offsets":[4,5]}})";
    std::string bytes(8, '\0');
    bytes[0] = static_cast<char>(json.size());
    std::ofstream(dir / "f.safetensors", std::ios::binary)
        << bytes << json << std::string("\0\0\0\x40q", 5);
  };
  nn::Linear linear(1, 1);
  const double weight = linear.weight.item();
  write("scale");
  CHECK_THROWS_WITH(
      linear.load(dir / "f.safetensors"),
      ContainsSubstring("tensor 'scale' has dtype 'I8'") && ContainsSubstring("strict = false"));
  CHECK(linear.weight.item() == weight);
  const nn::LoadResult result = linear.load(dir / "f.safetensors", {.strict = false});
  CHECK(linear.weight.item() == 2.0);
  CHECK(result.unexpected == std::vector<std::string>{"scale"});
  CHECK(result.missing == std::vector<std::string>{"bias"});
  for (const std::string own : {"bias", "module.bias"}) {
    write(own);
    CHECK_THROWS_WITH(
        linear.load(dir / "f.safetensors", {.strict = false}),
        ContainsSubstring("'" + own + "' has dtype 'I8'") && ContainsSubstring("convert it first"));
  }
}
