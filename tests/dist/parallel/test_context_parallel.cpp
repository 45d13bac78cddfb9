// Ranks that share each sequence.
#include <functional>
#include <string>
#include <vector>

#include "dist/parallel/context.h"
#include "support/catch.h"
#include "support/sanitized.h"

#include <hero/autograd/autograd.h>

using namespace hero;
using namespace hero::test;

TEST_CASE("ranks that share a sequence have one loss and the gradients of one process",
          "[context][threads]") {
  for (const ContextKind kind :
       {ContextKind::tied, ContextKind::rotary, ContextKind::checkpointed}) {
    for (const int ranks : {1, 2, 4}) {
      CAPTURE(static_cast<int>(kind), ranks);
      dist::run_ranks(ranks, [&](dist::Communicator& world) {
        const auto whole = context_model(context_gpt(kind)),
                   mine = context_model(context_gpt(kind));
        dist::context_parallel(*mine, world, {.slices = 4});
        dist::DDP(*mine, world);
        const Tensor expected = context_loss(*whole, 0, 0), loss = context_loss(*mine, 0, 0);
        expected.backward();
        loss.backward();
        // a mean of 16 losses near 3 of float32, added up in another order
        expect(std::abs(loss.item() - expected.item()) < 2e-6, "loss ", loss.item(), ", not ",
               expected.item());
        const Array all = Array::empty({world.size()}, kFloat32);
        world.all_gather(all, loss.detach().array().reshape({1}));
        for (const float each : all.to_vector<float>()) {
          expect(each == loss.item<float>(), "one loss on all ranks");
        }
        for (const auto& [name, leaf] : mine->named_parameters()) {
          const Tensor other = whole->get_parameter(name).grad();
          // sums of at most 32 products of float32 in another order, of values below 4
          const double differs = amax(abs(leaf.grad() - other)).item();
          expect(differs < 1e-5, name, " differs by ", differs);
          expect(amax(abs(other)).item() > 1e-5, name, " has a gradient to compare");
        }
      });
    }
  }
}

TEST_CASE("ranks that share a sequence train to the same bits on any number of them",
          "[context][threads]") {
  for (const ContextKind kind :
       {ContextKind::tied, ContextKind::rotary, ContextKind::checkpointed}) {
    for (const int data : {1, 2}) {
      Whole expected;
      std::vector<double> losses;
      train_context(kind, {data, 1, ShardingStrategy::ddp}, expected, losses);
      CHECK(expected.size() > 4);
      for (const int context : {1, 2, 4}) {
        for (const ShardingStrategy strategy : {ShardingStrategy::ddp, ShardingStrategy::zero2,
                                                ShardingStrategy::fsdp, ShardingStrategy::hybrid}) {
          if (data * context == 8 && strategy == ShardingStrategy::zero2)
            continue;  // the others show it
          if (hero_test::kIsSanitized && (data == 1 || strategy == ShardingStrategy::ddp)) continue;
          CAPTURE(static_cast<int>(kind), data, context, name(strategy));
          Whole got;
          std::vector<double> found;
          train_context(kind, {data, context, strategy}, got, found);
          CHECK(found == losses);
          CHECK(expected.difference(got) == "");
        }
      }
    }
  }
}

TEST_CASE("micro-batches of one process are those of ranks beside those that share", "[context]") {
  Whole expected, got;
  std::vector<double> losses;
  train_context(ContextKind::tied, {2, 4, ShardingStrategy::fsdp}, expected, losses);
  dist::run_ranks(1, [&](dist::Communicator& world) {
    const auto model = context_model(context_gpt(ContextKind::tied));
    dist::context_parallel(*model, world, {.slices = 4});
    const auto optimizer = make_method(Method::adamw, model->parameters());
    optim::Accumulator gradients(model->parameters());
    for (int step = 0; step < 3; ++step) {
      for (int batch = 0; batch < 2; ++batch) {
        context_loss(*model, step, batch).backward();
        gradients.add();
      }
      gradients.mean();
      finish_step(*model, *optimizer, 0.5);
    }
    add_state(got, *model, *optimizer);
  });
  CHECK(expected.difference(got) == "");
}

