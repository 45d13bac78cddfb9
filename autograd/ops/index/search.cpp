// Binary searches in sorted numbers, and counts of values.
#include <cmath>
#include <limits>
#include <mutex>

#include <hero/autograd/ops/creation/creation.h>
#include <hero/autograd/ops/detail/defined.h>
#include <hero/autograd/ops/detail/named.h>
#include <hero/autograd/ops/detail/number.h>
#include <hero/autograd/ops/detail/place.h>
#include <hero/autograd/ops/elementwise/elementwise.h>
#include <hero/autograd/ops/index/index.h>
#include <hero/autograd/ops/reduce/reduce.h>
#include <hero/autograd/ops/shape/shape.h>
#include <hero/core/array/promotion.h>
#include <hero/core/device/kernel_traits.h>
#include <hero/core/functions/indexing.h>
#include <hero/core/thread_pool.h>

namespace hero {

namespace {

DType common_of(const Tensor& a, const Tensor& b) {
  Promotion promotion;
  promotion.add(a.dtype(), a.ndim());
  promotion.add(b.dtype(), b.ndim());
  return promotion.dtype();
}

Tensor nan_to_inf(const Tensor& x) {
  return where(isnan(x), std::numeric_limits<double>::infinity(), x);
}

// True where a row of x [N, ..] differs from the one before it, and for the first.
Tensor beginnings(const Tensor& x) {
  Tensor differs = slice(x, 0, 1) != slice(x, 0, 0, -1);
  if (x.ndim() > 1) differs = any(flatten(differs, 1), 1);
  return cat({ones({1}, {.dtype = kBool, .device = x.device()}), differs});
}

// The order that sorts the rows of x [N, M], the first column counting most: stable sorts from the
// last column to the first.
Tensor order_of_rows(const Tensor& x) {
  Tensor order(detail::positions(x.size(0), x.device()));
  for (int64_t column = x.size(1) - 1; column >= 0; --column) {
    const Tensor keys = index_select(select(x, 1, column), 0, order);
    order = index_select(order, 0, argsort(keys, 0));
  }
  return order;
}

// Of x whose equal rows are neighbours, and which came from the rows `order` of another tensor.
Unique counted_runs(const Tensor& x, const Tensor& order, const UniqueOptions& options) {
  const int64_t count = x.size(0);
  if (count == 0) {
    const Tensor none = zeros({0}, {.dtype = kInt64, .device = x.device()});
    return {x, options.return_inverse ? none : Tensor(), options.return_counts ? none : Tensor()};
  }
  const Tensor first = beginnings(x), starts = ravel(nonzero(first));
  Unique result{index_select(x, 0, starts), {}, {}};
  if (options.return_inverse) {
    const Tensor run = cumsum(first.to(kInt64), 0) - 1;
    result.inverse = order.defined() ? scatter(zeros_like(run), 0, order, run) : run;
  }
  if (options.return_counts) {
    const Tensor end = full({1}, count, {.dtype = kInt64, .device = x.device()});
    result.counts = cat({slice(starts, 0, 1), end}) - starts;
  }
  return result;
}

Unique runs_of(const Tensor& x, const UniqueOptions& options, bool sorts) {
  const NoGrad no_grad;
  if (!options.dim) {
    const Tensor flat = ravel(x.detach());
    Unique result;
    if (sorts) {
      const ValuesIndices ordered = sort(flat, 0);
      result = counted_runs(ordered.values, ordered.indices, options);
    } else {
      result = counted_runs(flat, {}, options);
    }
    if (options.return_inverse) result.inverse = reshape(result.inverse, x.shape());
    return result;
  }
  const int dim = normalize_dim("unique", *options.dim, x.ndim());
  check(x.ndim() > 0, "unique: a single number has no dim ", *options.dim);
  const Tensor rows = movedim(x.detach(), dim, 0);
  const int64_t width = rows.size(0) == 0 ? 1 : rows.numel() / rows.size(0);
  check(rows.numel() > 0 || rows.size(0) == 0, "unique: slices of shape ", x.shape(), " along dim ",
        dim, " have no elements");
  Tensor order;
  if (sorts) order = order_of_rows(reshape(rows, {rows.size(0), width}));
  const Tensor ordered = sorts ? index_select(rows, 0, order) : contiguous(rows);
  Unique result = counted_runs(ordered, order, options);
  result.values = contiguous(movedim(result.values, 0, dim));
  return result;
}

}  // namespace

// All values are searched at once, in the steps of PyTorch's search, so that numbers that are not
// in order, such as NaN among others, give the same positions.
Tensor searchsorted(const Tensor& sorted, const Tensor& values, const SearchOptions& options) {
  detail::check_defined("searchsorted", {{"sorted", sorted}, {"values", values}});
  const NoGrad no_grad;
  check(sorted.ndim() > 0, "searchsorted: the sorted numbers need a dimension");
  check(!options.sorter.defined() || options.sorter.shape() == sorted.shape(),
        "searchsorted: the sorter's shape differs from that of the numbers, ", sorted.shape());
  const Shape shape = values.shape();
  const DType common = common_of(sorted, values);
  Tensor rows = sorted.detach().to(common), wanted = values.detach().to(common);
  if (options.sorter.defined()) rows = gather(rows, -1, options.sorter);
  if (rows.ndim() == 1) {
    wanted = ravel(wanted);
  } else {
    Shape of_rows = rows.shape(), of_values = shape;
    if (!of_values.empty()) of_rows.back() = of_values.back() = 0;
    check(of_rows == of_values, "searchsorted: sorted numbers of shape ", rows.shape(),
          " and values of shape ", shape, " differ in their leading dimensions");
  }
  const int64_t numbers = rows.size(-1);
  const TensorOptions places{.dtype = kInt64, .device = values.device()};
  Tensor low = zeros(wanted.shape(), places), high = full(wanted.shape(), numbers, places);
  for (int64_t widest = numbers; widest > 0; widest /= 2) {
    const Tensor middle = low + ((high - low) >> 1), at = clamp(middle, {}, numbers - 1);
    const Tensor number = rows.ndim() == 1 ? index_select(rows, 0, at) : gather(rows, -1, at);
    const Tensor stays = options.right ? number > wanted : number >= wanted;
    const Tensor is_open = low < high;
    high = where(logical_and(is_open, stays), middle, high);
    low = where(logical_and(is_open, logical_not(stays)), middle + 1, low);
  }
  const Tensor result = reshape(low, shape);
  return options.out_int32 ? result.to(kInt32) : result;
}

Tensor searchsorted(const Tensor& sorted, Scalar value, const SearchOptions& options) {
  detail::check_defined("searchsorted", {{"sorted", sorted}});
  check(sorted.ndim() == 1, "searchsorted: one number needs sorted numbers of one dimension: got ",
        sorted.shape());
  // 2.5 lies between integers, and -1 and 300 outside of all bytes.
  const DType common = promote(sorted.dtype(), value),
              dtype = is_floating(common) ? common : kInt64;
  return searchsorted(sorted.to(dtype), detail::number_of_dtype(value, dtype, sorted.device()),
                      options);
}

Tensor bucketize(const Tensor& x, const Tensor& boundaries, const SearchOptions& options) {
  const detail::Named named("bucketize", {"x", x}, {"boundaries", boundaries});
  detail::check_defined("bucketize", {{"x", x}, {"boundaries", boundaries}});
  check(boundaries.ndim() == 1, "bucketize: boundaries must be a vector: got shape ",
        boundaries.shape());
  const DType common = common_of(x, boundaries);
  return searchsorted(boundaries.to(common), x.to(common), options);
}

Tensor isin(const Tensor& elements, const Tensor& test_elements, bool invert) {
  detail::check_defined("isin", {{"elements", elements}, {"test_elements", test_elements}});
  const NoGrad no_grad;
  const DType common = common_of(elements, test_elements);
  const Tensor wanted = elements.detach().to(common);
  if (test_elements.numel() == 0) return invert ? wanted == wanted : wanted != wanted;
  const Tensor ordered = sort(ravel(test_elements.detach().to(common)), 0).values;
  // NaN is equal to nothing, but may not stand in the search's way.
  const Tensor searched = is_floating(common) ? nan_to_inf(ordered) : ordered;
  const Tensor at = clamp(searchsorted(searched, wanted), {}, ordered.numel() - 1);
  const Tensor found = reshape(index_select(ordered, 0, ravel(at)), wanted.shape()) == wanted;
  return invert ? logical_not(found) : found;
}

Unique unique(const Tensor& x, const UniqueOptions& options) {
  detail::check_defined("unique", {{"x", x}});
  return runs_of(x, options, true);
}
Unique unique_consecutive(const Tensor& x, const UniqueOptions& options) {
  const detail::Named named("unique_consecutive", {"x", x});
  detail::check_defined("unique_consecutive", {{"x", x}});
  return runs_of(x, options, false);
}

namespace {

// How often bin(i) is each of the numbers below `size`, for i below n; what lies outside is no bin.
template <class Bin>
Tensor counts_of(int64_t n, int64_t size, const Bin& bin) {
  const Array counts = Array::zeros({size}, kInt64);
  auto* const total = size > 0 ? counts.data<int64_t>() : nullptr;
  const auto count = [&](int64_t begin, int64_t end, int64_t* to) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t k = bin(i);
      if (static_cast<uint64_t>(k) < static_cast<uint64_t>(size)) ++to[k];
    }
  };
  // Parts so long that their own counts are few beside their elements.
  const int64_t part = std::max<int64_t>(65536, 4 * size);
  if (n <= part) {
    count(0, n, total);
    return Tensor(counts);
  }
  std::mutex adding;
  parallel_for(n, part, [&](int64_t begin, int64_t end) {
    std::vector<int64_t> own(static_cast<size_t>(size));
    count(begin, end, own.data());
    const std::scoped_lock lock(adding);
    for (size_t k = 0; k < own.size(); ++k) total[k] += own[k];
  });
  return Tensor(counts);
}

