// A GPT on the King James text, for comparison with the same one in PyTorch; see gpt.py.
//   gpt prepare FOLDER STEPS   writes the batches of all steps and of the validation
//   gpt train FOLDER SEED      trains on them; writes first weights, losses and the validation loss
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include <hero/autograd/autograd.h>
#include <hero/core/safetensors.h>
#include <hero/nn/data/bpe.h>
#include <hero/nn/data/king_james.h>
#include <hero/nn/data/tokens.h>
#include <hero/nn/gpt.h>
#include <hero/optim/optim.h>

using namespace hero;

namespace {

constexpr int64_t kVocab = 1024, kBlock = 64, kBatch = 12, kValidation = 40;
constexpr double kRate = 3e-3;

// Inputs and targets side by side: [batches, 2, B, T], int64.
Array batches_of(const nn::data::TokenDataset& text, uint64_t seed, int64_t count) {
  std::vector<Tensor> all;
  for (int64_t i = 0; i < count; ++i)
    all.push_back(stack(text.random_batch(kBatch, seed, i).fields()));
  return stack(all).array();
}

void prepare(const std::string& folder, int64_t steps) {
  const std::string text = nn::data::king_james({.references = false});
  const auto tokenizer = nn::data::BPETokenizer::train(text, {.vocab_size = kVocab});
  const nn::data::Tokens tokens(tokenizer.encode(text));
  const int64_t cut = tokens.size() - tokens.size() / 10;
  const nn::data::TokenDataset train(tokens.part(0, cut), {.block = kBlock});
  const nn::data::TokenDataset validation(tokens.part(cut, tokens.size()), {.block = kBlock});
  const std::vector<core::NamedArray> arrays{
      {"train", batches_of(train, 1, steps)},
      {"validation", batches_of(validation, 0, kValidation)}};
  core::save_safetensors(folder + "/batches.safetensors", arrays);
}

Tensor loss_of(nn::GPT& model, const Tensor& batch) {
  return cross_entropy(flatten(model(batch[0]), 0, 1), flatten(batch[1]));
}

double validation_loss(nn::GPT& model, const Tensor& batches) {
  const NoGrad no_grad;
  double sum = 0.0;
  for (int64_t i = 0; i < batches.size(0); ++i) sum += loss_of(model, batches[i]).item();
  return sum / static_cast<double>(batches.size(0));
}

optim::AdamW make_optimizer(const nn::GPT& model) {
  std::vector<Tensor> matrices, vectors;
  for (const Tensor& p : model.parameters()) {
    (whole_shape(p).size() >= 2 ? matrices : vectors).push_back(p);
  }
  return optim::AdamW({{matrices, {.lr = kRate, .betas = {0.9, 0.95}, .weight_decay = 0.1}},
                       {vectors, {.lr = kRate, .betas = {0.9, 0.95}, .weight_decay = 0.0}}});
}

void train(const std::string& folder, const std::string& seed) {
  const core::NamedArrays data = core::load_safetensors(folder + "/batches.safetensors");
  const Tensor batches(data.at("train")), validation(data.at("validation"));
  const int64_t steps = batches.size(0), warm = steps / 20 + 1;
  manual_seed(std::strtoull(seed.c_str(), nullptr, 10));
  nn::GPT model(
      {.vocab_size = kVocab, .block_size = kBlock, .n_layer = 4, .n_head = 4, .n_embd = 128});
  model.save(folder + "/start_" + seed + ".safetensors");
  optim::AdamW adamw = make_optimizer(model);
  optim::Schedule schedule(
      adamw,
      optim::SequentialLR{
          {optim::LinearLR{.start_factor = 1.0 / static_cast<double>(warm), .total_iters = warm},
           optim::CosineAnnealingLR{.t_max = steps - warm, .eta_min = kRate / 10}},
          {warm}});
  const auto begin = std::chrono::steady_clock::now();
  std::vector<double> losses;
  for (int64_t step = 0; step < steps; ++step) {
    adamw.zero_grad();
    const Tensor loss = loss_of(model, batches[step]);
    loss.backward();
    optim::clip_grad_norm(model.parameters(), 1.0);
    adamw.step();
    schedule.step();
    losses.push_back(loss.item());
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  const std::vector<core::NamedArray> result{
      {"losses", Array::from(losses, {steps})},
      {"validation", Array::full({}, validation_loss(model, validation), kFloat64)},
      {"seconds", Array::full({}, seconds.count(), kFloat64)}};
  core::save_safetensors(folder + "/hero_" + seed + ".safetensors", result);
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  try {
    check(words.size() == 3, "usage: gpt prepare FOLDER STEPS, gpt train FOLDER SEED");
    if (words[0] == "prepare") {
      prepare(words[1], std::strtoll(words[2].c_str(), nullptr, 10));
    } else {
      train(words[1], words[2]);
    }
    return 0;
  } catch (const Error& error) {
    std::fprintf(stderr, "gpt: %s\n", error.what());
    return 1;
  }
}
