// What a program does to the parameters of a module that is sharded counts as under DDP, or is an
// Error: hooks on them, and other tensors in their place.
#include <string>
#include <vector>

#include "dist/data_parallel/strategies.h"
#include "support/catch.h"

#include <hero/autograd/autograd.h>
#include <hero/nn/functional_call.h>

using namespace hero;
using namespace hero::test;
using namespace hero::dist;
using Catch::Matchers::ContainsSubstring;

namespace {

enum class Way { ddp, zero1, zero2, zero3, root, units, no_reshard, nested, hybrid };
constexpr Way kSharded[] = {Way::zero1, Way::zero2,      Way::zero3,  Way::root,
                            Way::units, Way::no_reshard, Way::nested, Way::hybrid};
constexpr const char* kNames[] = {"ddp",   "zero1",      "zero2",  "zero3", "root",
                                  "units", "no_reshard", "nested", "hybrid"};

DataParallel put(Way way, SmallMLP& model, const Communicator& world) {
  const UnitPolicy linears = each<nn::Linear>();
  switch (way) {
    case Way::ddp:
      return DDP(model, world, {.bucket_bytes = 700});
    case Way::zero1:
      return ZeRO(model, world, {.stage = 1, .bucket_bytes = 700});
    case Way::zero2:
      return ZeRO(model, world, {.stage = 2, .bucket_bytes = 700});
    case Way::zero3:
      return ZeRO(model, world, {.stage = 3});
    case Way::root:
      return fully_shard(model, world);
    case Way::units:
      return fully_shard(model, world, {.unit = linears});
    case Way::no_reshard: {
      DataParallel parallel = fully_shard(model, world, {.unit = linears});
      parallel.set_reshard_after_backward(false);
      return parallel;
    }
    case Way::nested:
      fully_shard(model.fc2, world);
      return fully_shard(model, world);
    case Way::hybrid: {
      const int group = world.size() == 1 ? 1 : 2;
      const Mesh mesh(world, {{"replicate", world.size() / group}, {"shard", group}});
      return fully_shard(model, mesh, {.unit = linears});
    }
  }
  fail("no such way");
}

using Seen = std::vector<uint64_t>;

/// Row 0 of fc2.weight gets no gradient, fc1.bias a doubled one.
void hook(nn::Module& model, Seen& seen) {
  model.get_parameter("fc2.weight").register_hook([&seen](const Tensor& gradient) {
    seen.push_back(hash(gradient.array()));
    const NoGrad no_grad;
    Tensor masked = gradient.clone();
    masked.select(0, 0).zero_();
    return masked;
  });
  const Tensor bias = model.get_parameter("fc1.bias");
  bias.register_hook([](const Tensor& gradient) { return gradient * 2.0; });
  bias.register_hook([](const Tensor& gradient) { return gradient * 3.0; }).remove();
  bias.register_hook([&seen](const Tensor& gradient) {  // what the first one has returned
    seen.push_back(hash(gradient.array()));
    return Tensor();
  });
}

enum class When { before, after, between };

/// What the hooks of each rank saw, and then the trained values.
std::vector<Seen> train_hooked(Way way, int ranks, When when) {
  std::vector<Seen> seen_by(static_cast<size_t>(ranks));
  run_ranks(ranks, [&](Communicator& world) {
    Seen& seen = seen_by[static_cast<size_t>(world.rank())];
    manual_seed(7);
    SmallMLP model;
    if (when == When::before) hook(model, seen);
    const DataParallel parallel = put(way, model, world);
    if (when == When::after) hook(model, seen);
    optim::SGD sgd(parallel.parameters(), {.lr = 0.125, .momentum = 0.5});
    for (int step = 0; step < 3; ++step) {
      {
        const NoSync no_sync = parallel.no_sync();
        subject_loss(Subject::mlp, model, 10 + step, world.rank()).backward();
      }
      const Tensor loss = subject_loss(Subject::mlp, model, step, world.rank());
      if (when == When::between && step == 0) hook(model, seen);
      loss.backward();
      sgd.step();
      sgd.zero_grad();
    }
    expect(seen.size() == (when == When::between ? 10 : 12), "hooks are called in every pass");
    for (const auto& entry : parallel.full_state_dict()) seen.push_back(hash(entry.array));
  });
  return seen_by;
}

}  // namespace

