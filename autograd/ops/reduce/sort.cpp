// Sorting: the derivative puts each gradient back where its value came from.
#include <hero/autograd/ops/detail/defined.h>
#include <hero/autograd/ops/detail/named.h>
#include <hero/autograd/ops/detail/place.h>
#include <hero/autograd/ops/reduce/reduce.h>
#include <hero/core/functions/reductions.h>

namespace hero {

namespace {

using core::Order;

struct Sort : MultiOp {
  static constexpr AutocastRule kAutocast = AutocastRule::fallthrough;
  static constexpr unsigned kSaveOutputs = 0b10;
  int dim;
  Order order;
  std::optional<int64_t> k;  // topk
  Sort(int d, Order o, std::optional<int64_t> count = {}) : dim(d), order(o), k(count) {}
  const char* name() const override { return k ? "topk" : "sort"; }
  std::vector<Array> forward(const Array& x) {
    const core::SortResult result = k ? core::topk(x, *k, dim, order) : core::sort(x, dim, order);
    return {result.values, result.indices};
  }
  Grads backward(const Grads& grads) override {
    return {detail::scatter_zeros(grads[0], input_shape(0), dim, output(1).detach())};
  }
};

ValuesIndices sorted(const Sort& op, const Tensor& x) {
  const std::vector<Tensor> results = record_multi(Sort(op.dim, op.order, op.k), x);
  return {results[0], results[1]};
}

}  // namespace

ValuesIndices sort(const Tensor& x, int64_t dim, bool descending) {
  detail::check_defined("sort", {{"x", x}});
  const Order order = descending ? Order::descending : Order::ascending;
  return sorted(Sort(normalize_dim("sort", dim, x.ndim()), order), x);
}

Tensor argsort(const Tensor& x, int64_t dim, bool descending) {
  const detail::Named named("argsort", {"x", x});
  detail::check_defined("argsort", {{"x", x}});
  const Order order = descending ? Order::descending : Order::ascending;
  return Tensor(core::sort(x.array(), dim, order).indices);
}

ValuesIndices topk(const Tensor& x, int64_t k, int64_t dim, bool largest) {
  detail::check_defined("topk", {{"x", x}});
  const Order order = largest ? Order::descending : Order::ascending;
  return sorted(Sort(normalize_dim("topk", dim, x.ndim()), order, k), x);
}

}  // namespace hero
