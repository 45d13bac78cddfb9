// x({..}): first the indices that give views, from left to right, then those that are tensors; and
// writing to such elements.
#include <hero/autograd/ops/creation/creation.h>
#include <hero/autograd/ops/detail/defined.h>
#include <hero/autograd/ops/detail/in_place.h>
#include <hero/autograd/ops/detail/place.h>
#include <hero/autograd/ops/elementwise/elementwise.h>
#include <hero/autograd/ops/index/index.h>
#include <hero/autograd/ops/index/written.h>
#include <hero/autograd/ops/reduce/reduce.h>
#include <hero/autograd/ops/shape/shape.h>
#include <hero/core/array/promotion.h>
#include <hero/core/device/kernel_traits.h>

namespace hero {

namespace {

// Dimensions of x that an index takes.
int taken_dims(const Index& index) {
  if (const auto* tensor = std::get_if<Tensor>(&index.kind())) {
    return tensor->dtype() == kBool ? tensor->ndim() : 1;
  }
  const bool takes =
      std::holds_alternative<int64_t>(index.kind()) || std::holds_alternative<Slice>(index.kind());
  return takes ? 1 : 0;
}

// Elements start, start + step, ... as Python has them for a negative step.
Tensor backwards(const Tensor& x, int dim, const Slice& slice_of) {
  const int64_t size = x.size(dim), step = slice_of.step;
  check(step > std::numeric_limits<int64_t>::min(), "index: step ", step, " is too large");
  const auto bound = [size](const std::optional<int64_t>& at, int64_t absent) {
    if (!at) return absent;
    const int64_t counted = *at < 0 && *at >= -size ? *at + size : *at;
    return std::clamp<int64_t>(counted, -1, size - 1);
  };
  const int64_t first = bound(slice_of.start.at(), size - 1);
  const int64_t last = bound(slice_of.stop.at(), -1);
  if (first <= last) return slice(x, dim, 0, 0);
  // The lowest of them, then upwards, and turned round.
  const int64_t count = (first - last - 1) / -step + 1, lowest = first + (count - 1) * step;
  return flip(slice(x, dim, lowest, first + 1, -step), {dim});
}

// What is left to index by tensors: one a dimension.
struct Pending {
  Tensor x;
  std::vector<Tensor> tensors;
  Dims dims;
};

void add_tensor(Pending& pending, const Tensor& tensor, int dim) {
  if (tensor.dtype() != kBool) {
    pending.tensors.push_back(tensor);
    pending.dims.push_back(dim);
    return;
  }
  if (tensor.ndim() == 0) {
    pending.x = unsqueeze(pending.x, dim);
    add_tensor(pending, reshape(tensor, {1}), dim);
    return;
  }
  const Shape& shape = pending.x.shape();
  for (int i = 0; i < tensor.ndim(); ++i) {
    check(dim + i < shape.size() && shape[dim + i] == tensor.shape()[i], "index: a mask of shape ",
          tensor.shape(), " does not fit dim ", dim, " of an array of shape ", shape);
  }
  const Tensor places = nonzero(tensor);
  for (int i = 0; i < tensor.ndim(); ++i) {
    pending.tensors.push_back(select(places, 1, i));
    pending.dims.push_back(dim + i);
  }
}

// Views for all but tensors; gives back the dimensions of the result that each index makes.
int apply(Pending& pending, const Index& index, int dim, int rest) {
  const Index::Kind& kind = index.kind();
  if (const auto* position = std::get_if<int64_t>(&kind)) {
    pending.x = select(pending.x, dim, *position);
    return 0;
  }
  if (const auto* part = std::get_if<Slice>(&kind)) {
    check(part->step != 0, "index: the step of a slice is 0");
    pending.x = part->step < 0 ? backwards(pending.x, dim, *part)
                               : slice(pending.x, dim, part->start.at().value_or(0),
                                       part->stop.at().value_or(kEnd), part->step);
    return 1;
  }
  if (std::holds_alternative<NoneType>(kind)) {
    pending.x = unsqueeze(pending.x, dim);
    return 1;
  }
  if (std::holds_alternative<EllipsisType>(kind)) return rest;
  if (const auto* one = std::get_if<bool>(&kind)) {
    pending.x = unsqueeze(pending.x, dim);
    add_tensor(pending, tensor(std::vector<bool>{*one}).to(pending.x.device()), dim);
    return 1;
  }
  const auto& chosen = std::get<Tensor>(kind);
  if (chosen.ndim() == 0 && chosen.dtype() != kBool) {  // one number: a position, as in PyTorch
    check(chosen.dtype() == kInt64 || chosen.dtype() == kInt32, "index: a position is ",
          chosen.dtype(), "; indices are int64, int32 or bool (masks)");
    const bool planned = !core::has_values(chosen.device());
    pending.x = select(pending.x, dim, planned ? 0 : chosen.item<int64_t>());
    return 0;
  }
  const bool new_dim = chosen.dtype() == kBool && chosen.ndim() == 0;
  add_tensor(pending, chosen, dim);
  return new_dim || chosen.dtype() != kBool ? 1 : chosen.ndim();
}

// The indexed dimensions moved to the front, read, and their result moved to where they were.
Tensor read(const Pending& pending) {
  if (pending.tensors.empty()) return pending.x;
  const int count = pending.dims.size();
  bool neighbours = true;
  for (int i = 1; i < count; ++i) neighbours &= pending.dims[i] == pending.dims[i - 1] + 1;
  Dims front;
  for (int i = 0; i < count; ++i) front.push_back(i);
  const Tensor first = movedim(pending.x, pending.dims, front);
  const Tensor found = index(first, pending.tensors);
  if (!neighbours || pending.dims[0] == 0) return found;
  Dims from, to;
  for (int i = 0; i < found.ndim() - (first.ndim() - count); ++i) {
    from.push_back(i);
    to.push_back(pending.dims[0] + i);
  }
  return movedim(found, from, to);
}

Pending pending_of(const Tensor& x, std::span<const Index> indices) {
  detail::check_defined("index", {{"x", x}});
  int taken = 0, ellipses = 0;
  for (const Index& one : indices) {
    const auto* tensor = std::get_if<Tensor>(&one.kind());
    if (tensor != nullptr) detail::check_defined("index", {{"an index", *tensor}});
    taken += taken_dims(one);
    ellipses += std::holds_alternative<EllipsisType>(one.kind()) ? 1 : 0;
  }
  check(ellipses <= 1, "index: more than one Ellipsis");
  check(taken <= x.ndim(), "index: ", taken, " indices for an array of shape ", x.shape());
  Pending pending{x, {}, {}};
  int dim = 0;
  for (const Index& one : indices) dim += apply(pending, one, dim, x.ndim() - taken);
  return pending;
}

Tensor indexed(const Tensor& x, std::span<const Index> indices) {
  return read(pending_of(x, indices));
}

// Writes to the memory of x without a list of all its places, where tensors index the first
// dimensions of a part that is contiguous; false where it does not, and has written nothing.
bool put_there(const Tensor& x, std::span<const Index> indices, const Tensor& values,
               bool accumulate) {
  if (!x.defined() || !values.defined() || values.dtype() != x.dtype()) return false;
  const Pending pending = pending_of(x, indices);
  bool leads = !pending.tensors.empty() && pending.x.is_contiguous() &&
               pending.x.array().storage_ref() == x.array().storage_ref();
  for (int i = 0; leads && i < pending.dims.size(); ++i) leads = pending.dims[i] == i;
  if (leads) {
    detail::index_put(detail::Into::memory, pending.x, pending.tensors, values, accumulate);
  }
  return leads;
}

Tensor filling(const Tensor& x, const Scalar& value) {
  check(fits(value, x.dtype()), "index_put: ", value, " does not fit ", x.dtype());
  return full({}, value, {.dtype = x.dtype(), .device = x.device()});
}

}  // namespace

Tensor Tensor::operator()(std::initializer_list<Index> indices) const {
  return indexed(*this, std::span<const Index>(indices.begin(), indices.size()));
}

Tensor Tensor::index_put(std::initializer_list<Index> indices, const Tensor& values,
                         bool accumulate) const {
  const Tensor& x = *this;
  detail::check_defined("index_put", {{"x", x}, {"values", values}});
  check(values.dtype() == x.dtype(), "index_put: values are ", values.dtype(), ", array is ",
        x.dtype(), "; convert with to()");
  // What reads the elements finds their places, too.
  const Tensor all = hero::reshape(Tensor(detail::positions(x.numel(), x.device())), x.shape());
  const Tensor places = all(indices);
  check(broadcast_shapes("index_put", values.shape(), places.shape()) == places.shape(),
        "index_put: values of shape ", values.shape(), " do not broadcast to the indexed ",
        places.shape());
  return hero::put(x, places, hero::expand(values, places.shape()), accumulate);
}

Tensor Tensor::index_put(std::initializer_list<Index> indices, Scalar value,
                         bool accumulate) const {
  detail::check_defined("index_put", {{"x", *this}});
  return index_put(indices, filling(*this, value), accumulate);
}

const Tensor& Tensor::index_put_(std::initializer_list<Index> indices, const Tensor& values,
                                 bool accumulate) const {
  return detail::write_into(
      "index_put_", *this, detail::wants("index_put_", values), [&](detail::Into into) {
        const bool put = into == detail::Into::memory &&
                         put_there(*this, {indices.begin(), indices.size()}, values, accumulate);
        return put ? *this : index_put(indices, values, accumulate);
      });
}

const Tensor& Tensor::index_put_(std::initializer_list<Index> indices, Scalar value,
                                 bool accumulate) const {
  detail::check_defined("index_put_", {{"x", *this}});
  return index_put_(indices, filling(*this, value), accumulate);
}

Tensor Tensor::operator[](const Tensor& positions_or_mask) const {
  const Index only(positions_or_mask);
  return indexed(*this, std::span<const Index>(&only, 1));
}

}  // namespace hero
