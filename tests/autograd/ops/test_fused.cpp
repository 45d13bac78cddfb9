// Fused operations against their composed definitions: values, gradients, second derivatives, half
// precision. B batch, H heads, T queries, S keys.
#include <cmath>
#include <limits>

#include "autograd/ops/fused.h"
#include "support/catch.h"

#include <hero/autograd/functions/gradcheck.h>
#include <hero/autograd/ops.h>
#include <hero/core/thread_pool.h>

using namespace hero;
using namespace hero::test;

namespace {

Tensor lower_triangle(int64_t T, int64_t S) { return unsqueeze(arange(T), 1) >= arange(S); }

struct AttentionCase {
  bool causal = false, mask = false, bias = false;
  int64_t share = 1;
};

AttentionOptions options_of(const AttentionCase& c, int64_t T, int64_t S, DType dtype) {
  AttentionOptions options{.is_causal = c.causal, .enable_gqa = c.share > 1};
  // Every query sees its own key.
  if (c.mask) options.mask = logical_or(remainder(arange(S) * 7, 5) > 1, eye(T, S) > 0);
  if (c.bias) options.bias = (arange(T * S).to(dtype) * 0.37).reshape({T, S}) * 0.01;
  return options;
}

Function fused_attention(const AttentionCase& c) {
  return [c](const Tensors& x) {
    const AttentionOptions options = options_of(c, x[0].size(-2), x[1].size(-2), x[0].dtype());
    return Tensors{scaled_dot_product_attention(x[0], x[1], x[2], options)};
  };
}

Function composed_attention(const AttentionCase& c) {
  return [c](const Tensors& x) {
    const int64_t T = x[0].size(-2), S = x[1].size(-2);
    const AttentionOptions options = options_of(c, T, S, x[0].dtype());
    const auto spread = [&](const Tensor& y) {
      return c.share > 1 ? repeat_interleave(y, c.share, -3) : y;
    };
    const double scale = 1.0 / std::sqrt(static_cast<double>(x[0].size(-1)));
    Tensor scores = matmul(x[0], transpose(spread(x[1]), -2, -1)) * scale;
    if (c.bias) scores = scores + options.bias;
    const double nothing = -std::numeric_limits<double>::infinity();
    if (c.mask) scores = where(options.mask, scores, nothing);
    if (c.causal) scores = where(lower_triangle(T, S), scores, nothing);
    return Tensors{matmul(softmax(scores, -1), spread(x[2]))};
  };
}

}  // namespace

TEST_CASE("attention over tiles is attention with all probabilities") {
  for (const bool causal : {false, true}) {
    for (const bool extra : {false, true}) {
      const AttentionCase c{.causal = causal, .mask = extra, .bias = extra};
      INFO("causal " << causal << ", mask and bias " << extra);
      // More queries than a tile holds, other numbers of keys.
      agree(fused_attention(c), composed_attention(c),
            {{2, 2, 70, 8}, {2, 2, 90, 8}, {2, 2, 90, 5}});
      agree(fused_attention(c), composed_attention(c),
            {{2, 2, 70, 8}, {2, 2, 40, 8}, {2, 2, 40, 5}});
      differentiable(fused_attention(c), {{1, 2, 3, 2}, {1, 2, 3, 2}, {1, 2, 3, 2}});
    }
  }
  const AttentionCase grouped{.causal = true, .share = 2};
  agree(fused_attention(grouped), composed_attention(grouped),
        {{2, 4, 70, 8}, {2, 2, 70, 8}, {2, 2, 70, 8}});
  agree(fused_attention({}), composed_attention({}), {{1, 1, 1, 1}, {1, 1, 1, 1}, {1, 1, 1, 1}});
  agree(fused_attention({}), composed_attention({}), {{5, 3}, {7, 3}, {7, 2}});
  agree(fused_attention({}), composed_attention({}), {{0, 2, 5, 3}, {0, 2, 7, 3}, {0, 2, 7, 2}});
}

