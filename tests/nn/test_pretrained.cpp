// Folders of Hugging Face's transformers: what it computes with them, and what is refused.
#include <filesystem>
#include <fstream>
#include <set>

#include "fuzz/config_formats.h"
#include "nn/pretrained.h"
#include "support/arrays.h"
#include "support/catch.h"
#include "support/damage.h"
#include "support/temp_dir.h"
#include <nlohmann/json.hpp>

#include <hero/autograd/ops.h>
#include <hero/core/io/file.h>
#include <hero/nn/gpt.h>
#include <hero/nn/llama.h>

using namespace hero;
using Catch::Matchers::ContainsSubstring;
using test::Pretrained;

namespace {

namespace fs = std::filesystem;

constexpr const char* kGPTs[] = {"gpt2", "gpt2_bare"};
constexpr const char* kLlamas[] = {"llama",         "llama3", "llama_linear", "llama_yarn",
                                   "llama_dynamic", "qwen2",  "qwen2_yarn",   "mistral"};

template <class Model>
void check_same_logits(const Pretrained& case_, Model& model) {
  const NoGrad no_grad;
  model.eval();
  const Tensor logits = model(case_.at("tokens"));
  // 1e-5 of the largest, which is about 5: both compute in float32, with sums in other orders
  CHECK(max(abs(logits - case_.at("logits"))).item() < 1e-5 * max(abs(logits)).item());
  CHECK(max(abs(logits)).item() > 1.0);
}

// Written again and read again the model has the same bits, also in files of other sizes.
template <class Model>
void check_written_again(const Model& model, int64_t max_shard_bytes) {
  const hero_test::TempDir dir;
  const std::string folder = dir / "again";
  model.save_pretrained(folder, {.max_shard_bytes = max_shard_bytes});
  CHECK(path_exists(folder + "/model.safetensors.index.json") == (max_shard_bytes < 20000));
  const Model again = Model::from_pretrained(folder);
  const nn::StateDict a = model.state_dict(), b = again.state_dict();
  REQUIRE(a.size() == b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    INFO(a[i].name);
    CHECK(a[i].name == b[i].name);
    CHECK(test::same(a[i].array, b[i].array));
  }
}

// A copy of a golden folder that may be spoilt.
struct CopiedFolder {
  explicit CopiedFolder(const std::string& name) : path(dir / name) {
    fs::copy(Pretrained(name).folder, path);
  }
  void set(const std::string& key, const std::string& json) const {
    const std::string file = path + "/config.json";
    std::string text = read_file_text(file);
    const size_t at = text.find("\"" + key + "\":");
    if (at != std::string::npos) {
      const size_t begin = text.find(':', at) + 1;
      text.replace(begin, text.find_first_of(",\n", begin) - begin, " " + json);
    } else {
      text.insert(text.find('{') + 1, "\"" + key + "\": " + json + ",");
    }
    std::ofstream(file) << text;
  }

  void drop(const std::string& key) const {
    const std::string file = path + "/config.json";
    auto config = nlohmann::ordered_json::parse(read_file_text(file));
    config.erase(key);
    std::ofstream(file) << config.dump(2);
  }

  hero_test::TempDir dir;
  std::string path;
};

template <class Model>
std::string error_of(const std::string& folder, const nn::PretrainedOptions& options = {}) {
  return hero::test::error_of([&] { Model::from_pretrained(folder, options); });
}

}  // namespace

TEST_CASE("a GPT-2 of transformers has its logits here, square matrices and all") {
  for (const char* name : kGPTs) {
    INFO(name);
    const Pretrained golden(name);
    nn::GPT gpt = nn::GPT::from_pretrained(golden.folder);
    check_same_logits(golden, gpt);
    for (const int64_t bytes : {20000, 1000000}) check_written_again(gpt, bytes - 1);
  }
}

TEST_CASE("Llama, Qwen2 and Mistral of transformers have their logits here") {
  for (const char* name : kLlamas) {
    INFO(name);
    const Pretrained golden(name);
    nn::Llama llama = nn::Llama::from_pretrained(golden.folder);
    check_same_logits(golden, llama);
    for (const int64_t bytes : {15000, 1000000}) check_written_again(llama, bytes);
  }
}

