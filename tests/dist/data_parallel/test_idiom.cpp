// fully_shard() of each block, then of the model, is the model with the policy each<Block>: in
// bits, in peak bytes, in the order of what happens, in the number of calls, and in what a step
// brings from a file.
#include <filesystem>
#include <string>
#include <vector>

#include "dist/data_parallel/strategies.h"
#include "support/catch.h"

#include <hero/core/swap_file.h>

using namespace hero;
using namespace hero::test;
using Catch::Matchers::ContainsSubstring;

namespace {

/// What a step was seen to do.
struct Seen {
  Whole whole;
  std::vector<std::string> events;  // of the first step and of the third, on rank 0
  int64_t peak = 0;                 // bytes beyond those between two steps
  int64_t calls_of_a_norm = 0;
  int64_t shards_in_step = 0;  // bytes of parameters in memory at most
};

nn::GPTConfig blocks(int64_t layers) {
  return {.vocab_size = 16,
          .block_size = 8,
          .n_layer = layers,
          .n_head = 2,
          .n_embd = 16,
          .tie_weights = false};
}

Tensor loss_of(nn::GPT& model, int step, int rank) {
  std::vector<int64_t> ids;
  for (int64_t i = 0; i < 9; ++i) ids.push_back((i * 5 + step * 3 + rank * 7) % 16);
  const Tensor all(Array::from(ids, {1, 9}));
  return model.loss(all.slice(1, 0, 8).contiguous(), all.slice(1, 1, 9).contiguous());
}

dist::DataParallel shard(nn::GPT& model, const dist::Communicator& world, bool idiom,
                         dist::FSDPOptions options = {}) {
  if (idiom) {
    for (size_t i = 0; i < model.transformer.h.size(); ++i) {
      dist::fully_shard(model.transformer.h[i], world, options);
    }
  } else {
    options.unit = dist::each<nn::Block>();
  }
  return dist::fully_shard(model, world, options);
}

void train_three_steps(Seen& seen, int64_t layers, bool idiom, bool on_disk) {
  dist::run_ranks(4, [&](dist::Communicator& world) {
    std::optional<core::SwapFile> file;
    if (on_disk)
      file.emplace(std::filesystem::temp_directory_path().string(),
                   core::SwapOptions{.bytes = int64_t{8} << 20});
    core::SwapFile* const disk = on_disk ? &*file : nullptr;
    manual_seed(5);
    nn::GPT model(blocks(layers));
    const auto fsdp = shard(model, world, idiom, {.offload = {.disk = disk}});
    std::unique_ptr<optim::Optimizer> adamw;
    if (disk != nullptr) {
      adamw = std::make_unique<optim::Paged<optim::AdamW>>(*disk, model.parameters());
    } else {
      adamw = std::make_unique<optim::AdamW>(model.parameters());
    }
    int step = 0;
    if (world.rank() == 0) {
      fsdp.on_event([&](const dist::Event& event) {
        if (step != 1) seen.events.push_back(std::string(name(event.kind)) + " " + event.unit);
      });
    }
    for (; step < 3; ++step) {
      world.barrier();
      const int64_t before = current_ledger().live(DeviceType::cpu);
      if (world.rank() == 0) current_ledger().reset_peak();
      loss_of(model, step, world.rank()).backward();
      if (world.rank() == 0 && step == 2) {
        seen.peak = current_ledger().peak(DeviceType::cpu) - before;
      }
      const int64_t calls = world.traffic().calls();
      optim::clip_grad_norm(model.parameters(), 1.0);
      if (world.rank() == 0) seen.calls_of_a_norm = world.traffic().calls() - calls;
      if (world.rank() == 0) current_ledger().reset_peak();
      adamw->step();
      if (world.rank() == 0) seen.shards_in_step = current_ledger().peak(MemoryTag::parameter);
      adamw->zero_grad();
    }
    if (disk == nullptr) add_state(seen.whole, model, *adamw);
  });
}

}  // namespace

