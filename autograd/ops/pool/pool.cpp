// Pooling of lines and images, over planes of H * W, adaptive pooling, and maxima put back where
// they were.
#include <map>

#include <hero/autograd/graph/op.h>
#include <hero/autograd/ops.h>
#include <hero/autograd/ops/detail/defined.h>
#include <hero/autograd/ops/detail/in_float32.h>
#include <hero/autograd/ops/detail/named.h>
#include <hero/autograd/ops/detail/place.h>
#include <hero/autograd/ops/pool/pool_windows.h>
#include <hero/core/array/checked.h>
#include <hero/core/device/backend.h>
#include <hero/core/memory/allocator.h>

namespace hero {

namespace {

// Planes as one dimension: [N, C, H * W].
Shape flat_planes(const Shape& shape) { return {shape[0], shape[1], shape[2] * shape[3]}; }

struct MaxPool : MultiOp {
  static constexpr AutocastRule kAutocast = AutocastRule::fallthrough;
  static constexpr unsigned kSaveOutputs = 0b10;
  core::Window window;
  Shape out_shape;
  MaxPool(const core::Window& w, const Shape& s) : window(w), out_shape(s) {}
  const char* name() const override { return "max_pool2d"; }
  std::vector<Array> forward(const Array& x) {
    const Array out = Array::empty(out_shape, x.dtype(), x.device());
    const Array indices = Array::empty(out_shape, kInt64, x.device());
    core::backend(x.device()).run(core::call::Pool{core::PoolOp::max, x, window, out, &indices});
    return {out, indices};
  }
  Grads backward(const Grads& grads) override {
    const Tensor indices = output(1);
    if (!grad_enabled()) {
      const Array g = grads[0].array().contiguous();
      const Array out = Array::empty(input_shape(0), g.dtype(), g.device());
      core::backend(g.device()).run(core::call::MaxPoolBack{g, window, indices.array(), out});
      return {Tensor(out)};
    }
    const auto flat = [](const Tensor& x) { return reshape(x, flat_planes(x.shape())); };
    const Shape planes = flat_planes(input_shape(0));
    const Tensor g = detail::scatter_zeros(flat(grads[0]), planes, 2, flat(indices));
    return {reshape(g, input_shape(0))};
  }
};

// Average pooling and its transpose are each other's derivative.
struct AveragePool : Op {
  static constexpr AutocastRule kAutocast = AutocastRule::fallthrough;
  core::Window window;
  Shape out_shape;
  AveragePool(const core::Window& w, const Shape& s) : window(w), out_shape(s) {}
  const char* name() const override { return "avg_pool2d"; }
  Array forward(const Array& x) {
    const Array out = Array::empty(out_shape, x.dtype(), x.device());
    core::backend(x.device()).run(core::call::Pool{core::PoolOp::average, x, window, out, nullptr});
    return out;
  }
  Grads backward(const Tensor& g) override;
};
struct AveragePoolBack : Op {
  static constexpr AutocastRule kAutocast = AutocastRule::fallthrough;
  core::Window window;
  Shape out_shape;
  AveragePoolBack(const core::Window& w, const Shape& s) : window(w), out_shape(s) {}
  const char* name() const override { return "avg_pool2d_backward"; }
  Array forward(const Array& g) {
    const Array out = Array::empty(out_shape, g.dtype(), g.device());
    core::backend(g.device()).run(core::call::AveragePoolBack{g, window, out});
    return out;
  }
  Grads backward(const Tensor& g) override {
    return {record(AveragePool(window, input_shape(0)), g)};
  }
};
Grads AveragePool::backward(const Tensor& g) {
  return {record(AveragePoolBack(window, input_shape(0)), g)};
}

// The windows of an image as kernels take them, and the shape of what they give.
struct Pooled {
  core::Window window;
  Shape shape;
};

template <class Options>
Pooled pooled(const char* op, core::PoolOp kind, const Tensor& x, Pair kernel,
              const Options& options) {
  detail::PoolWindows windows = detail::pool_windows(kernel, options);
  const Dims sizes = detail::check_pool(op, kind, x, windows);
  Pooled result{{}, x.shape()};
  if (x.ndim() == 3) return result;  // the caller adds N
  result.window.count_padding = options.count_include_pad;
  for (int i = 0; i < 2; ++i) {
    result.window.kernel[i] = windows.kernel[i];
    result.window.stride[i] = windows.stride[i];
    result.window.padding[i] = windows.padding[i];
    result.window.dilation[i] = windows.dilation[i];
    result.shape[2 + i] = sizes[i];
  }
  return result;
}

// Sums over windows, divided by a number: means that count the padding, over x padded so that no
// window hangs over the end.
Tensor divided_pool(const Tensor& x, const core::Window& window, const Shape& shape,
                    int64_t divisor) {
  core::Window whole = window;
  whole.count_padding = true;
  std::vector<int64_t> hanging;  // pairs from the last dimension backwards
  for (const int axis : {1, 0}) {
    const int64_t last = (shape[2 + axis] - 1) * window.stride[axis] + window.kernel[axis];
    hanging.push_back(0);
    hanging.push_back(std::max<int64_t>(0, last - x.size(2 + axis) - 2 * window.padding[axis]));
  }
  const bool hangs = hanging[1] > 0 || hanging[3] > 0;
  const double count =
      static_cast<double>(window.kernel[0]) * static_cast<double>(window.kernel[1]);
  const Tensor means = record(AveragePool(whole, shape), hangs ? pad(x, hanging) : x);
  return means * (count / static_cast<double>(divisor));
}

// An adaptive pooling's output size, in which -1 stands for the input's.
Pair whole_where_absent(Pair output_size, const Tensor& x) {
  return {output_size[0] == -1 ? x.size(-2) : output_size[0],
          output_size[1] == -1 ? x.size(-1) : output_size[1]};
}

// Means of the cells along dimension `dim`. Cells of one length are taken together; there are few
// lengths. An infinite element reaches the cells that cover it and no others.
Tensor cell_means(const Tensor& x, int dim, int64_t cells) {
  core::check_room("adaptive_avg_pool", cells);
  const int64_t size = x.size(dim);
  std::map<int64_t, std::vector<int64_t>> starts;  // by length
  std::vector<int64_t> place(static_cast<size_t>(cells));
  const auto first = [&](int64_t i) { return i * size / cells; };
  const auto length = [&](int64_t i) { return ((i + 1) * size + cells - 1) / cells - first(i); };
  for (int64_t i = 0; i < cells; ++i) starts[length(i)].push_back(first(i));
  std::vector<Tensor> parts;
  for (const auto& [count, firsts] : starts) {
    std::vector<int64_t> positions;
    for (const int64_t start : firsts) {
      for (int64_t i = 0; i < count; ++i) positions.push_back(start + i);
    }
    Shape shape = x.shape();
    shape[dim] = static_cast<int64_t>(firsts.size());
    shape.insert(dim + 1, count);
    const Tensor index = tensor(positions).to(x.device());
    parts.push_back(mean(reshape(index_select(x, dim, index), shape), {dim + 1}));
  }
  if (parts.size() == 1) return parts[0];
  // Where each cell lies among the parts, which are in the order of lengths.
  std::map<int64_t, int64_t> next;
  int64_t before = 0;
  for (const auto& [count, firsts] : starts) {
    next[count] = before;
    before += static_cast<int64_t>(firsts.size());
  }
  for (int64_t i = 0; i < cells; ++i) place[static_cast<size_t>(i)] = next[length(i)]++;
  return index_select(cat(parts, dim), dim, tensor(place).to(x.device()));
}

PoolOptions flat_options(int64_t kernel_size, const Pool1dOptions& options) {
  return {.stride = Pair{1, options.stride.value_or(kernel_size)},
          .padding = {0, options.padding},
          .dilation = {1, options.dilation},
          .ceil_mode = options.ceil_mode,
          .count_include_pad = options.count_include_pad};
}

}  // namespace

Tensor max_pool2d(const Tensor& x, Pair kernel_size, const PoolOptions& options) {
  detail::check_defined("max_pool2d", {{"x", x}});
  return max_pool2d_with_indices(x, kernel_size, options).values;
}

ValuesIndices max_pool2d_with_indices(const Tensor& x, Pair kernel_size,
                                      const PoolOptions& options) {
  detail::check_defined("max_pool2d", {{"x", x}});
  const auto [window, shape] = pooled("max_pool2d", core::PoolOp::max, x, kernel_size, options);
  if (x.ndim() == 3) {
    const ValuesIndices found = max_pool2d_with_indices(unsqueeze(x, 0), kernel_size, options);
    return {squeeze(found.values, 0), squeeze(found.indices, 0)};
  }
  const std::vector<Tensor> found = record_multi(MaxPool(window, shape), x);
  return {found[0], found[1]};
}

Tensor avg_pool2d(const Tensor& x, Pair kernel_size, const PoolOptions& options) {
  detail::check_defined("avg_pool2d", {{"x", x}});
  constexpr auto kName = "avg_pool2d";
  const auto [window, shape] = pooled(kName, core::PoolOp::average, x, kernel_size, options);
  if (x.ndim() == 3) return squeeze(avg_pool2d(unsqueeze(x, 0), kernel_size, options), 0);
  if (!options.divisor_override) return record(AveragePool(window, shape), x);
  const int64_t divisor = *options.divisor_override;
  check(divisor != 0, kName, ": divisor_override is 0");
  if (!detail::is_half(x)) return divided_pool(x, window, shape, divisor);
  return detail::in_float32(kName, AutocastRule::fallthrough, {x},
                            [w = window, s = shape, divisor](const auto& in) {
                              return divided_pool(in[0], w, s, divisor);
                            });
}

// Cells of equal size are a pooling; else a mean over a rectangle is one over rows of one over
// columns.
Tensor adaptive_avg_pool2d(const Tensor& x, Pair output_size) {
  detail::check_defined("adaptive_avg_pool2d", {{"x", x}});
  constexpr auto kName = "adaptive_avg_pool2d";
  detail::check_pooled(kName, x, 2);
  const int64_t height = x.size(-2), width = x.size(-1);
  const auto [rows, columns] = whole_where_absent(output_size, x);
  detail::check_cells(kName, x, {rows, columns});
  if (x.ndim() == 3) return squeeze(adaptive_avg_pool2d(unsqueeze(x, 0), output_size), 0);
  if (rows == 0 || columns == 0) return detail::no_cells(x, {rows, columns});
  if (rows == 1 && columns == 1 && x.numel() > 0 && is_floating(x.dtype())) {
    return mean(x, {2, 3}, true);
  }
  if (height % rows == 0 && width % columns == 0) {
    return avg_pool2d(x, {height / rows, width / columns});
  }
  if (detail::any_half(x)) {
    return detail::in_float32(kName, AutocastRule::fallthrough, {x}, [=](const auto& in) {
      return adaptive_avg_pool2d(in[0], output_size);
    });
  }
  return cell_means(cell_means(x, 3, columns), 2, rows);
}

// In one dimension: an image of height 1.
Tensor max_pool1d(const Tensor& x, int64_t kernel_size, const Pool1dOptions& options) {
  const detail::Named named("max_pool1d", {"x", x});
  return max_pool1d_with_indices(x, kernel_size, options).values;
}

ValuesIndices max_pool1d_with_indices(const Tensor& x, int64_t kernel_size,
                                      const Pool1dOptions& options) {
  const detail::Named named("max_pool1d_with_indices", {"x", x});
  detail::check_defined("max_pool1d", {{"x", x}});
  detail::PoolWindows windows = detail::pool_windows(WindowSizes<1>(kernel_size), options);
  detail::check_pool("max_pool1d", core::PoolOp::max, x, windows);
  const ValuesIndices found = max_pool2d_with_indices(unsqueeze(x, -2), {1, kernel_size},
                                                      flat_options(kernel_size, options));
  return {squeeze(found.values, -2), squeeze(found.indices, -2)};
}

Tensor avg_pool1d(const Tensor& x, int64_t kernel_size, const Pool1dOptions& options) {
  const detail::Named named("avg_pool1d", {"x", x});
  detail::check_defined("avg_pool1d", {{"x", x}});
  detail::PoolWindows windows = detail::pool_windows(WindowSizes<1>(kernel_size), options);
  detail::check_pool("avg_pool1d", core::PoolOp::average, x, windows);
  return squeeze(avg_pool2d(unsqueeze(x, -2), {1, kernel_size}, flat_options(kernel_size, options)),
                 -2);
}

Tensor adaptive_avg_pool1d(const Tensor& x, int64_t output_size) {
  const detail::Named named("adaptive_avg_pool1d", {"x", x});
  detail::check_defined("adaptive_avg_pool1d", {{"x", x}});
  detail::check_pooled("adaptive_avg_pool1d", x, 1);
  detail::check_cells("adaptive_avg_pool1d", x, {output_size});
  return squeeze(adaptive_avg_pool2d(unsqueeze(x, -2), {1, output_size}), -2);
}

namespace {

struct Range {
  int64_t first, last;
};

// What cell i of `cells` covers of `size` positions.
Range cell(int64_t i, int64_t cells, int64_t size) {
  return {detail::share(i, size, cells), size - detail::share(cells - 1 - i, size, cells)};
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

Tensor max_unpool2d(const Tensor& x, const Tensor& indices, Pair output_size) {
  const detail::Named named("max_unpool2d", {"x", x}, {"indices", indices});
  if (x.ndim() == 3) {
    return squeeze(max_unpool2d(unsqueeze(x, 0), unsqueeze(indices, 0), output_size), 0);
  }
  check(x.ndim() == 4 && x.shape() == indices.shape(), "max_unpool2d: x ", x.shape(),
        " and indices ", indices.shape(), " must be [N, C, h, w] or [C, h, w]");
  const int64_t plane = Shape{output_size[0], output_size[1]}.numel("max_unpool2d");
  const Shape flat{x.size(0), x.size(1), x.size(2) * x.size(3)};
  const Tensor none =
      zeros({x.size(0), x.size(1), plane}, {.dtype = x.dtype(), .device = x.device()});
  const Tensor put = scatter(none, 2, reshape(indices, flat), reshape(x, flat));
  return reshape(put, {x.size(0), x.size(1), output_size[0], output_size[1]});
}

Tensor max_unpool3d(const Tensor& x, const Tensor& indices, Triple output_size) {
  const detail::Named named("max_unpool3d", {"x", x}, {"indices", indices});
  check(x.ndim() == 4 || x.ndim() == 5,
        "max_unpool3d: x must be [N, C, d, h, w] or [C, d, h, w]: ", "got shape ", x.shape());
  check(x.shape() == indices.shape(), "max_unpool3d: x ", x.shape(), " and indices ",
        indices.shape(), " must have one shape");
  // As images whose rows are planes.
  const auto [depth, height, width] = output_size;
  const int64_t row = Shape{height, width}.numel("max_unpool3d");
  const Tensor put = max_unpool2d(flatten(x, -2, -1), flatten(indices, -2, -1), {depth, row});
  Shape shape = x.shape();
  for (int i = 0; i < 3; ++i) shape[x.ndim() - 3 + i] = output_size[static_cast<size_t>(i)];
  return reshape(put, shape);
}

Tensor max_unpool1d(const Tensor& x, const Tensor& indices, int64_t output_size) {
  const detail::Named named("max_unpool1d", {"x", x}, {"indices", indices});
  check(x.ndim() == 2 || x.ndim() == 3, "max_unpool1d: x must be [N, C, L] or [C, L]: got shape ",
        x.shape());
  return squeeze(max_unpool2d(unsqueeze(x, -2), unsqueeze(indices, -2), {1, output_size}), -2);
}

}  // namespace hero
