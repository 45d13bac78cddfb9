// The likeliest text of a folder of Hugging Face's transformers; see decode.py.
//   decode gpt|llama FOLDER PROMPTS TOKENS BATCH WEIGHTS
// reads prompts (safetensors, "prompts" [B, T]), draws TOKENS for the first BATCH of them, and
// writes the seconds until the first token and those of all, each of the second of two runs, then
// the tokens of each row. WEIGHTS are float32, bfloat16, or a type such as Q4_1, to which linear
// layers are quantised.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>

#include <hero/autograd/ops.h>
#include <hero/core/safetensors.h>
#include <hero/nn/gpt.h>
#include <hero/nn/llama.h>
#include <hero/nn/quantized.h>

using namespace hero;

namespace {

template <class Model>
int decode(const std::string& folder, const std::string& weights, const Tensor& prompts,
           int64_t tokens) {
  const bool half = weights == "bfloat16";
  Model model = Model::from_pretrained(folder, {.dtype = half ? kBFloat16 : kFloat32});
  if (!half && weights != "float32") nn::quantize_linear(model, weights);
  model.eval();
  Tensor text;
  for (const int64_t count : {int64_t{1}, tokens}) {
    double seconds = 0.0;
    for (int run = 0; run < 2; ++run) {
      const auto start = std::chrono::steady_clock::now();
      text = model.generate(prompts, {.max_new_tokens = count, .temperature = 0.0});
      seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    }
    std::printf("%.6f\n", seconds);
  }
  for (const int64_t id : text.template to_vector<int64_t>()) {
    std::printf("%lld ", static_cast<long long>(id));
  }
  std::printf("\n");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 7) return 2;
  const std::string kind = argv[1], folder = argv[2];
  const Tensor all(core::load_safetensors(argv[3]).at("prompts"));
  const Tensor prompts = all.slice(0, 0, std::atoll(argv[5]));
  const int64_t tokens = std::atoll(argv[4]);
  if (kind == "gpt") return decode<nn::GPT>(folder, argv[6], prompts, tokens);
  return decode<nn::Llama>(folder, argv[6], prompts, tokens);
}
