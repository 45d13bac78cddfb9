// 0/1 Adam against one process that does what N workers do, to the bit.
#include <cmath>

#include "dist/one_bit.h"
#include "support/catch.h"
#include "support/temp_dir.h"

#include <hero/dist/checkpoint.h>

using namespace hero;
using namespace hero::test;
using namespace hero::dist;

namespace {

float single(double x) { return static_cast<float>(x); }

const ZeroOneAdamOptions kZeroOne = {.lr = 0.01,
                                     .weight_decay = 0.1,
                                     .var_freeze_step = 7,
                                     .var_update_scaler = 2,
                                     .local_step_scaler = 2,
                                     .local_step_clipper = 4,
                                     .bucket_elements = 128};

// The parameters of each worker after each step, and what each step was.
struct ZeroOneRun {
  std::vector<std::vector<Floats>> after;
  std::string kinds;
};

ZeroOneRun simulate_zero_one(int workers, int steps) {
  const ZeroOneAdamOptions& o = kZeroOne;
  const auto model = make_subject(Subject::mlp);
  const std::vector<Tensor> parameters = model->parameters();
  const size_t n = flat_of(parameters).size(), count = static_cast<size_t>(workers);
  OneBitSimulation bits(count, n, o.bucket_elements);
  std::vector<Floats> p(count, flat_of(parameters)), m(count, Floats(n, 0.0f)), u(count);
  Floats v(n, 0.0f), at_mean;
  ZeroOneRun run;
  const float weight = single(1.0 - o.betas[0]), keep = single(1.0 - o.lr * o.weight_decay);
  int64_t interval = 1, counter = 0, updates = 0, local_interval = 1, local_counter = 0, local = 0;
  double rates = 0.0, keeps = 1.0;
  const auto move = [&](size_t w, float kept, double rate) {
    const float root = single(std::sqrt(1.0 - std::pow(o.betas[1], static_cast<double>(updates))));
    for (size_t i = 0; i < n; ++i) {
      if (!(v[i] > 0.0f)) m[w][i] = 0.0f;
      p[w][i] = p[w][i] * kept - single(rate) * m[w][i] / (std::sqrt(v[i]) / root + single(o.eps));
    }
  };
  const auto gradient = [&](size_t w, int step) {
    write_flat(p[w], parameters);
    return gradient_of(Subject::mlp, *model, step, static_cast<int>(w));
  };
  for (int step = 0; step < steps; ++step) {
    const int64_t t = step + 1;
    const double rate = o.lr / (1.0 - std::pow(o.betas[0], static_cast<double>(t)));
    if (t <= o.var_freeze_step && t % interval == 0) {
      run.kinds += 'v';
      ++updates;
      write_flat(p[0], parameters);
      for (const Tensor& each : parameters) each.set_grad({});
      average_gradients(parameters, Subject::mlp, *model, step, workers);
      std::vector<Tensor> gradients;
      for (const Tensor& each : parameters) gradients.push_back(each.grad());
      const Floats g = flat_of(gradients);
      const float rest2 = single(1.0 - o.betas[1]);
      for (size_t i = 0; i < n; ++i) v[i] = single(o.betas[1]) * v[i] + rest2 * (g[i] * g[i]);
      const float root =
          single(std::sqrt(1.0 - std::pow(o.betas[1], static_cast<double>(updates))));
      for (size_t w = 0; w < count; ++w) {
        for (size_t i = 0; i < n; ++i) {
          m[w][i] = single(o.betas[0]) * m[w][i] + weight * g[i];
          p[w][i] =
              p[w][i] * keep - single(rate) * m[w][i] / (std::sqrt(v[i]) / root + single(o.eps));
        }
      }
      if (++counter == o.var_update_scaler) counter = 0, interval *= 2;
    } else if (t <= o.var_freeze_step) {
      run.kinds += 'b';
      std::vector<Floats> gradients;
      for (size_t w = 0; w < count; ++w) gradients.push_back(gradient(w, step));
      const Floats g = bits.mean(gradients);
      for (size_t w = 0; w < count; ++w) {
        for (size_t i = 0; i < n; ++i) m[w][i] = m[w][i] + weight * (g[i] - m[w][i]);
        move(w, keep, rate);
      }
    } else {
      run.kinds += 'l';
      if (local == 0) {
        at_mean = p[0];
        u.assign(count, Floats(n, 0.0f));
        rates = 0.0, keeps = 1.0;
      }
      rates += rate;
      keeps *= 1.0 - o.lr * o.weight_decay;
      for (size_t w = 0; w < count; ++w) {
        const Floats g = gradient(w, step);
        for (size_t i = 0; i < n; ++i) m[w][i] = m[w][i] + weight * (g[i] - m[w][i]);
        move(w, keep, rate);
        for (size_t i = 0; i < n; ++i) u[w][i] = m[w][i] * single(rate) + u[w][i];
      }
      const bool due = ++local >= local_interval;
      if (++local_counter == o.local_step_scaler) {
        local_counter = 0;
        local_interval = std::min(local_interval * 2, o.local_step_clipper);
      }
      if (due) {
        run.kinds += 'm';
        const Floats mean = bits.mean(u);
        for (size_t w = 0; w < count; ++w) {
          for (size_t i = 0; i < n; ++i) m[w][i] = mean[i] / single(rates);
          p[w] = at_mean;
          move(w, single(keeps), rates);
        }
        local = 0;
      }
    }
    if (t == o.var_freeze_step) bits.reset();
    run.after.push_back(p);
  }
  return run;
}

}  // namespace

