// scatter_reduce() and bags of embeddings, which use it.
#include <algorithm>
#include <limits>

#include <hero/autograd/ops/autocast.h>
#include <hero/autograd/ops/creation/creation.h>
#include <hero/autograd/ops/detail/defined.h>
#include <hero/autograd/ops/detail/in_float32.h>
#include <hero/autograd/ops/detail/named.h>
#include <hero/autograd/ops/detail/place.h>
#include <hero/autograd/ops/elementwise/elementwise.h>
#include <hero/autograd/ops/index/index.h>
#include <hero/autograd/ops/index/written.h>
#include <hero/autograd/ops/reduce/reduce.h>
#include <hero/autograd/ops/shape/shape.h>
#include <hero/core/array/promotion.h>
#include <hero/core/functions/indexing.h>

namespace hero {

namespace {

using core::ScatterMode;

// What a reduction of nothing gives.
Scalar neutral(ScatterReduce reduce, DType dtype) {
  if (reduce == ScatterReduce::prod) return 1;
  if (reduce == ScatterReduce::sum || reduce == ScatterReduce::mean) return 0;
  const bool largest = reduce == ScatterReduce::amax;
  if (is_floating(dtype)) {
    const double infinity = std::numeric_limits<double>::infinity();
    return largest ? -infinity : infinity;
  }
  Scalar bound;
  dispatch(dtype, [&]<class T>(TypeTag<T>) {
    if constexpr (std::is_same_v<T, bool>) {
      bound = !largest;
    } else if constexpr (std::is_integral_v<T>) {
      bound = static_cast<int64_t>(largest ? std::numeric_limits<T>::lowest()
                                           : std::numeric_limits<T>::max());
    }
  });
  return bound;
}

// The largest, smallest or product of x and what of src goes to the same place.
struct ScatterExtreme : Op {
  static constexpr AutocastRule kAutocast = AutocastRule::promote;
  static constexpr unsigned kSaveInputs = 0b111;
  static constexpr unsigned kSaveOutputs = 1;
  ScatterMode mode;
  int dim;
  bool include_self;  // false: where src goes, x is a filling that has no gradient
  ScatterExtreme(ScatterMode m, int d, bool with_x = true)
      : mode(m), dim(d), include_self(with_x) {}
  const char* name() const override { return "scatter_reduce"; }
  Array forward(const Array& x, const Array& index, const Array& src) {
    return core::scatter(mode, x, dim, index, src);
  }
  Grads backward(const Tensor& g) override {
    const Tensor x = input(0), index = input(1), y = output();
    // A source may be larger than its index.
    Tensor src = input(2);
    for (int i = 0; i < src.ndim(); ++i) src = narrow(src, i, 0, index.size(i));
    const Grads found = mode == ScatterMode::multiply ? of_product(g, x, index, src, y)
                                                      : of_extreme(g, x, index, src, y);
    std::vector<int64_t> frame;
    for (int i = src.ndim() - 1; i >= 0; --i) {
      frame.push_back(0);
      frame.push_back(input_shape(2)[i] - src.size(i));
    }
    return {found[0], Tensor(), pad(found[1], frame)};
  }

 private:
  // All that are equal to the result share its gradient; where the result is NaN, all that took
  // part have the gradient NaN, as in PyTorch.
  Grads of_extreme(const Tensor& g, const Tensor& x, const Tensor& index, const Tensor& src,
                   const Tensor& y) const {
    const Tensor is_nan = isnan(y.detach());
    Tensor chosen_x = logical_or(x.detach() == y.detach(), is_nan);
    if (!include_self) {
      const Tensor untouched = scatter(ones_like(chosen_x), dim, index, zeros_like(src).to(kBool));
      chosen_x = logical_and(chosen_x, untouched);
    }
    const Tensor chosen_src =
        logical_or(src.detach() == gather(y.detach(), dim, index), gather(is_nan, dim, index));
    const Tensor count = scatter_add(chosen_x.to(g.dtype()), dim, index, chosen_src.to(g.dtype()));
    const Tensor part =
        where(is_nan, std::numeric_limits<double>::quiet_NaN(), g / where(count == 0, 1, count));
    return {where(chosen_x, part, 0), where(chosen_src, gather(part, dim, index), 0)};
  }

