// Promotion against the table of PyTorch's torch.result_type (tests/golden/make_promotion.py).
#include <cmath>
#include <fstream>
#include <map>
#include <sstream>

#include "support/catch.h"

#include <hero/autograd/autograd.h>
#include <hero/core/array/promotion.h>

using namespace hero;
using Catch::Matchers::ContainsSubstring;

namespace {

constexpr DType kAll[] = {kBool, kUInt8, kInt32, kInt64, kFloat16, kBFloat16, kFloat32, kFloat64};

DType dtype_named(const std::string& text) {
  for (const DType dtype : kAll) {
    if (text == name(dtype)) return dtype;
  }
  fail("no dtype is called ", text);
}

// An operand of the table: rows of a dtype, a single tensor of one, or a number.
struct Given {
  std::string kind;
  DType dtype;
  bool is_number() const { return kind == "number"; }
  bool is_single() const { return kind == "single"; }
  Tensor on(Device device) const {
    return ones(is_single() ? Shape{} : Shape{2}, {.dtype = dtype, .device = device});
  }
  Scalar number() const {
    if (dtype == kBool) return true;
    return dtype == kInt64 ? Scalar(1) : Scalar(1.0);
  }
};

Given given(const std::string& text) {
  const size_t colon = text.find(':');
  const std::string kind = text.substr(0, colon), type = text.substr(colon + 1);
  if (kind != "number") return {kind, dtype_named(type)};
  return {kind, type == "bool" ? kBool : (type == "int" ? kInt64 : kFloat32)};
}

struct Row {
  std::string text;
  Given a, b;
  DType result;
};

std::vector<Row> table() {
  std::ifstream file(std::string(HERO_GOLDEN_DIR "/promotion.txt"));
  std::vector<Row> rows;
  std::string line;
  while (std::getline(file, line)) {
    std::istringstream words(line);
    std::string a, b, result;
    words >> a >> b >> result;
    rows.push_back({line, given(a), given(b), dtype_named(result)});
  }
  REQUIRE(rows.size() == 304);  // 16 tensors with 16 tensors and 3 numbers
  return rows;
}

DType floating(DType dtype) { return is_floating(dtype) ? dtype : kFloat32; }

using Binary = Tensor (*)(const Tensor&, const Tensor&);
using WithNumber = Tensor (*)(const Tensor&, Scalar);

const std::map<std::string, Binary> kKeep = {
    {"add", add},         {"sub", sub},         {"mul", mul},
    {"maximum", maximum}, {"minimum", minimum}, {"remainder", remainder},
    {"pow", pow},
};
const std::map<std::string, Binary> kFloats = {
    {"div", div},
    {"atan2", atan2},
    {"logaddexp", logaddexp},
};
const std::map<std::string, Binary> kCompare = {
    {"eq", eq},
    {"ne", ne},
    {"lt", lt},
    {"le", le},
    {"gt", gt},
    {"ge", ge},
    {"logical_and", logical_and},
    {"logical_or", logical_or},
    {"logical_xor", logical_xor},
};
const std::map<std::string, WithNumber> kNumberKeeps = {
    {"add", add}, {"sub", sub}, {"mul", mul}, {"remainder", remainder}, {"pow", pow},
};

void check_tensors(const Row& row, Device device) {
  const Tensor a = row.a.on(device), b = row.b.on(device);
  for (const auto& [op, f] : kKeep) {
    INFO(op);
    CHECK(f(a, b).dtype() == row.result);
  }
  for (const auto& [op, f] : kFloats) {
    INFO(op);
    CHECK(f(a, b).dtype() == floating(row.result));
  }
  for (const auto& [op, f] : kCompare) {
    INFO(op);
    CHECK(f(a, b).dtype() == kBool);
  }
  const Tensor yes = ones({2}, {.dtype = kBool, .device = device});
  CHECK(where(yes, a, b).dtype() == row.result);
  CHECK(where(yes[0], a, b).dtype() == row.result);
  CHECK(lerp(a, b, 0.5).dtype() == floating(row.result));
  CHECK(lerp(a, b, b).dtype() == floating(row.result));
  // With a whole number as value, which promotes bool alone.
  const DType sum = promote(row.result, Scalar(1));
  for (const Tensor& y : {addcmul(a, b, b), addcmul(b, a, b), addcmul(b, b, a)}) {
    CHECK(y.dtype() == sum);
  }
  for (const Tensor& y : {addcdiv(a, b, b), addcdiv(b, a, b), addcdiv(b, b, a)}) {
    CHECK(y.dtype() == floating(row.result));
  }
}

void check_number(const Row& row, Device device) {
  const Tensor a = row.a.on(device);
  const Scalar b = row.b.number();
  for (const auto& [op, f] : kNumberKeeps) {
    INFO(op);
    CHECK(f(a, b).dtype() == row.result);
  }
  const Tensor yes = ones({2}, {.dtype = kBool, .device = device});
  for (const Tensor& y : {where(yes, a, b), where(yes, b, a), sub(b, a), pow(b, a)}) {
    CHECK(y.dtype() == row.result);
  }
  CHECK(div(a, b).dtype() == floating(row.result));
  CHECK(div(b, a).dtype() == floating(row.result));
  CHECK(clamp(a, b, {}).dtype() == row.result);
  CHECK(clamp(a, {}, b).dtype() == row.result);
  CHECK(clamp(a, b, b).dtype() == row.result);
}

// In place the dtype stays, and a result of a higher kind is refused.
void check_in_place(const Row& row) {
  if (row.a.is_single() && row.b.kind == "rows") return;  // the shape does not fit
  const Tensor a = row.a.on(kCpu);
  const bool fits = can_store(row.result, row.a.dtype);
  const auto write = [&](const Tensor& self) {
    row.b.is_number() ? self.add_(row.b.number()) : self.add_(row.b.on(kCpu));
  };
  if (fits) {
    write(a);
    CHECK(a.dtype() == row.a.dtype);
    CHECK(a.to_vector<float>()[0] == (row.a.dtype == kBool ? 1.0f : 2.0f));
  } else {
    CHECK_THROWS_WITH(write(a), ContainsSubstring("cannot be stored in"));
    CHECK(a.to_vector<float>()[0] == 1.0f);
  }
  // Recorded, because the other one requires grad: the same.
  if (row.b.is_number() || !is_floating(row.b.dtype)) return;
  const Tensor c = row.a.on(kCpu), p = row.b.on(kCpu).detach();
  p.requires_grad_();
  if (fits) {
    c.add_(p);
    CHECK(c.dtype() == row.a.dtype);
    sum(c).backward();
    CHECK(p.grad().dtype() == row.b.dtype);
  } else {
    CHECK_THROWS_WITH(c.add_(p), ContainsSubstring("cannot be stored in"));
  }
}

}  // namespace