TEST_CASE("one_bit: 0/1 Adam has the bits of one process that simulates its workers") {
  for (const int ranks : {1, 2, 3, 4}) {
    CAPTURE(ranks);
    const int steps = 19;
    const ZeroOneRun expected = simulate_zero_one(ranks, steps);
    CHECK(expected.kinds == "vvbvbvblmlmllmllllmllllm");
    run_ranks(ranks, [&](Communicator& world) {
      const auto model = make_subject(Subject::mlp);
      const DDP ddp(*model, world);
      ZeroOneAdam adam(ddp, model->parameters(), kZeroOne);
      std::string kinds;
      for (int step = 0; step < steps; ++step) {
        const ZeroOneAdam::Kind kind = adam.next_step();
        kinds += "vbl"[static_cast<int>(kind)];
        const int64_t before = world.traffic().bytes();
        subject_loss(Subject::mlp, *model, step, world.rank()).backward();
        adam.step();
        adam.zero_grad();
        const int64_t sent = world.traffic().bytes() - before;
        if (kind == ZeroOneAdam::Kind::local && adam.synchronized()) kinds += 'm';
        const Floats got = flat_of(model->parameters());
        const std::string off = unlike(
            got, expected.after[static_cast<size_t>(step)][static_cast<size_t>(world.rank())]);
        expect(off.empty(), "step ", step, " on rank ", world.rank(), ": ", off);
        const int64_t bits = OneBitSimulation(static_cast<size_t>(ranks), got.size(), 128).bytes();
        if (kind == ZeroOneAdam::Kind::bits) expect(sent == bits + 8 * (ranks - 1), "bits");
        if (kind == ZeroOneAdam::Kind::local) {
          expect(sent == (adam.synchronized() ? bits : 0), "local: ", sent);
        }
      }
      expect(kinds == expected.kinds, kinds);
    });
  }
}

TEST_CASE("one_bit: 0/1 Adam is saved where its ranks are the same, and resumes bit for bit") {
  const hero_test::TempDir dir;
  std::vector<Floats> expected(2), got(2);
  const auto train = [](Communicator& world, ZeroOneAdam& adam, nn::Module& model, int from,
                        int to) {
    for (int step = from; step < to; ++step) {
      subject_loss(Subject::mlp, model, step, world.rank()).backward();
      adam.step();
      adam.zero_grad();
    }
  };
  run_ranks(2, [&](Communicator& world) {
    const auto model = make_subject(Subject::mlp);
    const DDP ddp(*model, world);
    ZeroOneAdam adam(ddp, model->parameters(), kZeroOne);
    Checkpointer checkpoint(dir / "run", world);
    checkpoint.track("model", *model);
    checkpoint.track("optimizer", adam);
    train(world, adam, *model, 0, 5);
    checkpoint.save(5);
    train(world, adam, *model, 5, 10);  // in the middle of two local steps
    const std::string error = error_of([&] { checkpoint.save(10); });
    expect(error.find("zero_one_adam: ranks have made 1 of 2 local steps") != std::string::npos,
           error);
    train(world, adam, *model, 10, 11);
    expect(adam.synchronized(), "after the second");
    checkpoint.save(11);
    train(world, adam, *model, 11, 12);
    adam.synchronize();  // before its time
    expect(adam.synchronized(), "made the same");
    train(world, adam, *model, 12, 16);
    expected[static_cast<size_t>(world.rank())] = flat_of(model->parameters());
  });
  for (const int from : {5, 11}) {
    run_ranks(2, [&](Communicator& world) {
      const auto model = make_subject(Subject::mlp);
      const DDP ddp(*model, world);
      ZeroOneAdam adam(ddp, model->parameters(), kZeroOne);
      Checkpointer checkpoint(dir / "run", world);
      checkpoint.track("model", *model);
      checkpoint.track("optimizer", adam);
      checkpoint.load(from);
      train(world, adam, *model, from, 12);
      adam.synchronize();
      train(world, adam, *model, 12, 16);
      got[static_cast<size_t>(world.rank())] = flat_of(model->parameters());
    });
    for (size_t rank = 0; rank < 2; ++rank) CHECK(unlike(got[rank], expected[rank]).empty());
  }
}