TEST_CASE("a configuration is written as it was read, tokens and ties too") {
  // Names that transformers had before version 5, and what Mistral's is written as.
  const std::set<std::string> renamed = {"dtype",        "torch_dtype", "rope_theta",
                                         "rope_scaling", "model_type",  "architectures"};
  struct Ids {
    const char *bos, *eos, *pad;
    nn::TokenIds ids;
  };
  const Ids all[] = {{"null", "null", "null", {}},
                     {"1", "2", "null", {.bos = 1, .eos = {2}}},
                     {"0", "[5, 7]", "60", {.bos = 0, .eos = {5, 7}, .pad = 60}},
                     // beyond the vocabulary: transformers writes these, too
                     {"50256", "[50256, 3]", "-1", {.bos = 50256, .eos = {50256, 3}, .pad = -1}}};
  const auto check_ids = [&]<class Config>(const char* name, const Config&) {
    for (const Ids& each : all) {
      const CopiedFolder copy(name);
      copy.set("bos_token_id", each.bos);
      copy.set("eos_token_id", each.eos);
      copy.set("pad_token_id", each.pad);
      const std::string before = read_file_text(copy.path + "/config.json");
      const Config config = Config::from_pretrained(copy.path);
      CHECK(config.token_ids == each.ids);
      config.save_pretrained(copy.path);
      const auto read = nlohmann::json::parse(before);
      const auto written = nlohmann::json::parse(read_file_text(copy.path + "/config.json"));
      for (const auto& [key, value] : written.items()) {
        INFO(name << " " << key);
        if (!renamed.contains(key) && read.contains(key)) CHECK(read[key] == value);
      }
      CHECK(Config::from_pretrained(copy.path).token_ids == each.ids);
    }
  };
  for (const char* name : kGPTs) check_ids(name, nn::GPTConfig());
  for (const char* name : kLlamas) check_ids(name, nn::LlamaConfig());
}

TEST_CASE("what a configuration leaves out is what transformers takes") {
  const CopiedFolder llama("llama"), gpt("gpt2"), mistral("mistral"), qwen("qwen2");
  for (const CopiedFolder* each : {&llama, &gpt, &mistral, &qwen}) {
    for (const char* key : {"bos_token_id", "eos_token_id", "pad_token_id"}) each->drop(key);
  }
  CHECK(nn::LlamaConfig::from_pretrained(llama.path).token_ids ==
        nn::TokenIds{.bos = 1, .eos = {2}});
  CHECK(nn::LlamaConfig::from_pretrained(qwen.path).token_ids == nn::TokenIds{});
  CHECK(nn::GPTConfig::from_pretrained(gpt.path).token_ids ==
        nn::TokenIds{.bos = 50256, .eos = {50256}});
  mistral.drop("sliding_window");
  CHECK_NOTHROW(nn::LlamaConfig::from_pretrained(mistral.path));
  mistral.set("max_position_embeddings", "5000");
  CHECK_THROWS_WITH(nn::LlamaConfig::from_pretrained(mistral.path),
                    ContainsSubstring("sliding_window is missing"));
}

TEST_CASE("damaged configurations are read or refused, nothing else", "[nn][fuzz]") {
  std::vector<std::string> seeds;
  for (const char* name : {"gpt2", "llama3", "qwen2", "mistral"}) {
    seeds.push_back(read_file_text(Pretrained(name).folder + "/config.json"));
    CHECK(hero_fuzz::feed_config(std::as_bytes(std::span(seeds.back()))));
  }
  const int valid = hero_test::damage_and_feed(seeds, 4000, hero_fuzz::feed_config);
  CHECK(valid > 5);
  CHECK(valid < 3000);
  const std::string many = "{\"model_type\":\"llama\",\"num_hidden_layers\":1000000000000}";
  CHECK_FALSE(hero_fuzz::feed_config(std::as_bytes(std::span(many))));
  const CopiedFolder deep("llama");
  deep.set("num_hidden_layers", "1000000000000");
  CHECK_THAT(error_of<nn::Llama>(deep.path), ContainsSubstring("says 1000000000000 layers"));
}

TEST_CASE("a folder is read, draws text and is written") {
  const std::string folder = Pretrained("llama").folder;
  const hero_test::TempDir dir;
  const std::string out = dir / "out";
  const Tensor prompt = tensor({3, 1, 4});
  // [snippet: read]
  nn::Llama model = nn::Llama::from_pretrained(folder, {.dtype = kBFloat16});
  const Tensor text = model.generate(prompt, {.max_new_tokens = 20, .top_p = 0.9, .seed = 1});
  model.save_pretrained(out);  // transformers reads it
  // [end]
  CHECK(text.shape() == Shape{23});
  CHECK(equal(nn::Llama::from_pretrained(out, {.dtype = kBFloat16})(prompt), model(prompt)));
}

TEST_CASE("a model read in another dtype is that of the file converted") {
  const Pretrained golden("llama3");  // bfloat16, tied
  const nn::Llama wide = nn::Llama::from_pretrained(golden.folder);
  nn::Llama half = nn::Llama::from_pretrained(golden.folder, {.dtype = kBFloat16});
  CHECK(half.lm_head.weight.dtype() == kBFloat16);
  CHECK(is_same(half.lm_head.weight, half.model.embed_tokens.weight));
  half.to(kFloat32);
  const nn::StateDict a = wide.state_dict(), b = half.state_dict();
  for (size_t i = 0; i < a.size(); ++i) CHECK(test::same(a[i].array, b[i].array));
}

