// Recurrent layers over whole sequences beside their steps; halves beside their definition.
#include "autograd/ops/fused.h"
#include "support/half_products.h"

#include <hero/autograd/ops.h>
#include <hero/autograd/ops/autocast.h>

using namespace hero;
using namespace hero::test;

namespace {

enum class Cell { tanh, relu, lstm, gru };

CellWeights weights_of(const Tensors& x, size_t first, bool bias) {
  CellWeights weights{x[first], x[first + 1], {}, {}};
  if (bias) weights.b_ih = x[first + 2];
  if (bias) weights.b_hh = x[first + 3];
  return weights;
}

Function sequence(Cell cell, TimeOrder order, bool bias) {
  return [=](const Tensors& x) {
    const CellWeights weights = weights_of(x, cell == Cell::lstm ? 3 : 2, bias);
    if (cell == Cell::lstm) {
      const LstmOutput y = lstm(x[0], {x[1], x[2]}, weights, order);
      return Tensors{y.output, y.h, y.c};
    }
    const auto kind = cell == Cell::tanh ? Nonlinearity::tanh : Nonlinearity::relu;
    const RnnOutput y =
        cell == Cell::gru ? gru(x[0], x[1], weights, order) : rnn(x[0], x[1], weights, kind, order);
    return Tensors{y.output, y.h};
  };
}

Function steps(Cell cell, TimeOrder order, bool bias) {
  return [=](const Tensors& x) {
    const CellWeights weights = weights_of(x, cell == Cell::lstm ? 3 : 2, bias);
    Tensor h = x[1], c = cell == Cell::lstm ? x[2] : Tensor();
    Tensors outputs(static_cast<size_t>(x[0].size(0)));
    for (size_t i = 0; i < outputs.size(); ++i) {
      const size_t t = order == TimeOrder::forward ? i : outputs.size() - 1 - i;
      const Tensor x_t = select(x[0], 0, static_cast<int64_t>(t));
      if (cell == Cell::lstm) {
        const LstmState next = lstm_cell(x_t, {h, c}, weights);
        h = next.h;
        c = next.c;
      } else if (cell == Cell::gru) {
        h = gru_cell(x_t, h, weights);
      } else {
        const auto kind = cell == Cell::tanh ? Nonlinearity::tanh : Nonlinearity::relu;
        h = rnn_cell(x_t, h, weights, kind);
      }
      outputs[t] = h;
    }
    Tensors results{stack(outputs, 0), h};
    if (cell == Cell::lstm) results.push_back(c);
    return results;
  };
}

// T, N, I, H
std::vector<Shape> sequence_shapes(Cell cell, bool bias, const Shape& s) {
  const int64_t gates = (cell == Cell::lstm ? 4 : cell == Cell::gru ? 3 : 1) * s[3];
  std::vector<Shape> shapes{{s[0], s[1], s[2]}, {s[1], s[3]}};
  if (cell == Cell::lstm) shapes.push_back({s[1], s[3]});
  shapes.insert(shapes.end(), {{gates, s[2]}, {gates, s[3]}});
  if (bias) shapes.insert(shapes.end(), {{gates}, {gates}});
  return shapes;
}

// Weights and states of the size that layers have.
Tensors tame(const std::vector<Shape>& shapes, DType dtype) {
  Tensors inputs;
  for (const Tensor& x : inputs_of(shapes, kFloat64)) {
    inputs.push_back((x.detach() * 0.3).to(dtype).detach().requires_grad_());
  }
  return inputs;
}

}  // namespace

TEST_CASE("a recurrent layer over a sequence is its steps") {
  for (const Cell cell : {Cell::tanh, Cell::relu, Cell::lstm, Cell::gru}) {
    for (const TimeOrder order : {TimeOrder::forward, TimeOrder::reverse}) {
      for (const bool bias : {true, false}) {
        INFO("cell " << static_cast<int>(cell) << ", bias " << bias);
        const Function fused = sequence(cell, order, bias), composed = steps(cell, order, bias);
        agree(fused, composed, sequence_shapes(cell, bias, {6, 3, 4, 5}));
        agree(fused, composed, sequence_shapes(cell, bias, {1, 1, 1, 1}));
      }
    }
    const Function fused = sequence(cell, TimeOrder::forward, true);
    // A relu has kinks, which finite differences would meet.
    if (cell != Cell::relu) {
      differentiable(sequence(cell, TimeOrder::reverse, true),
                     sequence_shapes(cell, true, {2, 2, 2, 2}));
    }
    const Tensors empty = inputs_of(sequence_shapes(cell, true, {4, 0, 3, 2}), kFloat32);
    CHECK(fused(empty)[0].shape() == Shape{4, 0, 2});
    const Tensors timeless = inputs_of(sequence_shapes(cell, true, {0, 2, 3, 2}), kFloat32);
    CHECK(fused(timeless)[0].shape() == Shape{0, 2, 2});
    CHECK(equal(fused(timeless)[1], timeless[1]));
    agree(fused, steps(cell, TimeOrder::forward, true), sequence_shapes(cell, true, {3, 2, 0, 4}));
  }
}

TEST_CASE(
    "a long sequence, whose products with x are computed some steps at a time, is its steps") {
  for (const Cell cell : {Cell::tanh, Cell::lstm, Cell::gru}) {
    for (const TimeOrder order : {TimeOrder::forward, TimeOrder::reverse}) {
      const Tensors inputs = tame(sequence_shapes(cell, true, {40, 5, 3, 4}), kFloat64);
      const Tensors got = outputs_and_gradients(sequence(cell, order, true), inputs);
      const Tensors expected = outputs_and_gradients(steps(cell, order, true), inputs);
      for (size_t i = 0; i < got.size(); ++i)
        CHECK(largest_difference(got[i], expected[i]) < 1e-12);
    }
  }
}

