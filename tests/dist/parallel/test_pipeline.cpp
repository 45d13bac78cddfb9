// Pipelines: the bits of one process under every schedule and number of ranks, what each rank holds
// and sends, and what goes wrong.
#include <map>
#include <mutex>
#include <set>

#include "dist/parallel/pipelines.h"
#include "support/catch.h"
#include "support/sanitized.h"

namespace {

using namespace hero;
using namespace hero::dist;
using namespace hero::test;
using Catch::Matchers::ContainsSubstring;

const std::vector<Schedule> kSchedules = {Schedule::gpipe(), Schedule::one_f_one_b(),
                                          Schedule::interleaved(2), Schedule::zero_bubble()};

void check_schedules(PipeSubject subject, const std::vector<int>& ranks,
                     const std::vector<int>& micro_batches, Method method) {
  for (const int m : micro_batches) {
    PipeRun c = {.subject = subject, .micro_batches = m, .method = method};
    Whole expected;
    std::vector<double> numbers;
    train_pipe_alone(c, expected, numbers);
    for (const Schedule& schedule : kSchedules) {
      for (const int p : ranks) {
        CAPTURE(schedule.name(), p, m);
        c.schedule = schedule;
        c.ranks = p;
        CHECK(pipe_difference(c, expected, numbers) == "");
      }
    }
  }
}

double largest_difference(const Tensor& a, const Tensor& b) { return (a - b).abs().max().item(); }

}  // namespace

TEST_CASE("a pipeline of layers ends with the bits of one process", "[pipeline][threads]") {
  check_schedules(PipeSubject::layers, {1, 2, 3, 4}, {1, 2, 4, 7, 8}, Method::adamw);
}

TEST_CASE("a pipeline of a GPT ends with the bits of one process", "[pipeline][threads]") {
  if (hero_test::kIsSanitized)
    return check_schedules(PipeSubject::gpt, {2, 4}, {1, 7}, Method::sgd);
  check_schedules(PipeSubject::gpt, {1, 2, 3, 4}, {1, 2, 4, 7, 8}, Method::sgd);
}

TEST_CASE("a pipeline under LAMB ends with the bits of one process", "[pipeline]") {
  check_schedules(PipeSubject::layers, {3}, {4}, Method::lamb);
}

TEST_CASE("a tied weight has the bits of one process for one micro-batch", "[pipeline]") {
  check_schedules(PipeSubject::gpt_tied, {1, 2, 4}, {1}, Method::adamw);
}

TEST_CASE("a tied weight over stages gets the sum of its gradients", "[pipeline]") {
  const auto [x, y] = pipe_batch(PipeSubject::gpt_tied, 0);
  PipeModel whole = make_pipe_model(PipeSubject::gpt_tied, kCpu);
  accumulate_alone(whole.pipeline_model(), x, y, 4);
  for (const Tensor& p : whole.module().parameters()) p.grad().mul_(2.0);
  const double norm = optim::grad_norm(whole.module().parameters()).item();
  std::vector<uint64_t> hashes(3);
  run_ranks(3, [&, x = x, y = y](Communicator& world) {
    PipeModel model = make_pipe_model(PipeSubject::gpt_tied);
    Pipeline pipe(model.pipeline_model(), world, {.micro_batches = 4});
    for (int i = 0; i < 2; ++i) pipe.step(x, y);  // what was there before counts once
    const Tensor got = model.gpt->lm_head.weight.grad();
    if (world.rank() != 1) {
      const Tensor expected = whole.gpt->lm_head.weight.grad();
      // float32; at most 2 x 336 rows are added up in another order
      expect(largest_difference(got, expected) < 1e-6, "the tied weight's gradient");
      hashes[static_cast<size_t>(world.rank())] = hash(got.array());
    } else {
      expect(got.numel() == 0, "a stage without it");
    }
    const double found = optim::grad_norm(pipe.parameters()).item();
    expect(std::abs(found - norm) < 1e-6 * norm, "it counts once: ", found, " and ", norm);
  });
  CHECK(hashes[0] == hashes[2]);
}

