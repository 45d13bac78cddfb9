#include <algorithm>
#include <array>
#include <cmath>

#include <hero/core/device/planned_device.h>
#include <hero/core/kernels/optimizer_steps.h>
#include <hero/core/profile/work_of.h>

namespace hero::core {

namespace {

constexpr WorkKind kReduce = WorkKind::reduce, kCopy = WorkKind::copy, kWindow = WorkKind::window;

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

Work map_work(std::span<const Operand> inputs, DType compute, const Array& out) {
  Work work{.dtype = compute, .flops = out.numel(), .bytes = out.nbytes()};
  for (const Operand& input : inputs) work.bytes += stored_bytes(input.array);
  return work;
}

// A pass that reads or writes `bytes` beside x and out.
Work pass_beside(WorkKind kind, int64_t flops, const Array& x, const Array& out, int64_t bytes) {
  Work work = pass_work(kind, flops, x, out);
  work.bytes += bytes;
  return work;
}

// Two flops for each tap of each channel of a point.
Work samples_work(const GridSampling& how, const Array& grid, int64_t channels, const Array& a,
                  const Array& b, const Array& out) {
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
Work convolution_work(const Array& x, const Array& w, const Array& y) {
  return product_work(x.dtype(), y.numel() / y.size(1), w.numel(), 1,
                      stored_bytes(x) + stored_bytes(w) + stored_bytes(y));
}

// Of the factors of a [m, n], to the leading order.
double lu_flops(double m, double n) {
  const double k = std::min(m, n);
  return 2 * m * n * k - (m + n) * k * k + 2 * k * k * k / 3;
}

// So many flops for a batch of matrices, of which `one` has as many as all of it.
Work factors_work(double flops, const Array& one, int64_t bytes) {
  int64_t batch = 1;
  for (int i = 0; i < one.ndim() - 2; ++i) batch *= one.size(i);
  return {.kind = WorkKind::matmul,
          .dtype = one.dtype(),
          .flops = std::llround(static_cast<double>(batch) * flops),
          .bytes = bytes};
}

// Elements that an index chooses, read or written so many times.
Work moved(const Array& index, const Array& elements, int64_t times) {
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

Work pass_work(WorkKind kind, int64_t flops, const Array& x, const Array& out) {
  return {.kind = kind,
          .dtype = x.dtype(),
          .flops = flops * x.numel(),
          .bytes = stored_bytes(x) + out.nbytes()};
}

Work product_work(DType dtype, int64_t m, int64_t n, int64_t k, int64_t bytes) {
  return {.kind = WorkKind::matmul, .dtype = dtype, .flops = 2 * m * n * k, .bytes = bytes};
}

int64_t attention_pairs(const AttentionScores& scores, int64_t queries, int64_t keys) {
  if (!scores.is_causal) return queries * keys;
  // query t sees min(keys, first_query + t + 1) of them
  const int64_t partly = std::clamp<int64_t>(keys - scores.first_query, 0, queries);
  return partly * scores.first_query + partly * (partly + 1) / 2 + (queries - partly) * keys;
}

namespace call {

Work Map::work() const { return map_work(inputs, compute, out); }
Work FusedMap::work() const {
  Work work = map_work(inputs, compute, outs[0]);
  work.flops *= static_cast<int64_t>(steps.size());
  work.bytes += stored_bytes(outs.subspan(1));
  return work;
}
Work FusedMapSum::work() const {
  Work work = map_work(inputs, compute, out);
  work.flops = shape.numel() * static_cast<int64_t>(steps.size() + 1);
  return work;
}
Work Copy::work() const {
  if ((src.device() == kPlannedHost) == (dst.device() == kPlannedHost))
    return pass_work(kCopy, 0, src, dst);
  return {.kind = kCopy, .dtype = dst.dtype(), .bytes = dst.nbytes(), .place = WorkPlace::between};
}
Work Fill::work() const { return {.dtype = out.dtype(), .bytes = stored_bytes(out)}; }
Work Random::work() const {
  return {.dtype = out.dtype(), .flops = out.numel(), .bytes = out.nbytes()};
}
Work RandomMask::work() const { return pass_work(WorkKind::elementwise, 1, x, out); }
Work Update::work() const {
  const int states = kUpdateStates[op.index];
  int64_t n = 0, low = 0;
  for (const UpdateItem& item : items) {
    n += item.n;
    if (is_half(item.low_dtype)) low += item.n;
  }
  const int64_t state_size = std::max<int64_t>(item_size(dtype), 4);  // of halves float32
  return {.kind = WorkKind::elementwise,
          .dtype = dtype,
          .flops = (3 + 5 * states) * n,
          .bytes = n * (3 * item_size(dtype) + 2 * states * state_size) +
                   low * (2 * 2 - item_size(dtype)),  // the gradient read and the copy written
          .launches = (static_cast<int64_t>(items.size()) + kItemsOfALaunch - 1) / kItemsOfALaunch};
}

Work Reduce::work() const {
  return pass_beside(kReduce, op == ReduceKind::sum ? 1 : 2, x, out, stored_bytes(center));
}
Work ExactSum::work() const {
  return {.kind = kReduce,
          .dtype = dtype_of(xs),
          .flops = 2 * total_elements(xs),
          .bytes = stored_bytes(xs) + words.nbytes()};
}
Work ExactResult::work() const {
  return {.kind = kReduce, .dtype = kFloat64, .bytes = words.nbytes() + out.nbytes()};
}
Work ClipNorm::work() const {  // as if they were too long
  return {.dtype = dtype_of(xs), .flops = total_elements(xs), .bytes = 2 * stored_bytes(xs)};
}
Work ArgReduce::work() const { return pass_beside(kReduce, 1, x, values, indices.nbytes()); }
Work Scan::work() const { return pass_work(kReduce, 1, x, out); }
Work Sort::work() const {
  const double length = static_cast<double>(std::max<int64_t>(x.size(dim), 2));
  const int64_t passes = std::llround(std::ceil(std::log2(length)));
  return pass_beside(kReduce, passes, x, values, indices.nbytes());
}

Work Matmul::work() const {
  return product_work(a.dtype(), out.numel(), a.size(2), 1,
                      stored_bytes(a) + stored_bytes(b) + out.nbytes());
}
Work PackMatrix::work() const { return pass_work(kCopy, 0, b, b); }
Work MatmulPacked::work() const {
  return product_work(a.dtype(), a.size(0), b.columns, b.rows,
                      stored_bytes(a) + b.panels.nbytes() + out.nbytes());
}
Work Linear::work() const {
  return product_work(
      x.dtype(), x.size(0), w.size(0), x.size(1),
      stored_bytes(x) + stored_bytes(w) + stored_bytes(bias) + out.nbytes() + stored_bytes(z));
}
std::array<Work, 3> LinearBack::work() const {
  const int64_t m = g.size(0), n = g.size(1);
  // neither is there where the gradient of the bias is wanted alone
  const Array& with_k = x.defined() ? x : w;
  const int64_t k = with_k.defined() ? with_k.size(1) : 0;
  std::array<Work, 3> works;
  if (g_x.defined()) {
    works[0] = product_work(g.dtype(), m, k, n,
                            stored_bytes(g) + stored_bytes(w) + g_x.nbytes() + stored_bytes(u));
  }
  if (g_w.defined()) {
    works[1] = product_work(g.dtype(), n, k, m, stored_bytes(g) + stored_bytes(x) + g_w.nbytes());
  }
  if (g_bias.defined()) works[2] = pass_work(kReduce, 1, g, g_bias);
  return works;
}
Work BiasActivation::work() const {
  return pass_beside(WorkKind::elementwise, 2, z, out, stored_bytes(bias));
}

Work CheckedIndex::work() const { return pass_work(kCopy, 0, index, index); }
Work Gather::work() const { return moved(index, out, 2); }
Work Scatter::work() const { return moved(index, src, mode == ScatterMode::add ? 3 : 2); }
Work IndexSelect::work() const { return moved(index, out, 2); }
Work IndexAdd::work() const { return moved(index, src, 3); }
Work SparseMatmul::work() const {
  Work work = pass_work(kWindow, 0, x, out);
  const int64_t lines = out.numel() / std::max<int64_t>(out.shape()[dim], 1);
  work.flops = 2 * rows.weights.numel() * lines;
  return work;
}
Work Nonzero::work() const {
  return {.kind = kReduce, .dtype = x.dtype(), .flops = x.numel(), .bytes = stored_bytes(x)};
}

Work HasConvolution::work() const { return {}; }
Work Im2col::work() const { return pass_work(kWindow, 0, x, out); }
Work Col2im::work() const { return pass_work(kWindow, 1, columns, out); }
Work Pool::work() const {
  Work work = pass_beside(kWindow, 0, x, out, stored_bytes(indices));
  work.flops = out.numel() * window.kernel[0] * window.kernel[1];
  return work;
}
Work MaxPoolBack::work() const { return pass_beside(kWindow, 1, g, out, stored_bytes(indices)); }
Work AveragePoolBack::work() const {  // out is added to
  return pass_beside(kWindow, window.kernel[0] * window.kernel[1], g, out, out.nbytes());
}

Work Softmax::work() const { return pass_work(kReduce, 5, x, out); }
Work SoftmaxBack::work() const { return pass_beside(kReduce, 4, g, out, stored_bytes(y)); }
Work NormalizeRows::work() const {
  return pass_beside(kReduce, norm.centered ? 7 : 4, x, out,
                     stored_bytes(norm.residual) + stored_bytes(norm.sum));
}
Work NormalizeRowsBack::work() const {  // as many bytes as g has: x
  return pass_beside(kReduce, 11, g, g_x,
                     g.nbytes() + stored_bytes(norm.g_sum) + stored_bytes(norm.g_residual));
}
Work NormalizeChannels::work() const { return pass_work(kReduce, norm.fixed ? 3 : 7, x, out); }
// Reads g and, unless its statistics are fixed and nobody wants the weight's gradient, x.
Work NormalizeChannelsBack::work() const {
  const bool reads_x = !norm.fixed || g_weight != nullptr;
  return {.kind = kReduce,
          .dtype = x.dtype(),
          .flops = (reads_x ? 11 : 2) * x.numel(),
          .bytes = g.nbytes() + (reads_x ? x.nbytes() : 0) + stored_bytes(g_x)};
}
Work Attention::work() const {
  const int64_t pairs = attention_pairs(scores, q.size(2), k.size(2));
  return {.kind = WorkKind::attention,
          .dtype = q.dtype(),
          .flops = 2 * q.size(0) * q.size(1) * pairs * (q.size(3) + v.size(3)),
          .bytes = stored_bytes(q) + stored_bytes(k) + stored_bytes(v) + out.nbytes() +
                   stored_bytes(scores.mask) + stored_bytes(scores.bias)};
}
// Twice the products of forward: of gradients with values, keys and queries. That kernels compute
// the scores once more is no work that is asked for.
Work AttentionBack::work() const {
  Work work = Attention{scores, q, k, v, out, log_sum}.work();
  work.flops *= 2;
  work.bytes += stored_bytes(q) + stored_bytes(k) + stored_bytes(v) + out.nbytes();
  return work;
}
Work LogLikelihood::work() const { return pass_work(kReduce, 4, x, out); }
Work LogLikelihoodBack::work() const { return pass_work(kReduce, 3, x, g_x); }
std::array<Work, 2> LogLikelihoodInPlace::work() const {
  return {pass_work(kReduce, 4, x, out), pass_work(kReduce, 3, x, x)};
}
Work CellStep::work() const {
  return {.dtype = h.dtype(),
          .flops = 5 * of_x.numel(),
          .bytes = of_x.nbytes() + of_h.nbytes() + 2 * h.nbytes() + 2 * stored_bytes(c)};
}
Work CellStepBack::work() const {
  return {.dtype = g_h.dtype(),
          .flops = 6 * gates.numel(),
          .bytes =
              3 * gates.nbytes() + 4 * g_h.nbytes() + (g_output.defined() ? g_output.nbytes() : 0)};
}

// A magnitude, a product and a rounding for each element; with the error a sum before and a
// difference behind.
Work Encode::work() const {
  return {.kind = WorkKind::elementwise,
          .dtype = x.dtype(),
          .flops = (error ? 6 : 3) * x.numel(),
          .bytes = x.nbytes() + bytes.nbytes() + 2 * stored_bytes(error)};
}
Work Decode::work() const {
  const int64_t rows = mode == DecodeMode::sum ? bytes.size(0) : 1;
  const int64_t adds = mode == DecodeMode::add ? 1 : rows - 1;
  return {.kind = WorkKind::elementwise,
          .dtype = out.dtype(),
          .flops = (rows + adds) * out.numel(),
          .bytes = bytes.nbytes() + (mode == DecodeMode::add ? 2 : 1) * out.nbytes()};
}

Work Recurrence::work() const { return pass_beside(kReduce, 2, b, out, stored_bytes(a)); }
Work KthPositions::work() const { return pass_work(kReduce, 1, x, positions); }
Work RunningExtremes::work() const { return pass_work(kReduce, 1, x, positions); }
Work GridSample::work() const { return samples_work(how, grid, out.size(1), x, grid, out); }
Work GridSampleBackX::work() const { return samples_work(how, grid, g.size(1), g, grid, out); }
Work GridSampleBackGrid::work() const { return samples_work(how, grid, g.size(1), g, grid, out); }

Work Convolve::work() const { return convolution_work(x, w, y); }
Work ConvolveBack::work() const { return convolution_work(x, w, y); }
Work ConvolveWeight::work() const { return convolution_work(x, w, y); }
Work QuantizedProduct::work() const {
  return product_work(kFloat32, y.numel(), x.size(-1), 1, x.nbytes() + w.nbytes() + y.nbytes());
}

// Multiplications and additions of the usual algorithms, to the leading order: Golub and Van Loan,
// "Matrix Computations", 4th edition, 3.1 (triangular systems), 3.2 (LU), 4.2 (Cholesky), 5.2 and
// 5.3 (QR, least squares), 8.3 (eigenvalues) and 8.6 (singular values).
Work FactorLU::work() const {
  const auto m = static_cast<double>(a.size(-2)), n = static_cast<double>(a.size(-1));
  return factors_work(lu_flops(m, n), a, 2 * a.nbytes() + pivots.nbytes());
}
Work SolveLU::work() const {
  const auto n = static_cast<double>(b.size(-2)), sides = static_cast<double>(b.size(-1));
  return factors_work(2 * n * n * sides, b, stored_bytes(factors) + 2 * b.nbytes());
}
Work SolveTriangular::work() const {
  const auto n = static_cast<double>(b.size(-2)), sides = static_cast<double>(b.size(-1));
  return factors_work(n * n * sides, b, stored_bytes(a) / 2 + 2 * b.nbytes());
}
Work FactorCholesky::work() const {
  const auto n = static_cast<double>(a.size(-1));
  return factors_work(n * n * n / 3, l, stored_bytes(a) / 2 + l.nbytes());
}
Work CholeskyFaults::work() const {  // as if all had factors
  const auto n = static_cast<double>(a.size(-1));
  return factors_work(n * n * n / 3, a, stored_bytes(a) / 2 + faults.nbytes());
}
Work FactorQR::work() const {  // R, and then the columns of Q
  const auto m = static_cast<double>(a.size(-2)), n = static_cast<double>(a.size(-1));
  return factors_work(2 * lu_flops(m, n) + 2 * lu_flops(m, std::min(m, n)), a,
                      stored_bytes(a) + q.nbytes() + r.nbytes());
}
Work LeastSquares::work() const {
  const auto m = static_cast<double>(a.size(-2)), n = static_cast<double>(a.size(-1));
  const auto sides = static_cast<double>(x.size(-1));
  if (x.numel() == 0) return {};
  return factors_work(2 * lu_flops(m, n) + sides * (4 * m * n - n * n), x,
                      stored_bytes(a) + stored_bytes(b) + x.nbytes());
}
Work FactorSVD::work() const {
  const auto m = static_cast<double>(std::max(a.size(-2), a.size(-1)));
  const auto n = static_cast<double>(std::min(a.size(-2), a.size(-1)));
  return factors_work(14 * m * n * n + 8 * n * n * n, a,
                      stored_bytes(a) + u.nbytes() + s.nbytes() + vh.nbytes());
}
Work FactorEigh::work() const {
  const auto n = static_cast<double>(a.size(-1));
  return factors_work(9 * n * n * n, a, stored_bytes(a) / 2 + values.nbytes() + vectors.nbytes());
}

}  // namespace call

}  // namespace hero::core