TEST_CASE("a hook on a parameter gets the rank's whole gradient under every strategy") {
  for (const int ranks : {1, 2, 4}) {
    for (const When when : {When::before, When::after, When::between}) {
      const std::vector<Seen> expected = train_hooked(Way::ddp, ranks, when);
      for (const Way way : kSharded) {
        CAPTURE(ranks, kNames[static_cast<int>(way)], static_cast<int>(when));
        CHECK(train_hooked(way, ranks, when) == expected);
      }
    }
  }
}

TEST_CASE("a hook on a shard that returns another shape is named with the parameter") {
  for (const std::string& error : errors_of(2, [](Communicator& world) {
         SmallMLP model;
         fully_shard(model, world);
         const Tensor shard = model.fc1.weight;
         shard.register_hook([shard](const Tensor&) { return shard.detach().clone(); });
         subject_loss(Subject::mlp, model, 0, world.rank()).backward();
       })) {
    CHECK_THAT(error, ContainsSubstring("hook: returned a gradient of shape") &&
                          ContainsSubstring("for the whole one of fc1.weight, [13, 7]"));
  }
}

TEST_CASE("a tensor in a parameter's place is named, whatever is gathered") {
  enum class State { at_rest, dropped, between, trained };
  for (const int ranks : {1, 2}) {
    for (const Way way : kSharded) {
      for (const State state : {State::at_rest, State::dropped, State::between, State::trained}) {
        for (const bool calls : {true, false}) {
          CAPTURE(ranks, kNames[static_cast<int>(way)], static_cast<int>(state), calls);
          for (const std::string& error : errors_of(ranks, [&](Communicator& world) {
                 SmallMLP model;
                 const DataParallel parallel = put(way, model, world);
                 const auto loss = [&] {
                   return subject_loss(Subject::mlp, model, 0, world.rank());
                 };
                 Tensor kept;
                 if (state == State::dropped) loss();
                 if (state == State::between) kept = loss();
                 if (state == State::trained) loss().backward();
                 const Tensor given = full({11}, 10.0);
                 if (calls) {
                   const NoGrad no_grad;
                   nn::functional_call(model, {{"fc2.bias", given}}, ones({2, 7}));
                 } else {
                   model.fc2.bias = given.requires_grad_();
                   if (kept.defined()) kept.backward();
                   loss();
                 }
               })) {
            CHECK_THAT(error, ContainsSubstring("fc2.bias was given another tensor"));
          }
        }
      }
    }
  }
}

TEST_CASE("a state dict of a module with a tensor in a parameter's place is an error") {
  for (const std::string& error : errors_of(2, [](Communicator& world) {
         SmallMLP model;
         const DataParallel parallel = fully_shard(model, world);
         const Tensor loss = subject_loss(Subject::mlp, model, 0, world.rank());
         model.fc2.bias = full({11}, 10.0).requires_grad_();
         parallel.full_state_dict();
       })) {
    CHECK_THAT(error, ContainsSubstring("summon_full_parameters: fc2.bias was given another"));
  }
}