TEST_CASE("queries that begin among the keys have the bits of those queries of all") {
  manual_seed(4);
  const Tensor q = randn({2, 4, 320, 8}), k = randn({2, 2, 320, 8}), v = randn({2, 2, 320, 5});
  const Tensor all = scaled_dot_product_attention(q, k, v, {.is_causal = true, .enable_gqa = true});
  for (const int64_t first : {0, 64, 128, 256}) {  // whole tiles before them
    for (const int64_t count : {1, 30, 64}) {
      const int64_t end = first + count;
      const Tensor part = scaled_dot_product_attention(
          q.slice(2, first, end), k.slice(2, 0, end), v.slice(2, 0, end),
          {.is_causal = true, .enable_gqa = true, .first_query = first});
      CAPTURE(first, count);
      if (count == 64) CHECK(equal(part, all.slice(2, first, end)));
      CHECK(largest_difference(part, all.slice(2, first, end)) < 1e-5);
    }
  }
}

TEST_CASE("queries that begin among the keys are those of a mask") {
  for (const int64_t first : {1, 5, 70, 200}) {
    CAPTURE(first);
    const auto shifted = [first](const Tensors& x) {
      return Tensors{scaled_dot_product_attention(x[0], x[1], x[2],
                                                  {.is_causal = true, .first_query = first})};
    };
    const auto masked = [first](const Tensors& x) {
      const int64_t T = x[0].size(-2), S = x[1].size(-2);
      const Tensor seen = unsqueeze(arange(first, first + T), 1) >= arange(S);
      const double scale = 1.0 / std::sqrt(static_cast<double>(x[0].size(-1)));
      const Tensor scores = matmul(x[0], transpose(x[1], -2, -1)) * scale;
      const double nothing = -std::numeric_limits<double>::infinity();
      return Tensors{matmul(softmax(where(seen, scores, nothing), -1), x[2])};
    };
    agree(shifted, masked, {{2, 2, 70, 8}, {2, 2, 90, 8}, {2, 2, 90, 5}});
    differentiable(shifted, {{1, 2, 3, 2}, {1, 2, 6, 2}, {1, 2, 6, 2}});
  }
  const Tensor x = zeros({2, 3});
  CHECK_THROWS_WITH(scaled_dot_product_attention(x, x, x, {.first_query = -1}),
                    Catch::Matchers::ContainsSubstring("first_query is negative"));
}

TEST_CASE("attention takes views of one projection and returns what joins without a copy") {
  manual_seed(3);
  const Tensor x = randn({2, 9, 3 * 8}, {.requires_grad = true});
  const Tensors parts = unbind(reshape(x, {2, 9, 3, 2, 4}), 2);
  const auto head = [](const Tensor& part) { return transpose(part, 1, 2); };
  const Tensor y = scaled_dot_product_attention(head(parts[0]), head(parts[1]), head(parts[2]),
                                                {.is_causal = true});
  CHECK(transpose(y, 1, 2).is_contiguous());
  const Tensor expected =
      composed_attention({.causal = true})({head(parts[0]), head(parts[1]), head(parts[2])})[0];
  CHECK(largest_difference(y, expected) < 1e-6);
  const Tensor of_fused = grad(sum(square(y)), x, {.retain_graph = true});
  const Tensor of_composed = grad(sum(square(expected)), x);
  CHECK(largest_difference(of_fused, of_composed) < 1e-5);
}

