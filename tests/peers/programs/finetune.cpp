// Adapters of a language model in a GGUF file learn the King James text, for finetune.py.
//   finetune begin MODEL STEPS BATCH LENGTH TOKENS ADAPTERS FOLDER
//     writes sequences of tokens [STEPS, BATCH, LENGTH + 1], the adapters as they are at first, and
//     the model as a folder
//   finetune train MODEL TOKENS ADAPTERS float32|bfloat16
//     prints the loss and the seconds of each step, and at the end the most memory, in MB
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include <sys/resource.h>

#include <hero/autograd/autograd.h>
#include <hero/core/safetensors.h>
#include <hero/nn/data/data.h>
#include <hero/nn/nn.h>
#include <hero/optim/optim.h>

using namespace hero;

namespace {

const nn::LoRAOptions kAdapters{
    .rank = 8,
    .alpha = 16.0,
    .targets = {"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"}};

void begin(const std::vector<std::string>& words) {
  const int64_t steps = std::stoll(words[2]), batch = std::stoll(words[3]),
                length = std::stoll(words[4]);
  const auto tokenizer = nn::data::BPETokenizer::from_pretrained(words[1]);
  const int64_t count = steps * batch * (length + 1);
  // about four characters a token
  const std::string text =
      nn::data::king_james({.references = false}).substr(0, static_cast<size_t>(count * 8));
  std::vector<int64_t> tokens = tokenizer.encode(text);
  check(static_cast<int64_t>(tokens.size()) >= count, "finetune: the text has ", tokens.size(),
        " tokens");
  tokens.resize(static_cast<size_t>(count));
  core::save_safetensors(
      words[5],
      std::vector<core::NamedArray>{{"tokens", Array::from(tokens, {steps, batch, length + 1})}});
  manual_seed(1);
  nn::Llama model = nn::Llama::from_pretrained(words[1]);
  model.save_pretrained(words[7]);
  nn::add_lora(model, kAdapters);
  nn::save_lora(model, words[6]);
}

void train(const std::string& path, const std::string& tokens_file, const std::string& adapters,
           bool half) {
  nn::Llama model = nn::Llama::from_pretrained(path);
  nn::add_lora(model, kAdapters);
  nn::load_lora(model, adapters);
  const Tensor tokens(core::load_safetensors(tokens_file).at("tokens"));
  const int64_t length = tokens.size(2) - 1;
  optim::AdamW adamw(nn::lora_parameters(model), {.lr = 2e-4, .weight_decay = 0.0});
  for (int64_t step = 0; step < tokens.size(0); ++step) {
    const auto before = std::chrono::steady_clock::now();
    const Tensor rows = tokens[step];
    double loss = 0.0;
    {
      const Autocast precision({.dtype = kBFloat16, .enabled = half});
      const Tensor mean = model.loss(rows.slice(1, 0, length), rows.slice(1, 1, length + 1));
      mean.backward();
      loss = mean.item();
    }
    optim::clip_grad_norm(nn::lora_parameters(model), 1.0);
    adamw.step();
    adamw.zero_grad();
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - before;
    std::printf("%.9g %.9g\n", loss, passed.count());
    std::fflush(stdout);
  }
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  std::printf("%ld\n", usage.ru_maxrss / 1000);
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  try {
    if (words.size() == 8 && words[0] == "begin") {
      begin(words);
    } else if (words.size() == 5 && words[0] == "train") {
      train(words[1], words[2], words[3], words[4] == "bfloat16");
    } else {
      return 2;
    }
    return 0;
  } catch (const Error& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
