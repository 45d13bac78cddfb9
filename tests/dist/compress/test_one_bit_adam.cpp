// 1-bit Adam against one process that does what N workers do, to the bit.
#include <limits>
#include <mutex>

#include "dist/compress/one_bit.h"
#include "support/catch.h"

#include <hero/core/thread_pool.h>
#include <hero/optim/grad_scaler.h>

using namespace hero;
using namespace hero::test;
using namespace hero::dist;
using Catch::Matchers::ContainsSubstring;

namespace {

void check_against_simulation(Subject subject, int ranks, int steps) {
  const std::vector<Floats> expected = simulate_one_bit_adam(subject, ranks, steps);
  run_ranks(ranks, [&](Communicator& world) {
    train_one_bit_adam(world, subject, steps,
                       [&](int step, const Floats& got, int64_t, OneBitAdam&) {
                         const std::string off = unlike(got, expected[static_cast<size_t>(step)]);
                         expect(off.empty(), "step ", step, " on rank ", world.rank(), ": ", off);
                       });
  });
}

}  // namespace

TEST_CASE("one_bit: 1-bit Adam has the bits of one process that simulates its workers") {
  for (const int ranks : {1, 2, 3, 4}) {
    CAPTURE(ranks);
    check_against_simulation(Subject::mlp, ranks, 8);
  }
  check_against_simulation(Subject::gpt, 4, 6);
  check_against_simulation(Subject::mlp, 8, 6);
}

TEST_CASE("one_bit: the number of threads does not enter into a bit", "[threads]") {
  for (const int threads : {2, 3}) {
    const ThreadLimit limit(threads);
    check_against_simulation(Subject::gpt, 2, 5);
  }
}

TEST_CASE("one_bit: a frozen step sends the bytes of the formula, and the warm-up DDP's") {
  for (const int ranks : {2, 3, 4}) {
    CAPTURE(ranks);
    run_ranks(ranks, [&](Communicator& world) {
      train_one_bit_adam(world, Subject::mlp, 5,
                         [&](int step, const Floats& parameters, int64_t sent, OneBitAdam& adam) {
                           expect(adam.frozen() == (step >= 2), "frozen after the third step");
                           if (step < 3) return;
                           const OneBitSimulation formula(static_cast<size_t>(world.size()),
                                                          parameters.size(), 128);
                           const int64_t expected = formula.bytes() + 8 * (world.size() - 1);
                           expect(sent == expected, "sent ", sent, ", not ", expected);
                           expect(adam.bytes_of_step() == expected, "bytes_of_step is ",
                                  adam.bytes_of_step());
                         });
      int64_t bits = 0;
      for (const Traffic::Row& row : world.traffic().rows()) {
        if (row.unit == "one_bit_adam") bits += row.bytes;
      }
      expect(bits > 0, "the ledger names who sends");
    });
  }
}

TEST_CASE("one_bit: gradients of several backwards are added up without no_sync") {
  std::vector<Floats> ends(2);
  for (const bool in_two : {false, true}) {
    run_ranks(2, [&](Communicator& world) {
      const auto model = make_subject(Subject::mlp);
      const DDP ddp(*model, world);
      OneBitAdam adam(ddp, model->parameters(), kOneBitAdam);
      for (int step = 0; step < 6; ++step) {
        const auto loss = [&](int part) {
          return subject_loss(Subject::mlp, *model, 2 * step + part, world.rank());
        };
        if (step < 3) {
          loss(0).backward();
        } else if (in_two) {
          loss(0).backward();
          loss(1).backward();
        } else {
          (loss(0) + loss(1)).backward();
        }
        adam.step();
        adam.zero_grad();
      }
      if (world.rank() == 0) ends[in_two ? 1 : 0] = flat_of(model->parameters());
    });
  }
  // one pass adds up in another order
  for (size_t i = 0; i < ends[0].size(); ++i)
    REQUIRE(ends[1][i] == Approx(ends[0][i]).margin(1e-4));
}

TEST_CASE("one_bit: elements without a gradient in the warm-up stay") {
  run_ranks(2, [&](Communicator& world) {
    manual_seed(1);
    nn::Embedding table(10, 4);
    const DDP ddp(table, world);
    OneBitAdam adam(ddp, table.parameters(), {.lr = 0.1, .freeze_step = 2});
    const Floats before = flat_of(table.parameters());
    for (int step = 0; step < 5; ++step) {
      const int64_t last = step < 2 ? 3 : 9;  // rows 4 to 9 are met after the freeze
      std::vector<int64_t> ids;
      for (int64_t i = 0; i <= last; ++i) ids.push_back(i);
      const Tensor ids_t(Array::from(ids, {last + 1}));
      sum(square(table(ids_t))).backward();
      adam.step();
      adam.zero_grad();
    }
    const Floats after = flat_of(table.parameters());
    expect(adam.still_elements() == 24, "still: ", adam.still_elements());
    for (size_t i = 0; i < after.size(); ++i) {
      expect((after[i] == before[i]) == (i >= 16), "element ", i, ": ", before[i], " ", after[i]);
    }
  });
}

