#include "autograd/tables/golden.h"

namespace hero::golden {

namespace {

Operator unary(Tensor (*f)(const Tensor&)) {
  return [f](const Call& c) { return Results{f(c.x())}; };
}

Operator binary(Tensor (*f)(const Tensor&, const Tensor&)) {
  return [f](const Call& c) { return Results{f(c.in("a"), c.in("b"))}; };
}

void add_listed(Table& table) {
#define HERO_UNARY(f) table[#f] = unary(f);
#define HERO_BINARY(f, a, b) table[#f] = binary(f);
#include <hero/autograd/ops/elementwise/elementwise_list.h>
  const std::pair<const char*, Tensor (*)(const Tensor&)> activations[] = {
      {"logsigmoid", logsigmoid}, {"relu6", relu6},        {"silu", silu}, {"mish", mish},
      {"softsign", softsign},     {"hardswish", hardswish}};
  for (const auto& [name, function] : activations) table[name] = unary(function);
}

void add_with_numbers(Table& table) {
  table["leaky_relu"] = [](const Call& c) -> Results {
    return {leaky_relu(c.x(), c.get("negative_slope", 0.01))};
  };
  table["elu"] = [](const Call& c) -> Results { return {elu(c.x(), c.get("alpha", 1.0))}; };
  table["gelu"] = [](const Call& c) -> Results {
    const bool by_tanh = c.get<std::string>("approximate", "none") == "tanh";
    return {gelu(c.x(), by_tanh ? Gelu::tanh : Gelu::erf)};
  };
  table["softplus"] = [](const Call& c) -> Results {
    return {softplus(c.x(), c.get("beta", 1.0), c.get("threshold", 20.0))};
  };
  table["clamp"] = [](const Call& c) -> Results {
    return {clamp(c.x(), c.bound("min"), c.bound("max"))};
  };
  table["pow_scalar"] = [](const Call& c) -> Results { return {pow(c.x(), c.scalar("exponent"))}; };
  table["rpow_scalar"] = [](const Call& c) -> Results { return {pow(c.scalar("base"), c.x())}; };
  table["add_scalar_mul"] = [](const Call& c) -> Results {
    return {c.x() * c.scalar("mul") + c.scalar("add")};
  };
}

void add_binary(Table& table) {
  table["outer"] = binary(outer);
  table["mul_self"] = [](const Call& c) -> Results { return {c.x() * c.x()}; };
  table["lerp"] = [](const Call& c) -> Results {
    return {lerp(c.in("a"), c.in("b"), c.number("weight"))};
  };
  table["addcmul"] = [](const Call& c) -> Results {
    return {addcmul(c.x(), c.in("a"), c.in("b"), c.get("value", 1.0))};
  };
  table["where"] = [](const Call& c) -> Results {
    return {where(c.in("cond"), c.in("a"), c.in("b"))};
  };
  table["masked_fill"] = [](const Call& c) -> Results {
    return {masked_fill(c.x(), c.in("mask"), c.scalar("value"))};
  };
}

void add_scalar_functions(Table& table) {
  table["sin_x2"] = [](const Call& c) -> Results { return {sum(sin(c.x()) + square(c.x()) / 10)}; };
  table["rosenbrock"] = [](const Call& c) -> Results {
    const Tensor head = slice(c.x(), 0, 0, -1), tail = slice(c.x(), 0, 1);
    return {sum(square(tail - square(head)) * 100 + square(1 - head))};
  };
  table["logistic_nll"] = [](const Call& c) -> Results {
    const Tensor score = matmul(c.x(), c.in("w"));
    return {mean(softplus(score) - c.in("y") * score)};
  };
  table["mlp_loss"] = [](const Call& c) -> Results {
    const Tensor hidden = tanh(linear(c.x(), c.in("w1"), c.in("b1")));
    return {mse_loss(linear(hidden, c.in("w2"), c.in("b2")), c.in("y"))};
  };
}

}  // namespace

void add_elementwise(Table& table) {
  add_listed(table);
  add_with_numbers(table);
  add_binary(table);
  add_scalar_functions(table);
}

}  // namespace hero::golden
