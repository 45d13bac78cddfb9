// Shards whose offload target is a file: the bits of shards in memory, the bytes of the formulas,
// and what a disk that fails does.
#include <filesystem>
#include <functional>

#include "dist/checkpoints.h"
#include "dist/parallel/stack.h"
#include "support/catch.h"
#include <fcntl.h>
#include <unistd.h>

#include <hero/core/swap_file.h>
#include <hero/optim/paged.h>

using namespace hero;
using namespace hero::test;
using Catch::Matchers::ContainsSubstring;
using core::SwapFile;

namespace {

constexpr int64_t kSwapBlock = SwapFile::kBlock;

std::string swap_folder() { return std::filesystem::temp_directory_path().string(); }

void check_on_disk(Climb c) {
  c.steps = 3;
  for (const ShardingStrategy strategy :
       {ShardingStrategy::zero1, ShardingStrategy::zero2, ShardingStrategy::zero3,
        ShardingStrategy::fsdp, ShardingStrategy::fsdp_kept, ShardingStrategy::hybrid}) {
    if (strategy == ShardingStrategy::hybrid && c.ranks % 2 != 0) continue;
    CAPTURE(name(strategy), c.ranks, c.dtype);
    c.strategy = strategy;
    SwapFile disk(swap_folder(), {.bytes = int64_t{1} << 20});
    Whole without, with;
    c.offload = {};
    dist::run_ranks(c.ranks, [&](dist::Communicator& world) { train(c, without, &world); });
    c.offload.disk = &disk;
    dist::run_ranks(c.ranks, [&](dist::Communicator& world) { train(c, with, &world); });
    REQUIRE(without.size() >= 4);
    CHECK(without.difference(with) == "");
    CHECK(disk.read_bytes() > 0);
    CHECK(disk.used() == 0);
  }
}

Tensor shelf_input(int64_t width) { return Tensor(Array::full({2, width}, 0.5)); }

void add_values(Whole& whole, nn::Module& model) {
  for (const auto& [name, leaf] : model.named_parameters()) {
    whole.add(name, whole_shape(leaf).numel(), partition(leaf)->first, leaf.array());
  }
}

// Changes a byte of the file, or cuts all of it off.
void damage(const SwapFile& file, bool cut) {
  const int fd = ::open(("/proc/self/fd/" + std::to_string(file.descriptor())).c_str(), O_RDWR);
  expect(fd >= 0, "the file is damaged");
  if (cut) {
    expect(::ftruncate(fd, 0) == 0, "the file is damaged");
  } else {
    for (int64_t at = 7; at < file.used(); at += kSwapBlock) {
      char byte = 0;
      expect(::pread(fd, &byte, 1, at) == 1, "the file is damaged");
      byte = static_cast<char>(byte ^ 1);
      expect(::pwrite(fd, &byte, 1, at) == 1, "the file is damaged");
    }
  }
  ::close(fd);
}

}  // namespace

TEST_CASE("a module outlives the file of its shards, whichever is made first") {
  dist::run_ranks(2, [](dist::Communicator& world) {
    Stack model(3, 8);
    SwapFile disk(swap_folder(), {.bytes = int64_t{1} << 20});
    dist::fully_shard(model, world, {.unit = dist::each<nn::Linear>(), .offload = {.disk = &disk}});
    sum(model(shelf_input(8))).backward();
  });
}

TEST_CASE("strategies on disk end with the bits of those in memory: AdamW") {
  for (const int ranks : {1, 2, 4}) {
    check_on_disk({.subject = Subject::mlp, .method = Method::adamw, .ranks = ranks});
    check_on_disk({.subject = Subject::gpt_untied, .method = Method::adamw, .ranks = ranks});
  }
}

TEST_CASE("strategies on disk end with the bits of those in memory: SGD, LAMB with clipping") {
  check_on_disk({.subject = Subject::odd, .method = Method::sgd, .ranks = 3, .clip = 0.5});
  check_on_disk({.subject = Subject::odd, .method = Method::lamb, .ranks = 4, .clip = 0.5});
}

TEST_CASE("strategies on disk end with the bits of those in memory: bfloat16 with masters") {
  for (const int ranks : {1, 2, 4}) {
    Climb c{.subject = Subject::gpt_loss, .method = Method::adamw, .ranks = ranks};
    c.dtype = kBFloat16;
    c.masters = true;
    check_on_disk(c);
  }
}

