// Pooling over planes of H * W.
#include <map>

#include <hero/autograd/creation.h>
#include <hero/autograd/image_ops.h>
#include <hero/autograd/op.h>
#include <hero/autograd/ops/defined.h>
#include <hero/autograd/ops/in_float32.h>
#include <hero/autograd/ops/place.h>
#include <hero/autograd/ops/windows/cells.h>
#include <hero/core/allocator.h>
#include <hero/core/backend.h>
#include <hero/core/checked.h>

namespace hero {

namespace {

// Planes as one dimension: [N, C, H * W].
Shape flat_planes(const Shape& shape) { return {shape[0], shape[1], shape[2] * shape[3]}; }

struct MaxPool : MultiOp {
  static constexpr unsigned kSaveOutputs = 0b10;
  core::Window window;
  Shape out_shape;
  MaxPool(const core::Window& w, const Shape& s) : window(w), out_shape(s) {}
  const char* name() const override { return "max_pool2d"; }
  std::vector<Array> forward(const Array& x) {
    const Array out = Array::empty(out_shape, x.dtype(), x.device());
    const Array indices = Array::empty(out_shape, kInt64, x.device());
    core::backend(x.device()).pool(core::PoolOp::max, x, window, out, &indices);
    return {out, indices};
  }
  Grads backward(const Grads& grads) override {
    const Tensor indices = output(1);
    if (!grad_enabled()) {
      const Array g = grads[0].array().contiguous();
      const Array out = Array::empty(input_shape(0), g.dtype(), g.device());
      core::backend(g.device()).max_pool_backward(g, window, indices.array(), out);
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
  core::Window window;
  Shape out_shape;
  AveragePool(const core::Window& w, const Shape& s) : window(w), out_shape(s) {}
  const char* name() const override { return "avg_pool2d"; }
  Array forward(const Array& x) {
    const Array out = Array::empty(out_shape, x.dtype(), x.device());
    core::backend(x.device()).pool(core::PoolOp::average, x, window, out, nullptr);
    return out;
  }
  Grads backward(const Tensor& g) override;
};
struct AveragePoolBack : Op {
  core::Window window;
  Shape out_shape;
  AveragePoolBack(const core::Window& w, const Shape& s) : window(w), out_shape(s) {}
  const char* name() const override { return "avg_pool2d_backward"; }
  Array forward(const Array& g) {
    const Array out = Array::empty(out_shape, g.dtype(), g.device());
    core::backend(g.device()).average_pool_backward(g, window, out);
    return out;
  }
  Grads backward(const Tensor& g) override {
    return {record(AveragePool(window, input_shape(0)), g)};
  }
};
Grads AveragePool::backward(const Tensor& g) {
  return {record(AveragePoolBack(window, input_shape(0)), g)};
}

void check_image(const char* op, const Tensor& x) {
  check(x.ndim() == 4, op, ": x must be [N, C, H, W] or [C, H, W]: got shape ", x.shape());
  check(is_floating(x.dtype()), op, ": x is ", x.dtype(), "; convert it to a floating dtype");
}

core::Window window_of(const char* op, Pair kernel, const PoolOptions& options) {
  core::Window window;
  window.count_padding = options.count_include_pad;
  for (size_t i = 0; i < 2; ++i) {
    window.kernel[i] = kernel[i];
    window.stride[i] = options.stride.value_or(kernel)[i];
    window.padding[i] = options.padding[i];
    window.dilation[i] = options.dilation[i];
    check(window.kernel[i] > 0 && window.stride[i] > 0 && window.dilation[i] > 0, op,
          ": kernel_size, stride and dilation must be positive: ", window.kernel[i], ", ",
          window.stride[i], ", ", window.dilation[i]);
    check(window.padding[i] >= 0 && window.padding[i] <= window.kernel[i] / 2, op, ": padding ",
          window.padding[i], " must lie between 0 and half of kernel_size ", window.kernel[i]);
  }
  Shape{window.kernel[0], window.kernel[1]}.numel(op);  // an average may divide by it
  return window;
}

// Places of the window along one axis. With ceil_mode the last may hang over the end, but starts
// inside the input or its left padding.
int64_t pooled_size(const core::Window& window, int axis, int64_t size, bool ceil_mode) {
  const int64_t stride = window.stride[axis], padding = window.padding[axis];
  const int64_t room = size + 2 * padding - window.dilation[axis] * (window.kernel[axis] - 1) - 1;
  if (room < 0 && !(ceil_mode && room + stride - 1 >= 0)) return 0;
  const int64_t count = (room + (ceil_mode ? stride - 1 : 0)) / stride + 1;
  return ceil_mode && (count - 1) * stride >= size + padding ? count - 1 : count;
}

// Steps that nobody takes become small, so that all positions fit into 64 bits.
void bound_pool_steps(const char* op, core::Window& window, int axis, int64_t size) {
  constexpr int64_t kMost = int64_t{1} << 60;
  const int64_t padded =
      (core::Checked{op, size} + window.padding[axis] + window.padding[axis]).value;
  const core::Checked spanned =
      core::Checked{op, window.dilation[axis]} * (window.kernel[axis] - 1);
  check(padded <= kMost && spanned.value <= kMost, op, ": a window of ", window.kernel[axis],
        " by ", window.dilation[axis], " over a padded input of ", padded, " is too large");
  if (window.kernel[axis] == 1) window.dilation[axis] = 1;
  window.stride[axis] = std::min(window.stride[axis], std::max(padded, spanned.value) + 1);
}

Shape pooled_shape(const char* op, const Tensor& x, core::Window& window, bool ceil_mode) {
  Shape shape = x.shape();
  for (int i = 0; i < 2; ++i) {
    bound_pool_steps(op, window, i, x.size(2 + i));
    shape[2 + i] = pooled_size(window, i, x.size(2 + i), ceil_mode);
    check(shape[2 + i] > 0, op, ": a window of ", window.kernel[i], " does not fit into x ",
          x.shape(), " with padding ", window.padding[i]);
  }
  return shape;
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

void check_line(const char* op, const Tensor& x) {
  check(x.ndim() == 2 || x.ndim() == 3, op, ": x must be [N, C, L] or [C, L]: got shape ",
        x.shape());
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
  constexpr auto kName = "max_pool2d";
  if (x.ndim() == 3) {
    const ValuesIndices found = max_pool2d_with_indices(unsqueeze(x, 0), kernel_size, options);
    return {squeeze(found.values, 0), squeeze(found.indices, 0)};
  }
  check_image(kName, x);
  core::Window window = window_of(kName, kernel_size, options);
  const Shape shape = pooled_shape(kName, x, window, options.ceil_mode);
  const std::vector<Tensor> found = record_multi(MaxPool(window, shape), x);
  return {found[0], found[1]};
}

Tensor avg_pool2d(const Tensor& x, Pair kernel_size, const PoolOptions& options) {
  detail::check_defined("avg_pool2d", {{"x", x}});
  constexpr auto kName = "avg_pool2d";
  if (x.ndim() == 3) return squeeze(avg_pool2d(unsqueeze(x, 0), kernel_size, options), 0);
  check_image(kName, x);
  check(options.dilation == Pair{1, 1}, kName, ": dilation is for max_pool2d only");
  core::Window window = window_of(kName, kernel_size, options);
  const Shape shape = pooled_shape(kName, x, window, options.ceil_mode);
  if (!options.divisor_override) return record(AveragePool(window, shape), x);
  const int64_t divisor = *options.divisor_override;
  check(divisor != 0, kName, ": divisor_override is 0");
  if (!detail::is_half(x)) return divided_pool(x, window, shape, divisor);
  return detail::in_float32(
      kName, {x}, [=](const auto& in) { return divided_pool(in[0], window, shape, divisor); });
}

// Cells of equal size are a pooling; else a mean over a rectangle is one over rows of one over
// columns.
Tensor adaptive_avg_pool2d(const Tensor& x, Pair output_size) {
  detail::check_defined("adaptive_avg_pool2d", {{"x", x}});
  constexpr auto kName = "adaptive_avg_pool2d";
  if (x.ndim() == 3) return squeeze(adaptive_avg_pool2d(unsqueeze(x, 0), output_size), 0);
  check_image(kName, x);
  const int64_t height = x.size(2), width = x.size(3);
  const auto [rows, columns] = whole_where_absent(output_size, x);
  detail::check_cells(kName, x, {rows, columns});
  if (rows == 0 || columns == 0) return detail::no_cells(x, {rows, columns});
  if (height % rows == 0 && width % columns == 0) {
    return avg_pool2d(x, {height / rows, width / columns});
  }
  if (detail::any_half(x)) {
    return detail::in_float32(
        kName, {x}, [=](const auto& in) { return adaptive_avg_pool2d(in[0], output_size); });
  }
  return cell_means(cell_means(x, 3, columns), 2, rows);
}

// In one dimension: an image of height 1.
Tensor max_pool1d(const Tensor& x, int64_t kernel_size, const Pool1dOptions& options) {
  return max_pool1d_with_indices(x, kernel_size, options).values;
}

ValuesIndices max_pool1d_with_indices(const Tensor& x, int64_t kernel_size,
                                      const Pool1dOptions& options) {
  detail::check_defined("max_pool1d", {{"x", x}});
  check_line("max_pool1d", x);
  const ValuesIndices found = max_pool2d_with_indices(unsqueeze(x, -2), {1, kernel_size},
                                                      flat_options(kernel_size, options));
  return {squeeze(found.values, -2), squeeze(found.indices, -2)};
}

Tensor avg_pool1d(const Tensor& x, int64_t kernel_size, const Pool1dOptions& options) {
  detail::check_defined("avg_pool1d", {{"x", x}});
  check_line("avg_pool1d", x);
  return squeeze(avg_pool2d(unsqueeze(x, -2), {1, kernel_size}, flat_options(kernel_size, options)),
                 -2);
}

Tensor adaptive_avg_pool1d(const Tensor& x, int64_t output_size) {
  detail::check_defined("adaptive_avg_pool1d", {{"x", x}});
  check_line("adaptive_avg_pool1d", x);
  return squeeze(adaptive_avg_pool2d(unsqueeze(x, -2), {1, output_size}), -2);
}

}  // namespace hero
