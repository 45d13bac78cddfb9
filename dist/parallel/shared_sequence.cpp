#include <utility>

#include <hero/autograd/ops/collectives.h>
#include <hero/autograd/ops/elementwise/elementwise.h>
#include <hero/autograd/ops/nn/nn.h>
#include <hero/autograd/ops/shape/shape.h>
#include <hero/autograd/sharding/partition.h>
#include <hero/core/error.h>
#include <hero/dist/parallel/same_inputs.h>
#include <hero/dist/parallel/shared_sequence.h>
#include <hero/dist/parallel/shown_slots.h>
#include <hero/nn/hooks.h>

namespace hero::dist {
namespace {

constexpr int kTimeDim = 2;  // of queries, keys and values

// One rank as a group of its own, so that sums over its slices need no communication.
class Alone : public RankGroup {
 public:
  void add_up(const Array&) override {}
  void largest(const Array&) override {}
  int rank() const override { return 0; }
  int size() const override { return 1; }
};

Tensor run_of(const Tensor& x, int64_t dim, int64_t run, int64_t length) {
  return x.slice(static_cast<int>(dim), run * length, (run + 1) * length);
}

}  // namespace

SharedSequence::SharedSequence(const Communicator& group, int slice_count)
    : group_(group),
      rank_group_(std::make_shared<CommunicatorGroup>(group)),
      alone_(std::make_shared<Alone>()),
      slice_count_(slice_count) {}

Tensor SharedSequence::take(const Tensor& x, int64_t dim) const {
  declare_same(group_, "context_parallel", x);
  return part_of(x, dim);
}

Tensor SharedSequence::part_of(const Tensor& x, int64_t dim) const {
  const int64_t T = x.size(dim), runs = 2 * slice_count_;
  if (slice_count_ == 1) return x;
  check(T > 0 && T % runs == 0, "context_parallel: the ", T, " positions of ", x.shape(),
        " are no multiple of ", runs, ", twice the ", slice_count_, " slices; pad the sequence");
  std::vector<Tensor> mine;
  for (int64_t i = group_.rank() * slices(); i < (group_.rank() + 1) * slices(); ++i) {
    mine.push_back(run_of(x, dim, i, T / runs));
    mine.push_back(run_of(x, dim, runs - 1 - i, T / runs));
  }
  return cat(mine, dim);
}

int64_t SharedSequence::run_length(int64_t T) const {
  const int64_t runs = 2 * slices();
  check(T > 0 && T % runs == 0, "context_parallel: ", T,
        " positions on this rank are no multiple of ", runs,
        "; give the model this rank's positions of a whole sequence, as take() cuts it");
  return T / runs;
}

std::vector<int64_t> SharedSequence::begins(int64_t T) const {
  const int64_t length = run_length(T);
  std::vector<int64_t> all;
  for (int64_t i = group_.rank() * slices(); i < (group_.rank() + 1) * slices(); ++i) {
    all.push_back(i * length);
    all.push_back((2 * slice_count_ - 1 - i) * length);
  }
  return all;
}

Tensor SharedSequence::in_order(const Tensor& x, int dim) const {
  if (slice_count_ == 1) return x;
  Shape pairs, half = x.shape();
  for (int d = 0; d < x.ndim(); ++d) {
    if (d != dim) {
      pairs.push_back(x.size(d));
      continue;
    }
    for (const int64_t size : {int64_t{slice_count_}, int64_t{2}, x.size(d) / (2 * slice_count_)}) {
      pairs.push_back(size);
    }
  }
  half[dim] = x.size(dim) / 2;
  const Tensor runs = x.reshape(pairs);
  const Tensor first = runs.select(dim + 1, 0).reshape(half);
  const Tensor last = flip(runs.select(dim + 1, 1), {dim}).reshape(half);
  return cat({first, last}, dim);
}

// Keys and values travel together. Each run of queries is an attention of its own, to the keys
// before and in it.
Tensor SharedSequence::attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                 const AttentionOptions& options) const {
  check(k.shape() == v.shape() && q.size(kTimeDim) == k.size(kTimeDim),
        "context_parallel: q, k and v have other positions or sizes: ", q.shape(), ", ", k.shape(),
        ", ", v.shape());
  if (nn::WithoutHooks::active()) return q;  // asked for its shape alone, without the other ranks
  const int64_t length = run_length(k.size(kTimeDim)), groups = k.size(1);
  const std::vector<Tensor> all =
      collectives::gather_in(cat({k, v}, 1), kTimeDim, rank_group_, slices());
  const std::vector<int64_t> begins = this->begins(k.size(kTimeDim));
  std::vector<Tensor> heads;
  Tensor whole;  // keys and values of one slice, of which both of its runs save views
  for (size_t run = 0; run < begins.size(); ++run) {
    if (run % 2 == 0) whole = in_order(all[run / 2], kTimeDim);
    const int64_t end = options.is_causal ? begins[run] + length : whole.size(kTimeDim);
    const Tensor keys = whole.slice(kTimeDim, 0, end);
    AttentionOptions of_run = options;
    of_run.first_query = options.is_causal ? begins[run] : 0;
    const Tensor y =
        scaled_dot_product_attention(run_of(q, kTimeDim, static_cast<int64_t>(run), length),
                                     keys.slice(1, 0, groups), keys.slice(1, groups), of_run);
    heads.push_back(transpose(y, 1, kTimeDim));  // as it lies in memory
  }
  return transpose(cat(heads, 1), 1, kTimeDim);
}

