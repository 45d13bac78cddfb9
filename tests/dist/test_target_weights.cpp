// The mean over all targets, where micro-batches and ranks have different numbers of them, is that
// of one process with the whole batch.
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "dist/ranks.h"
#include "dist/trainer/small_gpt.h"
#include "support/catch.h"

#include <hero/dist/dist.h>
#include <hero/dist/trainer.h>
#include <hero/nn/nn.h>
#include <hero/optim/accumulator.h>

namespace {

using namespace hero;
using namespace hero::dist;
using namespace hero::test;
using Catch::Matchers::ContainsSubstring;

constexpr int kRows = 8, kLength = 6;

nn::GPT model_of_all() {
  manual_seed(4);
  return nn::GPT({.vocab_size = 24,
                  .block_size = kLength,
                  .n_layer = 2,
                  .n_head = 2,
                  .n_embd = 16,
                  .tie_weights = false});
}

Tensor tokens_of_all() {
  std::vector<int64_t> list;
  for (int64_t i = 0; i < kRows * kLength; ++i) list.push_back((5 * i + i * i) % 24);
  return Tensor(Array::from(list, {kRows, kLength}));
}

// Row r has 6, 1, 0, 3, 2, 0, 5, 4 targets: rows of padding, and a whole row without any.
Tensor targets_of_all() {
  const int64_t valid[kRows] = {6, 1, 0, 3, 2, 0, 5, 4};
  std::vector<int64_t> list;
  for (int64_t r = 0; r < kRows; ++r) {
    for (int64_t i = 0; i < kLength; ++i) list.push_back(i < valid[r] ? (r + 3 * i) % 24 : -100);
  }
  return Tensor(Array::from(list, {kRows, kLength}));
}

Tensor rows_of(const Tensor& all, int part, int parts) {
  const int64_t rows = all.size(0) / parts;
  return all.slice(0, part * rows, (part + 1) * rows);
}

using Gradients = std::map<std::string, std::vector<double>>;

Gradients gradients_of(const nn::Module& model) {
  Gradients found;
  for (const auto& [name, leaf] : model.named_parameters()) {
    found[name] = leaf.grad().to(kFloat64).array().to_vector<double>();
  }
  return found;
}

// The largest difference, in units of the largest gradient.
double apart(const Gradients& a, const Gradients& b) {
  double most = 0.0, size = 0.0;
  for (const auto& [name, values] : a) {
    const std::vector<double>& others = b.at(name);
    for (size_t i = 0; i < values.size(); ++i) {
      most = std::max(most, std::abs(values[i] - others[i]));
      size = std::max(size, std::abs(values[i]));
    }
  }
  return most / size;
}

constexpr double kRounding = 2e-6, kAnotherLoss = 0.02;

struct Whole {
  double loss = 0.0;
  Gradients gradients;
};

Whole in_one_process() {
  nn::GPT model = model_of_all();
  const Tensor loss = model.loss(tokens_of_all(), targets_of_all());
  loss.backward();
  return {loss.item(), gradients_of(model)};
}

double count(const Tensor& y) { return sum(y != -100).item(); }

}  // namespace

TEST_CASE("weights of micro-batches are their shares of the targets") {
  CHECK(optim::target_weights({3, 3, 3}) == std::vector<double>{1, 1, 1});
  CHECK(optim::target_weights({6, 0, 2}) == std::vector<double>{2.25, 0, 0.75});
  CHECK(optim::target_weights({0, 0}) == std::vector<double>{0, 0});
  CHECK(optim::target_weights({}).empty());
  CHECK_THROWS_WITH(optim::target_weights({1, -2}),
                    ContainsSubstring("target_weights: part 1 has -2 targets"));
  CHECK_THROWS_WITH(optim::target_weights({NAN}), ContainsSubstring("part 0 has nan targets"));
  for (int n = 1; n < 400; ++n) {  // equal numbers are exactly 1, whatever they are
    const std::vector<double> counts(static_cast<size_t>(n), 511.0 * n + 7.0);
    CHECK(optim::target_weights(counts) == std::vector<double>(static_cast<size_t>(n), 1.0));
  }
  run_ranks(3, [](Communicator& world) {
    const int me = world.rank();
    const std::vector<double> own = {me + 1.0, 0.0};  // 6 targets of six micro-batches
    expect(target_weights(own, world) == std::vector<double>{me + 1.0, 0.0}, "shares of all ranks");
    expect(target_weights({7.0}, world) == std::vector<double>{1.0}, "equal");
    expect(target_weights({0.0}, world) == std::vector<double>{0.0}, "none");
  });
  const auto of_ranks = [](const auto& own_of) {
    run_ranks(2, [&](Communicator& world) { (void)target_weights(own_of(world.rank()), world); });
  };
  CHECK_THROWS_WITH(of_ranks([](int me) { return std::vector<double>(1 + me, 1.0); }),
                    ContainsSubstring("rank 0 has 1 micro-batches and rank 1 has 2"));
  CHECK_THROWS_WITH(of_ranks([](int me) { return std::vector<double>{me == 1 ? -1.0 : 1.0}; }),
                    ContainsSubstring("rank 1 has a number of targets that is negative"));
}

