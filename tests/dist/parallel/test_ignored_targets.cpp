// Targets that are all ignored, on ranks that compute one model together: no gradient, and no NaN.
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "dist/parallel/pipelines.h"
#include "dist/parallel/tensor.h"
#include "support/catch.h"

#include <hero/dist/context_parallel.h>
#include <hero/dist/fsdp.h>

using namespace hero;
using namespace hero::test;

namespace {

bool is_zero(const Tensor& p) { return p.grad().defined() && !any(p.grad() != 0).item<bool>(); }

// Gradients of the same stage in one process, of which micro-batch `ignored` says nothing.
void expect_rest(const std::vector<Tensor>& mine, nn::Module& whole, nn::Module& model, bool tied) {
  for (const auto& [name, p] : model.named_parameters()) {
    if (std::none_of(mine.begin(), mine.end(), [&p](const Tensor& m) { return is_same(m, p); })) {
      continue;
    }
    if (p.numel() == 0) continue;
    expect(all(isfinite(p.grad())).item<bool>(), name, " is finite");
    // A tied parameter gets the sum of its stages' sums: an order of its own.
    const Tensor off = abs(p.grad() - whole.get_parameter(name).grad());
    expect(max(off).item() <= (tied ? 1e-7 : 0.0), name, " is off by ", max(off).item());
  }
}

}  // namespace

TEST_CASE("micro-batches of ignored targets have no gradient in a pipeline", "[pipeline]") {
  for (const PipeSubject subject : {PipeSubject::gpt, PipeSubject::gpt_tied}) {
    for (const dist::Schedule& schedule :
         {dist::Schedule::one_f_one_b(), dist::Schedule::zero_bubble()}) {
      for (const bool every : {false, true}) {
        for (const int ranks : {1, 2, 3}) {
          CAPTURE(static_cast<int>(subject), schedule.name(), every, ranks);
          dist::run_ranks(ranks, [&](dist::Communicator& world) {
            const auto [x, y] = pipe_batch(subject, 0);
            const Tensor targets = y.clone();
            targets.slice(0, 0, every ? 56 : 14).fill_(-100);  // the first of four, or all
            PipeModel whole = make_pipe_model(subject, kCpu), model = make_pipe_model(subject);
            accumulate_alone(whole.pipeline_model(), x, targets, 4);
            dist::Pipeline pipe(model.pipeline_model(), world,
                                {.schedule = schedule, .micro_batches = 4});
            pipe.step(x, targets);
            expect_rest(pipe.parameters(), whole.module(), model.module(),
                        subject == PipeSubject::gpt_tied);
            for (const Tensor& p : pipe.parameters()) {
              if (every && p.numel() > 0) expect(is_zero(p), "no gradient");
            }
          });
        }
      }
    }
  }
}

TEST_CASE("ignored targets have no gradient where ranks share a model or its sequences",
          "[tensor]") {
  const nn::GPTConfig config = {
      .vocab_size = 19, .block_size = 8, .n_layer = 2, .n_head = 4, .n_embd = 16};
  using Share = std::function<void(nn::GPT&, const dist::Communicator&)>;
  const std::vector<std::pair<const char*, Share>> ways = {
      {"tensor",
       [](nn::GPT& m, const dist::Communicator& world) { dist::tensor_parallel(m, world); }},
      {"sequence",
       [](nn::GPT& m, const dist::Communicator& world) {
         dist::tensor_parallel(m, world, {.sequence = true});
       }},
      {"context, DDP",
       [](nn::GPT& m, const dist::Communicator& world) {
         dist::context_parallel(m, world);
         dist::DDP(m, world);
       }},
      {"context, FSDP",
       [](nn::GPT& m, const dist::Communicator& world) {
         dist::context_parallel(m, world);
         dist::fully_shard(m, world, {.unit = dist::each<nn::Block>()});
       }},
  };
  for (const auto& [name, share] : ways) {
    for (const bool tied : {false, true}) {
      for (const int ranks : {1, 2}) {
        CAPTURE(name, tied, ranks);
        dist::run_ranks(ranks, [&, share = share](dist::Communicator& world) {
          nn::GPTConfig with = config;
          with.tie_weights = tied;
          const auto model = made_gpt(with, false);
          share(*model, world);
          const Tensor tokens = gpt_labels(with, 1, 0);
          model->loss(tokens, full_like(tokens, -100)).backward();
          for (const auto& [path, p] : model->named_parameters()) {
            expect(is_zero(p), path, " has no gradient");
          }
        });
      }
    }
  }
}

TEST_CASE("a rank whose targets are all ignored leaves gradients finite", "[strategies]") {
  for (const bool shards : {false, true}) {
    dist::run_ranks(2, [&](dist::Communicator& world) {
      const auto whole = made_gpt(tensor_gpt(), false), model = made_gpt(tensor_gpt(), false);
      const Tensor tokens = gpt_labels(tensor_gpt(), 1, 0);
      (whole->loss(tokens, tokens) / 2).backward();  // the mean over two ranks
      if (shards) dist::fully_shard(*model, world, {.unit = dist::each<nn::Block>()});
      if (!shards) dist::DDP(*model, world);
      model->loss(tokens, world.rank() == 1 ? full_like(tokens, -100) : tokens).backward();
      const double expected = optim::clip_grad_norm(whole->parameters(), 1e9).item();
      const double norm = optim::clip_grad_norm(model->parameters(), 1e9).item();
      expect(std::isfinite(norm) && std::abs(norm - expected) < 1e-5 * expected, "the norm");
    });
  }
}