TEST_CASE("one_bit: what is not finite on one rank is named on all, and nothing has changed") {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const float bad : {infinity, std::nanf("")}) {
    run_ranks(3, [&](Communicator& world) {
      const auto model = make_subject(Subject::mlp);
      const DDP ddp(*model, world);
      OneBitAdam adam(ddp, model->parameters(), kOneBitAdam);
      Floats before;
      for (int step = 0; step < 6; ++step) {
        subject_loss(Subject::mlp, *model, step, world.rank()).backward();
        if (step == 4) {
          if (world.rank() == 1) model->parameters()[2].grad().array().data<float>()[5] = bad;
          before = flat_of(model->parameters());
          const optim::StateDict errors = adam.rank_state_dict();
          const std::string error = error_of([&] { adam.step(); });
          expect(error ==
                     "one_bit_adam: the gradient of 'fc2.weight' is not finite on rank 1; nothing "
                     "was changed: leave this step out on every rank, or use optim::GradScaler",
                 error);
          expect(unlike(flat_of(model->parameters()), before).empty(), "parameters changed");
          expect(same_state(adam.rank_state_dict(), errors), "errors changed");
        } else {
          adam.step();
        }
        adam.zero_grad();
      }
      for (const float value : flat_of(model->parameters())) expect(std::isfinite(value), "finite");
    });
  }
}

TEST_CASE("one_bit: a gradient scaler passes over an overflow of one rank on all ranks") {
  run_ranks(2, [&](Communicator& world) {
    const auto model = make_subject(Subject::mlp);
    const DDP ddp(*model, world);
    OneBitAdam adam(ddp, model->parameters(), kOneBitAdam);
    optim::GradScaler scaler({.init_scale = 4.0});
    for (int step = 0; step < 6; ++step) {
      scaler.scale(subject_loss(Subject::mlp, *model, step, world.rank())).backward();
      const bool spoiled = step == 4;
      if (spoiled && world.rank() == 1) {
        model->parameters()[0].grad().array().data<float>()[0] = std::nanf("");
      }
      const Floats before = flat_of(model->parameters());
      expect(scaler.step(adam) == !spoiled, "step ", step);
      expect(unlike(flat_of(model->parameters()), before).empty() == spoiled, "stepped");
      scaler.update();
      adam.zero_grad();
    }
  });
}

TEST_CASE("one_bit: a number that overflows on its way is an error that names its bucket") {
  const std::vector<std::string> errors = errors_of(2, [&](Communicator& world) {
    manual_seed(1);
    nn::Linear model(40, 2);
    const DDP ddp(model, world);
    OneBitAdam adam(ddp, model.parameters(),
                    {.betas = {0.0, 0.999}, .freeze_step = 1, .bucket_elements = 32});
    for (int step = 0; step < 4; ++step) {
      for (const Tensor& p : model.parameters()) {
        // bits leave a part of the large ones, which the next step adds to them
        const Array g = make(p.shape(), [&](int64_t i) { return step == 0 || i % 2 ? 1.0 : 3e38; });
        p.set_grad(Tensor(g));
      }
      adam.step();
    }
  });
  for (const std::string& error : errors) {
    CHECK_THAT(error,
               ContainsSubstring("one_bit_adam: what is sent in bits overflowed float32 in a "
                                 "bucket, among 'weight'"));
  }
}

