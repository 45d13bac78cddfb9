// Optimizers and hooks that send fewer bytes, on GPUs: ranks that share one, and ranks over NCCL.
#include "cuda/nccl_ranks.h"
#include "dist/one_bit.h"

#include <hero/dist/comm_hook.h>

using namespace hero;
using namespace hero::test;
using namespace hero::dist;
using namespace hero_test;

namespace {

void check_one_bit(int ranks, const RunOptions& options) {
  CAPTURE(ranks);
  const std::vector<Floats> expected = simulate_one_bit_adam(Subject::mlp, ranks, 6, kGpu);
  run_ranks(
      ranks,
      [&](Communicator& world) {
        const bool own = world.engine_kind() == EngineKind::nccl;
        train_one_bit_adam(
            world, Subject::mlp, 6,
            [&](int step, const Floats& got, int64_t sent, OneBitAdam& adam) {
              const std::string off = unlike(got, expected[static_cast<size_t>(step)]);
              expect(off.empty(), "step ", step, " on rank ", world.rank(), ": ", off);
              if (step > 2) expect(sent == adam.bytes_of_step(), "sent ", sent);
            },
            own ? world.device() : kGpu);
      },
      options);
}

// Each rank makes its own.
using MakeHook = std::function<CommHook()>;

// The gradients of two steps by a hook, of rank 0.
std::vector<Floats> gradients_by(const MakeHook& make, int ranks, const RunOptions& options) {
  std::vector<Floats> all;
  run_ranks(
      ranks,
      [&](Communicator& world) {
        const auto model = make_subject(Subject::mlp);
        model->to(world.engine_kind() == EngineKind::nccl ? world.device() : kGpu);
        const DDP ddp(*model, world, {.bucket_bytes = 600, .first_bucket_bytes = 100});
        ddp.register_comm_hook(make());
        for (int step = 0; step < 2; ++step) {
          for (const Tensor& p : model->parameters()) p.set_grad({});
          subject_loss(Subject::mlp, *model, step, world.rank()).backward();
          std::vector<Tensor> gradients;
          for (const Tensor& p : model->parameters()) gradients.push_back(p.grad());
          const Floats values = flat_of(gradients);
          if (world.rank() == 0) all.push_back(values);
        }
      },
      options);
  return all;
}

}  // namespace

TEST_CASE("1-bit Adam on a GPU that ranks share has the bits of one process") {
  HERO_NEEDS_GPU();
  for (const int ranks : {1, 2, 3}) check_one_bit(ranks, {});
}

TEST_CASE("nccl: 1-bit Adam has the bits of one process") {
  HERO_NEEDS_NCCL();
  for (const int ranks : nccl_worlds()) check_one_bit(ranks, kNccl);
}

TEST_CASE("nccl: communication hooks have the bits of ranks that share a GPU") {
  HERO_NEEDS_GPUS(2);
  const int ranks = nccl_worlds().back();
  const MakeHook hooks[] = {
      [] { return fp16_compress_hook(); },
      [] { return bf16_compress_hook(); },
      [] { return CommHook(CodecHook({.codec = Codec::sign1})); },
      [] { return CommHook(CodecHook()); },
      [] { return CommHook(CodecHook({.codec = Codec::fp8_e4m3})); },
      [] { return CommHook(PowerSGDHook({.rank = 2})); },
  };
  for (const MakeHook& make : hooks) {
    CAPTURE(make().name);
    const std::vector<Floats> expected = gradients_by(make, ranks, {});
    const std::vector<Floats> got = gradients_by(make, ranks, kNccl);
    for (size_t step = 0; step < 2; ++step) CHECK(unlike(got[step], expected[step]).empty());
  }
}