TEST_CASE("units on disk are read three times a step and written once, and few are in memory") {
  constexpr int kLayers = 6;
  constexpr int64_t kWidth = 128, kEach = 4 * kWidth * kWidth;  // 16 blocks
  for (const int ranks : {1, 2, 4}) {
    CAPTURE(ranks);
    SwapFile disk(swap_folder(), {.bytes = int64_t{8} << 20});
    SwapFile states(swap_folder(), {.bytes = int64_t{8} << 20});
    dist::run_ranks(ranks, [&](dist::Communicator& world) {
      Stack model(kLayers, kWidth);
      dist::fully_shard(model, world,
                        {.unit = dist::each<nn::Linear>(), .offload = {.disk = &disk}});
      const Ledger& ledger = current_ledger();
      expect(ledger.live(MemoryTag::parameter) == 0,
             "parameters when they are cut: ", ledger.live(MemoryTag::parameter));
      optim::Paged<optim::AdamW> adamw(states, model.parameters(), {.lr = 0.01},
                                       {.window_bytes = 1});
      const auto step = [&] {
        adamw.zero_grad();
        sum(model(shelf_input(kWidth))).backward();
        adamw.step();
      };
      step();
      const int64_t shard = kEach / ranks;
      const dist::Traffic& traffic = world.traffic();
      const int64_t read = traffic.moved(dist::Transfer::from_disk);
      const int64_t written = traffic.moved(dist::Transfer::to_disk);
      current_ledger().reset_peak();
      step();
      expect(traffic.moved(dist::Transfer::from_disk) - read == 3 * kLayers * shard, "read ",
             traffic.moved(dist::Transfer::from_disk) - read);
      expect(traffic.moved(dist::Transfer::to_disk) - written == kLayers * shard, "written ",
             traffic.moved(dist::Transfer::to_disk) - written);
      expect(ledger.live(MemoryTag::parameter) == 0,
             "parameters between two steps: ", ledger.live(MemoryTag::parameter));
      expect(ledger.peak(MemoryTag::parameter) <= 4 * shard,
             "parameters in a step: ", ledger.peak(MemoryTag::parameter), " of shards of ", shard);
      expect(ledger.live(MemoryTag::gradient) == kLayers * shard,
             "gradients: ", ledger.live(MemoryTag::gradient));
      expect(ledger.live(MemoryTag::optimizer) == 0, "states: ", ledger.live(MemoryTag::optimizer));
      expect(ledger.peak(MemoryTag::communication) <= 4 * kEach,
             "gathered: ", ledger.peak(MemoryTag::communication));
      const std::string table = traffic.table();
      expect(table.find("from disk") != std::string::npos, table);
    });
  }
}

TEST_CASE("shards on disk are there for whoever reads or writes them") {
  SwapFile disk(swap_folder(), {.bytes = int64_t{1} << 20});
  dist::run_ranks(2, [&](dist::Communicator& world) {
    manual_seed(5);
    Stack model(3, 7), plain(3, 7);
    for (size_t i = 0; i < 3; ++i) {
      const NoGrad no_grad;
      plain.layer[i]->weight.copy_(model.layer[i]->weight);
    }
    const dist::DataParallel parallel = dist::fully_shard(
        model, world, {.unit = dist::each<nn::Linear>(), .offload = {.disk = &disk}});
    expect(same_state(parallel.full_state_dict(), plain.state_dict()), "the values made");
    {
      const NoGrad no_grad;
      for (Stack* each : {&model, &plain}) {
        for (const Tensor& p : each->parameters()) p.mul_(0.5);
      }
    }
    const Tensor y = model(shelf_input(7)), wanted = plain(shelf_input(7));
    expect(hash(y.array()) == hash(wanted.array()), "written values are computed with");
    expect(same_state(parallel.full_state_dict(), plain.state_dict()), "and stay");
    {
      const auto full = parallel.summon_full_parameters();
      const NoGrad no_grad;
      for (Stack* each : {&model, &plain}) each->layer[1]->weight.fill_(0.25);
    }
    model.to(kBFloat16);
    plain.to(kBFloat16);
    expect(same_state(parallel.full_state_dict(), plain.state_dict()), "the values converted");
  });
  CHECK(disk.used() == 0);
}

TEST_CASE("offload as on the page") {
  const std::string folder = swap_folder();
  dist::run_ranks(2, [&](dist::Communicator& world) {
    {
      Stack model(3, 8);
      // [snippet: host]
      dist::ZeRO zero(model, world, {.stage = 2, .offload = {.optimizer = true}});
      optim::AdamW adamw(model.parameters(), {.lr = 3e-4});  // leaves in the host's memory
      // [end]
      sum(model(shelf_input(8))).backward();
      adamw.step();
    }
    const auto each_layer = dist::each<nn::Linear>();
    // [snippet: disk]
    core::SwapFile disk(folder, {.bytes = int64_t{1} << 20});  // before the module: it outlives it
    Stack model(3, 8);
    const dist::DataParallel sharded =
        dist::fully_shard(model, world, {.unit = each_layer, .offload = {.disk = &disk}});
    optim::Paged<optim::AdamW> adamw(disk, model.parameters(), {.lr = 3e-4});  // its states, too
    // [end]
    sum(sharded(shelf_input(8))).backward();
    adamw.step();
    expect(current_ledger().live(MemoryTag::optimizer) == 0, "states");
  });
}

