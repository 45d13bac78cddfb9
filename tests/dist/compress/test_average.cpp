// Local SGD: ranks that average their parameters now and then.
#include "dist/data_parallel/strategies.h"
#include "support/catch.h"

#include <hero/autograd/autograd.h>
#include <hero/dist/average.h>

using namespace hero;
using namespace hero::test;
using namespace hero::dist;

namespace {

constexpr int kHosts = 2, kOnHost = 2, kSteps = 5, kEvery = 2;

// Two hosts of two ranks in one process: each host's two micro-batches are averaged in each step,
// and the hosts' parameters in every second one.
nn::StateDict train_hosts_alone() {
  std::vector<std::unique_ptr<nn::Module>> models;
  std::vector<std::unique_ptr<optim::Optimizer>> optimizers;
  for (int host = 0; host < kHosts; ++host) {
    models.push_back(make_subject(Subject::mlp));
    optimizers.push_back(make_method(Method::adamw, models.back()->parameters()));
  }
  for (int step = 0; step < kSteps; ++step) {
    for (size_t host = 0; host < kHosts; ++host) {
      optim::Accumulator gradients(models[host]->parameters());
      for (int rank = 0; rank < kOnHost; ++rank) {
        subject_loss(Subject::mlp, *models[host], step, static_cast<int>(host) * kOnHost + rank)
            .backward();
        gradients.add();
      }
      gradients.mean();
      optimizers[host]->step();
      optimizers[host]->zero_grad();
    }
    if ((step + 1) % kEvery != 0) continue;
    const NoGrad no_grad;
    const nn::Tensors first = models[0]->parameters(), second = models[1]->parameters();
    for (size_t i = 0; i < first.size(); ++i) {
      const Tensor mean = (first[i] + second[i]) / 2.0;
      first[i].copy_(mean);
      second[i].copy_(mean);
    }
  }
  return models[0]->state_dict();
}

}  // namespace

TEST_CASE("parameters averaged every second step have the bits of one process under every strategy",
          "[dist][threads]") {
  const nn::StateDict expected = train_hosts_alone();
  for (const ShardingStrategy strategy :
       {ShardingStrategy::ddp, ShardingStrategy::zero1, ShardingStrategy::zero2,
        ShardingStrategy::zero3, ShardingStrategy::fsdp}) {
    CAPTURE(name(strategy));
    Whole got, want;
    for (const auto& entry : expected) want.add(entry.name, entry.array.numel(), 0, entry.array);
    run_ranks(kHosts * kOnHost, [&](Communicator& world) {
      const Mesh mesh(world, {{"hosts", kHosts}, {"host", kOnHost}});
      const auto model = make_subject(Subject::mlp);
      climb(strategy, Subject::mlp, *model, mesh["host"]);
      const auto adamw = make_method(Method::adamw, model->parameters());
      const AverageOptions options = {.bucket_bytes = 300};
      int step = 0;
      const auto next_loss = [&] {
        return subject_loss(Subject::mlp, *model, step++, world.rank());
      };
      // [snippet: local]
      while (step < kSteps) {
        next_loss().backward();  // averaged over the ranks of this host
        adamw->step();
        adamw->zero_grad();
        if (step % kEvery == 0) {
          dist::average_parameters(model->parameters(), mesh["hosts"], options);
        }
      }
      // [end]
      if (mesh.coordinate("hosts") > 0) return;
      for (const auto& [name, leaf] : model->named_parameters()) {
        const Partition* part = partition(leaf);
        got.add(name, whole_shape(leaf).numel(), part ? part->first : 0, leaf.array());
      }
    });
    CHECK(want.difference(got) == "");
  }
}

TEST_CASE("what cannot be averaged is an error on every rank") {
  const auto errors = errors_of(2, [](Communicator& world) {
    average_parameters({Tensor(Array::zeros({3 + world.rank()}))}, world);
  });
  for (const std::string& error : errors) {
    CHECK(error.find(
              "all_reduce (call 0 of 'world', unit 'average'): ranks disagree on the size") == 0);
  }
  const auto whole_numbers = errors_of(2, [](Communicator& world) {
    average_parameters({Tensor(Array::zeros({3}, kInt64))}, world);
  });
  CHECK(whole_numbers[0].find("average_parameters: a parameter is int64") == 0);
}