// Every way in which a row may lose all its keys, in the fused kernel and by its definition.
TEST_CASE("a query that sees no key gives 0, and gradients that are those without its row") {
  const Tensor seen = tensor({{0, 0, 0}, {1, 1, 0}, {0, 0, 0}, {1, 0, 1}}) > 0;
  const Tensor late = tensor({{0, 1, 1}, {0, 1, 1}, {0, 1, 1}, {0, 1, 1}}) > 0;  // left padding
  const double hidden = -std::numeric_limits<double>::infinity();
  struct Way {
    const char* name;
    AttentionOptions options;
    std::vector<int64_t> empty;
  };
  const Way ways[] = {
      {"mask", {.mask = seen}, {0, 2}},
      {"bias", {.bias = where(seen, zeros({4, 3}), hidden)}, {0, 2}},
      {"causal with padding", {.mask = late, .is_causal = true}, {0}},
      {"mask and bias", {.mask = late, .bias = where(seen, zeros({4, 3}), hidden)}, {0, 2}},
      {"nothing at all", {.mask = zeros({4, 3}, {.dtype = kBool})}, {0, 1, 2, 3}},
  };
  for (const Way& way : ways) {
    for (const DType dtype : {kFloat64, kFloat32, kFloat16, kBFloat16}) {
      INFO(way.name << " " << std::string(name(dtype)));
      const Tensors x = inputs_of({{2, 2, 4, 8}, {2, 2, 3, 8}, {2, 2, 3, 8}}, dtype);
      AttentionOptions composed = way.options;
      composed.dropout_p = 1e-300;  // drops nothing, but is not fused
      std::vector<int64_t> others;
      for (int64_t i = 0; i < 4; ++i) {
        if (std::find(way.empty.begin(), way.empty.end(), i) == way.empty.end())
          others.push_back(i);
      }
      for (const AttentionOptions& options : {way.options, composed}) {
        const Tensor y = scaled_dot_product_attention(x[0], x[1], x[2], options);
        for (const int64_t row : way.empty)
          CHECK(equal(y.select(2, row), zeros_like(y.select(2, row))));
        const Tensors grads = grad({sum(y.to(kFloat64) * 3.0)}, x, {.retain_graph = true});
        for (const Tensor& g : grads) CHECK(all(isfinite(g)).item<bool>());
        for (const int64_t row : way.empty) {
          CHECK(equal(grads[0].select(2, row), zeros_like(grads[0].select(2, row))));
        }
        if (others.empty()) {
          CHECK(equal(grads[1], zeros_like(grads[1])));
          CHECK(equal(grads[2], zeros_like(grads[2])));
          continue;
        }
        // Gradients of keys and values are those of a loss that never asks the empty rows.
        const Tensor kept = index_select(y, 2, tensor(others));
        const Tensors expected = grad({sum(kept.to(kFloat64) * 3.0)}, x);
        const double bound = dtype == kFloat64 ? 1e-13 : dtype == kFloat32 ? 1e-5 : 2e-2;
        for (size_t i = 0; i < 3; ++i) CHECK(largest_difference(grads[i], expected[i]) < bound);
      }
    }
  }
}

TEST_CASE("scores that are NaN stay NaN beside rows that see no key") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Tensor q = ones({1, 1, 3, 2}), k = ones({1, 1, 3, 2});
  const double hidden = -std::numeric_limits<double>::infinity();
  const Tensor bias = tensor({{hidden, nan, hidden}, {hidden, hidden, hidden}, {0.0, hidden, 1.0}});
  const auto y = scaled_dot_product_attention(q, k, k, {.bias = bias}).to_vector<float>();
  CHECK(std::isnan(y[0]));
  CHECK(y[2] == 0.0f);
  CHECK(y[4] == 1.0f);
}

TEST_CASE("normalisation of rows in one operation is its definition") {
  const auto layer = [](const Tensors& x) {
    return Tensors{layer_norm(x[0], {x[0].size(-1)}, x[1], x[2], 0.1)};
  };
  const auto composed = [](const Tensors& x) {
    const Tensor centered = x[0] - mean(x[0], {-1}, true);
    const Tensor variance = mean(square(centered), {-1}, true);
    return Tensors{centered / sqrt(variance + 0.1) * x[1] + x[2]};
  };
  // Rows of more than a block, more rows than a strip holds.
  agree(layer, composed, {{3, 700}, {700}, {700}});
  agree(layer, composed, {{2, 80, 5}, {5}, {5}});
  agree(layer, composed, {{4, 1}, {1}, {1}});
  differentiable(layer, {{2, 3}, {3}, {3}});

  const auto rms = [](const Tensors& x) { return Tensors{rms_norm(x[0], x[1], 0.1)}; };
  const auto composed_rms = [](const Tensors& x) {
    return Tensors{x[0] / sqrt(mean(square(x[0]), {-1}, true) + 0.1) * x[1]};
  };
  agree(rms, composed_rms, {{3, 700}, {700}});
  agree(rms, composed_rms, {{2, 80, 5}, {5}});
  differentiable(rms, {{2, 3}, {3}});

  const auto plain = [](const Tensors& x) {
    return Tensors{layer_norm(x[0], {4, 3}, {}, {}, 0.1)};
  };
  const auto composed_plain = [](const Tensors& x) {
    const Tensor centered = x[0] - mean(x[0], {-2, -1}, true);
    return Tensors{centered / sqrt(mean(square(centered), {-2, -1}, true) + 0.1)};
  };
  agree(plain, composed_plain, {{5, 4, 3}});
}

