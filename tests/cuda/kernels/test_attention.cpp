// Attention and its gradients against the CPU's in float64, in every dtype, layout and mask.
#include <cmath>
#include <random>

#include "cuda/gpu.h"

#include <hero/autograd/ops.h>
#include <hero/core/device/backend.h>

using namespace hero;
using namespace hero_test;
using Catch::Matchers::ContainsSubstring;
using core::AttentionScores;

namespace {

// B batch, H heads of q, G of k and v, T queries, S keys, D and E sizes of a key and a value.
struct Case {
  enum class Lie { dense, packed, turned };  // rows together; views of one [B, T, 3, H, D]; columns
  int64_t B = 1, H = 1, G = 1, T = 1, S = 1, D = 16, E = 16;
  bool is_causal = false, mask = false, bias = false;
  double scale = 0.4;
  bool blind = false;  // the second query may see no key
  Lie lie = Lie::dense;
  int64_t first = 0;  // the first query's position among the keys
};

std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << "B" << c.B << " H" << c.H << " G" << c.G << " T" << c.T << " S" << c.S << " D"
             << c.D << " E" << c.E << (c.is_causal ? " causal" : "") << (c.mask ? " mask" : "")
             << (c.bias ? " bias" : "") << (c.blind ? " blind" : "") << " lie "
             << static_cast<int>(c.lie) << " scale " << c.scale << " first " << c.first;
}

Array normal(const Shape& shape, std::mt19937& random, DType dtype) {
  std::vector<float> values(static_cast<size_t>(shape.numel()));
  std::normal_distribution<float> draw;
  for (float& x : values) x = draw(random);
  return Array::from(values, shape).to(dtype);
}

// What goes into attention, on the host; operands have the values that `dtype` can hold.
struct Inputs {
  Case size;
  Array q, k, v, g, mask, bias;

  Inputs(const Case& c, DType dtype) : size(c) {
    std::mt19937 random(7);
    q = normal({c.B, c.H, c.T, c.D}, random, dtype);
    k = normal({c.B, c.G, c.S, c.D}, random, dtype);
    v = normal({c.B, c.G, c.S, c.E}, random, dtype);
    g = normal({c.B, c.H, c.T, c.E}, random, dtype);
    const Shape scores{c.B, c.H, c.T, c.S};
    if (c.bias) bias = normal({c.H, c.T, c.S}, random, sums_of(dtype)).expand(scores);
    if (!c.mask) return;
    std::vector<uint8_t> shown(static_cast<size_t>(c.B * c.T * c.S));
    for (size_t i = 0; i < shown.size(); ++i) {
      shown[i] = random() % 4 != 0 || i % static_cast<size_t>(c.S) == 0;  // the first key always
    }
    if (c.blind) std::fill_n(shown.begin() + c.S, c.S, uint8_t{0});
    mask = Array::from(shown, {c.B, 1, c.T, c.S}).to(kBool).expand(scores);
  }
  static DType sums_of(DType dtype) { return dtype == kFloat64 ? kFloat64 : kFloat32; }
};

// x, which is q, k or v, on `device`, laid out as the case says.
Array laid_out(const Inputs& in, int which, DType dtype, Device device) {
  const Array& x = which == 0 ? in.q : which == 1 ? in.k : in.v;
  if (in.size.lie == Case::Lie::turned) {
    return x.to(dtype).transpose(2, 3).contiguous().to(device).transpose(2, 3);
  }
  if (in.size.lie == Case::Lie::dense) return x.to(dtype).to(device);
  const auto& [B, H, G, T, S, D, E, causal, mask, bias, scale, blind, lie, first] = in.size;
  std::vector<float> all;
  const std::vector<float> q = in.q.to_vector<float>(), k = in.k.to_vector<float>();
  const std::vector<float> v = in.v.to_vector<float>();
  for (int64_t b = 0; b < B; ++b) {
    for (int64_t t = 0; t < T; ++t) {
      for (const auto* from : {&q, &k, &v}) {
        for (int64_t h = 0; h < H; ++h) {
          const auto at = from->begin() + ((b * H + h) * T + t) * D;
          all.insert(all.end(), at, at + D);
        }
      }
    }
  }
  const Array packed = Array::from(all, {B, T, 3, H, D}).to(dtype).to(device);
  return packed.select(2, which).permute({0, 2, 1, 3});
}

struct Results {
  Array out, log_sum, g_q, g_k, g_v;
};

// [B, heads, rows, columns] laid out as [B, rows, heads, columns], with NaN before it is written.
Array beside(const Shape& s, DType dtype, Device device) {
  return Array::full({s[0], s[2], s[1], s[3]}, NAN, dtype, device).permute({0, 2, 1, 3});
}

