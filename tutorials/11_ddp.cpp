// Data parallelism: average the gradients, by hand and by the library
#include "support/lessons/data_parallel.h"
#include "support/lessons/overlap.h"
#include "support/pictures/flat_parameters.h"
#include "support/pictures/sharing.h"

#include <hero/nn/nn.h>

using hero::Tensor;
using hero::dist::Communicator, hero::dist::ReduceOp, hero::dist::Work;
using tutorial::bits_of, tutorial::kAdam, tutorial::kSteps, tutorial::loss_of,
    tutorial::DeepNetwork, tutorial::Report, tutorial::say, tutorial::StepModel;
namespace dist = hero::dist;
namespace nn = hero::nn;
namespace optim = hero::optim;

namespace {

// [snippet: by_hand]
uint64_t train_by_hand(const Communicator& world, Report& report) {
  DeepNetwork net = tutorial::make_network();
  report.watch(net);
  for (const Tensor& p : net.parameters()) world.broadcast(p.array(), 0);  // all start the same
  optim::Adam adam(net.parameters(), kAdam);
  for (int step = 0; step < kSteps; ++step) {
    adam.zero_grad();
    const Tensor loss = loss_of(net, world.rank());  // on this rank's images
    loss.backward();
    for (const Tensor& p : net.parameters()) {
      world.all_reduce(p.grad().array(), {.op = ReduceOp::mean});
    }
    adam.step();
    report.end(loss);
  }
  return bits_of(net.parameters());
}
// [end]

// [snippet: overlap]
uint64_t train_overlapped(const Communicator& world, Report& report,
                          std::vector<std::string>& ready) {
  DeepNetwork net = tutorial::make_network();
  report.watch(net);
  for (const Tensor& p : net.parameters()) world.broadcast(p.array(), 0);
  std::vector<Work> under_way;
  for (const auto& [name, p] : net.named_parameters()) {
    p.register_leaf_hook([&, name = name](const Tensor& leaf) {  // its gradient is complete
      under_way.push_back(
          world.all_reduce(leaf.grad().array(), {.op = ReduceOp::mean, .async = true}));
      ready.push_back(name);
    });
  }
  optim::Adam adam(net.parameters(), kAdam);
  for (int step = 0; step < kSteps; ++step) {
    ready.clear();
    adam.zero_grad();
    const Tensor loss = loss_of(net, world.rank());
    loss.backward();
    for (Work& work : under_way) work.wait();
    under_way.clear();
    adam.step();
    report.end(loss);
  }
  return bits_of(net.parameters());
}
// [end]

// [snippet: library]
hero::dist::DDP library_ddp(hero::nn::Module& net, const Communicator& world) {
  return hero::dist::DDP(net, world, {.bucket_bytes = 1 << 19, .first_bucket_bytes = 1 << 13});
}
// [end]

int64_t all_reduce_bytes(const Communicator& world, int64_t numel) {
  return tutorial::reduce_scatter_bytes(world, numel) + tutorial::all_gather_bytes(world, numel);
}

constexpr tutorial::Machine kMachine = {.operations = 10e9, .bytes = 1e9, .message = 100e-6};

// Tells the model what the layers compute. Nobody asks for the gradient of the images, so backward
// of the first layer has one product in place of two.
void watch(DeepNetwork& net, StepModel& model) {
  for (nn::Module* layer : net.children()) {
    const double work = tutorial::forward_operations(tutorial::kRows, layer->parameter_count());
    const double back = layer == net.layers.front() ? work : 2.0 * work;
    layer->register_forward_pre_hook(
        [&model, layer, work](auto&...) { model.compute(layer->name(), work); });
    layer->register_full_backward_pre_hook(
        [&model, layer, back](auto&...) { model.compute("∇ " + layer->name(), back); });
  }
}

using Kind = dist::Event::Kind;
constexpr StepModel::Message kReduce = StepModel::Message::reduce;

// The step of train_by_hand or, where messages begin in the hooks, of train_overlapped.
StepModel model_of(const Communicator& world, const char* name, bool in_hooks) {
  StepModel model(name, kMachine);
  DeepNetwork net = tutorial::make_network();
  watch(net, model);
  const auto send = [&](const std::string& parameter, int64_t numel) {
    model.send(kReduce, parameter, static_cast<double>(all_reduce_bytes(world, numel)));
  };
  for (const auto& [parameter, p] : net.named_parameters()) {
    if (!in_hooks) continue;
    p.register_leaf_hook([&, parameter = parameter](const Tensor& leaf) {  //
      send(parameter, leaf.numel());
    });
  }
  loss_of(net, world.rank()).backward();
  for (const auto& [parameter, p] : net.named_parameters()) {
    if (!in_hooks) send(parameter, p.numel());
  }
  model.wait_all();
  return model;
}

// The step of DDP, after one in which it has formed its buckets.
StepModel model_of_ddp(const Communicator& world) {
  StepModel model("dist::DDP, buckets", kMachine);
  DeepNetwork net = tutorial::make_network();
  const dist::DDP ddp = library_ddp(net, world);
  loss_of(net, world.rank()).backward();
  std::map<std::string, double> bytes;
  for (const dist::UnitInfo& unit : ddp.units()) {
    bytes[unit.name] = static_cast<double>(all_reduce_bytes(world, unit.numel));
  }
  watch(net, model);
  ddp.on_event([&](const dist::Event& event) {
    if (event.kind == Kind::reduce) model.send(kReduce, event.unit, bytes.at(event.unit));
    if (event.kind == Kind::reduced) model.wait(kReduce, event.unit);
  });
  loss_of(net, world.rank()).backward();
  return model;
}

void show_model(const Communicator& world, const std::string& folder) {
  const std::vector<StepModel> steps = {model_of(world, "by hand", false),
                                        model_of(world, "overlapped", true), model_of_ddp(world)};
  tutorial::show_steps(world, steps, kMachine);
  if (world.rank() > 0) return;
  draw_steps(steps, "A step of data parallelism by a model of processor and link", folder,
             "11_ddp_overlap");
}

// Which gradients travel together, with the sizes of library_ddp, with the library's own and with a
// first bucket that holds the whole model.
void draw_buckets(const Communicator& world, const std::vector<std::string>& ready,
                  const std::string& folder) {
  std::vector<tutorial::Buckets> choices;
  const auto add = [&](const char* sizes, const dist::DDPOptions& options) {
    DeepNetwork net = tutorial::make_network();
    const dist::DDP ddp(net, world, options);
    loss_of(net, world.rank()).backward();
    choices.push_back({sizes, ddp.units()});
  };
  add("8 KiB, then 512 KiB", {.bucket_bytes = 1 << 19, .first_bucket_bytes = 1 << 13});
  add("1 MiB, then 25 MiB", {});
  add("4 MiB, then 25 MiB", {.first_bucket_bytes = 4 << 20});
  if (world.rank() > 0) return;
  tutorial::draw_buckets(tutorial::make_network(), ready, choices, folder, "11_ddp_buckets");
}

}  // namespace