TEST_CASE("cross entropy without stored probabilities is its definition") {
  const auto target = [](const Tensor& x) { return remainder(arange(x.size(0)) * 3, x.size(1)); };
  const auto fused = [=](const Tensors& x) {
    return Tensors{cross_entropy(x[0], target(x[0]), {.reduction = Reduction::none})};
  };
  const auto composed = [=](const Tensors& x) {
    const Tensor picked = gather(log_softmax(x[0], 1), 1, unsqueeze(target(x[0]), 1));
    return Tensors{-squeeze(picked, 1)};
  };
  agree(fused, composed, {{7, 1000}});
  agree(fused, composed, {{40, 3}});
  agree(fused, composed, {{1, 1}});
  differentiable(fused, {{2, 3}});
}

TEST_CASE("derivatives of activations in one pass are their definitions") {
  const std::vector<Tensor (*)(const Tensor&)> activations = {
      [](const Tensor& x) { return tanh(x); }, [](const Tensor& x) { return sigmoid(x); },
      [](const Tensor& x) { return relu(x); }, [](const Tensor& x) { return silu(x); },
      [](const Tensor& x) { return gelu(x); }, [](const Tensor& x) { return gelu(x, Gelu::tanh); }};
  for (const auto activation : activations) {
    for (const DType dtype : {kFloat64, kFloat32}) {
      const Tensor x = inputs_of({{1000}}, dtype)[0];
      const Tensor y = sum(square(activation(x)));
      const Tensor in_one_pass = grad(y, x, {.retain_graph = true});
      const Tensor recorded = grad(y, x, {.create_graph = true});
      // Float functions in one loop or several: a few roundings.
      CHECK(largest_difference(in_one_pass, recorded) < (dtype == kFloat64 ? 1e-14 : 1e-6));
    }
  }
}

TEST_CASE("dropout draws the same mask in backward and keeps none") {
  manual_seed(7);
  const Tensor x = ones({1000}, {.requires_grad = true});
  const Tensor y = dropout(x, 0.25);
  sum(y).backward();
  CHECK(equal(y, x.grad()));
  const double kept = sum(y > 0).item();
  CHECK(std::abs(kept - 750.0) < 60.0);  // four standard deviations
  CHECK(std::abs(max(y).item() - 1.0 / 0.75) < 1e-6);
}

TEST_CASE("fused operations give the same bits at one, two and three threads",
          "[autograd][threads]") {
  same_at_any_threads(fused_attention({.causal = true, .share = 2}),
                      {{2, 4, 130, 8}, {2, 2, 130, 8}, {2, 2, 130, 8}});
  same_at_any_threads([](const Tensors& x) { return Tensors{layer_norm(x[0], {40}, x[1], x[2])}; },
                      {{5000, 40}, {40}, {40}});
  same_at_any_threads([](const Tensors& x) { return Tensors{linear_gelu(x[0], x[1], x[2])}; },
                      {{700, 33}, {90, 33}, {90}});
  same_at_any_threads(
      [](const Tensors& x) {
        const Tensor target = remainder(arange(900), 70);
        return Tensors{cross_entropy(x[0], target, {.reduction = Reduction::none})};
      },
      {{900, 70}});
}