Results attend(const Inputs& in, DType dtype, Device device) {
  const Array q = laid_out(in, 0, dtype, device), k = laid_out(in, 1, dtype, device);
  const Array v = laid_out(in, 2, dtype, device), g = in.g.to(dtype).to(device);
  const DType sums = Inputs::sums_of(dtype);
  Array mask, bias;
  AttentionScores scores{in.size.scale, in.size.is_causal, nullptr, nullptr, in.size.first};
  // a mask or bias of stride 0 stays one
  const Shape shape{in.size.B, in.size.H, in.size.T, in.size.S};
  if (in.mask.defined()) mask = in.mask.slice(1, 0, 1).contiguous().to(device).expand(shape);
  if (in.bias.defined()) {
    bias = in.bias.slice(0, 0, 1).contiguous().to(sums).to(device).expand(shape);
  }
  if (mask.defined()) scores.mask = &mask;
  if (bias.defined()) scores.bias = &bias;
  Results r;
  Shape of_out = q.shape();
  of_out[3] = v.shape()[3];
  r.out = beside(of_out, dtype, device);
  r.log_sum = Array::full({q.shape()[0], q.shape()[1], q.shape()[2]}, NAN, sums, device);
  r.g_q = beside(q.shape(), dtype, device);
  r.g_k = beside(k.shape(), dtype, device);
  r.g_v = beside(v.shape(), dtype, device);
  core::Backend& backend = core::backend(device);
  backend.run(core::call::Attention{scores, q, k, v, r.out, r.log_sum});
  backend.run(core::call::AttentionBack{scores, g, q, k, v, r.out, r.log_sum, r.g_q, r.g_k, r.g_v});
  return r;
}

std::vector<double> values(const Array& x) { return x.to(kCpu).to(kFloat64).to_vector<double>(); }

double norm(const std::vector<double>& x) {
  double sum = 0.0;
  for (const double each : x) sum += std::isnan(each) ? 0.0 : each * each;
  return std::sqrt(sum);
}

// |x - y| / max(|y|, least) in the 2-norm; infinite where one is NaN or infinite and the other is
// not.
double distance(const Array& x, const Array& y, double least = 1e-300) {
  std::vector<double> difference = values(x);
  std::vector<double> exact = values(y);
  for (size_t i = 0; i < exact.size(); ++i) {
    if (std::isnan(difference[i]) != std::isnan(exact[i])) return INFINITY;
    if (std::isinf(exact[i])) {
      if (difference[i] != exact[i]) return INFINITY;
      difference[i] = exact[i] = 0.0;
    }
    difference[i] -= exact[i];
  }
  return norm(difference) / std::max(norm(exact), least);
}

// Units in which results differ from exact ones. Float32 and float64: a score is a sum of D
// rounded products of size a few, and its error is the relative one of its probability, so some 10
// roundings of 2^-24 or 2^-53. Halves: operands of the second product (probabilities and their
// gradients) and results are rounded once each, by at most 2^-9 (bfloat16) or 2^-12 (float16) of
// their size; the gradient of a score is a difference of numbers that carry such errors and that
// cancel to a fraction of their size.
double tolerance(DType dtype, bool gradient) {
  if (dtype == kFloat64) return 0x1p-47;
  if (dtype == kFloat32) return 0x1p-19;
  const double rounding = dtype == kBFloat16 ? 0x1p-9 : 0x1p-12;
  return gradient ? 4 * rounding : 1.5 * rounding;
}

void compare(const Case& c, DType dtype) {
  INFO(c << " " << name(dtype));
  const Inputs in(c, dtype);
  const Results gpu = attend(in, dtype, kGpu), exact = attend(in, kFloat64, kCpu);
  CHECK(distance(gpu.out, exact.out) <= tolerance(dtype, false));
  // sums of exponentials are made in float, from operands that are exact
  CHECK(distance(gpu.log_sum, exact.log_sum) <=
        tolerance(dtype == kFloat64 ? kFloat64 : kFloat32, false));
  // where a query sees one key only, the gradient of its score is a difference of equal numbers of
  // the size of g, and what is left of it is their rounding
  const double least = 0.1 * norm(values(in.g));
  CHECK(distance(gpu.g_q, exact.g_q, least) <= tolerance(dtype, true));
  CHECK(distance(gpu.g_k, exact.g_k, least) <= tolerance(dtype, true));
  CHECK(distance(gpu.g_v, exact.g_v) <= tolerance(dtype, true));
}

}  // namespace

TEST_CASE("attention on the GPU has the CPU's values and gradients, whatever the lengths") {
  HERO_NEEDS_GPU();
  for (const int64_t T : {1, 15, 16, 17, 63, 64, 65, 130}) {
    compare({.T = T, .S = T == 130 ? 65 : 130 - T, .D = 5, .E = 3}, kFloat64);
    compare({.T = T, .S = T, .is_causal = true}, kFloat32);
  }
}

