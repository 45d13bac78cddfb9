// Padding around the last dimensions.
#include <algorithm>
#include <limits>

#include <hero/autograd/ops/detail/defined.h>
#include <hero/autograd/ops/detail/named.h>
#include <hero/autograd/ops/detail/own_memory.h>
#include <hero/autograd/ops/detail/place.h>
#include <hero/autograd/ops/reduce/reduce.h>
#include <hero/autograd/ops/shape/shape.h>
#include <hero/core/array/promotion.h>
#include <hero/core/device/backend.h>
#include <hero/core/device/kernel_traits.h>
#include <hero/core/thread_pool.h>

namespace hero {

namespace {

// The size of dimension `dim` in a frame of `before` and `after` elements.
int64_t framed(const Shape& shape, int dim, int64_t before, int64_t after) {
  int64_t frame = 0, size = 0;
  const bool fits = !__builtin_add_overflow(before, after, &frame) &&
                    !__builtin_add_overflow(shape[dim], frame, &size);
  const int64_t least = -std::numeric_limits<int64_t>::max();  // what can be cut can be put back
  check(fits && size >= 0 && before >= least && after >= least, "pad: dim ", dim, " of shape ",
        shape, " in a frame of ", before, " and ", after, " has no size");
  return size;
}

// Calls body(elements, whole) for parts of x and out along the dimensions before the last `padded`
// ones, of which both have the same. On the host a part stays in a cache until the last of its
// elements is written.
template <class Body>
void in_parts(const Array& x, const Array& out, size_t padded, Body&& body) {
  constexpr int64_t kBytes = int64_t{512} << 10;  // a thread
  const int same = x.ndim() - static_cast<int>(padded);
  const int64_t room = kBytes * num_threads();
  const bool whole = out.nbytes() <= room || !core::is_host_memory(x.device());
  if (whole || same == 0) return body(x, out);
  const int64_t step = std::max<int64_t>(1, room / (out.nbytes() / out.size(0)));
  for (int64_t at = 0; at < out.size(0); at += step) {
    const Array from = x.slice(0, at, at + step), to = out.slice(0, at, at + step);
    if (step > 1 || same == 1) {
      body(from, to);
    } else {
      in_parts(from.select(0, 0), to.select(0, 0), padded, body);
    }
  }
}

// A frame of a constant; negative widths cut. The derivative is the opposite frame of zeros.
struct PadConstant : Op {
  static constexpr AutocastRule kAutocast = AutocastRule::fallthrough;
  std::vector<int64_t> padding;  // pairs from the last dimension backwards
  Scalar value;
  PadConstant(std::vector<int64_t> p, Scalar v) : padding(std::move(p)), value(v) {}
  const char* name() const override { return "pad"; }
  Array forward(const Array& x) {
    Shape shape = x.shape();
    Array from = x;
    for (size_t i = 0; i < padding.size(); i += 2) {
      const int dim = x.ndim() - 1 - static_cast<int>(i / 2);
      const int64_t before = padding[i], after = padding[i + 1];
      shape[dim] = framed(x.shape(), dim, before, after);
      const int64_t end = x.size(dim) + std::min<int64_t>(after, 0);
      const int64_t start = std::min(std::max<int64_t>(-before, 0), std::max<int64_t>(end, 0));
      from = from.slice(dim, start, std::max(start, end));
    }
    check(fits(value, x.dtype()), "pad: ", value, " does not fit ", x.dtype());
    if (from.shape() == shape) return from.clone();
    const Array out = Array::empty(shape, x.dtype(), x.device());
    in_parts(from, out, padding.size() / 2, [&](const Array& elements, const Array& whole) {
      Array inner = whole;
      for (size_t i = 0; i < padding.size(); i += 2) {
        const int dim = inner.ndim() - 1 - static_cast<int>(i / 2);
        const int64_t start = std::min(std::max<int64_t>(padding[i], 0), whole.size(dim));
        const int64_t end = std::min(start + elements.size(dim), whole.size(dim));
        inner = inner.slice(dim, start, end);
      }
      core::Backend& device = core::backend(x.device());
      device.run(core::call::Fill{whole, value});
      if (inner.shape() == elements.shape()) device.run(core::call::Copy{elements, inner});
    });
    return out;
  }
  Grads backward(const Tensor& g) override {
    std::vector<int64_t> opposite;
    for (int64_t width : padding) opposite.push_back(-width);
    return {pad(g, opposite)};
  }
};

// The position in a dimension of `size` elements that shows at `at`, which may lie outside.
int64_t mirrored(int64_t at, int64_t size, PadMode mode) {
  if (mode == PadMode::replicate) return std::clamp<int64_t>(at, 0, size - 1);
  if (mode == PadMode::circular) return at < 0 ? at + size : (at < size ? at : at - size);
  if (at < 0) return -at;
  return at < size ? at : 2 * (size - 1) - at;
}

// An Error where a dimension has too few elements to be continued by `most`.
void check_frame(const Shape& shape, int dim, int64_t most, PadMode mode) {
  const int64_t size = shape[dim];
  const char* verb = mode == PadMode::reflect ? "reflecting " : "replicating ";
  if (mode == PadMode::circular) {
    check(most <= size, "pad: repeating ", most, " elements needs as many, but dim ", dim,
          " of shape ", shape, " has ", size);
    return;
  }
  check(mode == PadMode::replicate ? size > 0 : most < size, "pad: ", verb, most,
        " elements needs more than the ", size, " of dim ", dim, " of shape ", shape);
}

// Fills the ends of dimension `dim` of `frame` from the elements between them.
void continue_ends(const Array& frame, int dim, int64_t before, int64_t after, PadMode mode) {
  const int64_t end = frame.size(dim) - after;  // of the elements between them
  const auto part = [&](int64_t first, int64_t last) { return frame.slice(dim, first, last); };
  const auto fill = [&](int64_t first, int64_t last, int64_t from, int64_t from_last) {
    if (first == last) return;
    const Array source = part(from, from_last);
    core::backend(frame.device())
        .run(core::call::Copy{mode == PadMode::reflect ? detail::backwards(source, {dim}) : source,
                              part(first, last)});
  };
  if (mode == PadMode::replicate) {
    fill(0, before, before, before + 1);
    fill(end, end + after, end - 1, end);
  } else if (mode == PadMode::reflect) {
    fill(0, before, before + 1, 2 * before + 1);
    fill(end, end + after, end - 1 - after, end - 1);
  } else {
    fill(0, before, end - before, end);
    fill(end, end + after, before, before + after);
  }
}

// A frame that continues the elements, of widths that are not negative. The last dimension is
// continued first.
struct PadFrame : Op {
  static constexpr AutocastRule kAutocast = AutocastRule::fallthrough;
  std::vector<int64_t> padding;  // pairs from the last dimension backwards
  PadMode mode;
  PadFrame(std::vector<int64_t> p, PadMode m) : padding(std::move(p)), mode(m) {}
  const char* name() const override { return "pad"; }
  Array forward(const Array& x) {
    Shape shape = x.shape();
    for (size_t i = 0; i < padding.size(); i += 2) {
      shape[dim_of(i, x.ndim())] += padding[i] + padding[i + 1];
    }
    const Array out = Array::empty(shape, x.dtype(), x.device());
    in_parts(x, out, padding.size() / 2, [&](const Array& elements, const Array& whole) {
      const Shape& inner = elements.shape();
      core::backend(x.device()).run(core::call::Copy{elements, inside(whole, inner, 0)});
      for (size_t i = 0; i < padding.size(); i += 2) {
        const Array part = inside(whole, inner, i + 2);
        continue_ends(part, dim_of(i, part.ndim()), padding[i], padding[i + 1], mode);
      }
    });
    return out;
  }
  // An element has the sum of the gradients of all places where it stands.
  Grads backward(const Tensor& g) override {
    const Shape& shape = input_shape(0);
    Tensor result = g;
    for (size_t i = padding.size(); i > 0; i -= 2) {
      const int dim = dim_of(i - 2, shape.size());
      const int64_t before = padding[i - 2], size = shape[dim];
      if (before == 0 && padding[i - 1] == 0) continue;
      const Array index = Array::empty({result.size(dim)}, kInt64);
      for (int64_t at = 0; at < index.numel(); ++at) {
        index.data<int64_t>()[at] = mirrored(at - before, size, mode);
      }
      Shape without = result.shape();
      without[dim] = size;
      result = detail::index_zeros(result, without, dim, Tensor(index.to(g.device())));
    }
    return {result};
  }