// [snippet: step]
// A step's gradients of this rank's micro-batches x and y, of which targets of -100 do not count.
void add_gradients(nn::GPT& model, const DataParallel& parallel, const dist::Communicator& world,
                   const std::vector<Tensor>& x, const std::vector<Tensor>& y) {
  std::vector<double> targets;
  for (const Tensor& each : y) targets.push_back(sum(each != -100).item());
  const std::vector<double> weights = dist::target_weights(targets, world);
  for (size_t i = 0; i < x.size(); ++i) {
    parallel.set_requires_gradient_sync(i + 1 == x.size());
    const Tensor loss = model.loss(x[i], y[i]) / static_cast<double>(x.size());
    (loss * weights[i]).backward();
  }
}
// [end]

TEST_CASE("weighed micro-batches have the gradients of the whole batch under every strategy",
          "[threads]") {
  const Whole whole = in_one_process();
  // Micro-batches of one process, as the ranks' would be.
  for (const bool weighs : {true, false}) {
    nn::GPT model = model_of_all();
    optim::Accumulator gradients(model.parameters());
    std::vector<double> counts;
    for (int i = 0; i < 4; ++i) counts.push_back(count(rows_of(targets_of_all(), i, 4)));
    const std::vector<double> weights = optim::target_weights(counts);
    for (int i = 0; i < 4; ++i) {
      const Tensor loss =
          model.loss(rows_of(tokens_of_all(), i, 4), rows_of(targets_of_all(), i, 4));
      (weighs ? loss * weights[static_cast<size_t>(i)] : loss).backward();
      gradients.add();
    }
    gradients.mean();
    const double difference = apart(whole.gradients, gradients_of(model));
    CHECK((weighs ? difference < kRounding : difference > kAnotherLoss));
  }
  for (const int stage : {0, 1, 2, 3}) {
    for (const int ranks : {2, 4}) {
      CAPTURE(stage, ranks);
      run_ranks(ranks, [&](Communicator& world) {
        nn::GPT model = model_of_all();
        const DataParallel parallel = stage == 0
                                          ? DataParallel(DDP(model, world))
                                          : DataParallel(ZeRO(model, world, {.stage = stage}));
        const int m = 4 / ranks;
        std::vector<Tensor> x, y;
        for (int i = 0; i < m; ++i) {
          x.push_back(rows_of(tokens_of_all(), m * world.rank() + i, 4));
          y.push_back(rows_of(targets_of_all(), m * world.rank() + i, 4));
        }
        add_gradients(model, parallel, world, x, y);
        const double norm = optim::grad_norm(model.parameters()).item();
        double sum = 0.0;
        for (const auto& [name, values] : whole.gradients) {
          for (const double g : values) sum += g * g;
        }
        expect(std::abs(norm - std::sqrt(sum)) < 1e-5 * std::sqrt(sum), "the whole batch's norm");
        if (stage == 0)
          expect(apart(whole.gradients, gradients_of(model)) < kRounding, "gradients");
      });
    }
  }
}

TEST_CASE("a pipeline that weighs by targets has the loss and gradients of the whole batch",
          "[pipeline][threads]") {
  const Whole whole = in_one_process();
  for (const bool weighs : {true, false}) {
    for (const Schedule& schedule : {Schedule::gpipe(), Schedule::one_f_one_b(),
                                     Schedule::interleaved(2), Schedule::zero_bubble()}) {
      for (const int data : {1, 2}) {
        CAPTURE(weighs, schedule.name(), data);
        Gradients found;
        double loss = 0.0, evaluated = 0.0;
        run_ranks(2 * data, [&](Communicator& world) {
          const Mesh mesh(world, {{"data", data}, {"pipe", 2}});
          nn::GPT model = model_of_all();
          PipelineOptions options = {
              .schedule = schedule, .micro_batches = 4, .weigh_by_targets = weighs};
          if (data > 1) options.data = mesh["data"];
          Pipeline pipe(model, mesh["pipe"], options);
          const DDP replicas(model, mesh["data"]);
          const int part = mesh.coordinate("data");
          const Tensor x = rows_of(tokens_of_all(), part, data);
          const Tensor y = rows_of(targets_of_all(), part, data);
          const double own = pipe.step(x, y);
          const double same = pipe.loss(x, y);
          for (int turn = 0; turn < world.size(); ++turn) {
            world.barrier();
            if (turn != world.rank()) continue;
            if (turn == 0) loss = own, evaluated = same;
            for (const auto& [name, leaf] : model.named_parameters()) {
              if (leaf.numel() == 0) continue;
              found[name] = leaf.grad().to(kFloat64).array().to_vector<double>();
            }
          }
        });
        const double difference = apart(whole.gradients, found);
        CHECK((weighs ? difference < kRounding : difference > kAnotherLoss));
        if (data == 1) {
          CHECK(loss == evaluated);
          CHECK((std::abs(loss - whole.loss) < 1e-6 * whole.loss) == weighs);
        } else if (weighs) {  // rank 0's half of the batch has a micro-batch without targets
          CHECK(std::isfinite(loss));
          CHECK(loss == evaluated);
        }
      }
    }
  }
}

