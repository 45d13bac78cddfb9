// The GPT of chapter 8a on FSDP: sharded, trained, saved, and resumed on other numbers of ranks
#include <filesystem>

#include "support/lessons/data_parallel.h"
#include "support/lessons/language.h"
#include "support/options/device.h"
#include "support/options/page.h"
#include "support/pictures/resumes.h"

#include <hero/core/error.h>
#include <hero/core/io/file.h>
#include <hero/dist/checkpoint.h>
#include <hero/nn/nn.h>

using hero::Array, hero::Tensor;
using hero::dist::Communicator;
using tutorial::Corpus, tutorial::RunCurve, tutorial::device, tutorial::everywhere,
    tutorial::RankTable, tutorial::say;
namespace dist = hero::dist;
namespace nn = hero::nn;
namespace optim = hero::optim;

namespace {

constexpr int64_t kRows = 2;  // samples of a micro-batch
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

// Weight decay is for matrices. A shard has one dimension; whole_shape() is that of all its parts.
optim::AdamW make_optimizer(const nn::GPT& model) {
  std::vector<Tensor> matrices, vectors;
  for (const Tensor& p : model.parameters()) {
    (whole_shape(p).size() >= 2 ? matrices : vectors).push_back(p);
  }
  const optim::AdamWOptions decay{.lr = kRate, .betas = {0.9, 0.95}, .weight_decay = 0.1};
  const optim::AdamWOptions plain{.lr = kRate, .betas = {0.9, 0.95}, .weight_decay = 0.0};
  return optim::AdamW({{matrices, decay}, {vectors, plain}});
}
// [end]

// [snippet: run]
struct Job {
  const Corpus& corpus;
  std::string folder;  // for checkpoints
  int64_t steps;
};

struct Run {
  Run(const Communicator& group, const Job& what)
      : ranks(group), job(what), checkpoint(job.folder, group) {
    checkpoint.track("model", model);
    checkpoint.track("optimizer", adamw);
    checkpoint.track("schedule", schedule);
  }
  const Communicator& ranks;
  const Job& job;
  nn::GPT model = make_model(job.corpus);
  optim::AdamW adamw = make_optimizer(model);
  optim::Schedule schedule{adamw,
                           optim::CosineAnnealingLR{.t_max = job.steps, .eta_min = kRate / 10}};
  dist::DataParallel sharded =
      dist::fully_shard(model, ranks, {.unit = dist::each<nn::Block>(), .device = device()});
  dist::Checkpointer checkpoint;