TEST_CASE("what is written keeps its dtype and says so") {
  const hero_test::TempDir dir;
  nn::Llama llama = nn::Llama::from_pretrained(Pretrained("llama_linear").folder);
  llama.to(kFloat16);
  llama.save_pretrained(dir / "");
  CHECK_THAT(read_file_text(dir / "config.json"),
             ContainsSubstring("\"torch_dtype\": \"float16\""));
  CHECK(core::load_safetensors(dir / "model.safetensors").arrays[0].array.dtype() == kFloat16);
  CHECK_THROWS_WITH(llama.save_pretrained(dir / "", {.max_shard_bytes = 10000}),
                    ContainsSubstring("holds model.safetensors already"));
}

TEST_CASE("what of a configuration a model does not have is one error that names the key") {
  const CopiedFolder gpt2("gpt2_bare"), llama("llama"), mistral("mistral");
  const auto wrong = [](const CopiedFolder& copy, const char* key, const char* json) {
    const std::string file = copy.path + "/config.json", before = read_file_text(file);
    copy.set(key, json);
    const bool is_gpt = copy.path.ends_with("gpt2_bare");
    const std::string error =
        is_gpt ? error_of<nn::GPT>(copy.path) : error_of<nn::Llama>(copy.path);
    INFO(key << ": " << error);
    CHECK_THAT(error, ContainsSubstring("config.json") && ContainsSubstring(key));
    CHECK(error.find('\n') == std::string::npos);
    std::ofstream(file) << before;
  };
  for (const auto& [key, json] : {std::pair("activation_function", "\"relu\""),
                                  {"model_type", "\"bert\""},
                                  {"n_inner", "100"},
                                  {"n_layer", "1.5"},
                                  {"scale_attn_weights", "false"},
                                  {"add_cross_attention", "true"},
                                  {"resid_pdrop", "0.5"},
                                  {"tie_word_embeddings", "3"}}) {
    wrong(gpt2, key, json);
  }
  for (const auto& [key, json] : {std::pair("hidden_act", "\"gelu\""),
                                  {"model_type", "\"mamba\""},
                                  {"num_attention_heads", "null"},
                                  {"quantization_config", "{}"},
                                  {"attention_dropout", "0.1"},
                                  {"router_jitter_noise", "0.0"}}) {
    wrong(llama, key, json);
  }
  wrong(mistral, "sliding_window", "8");
  llama.set("router_jitter_noise", "0.0");
  CHECK(error_of<nn::Llama>(llama.path, {.ignore_keys = {"router_jitter_noise"}}) == "");
}

TEST_CASE("a rotary scaling that is not known is an error of its own") {
  const CopiedFolder llama("llama3");
  const std::string file = llama.path + "/config.json", before = read_file_text(file);
  const auto error_with = [&](const std::string& old, const std::string& now) {
    std::string text = before;
    text.replace(text.find(old), old.size(), now);
    std::ofstream(file) << text;
    return error_of<nn::Llama>(llama.path);
  };
  CHECK_THAT(error_with("\"llama3\"", "\"longrope\""),
             ContainsSubstring("rope_parameters") &&
                 ContainsSubstring("default, linear, dynamic, yarn and llama3"));
  CHECK_THAT(error_with("\"llama3\"", "\"yarn\""),
             ContainsSubstring("'high_freq_factor' is not known of type yarn"));
  CHECK_THAT(error_with("\"factor\": 8.0,", ""), ContainsSubstring("it has no factor"));
  CHECK_THAT(error_with("\"low_freq_factor\": 1.0", "\"low_freq_factor\": 9.0"),
             ContainsSubstring("low_freq_factor 9"));
  CHECK_THAT(error_with("\"factor\": 8.0", "\"factor\": 8.0, \"beta_fast\": 3"),
             ContainsSubstring("'beta_fast' is not known of type llama3"));
}

