// A Llama from a folder of Hugging Face's transformers, fine-tuned by adapters on several ranks,
// saved, and sampled. docs/guides/pretrained.md explains it.
//
//   ./llama_lora --ranks 2 --model Llama-3.2-1B --tokens tokens.txt --steps 100 --out tuned

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <ostream>
#include <string>
#include <vector>

#include <hero/autograd/autograd.h>
#include <hero/core/io/file.h>
#include <hero/dist/dist.h>
#include <hero/nn/nn.h>
#include <hero/optim/optim.h>

using namespace hero;

// The numbers of tokens that a tokenizer has written into a file.
Tensor read_tokens(const std::string& path, int64_t at_least) {
  std::ifstream file(path);
  check(file.good(), "llama_lora: cannot read ", path);
  const std::vector<int64_t> ids{std::istream_iterator<int64_t>(file), {}};
  check(file.eof(), "llama_lora: what follows ", ids.size(), " tokens in ", path, " is no number");
  check(static_cast<int64_t>(ids.size()) >= at_least, "llama_lora: ", path, " has ", ids.size(),
        " tokens, fewer than ", at_least);
  return tensor(ids);
}

nn::Llama with_adapters(const std::string& folder) {
  nn::Llama llama = nn::Llama::from_pretrained(folder);
  nn::add_lora(llama, {.rank = 4, .alpha = 8.0, .targets = {"q_proj", "v_proj", "down_proj"}});
  return llama;
}

// Each rank takes its own pieces of the text; gradients are averaged, and are those of adapters
// alone. Every rank ends with the adapters' whole state.
nn::StateDict fine_tune(dist::Communicator& world, const std::string& folder, const Tensor& text,
                        int64_t steps) {
  nn::Llama llama = with_adapters(folder);
  const int64_t T = std::min<int64_t>(llama.context_length(), 32), pieces = text.numel() - T;
  // [snippet: train]
  const auto sharded = dist::fully_shard(llama, world, {.unit = dist::each<nn::Block>()});
  optim::AdamW adamw(nn::lora_parameters(llama), {.lr = 1e-2, .weight_decay = 0.0});
  optim::Schedule schedule(adamw, optim::CosineAnnealingLR{.t_max = steps});
  // [end]
  for (int64_t step = 0; step < steps; ++step) {
    const int64_t begin = (step * world.size() + world.rank()) * 7 % pieces;
    const Tensor tokens = text.slice(0, begin, begin + T);
    const Tensor targets = text.slice(0, begin + 1, begin + T + 1);
    const Tensor loss = llama.loss(tokens, targets);
    loss.backward();
    optim::clip_grad_norm(adamw.parameters(), 1.0);
    adamw.step();
    adamw.zero_grad();
    schedule.step();
    const auto all = dist::gather_metrics(world, {{"loss", loss.item()}});
    if (step == 0 || step + 1 == steps) {
      world.out() << "step " << step + 1 << ", loss " << all[0].mean << "\n";
    }
  }
  return nn::lora_state_dict(sharded.full_state_dict());
}

// The adapters become part of the weights, in a folder that transformers reads, too.
void merge_and_sample(const nn::StateDict& adapters, const std::string& folder,
                      const std::string& out, const Tensor& prompt) {
  nn::Llama llama = with_adapters(folder);
  llama.load_state_dict(adapters, {.strict = false});
  nn::save_lora(llama, out + "/adapters.safetensors");
  nn::merge_lora(llama);
  nn::remove_lora(llama);
  llama.save_pretrained(out);
  const Tensor drawn = nn::Llama::from_pretrained(out).generate(
      prompt, {.max_new_tokens = 16, .temperature = 0.7, .top_p = 0.9, .seed = 1});
  std::string line;
  for (const int64_t id : drawn.to_vector<int64_t>()) line += " " + std::to_string(id);
  std::printf("tokens:%s\n", line.c_str());
}

void run(dist::Communicator& world, int argc, char** argv) {
  std::map<std::string, std::string> options = {
      {"--model", ""}, {"--tokens", ""}, {"--steps", "100"}, {"--out", "tuned"}};
  for (int i = 1; i + 1 < argc; i += 2) options[argv[i]] = argv[i + 1];
  check(options.size() == 4 && argc % 2 == 1 && !options["--model"].empty(),
        "llama_lora: options are --model FOLDER, --tokens FILE, --steps N and --out FOLDER");
  const int64_t steps = std::atoll(options["--steps"].c_str());
  check(steps > 0 && std::to_string(steps) == options["--steps"], "llama_lora: --steps ",
        options["--steps"], " is no whole number above 0");
  const Tensor text = read_tokens(options["--tokens"], 64);
  if (world.rank() == 0) make_folders("llama_lora", options["--out"]);
  manual_seed(1);  // the adapters' first values are the same on every rank
  const nn::StateDict adapters = fine_tune(world, options["--model"], text, steps);
  if (world.rank() > 0) return;
  merge_and_sample(adapters, options["--model"], options["--out"], text.slice(0, 0, 8));
}

int main(int argc, char** argv) {
  return dist::launch(argc, argv, [&](auto& world) { run(world, argc, argv); });
}
