// Further functions that join and split (hstack(), tensor_split(), ..), repeats, rotations,
// diagonals.
#include <hero/autograd/ops/creation/creation.h>
#include <hero/autograd/ops/detail/defined.h>
#include <hero/autograd/ops/detail/named.h>
#include <hero/autograd/ops/detail/place.h>
#include <hero/autograd/ops/elementwise/elementwise.h>
#include <hero/autograd/ops/index/index.h>
#include <hero/autograd/ops/reduce/reduce.h>
#include <hero/autograd/ops/shape/shape.h>
#include <hero/core/device/backend.h>
#include <hero/core/device/kernel_traits.h>
#include <hero/core/functions/indexing.h>
#include <hero/core/memory/allocator.h>

namespace hero {

namespace {

// x's last dimension on the diagonals of its last two.
struct DiagonalMatrices : Op {
  static constexpr AutocastRule kAutocast = AutocastRule::fallthrough;
  int64_t offset;
  explicit DiagonalMatrices(int64_t o) : offset(o) {}
  const char* name() const override { return "diag_embed"; }
  Array forward(const Array& x) {
    Shape shape = x.shape();
    const int64_t n = shape.back() + (offset < 0 ? -offset : offset);
    shape.back() = n;
    shape.push_back(n);
    const Array out = Array::zeros(shape, x.dtype(), x.device());
    core::backend(x.device()).run(core::call::Copy{x, out.diagonal(offset, -2, -1)});
    return out;
  }
  Grads backward(const Tensor& g) override { return {diagonal(g, offset, -2, -1)}; }
};

std::vector<Tensor> each(const std::vector<Tensor>& tensors, Tensor (*f)(const Tensor&)) {
  std::vector<Tensor> result;
  for (const Tensor& tensor : tensors) result.push_back(f(tensor));
  return result;
}

std::vector<Tensor> even_split(const char* op, const Tensor& x, int64_t sections, int64_t dim) {
  check(sections > 0 && x.size(dim) % sections == 0, op, ": ", sections,
        " sections do not divide dim ", dim, " of shape ", x.shape());
  return tensor_split(x, sections, dim);
}

// The positions 0 .. count - 1, each as often as repeats says.
Tensor repeated_positions(const Tensor& repeats, int64_t count) {
  check(repeats.dtype() == kInt64 || repeats.dtype() == kInt32, "repeat_interleave: repeats are ",
        repeats.dtype(), "; they must be int64 or int32");
  check(repeats.ndim() <= 1 && (repeats.numel() == 1 || repeats.numel() == count),
        "repeat_interleave: repeats of shape ", repeats.shape(), " for ", count, " elements");
  const Tensor times = repeats.detach().to(kInt64).reshape({-1}).expand({count});
  const int64_t least = count == 0 ? 0 : min(times).item<int64_t>();
  check(least >= 0, "repeat_interleave: repeats must not be negative: got ", least);
  const int64_t total = count == 0 ? 0 : sum(times).item<int64_t>();
  // A one where an element begins, and the running sum tells which element a place belongs to.
  const Tensor ends = cumsum(times, 0);
  const Tensor inner = ends < total;
  const Tensor ones_there = masked_select(ones_like(ends), inner);
  const Tensor marks = scatter_add(zeros({total}, {.dtype = kInt64, .device = repeats.device()}), 0,
                                   masked_select(ends, inner), ones_there);
  return cumsum(marks, 0);
}

}  // namespace

Tensor hstack(const std::vector<Tensor>& tensors) {
  const detail::Named named("hstack");
  detail::check_defined("hstack", tensors);
  const std::vector<Tensor> parts = each(tensors, atleast_1d);
  return cat(parts, !parts.empty() && parts[0].ndim() == 1 ? 0 : 1);
}
Tensor vstack(const std::vector<Tensor>& tensors) {
  const detail::Named named("vstack");
  detail::check_defined("vstack", tensors);
  return cat(each(tensors, atleast_2d), 0);
}
Tensor dstack(const std::vector<Tensor>& tensors) {
  const detail::Named named("dstack");
  detail::check_defined("dstack", tensors);
  return cat(each(tensors, atleast_3d), 2);
}
Tensor column_stack(const std::vector<Tensor>& tensors) {
  const detail::Named named("column_stack");
  detail::check_defined("column_stack", tensors);
  return cat(each(tensors,
                  [](const Tensor& x) {
                    return x.ndim() > 1 ? x : reshape(x, {x.numel(), 1});
                  }),
             1);
}

std::vector<Tensor> tensor_split(const Tensor& x, int64_t sections, int64_t dim) {
  const detail::Named named("tensor_split", {"x", x});
  detail::check_defined("tensor_split", {{"x", x}});
  check(x.ndim() > 0, "tensor_split: a single number has nothing to split");
  check(sections > 0, "tensor_split: ", sections, " sections; there must be one at least");
  const int axis = normalize_dim("tensor_split", dim, x.ndim());
  core::check_room("tensor_split", sections);
  const int64_t least = x.size(axis) / sections, more = x.size(axis) % sections;
  std::vector<Tensor> parts;
  for (int64_t i = 0, at = 0; i < sections; ++i) {
    const int64_t size = least + (i < more ? 1 : 0);
    parts.push_back(slice(x, axis, at, at + size));
    at += size;
  }
  return parts;
}

std::vector<Tensor> tensor_split(const Tensor& x, const std::vector<int64_t>& indices,
                                 int64_t dim) {
  const detail::Named named("tensor_split", {"x", x});
  detail::check_defined("tensor_split", {{"x", x}});
  check(x.ndim() > 0, "tensor_split: a single number has nothing to split");
  std::vector<Tensor> parts;
  int64_t from = 0;
  for (int64_t index : indices) {
    parts.push_back(slice(x, dim, from, index));
    from = index;
  }
  parts.push_back(slice(x, dim, from));
  return parts;
}

std::vector<Tensor> tensor_split(const Tensor& x, const Tensor& indices_or_sections, int64_t dim) {
  const Tensor& how = indices_or_sections;
  const detail::Named named("tensor_split", {"x", x}, {"indices_or_sections", how});
  detail::check_defined("tensor_split", {{"x", x}, {"indices_or_sections", how}});
  check(how.ndim() <= 1 && (how.dtype() == kInt64 || how.dtype() == kInt32),
        "tensor_split: indices_or_sections are ", how.dtype(), " ", how.shape(),
        "; they must be integers, one or a vector");
  check(core::is_host_memory(how.device()), "tensor_split: indices_or_sections are on ",
        how.device(), "; the sizes of the parts must be known on the cpu");
  if (how.ndim() == 0) return tensor_split(x, how.item<int64_t>(), dim);
  return tensor_split(x, how.to(kInt64).to_vector<int64_t>(), dim);
}

namespace {

// Where hsplit, vsplit and dsplit cut.
int axis_of(const char* op, const Tensor& x, int dim) {
  detail::check_defined(op, {{"x", x}});
  const int least = dim == 1 ? 1 : (dim == 0 ? 2 : 3);  // a vector is a row
  check(x.ndim() >= least, op, ": needs ", least, " dimensions or more: got shape ", x.shape());
  return std::min(dim, x.ndim() - 1);
}

}  // namespace

std::vector<Tensor> hsplit(const Tensor& x, int64_t sections) {
  return even_split("hsplit", x, sections, axis_of("hsplit", x, 1));
}
std::vector<Tensor> hsplit(const Tensor& x, const std::vector<int64_t>& indices) {
  return tensor_split(x, indices, axis_of("hsplit", x, 1));
}
std::vector<Tensor> vsplit(const Tensor& x, int64_t sections) {
  return even_split("vsplit", x, sections, axis_of("vsplit", x, 0));
}
std::vector<Tensor> vsplit(const Tensor& x, const std::vector<int64_t>& indices) {
  return tensor_split(x, indices, axis_of("vsplit", x, 0));
}
std::vector<Tensor> dsplit(const Tensor& x, int64_t sections) {
  return even_split("dsplit", x, sections, axis_of("dsplit", x, 2));
}
std::vector<Tensor> dsplit(const Tensor& x, const std::vector<int64_t>& indices) {
  return tensor_split(x, indices, axis_of("dsplit", x, 2));
}

Tensor tile(const Tensor& x, const Dims& repeats) {
  const detail::Named named("tile", {"x", x});
  detail::check_defined("tile", {{"x", x}});
  Dims all = Dims::filled(std::max(0, x.ndim() - repeats.size()), 1);
  for (int64_t times : repeats) all.push_back(times);
  return repeat(x, all);
}
Tensor fliplr(const Tensor& x) {
  detail::check_defined("fliplr", {{"x", x}});
  check(x.ndim() >= 2, "fliplr: needs 2 dimensions: got shape ", x.shape());
  return flip(x, {1});
}
Tensor flipud(const Tensor& x) {
  detail::check_defined("flipud", {{"x", x}});
  check(x.ndim() >= 1, "flipud: needs a dimension: got shape ", x.shape());
  return flip(x, {0});
}
Tensor rot90(const Tensor& x, int64_t k, const Dims& dims) {
  detail::check_defined("rot90", {{"x", x}});
  check(dims.size() == 2, "rot90: needs two dims: got ", dims);
  const Dims plane = detail::counted_dims("rot90", dims, x.ndim());
  const int64_t turns = ((k % 4) + 4) % 4;
  if (turns == 0) return clone(x);
  if (turns == 2) return flip(x, plane);
  if (turns == 1) return transpose(flip(x, {plane[1]}), plane[0], plane[1]);
  return transpose(flip(x, {plane[0]}), plane[0], plane[1]);
}

Tensor repeat_interleave(const Tensor& x, const Tensor& repeats, std::optional<int64_t> dim) {
  const detail::Named named("repeat_interleave", {"x", x}, {"repeats", repeats});
  detail::check_defined("repeat_interleave", {{"x", x}, {"repeats", repeats}});
  if (!dim) return repeat_interleave(ravel(x), repeats, 0);
  const Tensor source = atleast_1d(x);
  const int axis = normalize_dim("repeat_interleave", *dim, source.ndim());
  return index_select(source, axis, repeated_positions(repeats, source.size(axis)));
}
Tensor repeat_interleave(const Tensor& x, int64_t repeats) {
  detail::check_defined("repeat_interleave", {{"x", x}});
  return repeat_interleave(ravel(x), repeats, 0);
}

Tensor diag_embed(const Tensor& x, int64_t offset, int64_t dim1, int64_t dim2) {
  detail::check_defined("diag_embed", {{"x", x}});
  check(x.ndim() > 0, "diag_embed: a single number has no last dimension");
  const int first = normalize_dim("diag_embed", dim1, x.ndim() + 1);
  const int second = normalize_dim("diag_embed", dim2, x.ndim() + 1);
  check(first != second, "diag_embed: dims ", dim1, " and ", dim2, " are one");
  constexpr int64_t kMost = int64_t{1} << 31;
  check(offset > -kMost && offset < kMost, "diag_embed: offset ", offset, " is too large");
  const Tensor matrices = record(DiagonalMatrices(offset), x);
  return movedim(matrices, Dims{-2, -1}, Dims{first, second});
}
Tensor diagflat(const Tensor& x, int64_t offset) {
  const detail::Named named("diagflat", {"x", x});
  detail::check_defined("diagflat", {{"x", x}});
  return diag(ravel(x), offset);
}

Tensor block_diag(const std::vector<Tensor>& tensors) {
  detail::check_defined("block_diag", tensors);
  check(!tensors.empty(), "block_diag: no tensors");
  int64_t width = 0;
  for (const Tensor& tensor : tensors) {
    check(tensor.ndim() <= 2, "block_diag: needs at most 2 dimensions: got shape ", tensor.shape());
    width += atleast_2d(tensor).size(1);
  }
  std::vector<Tensor> bands;
  int64_t before = 0;
  for (const Tensor& tensor : tensors) {
    const Tensor block = atleast_2d(tensor);
    bands.push_back(pad(block, {before, width - before - block.size(1)}));
    before += block.size(1);
  }
  return cat(bands, 0);
}

Tensor trace(const Tensor& x) {
  detail::check_defined("trace", {{"x", x}});
  check(x.ndim() == 2, "trace: needs a matrix: got shape ", x.shape());
  return sum(diagonal(x));
}

}  // namespace hero