// How often each of the numbers below `size` is in x, read as it lies.
template <class T>
Tensor counts_of_each(const Array& x, int64_t size) {
  const T* number = x.numel() > 0 ? x.data<T>() : nullptr;
  return counts_of(x.numel(), size, [=](int64_t i) { return static_cast<int64_t>(number[i]); });
}

}  // namespace

Tensor bincount(const Tensor& x, const Tensor& weights, int64_t minlength) {
  const detail::Named named("bincount", {"x", x});
  detail::check_defined("bincount", {{"x", x}});
  const NoGrad no_grad;
  check(x.ndim() == 1, "bincount: needs a vector: got shape ", x.shape());
  check(kind(x.dtype()) == kind(kInt64), "bincount: needs integers: got ", x.dtype());
  check(minlength >= 0, "bincount: minlength is negative: ", minlength);
  check(!weights.defined() || weights.shape() == x.shape(), "bincount: weights of shape ",
        weights.defined() ? weights.shape() : Shape(), " for ", x.numel(), " numbers");
  int64_t size = minlength;
  if (x.numel() > 0) {
    const int64_t least = min(x.detach()).item<int64_t>();
    check(least >= 0, "bincount: ", least, " is negative");
    const int64_t most = max(x.detach()).item<int64_t>();
    check(most < std::numeric_limits<int64_t>::max(), "bincount: ", most,
          " is too large: there is a count for each number up to it");
    size = std::max(size, most + 1);
  }
  if (!weights.defined() && core::is_host_memory(x.device())) {
    const core::Array dense = x.array().contiguous();
    if (dense.dtype() == kUInt8) return counts_of_each<uint8_t>(dense, size);
    if (dense.dtype() == kInt32) return counts_of_each<int32_t>(dense, size);
    return counts_of_each<int64_t>(dense.to(kInt64), size);
  }
  const Tensor numbers = x.to(kInt64);
  DType dtype = kInt64;
  if (weights.defined()) dtype = weights.dtype() == kFloat32 ? kFloat32 : kFloat64;
  const Tensor added = weights.defined() ? weights.detach().to(dtype) : ones_like(numbers);
  return index_add(zeros({size}, {.dtype = dtype, .device = x.device()}), 0, numbers, added);
}

