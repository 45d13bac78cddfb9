#include <algorithm>
#include <array>
#include <cmath>

#include <hero/core/device/planned_device.h>
#include <hero/core/kernels/optimizer_steps.h>
#include <hero/core/profile/call_costs.h>

namespace hero::core {

namespace {

constexpr KernelKind kReduce = KernelKind::reduce, kCopy = KernelKind::copy,
                     kWindow = KernelKind::window;

template <class... Fs>
constexpr std::array<int, sizeof...(Fs)> states_of(TypeList<Fs...>) {
  return {Fs::states...};
}
constexpr auto kUpdateStates = states_of(kernels::UpdateList{});

// On the CPU a call is one parallel region; a GPU takes so many tensors a launch.
constexpr int64_t kItemsOfALaunch = 64;

int64_t total_elements(std::span<const Array> xs) {
  int64_t elements = 0;
  for (const Array& x : xs) elements += x.numel();
  return elements;
}

DType dtype_of(std::span<const Array> xs) { return xs.empty() ? kFloat32 : xs.front().dtype(); }

KernelCost map_cost(std::span<const Operand> inputs, DType compute, const Array& out) {
  KernelCost cost{.dtype = compute, .flops = out.numel(), .bytes = out.nbytes()};
  for (const Operand& input : inputs) cost.bytes += stored_bytes(input.array);
  return cost;
}

// A pass that reads or writes `bytes` beside x and out.
KernelCost pass_beside(KernelKind kind, int64_t flops, const Array& x, const Array& out,
                       int64_t bytes) {
  KernelCost cost = pass_cost(kind, flops, x, out);
  cost.bytes += bytes;
  return cost;
}

// Two flops for each tap of each channel of a point.
KernelCost samples_cost(const GridSampling& how, const Array& grid, int64_t channels,
                        const Array& a, const Array& b, const Array& out) {
  if (out.numel() == 0) return {};
  const int64_t dims = grid.size(-1);
  int64_t taps = 2;
  for (int64_t i = 0; i < dims; ++i) taps *= how.taps;
  return {.kind = kWindow,
          .dtype = out.dtype(),
          .flops = taps * channels * (grid.numel() / dims),
          .bytes = stored_bytes(a) + stored_bytes(b) + out.nbytes()};
}

// From x by w to y, or one of its gradients.
KernelCost convolution_cost(const Array& x, const Array& w, const Array& y) {
  return product_cost(x.dtype(), y.numel() / y.size(1), w.numel(), 1,
                      stored_bytes(x) + stored_bytes(w) + stored_bytes(y));
}

// Of the factors of a [m, n], to the leading order.
double lu_flops(double m, double n) {
  const double k = std::min(m, n);
  return 2 * m * n * k - (m + n) * k * k + 2 * k * k * k / 3;
}

// So many flops for a batch of matrices, of which `one` has as many as all of it.
KernelCost factors_cost(double flops, const Array& one, int64_t bytes) {
  int64_t batch = 1;
  for (int i = 0; i < one.ndim() - 2; ++i) batch *= one.size(i);
  return {.kind = KernelKind::matmul,
          .dtype = one.dtype(),
          .flops = std::llround(static_cast<double>(batch) * flops),
          .bytes = bytes};
}

// Elements that an index chooses, read or written so many times.
KernelCost moved(const Array& index, const Array& elements, int64_t times) {
  return {.kind = kCopy,
          .dtype = elements.dtype(),
          .bytes = stored_bytes(index) + times * elements.nbytes()};
}

}  // namespace

int64_t stored_bytes(const Array& x) {
  if (!x.defined()) return 0;
  int64_t count = 1;
  for (int i = 0; i < x.ndim(); ++i) {
    if (x.strides()[i] != 0 || x.shape()[i] == 0) count *= x.shape()[i];
  }
  return count * item_size(x.dtype());
}

int64_t stored_bytes(const Array* x) { return x ? stored_bytes(*x) : 0; }
int64_t stored_bytes(std::span<const Array> xs) {
  int64_t bytes = 0;
  for (const Array& x : xs) bytes += stored_bytes(x);
  return bytes;
}

KernelCost pass_cost(KernelKind kind, int64_t flops, const Array& x, const Array& out) {
  return {.kind = kind,
          .dtype = x.dtype(),
          .flops = flops * x.numel(),
          .bytes = stored_bytes(x) + out.nbytes()};
}

KernelCost product_cost(DType dtype, int64_t m, int64_t n, int64_t k, int64_t bytes) {
  return {.kind = KernelKind::matmul, .dtype = dtype, .flops = 2 * m * n * k, .bytes = bytes};
}

int64_t attention_pairs(const AttentionScores& scores, int64_t queries, int64_t keys) {
  if (!scores.is_causal) return queries * keys;
  // query t sees min(keys, first_query + t + 1) of them
  const int64_t partly = std::clamp<int64_t>(keys - scores.first_query, 0, queries);
  return partly * scores.first_query + partly * (partly + 1) / 2 + (queries - partly) * keys;
}

namespace call {

KernelCost Map::cost() const { return map_cost(inputs, compute, out); }
KernelCost FusedMap::cost() const {
  KernelCost cost = map_cost(inputs, compute, outs[0]);
  cost.flops *= static_cast<int64_t>(steps.size());
  cost.bytes += stored_bytes(outs.subspan(1));
  return cost;
}
KernelCost FusedMapSum::cost() const {
  KernelCost cost = map_cost(inputs, compute, out);
  cost.flops = shape.numel() * static_cast<int64_t>(steps.size() + 1);
  return cost;
}
KernelCost Copy::cost() const {
  if ((src.device() == kPlannedHost) == (dst.device() == kPlannedHost))
    return pass_cost(kCopy, 0, src, dst);
  return {
      .kind = kCopy, .dtype = dst.dtype(), .bytes = dst.nbytes(), .place = KernelPlace::between};
}
KernelCost Fill::cost() const { return {.dtype = out.dtype(), .bytes = stored_bytes(out)}; }
KernelCost Random::cost() const {
  return {.dtype = out.dtype(), .flops = out.numel(), .bytes = out.nbytes()};
}
KernelCost RandomMask::cost() const { return pass_cost(KernelKind::elementwise, 1, x, out); }
KernelCost Update::cost() const {
  const int states = kUpdateStates[op.index];
  int64_t n = 0, low = 0;
  for (const UpdateItem& item : items) {
    n += item.n;
    if (is_half(item.low_dtype)) low += item.n;
  }
  const int64_t state_size = std::max<int64_t>(item_size(dtype), 4);  // of halves float32
  return {.kind = KernelKind::elementwise,
          .dtype = dtype,
          .flops = (3 + 5 * states) * n,
          .bytes = n * (3 * item_size(dtype) + 2 * states * state_size) +
                   low * (2 * 2 - item_size(dtype)),  // the gradient read and the copy written
          .launches = (static_cast<int64_t>(items.size()) + kItemsOfALaunch - 1) / kItemsOfALaunch};
}

KernelCost Reduce::cost() const {
  return pass_beside(kReduce, op == ReduceKind::sum ? 1 : 2, x, out, stored_bytes(center));
}
KernelCost ExactSum::cost() const {
  return {.kind = kReduce,
          .dtype = dtype_of(xs),
          .flops = 2 * total_elements(xs),
          .bytes = stored_bytes(xs) + words.nbytes()};
}
KernelCost ExactResult::cost() const {
  return {.kind = kReduce, .dtype = kFloat64, .bytes = words.nbytes() + out.nbytes()};
}
KernelCost ClipNorm::cost() const {  // as if they were too long
  return {.dtype = dtype_of(xs), .flops = total_elements(xs), .bytes = 2 * stored_bytes(xs)};
}
KernelCost ArgReduce::cost() const { return pass_beside(kReduce, 1, x, values, indices.nbytes()); }
KernelCost Scan::cost() const { return pass_cost(kReduce, 1, x, out); }
KernelCost Sort::cost() const {
  const double length = static_cast<double>(std::max<int64_t>(x.size(dim), 2));
  const int64_t passes = std::llround(std::ceil(std::log2(length)));
  return pass_beside(kReduce, passes, x, values, indices.nbytes());
}

KernelCost Matmul::cost() const {
  return product_cost(a.dtype(), out.numel(), a.size(2), 1,
                      stored_bytes(a) + stored_bytes(b) + out.nbytes());
}
KernelCost PackMatrix::cost() const { return pass_cost(kCopy, 0, b, b); }
KernelCost MatmulPacked::cost() const {
  return product_cost(a.dtype(), a.size(0), b.columns, b.rows,
                      stored_bytes(a) + b.panels.nbytes() + out.nbytes());
}
KernelCost Linear::cost() const {
  return product_cost(
      x.dtype(), x.size(0), w.size(0), x.size(1),
      stored_bytes(x) + stored_bytes(w) + stored_bytes(bias) + out.nbytes() + stored_bytes(z));
}
std::array<KernelCost, 3> LinearBack::cost() const {
  const int64_t m = g.size(0), n = g.size(1);
  // neither is there where the gradient of the bias is wanted alone
  const Array& with_k = x.defined() ? x : w;
  const int64_t k = with_k.defined() ? with_k.size(1) : 0;
  std::array<KernelCost, 3> costs;
  if (g_x.defined()) {
    costs[0] = product_cost(g.dtype(), m, k, n,
                            stored_bytes(g) + stored_bytes(w) + g_x.nbytes() + stored_bytes(u));
  }
  if (g_w.defined()) {
    costs[1] = product_cost(g.dtype(), n, k, m, stored_bytes(g) + stored_bytes(x) + g_w.nbytes());
  }
  if (g_bias.defined()) costs[2] = pass_cost(kReduce, 1, g, g_bias);
  return costs;
}
KernelCost BiasActivation::cost() const {
  return pass_beside(KernelKind::elementwise, 2, z, out, stored_bytes(bias));
}

KernelCost CheckedIndex::cost() const { return pass_cost(kCopy, 0, index, index); }
KernelCost Gather::cost() const { return moved(index, out, 2); }
KernelCost Scatter::cost() const { return moved(index, src, mode == ScatterMode::add ? 3 : 2); }
KernelCost IndexSelect::cost() const { return moved(index, out, 2); }
KernelCost IndexAdd::cost() const { return moved(index, src, 3); }
KernelCost SparseMatmul::cost() const {
  KernelCost cost = pass_cost(kWindow, 0, x, out);
  const int64_t lines = out.numel() / std::max<int64_t>(out.shape()[dim], 1);
  cost.flops = 2 * rows.weights.numel() * lines;
  return cost;
}
KernelCost Nonzero::cost() const {
  return {.kind = kReduce, .dtype = x.dtype(), .flops = x.numel(), .bytes = stored_bytes(x)};
}

KernelCost HasConvolution::cost() const { return {}; }
KernelCost Im2col::cost() const { return pass_cost(kWindow, 0, x, out); }
KernelCost Col2im::cost() const { return pass_cost(kWindow, 1, columns, out); }
KernelCost Pool::cost() const {
  KernelCost cost = pass_beside(kWindow, 0, x, out, stored_bytes(indices));
  cost.flops = out.numel() * window.kernel[0] * window.kernel[1];
  return cost;
}
KernelCost MaxPoolBack::cost() const {
  return pass_beside(kWindow, 1, g, out, stored_bytes(indices));
}
KernelCost AveragePoolBack::cost() const {  // out is added to
  return pass_beside(kWindow, window.kernel[0] * window.kernel[1], g, out, out.nbytes());
}

KernelCost Softmax::cost() const { return pass_cost(kReduce, 5, x, out); }
KernelCost SoftmaxBack::cost() const { return pass_beside(kReduce, 4, g, out, stored_bytes(y)); }
KernelCost NormalizeRows::cost() const {
  return pass_beside(kReduce, norm.centered ? 7 : 4, x, out,
                     stored_bytes(norm.residual) + stored_bytes(norm.sum));
}
KernelCost NormalizeRowsBack::cost() const {  // as many bytes as g has: x
  return pass_beside(kReduce, 11, g, g_x,
                     g.nbytes() + stored_bytes(norm.g_sum) + stored_bytes(norm.g_residual));
}
KernelCost NormalizeChannels::cost() const {
  return pass_cost(kReduce, norm.fixed ? 3 : 7, x, out);
}
// Reads g and, unless its statistics are fixed and nobody wants the weight's gradient, x.
KernelCost NormalizeChannelsBack::cost() const {
  const bool reads_x = !norm.fixed || g_weight != nullptr;
  return {.kind = kReduce,
          .dtype = x.dtype(),
          .flops = (reads_x ? 11 : 2) * x.numel(),
          .bytes = g.nbytes() + (reads_x ? x.nbytes() : 0) + stored_bytes(g_x)};
}
KernelCost Attention::cost() const {
  const int64_t pairs = attention_pairs(scores, q.size(2), k.size(2));
  return {.kind = KernelKind::attention,
          .dtype = q.dtype(),
          .flops = 2 * q.size(0) * q.size(1) * pairs * (q.size(3) + v.size(3)),
          .bytes = stored_bytes(q) + stored_bytes(k) + stored_bytes(v) + out.nbytes() +
                   stored_bytes(scores.mask) + stored_bytes(scores.bias)};
}
// Twice the products of forward: of gradients with values, keys and queries. That kernels compute
// the scores once more is nothing that is asked for.
KernelCost AttentionBack::cost() const {
  KernelCost cost = Attention{scores, q, k, v, out, log_sum}.cost();
  cost.flops *= 2;
  cost.bytes += stored_bytes(q) + stored_bytes(k) + stored_bytes(v) + out.nbytes();
  return cost;
}
KernelCost LogLikelihood::cost() const { return pass_cost(kReduce, 4, x, out); }
KernelCost LogLikelihoodBack::cost() const { return pass_cost(kReduce, 3, x, g_x); }
std::array<KernelCost, 2> LogLikelihoodInPlace::cost() const {
  return {pass_cost(kReduce, 4, x, out), pass_cost(kReduce, 3, x, x)};
}
KernelCost CellStep::cost() const {
  return {.dtype = h.dtype(),
          .flops = 5 * of_x.numel(),
          .bytes = of_x.nbytes() + of_h.nbytes() + 2 * h.nbytes() + 2 * stored_bytes(c)};
}
KernelCost CellStepBack::cost() const {
  return {.dtype = g_h.dtype(),
          .flops = 6 * gates.numel(),
          .bytes =
              3 * gates.nbytes() + 4 * g_h.nbytes() + (g_output.defined() ? g_output.nbytes() : 0)};
}

// A magnitude, a product and a rounding for each element; with the error a sum before and a
// difference behind.
KernelCost Encode::cost() const {
  return {.kind = KernelKind::elementwise,
          .dtype = x.dtype(),
          .flops = (error ? 6 : 3) * x.numel(),
          .bytes = x.nbytes() + bytes.nbytes() + 2 * stored_bytes(error)};
}
KernelCost Decode::cost() const {
  const int64_t rows = mode == DecodeMode::sum ? bytes.size(0) : 1;
  const int64_t adds = mode == DecodeMode::add ? 1 : rows - 1;
  return {.kind = KernelKind::elementwise,
          .dtype = out.dtype(),
          .flops = (rows + adds) * out.numel(),
          .bytes = bytes.nbytes() + (mode == DecodeMode::add ? 2 : 1) * out.nbytes()};
}

KernelCost Recurrence::cost() const { return pass_beside(kReduce, 2, b, out, stored_bytes(a)); }
KernelCost KthPositions::cost() const { return pass_cost(kReduce, 1, x, positions); }
KernelCost RunningExtremes::cost() const { return pass_cost(kReduce, 1, x, positions); }
KernelCost GridSample::cost() const { return samples_cost(how, grid, out.size(1), x, grid, out); }
KernelCost GridSampleBackX::cost() const {
  return samples_cost(how, grid, g.size(1), g, grid, out);
}
KernelCost GridSampleBackGrid::cost() const {
  return samples_cost(how, grid, g.size(1), g, grid, out);
}

KernelCost Convolve::cost() const { return convolution_cost(x, w, y); }
KernelCost ConvolveBack::cost() const { return convolution_cost(x, w, y); }
KernelCost ConvolveWeight::cost() const { return convolution_cost(x, w, y); }
KernelCost QuantizedProduct::cost() const {
  return product_cost(kFloat32, y.numel(), x.size(-1), 1, x.nbytes() + w.nbytes() + y.nbytes());
}

// Multiplications and additions of the usual algorithms, to the leading order: Golub and Van Loan,
// "Matrix Computations", 4th edition, 3.1 (triangular systems), 3.2 (LU), 4.2 (Cholesky), 5.2 and
// 5.3 (QR, least squares), 8.3 (eigenvalues) and 8.6 (singular values).
KernelCost FactorLU::cost() const {
  const auto m = static_cast<double>(a.size(-2)), n = static_cast<double>(a.size(-1));
  return factors_cost(lu_flops(m, n), a, 2 * a.nbytes() + pivots.nbytes());
}
KernelCost SolveLU::cost() const {
  const auto n = static_cast<double>(b.size(-2)), sides = static_cast<double>(b.size(-1));
  return factors_cost(2 * n * n * sides, b, stored_bytes(factors) + 2 * b.nbytes());
}
KernelCost SolveTriangular::cost() const {
  const auto n = static_cast<double>(b.size(-2)), sides = static_cast<double>(b.size(-1));
  return factors_cost(n * n * sides, b, stored_bytes(a) / 2 + 2 * b.nbytes());
}
KernelCost FactorCholesky::cost() const {
  const auto n = static_cast<double>(a.size(-1));
  return factors_cost(n * n * n / 3, l, stored_bytes(a) / 2 + l.nbytes());
}
KernelCost CholeskyFaults::cost() const {  // as if all had factors
  const auto n = static_cast<double>(a.size(-1));
  return factors_cost(n * n * n / 3, a, stored_bytes(a) / 2 + faults.nbytes());
}
KernelCost FactorQR::cost() const {  // R, and then the columns of Q
  const auto m = static_cast<double>(a.size(-2)), n = static_cast<double>(a.size(-1));
  return factors_cost(2 * lu_flops(m, n) + 2 * lu_flops(m, std::min(m, n)), a,
                      stored_bytes(a) + q.nbytes() + r.nbytes());
}
KernelCost LeastSquares::cost() const {
  const auto m = static_cast<double>(a.size(-2)), n = static_cast<double>(a.size(-1));
  const auto sides = static_cast<double>(x.size(-1));
  if (x.numel() == 0) return {};
  return factors_cost(2 * lu_flops(m, n) + sides * (4 * m * n - n * n), x,
                      stored_bytes(a) + stored_bytes(b) + x.nbytes());
}
KernelCost FactorSVD::cost() const {
  const auto m = static_cast<double>(std::max(a.size(-2), a.size(-1)));
  const auto n = static_cast<double>(std::min(a.size(-2), a.size(-1)));
  return factors_cost(14 * m * n * n + 8 * n * n * n, a,
                      stored_bytes(a) + u.nbytes() + s.nbytes() + vh.nbytes());
}
KernelCost FactorEigh::cost() const {
  const auto n = static_cast<double>(a.size(-1));
  return factors_cost(9 * n * n * n, a, stored_bytes(a) / 2 + values.nbytes() + vectors.nbytes());
}

}  // namespace call

}  // namespace hero::core
