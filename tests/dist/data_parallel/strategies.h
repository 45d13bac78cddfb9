#pragma once
// Training the same small models under every strategy, and what comes out of it.
#include <bit>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "dist/ranks.h"

#include <hero/core/io/sha256.h>
#include <hero/dist/dist.h>
#include <hero/nn/nn.h>
#include <hero/optim/optim.h>

namespace hero::test {

/// Sizes that no number of ranks divides.
struct SmallMLP : nn::Module {
  nn::Linear& fc1 = add<nn::Linear>("fc1", 7, 13);
  nn::Linear& fc2 = add<nn::Linear>("fc2", 13, 11);
  nn::Linear& fc3 = add<nn::Linear>("fc3", 11, 5);
  Tensor forward(const Tensor& x) override { return fc3(tanh(fc2(relu(fc1(x))))); }
};

/// A frozen layer between trainable ones, tied weights, a scalar, a parameter smaller than most
/// numbers of ranks, and a layer that runs twice.
struct OddModel : nn::Module {
  nn::Linear& in = add<nn::Linear>("in", 7, 6);
  nn::Linear& frozen = add<nn::Linear>("frozen", 6, 6);
  nn::Linear& twice = add<nn::Linear>("twice", 6, 6);
  nn::Linear& tied = add<nn::Linear>("tied", 6, 6, nn::LinearOptions{.bias = false});
  nn::Linear& out = add<nn::Linear>("out", 6, 5);
  Tensor& scale = parameter("scale", Shape{}, nn::init::ones());
  Tensor& pair = parameter("pair", Shape{2}, nn::init::normal());
  OddModel() {
    frozen.requires_grad_(false);
    tied.weight = twice.weight;
  }
  Tensor forward(const Tensor& x) override {
    const Tensor h = twice(relu(frozen(tanh(in(x)))));
    // A row lies in the order of the graph, and compilers differ in which operand they evaluate
    // first.
    const Tensor squares = sum(pair * pair);
    return out(tanh(tied(twice(h)))) * scale + squares;
  }
};

/// Both kinds of encoder layers over the batch as a sequence.
struct SmallEncoder : nn::Module {
  nn::Linear& in = add<nn::Linear>("in", 7, 8);
  nn::TransformerEncoderLayer& last = add<nn::TransformerEncoderLayer>(
      "last", 8, 2, nn::TransformerEncoderLayerOptions{.dim_feedforward = 16, .dropout = 0.0});
  nn::TransformerEncoderLayer& first = add<nn::TransformerEncoderLayer>(
      "first", 8, 2,
      nn::TransformerEncoderLayerOptions{.dim_feedforward = 16,
                                         .dropout = 0.0,
                                         .activation = nn::FeedForwardActivation::gelu,
                                         .norm_first = true});
  nn::Linear& out = add<nn::Linear>("out", 8, 5);
  Tensor forward(const Tensor& x) override {
    return out(squeeze(first(last(unsqueeze(in(x), 1))), 1));
  }
};

inline nn::GPTConfig tiny_gpt() {
  return {.vocab_size = 19, .block_size = 6, .n_layer = 2, .n_head = 2, .n_embd = 8};
}

/// gpt_loss: the same GPT, by GPT::loss; gpt_untied: so too, its head a weight of its own and its
/// blocks run again in backward; gpt_tanh: with gelu by tanh, which is part of a product on a GPU.
enum class Subject { mlp, odd, gpt, gpt_loss, gpt_untied, gpt_tanh, encoder };

/// `activations`: those of a GPT's blocks are offloaded so.
inline std::unique_ptr<nn::Module> make_subject(
    Subject subject, const std::optional<OffloadOptions>& activations = {}) {
  manual_seed(7);
  nn::GPTConfig config = tiny_gpt();
  config.offload = activations;
  switch (subject) {
    case Subject::mlp:
      return std::make_unique<SmallMLP>();
    case Subject::odd:
      return std::make_unique<OddModel>();
    case Subject::gpt:
    case Subject::gpt_loss:
      return std::make_unique<nn::GPT>(config);
    case Subject::gpt_untied:
      config.tie_weights = false;
      config.checkpoint = true;
      return std::make_unique<nn::GPT>(config);
    case Subject::gpt_tanh:
      config.gelu = Gelu::tanh;
      return std::make_unique<nn::GPT>(config);
    case Subject::encoder:
      return std::make_unique<SmallEncoder>();
  }
  return nullptr;
}

/// The loss of micro-batch `rank` of step `step`. A model whose parameters are offloaded computes
/// on `device`, which is not theirs.
inline Tensor subject_loss(Subject subject, nn::Module& model, int step, int rank,
                           std::optional<Device> computes_on = {}) {
  const Device device = computes_on.value_or(model.parameters().front().device());
  const DType dtype = model.parameters().front().dtype();
  const auto seed = static_cast<uint64_t>(1000 * step + rank + 1);
  const auto labels = [&](const Shape& shape, int64_t classes, uint64_t shift) {
    const Array values = noise(shape, kFloat32, seed + shift);
    std::vector<int64_t> ids;
    for (const float v : values.to_vector<float>()) {
      ids.push_back(static_cast<int64_t>((v + 2.0f) * 0.25f * static_cast<float>(classes)));
    }
    return Tensor(Array::from(ids, shape)).to(device);
  };
  const int64_t batch = 2;
  if (subject == Subject::gpt_loss || subject == Subject::gpt_untied) {
    return dynamic_cast<nn::GPT&>(model).loss(labels({batch, 6}, 19, 17),
                                              labels({batch, 6}, 19, 29));
  }
  if (subject == Subject::gpt || subject == Subject::gpt_tanh) {
    const Tensor logits = model(labels({batch, 6}, 19, 17));
    return cross_entropy(logits.reshape({batch * 6, 19}), labels({batch * 6}, 19, 29));
  }
  const Tensor x(noise({batch, 7}, kFloat32, seed).to(dtype).to(device));
  return cross_entropy(model(x), labels({batch}, 5, 31));
}

enum class ShardingStrategy { single, ddp, zero1, zero2, zero3, fsdp, fsdp_kept, hybrid };
inline constexpr const char* kStrategyNames[] = {"single", "ddp",  "zero1",     "zero2",
                                                 "zero3",  "fsdp", "fsdp_kept", "hybrid"};
inline const char* name(ShardingStrategy strategy) {
  return kStrategyNames[static_cast<int>(strategy)];
}

/// The strategies on which parameters are shards between two steps.
inline constexpr ShardingStrategy kSharding[] = {ShardingStrategy::zero1, ShardingStrategy::zero2,
                                                 ShardingStrategy::zero3, ShardingStrategy::fsdp,
                                                 ShardingStrategy::fsdp_kept};

inline dist::UnitPolicy units_of(Subject subject) {
  switch (subject) {
    case Subject::gpt:
    case Subject::gpt_loss:
    case Subject::gpt_tanh:
      return dist::each<nn::Block>();
    case Subject::encoder:
      return dist::each<nn::TransformerEncoderLayer>();
    case Subject::odd:
      return dist::each_of({"in", "frozen", "out"});
    default:
      return dist::each<nn::Linear>();
  }
}

/// Puts a model under a strategy; a hybrid has groups of so many ranks. Small buckets, so that
/// there are several.
inline void climb(ShardingStrategy strategy, Subject subject, nn::Module& model,
                  const dist::Communicator& world, dist::Order order = dist::Order::tree,
                  int group = 2, const dist::Offload& offload = {}) {
  switch (strategy) {
    case ShardingStrategy::single:
      return;
    case ShardingStrategy::ddp:
      dist::DDP(model, world, {.bucket_bytes = 700, .first_bucket_bytes = 100, .order = order});
      return;
    case ShardingStrategy::zero1:
      dist::ZeRO(model, world,
                 {.stage = 1, .bucket_bytes = 700, .order = order, .offload = offload});
      return;
    case ShardingStrategy::zero2:
      dist::ZeRO(model, world,
                 {.stage = 2, .bucket_bytes = 700, .order = order, .offload = offload});
      return;
    case ShardingStrategy::zero3:
      dist::ZeRO(model, world, {.stage = 3, .order = order, .offload = offload});
      return;
    case ShardingStrategy::fsdp:
      dist::fully_shard(model, world,
                        {.unit = units_of(subject), .order = order, .offload = offload});
      return;
    case ShardingStrategy::fsdp_kept:
      dist::fully_shard(model, world,
                        {.unit = units_of(subject),
                         .reshard_after_forward = false,
                         .order = order,
                         .offload = offload});
      return;
    case ShardingStrategy::hybrid: {
      const dist::Mesh mesh(world, {{"replicate", world.size() / group}, {"shard", group}});
      dist::fully_shard(model, mesh,
                        {.unit = units_of(subject), .order = order, .offload = offload});
      return;
    }
  }
}

enum class Method { sgd, adamw, lamb, adafactor, muon };

inline std::unique_ptr<optim::Optimizer> make_method(Method method,
                                                     const std::vector<Tensor>& parameters,
                                                     bool masters = false) {
  if (masters && method == Method::adamw) {
    return std::make_unique<optim::MasterWeights<optim::AdamW>>(parameters,
                                                                optim::AdamWOptions{.lr = 0.01});
  }
  check(!masters, "make_method: only AdamW has masters here");
  switch (method) {
    case Method::sgd:
      return std::make_unique<optim::SGD>(parameters,
                                          optim::SGDOptions{.lr = 0.05, .momentum = 0.9});
    case Method::adamw:
      return std::make_unique<optim::AdamW>(parameters, optim::AdamWOptions{.lr = 0.01});
    case Method::lamb:
      return std::make_unique<optim::LAMB>(parameters, optim::LAMBOptions{.lr = 0.01});
    case Method::adafactor:
      return std::make_unique<optim::Adafactor>(parameters, optim::AdafactorOptions{.lr = 0.02});
    case Method::muon: {  // the other parameters stay as they are
      std::vector<Tensor> matrices;
      for (const Tensor& p : parameters) {
        if (whole_shape(p).size() == 2) matrices.push_back(p);
      }
      return std::make_unique<optim::Muon>(matrices, optim::MuonOptions{.lr = 0.02});
    }
  }
  return nullptr;
}

/// The same names in the same order, with the same bits.
inline bool same_state(const nn::StateDict& a, const nn::StateDict& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i].name != b[i].name || hash(a[i].array) != hash(b[i].array)) return false;
  }
  return true;
}

