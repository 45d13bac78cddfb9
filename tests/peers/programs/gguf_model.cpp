// What Hero reads of GGUF files, for gguf_model.py.
//   gguf_model tensors FILE DTYPE OUT        every tensor, as safetensors
//   gguf_model metadata FILE                 every key with its value, a line each
//   gguf_model tokens MODEL TEXT OUT         the tokens of a text, and of a chat of three messages
//   gguf_model logits MODEL TOKENS OUT [FOLDER]  logits of tokens (safetensors, "tokens"), also
//   with the weights in their blocks ("quantized"); copies the model
//   gguf_model decode MODEL TOKENS COUNT     the likeliest tokens that follow, by generate(), then
//   by the logits of all tokens so far, then by generate() with the weights in their blocks
#include <cinttypes>
#include <cstdio>
#include <string>
#include <vector>

#include <hero/autograd/ops.h>
#include <hero/core/gguf.h>
#include <hero/core/io/file.h>
#include <hero/core/safetensors.h>
#include <hero/nn/data/bpe.h>
#include <hero/nn/data/chat.h>
#include <hero/nn/llama.h>

using namespace hero;

namespace {

DType dtype_named(const std::string& name) {
  for (const DType dtype : {kFloat32, kFloat64, kFloat16, kBFloat16}) {
    if (hero::name(dtype) == name) return dtype;
  }
  fail("gguf_model: unknown dtype ", name);
}

void tensors(const std::string& path, const std::string& dtype, const std::string& out) {
  const core::GGUFReader file(path);
  std::vector<core::NamedArray> arrays;
  for (const auto& entry : file.entries()) {
    arrays.push_back({entry.name, file.load(entry.name, dtype_named(dtype))});
  }
  core::save_safetensors(out, arrays);
}

// Returns whether the key has a value of the type that is tried, which is printed.
template <class Read>
bool prints(const Read& read) {
  try {
    read();
    return true;
  } catch (const Error&) {
    return false;
  }
}

void metadata(const std::string& path) {
  const core::GGUFReader file(path);
  for (const std::string& key : file.keys()) {
    const char* name = key.c_str();
    const bool known =
        prints([&] { std::printf("%s=%" PRId64 "\n", name, *file.integer(key)); }) ||
        prints([&] { std::printf("%s=%.17g\n", name, *file.number(key)); }) ||
        prints([&] { std::printf("%s=%s\n", name, *file.flag(key) ? "True" : "False"); }) ||
        prints([&] { std::printf("%s=%s\n", name, file.text(key)->c_str()); }) || prints([&] {
          const auto list = *file.integers(key);
          std::printf("%s=", name);
          for (const int64_t one : list) std::printf("%" PRId64 ",", one);
          std::printf("\n");
        }) ||
        prints([&] {
          const auto list = *file.numbers(key);
          std::printf("%s=", name);
          for (const double one : list) std::printf("%.17g,", one);
          std::printf("\n");
        }) ||
        prints([&] {
          const auto list = *file.texts(key);
          std::printf("%s=", name);
          for (const std::string& one : list) std::printf("%s,", one.c_str());
          std::printf("\n");
        });
    if (!known) std::printf("%s is of another type\n", name);
  }
}

void tokens(const std::string& model, const std::string& text_file, const std::string& out) {
  const auto tokenizer = nn::data::BPETokenizer::from_pretrained(model);
  const auto chat = nn::data::ChatTemplate::from_pretrained(model);
  const std::string text = read_file_text(text_file);
  const std::vector<nn::data::ChatMessage> messages = {
      {"user", "  What is it?\n"}, {"assistant", "\nIt's 12 \xc3\xa4pfel.  "}, {"user", "Thanks"}};
  const auto array = [](const std::vector<int64_t>& list) {
    return Array::from(list, {static_cast<int64_t>(list.size())});
  };
  const std::vector<core::NamedArray> results = {
      {"text", array(tokenizer.encode(text, nn::data::SpecialTokens::ignore, false))},
      {"chat", array(chat.encode(tokenizer, messages))}};
  core::save_safetensors(out, results);
  check(tokenizer.decode(results[0].array.to_vector<int64_t>()) == text,
        "gguf_model: the tokens of the text are another text");
}

void logits(const std::string& path, const std::string& tokens, const std::string& out,
            const std::string& folder) {
  nn::Llama model = nn::Llama::from_pretrained(path);
  if (!folder.empty()) model.save_pretrained(folder);
  model.eval();
  const NoGrad no_grad;
  const Tensor y = model(Tensor(core::load_safetensors(tokens).at("tokens")));
  nn::Llama in_blocks = nn::Llama::from_pretrained(path, {.quantized = true});
  in_blocks.eval();
  const Tensor z = in_blocks(Tensor(core::load_safetensors(tokens).at("tokens")));
  const std::vector<core::NamedArray> results{{"logits", y.array().contiguous()},
                                              {"quantized", z.array().contiguous()}};
  core::save_safetensors(out, results);
}

void print_tokens(const std::vector<int64_t>& row, int64_t count) {
  for (auto token = row.end() - count; token != row.end(); ++token) {
    std::printf("%" PRId64 " ", *token);
  }
  std::printf("\n");
}

void decode(const std::string& path, const std::string& tokens, int64_t count) {
  const Tensor prompt = Tensor(core::load_safetensors(tokens).at("tokens"))[0];
  const nn::GenerateOptions likeliest{.max_new_tokens = count, .temperature = 0.0};
  nn::Llama model = nn::Llama::from_pretrained(path);
  model.eval();
  print_tokens(model.generate(prompt, likeliest).to_vector<int64_t>(), count);
  const NoGrad no_grad;
  Tensor row = prompt;
  for (int64_t i = 0; i < count; ++i) {
    const Tensor logits = model(row);
    row = cat({row, argmax(logits[logits.size(0) - 1]).reshape({1})}, 0);
  }
  print_tokens(row.to_vector<int64_t>(), count);
  nn::Llama in_blocks = nn::Llama::from_pretrained(path, {.quantized = true});
  in_blocks.eval();
  print_tokens(in_blocks.generate(prompt, likeliest).to_vector<int64_t>(), count);
}

int run(const std::vector<std::string>& words) {
  if (words.size() == 4 && words[0] == "tensors") {
    tensors(words[1], words[2], words[3]);
  } else if (words.size() == 2 && words[0] == "metadata") {
    metadata(words[1]);
  } else if (words.size() == 4 && words[0] == "tokens") {
    tokens(words[1], words[2], words[3]);
  } else if (words.size() >= 4 && words[0] == "logits") {
    logits(words[1], words[2], words[3], words.size() > 4 ? words[4] : "");
  } else if (words.size() == 4 && words[0] == "decode") {
    decode(words[1], words[2], std::stoll(words[3]));
  } else {
    return 2;
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run({argv + 1, argv + argc});
  } catch (const Error& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
