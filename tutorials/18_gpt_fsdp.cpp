// The GPT of chapter 8 on FSDP: sharded, trained, saved, and resumed on other numbers of ranks
#include <filesystem>

#include "support/ladder.h"
#include "support/language.h"

#include <hero/dist/checkpoint.h>
#include <hero/nn/nn.h>

using hero::Array, hero::Tensor;
using hero::dist::Communicator;
using tutorial::Corpus, tutorial::everywhere, tutorial::RankTable, tutorial::say;
namespace dist = hero::dist;
namespace nn = hero::nn;
namespace optim = hero::optim;

namespace {

constexpr int64_t kHalf = 60, kSteps = 120, kRows = 2;  // samples of a micro-batch
constexpr double kRate = 6e-3;

// [snippet: model]
nn::GPTConfig config_of(const Corpus& corpus) {
  return {.vocab_size = corpus.tokenizer->vocab_size(),
          .block_size = 64,
          .n_layer = 2,
          .n_head = 4,
          .n_embd = 64};
}

nn::GPT make_model(const Corpus& corpus) {
  hero::manual_seed(1);
  const nn::DeviceScope meta(hero::kMeta);
  return nn::GPT(config_of(corpus));
}

// Weight decay is for matrices, so this asks for shapes before there are shards.
optim::AdamW make_optimizer(const nn::GPT& model) {
  std::vector<Tensor> matrices, vectors;
  for (const Tensor& p : model.parameters()) (p.ndim() >= 2 ? matrices : vectors).push_back(p);
  const optim::AdamWOptions decay{.lr = kRate, .betas = {0.9, 0.95}, .weight_decay = 0.1};
  const optim::AdamWOptions plain{.lr = kRate, .betas = {0.9, 0.95}, .weight_decay = 0.0};
  return optim::AdamW({{matrices, decay}, {vectors, plain}});
}
// [end]

// [snippet: run]
struct Run {
  Run(const Communicator& group, const Corpus& text, const std::string& folder)
      : ranks(group), corpus(text), checkpoint(folder, group) {
    checkpoint.track("model", model);
    checkpoint.track("optimizer", adamw);
    checkpoint.track("schedule", schedule);
  }
  const Communicator& ranks;
  const Corpus& corpus;
  nn::GPT model = make_model(corpus);
  optim::AdamW adamw = make_optimizer(model);
  optim::Schedule schedule{adamw, optim::CosineAnnealingLR{.t_max = kSteps, .eta_min = kRate / 10}};
  dist::DataParallel sharded = dist::fully_shard(model, ranks, {.unit = dist::each<nn::Block>()});
  dist::Checkpointer checkpoint;

  double step(int64_t index, int micro_batches);
  uint64_t bits() const {
    const auto whole = sharded.summon_full_parameters();
    return tutorial::bits_of(model.parameters());
  }
};
// [end]

// [snippet: step]
// One step on some micro-batches, of which each rank takes its share; their mean loss.
double Run::step(int64_t index, int micro_batches) {
  const dist::Part mine = dist::part_of({}, micro_batches, ranks.size(), ranks.rank());
  const Array loss_sum = Array::zeros({1});
  adamw.zero_grad();
  for (int64_t i = mine.begin; i < mine.begin + mine.count; ++i) {
    const auto batch = corpus.train.random_batch(kRows, 1, index * micro_batches + i);
    sharded.set_requires_gradient_sync(i + 1 == mine.begin + mine.count);  // the last one reduces
    const Tensor scores = model(batch[0]);
    const Tensor loss = cross_entropy(flatten(scores, 0, 1), flatten(batch[1]));
    (loss / static_cast<double>(mine.count)).backward();
    Tensor(loss_sum).add_(loss.detach() / micro_batches);
  }
  optim::clip_grad_norm(model.parameters(), 1.0);
  adamw.step();
  schedule.step();
  ranks.all_reduce(loss_sum, {.unit = "loss"});
  return loss_sum.item();
}
// [end]

void show_memory(const Communicator& world) {
  const hero::Ledger& ledger = hero::current_ledger();
  RankTable table(world);
  table.row("parameters", ledger.live(hero::MemoryTag::parameter));
  table.row("optimizer", ledger.live(hero::MemoryTag::optimizer));
  table.row("sent in a step", world.traffic().bytes());
  table.print("bytes of a rank");
}

// Trains to the end, or to `until`; prints the mean loss of every twenty steps.
void train(const Communicator& world, Run& run, int64_t from, int64_t until) {
  double sum = 0.0;
  for (int64_t i = from; i < until; ++i) {
    world.traffic().reset();
    sum += run.step(i, world.size());
    if ((i + 1) % 20 != 0) continue;
    say(run.ranks, "  step %3d  loss %.3f\n", static_cast<int>(i + 1), sum / 20);
    sum = 0.0;
  }
}

// [snippet: resume]
// The second half again, by the first `size` ranks.
void resume(const Communicator& world, int size, const Corpus& corpus, const std::string& folder,
            uint64_t saved, uint64_t finished) {
  std::vector<int> members;
  for (int rank = 0; rank < size; ++rank) members.push_back(rank);
  if (world.rank() >= size) members.clear();
  const Communicator group = world.group(members);
  if (!group.defined()) return;
  Run run(group, corpus, folder);
  const int64_t step = run.checkpoint.resume().value();
  const bool same = everywhere(group, run.bits() == saved);
  say(group, "\nresumed at step %d on %d ranks: %s\n", static_cast<int>(step), size,
      same ? "the bits that were saved" : "OTHER bits than were saved");
  train(world, run, step, kSteps);
  say(group, "  after step %d: %s\n", static_cast<int>(kSteps),
      everywhere(group, run.bits() == finished) ? "the bits of the run that never stopped"
                                                : "other last bits: sums in another order");
}
// [end]

// [snippet: write]
void write(const Communicator& world, const Corpus& corpus, const std::string& file) {
  if (world.rank() > 0) return;
  nn::GPT model(config_of(corpus));  // one process, which knows nothing of ranks
  model.load(file);
  const Tensor prompt = hero::tensor(corpus.tokenizer->encode("In the beginning"));
  const Tensor tokens =
      model.generate(prompt, {.max_new_tokens = 100, .temperature = 0.5, .seed = 1});
  say(world, "\n%s\n", tutorial::moved_in(corpus.tokenizer->decode(tokens)).c_str());
}
// [end]

}  // namespace

int main(int argc, char** argv) {
  const char* title = "A GPT on FSDP, saved and resumed on other numbers of ranks.";
  return tutorial::run_ranks(argc, argv, {.title = title}, [](Communicator& world, auto& out) {
    const std::string folder = out + "/18_gpt_fsdp";
    if (world.rank() == 0) std::filesystem::remove_all(folder);
    world.barrier();
    const Corpus corpus = tutorial::king_james_corpus({.characters = 200'000, .silent = true});
    uint64_t saved = 0, finished = 0;
    {
      Run run(world, corpus, folder);
      say(world, "%d ranks\n", world.size());
      train(world, run, 0, kHalf);
      show_memory(world);
      run.checkpoint.save(kHalf);
      saved = run.bits();
      train(world, run, kHalf, kSteps);
      finished = run.bits();
      dist::save_full(folder + "/gpt.safetensors", world, run.model);
    }
    for (int size = world.size(); size >= 1; --size) {
      if (world.size() % size == 0) resume(world, size, corpus, folder, saved, finished);
    }
    write(world, corpus, folder + "/gpt.safetensors");
  });
}
