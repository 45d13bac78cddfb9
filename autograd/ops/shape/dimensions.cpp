// Moving, adding and removing dimensions, by permute(), reshape() and expand().
#include <hero/autograd/ops/detail/defined.h>
#include <hero/autograd/ops/detail/named.h>
#include <hero/autograd/ops/detail/own_memory.h>
#include <hero/autograd/ops/detail/place.h>
#include <hero/autograd/ops/elementwise/elementwise.h>
#include <hero/autograd/ops/shape/shape.h>

namespace hero {

namespace {

// Shape of all of them, broadcast.
Shape common_shape(const char* op, const std::vector<Tensor>& tensors) {
  Shape shape;
  for (const Tensor& tensor : tensors) shape = broadcast_shapes(op, shape, tensor.shape());
  return shape;
}

void check_channels(const char* op, const Tensor& x) {
  check(x.ndim() >= 3, op, ": x must be [.., C, H, W]: got shape ", x.shape());
}

}  // namespace

Dims detail::counted_dims(const char* op, const Dims& dims, int ndim) {
  Dims counted;
  for (int64_t dim : dims) {
    const int axis = normalize_dim(op, dim, ndim);
    check(!counted.contains(axis), op, ": dim ", dim, " comes twice in ", dims);
    counted.push_back(axis);
  }
  return counted;
}

Tensor movedim(const Tensor& x, const Dims& source, const Dims& destination) {
  detail::check_defined("movedim", {{"x", x}});
  check(source.size() == destination.size(), "movedim: source ", source, " and destination ",
        destination, " differ in length");
  if (source.empty()) return permute(x, normalize_dims("movedim", {}, x.ndim()));
  const Dims from = detail::counted_dims("movedim", source, x.ndim());
  const Dims to = detail::counted_dims("movedim", destination, x.ndim());
  Dims order = Dims::filled(x.ndim(), -1);
  for (int i = 0; i < from.size(); ++i) order[static_cast<int>(to[i])] = from[i];
  int next = 0;
  for (int64_t& place : order) {
    if (place >= 0) continue;
    while (from.contains(next)) ++next;
    place = next++;
  }
  return permute(x, order);
}
Tensor moveaxis(const Tensor& x, const Dims& source, const Dims& destination) {
  const detail::Named named("moveaxis", {"x", x});
  return movedim(x, source, destination);
}
Tensor swapaxes(const Tensor& x, int64_t axis0, int64_t axis1) {
  const detail::Named named("swapaxes", {"x", x});
  return transpose(x, axis0, axis1);
}
Tensor swapdims(const Tensor& x, int64_t dim0, int64_t dim1) {
  const detail::Named named("swapdims", {"x", x});
  return transpose(x, dim0, dim1);
}

Tensor squeeze(const Tensor& x, const std::vector<int64_t>& dims) {
  detail::check_defined("squeeze", {{"x", x}});
  if (dims.empty()) return reshape(x, x.shape());
  const Dims named = detail::counted_dims("squeeze", dims, x.ndim());
  Shape shape;
  for (int i = 0; i < x.ndim(); ++i) {
    if (x.size(i) != 1 || !named.contains(i)) shape.push_back(x.size(i));
  }
  return reshape(x, shape);
}

Tensor unflatten(const Tensor& x, int64_t dim, const Shape& sizes) {
  detail::check_defined("unflatten", {{"x", x}});
  const int axis = normalize_dim("unflatten", dim, x.ndim());
  check(!sizes.empty() && x.ndim() > 0, "unflatten: no sizes for dim ", dim, " of shape ",
        x.shape());
  int64_t known = 1;
  int open = -1;
  for (int i = 0; i < sizes.size(); ++i) {
    check(sizes[i] >= -1 && (sizes[i] >= 0 || open < 0), "unflatten: sizes ", sizes,
          " must not be negative, but one may be -1");
    if (sizes[i] < 0) open = i;
    if (sizes[i] >= 0)
      check(!__builtin_mul_overflow(known, sizes[i], &known), "unflatten: sizes ", sizes,
            " have no product");
  }
  Shape filled = sizes;
  if (open >= 0 && known > 0) filled[open] = x.size(axis) / known;
  check((open < 0 || known > 0) && filled.numel("unflatten") == x.size(axis), "unflatten: ", sizes,
        " does not fill dim ", dim, " of shape ", x.shape());
  Shape shape;
  for (int i = 0; i < x.ndim(); ++i) {
    if (i != axis) {
      shape.push_back(x.size(i));
    } else {
      for (int64_t size : filled) shape.push_back(size);
    }
  }
  return reshape(x, shape);
}

Tensor ravel(const Tensor& x) {
  detail::check_defined("ravel", {{"x", x}});
  return reshape(contiguous(x), {x.numel()});
}
Tensor expand_as(const Tensor& x, const Tensor& other) {
  const detail::Named named("expand_as", {"x", x}, {"other", other});
  detail::check_defined("expand_as", {{"x", x}, {"other", other}});
  return expand(x, other.shape());
}
Tensor view_as(const Tensor& x, const Tensor& other) {
  const detail::Named named("view_as", {"x", x}, {"other", other});
  detail::check_defined("view_as", {{"x", x}, {"other", other}});
  return x.view(other.shape());
}
Tensor reshape_as(const Tensor& x, const Tensor& other) {
  const detail::Named named("reshape_as", {"x", x}, {"other", other});
  detail::check_defined("reshape_as", {{"x", x}, {"other", other}});
  return reshape(x, other.shape());
}
Tensor broadcast_to(const Tensor& x, const Shape& shape) {
  const detail::Named named("broadcast_to", {"x", x});
  return expand(x, shape);
}
std::vector<Tensor> broadcast_tensors(const std::vector<Tensor>& tensors) {
  detail::check_defined("broadcast_tensors", tensors);
  const Shape shape = common_shape("broadcast_tensors", tensors);
  std::vector<Tensor> result;
  for (const Tensor& tensor : tensors) result.push_back(expand(tensor, shape));
  return result;
}

Tensor atleast_1d(const Tensor& x) {
  detail::check_defined("atleast_1d", {{"x", x}});
  return x.ndim() > 0 ? x : reshape(x, {1});
}
Tensor atleast_2d(const Tensor& x) {
  detail::check_defined("atleast_2d", {{"x", x}});
  return x.ndim() > 1 ? x : unsqueeze(atleast_1d(x), 0);
}
Tensor atleast_3d(const Tensor& x) {
  detail::check_defined("atleast_3d", {{"x", x}});
  return x.ndim() > 2 ? x : unsqueeze(atleast_2d(x), -1);
}

Tensor pixel_shuffle(const Tensor& x, int64_t r) {
  detail::check_defined("pixel_shuffle", {{"x", x}});
  check_channels("pixel_shuffle", x);
  const int64_t channels = x.size(-3), height = x.size(-2), width = x.size(-1);
  int64_t cell = 0;
  check(r > 0 && !__builtin_mul_overflow(r, r, &cell) && channels % cell == 0,
        "pixel_shuffle: upscale_factor ", r, " squared does not divide the ", channels,
        " channels of shape ", x.shape());
  const int at = x.ndim() - 3;
  Shape split, joined;
  for (int i = 0; i < at; ++i) split.push_back(x.size(i)), joined.push_back(x.size(i));
  for (int64_t size : {channels / cell, r, r, height, width}) split.push_back(size);
  for (int64_t size : {channels / cell, height * r, width * r}) joined.push_back(size);
  Dims order;
  for (int i = 0; i < at; ++i) order.push_back(i);
  for (int i : {0, 3, 1, 4, 2}) order.push_back(at + i);
  return detail::own_memory(reshape(permute(reshape(x, split), order), joined), x);
}

Tensor pixel_unshuffle(const Tensor& x, int64_t r) {
  detail::check_defined("pixel_unshuffle", {{"x", x}});
  check_channels("pixel_unshuffle", x);
  const int64_t channels = x.size(-3), height = x.size(-2), width = x.size(-1);
  check(r > 0 && height % r == 0 && width % r == 0, "pixel_unshuffle: downscale_factor ", r,
        " does not divide height and width of shape ", x.shape());
  const int at = x.ndim() - 3;
  Shape split, joined;
  for (int i = 0; i < at; ++i) split.push_back(x.size(i)), joined.push_back(x.size(i));
  for (int64_t size : {channels, height / r, r, width / r, r}) split.push_back(size);
  for (int64_t size : {channels * r * r, height / r, width / r}) joined.push_back(size);
  Dims order;
  for (int i = 0; i < at; ++i) order.push_back(i);
  for (int i : {0, 2, 4, 1, 3}) order.push_back(at + i);
  return detail::own_memory(reshape(permute(reshape(x, split), order), joined), x);
}

Tensor channel_shuffle(const Tensor& x, int64_t groups) {
  detail::check_defined("channel_shuffle", {{"x", x}});
  check(x.ndim() >= 3, "channel_shuffle: x must be [N, C, ..]: got shape ", x.shape());
  check(groups > 0 && x.size(1) % groups == 0, "channel_shuffle: ", groups,
        " groups do not divide the ", x.size(1), " channels of shape ", x.shape());
  const Tensor split = unflatten(x, 1, {groups, x.size(1) / groups});
  return detail::own_memory(reshape(transpose(split, 1, 2), x.shape()), x);
}

}  // namespace hero
