// More ranks than a unit has elements for: the last ones own nothing but the end of its row, which
// belongs to no parameter, and take part in everything.
#include <limits>

#include "dist/checkpoints.h"
#include "support/catch.h"
#include "support/temp_dir.h"

using namespace hero;
using namespace hero::test;

namespace {

constexpr int kManyRanks = 17;

// Of all leaves.
int64_t elements_held(const nn::Module& model) {
  int64_t held = 0;
  for (const Tensor& p : model.parameters()) held += p.numel();
  return held;
}

}  // namespace

TEST_CASE("ranks that own nothing but padding end with the bits of one process", "[padding]") {
  for (const ShardingStrategy strategy : kSharding) {
    for (const Method method : {Method::adamw, Method::lamb}) {
      CAPTURE(name(strategy), static_cast<int>(method));
      CHECK(climb_difference({strategy, Subject::odd, method, kManyRanks, 2, 0.05}) == "");
    }
  }
  dist::run_ranks(kManyRanks, [](dist::Communicator& world) {
    const auto model = make_subject(Subject::odd);
    climb(ShardingStrategy::fsdp, Subject::odd, *model, world);
    // the longest row has 58 elements up to the end of its last parameter, and 8 a rank
    expect((elements_held(*model) == 0) == (world.rank() >= 8), "those that own nothing");
    expect(current_ledger().live(MemoryTag::parameter) > 0, "and has the padding's bytes");
  });
}

TEST_CASE("checkpoints of ranks that own nothing but padding are those of the whole", "[padding]") {
  const Job job{Subject::odd, Method::adamw};
  const Stand many{ShardingStrategy::fsdp, kManyRanks}, alone{ShardingStrategy::single, kManyRanks};
  for (const bool out : {true, false}) {
    CAPTURE(out);
    const hero_test::TempDir folder;
    const std::string run = folder / "run";
    Whole saved, loaded, end, expected_end;
    train_and_save(out ? many : alone, job, run, saved);
    load_and_train(out ? alone : many, job, run, loaded, end);
    CHECK(saved.difference(loaded) == "");
    Whole again;
    load_and_train(out ? many : alone, job, run, again, expected_end);
    CHECK(expected_end.difference(end) == "");
    CHECK(end.size() >= 4);
  }
}

TEST_CASE("master weights of ranks that own nothing but padding are those of the whole",
          "[padding]") {
  using Masters = optim::MasterWeights<optim::AdamW>;
  const auto steps = [](nn::Module& model, int rank, Whole& whole) {
    Masters adamw(model.parameters(), optim::AdamWOptions{.lr = 0.01});
    for (int step = 0; step < 2; ++step) {
      subject_loss(Subject::odd, model, step, rank).backward();
      finish_step(model, adamw, 0.05);
    }
    add_state(whole, model, adamw);
  };
  Whole few, many;
  for (const int ranks : {1, kManyRanks}) {
    dist::run_ranks(ranks, [&](dist::Communicator& world) {
      const auto model = make_subject(Subject::odd);
      model->to(kBFloat16);
      climb(ShardingStrategy::fsdp, Subject::odd, *model, world);
      steps(*model, 0, ranks == 1 ? few : many);  // alike on all ranks: their mean is exact
    });
  }
  CHECK(few.difference(many) == "");
  CHECK(few.size() >= 4);
}

TEST_CASE("a gradient scaler agrees with ranks that own nothing but padding", "[padding]") {
  Whole plain, scaled;
  for (const bool scales : {false, true}) {
    dist::run_ranks(kManyRanks, [&](dist::Communicator& world) {
      const auto model = make_subject(Subject::odd);
      climb(ShardingStrategy::fsdp, Subject::odd, *model, world);
      optim::SGD sgd(model->parameters(), {.lr = 0.05});
      optim::GradScaler scaler({.init_scale = 4.0, .enabled = scales});
      for (int step = 0; step < 3; ++step) {
        const Tensor loss = subject_loss(Subject::odd, *model, step, world.rank());
        const bool overflows = step == 1;
        if (overflows && !scales) continue;
        const bool here = overflows && world.rank() == 0;
        scaler.scale(here ? loss * std::numeric_limits<double>::infinity() : loss).backward();
        scaler.unscale_(sgd);
        optim::clip_grad_norm(model->parameters(), 0.05);
        expect(scaler.step(sgd) == !overflows, "a step of all ranks or of none");
        scaler.update();
        sgd.zero_grad();
      }
      expect(!scales || scaler.get_scale() == 2.0, "the scale fell once on every rank");
      add_state(scales ? scaled : plain, *model, sgd);
    });
  }
  CHECK(plain.difference(scaled) == "");
}
