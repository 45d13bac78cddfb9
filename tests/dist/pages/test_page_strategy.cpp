// The strategy of docs/extending/adding_a_strategy.md, and what the page promises of it.
#include "dist/data_parallel/strategies.h"
#include "support/catch.h"

#include <hero/core/ledger.h>
#include <hero/dist/data_parallel/sharded_module.h>
#include <hero/dist/data_parallel/wrap.h>

using namespace hero;
using namespace hero::test;

namespace pages {

// [snippet: strategy]
/// ZeRO-2 in units that a policy chooses in place of buckets of one size: every rank keeps whole
/// parameters and an N-th of gradients and states, and a unit's gradients are averaged in one call
/// as soon as its module's backward is done. Parameters tied over two units go to the root's.
void zero2_by_unit(nn::Module& module, const dist::Communicator& world,
                   const dist::UnitPolicy& unit) {
  auto sharded = std::make_shared<dist::ShardedModule>(
      module, dist::Groups{world, {}},
      dist::ShardedModuleOptions{.units = {.stage = dist::Stage::gradients},
                                 .unused = dist::Unused::error,
                                 .broadcast_buffers = true});
  dist::add_units(*sharded, dist::unit_parameters(module, {}, false), unit, dist::Tied::to_root);
  sharded->install();  // the module carries it from now on
}
// [end]

}  // namespace pages

TEST_CASE("the strategy of the page ends with the bits of one process") {
  for (const Subject subject : {Subject::mlp, Subject::encoder, Subject::gpt}) {
    for (const int ranks : {1, 2, 3, 4}) {
      Whole expected, got;
      const auto alone = make_subject(subject);
      const auto adamw = make_method(Method::adamw, alone->parameters());
      train_alone(subject, *alone, *adamw, ranks, 4, 0.5);
      add_state(expected, *alone, *adamw);
      dist::run_ranks(ranks, [&](dist::Communicator& world) {
        const auto model = make_subject(subject);
        pages::zero2_by_unit(*model, world, units_of(subject));
        const auto own = make_method(Method::adamw, model->parameters());
        train(subject, *model, *own, world, 4, 0.5);
        add_state(got, *model, *own);
      });
      CAPTURE(static_cast<int>(subject), ranks);
      CHECK(expected.difference(got) == "");
    }
  }
}

TEST_CASE("the strategy of the page keeps its part of gradients and states") {
  dist::run_ranks(4, [](dist::Communicator& world) {
    const auto model = make_subject(Subject::mlp);
    pages::zero2_by_unit(*model, world, dist::each<nn::Linear>());
    const auto adamw = make_method(Method::adamw, model->parameters());
    subject_loss(Subject::mlp, *model, 0, world.rank()).backward();
    int64_t own = 0, whole = 0;
    for (const Tensor& p : model->parameters()) {
      own += p.numel();
      whole += whole_shape(p).numel();
      expect(p.grad().defined() && p.grad().numel() == p.numel(), "a gradient of the shard's size");
    }
    expect(whole == 7 * 13 + 13 + 13 * 11 + 11 + 11 * 5 + 5, "all parameters, got ", whole);
    // three units, each cut into four parts of a multiple of eight elements
    expect(own <= whole / 4 + 3 * 8, "a quarter of them, got ", own);
    adamw->step();
    const int64_t states = current_ledger().live(MemoryTag::optimizer);
    expect(states >= 8 * own && states < 8 * own + 1024, "AdamW's states of the shard, got ",
           states);
  });
}