TEST_CASE("fully_shard of each block, then of the model, equals the policy that names the blocks") {
  for (const int64_t layers : {4, 8, 16}) {
    CAPTURE(layers);
    Seen unit, idiom;
    train_three_steps(unit, layers, false, false);
    train_three_steps(idiom, layers, true, false);
    CHECK(unit.whole.size() > 20);
    CHECK(unit.whole.difference(idiom.whole) == "");
    CHECK(unit.events == idiom.events);
    CHECK(std::count(unit.events.begin(), unit.events.end(), "gather transformer.h.1") == 4);
    CHECK(unit.peak == idiom.peak);
    CHECK(unit.calls_of_a_norm == idiom.calls_of_a_norm);
    CHECK(unit.calls_of_a_norm == 1);
  }
}

TEST_CASE("with shards in a file a step of the idiom brings no more of them than the policy's") {
  std::vector<int64_t> most;
  for (const int64_t layers : {4, 8, 16}) {
    Seen unit, idiom;
    train_three_steps(unit, layers, false, true);
    train_three_steps(idiom, layers, true, true);
    CAPTURE(layers);
    CHECK(unit.events == idiom.events);
    CHECK(unit.shards_in_step == idiom.shards_in_step);
    most.push_back(idiom.shards_in_step);
  }
  CHECK(most.front() == most.back());
}

TEST_CASE("modules of a list are one unit, which is freed behind the last of them") {
  Seen unit, list;
  for (const bool grouped : {false, true}) {
    Seen& seen = grouped ? list : unit;
    dist::run_ranks(4, [&](dist::Communicator& world) {
      manual_seed(5);
      nn::GPT model(blocks(3));
      auto& h = model.transformer.h;
      if (grouped) {
        dist::fully_shard({h[0], h[1]}, world);
        dist::fully_shard({model.transformer.ln_f, model.lm_head},
                          dist::Mesh(world, {{"replicate", 2}, {"shard", 2}}));
      }
      dist::FSDPOptions options;
      if (!grouped) options.unit = dist::each<nn::Block>();
      const auto fsdp = dist::fully_shard(model, world, options);
      optim::AdamW adamw(model.parameters());
      if (world.rank() == 0) {
        fsdp.on_event([&](const dist::Event& event) {
          seen.events.push_back(std::string(name(event.kind)) + " " + event.unit);
        });
      }
      for (int step = 0; step < 3; ++step) {
        if (world.rank() == 0) seen.events.clear();
        {
          const auto local = fsdp.no_sync();
          loss_of(model, step + 5, world.rank()).backward();
          model.loss(zeros({1, 8}, {.dtype = kInt64}), zeros({1, 8}, {.dtype = kInt64}));
        }
        loss_of(model, step, world.rank()).backward();
        optim::clip_grad_norm(model.parameters(), 1.0);
        adamw.step();
        adamw.zero_grad();
      }
      for (const Tensor& p : model.parameters()) expect(partition(p) != nullptr, "a shard");
      fsdp.set_requires_gradient_sync(true, "transformer.h.1");
      add_state(seen.whole, model, adamw);
      if (!grouped) return;
      std::string names;
      for (const dist::UnitInfo& info : fsdp.units()) names += info.name + "; ";
      expect(names.find("transformer.h.0, transformer.h.1; ") != std::string::npos, names);
      expect(names.find("transformer.ln_f, lm_head; ") != std::string::npos, names);
      for (const dist::UnitInfo& info : fsdp.units()) {
        for (const std::string& parameter : info.parameters) model.get_parameter(parameter);
      }
    });
  }
  CHECK(unit.whole.difference(list.whole) == "");
  CHECK(std::count(list.events.begin(), list.events.end(),
                   "gather transformer.h.0, transformer.h.1") ==
        5);  // three forwards, two backwards
}