/// Values by name, put together from the parts that ranks hold. Parts that several ranks hold must
/// be the same bits.
class Whole {
 public:
  void add(const std::string& name, int64_t numel, int64_t first, const Array& part) {
    const std::lock_guard<std::mutex> lock(mutex_);
    auto& entry = values_[name];
    entry.resize(static_cast<size_t>(numel));
    const std::vector<float> given = part.to(kCpu).to(kFloat32).to_vector<float>();
    for (size_t i = 0; i < given.size(); ++i) {
      Value& value = entry[static_cast<size_t>(first) + i];
      const auto bits = std::bit_cast<uint32_t>(given[i]);
      check(!value.known || value.bits == bits, "ranks differ in ", name);
      value = {bits, true};
    }
  }
  /// The names of what differs; "" where all bits are the same and all are known.
  std::string difference(const Whole& other) const {
    std::string names;
    for (const auto& [name, values] : values_) {
      const auto found = other.values_.find(name);
      bool same = found != other.values_.end() && found->second.size() == values.size();
      for (size_t i = 0; same && i < values.size(); ++i) {
        same = values[i].known && found->second[i].known && values[i].bits == found->second[i].bits;
      }
      if (!same) names += name + " ";
    }
    if (values_.size() != other.values_.size()) names += "(other names)";
    return names;
  }
  size_t size() const { return values_.size(); }
  /// Of all names and bits, in the order of names.
  std::string sha256() const {
    std::string all;
    for (const auto& [name, values] : values_) {
      all += name + '\0';
      for (const Value& value : values) {
        all.append(reinterpret_cast<const char*>(&value.bits), sizeof(value.bits));
      }
    }
    return hero::sha256(std::as_bytes(std::span(all)));
  }

