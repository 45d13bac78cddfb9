#include <algorithm>
#include <cmath>
#include <mutex>
#include <vector>

#include <hero/autograd/graph/op.h>
#include <hero/autograd/ops/creation/creation.h>
#include <hero/autograd/ops/elementwise/elementwise.h>
#include <hero/autograd/ops/shape/shape.h>
#include <hero/core/functions/map.h>
#include <hero/nn/rotary.h>

namespace hero::nn {

namespace {

namespace k = core::kernels;

struct Angles {
  Array cos, sin;  // [T, D / 2]
};

constexpr double kTurn = 6.283185307179586;

// Computed by the library's own functions, which give the same bits on all machines.
double ln(double x) { return log(full({}, x, {.dtype = kFloat64})).item(); }

// base^(-2 i / D) of each pair.
Tensor plain_rates(int64_t dim, double base, Device device) {
  const TensorOptions options{.dtype = kFloat64, .device = device};
  const Tensor exponent =
      arange(Scalar(0), Scalar(dim), Scalar(2), options) * (-1.0 / static_cast<double>(dim));
  return exp(exponent * log(full({}, base, options)));
}

// The rate of a pair that rotates by `rate` a position without scaling.
double llama3_rate(double rate, const RotaryScaling& scaling) {
  // full turns within the longest sequence of the training
  const double turns = static_cast<double>(scaling.original_positions) * rate / kTurn;
  const double kept =
      (turns - scaling.low_freq_factor) / (scaling.high_freq_factor - scaling.low_freq_factor);
  const double share = std::clamp(kept, 0.0, 1.0);
  return (1.0 - share) * rate / scaling.factor + share * rate;
}

// How much of its rate each pair keeps; the rest of the rate is divided by the factor.
std::vector<double> yarn_shares(int64_t dim, const RotaryOptions& rotary) {
  const RotaryScaling& scaling = rotary.scaling;
  const auto size = static_cast<double>(dim);
  // the pair that makes so many turns within the longest sequence of the training
  const auto pair_of = [&](double turns) {
    return size * ln(static_cast<double>(scaling.original_positions) / (turns * kTurn)) /
           (2.0 * ln(rotary.base));
  };
  double low = pair_of(scaling.beta_fast), high = pair_of(scaling.beta_slow);
  if (scaling.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, size - 1.0);
  if (low == high) high += 0.001;  // as transformers does: a step, without a division by 0
  std::vector<double> shares;
  for (int64_t i = 0; i < dim / 2; ++i) {
    shares.push_back(1.0 - std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0));
  }
  return shares;
}

// Rates of rotation, [D / 2], in a sequence of `length` positions.
Tensor rates_of(int64_t length, int64_t dim, const RotaryOptions& rotary, Device device) {
  using Kind = RotaryScaling::Kind;
  const RotaryScaling& scaling = rotary.scaling;
  if (scaling.kind == Kind::none) return plain_rates(dim, rotary.base, device);
  if (scaling.kind == Kind::dynamic) {
    if (length <= scaling.original_positions) return plain_rates(dim, rotary.base, device);
    const double times =
        static_cast<double>(length) / static_cast<double>(scaling.original_positions);
    const double growth = scaling.factor * times - (scaling.factor - 1.0);
    const double power = static_cast<double>(dim) / static_cast<double>(dim - 2);
    const double base = rotary.base * exp(full({}, power * ln(growth), {.dtype = kFloat64})).item();
    return plain_rates(dim, base, device);
  }
  std::vector<double> rates = plain_rates(dim, rotary.base, kCpu).to_vector<double>();
  std::vector<double> shares;
  if (scaling.kind == Kind::yarn) shares = yarn_shares(dim, rotary);
  for (size_t i = 0; i < rates.size(); ++i) {
    double& rate = rates[i];
    if (scaling.kind == Kind::linear) rate /= scaling.factor;
    if (scaling.kind == Kind::llama3) rate = llama3_rate(rate, scaling);
    if (scaling.kind == Kind::yarn) {
      rate = rate / scaling.factor * (1.0 - shares[i]) + rate * shares[i];
    }
  }
  return Tensor(Array::from(rates, {dim / 2}).to(device));
}

// What sines and cosines are multiplied by.
double attention_factor(const RotaryScaling& scaling) {
  if (scaling.kind != RotaryScaling::Kind::yarn) return 1.0;
  return scaling.attention_factor.value_or(0.1 * ln(scaling.factor) + 1.0);
}

// Angles of positions 0 .. count - 1 in a sequence of `length` positions. In float64 and by the
// library's own functions: the same bits everywhere, and exact enough at position 10^6.
Angles make_table(int64_t count, int64_t length, int64_t dim, const RotaryOptions& rotary,
                  Device device) {
  const NoGrad no_grad;
  const TensorOptions options{.dtype = kFloat64, .device = device};
  const Tensor rate = rates_of(length, dim, rotary, device);
  const Tensor angle = unsqueeze(arange(Scalar(count), options), 1) * rate;
  const double factor = attention_factor(rotary.scaling);
  if (factor == 1.0) return {cos(angle).array(), sin(angle).array()};
  return {(cos(angle) * factor).array(), (sin(angle) * factor).array()};
}

// The first and second elements of all pairs.
std::pair<Array, Array> halves_of(const Array& x, RotaryPairs pairs) {
  const int64_t half = x.size(-1) / 2;
  if (pairs == RotaryPairs::half) return {x.slice(-1, 0, half), x.slice(-1, half)};
  return {x.slice(-1, 0, kEnd, 2), x.slice(-1, 1, kEnd, 2)};
}

// Turns each pair; the derivative turns back.
struct Rotate : Op {
  static constexpr AutocastRule kAutocast = AutocastRule::fallthrough;
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

void check_options(int64_t dim, const RotaryOptions& options) {
  check(options.base > 0.0, "rotary_embedding: base must be positive: got ", options.base);
  const RotaryScaling& scaling = options.scaling;
  using Kind = RotaryScaling::Kind;
  if (scaling.kind == Kind::none) return;
  check(scaling.factor >= 1.0 && std::isfinite(scaling.factor),
        "rotary_embedding: scaling.factor is ", scaling.factor, "; it must be at least 1");
  if (scaling.kind == Kind::linear) return;
  if (scaling.kind == Kind::llama3) {
    check(0.0 < scaling.low_freq_factor && scaling.low_freq_factor < scaling.high_freq_factor,
          "rotary_embedding: low_freq_factor ", scaling.low_freq_factor,
          " must be positive and less than high_freq_factor ", scaling.high_freq_factor);
  }
  if (scaling.kind == Kind::yarn) {
    check(options.base > 1.0, "rotary_embedding: base is ", options.base,
          "; yarn needs one above 1");
    check(0.0 < scaling.beta_slow && scaling.beta_slow < scaling.beta_fast,
          "rotary_embedding: beta_slow ", scaling.beta_slow,
          " must be positive and less than beta_fast ", scaling.beta_fast);
    check(!scaling.attention_factor || *scaling.attention_factor > 0.0,
          "rotary_embedding: attention_factor is ", scaling.attention_factor.value_or(0.0),
          "; it must be positive");
  }
  check(scaling.kind != Kind::dynamic || dim > 2,
        "rotary_embedding: dynamic scaling needs rows of more than 2 elements: got ", dim);
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
  check_options(x.size(-1), options);
  const int64_t end = offset + x.size(-2);
  const Angles table = make_table(end, end, x.size(-1), options, x.device());
  return turn_by(x, table, {&offset, 1}, options.pairs);
}

// The angles known so far, of positions 0 .. size - 1; several threads may call the module.
struct RotaryEmbedding::Table {
  std::mutex mutex;
  Angles angles;
  int64_t length = 0;  // of the sequence that the rates are of, where they depend on it
};

RotaryEmbedding::RotaryEmbedding(int64_t dim, const RotaryOptions& options)
    : dim_(dim), options_(options), table_(std::make_shared<Table>()) {
  check(dim > 0 && dim % 2 == 0, "RotaryEmbedding: dim must be even and positive: got ", dim);
  check_options(dim, options);
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
  const bool is_dynamic = options_.scaling.kind == RotaryScaling::Kind::dynamic;
  if (is_dynamic && rows > 1) {  // each row has the rates of its own length
    std::vector<Tensor> each;
    for (int64_t row = 0; row < rows; ++row) {
      each.push_back(turn(x.slice(0, row, row + 1), offsets.subspan(static_cast<size_t>(row), 1)));
    }
    return cat(each, 0);
  }
  const int64_t end = *std::max_element(offsets.begin(), offsets.end()) + x.size(-2);
  Angles angles;
  {
    const std::lock_guard<std::mutex> turn(table_->mutex);
    const Array& cos = table_->angles.cos;
    const bool grows = is_dynamic && end > options_.scaling.original_positions;
    const int64_t length = grows ? end : 0;
    if (!cos.defined() || cos.size(0) < end || cos.device() != x.device() ||
        table_->length != length) {
      // Twice what is needed: a sequence that grows by one does not make a table each step, unless
      // each length has rates of its own.
      const int64_t known = cos.defined() && !grows ? cos.size(0) : 0;
      table_->angles = make_table(std::max(end, 2 * known), length, dim_, options_, x.device());
      table_->length = length;
    }
    angles = table_->angles;
  }
  return turn_by(x, angles, offsets, options_.pairs);
}

}  // namespace hero::nn