TEST_CASE("a tied weight is frozen and trained from step to step as in one process", "[pipeline]") {
  // In one process: for each step, whether the weight is trained. `first`: before the pipeline is
  // made. Without a gradient, AdamW leaves it as it is.
  const auto train = [](PipeModel& model, const std::vector<Tensor>& parameters,
                        const std::function<void(const Tensor&, const Tensor&)>& pass,
                        const std::vector<bool>& trained) {
    const auto optimizer = make_method(Method::adamw, parameters);
    for (size_t i = 0; i < trained.size(); ++i) {
      model.gpt->lm_head.weight.requires_grad_(trained[i]);
      const auto [x, y] = pipe_batch(PipeSubject::gpt_tied, static_cast<int>(i));
      pass(x, y);
      optimizer->step();
      optimizer->zero_grad();
    }
  };
  for (const bool first : {false, true}) {
    const std::vector<bool> trained = {first, !first, true, false, true};
    CAPTURE(first);
    PipeModel whole = make_pipe_model(PipeSubject::gpt_tied, kCpu);
    train(
        whole, whole.module().parameters(),
        [&](const Tensor& x, const Tensor& y) { accumulate_alone(*whole.gpt, x, y, 1); }, trained);
    run_ranks(3, [&](Communicator& world) {
      PipeModel model = make_pipe_model(PipeSubject::gpt_tied);
      model.gpt->lm_head.weight.requires_grad_(first);
      Pipeline pipe(model.pipeline_model(), world);
      train(
          model, pipe.parameters(), [&](const Tensor& x, const Tensor& y) { pipe.step(x, y); },
          trained);
      const auto got = pipe.parameters(), expected = whole.module().parameters();
      for (size_t i = 0; i < got.size(); ++i) {
        if (got[i].numel() == 0) continue;
        expect(same(got[i].array(), expected[i].array()), "parameter ", i);
      }
    });
  }
}

TEST_CASE("stages that do not all train a tied weight are an error on all", "[pipeline]") {
  const auto [x, y] = pipe_batch(PipeSubject::gpt_tied, 0);
  const auto errors = errors_of(2, [&, x = x, y = y](Communicator& world) {
    PipeModel model = make_pipe_model(PipeSubject::gpt_tied);
    Pipeline pipe(model.pipeline_model(), world);
    model.gpt->lm_head.weight.requires_grad_(world.rank() == 1);
    pipe.step(x, y);
  });
  for (const std::string& error : errors) {
    CHECK_THAT(error, ContainsSubstring("freeze 'transformer.wte.weight', tied over stages") &&
                          ContainsSubstring("train 'transformer.wte.weight', tied over stages"));
  }
}

TEST_CASE("a rank of a pipeline holds its layers and gives the others' no bytes", "[pipeline]") {
  const PipeModel whole = make_pipe_model(PipeSubject::gpt, kCpu);
  run_ranks(4, [&](Communicator& world) {
    PipeModel model = make_pipe_model(PipeSubject::gpt);
    Pipeline pipe(model.pipeline_model(), world, {.schedule = Schedule::interleaved(2)});
    const auto rank = static_cast<size_t>(world.rank());
    expect(pipe.layers(0) == std::pair(rank, rank + 1), "the first chunk");
    expect(pipe.layers(1) == std::pair(rank + 4, rank + 5), "the second chunk");
    int64_t held = 0;
    for (size_t layer : {rank, rank + 4}) {
      for (nn::Module* module : whole.gpt->modules_of(layer)) held += module->parameter_count();
    }
    const auto theirs = model.module().named_parameters();
    const auto all = whole.gpt->named_parameters();
    expect(theirs.size() == all.size(), "names stay the model's");
    int64_t got = 0;
    for (size_t i = 0; i < theirs.size(); ++i) {
      const Tensor& leaf = theirs[i].second;
      expect(theirs[i].first == all[i].first, "the order of names");
      expect(whole_shape(leaf) == all[i].second.shape(), "the shape of the whole");
      expect(leaf.numel() == 0 || same(leaf.array(), all[i].second.array()), "first values of ",
             theirs[i].first);
      got += leaf.numel();
    }
    expect(got == held, "elements held: ", got, ", by layers ", held);
    expect(current_ledger().live(MemoryTag::parameter) == 4 * held, "bytes held");
  });
}

