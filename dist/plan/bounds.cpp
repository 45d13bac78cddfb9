// Lower bounds of a strategy's time and memory, in closed form.
#include <algorithm>

#include <hero/dist/backends/hosts.h>
#include <hero/dist/plan.h>
#include <hero/dist/plan/model_sizes.h>

namespace hero::dist {

namespace {

// Elements and flops of a model's pieces; C width, T positions. Where tensor ranks are more than
// the heads of keys and values, each computes with one of these, and all have the whole projection
// of queries, keys and values.
struct Sizes {
  explicit Sizes(const nn::GPTConfig& m, int tensor = 1)
      : C(static_cast<double>(m.n_embd)),
        T(static_cast<double>(m.block_size)),
        V(static_cast<double>(m.vocab_size)),
        bias(m.bias ? 1.0 : 0.0),
        positions(m.rotary ? 0.0 : T * C) {
    const int64_t heads = m.n_head, kv_heads = m.n_kv_head.value_or(heads);
    const auto width = [&](int64_t n) {
      return C * static_cast<double>(n) / static_cast<double>(heads);
    };
    kv = width(std::max<int64_t>(kv_heads, tensor));
    weights = (C + 2 * kv) * C + C * C + 8 * C * C;
    const double rows = C + 2 * width(kv_heads), qkv = rows * (C + bias);
    copied = kv_heads < tensor ? qkv : 0.0;
    cut = qkv - copied + 9 * C * C + bias * 4 * C;
    whole = copied + 2 * C + bias * 4 * C;
  }
  double C, T, V, bias, positions;
  double kv;       // width of the keys, and of the values, that all ranks compute
  double weights;  // elements of a block's matrices that all ranks compute with
  double cut;      // of a block's parameters that tensor ranks divide
  double whole;    // and of the others: norms, biases behind sums, what is copied
  double copied;   // of projections whose gradients tensor ranks add up

