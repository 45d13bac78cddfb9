// Grids, tuples and lists of indices.
#include <algorithm>
#include <cmath>

#include <hero/autograd/ops/defined.h>
#include <hero/autograd/ops/named.h>
#include <hero/autograd/ops/place.h>
#include <hero/autograd/shape_ops.h>
#include <hero/core/allocator.h>
#include <hero/core/checked.h>

namespace hero {

namespace {

// Rows and columns of those elements of a matrix that `wanted` names, on the host.
template <class Wanted>
Tensor triangle(const char* op, int64_t rows, int64_t columns, Device device, Wanted&& wanted) {
  check(rows >= 0 && columns >= 0, op, ": negative sizes ", rows, " and ", columns);
  std::vector<int64_t> row, column;
  core::check_room(op, (core::Checked{op, rows} * columns).value);
  for (int64_t i = 0; i < rows; ++i) {
    const auto [first, last] = wanted(i);
    for (int64_t j = first; j < last; ++j) {
      row.push_back(i);
      column.push_back(j);
    }
  }
  return stack({tensor(row), tensor(column)}).to(device);
}

struct ColumnRange {
  int64_t first, last;
};

// i + offset where that may be beyond 64 bits.
int64_t moved_by(int64_t i, int64_t offset) {
  int64_t sum = 0;
  if (!__builtin_add_overflow(i, offset, &sum)) return sum;
  return offset < 0 ? std::numeric_limits<int64_t>::min() : std::numeric_limits<int64_t>::max();
}

// Positions of r elements of n, in their order.
void choose(int64_t n, int64_t r, bool again, std::vector<int64_t>& chosen,
            std::vector<std::vector<int64_t>>& all) {
  if (static_cast<int64_t>(chosen.size()) == r) {
    for (size_t i = 0; i < chosen.size(); ++i) all[i].push_back(chosen[i]);
    return;
  }
  const int64_t first = chosen.empty() ? 0 : chosen.back() + (again ? 0 : 1);
  for (int64_t i = first; i < n; ++i) {
    chosen.push_back(i);
    choose(n, r, again, chosen, all);
    chosen.pop_back();
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

Tensor cartesian_prod(const std::vector<Tensor>& tensors) try {
  detail::check_defined("cartesian_prod", tensors);
  for (const Tensor& tensor : tensors) {
    check(tensor.ndim() == 1, "cartesian_prod: needs vectors: got shape ", tensor.shape());
  }
  if (tensors.size() == 1) return tensors[0];
  std::vector<Tensor> columns;
  for (const Tensor& grid : meshgrid(tensors)) columns.push_back(ravel(grid));
  return stack(columns, 1);
} catch (const Error& error) {
  detail::name_op(error, "cartesian_prod", {});
}

Tensor combinations(const Tensor& x, int64_t r, bool with_replacement) {
  detail::check_defined("combinations", {{"x", x}});
  check(x.ndim() == 1, "combinations: needs a vector: got shape ", x.shape());
  check(r >= 0, "combinations: of ", r, " elements");
  if (r == 0) return slice(x, 0, 0, 0);
  std::vector<std::vector<int64_t>> positions(static_cast<size_t>(r));
  std::vector<int64_t> chosen;
  choose(x.numel(), r, with_replacement, chosen, positions);
  std::vector<Tensor> columns;
  for (const auto& column : positions) {
    columns.push_back(index_select(x, 0, tensor(column).to(x.device())));
  }
  return stack(columns, 1);
}

Tensor tril_indices(int64_t rows, int64_t columns, int64_t offset, Device device) {
  return triangle("tril_indices", rows, columns, device, [&](int64_t i) {
    const int64_t last = moved_by(i, offset);
    return ColumnRange{0, last < 0 ? 0 : (last < columns ? last + 1 : columns)};
  });
}
Tensor triu_indices(int64_t rows, int64_t columns, int64_t offset, Device device) {
  return triangle("triu_indices", rows, columns, device, [&](int64_t i) {
    return ColumnRange{std::clamp<int64_t>(moved_by(i, offset), 0, columns), columns};
  });
}

Tensor logspace(double start, double end, int64_t steps, double base,
                const TensorOptions& options) try {
  TensorOptions wide{.dtype = kFloat64, .device = options.device};
  if (options.dtype && !is_floating(*options.dtype)) {  // as linspace() of integers
    start = std::trunc(start);
    end = std::trunc(end);
  }
  Tensor powers = pow(base, linspace(start, end, steps, wide));
  const Tensor result(powers.to(options.dtype.value_or(kFloat32)).array(), options.requires_grad);
  return result;
} catch (const Error& error) {
  detail::name_op(error, "logspace", {});
}

Tensor vander(const Tensor& x, std::optional<int64_t> n, bool increasing) try {
  detail::check_defined("vander", {{"x", x}});
  check(x.ndim() >= 1, "vander: needs a vector: got shape ", x.shape());
  const int64_t columns = n.value_or(x.size(-1));
  check(columns >= 0, "vander: negative number of columns ", columns);
  const Tensor powers(detail::positions(columns, x.device()));
  const Tensor exponents = increasing ? powers : flip(powers, {0});
  const Tensor bases = unsqueeze(is_floating(x.dtype()) ? x : x.to(kInt64), -1);
  return pow(bases, exponents.to(bases.dtype()));
} catch (const Error& error) {
  detail::name_op(error, "vander", {{"x", x}});
}

}  // namespace hero
