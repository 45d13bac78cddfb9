#include <utility>

#include <hero/autograd/sharding/partition.h>
#include <hero/dist/checkpoint/agree.h>
#include <hero/dist/data_parallel/communicator_group.h>
#include <hero/dist/expert_parallel.h>
#include <hero/dist/parallel/expert_exchange.h>

namespace hero::dist {

namespace {

using MoELayers = std::vector<std::pair<std::string, nn::MoE*>>;

MoELayers moe_layers_of(nn::Module& model) {
  MoELayers layers;
  for (const auto& [path, module] : model.named_modules()) {
    if (auto* moe = dynamic_cast<nn::MoE*>(module)) layers.emplace_back(path, moe);
  }
  check(!layers.empty(), "expert_parallel: ", model.type_name(), " has no MoE layer");
  return layers;
}

std::string shown_layer(const std::string& path) { return path.empty() ? "the model" : path; }

void check_layer(const std::string& path, const nn::MoE& moe, const Communicator& comm) {
  check(moe.num_experts() % comm.size() == 0, "expert_parallel: ", shown_layer(path), " has ",
        moe.num_experts(), " experts, which do not divide into ", comm.size(),
        " ranks; choose a multiple of the axis '", comm.axis(), "'");
  for (const Tensor& p : moe.experts.parameters()) {
    check(partition(p) == nullptr, "expert_parallel: the experts of ", shown_layer(path),
          " are cut already: one has ", describe_part(p),
          "; call it once, and before fully_shard()");
  }
}

void check_same_layers(const MoELayers& layers, const Communicator& comm) {
  std::string paths;
  for (const auto& [path, moe] : layers) paths += (paths.empty() ? "" : ", ") + shown_layer(path);
  same_on_all(comm, "expert_parallel: ranks have MoE layers at different paths", paths);
  for (const auto& [path, moe] : layers) {
    same_on_all(comm, "expert_parallel: ranks have different layers at " + shown_layer(path),
                moe->experts.extra_repr() + ", " + moe->extra_repr());
  }
}

// Rows first ... of every parameter [E, ...] of the experts.
void cut_experts(nn::GroupedExperts& experts, const Communicator& comm,
                 const std::shared_ptr<RankGroup>& group) {
  const MemoryScope tag(MemoryTag::parameter);
  for (const Tensor& leaf : experts.parameters()) {
    const Shape whole = leaf.shape();
    const int64_t count = whole[0] / comm.size(), first = count * comm.rank();
    Box box = {Shape::filled(whole.size(), 0), whole};
    box.offset[0] = first;
    box.extent[0] = count;
    const Array& values = leaf.array();
    const bool meta = leaf.device() == kMeta;
    const LedgerScope ledger(meta ? values.storage().ledger() : current_ledger());
    const Array own = meta ? Array::empty(box.extent, leaf.dtype(), kMeta)
                           : values.slice(0, first, first + count).clone();
    set_part(leaf, own, std::make_shared<const Partition>(Partition{whole, {box}, 0, group}));
  }
}

}  // namespace

std::vector<std::string> expert_parallel(nn::Module& model, const Communicator& comm,
                                         const ExpertParallelOptions& options) {
  const MoELayers layers = moe_layers_of(model);
  check_same_layers(layers, comm);
  for (const auto& [path, moe] : layers) check_layer(path, *moe, comm);
  const auto group = std::make_shared<CommunicatorGroup>(comm);
  const Communicator loads = options.loads_over.defined() ? options.loads_over : comm;
  std::vector<std::string> paths;
  for (const auto& [path, moe] : layers) {
    if (comm.size() > 1) cut_experts(moe->experts, comm, group);
    moe->experts.set_gradient_divisor(comm.size());
    moe->set_dispatcher(std::make_shared<ExpertExchange>(comm, loads));
    paths.push_back(path.empty() ? "experts" : path + ".experts");
  }
  return paths;
}

}  // namespace hero::dist