  // Of a forward of one sequence.
  double block_products() const { return 2 * T * weights; }
  double block_attention() const { return 2 * T * T * C; }  // causal: half of 4 T^2 C
  double head_products() const { return 2 * T * C * V; }
};

double blocks_of(const PlanRequest& r, const Strategy& s) {
  return static_cast<double>(blocks_of(r)) / s.pipe;
}

double bytes_of(const PlanRequest& r) { return r.dtype == kFloat32 ? 4.0 : 2.0; }

// Parameters of a rank, before the sharding divides them: of a layer of a model of one's own, of
// the blocks of any stage, and of a stage.
double parameters(const Strategy& s, const PlanModelSizes::Layer& layer) {
  return layer.cut / s.tensor + layer.whole;
}

double block_parameters(const PlanRequest& r, const Strategy& s) {
  if (r.own) return blocks_of(r, s) * parameters(s, r.own->sizes().block);
  const Sizes size(r.model, s.tensor);
  return blocks_of(r, s) * (size.cut / s.tensor + size.whole);
}

double parameters(const PlanRequest& r, const Strategy& s, int stage) {
  double count = block_parameters(r, s);
  if (r.own) {
    const PlanModelSizes& own = r.own->sizes();
    return count + (stage == 0 ? parameters(s, own.first) : 0.0) +
           (stage + 1 == s.pipe ? parameters(s, own.last) : 0.0);
  }
  const Sizes size(r.model, s.tensor);
  const double t = s.tensor;
  const bool tied = r.model.tie_weights && s.pipe == 1;
  if (stage == 0) count += size.V * size.C / t + size.positions;
  if (stage + 1 == s.pipe) count += size.C * (1 + size.bias) + (tied ? 0 : size.V * size.C / t);
  return count;
}

// Pairs of a chunk and a micro-batch that wait for backward at a time, as pipeline_schedule.h says.
double waiting(const Strategy& s, int stage) {
  const int64_t p = s.pipe, m = s.micro_batches, v = s.schedule.chunks(), behind = p - stage - 1;
  if (v > 1) return static_cast<double>(std::min(v * m, 2 * behind + (v - 1) * p + 1));
  return static_cast<double>(std::min(behind + 1, m));
}

double activations(const PlanRequest& r, const Strategy& s, int stage) {
  if (r.own) return 0.0;  // the simulation knows them
  const Sizes size(r.model, s.tensor);
  const double unit = size.T * static_cast<double>(s.micro_batch) * size.C * bytes_of(r) / 2;
  const double block = unit * (8 + (22 + 4 * size.kv / size.C) / s.tensor);
  const double blocks = blocks_of(r, s) / s.schedule.chunks();
  const double passes = waiting(s, stage);
  return s.checkpoint ? passes * blocks * 2 * unit + block : passes * blocks * block;
}

double stage_bytes(const PlanRequest& r, const Strategy& s, int stage) {
  const double count = parameters(r, s, stage), wide = bytes_of(r);
  const bool leaves = s.offload != PlanOffload::none;
  const auto divided = [&](PlanSharding from, double bytes) {
    if (leaves && s.sharding >= from) return 0.0;
    return count * bytes / (s.sharding >= from ? s.shard : 1);
  };
  const double steady = divided(PlanSharding::fsdp, wide) +
                        divided(PlanSharding::zero1, r.dtype == kFloat32 ? 8.0 : 12.0);
  const double gradients = leaves ? 0.0 : divided(PlanSharding::zero2, wide);
  double forward = activations(r, s, stage);
  // From the second micro-batch on they meet gradients.
  if (s.pipe == 1 && s.micro_batches > 1) forward += gradients;
  return steady + std::max(forward, gradients);
}

// Seconds of a micro-batch on one stage.
struct Pass {
  double forward = 0.0, backward = 0.0;
};

// The same of a model of one's own: products and attention as if tensor ranks divided all of them.
// Backward computes both gradients of a product, but none of the first layer's inputs, and with
// frozen parameters perhaps one of the two.
Pass own_pass_of(const PlanRequest& r, const Strategy& s, int stage,
                 const std::function<double(core::KernelKind)>& speed) {
  const PlanModelSizes& own = r.own->sizes();
  Pass pass;
  const auto add = [&](const PlanModelSizes::Layer& layer, double count, double backward) {
    double seconds = 0.0;
    for (const core::KernelKind kind : {core::KernelKind::matmul, core::KernelKind::attention}) {
      seconds += layer.flops[static_cast<size_t>(kind)] / speed(kind);
    }
    seconds *= count * static_cast<double>(s.micro_batch);
    pass.forward += seconds;
    pass.backward += (layer.trains ? backward : 0.0) * seconds;
    return seconds;
  };
  const double again = add(own.block, blocks_of(r, s), 2.0);
  if (s.checkpoint) pass.backward += again;
  if (stage == 0) add(own.first, 1.0, 1.0);
  if (stage + 1 == s.pipe) add(own.last, 1.0, 2.0);
  return pass;
}

Pass pass_of(const PlanRequest& r, const Strategy& s, int stage) {
  const Sizes size(r.model, s.tensor);
  const Cluster& c = r.cluster;
  const double peak = r.dtype == kFloat32 ? c.float32_flops : c.half_flops;
  const auto speed = [&](core::KernelKind kind) {
    return peak * c.efficiency[static_cast<size_t>(kind)] * s.tensor;
  };
  if (r.own) return own_pass_of(r, s, stage, speed);
  const double sequences = static_cast<double>(s.micro_batch);
  const double blocks = sequences * blocks_of(r, s);
  const double block = blocks * (size.block_products() / speed(core::KernelKind::matmul) +
                                 size.block_attention() / speed(core::KernelKind::attention));
  const double last = stage + 1 == s.pipe ? 1.0 : 0.0;
  const double head = last * sequences * size.head_products() / speed(core::KernelKind::matmul);
  // Two sums over the tensor ranks forward and two backward, and one of the gradients of copies.
  const double sent = bytes_of(r) * 2 * (s.tensor - 1) / s.tensor / c.inside.bytes_per_second;
  const double sums = blocks * size.T * size.C * 2 * sent;
  const double copies = blocks_of(r, s) * size.copied * sent;
  return {block + head + sums, 2 * (block + head) + sums + copies + (s.checkpoint ? block : 0.0)};
}

double pass_seconds(const PlanRequest& r, const Strategy& s) {
  const double m = static_cast<double>(s.micro_batches);
  const Pass first = pass_of(r, s, 0), last = pass_of(r, s, s.pipe - 1);
  // The last stage begins when the others have passed the first micro-batch on and ends before they
  // have passed the last one back.
  const double back = s.schedule.splits_backward() ? first.forward : first.backward;
  const double ends = (s.pipe - 1) * (first.forward + back) / s.schedule.chunks();
  return m * (last.forward + last.backward) + ends;
}

// Parameters that a rank of the fullest stage steps in its host's memory, at least.
double stepped_on_host(const PlanRequest& r, const Strategy& s) {
  if (s.offload == PlanOffload::none) return 0.0;
  return std::max(parameters(r, s, 0), parameters(r, s, s.pipe - 1)) / s.shard;
}

// Of what a rank steps, bytes of a parameter: all, and what lies on disk.
struct PerParameter {
  double all, on_disk;
};

PerParameter per_parameter(const PlanRequest& r, const Strategy& s) {
  if (s.offload != PlanOffload::disk) return {16.0, 0.0};
  const double states = r.dtype == kFloat32 ? 8.0 : 12.0;
  return {16.0, states + (s.sharding >= PlanSharding::fsdp ? bytes_of(r) : 0.0)};
}

// Gradients are read, parameters written, two moments and, of halves, masters are both; what lies
// on disk meanwhile comes and goes.
double host_seconds(const PlanRequest& r, const Strategy& s) {
  const double count = stepped_on_host(r, s), part = r.cluster.per_host;
  const double host =
      count * (2 * bytes_of(r) + 2 * 2 * 4.0) * part / r.cluster.host_bytes_per_second;
  const double disk =
      count * 2 * per_parameter(r, s).on_disk * part / r.cluster.disk_bytes_per_second;
  return std::max(host, disk);
}

// The elements that fsdp gathers in a step, and those whose gradients it reduces. Each pass of a
// micro-batch gathers blocks that are not kept. What is not in a block is kept from forward to
// backward, and in a pipeline perhaps longer. There, gradients are averaged once and what is kept
// is gathered once.
struct FsdpElements {
  double gathered, reduced;
};

FsdpElements fsdp_elements(const PlanRequest& r, const Strategy& s) {
  const auto m = static_cast<double>(s.micro_batches);
  const double all = parameters(r, s, 0), blocks = block_parameters(r, s);
  if (s.pipe == 1) return {m * (s.reshard ? all + blocks : all), m * all};
  return {s.reshard ? all + (2 * m - 1) * blocks : all, all};
}

// What the ranks of a data axis send, of which each is `stride` ranks behind the one before; the
// first one is rank 0. Bytes are those of a rank on average.
class DataAxis {
 public:
  DataAxis(const PlanRequest& r, int ranks, int stride) : r_(r), ranks_(ranks) {
    std::vector<int> hosts;
    for (int i = 0; i < ranks; ++i) hosts.push_back(i * stride / r.cluster.per_host);
    inside_ = hosts.back() == 0;
    of_host_ = ranks_of_host(hosts);
  }