TEST_CASE("every pair of operands promotes as PyTorch's result_type") {
  for (const Row& row : table()) {
    INFO(row.text);
    Promotion promotion;
    promotion.add(row.a.dtype, row.a.is_single() ? 0 : 1);
    if (row.b.is_number()) {
      promotion.add(row.b.number());
    } else {
      promotion.add(row.b.dtype, row.b.is_single() ? 0 : 1);
    }
    CHECK(promotion.dtype() == row.result);
    for (const Device device : {kCpu, kMeta}) {
      row.b.is_number() ? check_number(row, device) : check_tensors(row, device);
    }
    check_in_place(row);
  }
}

TEST_CASE("a parameter that is a single number leaves a half network in its dtype") {
  const Tensor x = rand({3, 4}).to(kBFloat16);
  const Tensor scale = tensor(2.0, {.requires_grad = true});
  const Tensor y = x * exp(scale) + tensor(1.0, {.dtype = kFloat64});
  CHECK(y.dtype() == kBFloat16);
  sum(y).backward();
  CHECK(scale.grad().dtype() == kFloat32);
  CHECK(scale.grad().ndim() == 0);
}

TEST_CASE("cat and stack promote, whatever the dimensions were") {
  const Tensor half = ones({1}, {.dtype = kFloat16}), wide = ones({1});
  CHECK(cat({half, wide}).dtype() == kFloat32);
  CHECK(cat({half, zeros({0}, {.dtype = kFloat64})}).dtype() == kFloat64);
  CHECK(stack({half[0], wide[0]}).dtype() == kFloat32);
  CHECK(stack({tensor(1, {.dtype = kInt32}), tensor(1)}).dtype() == kInt64);
}

TEST_CASE("halves are compared with numbers as halves") {
  for (const DType dtype : {kFloat16, kBFloat16}) {
    const Tensor x = tensor({0.1, 2.0}, {.dtype = dtype});
    CHECK((x == 0.1).to_vector<bool>() == std::vector<bool>{true, false});
    CHECK((x == tensor(0.1)).to_vector<bool>() == std::vector<bool>{true, false});
    CHECK((x <= tensor(0.1, {.dtype = kFloat64})).to_vector<bool>()[0]);
    CHECK_FALSE((x < 0.1).to_vector<bool>()[0]);
    CHECK_FALSE((x != 0.1).to_vector<bool>()[0]);
    // Beside rows of float32 they are compared in float32.
    CHECK_FALSE((x == tensor({0.1, 2.0})).to_vector<bool>()[0]);
  }
  CHECK((tensor({0.1}) == tensor(0.1, {.dtype = kFloat64})).item<bool>());
}

TEST_CASE("derivatives of integers and narrower floats beside float64 are as exact as it is") {
  const auto near = [](double found, double exact) {
    return std::fabs(found - exact) <= 1e-15 * std::fabs(exact);  // a rounding of each factor
  };
  const Tensor wide = tensor({1.5}, {.dtype = kFloat64, .requires_grad = true});
  const Tensor three = tensor({3}, {.dtype = kInt64});
  CHECK(near(grad(sum(pow(three, wide)), wide).item(), std::pow(3.0, 1.5) * std::log(3.0)));
  CHECK(near(grad(sum(xlogy(wide, three)), wide).item(), std::log(3.0)));
  for (const DType dtype : {kFloat16, kBFloat16, kFloat32}) {
    const Tensor narrow_three = tensor({3.0}, {.dtype = dtype});
    CHECK(
        near(grad(sum(pow(narrow_three, wide)), wide).item(), std::pow(3.0, 1.5) * std::log(3.0)));
    CHECK(near(grad(sum(xlogy(wide, narrow_three)), wide).item(), std::log(3.0)));
  }
  // The square of a byte is none.
  const Tensor bytes = tensor({200}).to(kUInt8);
  const Tensor x = tensor({100.0}, {.dtype = kFloat64, .requires_grad = true});
  CHECK(near(grad(sum(atan2(bytes, x)), x).item(), -200.0 / 50000.0));
  // Nor is a multiple of a float32 one of a double.
  const Tensor tenth = tensor({0.1});
  CHECK(add(zeros({1}, kFloat64), tenth, 3).item() == 3.0 * static_cast<double>(0.1f));
  CHECK(sub(zeros({1}, kFloat64), tenth, 3).item() == -3.0 * static_cast<double>(0.1f));
}