 private:
  struct Value {
    uint32_t bits = 0;
    bool known = false;
  };
  std::map<std::string, std::vector<Value>> values_;
  std::mutex mutex_;
};

/// Adds a model's parameters and its optimizer's states, between two steps.
inline void add_state(Whole& whole, nn::Module& model, const optim::Optimizer& optimizer) {
  const auto add = [&](const std::string& name, const Tensor& leaf, const Array& values) {
    const Partition* part = partition(leaf);
    const bool boxes = part != nullptr && !part->boxes.empty();
    const int64_t numel = whole_shape(leaf).numel();
    if (!boxes) return whole.add(name, numel, part ? part->first : 0, values);
    layout::Runs runs(part->whole, part->boxes, part->first, leaf.numel());
    const Array flat = values.reshape({leaf.numel()});
    for (layout::Run run; runs.next(run);) {
      whole.add(name, numel, run.whole, flat.slice(0, run.part, run.part + run.count));
    }
  };
  const auto named = model.named_parameters();
  for (const auto& [name, leaf] : named) add(name, leaf, leaf.array());
  const auto parameters = optimizer.parameters();
  for (const auto& entry : optimizer.state_dict()) {
    if (entry.name.rfind("state.", 0) != 0) continue;
    const size_t dot = entry.name.find('.', 6);
    const auto index = static_cast<size_t>(std::stoi(entry.name.substr(6, dot - 6)));
    const Tensor& leaf = parameters.at(index);
    const std::string what = entry.name.substr(dot + 1);
    if (what != "step" && optimizer.is_number(what)) {
      whole.add(entry.name, entry.array.numel(), 0, entry.array);  // in full on every rank
      continue;
    }
    if (entry.array.shape() == leaf.shape() && entry.array.dtype() == leaf.dtype()) {
      add(entry.name, leaf, entry.array);
    }
  }
}