TEST_CASE("trainer: a batch's step does not depend on how it is divided", "[threads]") {
  const Whole whole = in_one_process();
  double squares = 0.0;
  for (const auto& [name, values] : whole.gradients) {
    for (const double g : values) squares += g * g;
  }
  const double norm = std::sqrt(squares);
  const auto norm_of = [](int ranks, int micro, const std::string& more, bool weighs) {
    double found = 0.0;
    const Config config = Config::parse(
        "{\"gradient_accumulation_steps\": " + std::to_string(micro) +
        ", \"gradient_clipping\": 1000.0, \"optimizer\": {\"type\": \"SGD\", \"params\": {\"lr\": "
        "0.1}}" +
        more + "}");
    run_ranks(ranks, [&](Communicator& world) {
      nn::GPT model = model_of_all();
      Trainer trainer(model, world, config, {.weigh_by_targets = weighs});
      const Tensor x = rows_of(tokens_of_all(), trainer.data_rank(), trainer.data_ranks());
      const Tensor y = rows_of(targets_of_all(), trainer.data_rank(), trainer.data_ranks());
      (void)trainer.train_batch(x, y);
      if (world.rank() == 0) found = trainer.global_grad_norm();
    });
    return found;
  };
  const auto near = [&](double found) { return std::abs(found - norm) < 1e-5 * norm; };
  CHECK(near(norm_of(1, 1, ", \"train_micro_batch_size_per_gpu\": 8", false)));
  for (const auto& [ranks, micro] :
       std::vector<std::pair<int, int>>{{1, 2}, {1, 8}, {2, 4}, {4, 2}}) {
    CAPTURE(ranks, micro);
    for (const std::string& more :
         {std::string(), std::string(", \"zero_optimization\": {\"stage\": 2}"),
          std::string(", \"zero_optimization\": {\"stage\": 3}"), std::string(", \"pipe\": 2")}) {
      const bool pipes = more.find("pipe") != std::string::npos;
      if (pipes && ranks == 1) continue;
      const int parts = pipes ? ranks / 2 : ranks;
      if (kRows % (parts * micro) != 0) continue;
      CAPTURE(more);
      const std::string keys =
          ", \"train_micro_batch_size_per_gpu\": " + std::to_string(kRows / (parts * micro)) + more;
      CHECK(near(norm_of(ranks, micro, keys, true)));
      CHECK(!near(norm_of(ranks, micro, keys, false)));
    }
  }
}

namespace {

struct CountingGPT : nn::GPT {
  using GPT::GPT;
  double target_count(const Tensor& target) const override {
    ++counted;
    return GPT::target_count(target);
  }
  mutable int64_t counted = 0;
};

struct Counts {
  int64_t counted = 0, asked = 0;  // targets; collectives about them
  bool operator==(const Counts&) const = default;
};

// Those of the last rank in a step.
Counts counts_of(int ranks, int micro, bool pipes) {
  const Config config =
      Config::parse("{\"gradient_accumulation_steps\": " + std::to_string(micro) +
                    ", \"train_micro_batch_size_per_gpu\": 1, \"optimizer\": {\"type\": \"SGD\"}}");
  Counts counts;
  run_ranks(ranks, [&](Communicator& world) {
    manual_seed(2);
    CountingGPT model({.vocab_size = 24,
                       .block_size = kLength,
                       .n_layer = 2,
                       .n_head = 2,
                       .n_embd = 16,
                       .tie_weights = false});
    const Tensor x = rows_of(tokens_of_all(), 0, kRows / micro), y = x;
    if (pipes) {
      Pipeline pipe(model, world, {.micro_batches = micro, .weigh_by_targets = true});
      expect(pipe.step(x, y) > 0.0, "a loss");
      expect(pipe.loss(x, y) > 0.0, "a loss");
    } else {
      Trainer trainer(model, world, config, {.weigh_by_targets = true});
      expect(trainer.train_batch(x, y) > 0.0, "a loss");
    }
    if (world.rank() + 1 < world.size()) return;
    counts.counted = model.counted;
    for (const Traffic::Row& row : world.traffic().rows()) {
      if (row.unit == "targets") counts.asked += row.calls;
    }
  });
  return counts;
}

}  // namespace

TEST_CASE("one data rank asks nobody for the number of targets") {
  CHECK(counts_of(1, 1, false) == Counts{1, 0});
  CHECK(counts_of(1, 2, false) == Counts{2, 0});
  CHECK(counts_of(2, 1, false) == Counts{1, 1});
  CHECK(counts_of(2, 1, true) == Counts{2, 0});
  CHECK(counts_of(2, 2, true) == Counts{4, 0});
}