TEST_CASE("attention on the GPU masks as the CPU does where there are more queries or more keys") {
  HERO_NEEDS_GPU();
  compare({.T = 20, .S = 70, .D = 33, .E = 8, .is_causal = true}, kFloat64);
  compare({.T = 70, .S = 20, .D = 8, .E = 33, .is_causal = true}, kFloat64);
  compare({.T = 70, .S = 65, .is_causal = true, .mask = true, .bias = true}, kFloat64);
  compare({.B = 2, .H = 2, .G = 2, .T = 3, .S = 67, .mask = true, .bias = true}, kFloat32);
  compare({.T = 9, .S = 9, .scale = -0.5}, kFloat32);
}

TEST_CASE("queries on the GPU that begin among the keys see those before them") {
  HERO_NEEDS_GPU();
  for (const int64_t first : {1, 16, 60, 64, 100}) {
    for (const DType dtype : {kFloat64, kFloat32, kBFloat16}) {
      compare({.T = 70, .S = 170, .is_causal = true, .first = first}, dtype);
    }
  }
  compare({.B = 2, .H = 4, .G = 2, .T = 20, .S = 130, .is_causal = true, .first = 110}, kFloat16);
  compare({.T = 20, .S = 70, .is_causal = true, .mask = true, .bias = true, .first = 37},
          kBFloat16);
  compare({.T = 9, .S = 9, .is_causal = true, .first = 30}, kFloat32);  // all keys are seen
}

TEST_CASE("attention on the GPU shares keys and values among groups of heads") {
  HERO_NEEDS_GPU();
  compare({.B = 2, .H = 6, .G = 2, .T = 10, .S = 13}, kFloat64);
  compare({.B = 1, .H = 3, .G = 1, .T = 17, .S = 65, .is_causal = true, .mask = true}, kFloat32);
}

TEST_CASE("attention on the GPU takes heads of any size") {
  HERO_NEEDS_GPU();
  compare({.T = 5, .S = 66, .D = 1, .E = 1}, kFloat64);
  compare({.T = 66, .S = 5, .D = 64, .E = 64}, kFloat32);
  compare({.T = 5, .S = 7, .D = 65, .E = 129}, kFloat64);
  compare({.T = 5, .S = 7, .D = 256, .E = 256, .scale = 0.1}, kFloat32);
  compare({.T = 5, .S = 7, .D = 20, .E = 300}, kBFloat16);
  compare({.T = 17, .S = 7, .D = 20, .E = 36}, kFloat16);
}

TEST_CASE("attention of halves has the values and gradients of float64, whatever the lengths") {
  HERO_NEEDS_GPU();
  for (const int64_t T : {1, 15, 16, 17, 63, 64, 65, 130}) {
    compare({.T = T, .S = T, .is_causal = true}, kBFloat16);
  }
  compare({.T = 17, .S = 130, .is_causal = true}, kFloat16);
  compare({.T = 130, .S = 17, .is_causal = true}, kFloat16);
  compare({.T = 65, .S = 49}, kFloat16);
}

TEST_CASE("attention of halves masks, takes a bias and shares keys and values") {
  HERO_NEEDS_GPU();
  compare({.T = 70, .S = 65, .is_causal = true, .mask = true, .bias = true}, kBFloat16);
  compare({.B = 2, .H = 2, .G = 1, .T = 3, .S = 67, .mask = true, .bias = true}, kFloat16);
  compare({.B = 2, .H = 4, .G = 2, .T = 50, .S = 33, .is_causal = true}, kBFloat16);
  compare({.T = 9, .S = 9, .scale = -0.5}, kFloat16);
}

TEST_CASE("attention of halves takes heads of 8 to 128, keys and values of different sizes") {
  HERO_NEEDS_GPU();
  compare({.T = 20, .S = 20, .D = 64, .E = 64, .is_causal = true, .scale = 0.125}, kBFloat16);
  compare({.T = 20, .S = 70, .D = 128, .E = 128, .scale = 0.09}, kBFloat16);
  compare({.T = 70, .S = 70, .D = 80, .E = 112, .is_causal = true, .scale = 0.1}, kFloat16);
  compare({.T = 20, .S = 20, .D = 96, .E = 8, .mask = true, .scale = 0.1}, kBFloat16);
}

TEST_CASE("attention on the GPU reads views and writes the layout it is given") {
  HERO_NEEDS_GPU();
  for (const DType dtype : {kFloat32, kBFloat16, kFloat16}) {
    for (const Case::Lie lie : {Case::Lie::packed, Case::Lie::turned}) {
      compare({.B = 2, .H = 2, .G = 2, .T = 19, .S = 19, .is_causal = true, .lie = lie}, dtype);
    }
  }
}

