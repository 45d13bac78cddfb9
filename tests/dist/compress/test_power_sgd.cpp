// PowerSGD: what its factors leave, against one process that does what N workers do, and its bytes.
#include <cmath>
#include <mutex>

#include "dist/compress/power_sgd.h"
#include "support/catch.h"

#include <hero/dist/ddp.h>
#include <hero/dist/ddp_comm_hooks.h>

using namespace hero;
using namespace hero::test;
using namespace hero::dist;

TEST_CASE("comm_hook: PowerSGD has the bits of one process that simulates its workers") {
  for (const int64_t rank : {1, 3}) {
    for (const int ranks : {2, 3, 4}) {
      CAPTURE(rank, ranks);
      const PowerSGDOptions options = {.rank = rank, .min_compression_rate = 0.1};
      const std::vector<Floats> expected = simulate_power_sgd(options, ranks, 4);
      run_ranks(ranks, [&](Communicator& world) {
        const CommHook hook = PowerSGDHook(options);
        const std::vector<Floats> got = gradients_by(world, &hook, Subject::mlp, 4);
        for (size_t step = 0; step < got.size(); ++step) {
          const std::string off = unlike(got[step], expected[step]);
          expect(off.empty(), "step ", step, " on rank ", world.rank(), ": ", off);
        }
      });
    }
  }
}

TEST_CASE("comm_hook: PowerSGD of full rank is the mean, and of rank 1 sends its factors") {
  for (const int ranks : {2, 3}) {
    run_ranks(ranks, [&](Communicator& world) {
      const CommHook whole =
          PowerSGDHook({.rank = 16, .min_compression_rate = 0.1, .error_feedback = false});
      const auto expected = gradients_by(world, nullptr, Subject::mlp, 2);
      const auto got = gradients_by(world, &whole, Subject::mlp, 2);
      for (size_t step = 0; step < 2; ++step) {
        for (size_t i = 0; i < got[step].size(); ++i) {
          const double off = std::fabs(got[step][i] - expected[step][i]);
          expect(off < 1e-5, "element ", i, " is off by ", off);  // two products of float32
        }
      }
      world.traffic().reset();
      const CommHook thin = PowerSGDHook({.min_compression_rate = 1.0});
      (void)gradients_by(world, &thin, Subject::mlp, 1);
      // biases and P; Q. A matrix [m, k] has m and k elements of these.
      const std::vector<std::pair<int64_t, int64_t>> sent = {
          {5 + 5, 11}, {11 + 11, 13}, {13 + 13, 7}};
      int64_t bytes = 0;
      const auto all_reduce = [&](int64_t n) {
        const int64_t part = n / world.size() + (world.rank() < n % world.size() ? 1 : 0);
        return 4 * (n - part + (world.size() - 1) * part);
      };
      for (const auto& [p, q] : sent) bytes += all_reduce(p) + all_reduce(q);
      int64_t found = 0;
      for (const Traffic::Row& row : world.traffic().rows()) {
        if (row.unit.starts_with("bucket")) found += row.bytes;
      }
      expect(found == bytes, "sent ", found, ", not ", bytes);
    });
  }
}

TEST_CASE("comm_hook: PowerSGD sends later what it left out") {
  std::vector<std::vector<Floats>> ends(2);
  std::mutex mutex;
  run_ranks(2, [&](Communicator& world) {
    // the same gradient in each step: what was sent so far comes close to all of it
    const auto model = make_subject(Subject::mlp);
    const DDP ddp(*model, world, {.bucket_bytes = 600, .first_bucket_bytes = 100});
    ddp.register_comm_hook(PowerSGDHook({.min_compression_rate = 1.0}));
    const auto reference = make_subject(Subject::mlp);
    const DDP plain(*reference, world, {.bucket_bytes = 600, .first_bucket_bytes = 100});
    Floats sent;
    for (int step = 0; step < 40; ++step) {
      for (const Tensor& p : model->parameters()) p.set_grad({});
      subject_loss(Subject::mlp, *model, 0, world.rank()).backward();
      std::vector<Tensor> gradients;
      for (const Tensor& p : model->parameters()) gradients.push_back(p.grad());
      const Floats now = flat_of(gradients);
      if (sent.empty()) sent.resize(now.size());
      for (size_t i = 0; i < now.size(); ++i) sent[i] += now[i];
    }
    subject_loss(Subject::mlp, *reference, 0, world.rank()).backward();
    std::vector<Tensor> gradients;
    for (const Tensor& p : reference->parameters()) gradients.push_back(p.grad());
    const Floats all = flat_of(gradients);
    double off = 0.0, size = 0.0;
    for (size_t i = 0; i < all.size(); ++i) {
      off += std::pow(sent[i] / 40.0 - all[i], 2);
      size += std::pow(all[i], 2);
    }
    expect(off < 0.01 * size, "off by ", std::sqrt(off / size));
    const std::lock_guard<std::mutex> lock(mutex);
    ends[static_cast<size_t>(world.rank())].push_back(sent);
  });
  CHECK(unlike(ends[0][0], ends[1][0]).empty());
}