TEST_CASE("one_bit: wrong pairings say what works") {
  for (const ShardingStrategy strategy : kSharding) {
    const std::vector<std::string> errors = errors_of(2, [&](Communicator& world) {
      const auto model = make_subject(Subject::mlp);
      if (strategy == ShardingStrategy::fsdp || strategy == ShardingStrategy::fsdp_kept) {
        OneBitAdam(fully_shard(*model, world), model->parameters());
      } else {
        const int stage = strategy == ShardingStrategy::zero1   ? 1
                          : strategy == ShardingStrategy::zero2 ? 2
                                                                : 3;
        OneBitAdam(ZeRO(*model, world, {.stage = stage}), model->parameters());
      }
    });
    for (const std::string& error : errors) {
      CHECK(
          error ==
          "one_bit_adam: needs a DDP, on which every rank holds whole gradients and states; under "
          "ZeRO and fully_shard() use optim::AdamW or LAMB, or FSDP's quantised gathers and "
          "reductions");
    }
  }
  run_ranks(1, [&](Communicator& world) {
    const auto model = make_subject(Subject::mlp);
    const auto other = make_subject(Subject::mlp);
    const DDP ddp(*model, world);
    const std::string error = error_of([&] { OneBitAdam(ddp, other->parameters()); });
    expect(error ==
               "one_bit_adam: parameter 0 of shape [13, 7] is no trainable parameter of the DDP's "
               "module",
           error);
    const std::string some = error_of([&] {
      std::vector<Tensor> parameters = model->parameters();
      parameters.erase(parameters.begin());
      OneBitAdam(ddp, parameters);
    });
    expect(some.find("one_bit_adam: 'fc1.weight' is trainable and not among the parameters") == 0,
           some);
    const std::string wide = error_of([&] {
      nn::Linear linear(3, 2);
      linear.to(kFloat64);
      const DDP of(linear, world);
      OneBitAdam(of, linear.parameters());
    });
    expect(wide.find("'weight' is float64, and bits stand for float32") != std::string::npos, wide);
  });
  CHECK_THROWS_WITH(OneBitAdamOptions{.freeze_step = 0}.check_values(),
                    "one_bit_adam: freeze_step must be positive: 0");
}

namespace {

struct Waves : nn::Module {
  nn::Linear& hidden = add<nn::Linear>("hidden", 6, 24);
  nn::Linear& out = add<nn::Linear>("out", 24, 1);
  Tensor forward(const Tensor& x) override { return out(tanh(hidden(x))); }
};

// The loss on data that no step has seen, after training a small network on noisy ones.
double loss_after(const Communicator& world, uint64_t seed, bool bits, int steps) {
  manual_seed(seed);
  Waves model;
  const auto batch = [](int64_t rows, uint64_t of) {
    const Tensor x(noise({rows, 6}, kFloat32, of));
    const Tensor off(noise({rows, 1}, kFloat32, of + 1));
    return std::pair(x, sin(sum(x, {1}, true)) + off * 0.1);
  };
  const DDP ddp(model, world);
  std::unique_ptr<optim::Optimizer> optimizer;
  if (bits) {
    optimizer = std::make_unique<OneBitAdam>(
        ddp, model.parameters(), OneBitAdamOptions{.lr = 3e-3, .freeze_step = steps / 4});
  } else {
    optimizer = std::make_unique<optim::Adam>(model.parameters(), optim::AdamOptions{.lr = 3e-3});
  }
  for (int step = 0; step < steps; ++step) {
    const auto at = static_cast<uint64_t>(step * world.size() + world.rank());
    const auto [x, y] = batch(16, 1'000'000 * seed + 2 * at);
    mse_loss(model(x), y).backward();
    optimizer->step();
    optimizer->zero_grad();
  }
  const auto [x, y] = batch(512, 7);
  return mse_loss(model(x), y).item();
}

}  // namespace

TEST_CASE("one_bit: five seeds of 1-bit Adam end within the spread of Adam's") {
  std::vector<double> adam(5), bits(5);
  run_ranks(4, [&](Communicator& world) {
    for (size_t seed = 0; seed < 5; ++seed) {
      const double plain = loss_after(world, seed + 1, false, 400);
      const double compressed = loss_after(world, seed + 1, true, 400);
      if (world.rank() > 0) continue;
      adam[seed] = plain;
      bits[seed] = compressed;
    }
  });
  const auto [least, most] = std::minmax_element(adam.begin(), adam.end());
  const double spread = *most - *least;
  double mean = 0.0;
  for (size_t seed = 0; seed < 5; ++seed) {
    CAPTURE(seed, adam[seed], bits[seed], *least, *most);
    CHECK(bits[seed] < *most + spread);
    mean += bits[seed] / 5;
  }
  CAPTURE(adam, bits);
  CHECK(mean < *most);
  CHECK(*most < 0.4);  // it has learned: a constant has 0.5
}

TEST_CASE("one_bit: what sends all parameters as one vector takes no further group") {
  run_ranks(2, [&](Communicator& world) {
    const auto model = make_subject(Subject::mlp);
    const DDP ddp(*model, world);
    const Tensor more = zeros({2}, {.requires_grad = true});
    const auto refuses = [&](auto&& optimizer) {
      std::string error;
      try {
        optimizer.add_param_group({{more}, {}});
      } catch (const Error& refused) {
        error = refused.what();
      }
      expect(error.find("add_param_group: the bits of all parameters") != std::string::npos, error);
      expect(optimizer.groups() == 1, "no group was added");
    };
    refuses(OneBitAdam(ddp, model->parameters(), kOneBitAdam));
    refuses(OneBitLAMB(ddp, model->parameters()));
    refuses(ZeroOneAdam(ddp, model->parameters()));
  });
}