TEST_CASE("a query that may see no key gets 0 on the GPU, and no gradient but 0 by its row") {
  HERO_NEEDS_GPU();
  for (const DType dtype : {kFloat64, kFloat32, kBFloat16, kFloat16}) {
    compare({.T = 70, .S = 70, .is_causal = true, .mask = true, .blind = true}, dtype);
  }
}

TEST_CASE("attention on the GPU gives the same bits twice") {
  HERO_NEEDS_GPU();
  for (const DType dtype : {kFloat32, kBFloat16}) {
    const Inputs in({.B = 1, .H = 2, .G = 1, .T = 40, .S = 70}, dtype);
    const Results a = attend(in, dtype, kGpu), b = attend(in, dtype, kGpu);
    CHECK(values(a.out) == values(b.out));
    CHECK(values(a.log_sum) == values(b.log_sum));
    CHECK(values(a.g_q) == values(b.g_q));
    CHECK(values(a.g_k) == values(b.g_k));
    CHECK(values(a.g_v) == values(b.g_v));
  }
}

TEST_CASE(
    "attention on the GPU without queries has gradients of zero, and of wrong types is an error") {
  HERO_NEEDS_GPU();
  const Results none = attend(Inputs({.T = 0, .S = 5}, kFloat32), kFloat32, kGpu);
  for (const double x : values(none.g_k)) CHECK(x == 0.0);
  for (const double x : values(none.g_v)) CHECK(x == 0.0);
  const Array x = Array::zeros({1, 1, 2, 8}, kBFloat16, kGpu);
  const Array log_sum = Array::zeros({1, 1, 2}, kBFloat16, kGpu);
  CHECK_THROWS_WITH(
      core::backend(kGpu).run(core::call::Attention{{}, x, x, x, x, log_sum}),
      ContainsSubstring("attention: log_sum is bfloat16") && ContainsSubstring("make it float32"));
}

TEST_CASE("a tensor's attention on the GPU stays in halves") {
  HERO_NEEDS_GPU();
  const Inputs in({.T = 18, .S = 18, .is_causal = true, .scale = 0.25}, kBFloat16);
  const auto leaf = [](const Array& x) { return Tensor(x.to(kBFloat16).to(kGpu), true); };
  const Tensor q = leaf(in.q), k = leaf(in.k), v = leaf(in.v);
  const Tensor out = scaled_dot_product_attention(q, k, v, {.is_causal = true});
  CHECK(out.dtype() == kBFloat16);
  out.backward(Tensor(in.g.to(kBFloat16).to(kGpu)));
  const Results exact = attend(in, kFloat64, kCpu);
  CHECK(distance(out.array(), exact.out) <= tolerance(kBFloat16, false));
  CHECK(distance(q.grad().array(), exact.g_q) <= tolerance(kBFloat16, true));
  CHECK(distance(k.grad().array(), exact.g_k) <= tolerance(kBFloat16, true));
  CHECK(distance(v.grad().array(), exact.g_v) <= tolerance(kBFloat16, true));
}

TEST_CASE("gradients of q, k and v that one projection gave are parts of one array on the GPU") {
  HERO_NEEDS_GPU();
  for (const DType dtype : {kFloat32, kBFloat16}) {
    for (const int64_t groups : {2, 1}) {
      constexpr int64_t B = 2, T = 19, H = 2, D = 16;
      std::mt19937 random(7);
      const int64_t rows = groups * D;
      const Array packed = normal({B, T, H * D + 2 * rows}, random, dtype).to(kGpu);
      const Tensor g(normal({B, H, T, D}, random, dtype).to(kGpu));
      const auto heads = [](const Tensor& part) {
        return transpose(part.reshape({B, T, part.size(2) / D, D}), 1, 2);
      };
      const AttentionOptions options{.is_causal = true, .enable_gqa = groups != H};

      const Tensor whole(packed, true);
      const std::vector<Tensor> parts = split(whole, {H * D, rows, rows}, 2);
      const std::byte* first = nullptr;
      parts[0].register_hook([&](const Tensor& part) {
        first = part.array().bytes();
        return Tensor();
      });
      scaled_dot_product_attention(heads(parts[0]), heads(parts[1]), heads(parts[2]), options)
          .backward(g);
      CHECK(whole.grad().array().bytes() == first);  // nothing was copied

      std::vector<Tensor> alone;
      for (const Tensor& part : parts) alone.emplace_back(part.array().clone(), true);
      scaled_dot_product_attention(heads(alone[0]), heads(alone[1]), heads(alone[2]), options)
          .backward(g);
      int64_t at = 0;
      for (const Tensor& part : alone) {
        const Array found = whole.grad().array().slice(2, at, at + part.size(2));
        CHECK(distance(found, part.grad().array()) <= tolerance(dtype, true));
        at += part.size(2);
      }
    }
  }
}
