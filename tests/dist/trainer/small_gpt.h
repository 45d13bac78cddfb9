#pragma once
// A small GPT for tests of Trainer, its samples, and what a run of it ends with.
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "dist/ranks.h"
#include "support/temp_dir.h"

#include <hero/dist/checkpoint.h>
#include <hero/dist/launch.h>
#include <hero/dist/trainer.h>
#include <hero/nn/nn.h>

namespace hero::test {

inline nn::GPT make_small_gpt() {
  manual_seed(4);
  return nn::GPT({.vocab_size = 24, .block_size = 8, .n_layer = 2, .n_head = 2, .n_embd = 16});
}

/// What data rank `part` takes as its n-th micro-batch: one sequence.
inline Tensor small_tokens(int64_t n, int part) {
  std::vector<int64_t> tokens;
  for (int64_t i = 0; i < 8; ++i) tokens.push_back((7 * n + 5 * part + i * i) % 24);
  return Tensor(Array::from(tokens, {1, 8}));
}

/// Losses of rank 0, and the parameters at the end.
struct GPTRun {
  std::vector<double> losses;
  std::map<std::string, std::vector<float>> values;
  bool operator==(const GPTRun&) const = default;
};

inline void add_trained(GPTRun& ended, const nn::StateDict& dict) {
  for (const auto& [name, values] : dict) {
    ended.values[name] = values.to(kFloat32).to_vector<float>();
  }
}

/// What rank 0 of two ends with which are saved after micro-batch `saved`, and of two others that
/// resume there; of the first run only what comes behind. `steps` takes micro-batches from one to
/// another and adds to the losses on rank 0, and `check_saved` says whether the counts are those of
/// the save.
template <class Steps, class CheckSaved>
std::pair<GPTRun, GPTRun> whole_and_resumed(const dist::Config& config, int64_t saved, int64_t end,
                                            const Steps& steps, const CheckSaved& check_saved) {
  const hero_test::TempDir folder;
  std::pair<GPTRun, GPTRun> runs;
  for (const bool resumes : {false, true}) {
    GPTRun& ended = resumes ? runs.second : runs.first;
    dist::run_ranks(2, [&](dist::Communicator& world) {
      nn::GPT model = make_small_gpt();
      dist::Trainer trainer(model, world, config);
      dist::Checkpointer checkpoint(folder / "run", world);
      trainer.track(checkpoint);
      if (resumes) {
        const auto step = checkpoint.resume();
        expect(step == trainer.global_steps(), "of the step that was saved");
      } else {
        GPTRun before;
        steps(trainer, model, world.rank(), 0, saved, before.losses);
        checkpoint.save(trainer.global_steps());
      }
      check_saved(trainer);
      steps(trainer, model, world.rank(), saved, end, ended.losses);
      const nn::StateDict whole = trainer.full_state_dict();
      if (world.rank() == 0) add_trained(ended, whole);
    });
  }
  return runs;
}

}  // namespace hero::test
