#include <algorithm>
#include <mutex>

#include <hero/autograd/creation.h>
#include <hero/autograd/op.h>
#include <hero/autograd/ops.h>
#include <hero/core/functions/map.h>
#include <hero/nn/rotary.h>

namespace hero::nn {

namespace {

namespace k = core::kernels;

struct Angles {
  Array cos, sin;  // [T, D / 2]
};

// Angles of positions 0 .. count - 1. In float64 and by the library's own functions: the same bits
// everywhere, and exact enough at position 10^6.
Angles make_table(int64_t count, int64_t dim, double base, Device device) {
  const NoGrad no_grad;
  const TensorOptions options{.dtype = kFloat64, .device = device};
  const Tensor exponent =
      arange(Scalar(0), Scalar(dim), Scalar(2), options) * (-1.0 / static_cast<double>(dim));
  const Tensor rate = exp(exponent * log(full({}, base, options)));
  const Tensor angle = unsqueeze(arange(Scalar(count), options), 1) * rate;
  return {cos(angle).array(), sin(angle).array()};
}

// The first and second elements of all pairs.
std::pair<Array, Array> halves_of(const Array& x, RotaryPairs pairs) {
  const int64_t half = x.size(-1) / 2;
  if (pairs == RotaryPairs::half) return {x.slice(-1, 0, half), x.slice(-1, half)};
  return {x.slice(-1, 0, kEnd, 2), x.slice(-1, 1, kEnd, 2)};
}

// Turns each pair; the derivative turns back.
struct Rotate : Op {
  Angles table;
  double sign;
  RotaryPairs pairs;
  Rotate(const Angles& t, double s, RotaryPairs p) : table(t), sign(s), pairs(p) {}
  const char* name() const override { return "rotary_embedding"; }

  Array forward(const Array& x) {
    const Array out = x.empty_like();
    const auto [first, second] = halves_of(x, pairs);
    const auto [out_first, out_second] = halves_of(out, pairs);
    core::map_into<k::Mul>(out_first, first, table.cos);
    core::map_into<k::Addcmul>(out_first, out_first, second, table.sin, Scalar(-sign));
    core::map_into<k::Mul>(out_second, second, table.cos);
    core::map_into<k::Addcmul>(out_second, out_second, first, table.sin, Scalar(sign));
    return out;
  }
  Grads backward(const Tensor& g) override { return {record(Rotate(table, -sign, pairs), g)}; }
};

void check_input(const Tensor& x, int64_t offset) {
  constexpr auto kName = "rotary_embedding";
  check(x.ndim() >= 2, kName, ": x must be [.., T, D]: got ", x.shape());
  check(x.size(-1) % 2 == 0, kName, ": the last size must be even: got ", x.shape());
  check(is_floating(x.dtype()), kName, ": x is ", x.dtype(), "; convert it to a floating dtype");
  check(offset >= 0 && offset <= kEnd - x.size(-2), kName, ": offset ", offset,
        " is negative or too large");
}

void check_base(double base) {
  check(base > 0.0, "rotary_embedding: base must be positive: got ", base);
}

// Rows offset .. offset + T - 1 of the table, in the dtype in which x is turned. Half precision
// is turned in float32 and rounded once.
Tensor turn_by(const Tensor& x, const Angles& table, int64_t offset, RotaryPairs pairs) {
  const DType dtype = x.dtype() == kFloat64 ? kFloat64 : kFloat32;
  const auto rows = [&](const Array& all) {
    return all.slice(0, offset, offset + x.size(-2)).to(dtype);
  };
  const Tensor turned =
      record(Rotate({rows(table.cos), rows(table.sin)}, 1.0, pairs), to(x, dtype));
  return to(turned, x.dtype());
}

}  // namespace

Tensor rotary_embedding(const Tensor& x, int64_t offset, const RotaryOptions& options) {
  check_input(x, offset);
  check_base(options.base);
  const Angles table = make_table(offset + x.size(-2), x.size(-1), options.base, x.device());
  return turn_by(x, table, offset, options.pairs);
}

// The angles known so far, of positions 0 .. size - 1; several threads may call the module.
struct RotaryEmbedding::Table {
  std::mutex mutex;
  Angles angles;
};

RotaryEmbedding::RotaryEmbedding(int64_t dim, const RotaryOptions& options)
    : dim_(dim), options_(options), table_(std::make_shared<Table>()) {
  check(dim > 0 && dim % 2 == 0, "RotaryEmbedding: dim must be even and positive: got ", dim);
  check_base(options.base);
}

Tensor RotaryEmbedding::operator()(const Tensor& x, int64_t offset) {
  return run_hooked({x}, [&](const Tensors& in) -> Tensors { return {turn(in[0], offset)}; })[0];
}

Tensor RotaryEmbedding::forward(const Tensor& x) { return turn(x, 0); }

Tensor RotaryEmbedding::turn(const Tensor& x, int64_t offset) {
  check_input(x, offset);
  check(x.size(-1) == dim_, "rotary_embedding: rows of ", x.size(-1),
        " elements; the module turns ", dim_);
  const int64_t end = offset + x.size(-2);
  Angles angles;
  {
    const std::lock_guard<std::mutex> turn(table_->mutex);
    const Array& cos = table_->angles.cos;
    if (!cos.defined() || cos.size(0) < end || cos.device() != x.device()) {
      // Twice what is needed: a sequence that grows by one does not make a table each step.
      const int64_t known = cos.defined() ? cos.size(0) : 0;
      table_->angles = make_table(std::max(end, 2 * known), dim_, options_.base, x.device());
    }
    angles = table_->angles;
  }
  return turn_by(x, angles, offset, options_.pairs);
}

}  // namespace hero::nn