  // So many elements are gathered.
  void gather(double elements) {
    (inside_ ? sent_inside_ : sent_outside_) += elements * bytes_of(r_) * others(ranks_);
  }
  // So many elements are added up, and each rank keeps its part. In two levels the bytes are those
  // of Traffic; partial sums are float32 (Call::partial_dtype()).
  void reduce_scatter(double elements) {
    if (of_host_ == 0) return gather(elements);
    sent_inside_ += elements * bytes_of(r_) * others(of_host_);
    sent_outside_ += elements / of_host_ * 4.0 * others(ranks_ / of_host_);
  }
  // So many elements are added up, and each rank gets all of them.
  void all_reduce(double elements) {
    reduce_scatter(elements);
    if (of_host_ == 0) return gather(elements);
    sent_inside_ += elements * bytes_of(r_) * others(of_host_);
    sent_outside_ += elements / of_host_ * bytes_of(r_) * others(ranks_ / of_host_);
  }

  // How long the bytes need that leave through each port.
  double inside_seconds() const { return sent_inside_ / r_.cluster.inside.bytes_per_second; }
  double outside_seconds() const { return sent_outside_ / r_.cluster.outside.bytes_per_second; }

 private:
  static double others(int n) { return static_cast<double>(n - 1) / n; }

  const PlanRequest& r_;
  const int ranks_;
  bool inside_ = false;
  int of_host_ = 0;
  double sent_inside_ = 0.0, sent_outside_ = 0.0;
};

// How long the bytes of the data axes need.
double data_seconds(const PlanRequest& r, const Strategy& s) {
  if (s.data() == 1) return 0.0;
  const double elements = parameters(r, s, 0);
  const double m = s.pipe == 1 ? static_cast<double>(s.micro_batches) : 1.0;
  const bool hybrid = s.sharding == PlanSharding::hybrid;
  DataAxis data(r, hybrid ? s.shard : s.data(), s.tensor);
  DataAxis replicas(r, hybrid ? s.replicate : 1, s.tensor * s.shard);
  switch (s.sharding) {
    case PlanSharding::ddp:
      data.all_reduce(elements);
      break;
    case PlanSharding::zero1:
      data.reduce_scatter(elements);
      data.gather(elements);
      break;
    case PlanSharding::zero2:
      data.reduce_scatter(m * elements);
      data.gather(elements);
      break;
    case PlanSharding::fsdp:
    case PlanSharding::hybrid:
      data.gather(fsdp_elements(r, s).gathered);
      data.reduce_scatter(fsdp_elements(r, s).reduced);
      if (hybrid) replicas.all_reduce(elements / s.shard);
      break;
  }
  return std::max(data.inside_seconds() + replicas.inside_seconds(),
                  data.outside_seconds() + replicas.outside_seconds());
}

// Of a step's forwards and backwards.
double flops_of(const PlanRequest& r, const Sizes& size) {
  if (r.own) {
    const PlanModelSizes& own = r.own->sizes();
    return 3 * static_cast<double>(r.global_batch) *
           (own.first.all_flops() + static_cast<double>(own.blocks) * own.block.all_flops() +
            own.last.all_flops());
  }
  const double layers = static_cast<double>(r.model.n_layer);
  return 3 * static_cast<double>(r.global_batch) *
         (layers * (size.block_products() + size.block_attention()) + size.head_products());
}

}  // namespace

int64_t host_bound(const PlanRequest& request, const Strategy& strategy) {
  const PerParameter bytes = per_parameter(request, strategy);
  return static_cast<int64_t>((bytes.all - bytes.on_disk) * stepped_on_host(request, strategy));
}

int64_t disk_bound(const PlanRequest& request, const Strategy& strategy) {
  return static_cast<int64_t>(per_parameter(request, strategy).on_disk *
                              stepped_on_host(request, strategy));
}

int64_t host_share(const PlanRequest& request) {
  return request.cluster.host_memory / std::min(request.cluster.per_host, request.ranks);
}

int64_t disk_share(const PlanRequest& request) {
  return request.cluster.disk / std::min(request.cluster.per_host, request.ranks);
}

int64_t memory_bound(const PlanRequest& request, const Strategy& strategy) {
  return static_cast<int64_t>(std::max(stage_bytes(request, strategy, 0),
                                       stage_bytes(request, strategy, strategy.pipe - 1)));
}

double seconds_bound(const PlanRequest& request, const Strategy& strategy) {
  return std::max(pass_seconds(request, strategy) + host_seconds(request, strategy),
                  data_seconds(request, strategy));
}

double model_flops(const PlanRequest& request) { return flops_of(request, Sizes(request.model)); }

double hardware_flops(const PlanRequest& request, const Strategy& strategy) {
  const Sizes size(request.model, strategy.tensor);
  if (!strategy.checkpoint) return flops_of(request, size);
  const double blocks =
      static_cast<double>(request.global_batch) * static_cast<double>(blocks_of(request));
  const double block = request.own ? request.own->sizes().block.all_flops()
                                   : size.block_products() + size.block_attention();
  return flops_of(request, size) + blocks * block;
}

}  // namespace hero::dist