int main(int argc, char** argv) {
  const char* title = "Data parallelism: the gradients of all ranks, averaged.";
  return tutorial::run_ranks(argc, argv, {.title = title}, [](Communicator& world, auto& options) {
    const uint64_t alone = tutorial::train_alone(world);
    int64_t n = 0, sent = 0;
    for (const Tensor& p : tutorial::make_network().parameters()) {
      n += p.array().nbytes();
      sent += all_reduce_bytes(world, p.numel());
    }
    Report by_hand(world, "by hand");
    const uint64_t by_hand_bits = train_by_hand(world, by_hand);
    by_hand.print({n, n, 2 * n}, sent, by_hand_bits, alone);

    std::vector<std::string> ready;
    Report overlapped(world, "overlapped");
    const uint64_t overlapped_bits = train_overlapped(world, overlapped, ready);
    overlapped.print({n, n, 2 * n}, sent, overlapped_bits, alone);
    say(world, "  each all_reduce begins when its gradient is ready: %s %s %s %s .. %s %s\n",
        ready.at(0).c_str(), ready.at(1).c_str(), ready.at(2).c_str(), ready.at(3).c_str(),
        ready.at(20).c_str(), ready.at(21).c_str());

    Report library(world, "dist::DDP");
    const auto [bits, buckets] = tutorial::train(library_ddp, world, library);
    sent = 0;
    for (const auto& bucket : buckets) sent += all_reduce_bytes(world, bucket.numel);
    library.print({n, n, 2 * n}, sent, bits, alone);
    for (const auto& bucket : buckets) {
      say(world, "  %s, %.2f MB:", bucket.name.c_str(), 4e-6 * static_cast<double>(bucket.numel));
      for (const std::string& name : bucket.parameters) say(world, " %s", name.c_str());
      say(world, "\n");
    }
    show_model(world, options.out);
    draw_buckets(world, ready, options.out);
    if (world.rank() == 0) tutorial::draw_order(options.out);
    tutorial::show_times(world, options.link, {&by_hand, &overlapped, &library});
  });
}