 private:
  static int dim_of(size_t pair, int ndim) { return ndim - 1 - static_cast<int>(pair / 2); }
  // `out` without the frame of the pairs from `pair` on.
  Array inside(const Array& out, const Shape& shape, size_t pair) const {
    Array part = out;
    for (size_t i = pair; i < padding.size(); i += 2) {
      const int dim = dim_of(i, shape.size());
      part = part.slice(dim, padding[i], padding[i] + shape[dim]);
    }
    return part;
  }
};

// Negative widths cut: where the elements repeat, before they are continued, else afterwards.
Tensor pad_by_position(const Tensor& x, const std::vector<int64_t>& padding, PadMode mode) {
  std::vector<int64_t> frame;
  Tensor source = x;
  bool frames = false, cuts = false;
  for (size_t i = 0; i < padding.size(); i += 2) {
    const int dim = x.ndim() - 1 - static_cast<int>(i / 2);
    int64_t before = padding[i], after = padding[i + 1];
    if (mode == PadMode::circular && std::min(before, after) < 0) {
      const int64_t left =
          framed(x.shape(), dim, std::min<int64_t>(before, 0), std::min<int64_t>(after, 0));
      source = narrow(source, dim, std::max<int64_t>(-before, 0), left);
      before = std::max<int64_t>(before, 0);
      after = std::max<int64_t>(after, 0);
    }
    if (before != 0 || after != 0) {
      check_frame(source.shape(), dim, std::max(before, after), mode);
      framed(source.shape(), dim, before, after);
    }
    frame.insert(frame.end(), {std::max<int64_t>(before, 0), std::max<int64_t>(after, 0)});
    frames |= std::max(before, after) > 0;
    cuts |= std::min(before, after) < 0;
  }
  Tensor result = frames ? record(PadFrame(frame, mode), source) : source;
  if (!cuts) return detail::own_memory(result, x);
  for (size_t i = 0; i < padding.size(); i += 2) {
    const int dim = x.ndim() - 1 - static_cast<int>(i / 2);
    const int64_t first = std::max<int64_t>(-padding[i], 0);
    const int64_t last = result.size(dim) - std::max<int64_t>(-padding[i + 1], 0);
    result = slice(result, dim, first, std::max(first, last));
  }
  return clone(result);
}

}  // namespace

Tensor pad(const Tensor& x, const std::vector<int64_t>& padding, PadMode mode, double value) {
  const detail::Named named("pad", {"x", x});
  detail::check_defined("pad", {{"x", x}});
  check(padding.size() % 2 == 0 && padding.size() <= 2 * static_cast<size_t>(x.ndim()),
        "pad: ", padding.size(), " widths for shape ", x.shape(), "; give pairs, last dim first");
  if (mode != PadMode::constant) return pad_by_position(x, padding, mode);
  return record(PadConstant(padding, value), x);
}

}  // namespace hero
