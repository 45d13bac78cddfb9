// Adaptive maxima and whole-channel dropout by way of their two-dimensional or plain relatives, and
// nearest-neighbour upsampling.
#include <hero/autograd/ops/creation/creation.h>
#include <hero/autograd/ops/detail/defined.h>
#include <hero/autograd/ops/detail/in_float32.h>
#include <hero/autograd/ops/detail/named.h>
#include <hero/autograd/ops/elementwise/elementwise.h>
#include <hero/autograd/ops/windows/cells.h>
#include <hero/autograd/ops/windows/interpolate.h>
#include <hero/autograd/ops/windows/pool_windows.h>
#include <hero/core/allocator.h>
#include <hero/core/checked.h>

namespace hero {

namespace {

// floor(i size / count) for i <= count, where the product may have more than 64 bits.
int64_t share(int64_t i, int64_t size, int64_t count) {
  __extension__ typedef __int128 Wide;
  return static_cast<int64_t>(static_cast<Wide>(i) * size / count);
}

struct Range {
  int64_t first, last;
};

// What cell i of `cells` covers of `size` positions.
Range cell(int64_t i, int64_t cells, int64_t size) {
  return {share(i, size, cells), size - share(cells - 1 - i, size, cells)};
}

// Mask over channels: one value for all that follows them.
Tensor drop_channels(const Tensor& x, double p, bool training, int channel) {
  check(is_floating(x.dtype()), "dropout: x is ", x.dtype(), "; convert it to a floating dtype");
  Shape shape = Shape::filled(x.ndim(), 1);
  for (int i = 0; i <= channel; ++i) shape[i] = x.size(i);
  if (!training || p == 0.0) return x;
  // Halves do not hold the mask's scale.
  const DType dtype = detail::is_half(x) ? kFloat32 : x.dtype();
  const Tensor mask = dropout(ones(shape, {.dtype = dtype, .device = x.device()}), p);
  return (x * mask).to(x.dtype());
}

// Position floor(i size / count) for each i.
Tensor nearest(int64_t count, int64_t size, Device device) {
  if (device.type == DeviceType::meta) return Tensor(Array::empty({count}, kInt64, device));
  const Array positions = Array::empty({count}, kInt64);
  for (int64_t i = 0; i < count; ++i) positions.data<int64_t>()[i] = share(i, size, count);
  return Tensor(positions.to(device));
}

}  // namespace

Tensor adaptive_max_pool1d(const Tensor& x, int64_t output_size) {
  const detail::Named named("adaptive_max_pool1d", {"x", x});
  detail::check_defined("adaptive_max_pool1d", {{"x", x}});
  return adaptive_max_pool1d_with_indices(x, output_size).values;
}

ValuesIndices adaptive_max_pool1d_with_indices(const Tensor& x, int64_t output_size) {
  const detail::Named named("adaptive_max_pool1d_with_indices", {"x", x});
  detail::check_defined("adaptive_max_pool1d_with_indices", {{"x", x}});
  detail::check_pooled("adaptive_max_pool1d", x, 1);
  detail::check_cells("adaptive_max_pool1d", x, {output_size});
  const ValuesIndices found = adaptive_max_pool2d_with_indices(unsqueeze(x, -2), {1, output_size});
  return {squeeze(found.values, -2), squeeze(found.indices, -2)};
}

Tensor adaptive_max_pool2d(const Tensor& x, Pair output_size) {
  const detail::Named named("adaptive_max_pool2d", {"x", x});
  detail::check_defined("adaptive_max_pool2d", {{"x", x}});
  return adaptive_max_pool2d_with_indices(x, output_size).values;
}

ValuesIndices adaptive_max_pool2d_with_indices(const Tensor& x, Pair output_size) {
  const detail::Named named("adaptive_max_pool2d_with_indices", {"x", x});
  detail::check_defined("adaptive_max_pool2d", {{"x", x}});
  constexpr auto kName = "adaptive_max_pool2d";
  detail::check_pooled(kName, x, 2);
  const int64_t height = x.size(-2), width = x.size(-1);
  const int64_t rows = output_size[0] == -1 ? height : output_size[0];
  const int64_t columns = output_size[1] == -1 ? width : output_size[1];
  detail::check_cells(kName, x, {rows, columns});
  if (rows == 0 || columns == 0) {
    const Tensor none = detail::no_cells(x, {rows, columns});
    return {none, zeros(none.shape(), {.dtype = kInt64, .device = x.device()})};
  }
  if (height % rows == 0 && width % columns == 0) {
    return max_pool2d_with_indices(x, {height / rows, width / columns});
  }
  core::check_room(kName, (core::Checked{kName, rows} * columns).value);
  std::vector<Tensor> values, places;
  for (int64_t i = 0; i < rows; ++i) {
    const Range down = cell(i, rows, height);
    const Tensor band = slice(x, -2, down.first, down.last);
    for (int64_t j = 0; j < columns; ++j) {
      const Range across = cell(j, columns, width);
      const Tensor area = slice(band, -1, across.first, across.last);
      const auto [largest, at] = max(flatten(area, -2, -1), -1);
      const int64_t length = across.last - across.first;
      const Tensor row = floor_divide(at, length);
      values.push_back(largest);
      places.push_back((row + down.first) * width + (at - row * length + across.first));
    }
  }
  Shape shape = x.shape();
  shape[x.ndim() - 2] = rows;
  shape[x.ndim() - 1] = columns;
  return {reshape(stack(values, -1), shape), reshape(stack(places, -1), shape)};
}

Tensor upsample_nearest2d(const Tensor& x, Pair output_size) {
  const detail::Named named("upsample_nearest2d", {"x", x});
  detail::check_defined("upsample_nearest2d", {{"x", x}});
  constexpr auto kName = "upsample_nearest2d";
  check(x.ndim() == 3 || x.ndim() == 4, kName, ": x must be [N, C, H, W] or [C, H, W]: got shape ",
        x.shape());
  const auto [rows, columns] = output_size;
  const int64_t height = x.size(-2), width = x.size(-1);
  check(rows > 0 && columns > 0 && height > 0 && width > 0, kName, ": sizes must be positive: x ",
        x.shape(), ", output_size ", Shape{rows, columns});
  const Tensor tall = index_select(x, -2, nearest(rows, height, x.device()));
  return index_select(tall, -1, nearest(columns, width, x.device()));
}

Tensor dropout1d(const Tensor& x, double p, bool training) {
  const detail::Named named("dropout1d", {"x", x});
  detail::check_defined("dropout1d", {{"x", x}});
  check(x.ndim() == 2 || x.ndim() == 3, "dropout1d: x must be [N, C, L] or [C, L]: got shape ",
        x.shape());
  return drop_channels(x, p, training, x.ndim() - 2);
}

Tensor dropout2d(const Tensor& x, double p, bool training) {
  const detail::Named named("dropout2d", {"x", x});
  detail::check_defined("dropout2d", {{"x", x}});
  check(x.ndim() >= 2, "dropout2d: x must be [N, C, ...] or [C, H, W]: got shape ", x.shape());
  return drop_channels(x, p, training, x.ndim() == 3 ? 0 : 1);
}

// x1 W_o x2 for every o: one product with all W_o side by side, then one for each row.
Tensor bilinear(const Tensor& x1, const Tensor& x2, const Tensor& weight, const Tensor& bias) {
  detail::check_defined("bilinear", {{"x1", x1}, {"x2", x2}, {"weight", weight}});
  constexpr auto kName = "bilinear";
  if (detail::any_half(x1, x2, weight, bias)) {
    return detail::in_float32(kName, {x1, x2, weight, bias},
                              [](const auto& in) { return bilinear(in[0], in[1], in[2], in[3]); });
  }
  check(weight.ndim() == 3, kName, ": weight must be [out, in1, in2]: got shape ", weight.shape());
  const int64_t outputs = weight.size(0), in1 = weight.size(1), in2 = weight.size(2);
  check(x1.ndim() > 0 && x1.ndim() == x2.ndim() && x1.size(-1) == in1 && x2.size(-1) == in2, kName,
        ": inputs ", x1.shape(), " and ", x2.shape(), " do not fit weight ", weight.shape());
  Shape rows = x1.shape(), rows2 = x2.shape();
  rows.pop_back();
  rows2.pop_back();
  check(rows == rows2, kName, ": inputs differ before their last dimension: ", x1.shape(), " and ",
        x2.shape());
  const Tensor wide = reshape(permute(weight, {1, 0, 2}), {in1, outputs * in2});
  const Tensor left = reshape(matmul(reshape(x1, {-1, in1}), wide), {rows.numel(), outputs, in2});
  const Tensor y = matmul(left, reshape(x2, {rows.numel(), in2, 1}));
  Shape shape = rows;
  shape.push_back(outputs);
  const Tensor result = reshape(y, shape);
  return bias.defined() ? result + bias : result;
}

}  // namespace hero
