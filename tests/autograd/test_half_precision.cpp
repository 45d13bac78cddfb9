// Halves are computed in float32 and rounded once: every row of the op table, and functions whose
// sums leave float16's range on the way, beside float64 of the same values.
#include <cmath>
#include <map>

#include "autograd/tables/op_table.h"
#include "support/catch.h"

#include <hero/autograd/ops.h>
#include <hero/core/ledger.h>

namespace hero::test {

namespace {

constexpr DType kHalves[] = {kFloat16, kBFloat16};

// What the last of a half's bits is worth at `value`.
double unit(double value, DType dtype) {
  const int digits = dtype == kFloat16 ? 10 : 7, lowest = dtype == kFloat16 ? -14 : -126;
  int exponent = 0;
  std::frexp(value, &exponent);
  return std::ldexp(1.0, std::max(exponent - 1, lowest) - digits);
}

double largest(DType dtype) { return dtype == kFloat16 ? 65504.0 : 3.3895313892515355e38; }

// How far the half is from the right value, in units of its last bit; beyond the range inf is
// right.
double error(double half, double right, DType dtype) {
  if (std::isnan(right)) return std::isnan(half) ? 0.0 : 1e9;
  if (std::abs(right) > largest(dtype)) {
    return std::isinf(half) || std::abs(half) == largest(dtype) ? 0.0 : 1e9;
  }
  // Exponentials of float32 end at e^-87.
  if (std::abs(half) < 1e-35 && std::abs(right) < 1e-35) return 0.0;
  if (!std::isfinite(half)) return std::isinf(right) && half == right ? 0.0 : 1e9;
  return std::abs(half - right) / unit(right, dtype);
}

double worst(const Tensor& half, const Tensor& right, DType dtype) {
  REQUIRE(to_string(half.shape()) == to_string(right.shape()));
  const auto h = half.to_vector<double>(), r = right.to_vector<double>();
  double most = 0.0, scale = 0.0;
  for (const double value : r) {
    if (std::isfinite(value)) scale = std::max(scale, std::abs(value));
  }
  for (size_t i = 0; i < h.size(); ++i) {
    // Where terms cancel, what is left is their rounding in float32. The largest is that of a
    // probability near 1 less 1, whose logarithm is a logit of up to 90 less another: 2^-24 * 90.
    if (std::abs(h[i] - r[i]) <= std::ldexp(scale, -17)) continue;
    most = std::max(most, error(h[i], r[i], dtype));
  }
  return most;
}

// Inputs of a half's values in that dtype and in float64.
struct Pairs {
  Tensors halves, doubles;
};

Pairs pairs_of(const Tensors& values, DType dtype) {
  Pairs pairs;
  for (const Tensor& value : values) {
    const bool floating = is_floating(value.dtype());
    const Tensor half = floating ? value.detach().to(dtype).detach() : value;
    pairs.halves.push_back(floating ? half.requires_grad_() : half);
    pairs.doubles.push_back(floating ? half.detach().to(kFloat64).detach().requires_grad_() : half);
  }
  return pairs;
}

struct Errors {
  double value = 0.0, gradient = 0.0;
};

// The largest errors of what `call` gives and of its gradients.
Errors errors_of(const Call& call, const Tensors& values, DType dtype, bool differentiable) {
  const Pairs in = pairs_of(values, dtype);
  const Tensors halves = call.run(in.halves), doubles = call.run(in.doubles);
  Errors errors;
  Tensors roots, right_roots, leaves, right_leaves;
  GradOptions options{.allow_unused = true}, right_options{.allow_unused = true};
  for (size_t i = 0; i < halves.size(); ++i) {
    if (!is_floating(doubles[i].dtype())) {
      CHECK(equal(halves[i], doubles[i]));
      continue;
    }
    errors.value = std::max(errors.value, worst(halves[i], doubles[i], dtype));
    if (!differentiable || !halves[i].requires_grad()) continue;
    manual_seed(31);
    const Tensor g = (rand(halves[i].shape(), {.dtype = kFloat64}) + 0.5).to(dtype);
    roots.push_back(halves[i]);
    right_roots.push_back(doubles[i]);
    options.grad_outputs.push_back(g.to(halves[i].dtype()));
    right_options.grad_outputs.push_back(g.to(kFloat64));
  }
  if (roots.empty()) return errors;
  for (size_t i = 0; i < in.halves.size(); ++i) {
    if (!in.halves[i].requires_grad()) continue;
    leaves.push_back(in.halves[i]);
    right_leaves.push_back(in.doubles[i]);
  }
  const Tensors found = grad(roots, leaves, options);
  const Tensors right = grad(right_roots, right_leaves, right_options);
  for (size_t i = 0; i < found.size(); ++i) {
    if (!found[i].defined()) continue;
    errors.gradient = std::max(errors.gradient, worst(found[i], right[i], dtype));
  }
  return errors;
}

Rows all_rows() {
  Rows rows;
  for (const Rows& some : {unary_rows(), binary_rows(), reduction_rows(), shape_rows(),
                           indexing_rows(), product_rows(), network_rows()}) {
    rows.insert(rows.end(), some.begin(), some.end());
  }
  return rows;
}

// Functions whose sums leave float16's range, or whose parts cancel, on the way to a result that
// does not.
struct Wide {
  const char* name;
  Tensors inputs;
  Call call;
  bool stores_halves =
      false;  // that backward reads: its gradients are tests/autograd/ops/test_fused*'s
};

Tensor spread(const Shape& shape, double size) { return randn(shape, {.dtype = kFloat64}) * size; }

std::vector<Wide> wide_cases() {
  manual_seed(17);
  const Tensor big = full({1000}, 100.0), rows = spread({6, 40}, 300.0),
               more = spread({6, 40}, 300.0);
  const Tensor image = spread({3, 4, 11, 9}, 200.0) + 1000.0, w4 = rand({4}) + 0.5,
               b4 = spread({4}, 900.0);
  const Tensor p = rand({500, 3}) * 0.8 + 0.1;
  const Tensor classes = remainder(arange(1500) * 7, 3);
  const auto of = [](auto f) { return Call([f](const Tensors& x) { return f(x); }); };
  std::vector<Wide> cases;
  const auto add = [&](const char* name, Tensors inputs, auto f) {
    cases.push_back({name, std::move(inputs), of(f)});
  };
  add("mean", {big}, [](const Tensors& x) { return mean(x[0]); });
  add("mean of columns", {rows * 8.0 + 20000.0}, [](const Tensors& x) { return mean(x[0], {0}); });
  add("var", {spread({1000}, 20.0) + 500.0}, [](const Tensors& x) { return var(x[0]); });
  add("std", {rows}, [](const Tensors& x) { return hero::std(x[0], {.dims = {1}}); });
  for (const double order : {0.5, 2.0, 3.0}) {
    add("norm", {rows}, [=](const Tensors& x) { return norm(x[0], order, {1}); });
  }
  add("logsumexp", {zeros({2, 70000})}, [](const Tensors& x) { return logsumexp(x[0], {1}); });
  add("prod", {tensor({300.0, 300.0, 0.01, 0.5})}, [](const Tensors& x) { return prod(x[0]); });
  add("mse_loss", {rows * 0.5, more * 0.1}, [](const Tensors& x) { return mse_loss(x[0], x[1]); });
  add("l1_loss", {rows * 8.0, more}, [](const Tensors& x) { return l1_loss(x[0], x[1]); });
  add("huber_loss", {rows, more}, [](const Tensors& x) { return huber_loss(x[0], x[1], 50.0); });
  add("smooth_l1_loss", {rows, more},
      [](const Tensors& x) { return smooth_l1_loss(x[0], x[1], 400.0); });
  add("kl_div", {log(p), p * 100.0}, [](const Tensors& x) { return kl_div(x[0], x[1]); });
  add("binary_cross_entropy", {p, rand({500, 3})},
      [](const Tensors& x) { return binary_cross_entropy(x[0], x[1]); });
  add("bce_with_logits", {spread({1000}, 400.0), rand({1000})},
      [](const Tensors& x) { return bce_with_logits(x[0], x[1]); });
  add("cross_entropy", {spread({1500, 3}, 90.0), classes},
      [](const Tensors& x) { return cross_entropy(x[0], x[1]); });
  add("cross_entropy, weights", {spread({1500, 3}, 90.0), classes, rand({3}) + 60.0},
      [](const Tensors& x) { return cross_entropy(x[0], x[1], {.weight = x[2]}); });
  add("cross_entropy, smooth", {spread({1500, 3}, 90.0), classes},
      [](const Tensors& x) { return cross_entropy(x[0], x[1], {.label_smoothing = 0.1}); });
  add("cross_entropy, places", {spread({15, 3, 100}, 90.0), classes.reshape({15, 100})},
      [](const Tensors& x) { return cross_entropy(x[0], x[1]); });
  add("cross_entropy, shares", {spread({1500, 3}, 90.0), softmax(spread({1500, 3}, 1.0), 1)},
      [](const Tensors& x) { return cross_entropy(x[0], x[1]); });
  add("nll_loss", {spread({1500, 3}, 90.0) - 200.0, classes},
      [](const Tensors& x) { return nll_loss(x[0], x[1]); });
  add("cosine_similarity", {rows, rows + more * 0.3},
      [](const Tensors& x) { return cosine_similarity(x[0], x[1]); });
  add("cosine_embedding_loss", {rows, rows + more * 0.3, tensor({1, -1, 1, 1, -1, 1})},
      [](const Tensors& x) { return cosine_embedding_loss(x[0], x[1], x[2]); });
  add("pairwise_distance", {rows, more},
      [](const Tensors& x) { return pairwise_distance(x[0], x[1]); });
  add("triplet_margin_loss", {rows, rows + more * 0.3, more},
      [](const Tensors& x) { return triplet_margin_loss(x[0], x[1], x[2], {.margin = 3000.0}); });
  add("gaussian_nll_loss", {rows, more, rand({6}) * 2000.0 + 10000.0},
      [](const Tensors& x) { return gaussian_nll_loss(x[0], x[1], x[2]); });
  add("poisson_nll_loss", {rand({1000}) * 7.0, rand({1000}) * 3.0},
      [](const Tensors& x) { return poisson_nll_loss(x[0], x[1], {.full = true}); });
  add("multi_margin_loss", {rows * 0.3, tensor({1, 2, 3, 4, 5, 6})},
      [](const Tensors& x) { return multi_margin_loss(x[0], x[1], {.p = 2}); });
  add("hinge_embedding_loss", {spread({2000}, 100.0)}, [](const Tensors& x) {
    return hinge_embedding_loss(x[0], where(x[0].detach() > 0, ones_like(x[0].detach()), -1), 2.0);
  });
  add("multilabel_soft_margin_loss", {spread({300, 5}, 500.0), rand({300, 5})},
      [](const Tensors& x) { return multilabel_soft_margin_loss(x[0], x[1]); });
  add("layer_norm", {rows + 500.0, rand({40}), spread({40}, 50.0)},
      [](const Tensors& x) { return layer_norm(x[0], {40}, x[1], x[2]); });
  add("rms_norm", {rows, rand({40})}, [](const Tensors& x) { return rms_norm(x[0], x[1]); });
  add("group_norm", {image, w4, b4},
      [](const Tensors& x) { return group_norm(x[0], 2, x[1], x[2]); });
  add("batch_norm, training", {image, w4, b4}, [](const Tensors& x) {
    return batch_norm(x[0], {}, {}, {.weight = x[1], .bias = x[2], .training = true});
  });
  add("batch_norm, evaluation", {image, w4 * 1000.0, w4 * 10000.0, w4, b4}, [](const Tensors& x) {
    return batch_norm(x[0], x[1], x[2], {.weight = x[3], .bias = x[4]});
  });
  add("linear", {spread({5, 64}, 30.0), spread({7, 64}, 30.0), spread({7}, 3000.0)},
      [](const Tensors& x) { return linear(x[0], x[1], x[2]); });
  add("linear_gelu", {spread({5, 64}, 1.0), spread({7, 64}, 0.5), spread({7}, 3.0)},
      [](const Tensors& x) { return linear_gelu(x[0], x[1], x[2]); });
  add("bilinear",
      {spread({5, 6}, 20.0), spread({5, 7}, 0.1), spread({2, 6, 7}, 30.0), spread({2}, 9.0)},
      [](const Tensors& x) { return bilinear(x[0], x[1], x[2], x[3]); });
  add("einsum", {rows, more, spread({6, 40}, 0.01)},
      [](const Tensors& x) { return einsum("ab,ab,ab->a", x); });
  add("einsum of a sum", {full({3, 1000}, 90.0), full({3}, 0.005)}, [](const Tensors& x) {
    return einsum("ab,a->", {x[0], x[1]});
  });
  add("conv2d", {image * 0.01, spread({5, 4, 3, 3}, 5.0), spread({5}, 2000.0)},
      [](const Tensors& x) { return conv2d(x[0], x[1], x[2]); });
  add("conv_transpose2d", {image * 0.01, spread({4, 5, 3, 3}, 5.0), spread({5}, 2000.0)},
      [](const Tensors& x) {
        return conv_transpose2d(x[0], x[1], x[2], {.stride = {2, 2}});
      });
  add("avg_pool2d", {image * 10.0}, [](const Tensors& x) { return avg_pool2d(x[0], {5, 4}); });
  add("adaptive_avg_pool2d", {image * 10.0}, [](const Tensors& x) {
    return adaptive_avg_pool2d(x[0], {4, 2});
  });
  add("max_pool2d", {image}, [](const Tensors& x) {
    return max_pool2d(x[0], {5, 5}, {.stride = Pair{1, 1}});
  });
  add("attention",
      {spread({2, 3, 5, 8}, 20.0), spread({2, 3, 6, 8}, 20.0), spread({2, 3, 6, 4}, 1.0)},
      [](const Tensors& x) { return scaled_dot_product_attention(x[0], x[1], x[2]); });
  add("attention, fewer batches of q",
      {spread({5, 8}, 2.0), spread({2, 3, 6, 8}, 2.0), spread({2, 3, 6, 4}, 1.0)},
      [](const Tensors& x) { return scaled_dot_product_attention(x[0], x[1], x[2]); });
  add("attention, a bias",
      {spread({2, 5, 8}, 0.5), spread({2, 6, 8}, 0.5), spread({2, 6, 4}, 1.0), spread({5, 6}, 1.0)},
      [](const Tensors& x) {
        return scaled_dot_product_attention(x[0], x[1], x[2], {.bias = x[3]});
      });
  add("attention, five dimensions",
      {spread({2, 1, 2, 5, 8}, 2.0), spread({2, 2, 1, 6, 8}, 2.0), spread({1, 2, 2, 6, 4}, 1.0)},
      [](const Tensors& x) { return scaled_dot_product_attention(x[0], x[1], x[2]); });
  add("addcmul", {full({4}, -60000.0), full({4}, 300.0), full({4}, 300.0)},
      [](const Tensors& x) { return addcmul(x[0], x[1], x[2]); });
  add("addcdiv", {full({4}, 3.0), rand({4}) * 900.0, rand({4}) + 0.01},
      [](const Tensors& x) { return addcdiv(x[0], x[1], x[2], 0.3); });
  add("glu", {rows}, [](const Tensors& x) { return glu(x[0]); });
  add("celu", {linspace(-12.0, 4.0, 33)}, [](const Tensors& x) { return celu(x[0]); });
  add("selu", {linspace(-12.0, 4.0, 33)}, [](const Tensors& x) { return selu(x[0]); });
  add("softshrink", {linspace(-3.0, 3.0, 33)},
      [](const Tensors& x) { return softshrink(x[0], 0.3); });
  add("tanhshrink", {linspace(-3.0, 3.0, 34)}, [](const Tensors& x) { return tanhshrink(x[0]); });
  add("mish", {linspace(-12.0, 4.0, 33)}, [](const Tensors& x) { return mish(x[0]); });
  add("prelu", {rows, full({1}, 0.3)}, [](const Tensors& x) { return prelu(x[0], x[1]); });
  add("atan2", {rows, more}, [](const Tensors& x) { return atan2(x[0], x[1]); });
  add("a number over x", {full({3}, 300.0)}, [](const Tensors& x) { return 60000.0 / x[0]; });
  add("div", {full({3}, 40000.0), full({3}, 300.0)}, [](const Tensors& x) { return x[0] / x[1]; });
  add("atan", {rows}, [](const Tensors& x) { return atan(x[0]); });
  add("softsign", {rows}, [](const Tensors& x) { return softsign(x[0]); });
  add("embedding", {spread({3, 8}, 1.0)},
      [](const Tensors& x) { return embedding(x[0], zeros({3000}, {.dtype = kInt64})); });
  add("index_add", {zeros({4, 20}), rand({3000, 20})},
      [](const Tensors& x) { return index_add(x[0], 0, remainder(arange(3000), 3), x[1]); });
  add("scatter_add", {zeros({4}), rand({3000})},
      [](const Tensors& x) { return scatter_add(x[0], 0, remainder(arange(3000), 3), x[1]); });
  add("rnn_cell",
      {spread({2, 5}, 0.3), spread({2, 4}, 0.3), spread({4, 5}, 0.3), spread({4, 4}, 0.3)},
      [](const Tensors& x) {
        return rnn_cell(x[0], x[1], {x[2], x[3], {}, {}});
      });
  add("gru_cell",
      {spread({2, 5}, 0.3), spread({2, 4}, 0.3), spread({12, 5}, 0.3), spread({12, 4}, 0.3)},
      [](const Tensors& x) {
        return gru_cell(x[0], x[1], {x[2], x[3], {}, {}});
      });
  add("lstm_cell",
      {spread({2, 5}, 2.0), spread({2, 4}, 2.0), spread({2, 4}, 2.0), spread({16, 5}, 1.0),
       spread({16, 4}, 1.0)},
      [](const Tensors& x) {
        const LstmState next = lstm_cell(x[0], {x[1], x[2]}, {x[3], x[4], {}, {}});
        return Tensors{next.h, next.c};
      });
  for (Wide& wide : cases) {
    const std::string which = wide.name;
    const bool fused = which.starts_with("attention") && which != "attention, a bias";
    wide.stores_halves = fused || which == "linear_gelu";
  }
  return cases;
}

}  // namespace

// Half a unit is the rounding; the rest is float32's own, where terms cancel.
constexpr double kRounded = 0.51, kGradient = 1.0;

TEST_CASE("functions of halves are rounded once, whatever their sums reach on the way") {
  for (const Wide& wide : wide_cases()) {
    for (const DType dtype : kHalves) {
      INFO(wide.name << " " << std::string(name(dtype)));
      const Errors errors = errors_of(wide.call, wide.inputs, dtype, !wide.stores_halves);
      CHECK(errors.value <= kRounded);
      CHECK(errors.gradient <= kGradient);
    }
  }
}

TEST_CASE("every operation of halves is rounded once") {
  const std::map<std::string, const char*> others = {
      {"add_layer_norm", "the sum is an output, a half, and that is normalised"},
      {"add_rms_norm", "the sum is an output, a half, and that is normalised"},
      {"rnn", "the states are halves at every step"},
      {"lstm", "the states are halves at every step"},
      {"lstm (reverse)", "the states are halves at every step"},
      {"gru", "the states are halves at every step"},
      {"linear_gelu_linear", "the hidden units are halves"},
      {"linear_gelu_linear (tanh)", "the hidden units are halves"},
      {"scaled_dot_product_attention (mask, bias)", "the row's bias is a product of halves"}};
  int rows = 0;
  for (const OpRow& row : all_rows()) {
    if (others.contains(row.name)) continue;
    ++rows;
    for (const DType dtype : kHalves) {
      INFO(row.name << " " << std::string(name(dtype)));
      const Tensors inputs = inputs_for(row, Layout::contiguous);
      CHECK(errors_of(row.call, inputs, dtype, false).value <= kRounded);
    }
  }
  CHECK(rows > 150);
}

TEST_CASE("a mean of halves is what its elements are") {
  for (const DType dtype : kHalves) {
    CHECK(mean(full({1000}, 100.0, {.dtype = dtype})).item() == 100.0);
    CHECK(mean(full({1000, 3}, 100.0, {.dtype = dtype}), {0}).to_vector<double>() ==
          std::vector<double>(3, 100.0));
    CHECK(norm(full({4}, 300.0, {.dtype = dtype})).item() == 600.0);
    CHECK(hero::var(full({4000}, 100.0, {.dtype = dtype})).item() == 0.0);
  }
}

// What is kept is the halves, which their owner holds anyway.
TEST_CASE("a function of halves keeps nothing but its inputs and its result") {
  Ledger ledger;
  const LedgerScope scope(ledger);
  const Tensor x = rand({1000}, {.dtype = kBFloat16, .requires_grad = true});
  const Tensor y = rand({1000}, {.dtype = kBFloat16});
  const int64_t before = ledger.live();
  const Tensor loss = mse_loss(x, y), gates = glu(x), bent = celu(x);
  CHECK(ledger.live() - before == 2 + 1000 + 2000);
}

// Derivatives of derivatives are recorded through the same definition.
TEST_CASE("second derivatives of a function of halves are near those of float64") {
  for (const DType dtype : kHalves) {
    const auto second = [](const Tensor& x) {
      const Tensor first = grad({sum(celu(x, 0.7))}, {x}, {.create_graph = true})[0];
      return grad({sum(first)}, {x})[0];
    };
    const Tensor half = linspace(-2.0, -0.25, 8).to(dtype).detach().requires_grad_();
    const Tensor right = half.detach().to(kFloat64).detach().requires_grad_();
    // The first derivative was a half: two roundings.
    CHECK(worst(second(half), second(right), dtype) <= 2 * kGradient);
  }
}

}  // namespace hero::test
