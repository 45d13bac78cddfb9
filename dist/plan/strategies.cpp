// All strategies of a request.
#include <algorithm>

#include <hero/dist/plan.h>
#include <hero/dist/plan/model_sizes.h>

namespace hero::dist {

namespace {

void check_request(const PlanRequest& r) {
  check(r.ranks >= 1, "plan: ", r.ranks, " ranks; there must be at least one");
  check(r.global_batch >= 1, "plan: a global batch of ", r.global_batch,
        " sequences; there must be at least one");
  constexpr int64_t kMostTokens = int64_t{1} << 48;  // times anything else it is still a number
  check(r.own || r.model.block_size <= 0 || r.global_batch <= kMostTokens / r.model.block_size,
        "plan: a global batch of ", r.global_batch, " sequences of ", r.model.block_size,
        " tokens; there must be at most 2^48 tokens in a step");
  check(r.cluster.per_host >= 1, "plan: ", r.cluster.per_host, " devices of a host");
  check(r.ranks <= r.cluster.per_host || r.ranks % r.cluster.per_host == 0, "plan: ", r.ranks,
        " ranks are no whole number of hosts with ", r.cluster.per_host,
        " devices; give a multiple of it");
  check(is_half(r.dtype) || r.dtype == kFloat32, "plan: dtype ", name(r.dtype),
        "; bfloat16, float16 and float32 are planned");
  check(r.best >= 1 && r.simulations >= 1 && r.max_micro_batch >= 1,
        "plan: best, simulations and max_micro_batch must be at least 1");
  if (r.own) return;
  const nn::GPTConfig& m = r.model;
  check(m.vocab_size > 0 && m.block_size > 0 && m.n_layer > 0 && m.n_head > 0 && m.n_embd > 0 &&
            m.n_embd % m.n_head == 0,
        "plan: a model of ", m.n_layer, " layers, width ", m.n_embd, ", ", m.n_head,
        " heads, vocabulary ", m.vocab_size, ", sequence ", m.block_size,
        ": sizes must be positive and heads divide the width");
  const int64_t kv_heads = m.n_kv_head.value_or(m.n_head);
  check(kv_heads > 0 && m.n_head % kv_heads == 0, "plan: a model of ", m.n_head, " heads with ",
        kv_heads, " heads of keys and values; give a number that divides the heads");
}

// A strategy's schedules: one where there are no stages.
std::vector<Schedule> schedules_of(const PlanRequest& r, const Strategy& s) {
  if (s.pipe == 1) return {Schedule::one_f_one_b()};
  std::vector<Schedule> all = {Schedule::one_f_one_b(), Schedule::zero_bubble()};
  for (const int chunks : {2, 4}) {
    // Buckets of the lower shardings would hold parameters of several chunks.
    const bool buckets = s.data() > 1 || s.offload != PlanOffload::none;
    if (buckets && s.sharding < PlanSharding::fsdp) break;
    if (s.micro_batches % s.pipe == 0 && blocks_of(r) % (int64_t{s.pipe} * chunks) == 0) {
      all.push_back(Schedule::interleaved(chunks));
    }
  }
  return all;
}

// The shardings that divide something among so many replicas, with how they do.
std::vector<Strategy> shardings_of(const PlanRequest& r, Strategy s, int data) {
  const auto with = [&](PlanSharding sharding, int shard, bool reshard) {
    Strategy one = s;
    one.sharding = sharding;
    one.shard = shard;
    one.replicate = data / shard;
    one.reshard = reshard;
    return one;
  };
  std::vector<Strategy> all;
  all.push_back(with(PlanSharding::zero1, data, true));
  all.push_back(with(PlanSharding::zero2, data, true));
  for (const bool reshard : {true, false}) all.push_back(with(PlanSharding::fsdp, data, reshard));
  const int host = std::max(1, r.cluster.per_host / s.tensor);  // replicas of a host
  if (host > 1 && host < data && data % host == 0) {
    for (const bool reshard : {true, false})
      all.push_back(with(PlanSharding::hybrid, host, reshard));
  }
  return all;
}

// All of one number of replicas: DDP, and what divides something where there is something to divide
// or its part may leave the device.
std::vector<Strategy> placed_shardings_of(const PlanRequest& r, const Strategy& s, int data) {
  std::vector<Strategy> all = {s};
  all.front().replicate = data;
  const std::vector<Strategy> dividing = shardings_of(r, s, data);
  if (data > 1) all.insert(all.end(), dividing.begin(), dividing.end());
  if (r.cluster.host_memory == 0 || r.cluster.device == DeviceType::cpu) return all;
  for (const PlanOffload place : {PlanOffload::host, PlanOffload::disk}) {
    if (place == PlanOffload::disk && r.cluster.disk == 0) break;
    for (Strategy one : dividing) {
      one.offload = place;
      all.push_back(one);
    }
  }
  return all;
}

// The strategies of a sharding: micro-batches, schedules, checkpointing.
void add_passes(const PlanRequest& r, const Strategy& sharding, std::vector<Strategy>& all) {
  const int64_t rows = r.global_batch / sharding.data();
  for (int64_t b = 1; b <= std::min(rows, r.max_micro_batch); b *= 2) {
    if (rows % b != 0) break;
    Strategy s = sharding;
    s.micro_batch = b;
    s.micro_batches = rows / b;
    if (s.micro_batches < s.pipe) break;  // some stages would never work at the same time
    for (const Schedule& schedule : schedules_of(r, s)) {
      s.schedule = schedule;
      for (const bool checkpoint : {false, true}) {
        if (checkpoint && r.own && !r.own->sizes().checkpoints) break;
        s.checkpoint = checkpoint;
        all.push_back(s);
      }
    }
  }
}

// Whether so many tensor ranks can compute the layers together.
bool divides_layers(const PlanRequest& r, int tensor) {
  if (r.own) return can_cut(*r.own, tensor);
  const int64_t kv_heads = r.model.n_kv_head.value_or(r.model.n_head);
  return r.model.n_head % tensor == 0 && (kv_heads % tensor == 0 || tensor % kv_heads == 0);
}

}  // namespace

const char* name(PlanSharding sharding) {
  constexpr const char* kNames[] = {"DDP", "ZeRO-1", "ZeRO-2", "FSDP", "hybrid"};
  return kNames[static_cast<size_t>(sharding)];
}

std::string Strategy::text() const {
  std::string s = "t " + std::to_string(tensor) + " p " + std::to_string(pipe) + " x ";
  if (data() == 1 && sharding == PlanSharding::ddp) {
    s += "1";
  } else {
    s += name(sharding);
    s += " " + (sharding == PlanSharding::hybrid
                    ? std::to_string(replicate) + " x " + std::to_string(shard)
                    : std::to_string(data()));
  }
  s += ", " + std::to_string(micro_batches) + " x " + std::to_string(micro_batch);
  if (pipe > 1) s += ", " + schedule.name();
  if (sharding >= PlanSharding::fsdp && !reshard) s += ", kept";
  if (checkpoint) s += ", checkpoint";
  if (offload == PlanOffload::host) s += ", offload";
  if (offload == PlanOffload::disk) s += ", offload to disk";
  return s;
}

std::vector<Strategy> strategies(const PlanRequest& r) {
  check_request(r);
  std::vector<Strategy> all;
  for (int t = 1; t <= std::min(r.cluster.per_host, r.ranks); ++t) {
    if (r.cluster.per_host % t != 0 || r.ranks % t != 0 || !divides_layers(r, t)) continue;
    for (int p = 1; p <= r.ranks / t && p <= blocks_of(r); ++p) {
      if (blocks_of(r) % p != 0 || r.ranks / t % p != 0) continue;
      if (p > 1 && r.own && r.own->sizes().ties) break;  // what is tied cannot be sharded there
      const int data = r.ranks / t / p;
      if (r.global_batch % data != 0) continue;
      Strategy s;
      s.tensor = t;
      s.pipe = p;
      for (const Strategy& sharding : placed_shardings_of(r, s, data)) add_passes(r, sharding, all);
    }
  }
  check(!all.empty(), "plan: no number of replicas divides the global batch of ", r.global_batch,
        " sequences on ", r.ranks, " ranks; give a batch that ", r.ranks,
        " divided by tensor ranks and stages divides");
  return all;
}

}  // namespace hero::dist