TEST_CASE("a pipeline without gradients gives the output and the loss", "[pipeline]") {
  for (const PipeSubject subject : {PipeSubject::layers, PipeSubject::gpt}) {
    const auto [x, y] = pipe_batch(subject, 0);
    PipeModel whole = make_pipe_model(subject, kCpu);
    const double mean = accumulate_alone(whole.pipeline_model(), x, y, 4);
    const Array output = whole.module()(x).array();
    for (const Schedule& schedule : kSchedules) {
      run_ranks(3, [&, x = x, y = y](Communicator& world) {
        PipeModel model = make_pipe_model(subject);
        Pipeline pipe(model.pipeline_model(), world, {.schedule = schedule, .micro_batches = 4});
        const bool last = world.rank() == 2;
        expect(pipe.loss(x, last ? y : Tensor()) == mean, "the loss on every rank");
        const Tensor got = pipe(x);
        expect(got.defined() == last, "the output is the last rank's");
        if (last) expect(same(got.array(), output), "the output");
        for (const Tensor& p : pipe.parameters()) expect(!p.grad().defined(), "no gradients");
      });
    }
  }
}

TEST_CASE("stages are cut where the program says and buffers stay with their layers",
          "[pipeline]") {
  const auto make = [](Device device) {
    manual_seed(5);
    std::optional<nn::DeviceScope> scope;
    if (device != kCpu) scope.emplace(device);
    nn::Sequential net;
    net.append<nn::Linear>(6, 6);
    net.append<nn::BatchNorm1d>(6);
    net.append<nn::Tanh>();
    net.append<nn::Linear>(6, 2);
    return net;
  };
  const auto loss = [](const Tensor& y, const Tensor& t) { return mse_loss(y, t); };
  const Tensor x(noise({8, 6})), y(noise({8, 2}, kFloat32, 2));
  nn::Sequential whole = make(kCpu);
  nn::PipelineSequential alone(whole, loss);
  const double expected = accumulate_alone(alone, x, y, 2);
  run_ranks(3, [&](Communicator& world) {
    nn::Sequential net = make(kMeta);
    nn::PipelineSequential model(net, loss);
    Pipeline pipe(model, world, {.micro_batches = 2, .first_layers = {0, 1, 3}});
    expect(pipe.step(x, y) == expected, "the loss");
    const auto mean = net.get_buffer("1.running_mean"), all = whole.get_buffer("1.running_mean");
    if (world.rank() == 1) expect(same(mean.array(), all.array()), "the running mean");
    if (world.rank() != 1) expect(mean.numel() == 0, "another rank's buffer");
    const auto grads = net.named_parameters(), theirs = whole.named_parameters();
    for (size_t i = 0; i < grads.size(); ++i) {
      const Tensor& leaf = grads[i].second;
      if (leaf.numel() == 0) continue;
      expect(same(leaf.grad().array(), theirs[i].second.grad().array()), "gradient of ",
             grads[i].first);
    }
  });
}

TEST_CASE("a frozen stage hands gradients on and keeps none", "[pipeline]") {
  const auto [x, y] = pipe_batch(PipeSubject::layers, 0);
  PipeModel whole = make_pipe_model(PipeSubject::layers, kCpu);
  const auto freeze = [](PipeModel& model, size_t layer) {
    (*model.net)[layer].requires_grad_(false);
  };
  for (const size_t layer : {size_t{0}, size_t{3}}) freeze(whole, layer);
  accumulate_alone(whole.pipeline_model(), x, y, 4);
  for (const Schedule& schedule : {Schedule::one_f_one_b(), Schedule::zero_bubble()}) {
    run_ranks(4, [&, x = x, y = y](Communicator& world) {
      PipeModel model = make_pipe_model(PipeSubject::layers);
      for (const size_t layer : {size_t{0}, size_t{3}}) freeze(model, layer);
      Pipeline pipe(model.pipeline_model(), world,
                    {.schedule = schedule, .micro_batches = 4, .first_layers = {0, 1, 3, 4}});
      pipe.step(x, y);
      const auto got = model.module().parameters(), expected = whole.module().parameters();
      for (size_t i = 0; i < got.size(); ++i) {
        if (got[i].numel() == 0) continue;
        expect(got[i].grad().defined() == expected[i].grad().defined(), "a gradient or none");
        if (!got[i].grad().defined()) continue;
        expect(same(got[i].grad().array(), expected[i].grad().array()), "gradient ", i);
      }
    });
  }
}