TEST_CASE("modules of a list that nothing contains are sharded by themselves") {
  dist::run_ranks(2, [](dist::Communicator& world) {
    manual_seed(2);
    nn::Linear a(4, 4), b(4, 4), c(4, 4), d(4, 4);
    {
      const NoGrad none;
      c.weight.copy_(a.weight), c.bias.copy_(a.bias);
      d.weight.copy_(b.weight), d.bias.copy_(b.bias);
    }
    const auto pair = dist::fully_shard({a, b}, world);
    const dist::DDP first(c, world), second(d, world);
    const Tensor x(noise({3, 4}, kFloat32, static_cast<uint64_t>(world.rank() + 1)));
    for (const bool both : {true, false, true}) {
      (both ? sum(square(b(tanh(a(x))))) : sum(square(a(x)))).backward();
      (both ? sum(square(d(tanh(c(x))))) : sum(square(c(x)))).backward();
      for (const auto& [shard, whole] :
           {std::pair(a.weight, c.weight), std::pair(b.bias, d.bias)}) {
        expect(partition(shard) != nullptr, "a shard between two steps");
        expect(shard.grad().defined() == whole.grad().defined(), "gradients of the same");
        if (shard.numel() == 0 || !whole.grad().defined()) continue;
        const Partition& part = *partition(shard);
        expect(same(shard.grad().array(), whole.grad().array().contiguous().reshape({-1}).slice(
                                              0, part.first, part.first + shard.numel())),
               "the same gradient");
      }
      pair.module().zero_grad();
      c.zero_grad();
      d.zero_grad();
    }
    expect(error_of([&] {
             dist::fully_shard({a, a}, world);
           }).find("name it once") != std::string::npos,
           "twice");
  });
}

TEST_CASE("parts that nothing contains, each sharded by itself, end with the bits of one module") {
  Whole unit, alone;
  for (const bool by_themselves : {false, true}) {
    dist::run_ranks(4, [&](dist::Communicator& world) {
      const auto model = make_subject(Subject::mlp);
      std::vector<dist::DataParallel> handles;
      if (by_themselves) {
        for (const auto& [path, module] : model->named_modules()) {
          if (!path.empty()) handles.push_back(dist::fully_shard(*module, world));
        }
      } else {
        handles.push_back(dist::fully_shard(*model, world, {.unit = dist::each<nn::Linear>()}));
      }
      const auto adamw = make_method(Method::adamw, model->parameters());
      for (int step = 0; step < 3; ++step) {
        {
          std::vector<dist::NoSync> local;
          for (const dist::DataParallel& handle : handles) local.push_back(handle.no_sync());
          subject_loss(Subject::mlp, *model, step + 7, world.rank()).backward();
        }
        subject_loss(Subject::mlp, *model, step + 11, world.rank());
        subject_loss(Subject::mlp, *model, step, world.rank()).backward();
        finish_step(*model, *adamw, 0.5);
      }
      add_state(by_themselves ? alone : unit, *model, *adamw);
    });
  }
  CHECK(unit.difference(alone) == "");
}

TEST_CASE("a module without parameters of its own may lie between two sharded ones") {
  Whole unit, nested;
  for (const bool between : {false, true}) {
    dist::run_ranks(2, [&](dist::Communicator& world) {
      manual_seed(5);
      nn::GPT model(blocks(3));
      if (between) {
        for (size_t i = 0; i < 3; ++i) dist::fully_shard(model.transformer.h[i], world);
        dist::fully_shard(model.transformer.h, world);
      }
      dist::FSDPOptions options;
      if (!between) options.unit = dist::each<nn::Block>();
      const auto fsdp = dist::fully_shard(model, world, options);
      expect(fsdp.units().size() == 4, "three blocks and the root");
      optim::AdamW adamw(model.parameters());
      for (int step = 0; step < 2; ++step) {
        loss_of(model, step, world.rank()).backward();
        finish_step(model, adamw, 0.5);
      }
      add_state(between ? nested : unit, model, adamw);
    });
  }
  CHECK(unit.difference(nested) == "");
}
