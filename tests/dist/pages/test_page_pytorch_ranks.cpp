// Right-hand sides of docs/coming_from.md: those of several ranks. See test_page_pytorch.cpp.
#include <vector>

#include "support/catch.h"
#include "support/temp_dir.h"

#include <hero/autograd/autograd.h>
#include <hero/dist/ddp_comm_hooks.h>
#include <hero/dist/dist.h>
#include <hero/nn/nn.h>
#include <hero/optim/optim.h>

using namespace hero;

namespace {

struct Net : nn::Module {
  nn::Linear& fc1 = add<nn::Linear>("fc1", 6, 8);
  nn::LayerNorm& norm = add<nn::LayerNorm>("norm", Shape{8});
  nn::Linear& fc2 = add<nn::Linear>("fc2", 8, 3);
  Tensor forward(const Tensor& x) override { return fc2(gelu(norm(fc1(x)))); }
};

TEST_CASE("the page for PyTorch's users: ranks") {
  dist::run_ranks(2, [](dist::Communicator& world) {
    manual_seed(0);
    const Tensor x = ones({4}), all = empty({8});
    world.all_reduce(x.array());
    check(x.to_vector<float>() == std::vector<float>(4, 2.0F), "the sum of ones on two ranks");
    world.all_reduce(x.array(), {.op = dist::ReduceOp::mean});
    world.broadcast(x.array(), 0);
    world.all_gather(all.array(), x.array());
    world.barrier();
    world.out() << "rank " << world.rank() << " of " << world.size() << "\n";
    const dist::Communicator mine = world.split(world.rank(), 0);
    Net ddp_model, zero_model, model, inner;
    dist::DDP ddp(ddp_model, world);
    ddp.register_comm_hook(dist::fp16_compress_hook());
    {
      const auto local = ddp.no_sync();
      ddp(ones({2, 6})).sum().backward();
    }
    dist::ZeRO zero1(zero_model, world, {.stage = 1});
    const auto fsdp = dist::fully_shard(model, world, {.unit = dist::each<nn::Linear>()});
    for (const bool last : {false, true}) {
      fsdp.set_requires_gradient_sync(last);
      fsdp(ones({2, 6})).sum().backward();
      const bool averaged = model.parameters().back().grad().defined();
      check(averaged == last, "gradients are averaged in the last micro-batch");
    }
    const dist::Mesh mesh(world, {{"replicate", 1}, {"shard", 2}});
    dist::fully_shard(inner, mesh,
                      {.mixed_precision = {.parameters = kBFloat16, .reduce = kFloat32}});
    Net grad_op, stage2;
    dist::fully_shard(grad_op, world, {.reshard_after_forward = false});
    const dist::ZeRO zero2(stage2, world, {.stage = 2});
    fsdp.set_reshard_after_forward(false);
    fsdp.set_reshard_after_backward(false);
    fsdp.unshard("fc1");
    const nn::StateDict state = fsdp.full_state_dict();
    {
      const auto whole = fsdp.summon_full_parameters();
      model.load_state_dict(state);
    }
    check(mine.size() == 1 && !state.empty(), "a group of one rank, and a state");
    Net unused, hosts;
    const dist::DDP finds(unused, world, {.find_unused_parameters = true});
    dist::fully_shard(hosts, world, {.quantize = {.secondary = true, .ranks_of_host = 2}});
  });
  const hero_test::TempDir dir;
  const std::string run = dir / "run", path = dir / "model.safetensors";
  dist::run_ranks(2, [&](dist::Communicator& world) {
    Net model;
    const dist::ZeRO zero3(model, world, {.stage = 3, .offload = {.optimizer = true}});
    optim::AdamW adamw(model.parameters());
    dist::Checkpointer checkpoint(run, world);
    checkpoint.track("model", model);
    checkpoint.track("optimizer", adamw);
    checkpoint.save(100, {.async = true});
    checkpoint.wait();
    dist::save_full(path, world, model);
    dist::load_full(path, world, model);
    dist::load_full(path, world, model, {.strict = false});
  });
}

}  // namespace