TEST_CASE("missing, superfluous and mis-shaped tensors are one error, and so are missing files") {
  const CopiedFolder llama("mistral");
  const std::string file = llama.path + "/model.safetensors";
  auto arrays = core::load_safetensors(file).arrays;
  for (auto& [name, array] : arrays) {
    if (name == "model.norm.weight") name = "model.norm.scale";
    if (name == "lm_head.weight") array = array.t().contiguous();
  }
  core::save_safetensors(file, arrays);
  const std::string error = error_of<nn::Llama>(llama.path);
  INFO(error);
  CHECK_THAT(error, ContainsSubstring("missing: model.norm.weight") &&
                        ContainsSubstring("unexpected: model.norm.scale") &&
                        ContainsSubstring("wrong: lm_head.weight [24, 61] instead of [61, 24]"));
  fs::remove(file);
  CHECK_THAT(error_of<nn::Llama>(llama.path),
             ContainsSubstring("holds neither model.safetensors nor"));
  const CopiedFolder parts("gpt2");
  fs::remove(parts.path + "/model-00002-of-00003.safetensors");
  CHECK_THAT(error_of<nn::GPT>(parts.path),
             ContainsSubstring("model-00002-of-00003.safetensors, which is missing"));
  const std::string index = parts.path + "/model.safetensors.index.json";
  std::string text = read_file_text(index);
  const std::string part = "model-00001-of-00003.safetensors";
  for (size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += 3 + part.size()) {
    text.insert(at, "../");
  }
  std::ofstream(index) << text;
  fs::rename(parts.path + "/" + part, parts.path + "/../" + part);
  CHECK_THAT(error_of<nn::GPT>(parts.path),
             ContainsSubstring("names ../" + part + ", which leads out of the folder; "));
  CHECK_THAT(error_of<nn::GPT>("no/such"), ContainsSubstring("no/such is no folder"));
  // matrices of GPT-2 that somebody has turned already
  const CopiedFolder turned("gpt2_bare");
  auto weights = core::load_safetensors(turned.path + "/model.safetensors").arrays;
  for (auto& [name, array] : weights) {
    if (name == "h.0.mlp.c_fc.weight") array = array.t().contiguous();
  }
  core::save_safetensors(turned.path + "/model.safetensors", weights);
  CHECK_THAT(error_of<nn::GPT>(turned.path),
             ContainsSubstring("h.0.mlp.c_fc.weight [96, 24] instead of [24, 96]"));
}

TEST_CASE("a GPT that GPT-2 has no words for is not written") {
  const hero_test::TempDir dir;
  const nn::GPTConfig plain{
      .vocab_size = 5, .block_size = 4, .n_layer = 1, .n_head = 2, .n_embd = 4};
  nn::GPTConfig rotary = plain, grouped = plain, bare = plain;
  rotary.rotary = true;
  grouped.n_kv_head = 1;
  bare.bias = false;
  const std::string folder = dir / "out";
  CHECK_THROWS_WITH(nn::GPT(rotary).save_pretrained(folder), ContainsSubstring("rotary"));
  CHECK_THROWS_WITH(nn::GPT(grouped).save_pretrained(folder), ContainsSubstring("heads"));
  CHECK_THROWS_WITH(nn::GPT(bare).save_pretrained(folder), ContainsSubstring("bias"));
  const nn::DeviceScope meta(kMeta);
  CHECK_THROWS_WITH(nn::GPT(plain).save_pretrained(folder), ContainsSubstring("lies on meta"));
  CHECK(!path_exists(folder));
}

TEST_CASE("a tied head that the files have again has the values of the embedding") {
  const auto refuses = [](const auto& model, const std::string& embedding) {
    using Model = std::remove_cvref_t<decltype(model)>;
    const hero_test::TempDir dir;
    const std::string folder = dir / "tied", file = folder + "/model.safetensors";
    model.save_pretrained(folder);
    core::NamedArrays saved = core::load_safetensors(file);
    const Array table = saved.at(embedding);
    const auto write = [&](const Array& head) {
      std::vector<core::NamedArray> all = saved.arrays;
      all.push_back({"lm_head.weight", head});
      core::save_safetensors(file, all);
    };
    write(table);
    CHECK(test::same(Model::from_pretrained(folder).lm_head.weight.array(), table));
    write(Array::full(table.shape(), 7.0, kFloat32));
    CHECK_THROWS_WITH(Model::from_pretrained(folder),
                      ContainsSubstring(embedding + " and lm_head.weight have different values") &&
                          ContainsSubstring("tie_word_embeddings"));
    write(Array::full({2, 2}, 7.0, kFloat32));
    CHECK_THROWS_WITH(Model::from_pretrained(folder),
                      ContainsSubstring("wrong: lm_head.weight [2, 2] instead of"));
  };
  refuses(nn::GPT({.vocab_size = 5, .block_size = 3, .n_layer = 1, .n_head = 1, .n_embd = 4}),
          "transformer.wte.weight");
  refuses(nn::Llama({.vocab_size = 5,
                     .hidden_size = 4,
                     .intermediate_size = 6,
                     .num_hidden_layers = 1,
                     .num_attention_heads = 1,
                     .max_position_embeddings = 4,
                     .tie_word_embeddings = true}),
          "model.embed_tokens.weight");
}