  // The product of the others: the result over the factor, or, where one factor alone is 0, the
  // product without it. Where two are 0, the product without them times the other one, which is 0
  // but has a derivative: the sum of zeros without the factor's own. A product with a zero among
  // finite factors is 0, also where the rest left the range and inf times 0 is NaN.
  Grads of_product(const Tensor& g, const Tensor& x, const Tensor& index, const Tensor& src,
                   const Tensor& y) const {
    const Tensor zero_x = x == 0, zero_src = src == 0;
    const Tensor zeros_at = scatter_add(zero_x.to(kInt64), dim, index, zero_src.to(kInt64));
    const Tensor without = record(ScatterExtreme(ScatterMode::multiply, dim), where(zero_x, 1, x),
                                  index, where(zero_src, 1, src));
    const Tensor sum_of_zeros =
        scatter_add(where(zero_x, x, 0), dim, index, where(zero_src, src, 0));
    const auto not_finite = [](const Tensor& factor) {
      return logical_not(isfinite(factor)).to(kInt64);
    };
    const Tensor finite = scatter_add(not_finite(x), dim, index, not_finite(src)) == 0;
    const Tensor lost_whole = logical_and(logical_and(isnan(y), zeros_at > 0), finite);
    const Tensor lost_rest = logical_and(logical_and(isinf(without), zeros_at > 1), finite);
    const Tensor whole_at = where(lost_whole, 0, y), rest_at = where(lost_rest, 0, without);
    const auto others = [](const Tensor& factor, const Tensor& zero, const Tensor& zeros,
                           const Tensor& whole, const Tensor& rest, const Tensor& sum) {
      const Tensor plain = whole / where(zero, 1, factor);
      const Tensor both = where(zeros == 2, rest * (sum - factor), 0);
      return where(zero, where(zeros == 1, rest, both), plain);
    };
    const auto there = [&](const Tensor& at) { return gather(at, dim, index); };
    return {g * others(x, zero_x, zeros_at, whole_at, rest_at, sum_of_zeros),
            there(g) * others(src, zero_src, there(zeros_at), there(whole_at), there(rest_at),
                              there(sum_of_zeros))};
  }
};

Tensor with_a_dimension(const Tensor& x) { return x.ndim() > 0 ? x : reshape(x, {1}); }

}  // namespace

Tensor detail::scatter_reduce(Into into, const Tensor& x, int64_t dim, const Tensor& index,
                              const Tensor& src, ScatterReduce reduce, bool include_self) {
  const Named named("scatter_reduce", {"x", x}, {"index", index}, {"src", src});
  check_defined("scatter_reduce", {{"x", x}, {"index", index}, {"src", src}});
  if (const AutocastInputs in(AutocastRule::promote, x, src); in.changed()) {
    return scatter_reduce(into, in[0], dim, index, in[1], reduce, include_self);
  }
  constexpr auto kName = "scatter_reduce";
  const int axis = normalize_dim(kName, dim, x.ndim());
  check(x.dtype() == src.dtype(), kName, ": src is ", src.dtype(), ", x is ", x.dtype(),
        "; convert with to()");
  check(index.dtype() == kInt64 || index.dtype() == kInt32, kName, ": the index is ", index.dtype(),
        "; it must be int64 or int32");
  if (index.numel() == 0) return written(into, ScatterMode::add, x, dim, index, src);
  const bool rounds = reduce == ScatterReduce::mean || reduce == ScatterReduce::prod;
  if (rounds && any_half(x)) {
    return in_float32(kName, AutocastRule::promote, {x, index, src}, [=](const auto& in) {
      return scatter_reduce(Into::copy, in[0], dim, in[1], in[2], reduce, include_self);
    });
  }
  const Tensor line = with_a_dimension(x);
  Tensor place = with_a_dimension(index).detach().to(kInt64), source = with_a_dimension(src);
  if (into == Into::memory) {  // there are several writes: what lies in x is read before the first
    const auto& memory = x.array().storage_ref();
    if (place.array().storage_ref() == memory) place = place.clone();
    if (source.array().storage_ref() == memory) source = source.clone();
  }
  const TensorOptions integers{.dtype = kInt64, .device = x.device()};
  Tensor base = line;
  if (!include_self) {
    // Of the source's shape: what does not fit together is told before anything is written.
    const Scalar nothing = neutral(reduce, x.dtype());
    const Tensor filling =
        expand(full({}, nothing, {.dtype = x.dtype(), .device = src.device()}), source.shape());
    base = written(into, ScatterMode::assign, line, axis, place, filling);
  }
  Tensor result;
  if (reduce == ScatterReduce::sum || reduce == ScatterReduce::mean) {
    result = written(into, ScatterMode::add, base, axis, place, source);
    if (reduce == ScatterReduce::mean) {
      const Tensor own = full(line.shape(), include_self ? 1 : 0, integers);
      const Tensor found = scatter_add(own, axis, place, ones(place.shape(), integers));
      const Tensor count = clamp(found, 1, {}).to(x.dtype());
      result = is_floating(x.dtype()) ? result / count : floor_divide(result, count);
    }
  } else {
    const ScatterMode mode = reduce == ScatterReduce::prod   ? ScatterMode::multiply
                             : reduce == ScatterReduce::amax ? ScatterMode::maximum
                                                             : ScatterMode::minimum;
    result = into == Into::copy
                 ? record(ScatterExtreme(mode, axis, include_self), base, place, source)
                 : written(into, mode, base, axis, place, source);
  }
  return reshape(result, x.shape());
}

Tensor scatter_reduce(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& src,
                      ScatterReduce reduce, bool include_self) {
  return detail::scatter_reduce(detail::Into::copy, x, dim, index, src, reduce, include_self);
}

Tensor scatter(const Tensor& x, int64_t dim, const Tensor& index, Scalar value,
               ScatterReduce reduce) {
  const detail::Named named("scatter", {"x", x}, {"index", index});
  detail::check_defined("scatter", {{"x", x}, {"index", index}});
  check(fits(value, x.dtype()), "scatter: ", value, " does not fit ", x.dtype());
  const TensorOptions options{.dtype = x.dtype(), .device = x.device()};
  return scatter_reduce(x, dim, index, full(index.shape(), value, options), reduce);
}

Tensor index_reduce(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& src,
                    ScatterReduce reduce, bool include_self) {
  const detail::Named named("index_reduce", {"x", x}, {"index", index}, {"src", src});
  detail::check_defined("index_reduce", {{"x", x}, {"index", index}, {"src", src}});
  const int axis = normalize_dim("index_reduce", dim, std::max(x.ndim(), 1));
  if (x.ndim() == 0 || index.ndim() == 0) {
    // Single numbers count as vectors of one.
    const auto vector = [](const Tensor& t) { return t.ndim() == 0 ? reshape(t, {1}) : t; };
    const Tensor found =
        index_reduce(vector(x), axis, vector(index), vector(src), reduce, include_self);
    return reshape(found, x.shape());
  }
  check(index.ndim() == 1 && src.ndim() == x.ndim(),
        "index_reduce: needs an index [N] and slices of x: got shapes ", index.shape(), ", ",
        src.shape(), " and ", x.shape());
  Shape along = Shape::filled(x.ndim(), 1), slices = x.shape();
  along[axis] = slices[axis] = index.size(0);
  check(src.shape() == slices, "index_reduce: slices of shape ", slices,
        " expected: src has shape ", src.shape());
  return scatter_reduce(x, axis, expand(reshape(index, along), slices), src, reduce, include_self);
}

}  // namespace hero
