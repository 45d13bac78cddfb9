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

// The rate of a pair that turned by `rate` a position before.
double scaled(double rate, const RotaryScaling& scaling) {
  if (scaling.kind == RotaryScaling::Kind::linear) return rate / scaling.factor;
  constexpr double kTurn = 6.283185307179586;
  // full turns within the longest sequence of the training
  const double turns = static_cast<double>(scaling.original_positions) * rate / kTurn;
  const double kept =
      (turns - scaling.low_freq_factor) / (scaling.high_freq_factor - scaling.low_freq_factor);
  const double share = std::clamp(kept, 0.0, 1.0);
  return (1.0 - share) * rate / scaling.factor + share * rate;
}

// Rates of turning, [D / 2].
Tensor rates_of(int64_t dim, const RotaryOptions& rotary, Device device) {
  const auto plain = [&](Device where) {
    const TensorOptions options{.dtype = kFloat64, .device = where};
    const Tensor exponent =
        arange(Scalar(0), Scalar(dim), Scalar(2), options) * (-1.0 / static_cast<double>(dim));
    return exp(exponent * log(full({}, rotary.base, options)));
  };
  if (rotary.scaling.kind == RotaryScaling::Kind::none) return plain(device);
  std::vector<double> rates = plain(kCpu).to_vector<double>();
  for (double& rate : rates) rate = scaled(rate, rotary.scaling);
  return Tensor(Array::from(rates, {dim / 2}).to(device));
}

// Angles of positions 0 .. count - 1. In float64 and by the library's own functions: the same bits
// everywhere, and exact enough at position 10^6.
Angles make_table(int64_t count, int64_t dim, const RotaryOptions& rotary, Device device) {
  const NoGrad no_grad;
  const TensorOptions options{.dtype = kFloat64, .device = device};
  const Tensor rate = rates_of(dim, rotary, device);
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

void check_options(const RotaryOptions& options) {
  check(options.base > 0.0, "rotary_embedding: base must be positive: got ", options.base);
  const RotaryScaling& scaling = options.scaling;
  if (scaling.kind == RotaryScaling::Kind::none) return;
  check(scaling.factor >= 1.0, "rotary_embedding: scaling.factor is ", scaling.factor,
        "; it must be at least 1");
  if (scaling.kind == RotaryScaling::Kind::linear) return;
  check(0.0 < scaling.low_freq_factor && scaling.low_freq_factor < scaling.high_freq_factor,
        "rotary_embedding: low_freq_factor ", scaling.low_freq_factor,
        " must be positive and less than high_freq_factor ", scaling.high_freq_factor);
  check(scaling.original_positions > 0, "rotary_embedding: original_positions is ",
        scaling.original_positions, "; it must be positive");
}

// Rows offset .. offset + T - 1 of the table for each offset, of which there is one or one for each
// row of x, in the dtype in which x is turned. Half precision is turned in float32 and rounded
// once.
Tensor turn_by(const Tensor& x, const Angles& table, std::span<const int64_t> offsets,
               RotaryPairs pairs) {
  const DType dtype = x.dtype() == kFloat64 ? kFloat64 : kFloat32;
  const auto rows = [&](const Array& all) {
    std::vector<Tensor> each;
    for (const int64_t offset : offsets) {
      each.emplace_back(all.slice(0, offset, offset + x.size(-2)).to(dtype));
    }
    if (each.size() == 1) return each.front().array();
    const NoGrad no_grad;
    Shape shape = x.shape();
    for (int i = 1; i + 2 < x.ndim(); ++i) shape[i] = 1;
    shape.back() = x.size(-1) / 2;
    return stack(each, 0).reshape(shape).array();
  };
  const Tensor turned =
      record(Rotate({rows(table.cos), rows(table.sin)}, 1.0, pairs), to(x, dtype));
  return to(turned, x.dtype());
}

}  // namespace

Tensor rotary_embedding(const Tensor& x, int64_t offset, const RotaryOptions& options) {
  check_input(x, offset);
  check_options(options);
  const Angles table = make_table(offset + x.size(-2), x.size(-1), options, x.device());
  return turn_by(x, table, {&offset, 1}, options.pairs);
}

// The angles known so far, of positions 0 .. size - 1; several threads may call the module.
struct RotaryEmbedding::Table {
  std::mutex mutex;
  Angles angles;
};

RotaryEmbedding::RotaryEmbedding(int64_t dim, const RotaryOptions& options)
    : dim_(dim), options_(options), table_(std::make_shared<Table>()) {
  check(dim > 0 && dim % 2 == 0, "RotaryEmbedding: dim must be even and positive: got ", dim);
  check_options(options);
}

Tensor RotaryEmbedding::operator()(const Tensor& x, int64_t offset) {
  return (*this)(x, std::span<const int64_t>(&offset, 1));
}

Tensor RotaryEmbedding::operator()(const Tensor& x, std::span<const int64_t> offsets) {
  return run_hooked({x}, [&](const Tensors& in) -> Tensors { return {turn(in[0], offsets)}; })[0];
}

Tensor RotaryEmbedding::forward(const Tensor& x) {
  constexpr int64_t kFirst = 0;
  return turn(x, {&kFirst, 1});
}

Tensor RotaryEmbedding::turn(const Tensor& x, std::span<const int64_t> offsets) {
  for (const int64_t offset : offsets) check_input(x, offset);
  check(x.size(-1) == dim_, "rotary_embedding: rows of ", x.size(-1),
        " elements; the module turns ", dim_);
  const auto rows = static_cast<int64_t>(offsets.size());
  check(rows == 1 || (x.ndim() >= 3 && rows == x.size(0)), "rotary_embedding: ", rows,
        " offsets do not fit x ", x.shape(), "; give one, or one for each row");
  const int64_t end = *std::max_element(offsets.begin(), offsets.end()) + x.size(-2);
  Angles angles;
  {
    const std::lock_guard<std::mutex> turn(table_->mutex);
    const Array& cos = table_->angles.cos;
    if (!cos.defined() || cos.size(0) < end || cos.device() != x.device()) {
      // Twice what is needed: a sequence that grows by one does not make a table each step.
      const int64_t known = cos.defined() ? cos.size(0) : 0;
      table_->angles = make_table(std::max(end, 2 * known), dim_, options_, x.device());
    }
    angles = table_->angles;
  }
  return turn_by(x, angles, offsets, options_.pairs);
}

}  // namespace hero::nn