std::vector<Tensor> SharedSequence::copies(const Tensor& parameter) const {
  if (slices() == 1) return {parameter};
  if (const auto kept = kept_.lock(); kept && is_same(kept->parameter, parameter)) {
    return kept->copies;
  }
  return collectives::copy_in(parameter, alone_, slices());
}

std::shared_ptr<void> SharedSequence::keep_copies(const Tensor& parameter) const {
  const auto kept = std::make_shared<Kept>(Kept{parameter, copies(parameter)});
  kept_ = kept;
  return kept;
}

Tensor SharedSequence::mean(const std::vector<Tensor>& sums, const Tensor& count) const {
  // The mean over the ranks divides by their number again.
  std::vector<Tensor> shares;
  for (const Tensor& each : sums) {
    const Tensor wide = to(each, each.dtype() == kFloat64 ? kFloat64 : kFloat32);
    shares.push_back(wide * (static_cast<double>(group_.size()) / to(count, wide.dtype())));
  }
  return to(collectives::mean_out(shares, rank_group_), sums[0].dtype());
}

namespace {

nn::Tensors run_in_slices(nn::Module& module, const SharedSequence& sequence, const nn::Tensors& in,
                          const nn::Forward& forward) {
  std::vector<std::pair<nn::Slot*, std::vector<Tensor>>> copies;
  for (const auto& [name, slot] : module.slots()) {
    const Partition* const part = partition(slot->tensor);
    check(part == nullptr || slot->tensor.shape() == part->whole,
          "context_parallel: with more slices than ranks, ", module.type_name(),
          " computes with its whole '", name,
          "' once for each slice, and that is in a unit of its own, not yet gathered; make units "
          "of whole blocks, such as each<nn::Block>(), or set slices to 0");
    if (slot->tensor.defined()) copies.emplace_back(slot, sequence.copies(slot->tensor));
  }
  const auto slices = static_cast<size_t>(sequence.slices());
  std::vector<nn::Tensors> inputs(slices), outputs;
  for (const Tensor& x : in) {
    const std::vector<Tensor> parts = nn::slices_of(sequence, x, 1);
    for (size_t i = 0; i < slices; ++i) inputs[i].push_back(parts[i]);
  }
  for (size_t i = 0; i < slices; ++i) {
    ShownSlots shown;
    for (const auto& [slot, each] : copies) shown.show(slot, each[i]);
    const nn::Tensors out = forward(inputs[i]);
    outputs.resize(out.size());
    for (size_t o = 0; o < out.size(); ++o) outputs[o].push_back(out[o]);
  }
  nn::Tensors joined;
  for (const nn::Tensors& parts : outputs) joined.push_back(cat(parts, 1));
  return joined;
}

}  // namespace

void compute_in_slices(nn::Module& module, const std::shared_ptr<const SharedSequence>& sequence) {
  module.register_forward_wrapper(
      [sequence](nn::Module& called, const nn::Tensors& in, const nn::Forward& forward) {
        return run_in_slices(called, *sequence, in, forward);
      },
      {.for_parameters = true});
}

}  // namespace hero::dist