TEST_CASE("gradients of a sequence whose last state alone is read, and whose first is given") {
  for (const Cell cell : {Cell::tanh, Cell::relu, Cell::lstm, Cell::gru}) {
    const size_t states = cell == Cell::lstm ? 2 : 1;
    for (const bool is_output : {false, true}) {
      INFO("cell " << static_cast<int>(cell) << ", output " << is_output);
      const auto part = [=](const Function& whole) -> Function {
        return [=](const Tensors& x) {
          Tensors given = x;
          for (size_t i = 1; i <= states; ++i) given[i] = x[i].detach();
          const Tensors results = whole(given);
          return is_output ? Tensors{results[0]} : Tensors(results.begin() + 1, results.end());
        };
      };
      const Tensors inputs = tame(sequence_shapes(cell, true, {6, 3, 4, 5}), kFloat64);
      const auto gradients = [&](const Function& f) {
        Tensors asked = inputs;
        asked.erase(asked.begin() + 1, asked.begin() + 1 + static_cast<int64_t>(states));
        Tensor sum;
        for (const Tensor& y : part(f)(inputs)) {
          const Tensor weighed = (y * y).sum();
          sum = sum.defined() ? sum + weighed : weighed;
        }
        return grad({sum}, asked);
      };
      const Tensors got = gradients(sequence(cell, TimeOrder::forward, true));
      const Tensors expected = gradients(steps(cell, TimeOrder::forward, true));
      for (size_t i = 0; i < got.size(); ++i)
        CHECK(largest_difference(got[i], expected[i]) < 1e-12);
    }
  }
}

namespace {

constexpr Cell kCells[] = {Cell::tanh, Cell::relu, Cell::lstm, Cell::gru};

Tensors widened(const Tensors& inputs) {
  Tensors wide;
  for (const Tensor& x : inputs) wide.push_back(x.detach().to(kFloat64).requires_grad_());
  return wide;
}

}  // namespace

TEST_CASE("a sequence of halves computes in float32 and rounds its states and gradients") {
  for (const HalfProducts order : {HalfProducts::native, HalfProducts::portable}) {
    const HalfProductsScope scope(order);
    for (const Cell cell : kCells) {
      for (const DType dtype : {kBFloat16, kFloat16}) {
        for (const TimeOrder time : {TimeOrder::forward, TimeOrder::reverse}) {
          INFO("cell " << static_cast<int>(cell) << ", " << std::string(name(dtype)));
          const auto shapes = sequence_shapes(cell, true, {7, 9, 5, 12});
          const Tensors inputs = tame(shapes, dtype);
          const Tensors results = outputs_and_gradients(sequence(cell, time, true), inputs);
          const Tensors expected = outputs_and_gradients(steps(cell, time, true), widened(inputs));
          // Seven steps round by half a unit each and pass on a part of it; gradients are sums of
          // products of what was rounded on both ways.
          const double half_unit = dtype == kBFloat16 ? 1.0 / 512 : 1.0 / 4096;
          const size_t outputs = cell == Cell::lstm ? 3 : 2;
          REQUIRE(results.size() == expected.size());
          for (size_t i = 0; i < results.size(); ++i) {
            INFO("result " << i);
            CHECK(results[i].dtype() == dtype);
            CHECK(largest_difference(results[i], expected[i]) < (i < outputs ? 4 : 6) * half_unit);
          }
        }
      }
    }
  }
}

TEST_CASE("the cells of an lstm of halves are float32: small steps add up") {
  // Gates that are open, and a candidate of 0.001: in bfloat16 sums would stay at 0.25.
  const int64_t count = 1000;
  const Tensor open = full({2}, 20.0), bias = cat({open, open, full({2}, 0.001), open});
  const CellWeights weights{zeros({8, 3}), zeros({8, 2}), bias, zeros({8})};
  const Tensor x = zeros({count, 1, 3}), zero = zeros({1, 2});
  const Autocast autocast;
  const LstmOutput y = lstm(x, {zero, zero}, weights);
  CHECK(y.c.dtype() == kBFloat16);
  CHECK(std::abs(y.c.to(kFloat32).to_vector<float>()[0] - 1.0) < 0.004);
}

TEST_CASE("under autocast a sequence is that of halves, and gradients arrive in float32") {
  for (const Cell cell : kCells) {
    for (const DType dtype : {kBFloat16, kFloat16}) {
      const auto shapes = sequence_shapes(cell, true, {4, 3, 5, 6});
      const Tensors inputs = tame(shapes, kFloat32);
      Tensors halves;
      for (const Tensor& x : inputs) halves.push_back(x.detach().to(dtype).requires_grad_());
      const Function f = sequence(cell, TimeOrder::forward, true);
      const Tensors expected = outputs_and_gradients(f, halves);
      const Tensors results = outputs_and_gradients(
          [&](const Tensors& x) {
            const Autocast autocast({.dtype = dtype});
            return f(x);
          },
          inputs);
      const size_t outputs = cell == Cell::lstm ? 3 : 2;
      REQUIRE(results.size() == expected.size());
      for (size_t i = 0; i < results.size(); ++i) {
        CHECK(results[i].dtype() == (i < outputs ? dtype : kFloat32));
        CHECK(equal(results[i], expected[i].to(results[i].dtype())));
      }
    }
  }
}

TEST_CASE("sequences give the same bits at one, two and three threads", "[autograd][threads]") {
  for (const Cell cell : kCells) {
    for (const DType dtype : {kFloat32, kBFloat16, kFloat16}) {
      same_at_any_threads(sequence(cell, TimeOrder::forward, true),
                          sequence_shapes(cell, true, {5, 70, 40, 90}), dtype);
    }
  }
}