TEST_CASE("checkpoints go from shards on disk to others and back") {
  const std::string run = swap_folder() + "/hero_offload_" + std::to_string(::getpid());
  SwapFile disk(swap_folder(), {.bytes = int64_t{1} << 20});
  const auto on = [&](bool away, int ranks, const std::function<void(Runner&)>& body) {
    dist::run_ranks(ranks, [&](dist::Communicator& world) {
      const Job job{Subject::gpt, Method::adamw};
      Runner runner(world, {ShardingStrategy::single, ranks}, job);
      dist::Offload offload;
      if (away) offload.disk = &disk;
      climb(ShardingStrategy::fsdp, job.subject, *runner.model, world, dist::Order::tree, 2,
            offload);
      runner.optimizer = make_method(job.method, runner.model->parameters());
      runner.stand.strategy = ShardingStrategy::fsdp;
      body(runner);
    });
  };
  for (const bool from_disk : {false, true}) {
    CAPTURE(from_disk);
    std::filesystem::remove_all(run);
    Whole saved, ends[2];
    on(from_disk, 2, [&](Runner& runner) {
      for (int i = 0; i < 2; ++i) runner.step(i);
      runner.checkpointer(run).save(2);
      add_state(saved, *runner.model, *runner.optimizer);
    });
    for (const bool to_disk : {false, true}) {
      Whole found;
      on(to_disk, 4, [&](Runner& runner) {
        runner.spoil();
        expect(runner.checkpointer(run).resume() == 2, "a checkpoint of step 2");
        add_state(found, *runner.model, *runner.optimizer);
        for (int i = 2; i < 4; ++i) runner.step(i);
        add_state(ends[to_disk ? 1 : 0], *runner.model, *runner.optimizer);
      });
      CHECK(saved.difference(found) == "");
    }
    CHECK(ends[0].difference(ends[1]) == "");
  }
  std::filesystem::remove_all(run);
}

TEST_CASE("a file without room for the shards is refused when they are cut") {
  SwapFile disk(swap_folder(), {.bytes = 3 * kSwapBlock});
  const auto errors = errors_of(2, [&](dist::Communicator& world) {
    Stack model(4, 16);
    dist::fully_shard(model, world, {.unit = dist::each<nn::Linear>(), .offload = {.disk = &disk}});
  });
  const bool told = errors[0].find("there is no room for") != std::string::npos ||
                    errors[1].find("there is no room for") != std::string::npos;
  CAPTURE(errors[0], errors[1]);
  CHECK(told);
  CHECK_FALSE(errors[0].empty());
  CHECK_FALSE(errors[1].empty());
}

TEST_CASE("a disk that gives other bytes ends the run on all ranks, and the checkpoint is good") {
  const std::string run = swap_folder() + "/hero_offload_damage_" + std::to_string(::getpid());
  for (const bool cut : {false, true}) {
    CAPTURE(cut);
    std::filesystem::remove_all(run);
    SwapFile disk(swap_folder(), {.bytes = int64_t{1} << 20});
    Whole saved, loaded;
    const auto errors = errors_of(2, [&](dist::Communicator& world) {
      Stack model(3, 16);
      dist::fully_shard(model, world,
                        {.unit = dist::each<nn::Linear>(), .offload = {.disk = &disk}});
      optim::SGD sgd(model.parameters(), {.lr = 0.1, .momentum = 0.9});
      dist::Checkpointer checkpoint(run, world);
      checkpoint.track("model", model);
      sum(model(shelf_input(16))).backward();
      sgd.step();
      sgd.zero_grad();
      checkpoint.save(1);
      add_values(saved, model);
      model(shelf_input(16));  // the shards are in the file again
      world.barrier();
      if (world.rank() == 0) damage(disk, cut);
      world.barrier();
      sum(model(shelf_input(16))).backward();
    });
    for (const std::string& error : errors) {
      CHECK_THAT(error,
                 ContainsSubstring("offload: the shard of unit '0' is lost: swap file in ") &&
                     ContainsSubstring("resume from a checkpoint"));
    }
    dist::run_ranks(2, [&](dist::Communicator& world) {
      Stack model(3, 16);
      dist::fully_shard(model, world, {.unit = dist::each<nn::Linear>()});
      optim::SGD sgd(model.parameters(), {.lr = 0.1});
      dist::Checkpointer checkpoint(run, world);
      checkpoint.track("model", model);
      expect(checkpoint.resume() == 1, "the checkpoint");
      add_values(loaded, model);
    });
    CHECK(loaded.size() == 3);
    CHECK(saved.difference(loaded) == "");
  }
  std::filesystem::remove_all(run);
}
