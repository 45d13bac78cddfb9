// Reading and writing at positions, composed of gather(), scatter() and index_select().
#include <hero/autograd/ops/autocast.h>
#include <hero/autograd/ops/creation/creation.h>
#include <hero/autograd/ops/detail/defined.h>
#include <hero/autograd/ops/detail/named.h>
#include <hero/autograd/ops/detail/place.h>
#include <hero/autograd/ops/elementwise/elementwise.h>
#include <hero/autograd/ops/index/index.h>
#include <hero/autograd/ops/index/written.h>
#include <hero/autograd/ops/reduce/reduce.h>
#include <hero/autograd/ops/shape/shape.h>
#include <hero/core/array/promotion.h>
#include <hero/core/device/backend.h>
#include <hero/core/device/kernel_traits.h>

namespace hero {

Tensor detail::counted_positions(const Tensor& index, int64_t size) {
  return where(logical_and(index < 0, index >= -size), index + size, index);
}

namespace {

Tensor as_index(const char* op, const Tensor& index) {
  check(index.dtype() == kInt64 || index.dtype() == kInt32, op, ": the index is ", index.dtype(),
        "; it must be int64 or int32");
  return index.detach().to(kInt64);
}

void check_vector(const char* op, const Tensor& index) {
  check(index.ndim() <= 1, op, ": the index must be a vector: got shape ", index.shape());
}

Tensor counted(const char* op, const Tensor& index, int64_t size) {
  return detail::counted_positions(as_index(op, index), size);
}

// What is written to and what is written, which are of one dtype: under Autocast the wider one.
struct Written {
  Tensor x, src;
};
Written of_one_dtype(const char* op, const Tensor& x, const Tensor& src) {
  if (const AutocastInputs in(AutocastRule::promote, x, src); in.changed()) return {in[0], in[1]};
  check(x.dtype() == src.dtype(), op, ": src is ", src.dtype(), ", x is ", x.dtype(),
        "; convert with to()");
  return {x, src};
}

void check_enough(const Tensor& src, int64_t places) {
  check(src.numel() >= places, "masked_scatter: src has ", src.numel(), " elements for ", places,
        " places");
}

// x with `src` where a view of it lies; `view` gives that view.
template <class View>
Tensor replaced(const char* op, const Tensor& given_x, const Tensor& given_src, View&& view) {
  const auto [x, src] = of_one_dtype(op, given_x, given_src);
  const Tensor places = view(reshape(Tensor(detail::positions(x.numel(), x.device())), x.shape()));
  check(places.shape() == src.shape(), op, ": src of shape ", src.shape(), " does not fit into ",
        places.shape());
  return reshape(scatter(ravel(x), 0, ravel(places), ravel(src)), x.shape());
}

}  // namespace

Tensor take(const Tensor& x, const Tensor& index) {
  const detail::Named named("take", {"x", x}, {"index", index});
  detail::check_defined("take", {{"x", x}, {"index", index}});
  const Tensor flat = ravel(counted("take", index, x.numel()));
  check(x.numel() > 0 || flat.numel() == 0, "take: nothing to take from shape ", x.shape());
  return reshape(index_select(ravel(x), 0, flat), index.shape());
}

Tensor detail::put(Into into, const Tensor& x, const Tensor& index, const Tensor& src,
                   bool accumulate) {
  const detail::Named named("put", {"x", x}, {"index", index}, {"src", src});
  detail::check_defined("put", {{"x", x}, {"index", index}, {"src", src}});
  check(index.numel() == src.numel(), "put: ", src.numel(), " elements for ", index.numel(),
        " places");
  const auto [to, from] = of_one_dtype("put", x, src);
  const Tensor flat = ravel(counted("put", index, x.numel())), line = ravel(to);
  const Tensor result = accumulate
                            ? index_add(into, line, 0, flat, ravel(from), 1)
                            : written(into, core::ScatterMode::assign, line, 0, flat, ravel(from));
  return reshape(result, x.shape());
}

Tensor put(const Tensor& x, const Tensor& index, const Tensor& src, bool accumulate) {
  return detail::put(detail::Into::copy, x, index, src, accumulate);
}

Tensor take_along_dim(const Tensor& x, const Tensor& index, std::optional<int64_t> dim) {
  const detail::Named named("take_along_dim", {"x", x}, {"index", index});
  detail::check_defined("take_along_dim", {{"x", x}, {"index", index}});
  if (!dim) return gather(ravel(x), 0, ravel(as_index("take_along_dim", index)));
  check(x.ndim() == index.ndim(), "take_along_dim: x of shape ", x.shape(),
        " and an index of shape ", index.shape(), " differ in their number of dimensions");
  const int axis = normalize_dim("take_along_dim", *dim, x.ndim());
  const Tensor places = counted("take_along_dim", index, x.ndim() == 0 ? 1 : x.size(axis));
  Shape of_x = x.shape(), of_index = index.shape();
  of_x[axis] = of_index[axis] = 1;
  const Shape common = broadcast_shapes("take_along_dim", of_x, of_index);
  of_x = of_index = common;
  of_x[axis] = x.size(axis);
  of_index[axis] = index.size(axis);
  return gather(expand(x, of_x), axis, expand(places, of_index));
}

Tensor index_fill(const Tensor& x, int64_t dim, const Tensor& index, Scalar value) {
  detail::check_defined("index_fill", {{"x", x}, {"index", index}});
  const int axis = normalize_dim("index_fill", dim, x.ndim());
  check_vector("index_fill", index);
  const int64_t size = x.ndim() == 0 ? 1 : x.size(axis);
  const Tensor places = ravel(counted("index_fill", index, size));
  const TensorOptions flag{.dtype = kBool, .device = x.device()};
  const Tensor hit = scatter(zeros({size}, flag), 0, places, ones(places.shape(), flag));
  if (x.ndim() == 0) return masked_fill(x, reshape(hit, {}), value);
  Shape along = Shape::filled(x.ndim(), 1);
  along[axis] = size;
  return masked_fill(x, reshape(hit, along), value);
}

Tensor detail::index_fill(Into into, const Tensor& x, int64_t dim, const Tensor& index,
                          const Tensor& value) {
  detail::check_defined("index_fill", {{"x", x}, {"index", index}, {"value", value}});
  check(value.ndim() == 0, "index_fill: the value has shape ", value.shape(),
        "; it must be a single number without dimensions");
  const int axis = normalize_dim("index_fill", dim, x.ndim());
  check_vector("index_fill", index);
  const Tensor places = counted("index_fill", index, x.ndim() == 0 ? 1 : x.size(axis));
  Shape slices = x.ndim() == 0 ? Shape{1} : x.shape();
  slices[axis] = places.numel();
  const Tensor filled =
      index_copy(into, atleast_1d(x), axis, places, expand(value.to(x.dtype()), slices));
  return reshape(filled, x.shape());
}

Tensor detail::index_copy(Into into, const Tensor& x, int64_t dim, const Tensor& index,
                          const Tensor& src) {
  detail::check_defined("index_copy", {{"x", x}, {"index", index}, {"src", src}});
  const auto [to, from] = of_one_dtype("index_copy", x, src);
  check_vector("index_copy", index);
  const Tensor places = ravel(as_index("index_copy", index)), lines = atleast_1d(to);
  const int axis = normalize_dim("index_copy", dim, x.ndim());
  Shape along = Shape::filled(lines.ndim(), 1), shape = lines.shape();
  along[axis] = shape[axis] = places.numel();
  const Tensor rows = atleast_1d(from);
  check(rows.shape() == shape, "index_copy: src of shape ", src.shape(), " does not fill ",
        places.numel(), " slices of dim ", dim, " of shape ", x.shape());
  const Tensor spread = expand(reshape(places, along), shape);
  return reshape(written(into, core::ScatterMode::assign, lines, axis, spread, rows), x.shape());
}

Tensor index_fill(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& value) {
  return detail::index_fill(detail::Into::copy, x, dim, index, value);
}

Tensor index_copy(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& src) {
  return detail::index_copy(detail::Into::copy, x, dim, index, src);
}

Tensor scatter(const Tensor& x, int64_t dim, const Tensor& index, Scalar value) {
  detail::check_defined("scatter", {{"x", x}, {"index", index}});
  check(fits(value, x.dtype()), "scatter: ", value, " does not fit ", x.dtype());
  const Tensor src = full(index.shape(), value, {.dtype = x.dtype(), .device = x.device()});
  return scatter(x, dim, index, src);
}

Tensor masked_scatter(const Tensor& x, const Tensor& mask, const Tensor& src) {
  const detail::Named named("masked_scatter", {"x", x}, {"mask", mask}, {"src", src});
  detail::check_defined("masked_scatter", {{"x", x}, {"mask", mask}, {"src", src}});
  check(mask.dtype() == kBool, "masked_scatter: the mask is ", mask.dtype(),
        "; compare it to get bool");
  const auto [to, from] = of_one_dtype("masked_scatter", x, src);
  const Shape shape = broadcast_shapes("masked_scatter", x.shape(), mask.shape());
  const Tensor wide = expand(mask, shape);
  const Tensor place = ravel(cumsum(ravel(wide).to(kInt64), 0)) - 1;
  // On meta it is not known how many are; the result has the same shape.
  const int64_t wanted = place.numel() == 0                ? 0
                         : core::has_values(mask.device()) ? place[-1].item<int64_t>() + 1
                                                           : src.numel();
  check_enough(src, wanted);
  if (wanted == 0) {  // src keeps its place in the graph, with a gradient of zeros
    const Tensor none = zeros({0}, {.dtype = kInt64, .device = x.device()});
    const Tensor kept = index_add(ravel(expand(to, shape)), 0, none, slice(ravel(from), 0, 0, 0));
    return reshape(kept, shape);
  }
  const Tensor taken = index_select(ravel(from), 0, clamp(place, 0, {}));
  return where(wide, reshape(taken, shape), expand(to, shape));
}

const Tensor& Tensor::masked_scatter_(const Tensor& mask, const Tensor& src) const {
  const Tensor& x = *this;
  return detail::write_into(
      "masked_scatter_", x, detail::wants("masked_scatter_", src), [&](detail::Into into) {
        // Where nothing is recorded, the list of the places is enough.
        const bool listed =
            into == detail::Into::memory && mask.defined() && src.defined() &&
            mask.dtype() == kBool && mask.device() == x.device() &&
            core::has_values(mask.device()) && src.dtype() == x.dtype() &&
            broadcast_shapes("masked_scatter", x.shape(), mask.shape()) == x.shape();
        if (!listed) return hero::masked_scatter(x, mask, src);
        const Tensor places =
            hero::ravel(hero::nonzero(hero::ravel(hero::expand(mask, x.shape()))));
        check_enough(src, places.numel());
        const Tensor line = hero::ravel(x),
                     from = hero::slice(hero::ravel(src), 0, 0, places.numel());
        return hero::reshape(
            detail::written(into, core::ScatterMode::assign, line, 0, places, from), x.shape());
      });
}

Tensor select_scatter(const Tensor& x, const Tensor& src, int64_t dim, int64_t index) {
  const detail::Named named("select_scatter", {"x", x}, {"src", src});
  detail::check_defined("select_scatter", {{"x", x}, {"src", src}});
  return replaced("select_scatter", x, src,
                  [=](const Tensor& places) { return select(places, dim, index); });
}
Tensor slice_scatter(const Tensor& x, const Tensor& src, int64_t dim, int64_t start, int64_t stop,
                     int64_t step) {
  const detail::Named named("slice_scatter", {"x", x}, {"src", src});
  detail::check_defined("slice_scatter", {{"x", x}, {"src", src}});
  return replaced("slice_scatter", x, src,
                  [=](const Tensor& places) { return slice(places, dim, start, stop, step); });
}
Tensor diagonal_scatter(const Tensor& x, const Tensor& src, int64_t offset, int64_t dim1,
                        int64_t dim2) {
  const detail::Named named("diagonal_scatter", {"x", x}, {"src", src});
  detail::check_defined("diagonal_scatter", {{"x", x}, {"src", src}});
  return replaced("diagonal_scatter", x, src,
                  [=](const Tensor& places) { return diagonal(places, offset, dim1, dim2); });
}

std::vector<Tensor> where(const Tensor& condition) {
  detail::check_defined("where", {{"condition", condition}});
  const Tensor places = nonzero(atleast_1d(condition));
  std::vector<Tensor> lists;
  for (int64_t i = 0; i < places.size(1); ++i) lists.push_back(select(places, 1, i));
  return lists;
}
Tensor argwhere(const Tensor& x) {
  const detail::Named named("argwhere", {"x", x});
  return nonzero(x);
}

}  // namespace hero
