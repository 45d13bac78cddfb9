// Grids, tuples and lists of indices.
#include <algorithm>
#include <cmath>

#include <hero/autograd/ops/creation/creation.h>
#include <hero/autograd/ops/detail/defined.h>
#include <hero/autograd/ops/detail/named.h>
#include <hero/autograd/ops/detail/place.h>
#include <hero/autograd/ops/elementwise/elementwise.h>
#include <hero/autograd/ops/index/index.h>
#include <hero/autograd/ops/reduce/reduce.h>
#include <hero/autograd/ops/shape/shape.h>
#include <hero/core/array/checked.h>
#include <hero/core/device/kernel_traits.h>
#include <hero/core/memory/allocator.h>

namespace hero {

namespace {

// a + b and a - b, or the nearest number of 64 bits.
int64_t moved_by(int64_t a, int64_t b) {
  int64_t sum = 0;
  if (!__builtin_add_overflow(a, b, &sum)) return sum;
  return b < 0 ? std::numeric_limits<int64_t>::min() : std::numeric_limits<int64_t>::max();
}
int64_t moved_back(int64_t a, int64_t b) {
  int64_t difference = 0;
  if (!__builtin_sub_overflow(a, b, &difference)) return difference;
  return b > 0 ? std::numeric_limits<int64_t>::min() : std::numeric_limits<int64_t>::max();
}

enum class Side { lower, upper };

// Rows and columns of the elements on one side of the diagonal that begins at column `offset`.
Tensor triangle(const char* op, Side side, int64_t rows, int64_t columns, int64_t offset,
                Device device) {
  const detail::Named named(op);
  check(rows >= 0 && columns >= 0, op, ": negative sizes ", rows, " and ", columns);
  const bool upper = side == Side::upper;
  const auto row = [rows](int64_t at) { return std::clamp<int64_t>(at, 0, rows); };
  // Rows begin to end - 1 have elements. Those from `cut` to `cut_end` lack some columns.
  int64_t begin = 0, end = columns == 0 ? 0 : rows, cut = 0, cut_end = 0;
  if (upper) {
    end = std::min(end, row(moved_back(columns, offset)));
    cut = std::min(end, row(moved_back(1, offset)));
    cut_end = end;
  } else {
    begin = cut = std::min(end, row(moved_back(0, offset)));
    cut_end = std::clamp(row(moved_back(columns - 1, offset)), begin, end);
  }
  const auto first = [=](int64_t i) {
    return upper ? std::clamp<int64_t>(moved_by(i, offset), 0, columns) : 0;
  };
  const auto last = [=](int64_t i) {
    return upper ? columns : std::clamp<int64_t>(moved_by(i, offset), -1, columns - 1) + 1;
  };
  core::Checked count = core::Checked{op, end - begin - (cut_end - cut)} * columns;
  if (cut < cut_end) {  // an arithmetic series
    const core::Checked ends = core::Checked{op, last(cut) - first(cut)} + last(cut_end - 1);
    count = count + ((ends - first(cut_end - 1)) * (cut_end - cut)).value / 2;
  }
  const bool planned = !core::has_values(device);
  const Array places = Array::empty({2, count.value}, kInt64, planned ? device : kCpu);
  if (planned) return Tensor(places);
  int64_t* row_of = places.data<int64_t>();
  int64_t* column_of = row_of + count.value;
  for (int64_t i = begin; i < end; ++i) {
    for (int64_t j = first(i), stop = last(i); j < stop; ++j) {
      *row_of++ = i;
      *column_of++ = j;
    }
  }
  return Tensor(places).to(device);
}

// How many choices of r elements of n there are.
int64_t choices(const char* op, int64_t n, int64_t r, bool again) {
  if (again && n > 0) n = (core::Checked{op, n} + (r - 1)).value;
  if (r > n) return 0;
  const int64_t fewer = std::min(r, n - r);
  core::Checked count{op, 1};
  for (int64_t i = 0; i < fewer; ++i) count = {op, (count * (n - i)).value / (i + 1)};
  return count.value;
}

// Positions of r elements of n, in their order: a list for each of the r.
std::vector<std::vector<int64_t>> choose(int64_t n, int64_t r, bool again) {
  std::vector<std::vector<int64_t>> all(static_cast<size_t>(r));
  std::vector<int64_t> chosen(static_cast<size_t>(r));
  const int64_t apart = again ? 0 : 1;
  for (int64_t i = 0; i < r; ++i) chosen[static_cast<size_t>(i)] = i * apart;
  while (true) {
    for (size_t i = 0; i < chosen.size(); ++i) all[i].push_back(chosen[i]);
    // The last one that can move does, and those behind it follow closely.
    int64_t at = r - 1;
    while (at >= 0 && chosen[static_cast<size_t>(at)] == n - 1 - (r - 1 - at) * apart) --at;
    if (at < 0) return all;
    int64_t value = chosen[static_cast<size_t>(at)] + 1;
    for (; at < r; ++at, value += apart) chosen[static_cast<size_t>(at)] = value;
  }
}

}  // namespace

std::vector<Tensor> meshgrid(const std::vector<Tensor>& tensors, Indexing indexing) {
  detail::check_defined("meshgrid", tensors);
  check(!tensors.empty(), "meshgrid: no tensors");
  Shape shape;
  for (const Tensor& tensor : tensors) {
    check(tensor.ndim() <= 1, "meshgrid: needs vectors: got shape ", tensor.shape());
    check(tensor.dtype() == tensors[0].dtype(), "meshgrid: tensors of ", tensors[0].dtype(),
          " and ", tensor.dtype(), "; convert with to()");
    shape.push_back(tensor.numel());
  }
  const int count = shape.size();
  std::vector<Tensor> grids;
  for (int i = 0; i < count; ++i) {
    Shape own = Shape::filled(count, 1);
    own[i] = shape[i];
    const Tensor grid = expand(reshape(tensors[static_cast<size_t>(i)], own), shape);
    grids.push_back(indexing == Indexing::xy && count > 1 ? transpose(grid, 0, 1) : grid);
  }
  return grids;
}

Tensor cartesian_prod(const std::vector<Tensor>& tensors) {
  const detail::Named named("cartesian_prod");
  detail::check_defined("cartesian_prod", tensors);
  for (const Tensor& tensor : tensors) {
    check(tensor.ndim() == 1, "cartesian_prod: needs vectors: got shape ", tensor.shape());
  }
  if (tensors.size() == 1) return tensors[0];
  std::vector<Tensor> columns;
  for (const Tensor& grid : meshgrid(tensors)) columns.push_back(ravel(grid));
  return stack(columns, 1);
}

Tensor combinations(const Tensor& x, int64_t r, bool with_replacement) {
  detail::check_defined("combinations", {{"x", x}});
  check(x.ndim() == 1, "combinations: needs a vector: got shape ", x.shape());
  check(r >= 0, "combinations: of ", r, " elements");
  if (r == 0) return slice(x, 0, 0, 0);
  const int64_t count = choices("combinations", x.numel(), r, with_replacement);
  core::check_room("combinations", r);
  core::check_room("combinations", (core::Checked{"combinations", r} * count).value / 16);
  if (count == 0) return reshape(slice(x, 0, 0, 0), {0, r});
  std::vector<Tensor> columns;
  for (const auto& column : choose(x.numel(), r, with_replacement)) {
    columns.push_back(index_select(x, 0, tensor(column).to(x.device())));
  }
  return stack(columns, 1);
}

Tensor tril_indices(int64_t rows, int64_t columns, int64_t offset, Device device) {
  return triangle("tril_indices", Side::lower, rows, columns, offset, device);
}
Tensor triu_indices(int64_t rows, int64_t columns, int64_t offset, Device device) {
  return triangle("triu_indices", Side::upper, rows, columns, offset, device);
}

Tensor vander(const Tensor& x, std::optional<int64_t> n, bool increasing) {
  const detail::Named named("vander", {"x", x});
  detail::check_defined("vander", {{"x", x}});
  check(x.ndim() >= 1, "vander: needs a vector: got shape ", x.shape());
  const int64_t columns = n.value_or(x.size(-1));
  check(columns >= 0, "vander: negative number of columns ", columns);
  const Tensor powers(detail::positions(columns, x.device()));
  const Tensor exponents = increasing ? powers : flip(powers, {0});
  const Tensor bases = unsqueeze(is_floating(x.dtype()) ? x : x.to(kInt64), -1);
  return pow(bases, exponents.to(bases.dtype()));
}

}  // namespace hero