struct Climb {
  ShardingStrategy strategy = ShardingStrategy::single;
  Subject subject = Subject::mlp;
  Method method = Method::sgd;
  int ranks = 2;
  int steps = 5;
  double clip = 0.0;  ///< 0: none
  Device device = kCpu;
  dist::BackendKind backend = dist::BackendKind::local;  ///< nccl: each rank on its own GPU
  DType dtype = kFloat32;                                ///< of parameters and all that is computed
  dist::Order order = dist::Order::tree;
  int group = 2;  ///< ranks of a hybrid that hold the whole together
  dist::Offload offload = {};
  bool masters = false;  ///< float32 copies of parameters of 16 bits
};

inline void finish_step(nn::Module& model, optim::Optimizer& optimizer, double clip) {
  if (clip > 0.0) optim::clip_grad_norm(model.parameters(), clip);
  optimizer.step();
  optimizer.zero_grad();
}

/// Each rank takes its own micro-batch of a step.
inline void train(Subject subject, nn::Module& model, optim::Optimizer& optimizer,
                  const dist::Communicator& world, int steps, double clip,
                  std::optional<Device> device = {}) {
  for (int step = 0; step < steps; ++step) {
    subject_loss(subject, model, step, world.rank(), device).backward();
    finish_step(model, optimizer, clip);
  }
}

/// One process takes the micro-batches of `ranks` ranks: in the order of ranks by backward() alone,
/// which adds to the gradients that are there, else with an accumulator.
inline void train_alone(Subject subject, nn::Module& model, optim::Optimizer& optimizer, int ranks,
                        int steps, double clip, dist::Order order = dist::Order::tree) {
  optim::Accumulator gradients(model.parameters());
  for (int step = 0; step < steps; ++step) {
    for (int r = 0; r < ranks; ++r) {
      subject_loss(subject, model, step, r).backward();
      if (order == dist::Order::tree) gradients.add();
    }
    if (order == dist::Order::tree) {
      gradients.mean();
    } else {
      for (const Tensor& p : model.parameters()) {
        if (p.grad().defined()) p.grad().div_(static_cast<double>(ranks));
      }
    }
    finish_step(model, optimizer, clip);
  }
}

/// Trains under a strategy, or alone without a world, and adds the final state to `whole`.
inline void train(const Climb& c, Whole& whole, const dist::Communicator* world) {
  auto model = make_subject(c.subject);
  model->to(c.dtype);
  const bool own = world != nullptr && world->device() != kCpu;
  const Device device = own ? world->device() : c.device;
  model->to(device);
  if (world != nullptr) climb(c.strategy, c.subject, *model, *world, c.order, c.group, c.offload);
  auto optimizer = make_method(c.method, model->parameters(), c.masters);
  if (world != nullptr) {
    train(c.subject, *model, *optimizer, *world, c.steps, c.clip, device);
  } else {
    train_alone(c.subject, *model, *optimizer, c.ranks, c.steps, c.clip, c.order);
  }
  add_state(whole, *model, *optimizer);
}

/// The names in which a strategy's state differs from one process's.
inline std::string climb_difference(const Climb& c) {
  Whole expected, got;
  train(c, expected, nullptr);
  dist::run_ranks(c.ranks, [&](dist::Communicator& world) { train(c, got, &world); },
                  {.backend = c.backend});
  return expected.size() < 4 ? "too few names" : expected.difference(got);
}

}  // namespace hero::test
