// FSDP: units, shards, and the order in which they are gathered, freed and reduced
#include "support/device.h"
#include "support/ladder.h"
#include "support/timeline.h"

#include <hero/nn/nn.h>

using hero::Tensor;
using hero::dist::Communicator, hero::dist::DataParallel;
using tutorial::RankTable, tutorial::say, tutorial::Timeline;
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
    table.row(unit.name + ", " + std::to_string(unit.row),
              std::to_string(unit.own.begin) + " - " + std::to_string(end));
    all += unit.row;
    mine += unit.own.count;
  }
  table.row("all, " + std::to_string(all), mine).print("unit, its row");
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

// [snippet: timeline]
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
// [end]

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
  loss_of(model, world.rank()).backward();  // from the first step on the order is known
  say(world, "\n");
  show_step(world, sharded, model, folder);
  say(world, "\n");
}

// The network of the chapters before in some forms of FSDP.
void compare(const Communicator& world) {
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
  };
  // [end]
  for (const Form& form : forms) {
    tutorial::Report report(world, form.name);
    const auto [bits, units] = tutorial::train(
        [&](auto& net, auto& ranks) { return dist::fully_shard(net, ranks, form.options); }, world,
        report);
    int64_t held = 0, sent = 0;
    for (const dist::UnitInfo& unit : units) {
      held += 4 * unit.own.count;
      sent += form.gathers * tutorial::all_gather_bytes(world, unit.row) +
              tutorial::reduce_scatter_bytes(world, unit.row);
    }
    report.print({held, held, 2 * held}, sent, bits, alone);
  }
}

// [snippet: hybrid]
void hybrid(const Communicator& world) {
  if (world.size() % 2 != 0) return;
  const dist::Mesh mesh(world, {{"replicate", 2}, {"shard", world.size() / 2}});
  hero::manual_seed(1);
  nn::GPT model(kConfig);
  dist::fully_shard(model, mesh, {.unit = dist::each<nn::Block>()});
  world.traffic().reset();
  loss_of(model, world.rank()).backward();
  say(world, "\nhybrid, bytes of a step: %lld within a group of %d, %lld between the groups\n",
      static_cast<long long>(world.traffic().bytes_of_axis("shard")), world.size() / 2,
      static_cast<long long>(world.traffic().bytes_of_axis("replicate")));
}
// [end]

}  // namespace

int main(int argc, char** argv) {
  const char* title = "FSDP: what units do during a step.";
  return tutorial::run_ranks(argc, argv, {.title = title}, [](Communicator& world, auto& options) {
    walk_through(world, options.out);
    compare(world);
    hybrid(world);
  });
}