TEST_CASE("what is frozen or hooked while parameters are summoned stays so") {
  for (const int ranks : {1, 2, 4}) {
    for (const bool writeback : {true, false}) {
      const auto train = [&](Way way) {
        std::vector<Seen> seen_by(static_cast<size_t>(ranks));
        run_ranks(ranks, [&](Communicator& world) {
          Seen& seen = seen_by[static_cast<size_t>(world.rank())];
          manual_seed(7);
          SmallMLP model;
          const DataParallel parallel = put(way, model, world);
          {
            const FullParameters whole = parallel.summon_full_parameters({.writeback = writeback});
            model.fc1.requires_grad_(false);
            model.fc1.bias.requires_grad_();
            hook(model, seen);
          }
          expect(!model.fc1.weight.requires_grad() && model.fc1.bias.requires_grad(),
                 "as the program left them");
          optim::SGD sgd(parallel.parameters(), {.lr = 0.125});
          for (int step = 0; step < 2; ++step) {
            subject_loss(Subject::mlp, model, step, world.rank()).backward();
            sgd.step();
            sgd.zero_grad();
          }
          expect(seen.size() == 4, "hooks are called");
          for (const auto& entry : parallel.full_state_dict()) seen.push_back(hash(entry.array));
        });
        return seen_by;
      };
      const std::vector<Seen> expected = train(Way::ddp);
      for (const Way way : kSharded) {
        CAPTURE(ranks, writeback, kNames[static_cast<int>(way)]);
        CHECK(train(way) == expected);
      }
    }
  }
}

TEST_CASE("what is frozen as a shard while parameters are summoned stays frozen") {
  run_ranks(2, [](Communicator& world) {
    SmallMLP model;
    const DataParallel parallel = fully_shard(model, world);
    const std::vector<Tensor> shards = model.parameters();
    {
      const FullParameters whole = parallel.summon_full_parameters();
      for (const Tensor& shard : shards) shard.requires_grad_(false);
    }
    expect(model.parameter_count(true) == 0, "all are frozen");
  });
}

TEST_CASE("another tensor or a gradient given while parameters are summoned is an error") {
  for (const int ranks : {1, 2}) {
    for (const Way way : kSharded) {
      CAPTURE(ranks, kNames[static_cast<int>(way)]);
      for (const std::string& error : errors_of(ranks, [&](Communicator& world) {
             SmallMLP model;
             const DataParallel parallel = put(way, model, world);
             {
               const FullParameters whole = parallel.summon_full_parameters();
               model.fc2.bias = full({11}, 10.0).requires_grad_();
             }
             subject_loss(Subject::mlp, model, 0, world.rank());
           })) {
        CHECK_THAT(error, ContainsSubstring("forward: fc2.bias was given another tensor"));
      }
      for (const bool forward : {true, false}) {
        for (const std::string& error : errors_of(ranks, [&](Communicator& world) {
               SmallMLP model;
               const DataParallel parallel = put(way, model, world);
               optim::SGD sgd(parallel.parameters(), {.lr = 0.125});
               const auto give = [&] {
                 const FullParameters whole = parallel.summon_full_parameters();
                 model.fc2.bias.set_grad(ones({11}));
               };
               give();
               sgd.zero_grad();
               subject_loss(Subject::mlp, model, 0, world.rank()).backward();
               sgd.step();
               give();
               if (forward) subject_loss(Subject::mlp, model, 0, world.rank());
               sgd.step();
             })) {
          CHECK_THAT(error, ContainsSubstring(forward ? "forward: 'fc2.bias' got a gradient while"
                                                      : "step: 'fc2.bias' got a gradient while"));
        }
      }
    }
  }
}

TEST_CASE("what one rank alone writes to summoned parameters is an error on all") {
  for (const Way way : kSharded) {
    for (const bool summons : {true, false}) {
      for (const bool all : {true, false}) {
        CAPTURE(kNames[static_cast<int>(way)], summons, all);
        for (const std::string& error : errors_of(2, [&](Communicator& world) {
               SmallMLP model;
               const DataParallel parallel = put(way, model, world);
               {
                 const FullParameters whole = parallel.summon_full_parameters();
                 const NoGrad no_grad;
                 if (all || world.rank() == 0) model.fc2.bias.fill_(3.0);
               }
               if (summons) parallel.full_state_dict();
               subject_loss(Subject::mlp, model, 0, world.rank()).backward();
             })) {
          if (all) {
            CHECK(error == "");
          } else {
            CHECK_THAT(error, ContainsSubstring("summon_full_parameters: the program wrote to"));
          }
        }
      }
    }
  }
}
