#include <hero/autograd/graph/op.h>
#include <hero/autograd/ops/collectives.h>
#include <hero/autograd/ops/elementwise/elementwise.h>
#include <hero/autograd/ops/index/index.h>
#include <hero/autograd/ops/shape/shape.h>
#include <hero/core/device/backend.h>
#include <hero/core/functions/map.h>

namespace hero::collectives {

namespace {

namespace k = core::kernels;

Array tree(std::span<const Array> parts) {
  if (parts.size() == 1) return parts[0];
  size_t half = 1;
  while (2 * half < parts.size()) half *= 2;
  return core::map<k::Add>(tree(parts.first(half)), tree(parts.subspan(half)));
}

// The sum of this rank's summands, in memory of its own: in float32 for several halves.
Array local_sum(const char* op, std::span<const Array> summands) {
  check(!summands.empty(), op, ": there is nothing to add up");
  if (summands.size() == 1) return summands[0].clone();
  std::vector<Array> wide;
  for (const Array& x : summands) {
    check(x.shape() == summands[0].shape() && x.dtype() == summands[0].dtype(), op,
          ": summands differ: ", summands[0].dtype(), " ", summands[0].shape(), " and ", x.dtype(),
          " ", x.shape());
    wide.push_back(is_half(x.dtype()) ? x.to(kFloat32) : x);
  }
  return tree(wide);
}

// And of all ranks' summands.
Array sum_of_ranks(const char* op, std::span<const Array> summands, const Group& group) {
  const Array sum = local_sum(op, summands);
  if (group->size() > 1) group->all_reduce(sum, op);
  return sum;
}

// size() parts of x along dim, one behind the other.
Array as_parts(const Array& x, int dim, int ranks) {
  if (dim == 0) return x.contiguous();
  Shape shape = x.shape();
  shape[dim] /= ranks;
  const int64_t size = shape[dim];
  const Array parts = Array::empty({ranks, shape.numel()}, x.dtype(), x.device());
  for (int r = 0; r < ranks; ++r) {
    core::backend(x.device())
        .run(core::call::Copy{x.slice(dim, r * size, (r + 1) * size),
                              parts.select(0, r).reshape(shape)});
  }
  return parts;
}

Array gathered(const char* op, const Array& x, int dim, RankGroup& group) {
  const int ranks = group.size();
  if (ranks == 1) return x;
  Shape shape = x.shape();
  const int64_t size = shape[dim];
  shape[dim] *= ranks;
  const Array parts = Array::empty({ranks, x.numel()}, x.dtype(), x.device());
  group.all_gather(parts, x.contiguous(), op);
  if (dim == 0) return parts.reshape(shape);
  const Array whole = Array::empty(shape, x.dtype(), x.device());
  for (int r = 0; r < ranks; ++r) {
    core::backend(x.device())
        .run(core::call::Copy{parts.select(0, r).reshape(x.shape()),
                              whole.slice(dim, r * size, (r + 1) * size)});
  }
  return whole;
}

// The gradients of all outputs; zeros where none came, as the other ranks wait for all.
std::vector<Tensor> all_of(const detail::Node& node, const Grads& grads) {
  std::vector<Tensor> list;
  for (int i = 0; i < node.output_count(); ++i) {
    const detail::GradSpec& spec = node.output_spec(i);
    const bool any = i < grads.size() && grads[i].defined();
    list.push_back(any ? grads[i] : Tensor(Array::zeros(spec.shape, spec.dtype, spec.device)));
  }
  return list;
}

Grads as_grads(const std::vector<Tensor>& list) {
  Grads grads;
  for (const Tensor& tensor : list) grads.push_back(tensor);
  return grads;
}

struct CopyIn : MultiOp {
  static constexpr AutocastRule kAutocast = AutocastRule::fallthrough;
  Group group;
  int copies;
  CopyIn(Group g, int n) : group(std::move(g)), copies(n) {}
  const char* name() const override { return "copy_in"; }
  int viewed_input(int) const override { return 0; }
  std::vector<Array> forward(const Array& x) {
    return std::vector<Array>(static_cast<size_t>(copies), x);
  }
  Grads backward(const Grads& grads) override { return {sum_out(all_of(*this, grads), group)}; }
};

struct SumOut : Op {
  static constexpr AutocastRule kAutocast = AutocastRule::fallthrough;
  Group group;
  explicit SumOut(Group g) : group(std::move(g)) {}
  const char* name() const override { return "sum_out"; }
  Array forward(std::span<const Array> summands) {
    return sum_of_ranks(name(), summands, group).to(summands[0].dtype());
  }
  Grads backward(const Tensor& g) override { return as_grads(copy_in(g, group, input_count())); }
};

struct MeanOut : Op {
  static constexpr AutocastRule kAutocast = AutocastRule::fallthrough;
  Group group;
  explicit MeanOut(Group g) : group(std::move(g)) {}
  const char* name() const override { return "mean_out"; }
  Array forward(std::span<const Array> summands) {
    const Array sum = sum_of_ranks(name(), summands, group);
    const Array mean = core::map<k::Div>(sum, Scalar(group->size()));
    return mean.to(summands[0].dtype());
  }
  Grads backward(const Tensor& g) override {
    return as_grads(std::vector<Tensor>(static_cast<size_t>(input_count()), g));
  }
};

struct Gather : Op {
  static constexpr AutocastRule kAutocast = AutocastRule::fallthrough;
  Group group;
  int dim;
  Gather(Group g, int d) : group(std::move(g)), dim(d) {}
  const char* name() const override { return "gather"; }
  int viewed_input(int) const override { return group->size() == 1 ? 0 : -1; }
  Array forward(const Array& x) { return gathered(name(), x, dim, *group); }
  Grads backward(const Tensor& g) override { return {split(g, dim, group)}; }
};

struct Split : Op {
  static constexpr AutocastRule kAutocast = AutocastRule::fallthrough;
  Group group;
  int dim;
  Split(Group g, int d) : group(std::move(g)), dim(d) {}
  const char* name() const override { return "split"; }
  int viewed_input(int) const override { return 0; }
  Array forward(const Array& x) {
    const int64_t size = x.size(dim) / group->size();
    return x.slice(dim, group->rank() * size, (group->rank() + 1) * size);
  }
  Grads backward(const Tensor& g) override { return {gather(g, dim, group)}; }
};

struct GatherIn : MultiOp {
  static constexpr AutocastRule kAutocast = AutocastRule::fallthrough;
  Group group;
  int dim, copies;
  GatherIn(Group g, int d, int n) : group(std::move(g)), dim(d), copies(n) {}
  const char* name() const override { return "gather_in"; }
  int viewed_input(int) const override { return group->size() == 1 ? 0 : -1; }
  std::vector<Array> forward(const Array& x) {
    return std::vector<Array>(static_cast<size_t>(copies), gathered(name(), x, dim, *group));
  }
  Grads backward(const Grads& grads) override {
    return {scatter_out(all_of(*this, grads), dim, group)};
  }
};

struct ScatterOut : Op {
  static constexpr AutocastRule kAutocast = AutocastRule::fallthrough;
  Group group;
  int dim;
  ScatterOut(Group g, int d) : group(std::move(g)), dim(d) {}
  const char* name() const override { return "scatter_out"; }
  Array forward(std::span<const Array> summands) {
    const Array sum = local_sum(name(), summands);
    const int ranks = group->size();
    if (ranks == 1) return sum.to(summands[0].dtype());
    Shape shape = sum.shape();
    shape[dim] /= ranks;
    const Array part = Array::empty(shape, sum.dtype(), sum.device());
    group->reduce_scatter(part, as_parts(sum, dim, ranks), name());
    return part.to(summands[0].dtype());
  }
  Grads backward(const Tensor& g) override {
    return as_grads(gather_in(g, dim, group, input_count()));
  }
};

void check_group(const char* op, const Group& group) {
  check(static_cast<bool>(group), op, ": there is no group of ranks");
}

int checked_dim(const char* op, const Tensor& x, int64_t dim, const Group& group, bool cuts) {
  check_group(op, group);
  const int axis = normalize_dim(op, dim, x.ndim());
  check(!cuts || x.size(axis) % group->size() == 0, op, ": ", group->size(),
        " ranks do not divide dim ", axis, " of shape ", x.shape());
  return axis;
}

}  // namespace

std::vector<Tensor> copy_in(const Tensor& x, const Group& group, int copies) {
  check_group("copy_in", group);
  check(copies > 0, "copy_in: the number of copies must be positive: ", copies);
  return record_multi(CopyIn(group, copies), x);
}
Tensor copy_in(const Tensor& x, const Group& group) { return copy_in(x, group, 1)[0]; }

Tensor sum_out(const std::vector<Tensor>& summands, const Group& group) {
  check_group("sum_out", group);
  return record_list(SumOut(group), summands);
}
Tensor sum_out(const Tensor& summand, const Group& group) {
  return sum_out(std::vector<Tensor>{summand}, group);
}

Tensor mean_out(const std::vector<Tensor>& summands, const Group& group) {
  check_group("mean_out", group);
  return record_list(MeanOut(group), summands);
}

Tensor gather(const Tensor& x, int64_t dim, const Group& group) {
  return record(Gather(group, checked_dim("gather", x, dim, group, false)), x);
}
Tensor split(const Tensor& x, int64_t dim, const Group& group) {
  return record(Split(group, checked_dim("split", x, dim, group, true)), x);
}

std::vector<Tensor> gather_in(const Tensor& x, int64_t dim, const Group& group, int copies) {
  check(copies > 0, "gather_in: the number of copies must be positive: ", copies);
  return record_multi(GatherIn(group, checked_dim("gather_in", x, dim, group, false), copies), x);
}
Tensor scatter_out(const std::vector<Tensor>& summands, int64_t dim, const Group& group) {
  check(!summands.empty(), "scatter_out: there is nothing to add up");
  return record_list(ScatterOut(group, checked_dim("scatter_out", summands[0], dim, group, true)),
                     summands);
}

}  // namespace hero::collectives
