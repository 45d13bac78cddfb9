// Which units stay gathered between forward and backward, set between two steps.
#include <map>
#include <string>
#include <vector>

#include "dist/data_parallel/strategies.h"
#include "dist/ranks.h"
#include "support/catch.h"

namespace {

using namespace hero;
using namespace hero::test;
using Catch::Matchers::ContainsSubstring;

// How often each unit is gathered in a step.
std::map<std::string, int> gathered_in_step(const dist::DataParallel& fsdp, nn::Module& model,
                                            const dist::Communicator& world, int step) {
  std::map<std::string, int> times;
  fsdp.on_event([&](const dist::Event& event) {
    if (event.kind == dist::Event::Kind::gather) ++times[event.unit];
  });
  subject_loss(Subject::gpt, model, step, world.rank()).backward();
  fsdp.on_event({});
  return times;
}

TEST_CASE("units that are set to stay are gathered once a step, with the same bits") {
  dist::run_ranks(2, [](dist::Communicator& world) {
    const auto model = make_subject(Subject::gpt), other = make_subject(Subject::gpt);
    const auto fsdp = dist::fully_shard(*model, world, {.unit = dist::each<nn::Block>()});
    dist::fully_shard(*other, world, {.unit = dist::each<nn::Block>()});
    const std::string first = "transformer.h.0", second = "transformer.h.1";
    const auto check_step = [&](int step, int times_first, int times_second) {
      const auto times = gathered_in_step(fsdp, *model, world, step);
      subject_loss(Subject::gpt, *other, step, world.rank()).backward();
      expect(times.at(first) == times_first, first, " is gathered ", times.at(first), " times");
      expect(times.at(second) == times_second, second, " is gathered ", times.at(second), " times");
      const auto here = model->parameters(), there = other->parameters();
      for (size_t i = 0; i < here.size(); ++i) {
        expect(same(here[i].grad().array(), there[i].grad().array()), "gradients");
      }
    };
    check_step(0, 2, 2);
    fsdp.set_reshard_after_forward(false, first);
    check_step(1, 1, 2);
    fsdp.set_reshard_after_forward(false);
    check_step(2, 1, 1);
    fsdp.set_reshard_after_forward(true, first);
    check_step(3, 2, 1);
    fsdp.set_reshard_after_forward(true);
    check_step(4, 2, 2);
    fsdp.set_reshard_after_forward(false);
    {
      const NoGrad no_grad;  // nothing stays where no backward follows
      subject_loss(Subject::gpt, *model, 0, world.rank());
    }
    check_step(5, 1, 1);
  });
}

TEST_CASE(
    "units that stay after backward are gathered anew only after a step, with the same bits") {
  dist::run_ranks(2, [](dist::Communicator& world) {
    const auto model = make_subject(Subject::gpt), other = make_subject(Subject::gpt);
    const auto fsdp = dist::fully_shard(*model, world, {.unit = dist::each<nn::Block>()});
    const auto there = dist::fully_shard(*other, world, {.unit = dist::each<nn::Block>()});
    const auto ours = make_method(Method::adamw, model->parameters());
    const auto theirs = make_method(Method::adamw, other->parameters());
    const std::string first = "transformer.h.0", second = "transformer.h.1";
    int pass = 0;
    const auto check_pass = [&](int times_root, int times_first, int times_second) {
      auto times = gathered_in_step(fsdp, *model, world, pass);
      subject_loss(Subject::gpt, *other, pass++, world.rank()).backward();
      expect(times["root"] == times_root, "root is gathered ", times["root"], " times");
      expect(times[first] == times_first, first, " is gathered ", times[first], " times");
      expect(times[second] == times_second, second, " is gathered ", times[second], " times");
      const auto here = model->parameters(), expected = other->parameters();
      for (size_t i = 0; i < here.size(); ++i) {
        expect(partition(here[i]) != nullptr && here[i].ndim() == 1, "a shard between two passes");
        expect(same(here[i].grad().array(), expected[i].grad().array()), "gradients");
      }
    };
    const auto step = [&] {
      finish_step(*model, *ours, 0.5);
      finish_step(*other, *theirs, 0.5);
    };
    fsdp.set_reshard_after_backward(false, first);
    check_pass(1, 2, 2);
    check_pass(1, 1, 2);  // it is freed after forward alone
    fsdp.set_reshard_after_forward(false);
    check_pass(1, 0, 1);
    step();
    check_pass(1, 1, 1);
    {
      const NoGrad no_grad;  // nothing stays where no backward follows
      subject_loss(Subject::gpt, *model, 0, world.rank());
    }
    fsdp.set_reshard_after_backward(false);
    check_pass(1, 1, 1);
    check_pass(0, 0, 0);
    expect(same_state(fsdp.full_state_dict(), there.full_state_dict()), "whole values");
    check_pass(1, 1, 1);
    step();
    check_pass(1, 1, 1);
    fsdp.set_reshard_after_backward(true);
    check_pass(0, 0, 0);
    expect(current_ledger().live(MemoryTag::communication) == 0, "nothing is gathered");
    check_pass(1, 1, 1);
  });
}

TEST_CASE("what stays is set for units of shards, by paths, on all ranks alike") {
  const auto error_of_rank_0 = [](const dist::RankProgram& program) {
    return errors_of(2, program)[0];
  };
  const auto shard = [](nn::Module& model, dist::Communicator& world) {
    return dist::fully_shard(model, world, {.unit = dist::each<nn::Block>()});
  };
  CHECK_THAT(error_of_rank_0([&](dist::Communicator& world) {
               const auto model = make_subject(Subject::gpt);
               shard(*model, world).set_reshard_after_forward(false, "transformer.h.0.mlp");
             }),
             ContainsSubstring("set_reshard_after_forward: no unit lies at or below"));
  CHECK_THAT(error_of_rank_0([&](dist::Communicator& world) {
               const auto model = make_subject(Subject::gpt);
               dist::ZeRO(*model, world, {.stage = 2}).set_reshard_after_forward(false);
             }),
             ContainsSubstring("only units of fully_shard() and ZeRO-3"));
  CHECK_THAT(error_of_rank_0([&](dist::Communicator& world) {
               const auto model = make_subject(Subject::gpt);
               dist::DDP(*model, world).set_reshard_after_backward(false);
             }),
             ContainsSubstring("set_reshard_after_backward: '': only units of fully_shard()"));
  CHECK_THAT(error_of_rank_0([&](dist::Communicator& world) {
               const auto model = make_subject(Subject::gpt);
               shard(*model, world).set_reshard_after_forward(world.rank() == 0);
               subject_loss(Subject::gpt, *model, 0, world.rank()).backward();
             }),
             ContainsSubstring("ranks disagree"));
}

}  // namespace
