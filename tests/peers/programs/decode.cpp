// The likeliest text of a folder of Hugging Face's transformers; see decode.py.
//   decode gpt|llama FOLDER PROMPTS TOKENS BATCH
// reads prompts (safetensors, "prompts" [B, T]), draws TOKENS for the first BATCH of them, and
// writes the seconds of the second of two runs, then the tokens of each row.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>

#include <hero/autograd/ops.h>
#include <hero/core/safetensors.h>
#include <hero/nn/gpt.h>
#include <hero/nn/llama.h>

using namespace hero;

namespace {

template <class Model>
int decode(Model model, const Tensor& prompts, int64_t tokens) {
  model.eval();
  const nn::GenerateOptions options{.max_new_tokens = tokens, .temperature = 0.0};
  Tensor text;
  double seconds = 0.0;
  for (int run = 0; run < 2; ++run) {
    const auto start = std::chrono::steady_clock::now();
    text = model.generate(prompts, options);
    seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  std::printf("%.6f\n", seconds);
  for (const int64_t id : text.template to_vector<int64_t>()) {
    std::printf("%lld ", static_cast<long long>(id));
  }
  std::printf("\n");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 6) return 2;
  const std::string kind = argv[1], folder = argv[2];
  const Tensor all(core::load_safetensors(argv[3]).at("prompts"));
  const Tensor prompts = all.slice(0, 0, std::atoll(argv[5]));
  const int64_t tokens = std::atoll(argv[4]);
  if (kind == "gpt") return decode(nn::GPT::from_pretrained(folder), prompts, tokens);
  return decode(nn::Llama::from_pretrained(folder), prompts, tokens);
}
