// FSDP: units, shards, and the order in which they are gathered, freed and reduced
#include <list>
#include <map>

#include "support/lessons/data_parallel.h"
#include "support/lessons/overlap.h"
#include "support/lessons/timeline.h"
#include "support/options/device.h"
#include "support/pictures/flat_parameters.h"
#include "support/pictures/mesh.h"
#include "support/pictures/two_ranks.h"

#include <hero/nn/nn.h>

using hero::Tensor;
using hero::dist::Communicator, hero::dist::DataParallel;
using tutorial::RankTable, tutorial::say, tutorial::StepModel, tutorial::Timeline;
namespace dist = hero::dist;
namespace nn = hero::nn;

namespace {

// [snippet: model]
const nn::GPTConfig kConfig = {
    .vocab_size = 50, .block_size = 16, .n_layer = 3, .n_head = 2, .n_embd = 16};

Tensor loss_of(nn::GPT& model, int rank) {
  hero::manual_seed(static_cast<uint64_t>(rank));
  const Tensor tokens = hero::randint(0, 50, {4, 17}, {.device = tutorial::device()});
  return cross_entropy(flatten(model(tokens.slice(1, 0, 16)), 0, 1),
                       flatten(tokens.slice(1, 1, 17)));
}
// [end]

// [snippet: units]
void show_units(const Communicator& world, const DataParallel& sharded) {
  RankTable table(world);
  int64_t all = 0, mine = 0;
  for (const dist::UnitInfo& unit : sharded.units()) {
    const int64_t end = unit.own.begin + unit.own.count;
    table.row(unit.name + ", " + std::to_string(unit.flat_numel),
              std::to_string(unit.own.begin) + " - " + std::to_string(end));
    all += unit.flat_numel;
    mine += unit.own.count;
  }
  table.row("all, " + std::to_string(all), mine).print("unit, flat parameter");
}
// [end]

// [snippet: shards]
void show_shards(const Communicator& world, nn::Module& model) {
  RankTable table(world);
  for (const auto& [name, p] : model.get_submodule("transformer.h.0").named_parameters()) {
    const hero::Partition* part = partition(p);
    const int64_t first = part->first, end = first + p.numel();
    table.row(name + " " + hero::to_string(part->whole),
              p.numel() == 0 ? "-" : std::to_string(first) + " - " + std::to_string(end));
  }
  table.print("of h.0");
}
// [end]

// Elements of the parameter of which this rank has a shard.
int64_t whole_numel(const Tensor& shard) {
  int64_t numel = 1;
  for (const int64_t size : whole_shape(shard)) numel *= size;
  return numel;
}

void draw_flat_parameter_of(const Communicator& world, nn::Module& block,
                            const dist::UnitInfo& unit, const std::string& folder) {
  std::vector<tutorial::InFlatParameter> places;
  int64_t at = 0;
  for (const auto& [name, p] : block.named_parameters()) {
    const int64_t count = whole_numel(p);
    places.push_back({name, at, count});
    at += (count + 7) / 8 * 8;  // every parameter begins at a multiple of 8
  }
  const std::vector<int64_t> counts(static_cast<size_t>(world.size()), unit.own.count);
  if (world.rank() > 0) return;
  tutorial::draw_flat_parameter("The flat parameter of h.0, and the shard of each rank", places,
                                counts, folder, "17_fsdp_flat_parameter");
}

void show_step(const Communicator& world, const DataParallel& sharded, nn::GPT& model,
               const std::string& folder) {
  Timeline timeline(world, sharded.units());
  sharded.on_event([&](const dist::Event& event) { timeline.add(event); });
  std::vector<hero::HookHandle> hooks;
  for (nn::Module* block : model.modules()) {
    if (dynamic_cast<nn::Block*>(block) == nullptr) continue;
    hooks.push_back(block->register_forward_pre_hook(
        [&, block](auto&...) { timeline.add("forward of h." + block->name()); }));
    hooks.push_back(block->register_full_backward_pre_hook(
        [&, block](auto&...) { timeline.add("backward of h." + block->name()); }));
  }
  const Tensor loss = loss_of(model, world.rank());
  timeline.add("loss");
  loss.backward();
  sharded.on_event({});
  for (hero::HookHandle& hook : hooks) hook.remove();
  timeline.print();
  timeline.draw(folder);
  say(world, "at most %d units at a time\n", timeline.most_gathered());
}

void walk_through(const Communicator& world, const std::string& folder) {
  // [snippet: shard]
  hero::manual_seed(1);
  std::optional<nn::DeviceScope> meta(hero::kMeta);
  nn::GPT model(kConfig);  // shapes only
  meta.reset();
  const auto sharded = dist::fully_shard(
      model, world, {.unit = dist::each<nn::Block>(), .device = tutorial::device()});
  // [end]
  show_units(world, sharded);
  say(world, "\n");
  show_shards(world, model);
  draw_flat_parameter_of(world, model.get_submodule("transformer.h.0"), sharded.units().at(1),
                         folder);
  loss_of(model, world.rank()).backward();  // from the first step on the order is known
  say(world, "\n");
  show_step(world, sharded, model, folder);
}

constexpr tutorial::Machine kMachine = {.operations = 10e9, .bytes = 200e6, .message = 5e-6};

// Tells the model what the blocks compute.
void watch(nn::GPT& model, StepModel& step) {
  for (nn::Module* block : model.modules()) {
    if (dynamic_cast<nn::Block*>(block) == nullptr) continue;
    int64_t parameters = 0;
    for (const Tensor& p : block->parameters()) parameters += whole_numel(p);
    const double work = tutorial::forward_operations(4 * 16, parameters);  // 4 rows of 16 tokens
    block->register_forward_pre_hook(
        [&step, block, work](auto&...) { step.compute("h." + block->name(), work); });
    block->register_full_backward_pre_hook(
        [&step, block, work](auto&...) { step.compute("∇ h." + block->name(), 2.0 * work); });
  }
}

// The time of a step, from what the units do and when, by a model of the machine.
StepModel time_of(const Communicator& world, const char* name, const dist::FSDPOptions& options) {
  using Kind = dist::Event::Kind;
  using Message = StepModel::Message;
  hero::manual_seed(1);
  nn::GPT model(kConfig);
  const auto sharded = dist::fully_shard(model, world, options);
  loss_of(model, world.rank()).backward();  // from the second step on the order is known
  std::map<std::string, int64_t> sizes;
  for (const dist::UnitInfo& unit : sharded.units()) sizes[unit.name] = unit.flat_numel;
  StepModel step(name, kMachine);
  sharded.on_event([&](const dist::Event& event) {
    const std::string unit = event.unit.substr(event.unit.find('.') + 1);  // "h.0"
    const int64_t size = sizes.at(event.unit);
    const auto gather = static_cast<double>(tutorial::all_gather_bytes(world, size));
    const auto reduce = static_cast<double>(tutorial::reduce_scatter_bytes(world, size));
    if (event.kind == Kind::gather) step.send(Message::gather, unit, gather);
    if (event.kind == Kind::use) step.wait(Message::gather, unit);
    if (event.kind == Kind::reduce) step.send(Message::reduce, "∇ " + unit, reduce);
    if (event.kind == Kind::reduced) step.wait(Message::reduce, "∇ " + unit);
  });
  watch(model, step);
  loss_of(model, world.rank()).backward();
  return step;
}

void show_times(const Communicator& world, const std::string& folder) {
  const dist::UnitPolicy blocks = dist::each<nn::Block>();
  const std::vector<StepModel> steps = {
      time_of(world, "without prefetch", {.unit = blocks, .prefetch = 0}),
      time_of(world, "with prefetch", {.unit = blocks}),
      time_of(world, "keep until backward", {.unit = blocks, .reshard_after_forward = false})};
  tutorial::show_steps(world, steps, kMachine);
  if (world.rank() > 0) return;
  draw_steps(steps, "A step of FSDP by a model of processor and link", folder, "17_fsdp_times");
}

// The network of the chapters before in some forms of FSDP.
void compare(const Communicator& world, double link) {
  const uint64_t alone = tutorial::train_alone(world);
  struct Form {
    const char* name;
    dist::FSDPOptions options;
    int64_t gathers;
  };
  // [snippet: forms]
  const dist::UnitPolicy layers = dist::each<nn::Linear>();
  const Form forms[] = {
      {"reshard after forward", {.unit = layers}, 2},
      {"keep until backward", {.unit = layers, .reshard_after_forward = false}, 1},
      {"without prefetch", {.unit = layers, .prefetch = 0}, 2},
  };
  // [end]
  std::list<tutorial::Report> reports;
  std::vector<const tutorial::Report*> runs;
  for (const Form& form : forms) {
    tutorial::Report& report = reports.emplace_back(world, form.name);
    runs.push_back(&report);
    const auto [bits, units] = tutorial::train(
        [&](auto& net, auto& ranks) { return dist::fully_shard(net, ranks, form.options); }, world,
        report);
    int64_t held = 0, sent = 0;
    for (const dist::UnitInfo& unit : units) {
      held += 4 * unit.own.count;
      sent += form.gathers * tutorial::all_gather_bytes(world, unit.flat_numel) +
              tutorial::reduce_scatter_bytes(world, unit.flat_numel);
    }
    report.print({held, held, 2 * held}, sent, bits, alone);
  }
  tutorial::show_times(world, link, runs);
}

// What each rank of the mesh holds of the first block; ranks of the same colour hold the same.
void draw_hybrid(const dist::Mesh& mesh, const DataParallel& sharded, const std::string& folder) {
  const Communicator& world = mesh.world();
  const dist::UnitInfo unit = sharded.units().at(1);
  const std::string mine = "h.0: " + std::to_string(unit.own.begin) + " - " +
                           std::to_string(unit.own.begin + unit.own.count);
  const std::vector<std::string> texts = tutorial::texts_of(world, mine);
  if (world.rank() > 0) return;
  std::vector<tutorial::MeshCell> cells;
  for (size_t i = 0; i < texts.size(); ++i) {
    cells.push_back({texts[i], static_cast<int>(i) % mesh["shard"].size()});
  }
  tutorial::draw_mesh("A hybrid: shards within a group, copies of them in the other group",
                      mesh.axes(), cells,
                      {"along shard →: all_gather the parameters,\nreduce_scatter the gradients",
                       "along replicate ↓: all_reduce the shards\nof gradients"},
                      folder, "17_fsdp_mesh");
}

// [snippet: hybrid]
void hybrid(const Communicator& world, const std::string& folder) {
  if (world.size() % 2 != 0) return;
  const dist::Mesh mesh(world, {{"replicate", 2}, {"shard", world.size() / 2}});
  hero::manual_seed(1);
  nn::GPT model(kConfig);
  const auto sharded = dist::fully_shard(model, mesh, {.unit = dist::each<nn::Block>()});
  world.traffic().reset();
  loss_of(model, world.rank()).backward();
  say(world, "\nhybrid, bytes of a step: %lld within a group of %d, %lld between the groups\n",
      static_cast<long long>(world.traffic().bytes_of_axis("shard")), world.size() / 2,
      static_cast<long long>(world.traffic().bytes_of_axis("replicate")));
  draw_hybrid(mesh, sharded, folder);
}
// [end]

}  // namespace

int main(int argc, char** argv) {
  const char* title = "FSDP: what units do during a step.";
  return tutorial::run_ranks(argc, argv, {.title = title}, [](Communicator& world, auto& options) {
    walk_through(world, options.out);
    tutorial::draw_two_ranks(world, options.out);
    show_times(world, options.out);
    say(world, "\n");
    compare(world, options.link);
    hybrid(world, options.out);
  });
}