TEST_CASE("scores of a shared sequence are those of one process to the bit where runs are tiles",
          "[context]") {
  const nn::GPTConfig config = {
      .vocab_size = 19, .block_size = 512, .n_layer = 2, .n_head = 2, .n_embd = 16};
  std::vector<int64_t> ids;
  for (int64_t i = 0; i < 512; ++i) ids.push_back(i * i % 19);
  const Tensor tokens(Array::from(ids, {1, 512}));
  for (const int ranks : {2, 4}) {  // runs of 128 and of 64 positions
    CAPTURE(ranks);
    dist::run_ranks(ranks, [&](dist::Communicator& world) {
      const auto whole = context_model(config), mine = context_model(config);
      const auto context = dist::context_parallel(*mine, world);
      const Tensor scores = (*mine)(tokens);
      expect(scores.shape() == Shape{1, 512 / ranks, 19}, "scores at this rank's positions");
      const Tensor expected = (*whole)(tokens).detach();
      expect(equal(context.gather(scores), expected), "the bits of one process");
      expect(equal(scores.detach(), context.take(expected)), "at these positions");
    });
  }
}

TEST_CASE("positions are dealt so that all ranks see as many keys", "[context]") {
  dist::run_ranks(1, [&](dist::Communicator& world) {
    nn::CausalSelfAttention attention(context_gpt(ContextKind::tied));
    const auto context = dist::context_parallel(attention, world);
    const Tensor odd(noise({1, 5, 16}));
    expect(equal(context.take(odd), odd) && equal(context.gather(odd), odd), "alone, any length");
  });
  constexpr int64_t kLength = 48;
  for (const int ranks : {1, 2, 3, 4}) {
    std::vector<std::vector<int64_t>> of(static_cast<size_t>(ranks));
    dist::run_ranks(ranks, [&](dist::Communicator& world) {
      nn::CausalSelfAttention attention(context_gpt(ContextKind::tied));
      const auto context = dist::context_parallel(attention, world);
      of[static_cast<size_t>(world.rank())] = context.positions(kLength);
    });
    std::vector<int64_t> all;
    for (const auto& mine : of) {
      int64_t seen = 0;
      for (const int64_t position : mine) seen += position + 1;
      CHECK(seen == kLength * (kLength + 1) / 2 / ranks);
      all.insert(all.end(), mine.begin(), mine.end());
    }
    std::sort(all.begin(), all.end());
    REQUIRE(all.size() == kLength);
    for (size_t i = 0; i < all.size(); ++i) CHECK(all[i] == static_cast<int64_t>(i));
  }
}

TEST_CASE("ranks that share a sequence send the keys and values and one loss", "[context]") {
  const nn::GPTConfig config = context_gpt(ContextKind::rotary);
  const auto sent_by = [&](dist::Communicator& world, const Tensor& ids) {
    const dist::Mesh mesh(world, {{"data", 1}, {"context", world.size()}});
    const auto model = context_model(config);
    if (ids.device() == kMeta) model->to(kMeta);
    dist::context_parallel(*model, mesh["context"]);
    dist::DDP(*model, world);
    world.traffic().reset();
    model->loss(ids, ids).backward();
    return world.traffic().bytes_of_axis("context");
  };
  const auto formula = [&](int64_t positions, int ranks, int rank) {
    const int64_t n = positions * 2 * (config.n_embd / 2) * 4;  // half as many heads of keys
    const int64_t loss = rank == 0 ? 4 * (ranks - 1) : 4;       // the first rank adds up
    return config.n_layer * 2 * n * (ranks - 1) / ranks + loss;
  };
  for (const int ranks : {2, 4}) {
    dist::run_ranks(ranks, [&](dist::Communicator& world) {
      const int64_t sent = sent_by(world, context_ids(0, 0, false));
      expect(sent == formula(2 * 16, ranks, world.rank()), "sent ", sent, " by rank ",
             world.rank());
    });
  }
  dist::simulate_ranks(
      8,
      [&](dist::Communicator& world) {
        const int64_t sent = sent_by(world, Tensor(Array::zeros({4, 16}, kInt64, kMeta)));
        expect(sent == formula(4 * 16, 8, world.rank()), "sent ", sent);
      },
      {0, 7});
}

TEST_CASE("units within a module that computes in slices are refused with more slices than ranks",
          "[context]") {
  for (const int slices : {2, 4}) {
    const auto errors = errors_of(2, [&](dist::Communicator& world) {
      const auto model = context_model(context_gpt(ContextKind::tied));
      dist::context_parallel(*model, world, {.slices = slices});
      dist::ZeRO(*model, world, {.stage = 3});
      context_loss(*model, 0, 0).backward();
    });
    for (const std::string& error : errors) {
      CAPTURE(slices, error);
      const bool refused = error.find(
                               "'c_fc.weight' once for each slice, and that is in a unit of "
                               "its own") != std::string::npos;
      CHECK((slices == 2 ? error.empty() : refused));
    }
  }
}