Tensor histc(const Tensor& x, int64_t bins, double low, double high) {
  const detail::Named named("histc", {"x", x});
  detail::check_defined("histc", {{"x", x}});
  const NoGrad no_grad;
  check(is_floating(x.dtype()), "histc: needs floats: got ", x.dtype());
  check(bins > 0, "histc: ", bins, " bins; there must be one at least");
  check(low <= high && std::isfinite(low) && std::isfinite(high), "histc: no range from ", low,
        " to ", high);
  const Tensor flat = ravel(x.detach());
  if (!core::has_values(x.device())) {
    return zeros({bins}, {.dtype = x.dtype(), .device = x.device()});
  }
  if (low == high && flat.numel() > 0) {
    low = min(flat).item();
    high = max(flat).item();
    check(std::isfinite(low) && std::isfinite(high), "histc: no range from ", low, " to ", high);
  }
  if (low == high) {
    low -= 1.0;
    high += 1.0;
  }
  // In this order, as PyTorch has it: what lies on an edge should go to the same side.
  const auto count = static_cast<double>(bins), width = high - low;
  if (core::is_host_memory(x.device())) {
    const core::Array wide = Array::empty(flat.shape(), kFloat64);
    core::backend(kCpu).run(core::call::Copy{flat.array(), wide});
    const double* value = wide.numel() > 0 ? wide.data<double>() : nullptr;
    // x is compared in its own type.
    const bool narrow = x.dtype() != kFloat64;
    const double from = narrow ? static_cast<float>(low) : low;
    const double to = narrow ? static_cast<float>(high) : high;
    return counts_of(wide.numel(), bins,
                     [=](int64_t i) -> int64_t {
                       if (!(value[i] >= from && value[i] <= to)) return -1;
                       const double bin = (value[i] - low) * count / width;
                       return static_cast<int64_t>(std::clamp(bin, 0.0, count - 1.0));
                     })
        .to(x.dtype());
  }
  const Tensor inside = masked_select(flat, logical_and(flat >= low, flat <= high)).to(kFloat64);
  const Tensor bin = floor((inside - low) * count / width);
  const Tensor counts =
      bincount(clamp(bin, 0.0, static_cast<double>(bins - 1)).to(kInt64), {}, bins);
  return counts.to(x.dtype());
}

std::vector<Tensor> unravel_index(const Tensor& x, const Shape& shape) {
  const detail::Named named("unravel_index", {"x", x});
  detail::check_defined("unravel_index", {{"x", x}});
  check(!is_floating(x.dtype()) && x.dtype() != kBool, "unravel_index: indices are ", x.dtype(),
        "; they must be integers");
  for (const int64_t size : shape) {
    check(size > 0 || (size == 0 && x.numel() == 0), "unravel_index: shape ", shape,
          size < 0 ? " has a negative size" : " has no elements, and there are indices");
  }
  std::vector<Tensor> places(static_cast<size_t>(shape.size()));
  Tensor left = x.to(kInt64);
  for (int i = shape.size() - 1; i >= 0; --i) {
    places[static_cast<size_t>(i)] = remainder(left, shape[i]);
    left = floor_divide(left, shape[i]);
  }
  return places;
}

}  // namespace hero