  double step(int64_t index, int micro_batches);
  uint64_t bits() const {
    const auto whole = sharded.summon_full_parameters();
    return tutorial::bits_of(model.parameters());
  }
};
// [end]

// [snippet: step]
// One step on some micro-batches, of which the ranks take turns; their mean loss.
double Run::step(int64_t index, int micro_batches) {
  const Array loss_sum = Array::zeros({1}, hero::kFloat32, device());
  adamw.zero_grad();
  optim::Accumulator gradients(model.parameters());
  for (int64_t i = ranks.rank(); i < micro_batches; i += ranks.size()) {
    const auto batch =
        job.corpus.train.random_batch(kRows, 1, index * micro_batches + i).to(device());
    const Tensor logits = model(batch[0]);
    const Tensor loss = cross_entropy(flatten(logits, 0, 1), flatten(batch[1]));
    loss.backward();  // the mean over the ranks, of which each keeps its shard
    gradients.add();
    Tensor(loss_sum).add_(loss.detach() / micro_batches);
  }
  gradients.mean();
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
  table.row("parameters", ledger.live(hero::MemoryTag::parameter, device().type));
  table.row("optimizer", ledger.live(hero::MemoryTag::optimizer, device().type));
  table.row("sent in a step", world.traffic().bytes());
  table.print("bytes of a rank");
}

// The runs so far, on the rank that draws them.
thread_local std::vector<RunCurve> curves;

// Trains from one step to another; prints the mean loss of every sixth of a whole run.
void train(const Communicator& world, Run& run, int64_t from, int64_t until) {
  const int64_t every = std::max<int64_t>(1, run.job.steps / 6);
  double sum = 0.0;
  for (int64_t i = from; i < until; ++i) {
    world.traffic().reset();
    const double loss = run.step(i, world.size());
    curves.back().losses.push_back(loss);
    tutorial::note_step(curves.back().name,
                        {{"loss", loss},
                         {"rate", run.adamw.lr()},
                         {"sent, MB", 1e-6 * static_cast<double>(world.traffic().bytes())}});
    sum += loss;
    if ((i + 1) % every != 0) continue;
    say(run.ranks, "  step %3d  loss %.3f\n", static_cast<int>(i + 1),
        sum / static_cast<double>(every));
    sum = 0.0;
  }
  const hero::Ledger& ledger = hero::current_ledger();
  curves.back().parameters = ledger.live(hero::MemoryTag::parameter, device().type);
  curves.back().optimizer = ledger.live(hero::MemoryTag::optimizer, device().type);
}

// A group of the first `size` ranks; undefined on all others.
Communicator first_ranks(const Communicator& world, int size) {
  std::vector<int> members;
  for (int rank = 0; rank < size; ++rank) members.push_back(rank);
  if (world.rank() >= size) members.clear();
  return world.group(members);
}

std::string ranks_of(int size) { return std::to_string(size) + (size == 1 ? " rank" : " ranks"); }

void say_end(const Communicator& group, const Run& run, uint64_t finished) {
  say(group, "  after step %d: %s\n", static_cast<int>(run.job.steps),
      everywhere(group, run.bits() == finished) ? "the bits of the run that never stopped"
                                                : "other last bits: sums in another order");
}

// [snippet: resume]
// The second half again, by the first `size` ranks.
void resume(const Communicator& world, int size, const Job& job, uint64_t saved,
            uint64_t finished) {
  const Communicator group = first_ranks(world, size);
  if (!group.defined()) return;
  Run run(group, job);
  const int64_t step = run.checkpoint.resume().value();
  const bool same = everywhere(group, run.bits() == saved);
  say(group, "\nresumed at step %d on %s: %s\n", static_cast<int>(step), ranks_of(size).c_str(),
      same ? "the bits that were saved" : "OTHER bits than were saved");
  curves.push_back({"resumed on " + ranks_of(size), size, step});
  train(world, run, step, job.steps);
  say_end(group, run, finished);
}
// [end]

// All steps by one process, which takes the micro-batches of all ranks one after the other.
void train_alone(const Communicator& world, const Job& job, uint64_t finished) {
  const Communicator group = first_ranks(world, 1);
  if (!group.defined()) return;
  Run run(group, job);
  say(group, "\none process, from the first step\n");
  curves.push_back({"one process, from the first step", 1, 0});
  train(world, run, 0, job.steps);
  say_end(group, run, finished);
}

// [snippet: write]
void write(const Communicator& world, const Corpus& corpus, const std::string& file) {
  if (world.rank() > 0) return;
  nn::GPT model(config_of(corpus));  // one process, which knows nothing of ranks
  model.load(file);
  const Tensor prompt =
      hero::tensor(corpus.tokenizer->encode("In the beginning"), {.device = device()});
  const Tensor tokens =
      model.generate(prompt, {.max_new_tokens = 100, .temperature = 0.5, .seed = 1});
  say(world, "\n%s\n", tutorial::moved_in(corpus.tokenizer->decode(tokens)).c_str());
}
// [end]

// Nothing of an earlier run is left in it.
void begin_folder(const std::string& folder) {
  std::error_code failed;
  std::filesystem::remove_all(folder, failed);
  hero::check(!failed, "--out: cannot remove the folder ", folder, ": ", failed.message());
  hero::make_folders("--out", folder);
}

void draw_curves(const Job& job, const std::string& folder) {
  const int64_t every = std::max<int64_t>(1, job.steps / 24);
  draw_run_losses(curves, job.steps / 2, every, folder);
  curves.pop_back();  // one process holds what the run that resumed on one rank holds
  curves.erase(curves.begin());
  draw_run_memory(curves, folder);
}

}  // namespace

int main(int argc, char** argv) {
  const char* title = "A GPT on FSDP, saved and resumed on other numbers of ranks.";
  const tutorial::Ranked program{.title = title, .steps = 120};
  return tutorial::run_ranks(argc, argv, program, [](Communicator& world, auto& options) {
    const std::string folder = options.out + "/18_gpt_fsdp";
    if (world.rank() == 0) begin_folder(folder);
    world.barrier();
    const Corpus corpus = tutorial::king_james_corpus({.characters = 200'000, .silent = true});
    const Job job{corpus, folder, options.steps};
    uint64_t saved = 0, finished = 0;
    curves = {{"FSDP on " + ranks_of(world.size()), world.size(), 0}};
    {
      Run run(world, job);
      say(world, "%d ranks\n", world.size());
      train(world, run, 0, job.steps / 2);
      show_memory(world);
      run.checkpoint.save(job.steps / 2);
      saved = run.bits();
      train(world, run, job.steps / 2, job.steps);
      finished = run.bits();
      dist::save_full(folder + "/gpt.safetensors", world, run.model);
    }
    for (int size = world.size(); size >= 1; --size) {
      if (world.size() % size == 0) resume(world, size, job, saved, finished);
    }
    train_alone(world, job, finished);
    write(world, corpus, folder + "/gpt.safetensors");
    if (world.rank() == 0) draw_curves(job, options.out);
  });
}
