// Optimizers and hooks that send fewer bytes, on GPUs: ranks that share one, and ranks over NCCL.
#include "cuda/nccl/nccl_ranks.h"
#include "dist/compress/one_bit.h"

#include <hero/dist/ddp_comm_hooks.h>
#include <hero/dist/fsdp.h>

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
        const bool own = world.backend_kind() == BackendKind::nccl;
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
        model->to(world.backend_kind() == BackendKind::nccl ? world.device() : kGpu);
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

// Rank 0's losses and whole parameters after three steps of ZeRO++, and the bytes of weights that
// went up to its device.
struct Quantized {
  Floats values;
  int64_t up = 0;
};
Quantized train_quantized(int ranks, const FSDPOptions& options, const RunOptions& run) {
  Quantized ended;
  run_ranks(
      ranks,
      [&](Communicator& world) {
        const auto model = make_subject(Subject::mlp);
        const Device device = world.backend_kind() == BackendKind::nccl ? world.device() : kGpu;
        model->to(device);
        const DataParallel fsdp = fully_shard(*model, world, options);
        optim::SGD sgd(model->parameters(), {.lr = 0.1});
        Floats losses;
        const int64_t before = world.traffic().moved(Transfer::to_device);
        for (int step = 0; step < 3; ++step) {
          const Tensor loss = subject_loss(Subject::mlp, *model, step, world.rank(), device);
          losses.push_back(static_cast<float>(loss.item()));
          loss.backward();
          finish_step(*model, sgd, 0.0);
        }
        const int64_t up = world.traffic().moved(Transfer::to_device) - before;
        const auto whole = fsdp.summon_full_parameters();
        const Floats values = flat_of(model->parameters());
        if (world.rank() > 0) return;
        ended.up = up;
        ended.values = losses;
        ended.values.insert(ended.values.end(), values.begin(), values.end());
      },
      run);
  return ended;
}

void check_quantized_offload(int ranks, const RunOptions& run) {
  FSDPOptions options = {.unit = each<nn::Linear>(),
                         .quantize = {.weights = Codec::int8, .gradients = Codec::int4}};
  const Quantized there = train_quantized(ranks, options, run);
  options.offload.parameters = true;
  const Quantized home = train_quantized(ranks, options, run);
  CHECK(unlike(home.values, there.values).empty());
  CHECK(there.up == 0);
  // three units' shards in one block each, in two gatherings of each of three steps
  CHECK(home.up == 3 * 2 * 3 * core::encoded_bytes(Codec::int8, 80));
}

}  // namespace

TEST_CASE("1-bit Adam on a GPU that ranks share has the bits of one process") {
  HERO_NEEDS_GPU();
  for (const int ranks : {1, 2, 3}) check_one_bit(ranks, {});
}

TEST_CASE("quantised gathers of shards that lie on the host have the bits of those on a GPU") {
  HERO_NEEDS_GPU();
  for (const int ranks : {2, 3}) check_quantized_offload(ranks, {});
}

TEST_CASE("nccl: quantised gathers of shards that lie on the host") {
  HERO_NEEDS_GPUS(2);
  check_quantized_offload(2, kNccl);
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
