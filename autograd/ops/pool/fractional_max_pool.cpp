// Fractional max pooling: windows are gathered from positions that random numbers decide.
#include <hero/autograd/ops.h>
#include <hero/autograd/ops/detail/in_float32.h>
#include <hero/autograd/ops/detail/named.h>

namespace hero {

namespace {

// Where `count` windows of `kernel` positions begin in a line of `size`, from numbers [N, C]:
// int64 [N, C, count]. The last one ends with the line.
Tensor window_starts(const Tensor& sample, int64_t size, int64_t count, int64_t kernel) {
  const Tensor last = full({sample.size(0), sample.size(1), 1}, static_cast<double>(size - kernel),
                           {.dtype = kInt64, .device = sample.device()});
  if (count == 1) return last;
  const double apart = static_cast<double>(size - kernel) / static_cast<double>(count - 1);
  const Tensor at = unsqueeze(sample, 2);
  const Tensor places =
      arange(count - 1, TensorOptions{.device = sample.device()}).to(sample.dtype());
  return cat({(trunc((places + at) * apart) - trunc(at * apart)).to(kInt64), last}, 2);
}

// Positions [N, C, count, kernel] of the elements of windows.
Tensor window_positions(const Tensor& starts, int64_t kernel) {
  return unsqueeze(starts, 3) + arange(kernel, TensorOptions{.device = starts.device()});
}

struct Fractional {
  const char* op;
  Dims kernel, output;
  std::vector<int> sample;  // which of the random numbers is for which dimension
};

void check_fractional(const Fractional& spec, const Tensor& x) {
  const int spatial = spec.kernel.size();
  check(x.ndim() == spatial + 2, spec.op, ": x must have ", spatial, " dimensions behind [N, C]",
        " or [C]: got shape ", x.shape());
  check(is_floating(x.dtype()), spec.op, ": x is ", x.dtype(), "; convert it to a floating dtype");
  for (int i = 0; i < spatial; ++i) {
    const int64_t size = x.size(2 + i), kernel = spec.kernel[i], count = spec.output[i];
    check(kernel > 0 && count > 0 && kernel <= size && count <= size - kernel + 1, spec.op, ": ",
          count, " windows of ", kernel, " do not fit into ", size, " positions");
  }
}

// Random numbers of the shape [N, C, spatial], in the dtype that positions are computed in.
Tensor samples_for(const Fractional& spec, const Tensor& x, const Tensor& given) {
  const Shape shape{x.size(0), x.size(1), spec.kernel.size()};
  const DType dtype = x.dtype() == kFloat64 ? kFloat64 : kFloat32;
  if (!given.defined()) return rand(shape, {.dtype = dtype, .device = x.device()});
  check(given.shape() == shape, spec.op, ": random_samples have shape ", given.shape(),
        "; they should have ", shape);
  return given.detach().to(dtype);
}

ValuesIndices fractional_pooled(const Fractional& spec, const Tensor& x, const Tensor& given) {
  const int spatial = spec.kernel.size();
  if (x.ndim() == spatial + 1) {
    const ValuesIndices found = fractional_pooled(spec, unsqueeze(x, 0), given);
    return {squeeze(found.values, 0), squeeze(found.indices, 0)};
  }
  check_fractional(spec, x);
  const Tensor samples = samples_for(spec, x, given);
  Tensor windows = x;  // all elements of windows, one dimension after the other
  std::vector<Tensor> positions;
  Shape split{x.size(0), x.size(1)};
  for (int i = 0; i < spatial; ++i) {
    const int64_t kernel = spec.kernel[i], count = spec.output[i];
    const Tensor sample = select(samples, 2, spec.sample[static_cast<size_t>(i)]);
    positions.push_back(
        window_positions(window_starts(sample, x.size(2 + i), count, kernel), kernel));
    Shape line{x.size(0), x.size(1)}, whole = windows.shape();
    for (int d = 0; d < spatial; ++d) line.push_back(d == i ? count * kernel : 1);
    whole[2 + i] = count * kernel;
    windows = gather(windows, 2 + i, expand(reshape(positions.back(), line), whole));
    split.push_back(count);
    split.push_back(kernel);
  }
  Dims order{0, 1};
  Shape shape{x.size(0), x.size(1)};
  for (int i = 0; i < spatial; ++i) {
    order.push_back(2 + 2 * i);
    shape.push_back(spec.output[i]);
  }
  for (int i = 0; i < spatial; ++i) order.push_back(3 + 2 * i);
  shape.push_back(spec.kernel.numel(spec.op));
  const ValuesIndices found = max(reshape(permute(reshape(windows, split), order), shape), -1);
  // The position in x's flattened planes from that in each window.
  Tensor rest = found.indices, place;
  int64_t step = 1;
  for (int i = spatial - 1; i >= 0; --i) {
    const int64_t kernel = spec.kernel[i];
    Shape line{x.size(0), x.size(1)};
    for (int d = 0; d < spatial; ++d) line.push_back(d == i ? spec.output[i] : 1);
    const Tensor first = reshape(select(positions[static_cast<size_t>(i)], 3, 0), line);
    const Tensor along = (first + remainder(rest, kernel)) * step;
    place = place.defined() ? place + along : along;
    rest = floor_divide(rest, kernel);
    step *= x.size(2 + i);
  }
  return {found.values, place};
}

// The sizes given, or those of a ratio.
template <class Sizes, class Ratios>
Dims output_sizes(const char* op, const Tensor& x, const Sizes& size, const Ratios& ratio) {
  check(size.has_value() != ratio.has_value(), op,
        ": give exactly one of output_size and output_ratio");
  Dims result;
  if (size) {
    for (const int64_t each : *size) result.push_back(each);
    return result;
  }
  const int count = static_cast<int>(ratio->size());
  check(x.ndim() >= count, op, ": x has shape ", x.shape());
  for (int i = 0; i < count; ++i) {
    const double part = (*ratio)[static_cast<size_t>(i)];
    check(part > 0.0 && part < 1.0, op, ": output_ratio must be above 0 and below 1: ", part);
    result.push_back(static_cast<int64_t>(static_cast<double>(x.size(i - count)) * part));
  }
  return result;
}

}  // namespace

Tensor fractional_max_pool2d(const Tensor& x, Pair kernel_size,
                             const FractionalPool2dOptions& options) {
  const detail::Named named("fractional_max_pool2d", {"x", x});
  return fractional_max_pool2d_with_indices(x, kernel_size, options).values;
}
ValuesIndices fractional_max_pool2d_with_indices(const Tensor& x, Pair kernel_size,
                                                 const FractionalPool2dOptions& options) {
  const detail::Named named("fractional_max_pool2d_with_indices", {"x", x});
  constexpr auto kName = "fractional_max_pool2d";
  const Dims output = output_sizes(kName, x, options.output_size, options.output_ratio);
  return fractional_pooled({kName, {kernel_size[0], kernel_size[1]}, output, {1, 0}}, x,
                           options.random_samples);
}
Tensor fractional_max_pool3d(const Tensor& x, Triple kernel_size,
                             const FractionalPool3dOptions& options) {
  const detail::Named named("fractional_max_pool3d", {"x", x});
  return fractional_max_pool3d_with_indices(x, kernel_size, options).values;
}
ValuesIndices fractional_max_pool3d_with_indices(const Tensor& x, Triple kernel_size,
                                                 const FractionalPool3dOptions& options) {
  const detail::Named named("fractional_max_pool3d_with_indices", {"x", x});
  constexpr auto kName = "fractional_max_pool3d";
  const Dims output = output_sizes(kName, x, options.output_size, options.output_ratio);
  return fractional_pooled(
      {kName, {kernel_size[0], kernel_size[1], kernel_size[2]}, output, {0, 1, 2}}, x,
      options.random_samples);
}

}  // namespace hero