TEST_CASE("a zero bubble sends gradients on before those of weights are made", "[pipeline]") {
  const auto [x, y] = pipe_batch(PipeSubject::layers, 0);
  constexpr int64_t kBorder = 7 * 13 * 4;  // seven rows a micro-batch
  for (const Schedule& schedule : {Schedule::one_f_one_b(), Schedule::zero_bubble()}) {
    run_ranks(3, [&, x = x, y = y](Communicator& world) {
      PipeModel model = make_pipe_model(PipeSubject::layers);
      Pipeline pipe(model.pipeline_model(), world, {.schedule = schedule, .micro_batches = 8});
      std::vector<int64_t> sent;  // when a gradient was stored
      for (const Tensor& p : pipe.parameters()) {
        if (p.numel() == 0) continue;
        p.register_leaf_hook([&](const Tensor&) {
          sent.push_back(world.traffic().bytes_of_unit("gradients") / kBorder);
        });
        break;
      }
      world.traffic().reset();
      pipe.step(x, y);
      const int64_t ahead = world.rank() + 1;  // backwards before the first gradients of weights
      const std::vector<int64_t> apart = {ahead, ahead + 1}, together = {0, 1};
      const auto& expected = schedule.splits_backward() ? apart : together;
      expect(sent.size() == 8, "one gradient a micro-batch");
      if (world.rank() > 0)
        expect(std::equal(expected.begin(), expected.end(), sent.begin()), "order");
    });
  }
}

TEST_CASE("norms over a pipeline are those of the whole model to the bit", "[pipeline]") {
  const auto [x, y] = pipe_batch(PipeSubject::layers, 0);
  PipeModel whole = make_pipe_model(PipeSubject::layers, kCpu);
  accumulate_alone(whole.pipeline_model(), x, y, 4);
  const double inf = std::numeric_limits<double>::infinity();
  for (const double p : {1.0, 2.0, 3.0, inf}) {
    const double expected = optim::grad_norm(whole.module().parameters(), p).item();
    run_ranks(3, [&, x = x, y = y](Communicator& world) {
      PipeModel model = make_pipe_model(PipeSubject::layers);
      Pipeline pipe(model.pipeline_model(), world, {.micro_batches = 4});
      pipe.step(x, y);
      expect(optim::grad_norm(pipe.parameters(), p).item() == expected, "the norm of order ", p);
      // of a part of the parameters, of which some ranks hold none
      const std::vector<Tensor> first = {pipe.parameters().front()};
      const std::vector<Tensor> same_one = {whole.module().parameters().front()};
      expect(optim::grad_norm(first, p).item() == optim::grad_norm(same_one, p).item(),
             "the norm of one parameter");
    });
  }
}

TEST_CASE("a gradient scaler finds an overflow on any stage", "[pipeline]") {
  const auto [x, y] = pipe_batch(PipeSubject::layers, 0);
  for (const auto& [where, schedule] :
       std::vector<std::pair<int, Schedule>>{{0, Schedule::one_f_one_b()},
                                             {1, Schedule::one_f_one_b()},
                                             {2, Schedule::one_f_one_b()},
                                             {1, Schedule::zero_bubble()}}) {
    run_ranks(3, [&, x = x, y = y, where = where, schedule = schedule](Communicator& world) {
      PipeModel model = make_pipe_model(PipeSubject::layers);
      Pipeline pipe(model.pipeline_model(), world, {.schedule = schedule, .micro_batches = 2});
      optim::SGD sgd(pipe.parameters(), {.lr = 0.1});
      optim::GradScaler scaler({.init_scale = 4.0});
      const double loss = pipe.step(x, y);
      std::vector<Array> once;
      for (const Tensor& p : pipe.parameters()) once.push_back(p.grad().array().clone());
      sgd.zero_grad();
      expect(pipe.step(x, y, {.scale = scaler.get_scale()}) == loss, "the loss is not scaled");
      for (size_t i = 0; i < once.size(); ++i) {
        const Tensor four_times = Tensor(once[i]) * 4.0;
        expect(same(pipe.parameters()[i].grad().array(), four_times.array()), "gradient ", i);
      }
      expect(scaler.step(sgd), "finite gradients");
      scaler.update();
      sgd.zero_grad();
      pipe.step(x, y);
      if (world.rank() == where) {
        for (const Tensor& p : pipe.parameters()) {
          if (p.numel() > 0) p.grad().fill_(std::numeric_limits<double>::infinity());
        }
      }
      expect(!scaler.step(sgd), "a step that rank ", where, " could not take");
      scaler.update();
      expect(scaler.get_scale() == 2.0, "the scale falls on every rank");
    });
  }
}
