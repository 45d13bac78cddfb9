#pragma once
// What optimizers and hooks that send fewer bytes leave on ranks of any backend.
#include <cstdio>
#include <string>

#include "dist/compress/one_bit.h"
#include "dist/compress/one_bit_lamb.h"
#include "dist/compress/power_sgd.h"
#include "dist/compress/zero_one_adam.h"

namespace hero::test {

inline void print_hash(const dist::Communicator& world, const std::string& what, const Array& x) {
  char text[32];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(hash(x)));
  world.out() << what << " " << text << "\n";
}

/// Optimizers in bits and PowerSGD: each step leaves what one process leaves that simulates the
/// ranks.
inline void check_compressed(dist::Communicator& world) {
  const auto compare = [&](const char* what, int step, const Floats& got, const Floats& expected,
                           int64_t sent) {
    const std::string off = unlike(got, expected);
    expect(off.empty(), what, ", step ", step, ": ", off);
    world.out() << what << " sent " << sent << "\n";
  };
  const int n = world.size();
  const auto adam = simulate_one_bit_adam(Subject::mlp, n, 6);
  train_one_bit_adam(world, Subject::mlp, 6,
                     [&](int step, const Floats& got, int64_t sent, const dist::OneBitAdam&) {
                       compare("1-bit Adam", step, got, adam[static_cast<size_t>(step)], sent);
                     });
  const auto lamb = simulate_one_bit_lamb(n, 6);
  train_one_bit_lamb(world, 6, [&](int step, const Floats& got, int64_t sent, const auto&) {
    compare("1-bit LAMB", step, got, lamb[static_cast<size_t>(step)], sent);
  });
  const ZeroOneRun zero_one = simulate_zero_one_adam(n, 15);
  train_zero_one_adam(world, 15, [&](int step, const auto&, const Floats& got, int64_t sent) {
    const auto& expected = zero_one.after[static_cast<size_t>(step)];
    compare("0/1 Adam", step, got, expected[static_cast<size_t>(world.rank())], sent);
  });
  if (n == 1 || n > 4) return;  // no hook is called; the simulation's tree is of four workers
  const dist::PowerSGDOptions options = {.rank = 2, .min_compression_rate = 0.1};
  const auto power = simulate_power_sgd(options, n, 3);
  const dist::CommHook hook = dist::PowerSGDHook(options);
  const auto got = gradients_by(world, &hook, Subject::mlp, 3);
  for (int step = 0; step < 3; ++step) {
    const auto i = static_cast<size_t>(step);
    compare("PowerSGD", step, got[i], power[i], 0);
  }
}

/// What the hooks and ZeRO++ leave, and at the end what was sent.
inline void print_compressed(dist::Communicator& world) {
  check_compressed(world);
  const dist::CommHook hooks[] = {dist::fp16_compress_hook(), dist::bf16_compress_hook(),
                                  dist::CodecHook({.codec = dist::Codec::sign1}), dist::CodecHook(),
                                  dist::PowerSGDHook()};
  for (const dist::CommHook& hook : hooks) {
    const auto model = make_subject(Subject::gpt);
    const dist::DDP ddp(*model, world, {.bucket_bytes = 700, .first_bucket_bytes = 100});
    ddp.register_comm_hook(hook);
    for (int step = 0; step < 2; ++step) {
      for (const Tensor& p : model->parameters()) p.set_grad({});
      subject_loss(Subject::gpt, *model, step, world.rank()).backward();
      for (const Tensor& p : model->parameters()) print_hash(world, hook.name, p.grad().array());
    }
  }
  const auto model = make_subject(Subject::gpt);
  const dist::DataParallel fsdp = dist::fully_shard(
      *model, world,
      {.unit = dist::each<nn::Block>(),
       .quantize = {.weights = dist::Codec::int8, .gradients = dist::Codec::int4}});
  optim::SGD sgd(model->parameters(), {.lr = 0.1});
  for (int step = 0; step < 2; ++step) {
    subject_loss(Subject::gpt, *model, step, world.rank()).backward();
    finish_step(*model, sgd, 0.0);
  }
  const auto whole = fsdp.summon_full_parameters();
  for (const Tensor& p : model->parameters()) print_hash(world, "ZeRO++", p.array());
  world.out() << world.traffic().table();
}

}  // namespace hero::test
