// Chains of random views with sizes, strides, steps and positions up to the largest integers: what
// is accepted lies inside its storage and counts its elements right, all else is an Error.
#include <cstdlib>
#include <limits>

#include <support/catch.h>

#include <hero/autograd/autograd.h>

namespace {

using namespace hero;

__extension__ typedef __int128 Wide;

constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();

// Numbers of a chain: small ones, those around powers of two, the last ones.
class Draw {
 public:
  explicit Draw(uint64_t seed) : state_(seed * 2 + 1) {}
  uint64_t below(uint64_t n) {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return ((state_ >> 33) ^ (state_ >> 20)) % n;
  }
  int64_t small() { return static_cast<int64_t>(below(9)) - 2; }
  int64_t number() {
    switch (below(8)) {
      case 0:
        return kMost - static_cast<int64_t>(below(3));
      case 1:
        return kLeast + static_cast<int64_t>(below(3));
      case 2:
      case 3:
        return (int64_t{1} << below(63)) + static_cast<int64_t>(below(3)) - 1;
      default:
        return small();
    }
  }
  // Mostly a size that fits, sometimes any number.
  int64_t size() { return below(4) == 0 ? number() : static_cast<int64_t>(below(7)); }
  Dims list(int length, bool wild) {
    Dims values;
    for (int i = 0; i < length; ++i) values.push_back(wild ? number() : size());
    return values;
  }

 private:
  uint64_t state_;
};

// Sizes that hold the same elements, in most cases: a product that wraps is among them.
Shape resized(Draw& draw, const Tensor& x) {
  Shape shape;
  switch (draw.below(4)) {
    case 0:
      return draw.list(static_cast<int>(draw.below(5)), true);
    case 1:  // one size too large by a power of two, so that 64 bits see the right product
      shape = x.shape();
      if (!shape.empty()) {
        const auto at = static_cast<int>(draw.below(static_cast<uint64_t>(shape.size())));
        const auto by = uint64_t{1} << (55 + draw.below(9));
        shape[at] = static_cast<int64_t>(static_cast<uint64_t>(shape[at]) + by);
      }
      return shape;
    case 2:
      return {-1, static_cast<int64_t>(draw.below(4))};
    default:
      return {static_cast<int64_t>(draw.below(4)), -1};
  }
}

Tensor step(Draw& draw, const Tensor& x) {
  const auto any = [&] { return draw.below(3) == 0 ? draw.number() : draw.small(); };
  const int64_t dim = draw.below(16) == 0 ? draw.number() : draw.small() % 5;
  const int n = x.ndim();
  // What is large is not copied: reshaped only where it stays a view.
  const bool reshapes = x.numel() <= 1 << 14 || x.is_contiguous();
  switch (draw.below(18)) {
    case 0:
      return reshapes ? x.reshape(resized(draw, x)) : unsqueeze(x, dim);
    case 1:
      return reshapes ? x.view(resized(draw, x)) : unsqueeze(x, dim);
    case 2: {
      Shape shape = x.shape();
      for (int i = 0; i < shape.size(); ++i) {
        if (shape[i] == 1 || draw.below(8) == 0) shape[i] = draw.size();
      }
      while (shape.size() < kMaxDims && draw.below(3) == 0) shape.insert(0, draw.size());
      return expand(x, shape);
    }
    case 3:
    case 4: {
      const int length = static_cast<int>(draw.below(4));
      return as_strided(x, draw.list(length, draw.below(3) == 0),
                        draw.list(length, draw.below(3) == 0), any());
    }
    case 5:
      return Tensor(x.array().as_strided(draw.list(2, draw.below(3) == 0),
                                         draw.list(2, draw.below(3) == 0), any()));
    case 6:
    case 7:
      return slice(x, dim, any(), any(), draw.number());
    case 8:
      return slice(x, dim, any(), any(), 1 + static_cast<int64_t>(draw.below(3)));
    case 9:
      return narrow(x, dim, any(), any());
    case 10:
      return select(x, dim, any());
    case 11:
      return transpose(x, dim, draw.small());
    case 12: {
      Dims order;
      for (int i = 0; i < n; ++i) order.push_back((i + 1) % n);
      if (draw.below(8) == 0) order.push_back(draw.number());
      return permute(x, order);
    }
    case 13:
      return unsqueeze(x, dim);
    case 14:
      return draw.below(2) == 0 ? squeeze(x) : squeeze(x, dim);
    case 15:
      return reshapes ? flatten(x, dim, draw.small()) : unsqueeze(x, dim);
    case 16:
      return diagonal(x, any(), draw.small(), draw.small());
    default:
      return unfold(x, dim, any(), any());
  }
}

// "" or what is wrong with a view.
std::string flaw(const Tensor& x) {
  Wide count = 1, last = x.array().offset();
  for (int i = 0; i < x.ndim(); ++i) {
    const int64_t size = x.shape()[i], stride = x.array().strides()[i];
    if (size < 0) return "a negative size";
    count *= size;  // at most 2^63 times 2^63: every view before was counted
    if (count > kMost) return "a count beyond 64 bits";
    if (size > 1 && stride < 0) return "a negative stride";
    last += static_cast<Wide>(size > 0 ? size - 1 : 0) * stride;
  }
  if (count != x.numel()) return "the count of elements";
  const int64_t held = x.array().storage().bytes() / item_size(x.dtype());
  if (x.array().offset() < 0 || x.array().offset() > held) return "its offset";
  if (count > 0 && last >= held) return "elements outside the storage";
  if (count > kMost / item_size(x.dtype())) return "bytes beyond 64 bits";
  return "";
}

// HERO_VIEW_CHAINS asks for more, as 100000.
int64_t chains() {
  const char* asked = std::getenv("HERO_VIEW_CHAINS");
  return asked != nullptr ? std::atoll(asked) : 5'000;
}

TEST_CASE("no chain of views with extreme numbers leaves its storage", "[autograd][views]") {
  int64_t accepted = 0, refused = 0, large = 0;
  for (int64_t chain = 0; chain < chains(); ++chain) {
    Draw draw(static_cast<uint64_t>(chain));
    const Shape begin = draw.below(2) == 0 ? Shape{2, 3, 4} : Shape{1, 4};
    const DType dtype = draw.below(2) == 0 ? kFloat32 : kUInt8;
    const bool meta = draw.below(4) == 0;
    Tensor x = zeros(begin, {.dtype = dtype, .device = meta ? kMeta : kCpu});
    std::string path = to_string(begin);
    for (int i = 0; i < 6; ++i) {
      try {
        x = step(draw, x);
        ++accepted;
      } catch (const Error&) {
        ++refused;
        continue;
      }
      path += " " + to_string(x.shape());
      const std::string wrong = flaw(x);
      if (!wrong.empty()) FAIL("chain " << chain << ": " << path << ": " << wrong);
      large += x.numel() > 1 << 20;
      // Reads every element, so that the sanitizers see where it lies.
      if (!meta && x.numel() <= 4096) REQUIRE(sum(x).item() == 0.0);
    }
  }
  INFO(accepted << " accepted, " << refused << " refused, " << large << " large");
  REQUIRE(accepted > refused / 4);  // the chains are not all refused
  REQUIRE(large > 0);               // nor all small
}

TEST_CASE("products of sizes that wrap are errors", "[autograd][views]") {
  const auto wide = int64_t{1} << 62;
  REQUIRE_THROWS_AS(zeros({4}).view({wide + 1, 4}), Error);
  REQUIRE_THROWS_AS(zeros({4}).reshape({4, wide + 1}), Error);
  REQUIRE_THROWS_AS(zeros({4}).reshape({-1, wide, 4}), Error);
  REQUIRE_THROWS_AS(zeros({0}).reshape({0, wide, 4}), Error);
  REQUIRE_THROWS_AS(expand(ones({1, 1}), {int64_t{1} << 32, int64_t{1} << 32}), Error);
  REQUIRE_THROWS_AS(expand(ones({1}), {wide}), Error);  // its bytes cannot be counted
  REQUIRE_THROWS_AS(expand(ones({1}), {5, 5, -2}), Error);
  REQUIRE_THROWS_AS(expand(ones({2}), {-2}), Error);
  REQUIRE_THROWS_AS(as_strided(zeros({4}), {wide, wide}, {0, 0}), Error);
  REQUIRE_THROWS_AS(as_strided(zeros({4}), {3}, {wide + (wide - 1)}), Error);
  REQUIRE_THROWS_AS(as_strided(zeros({4}), {2}, {1}, kMost), Error);
  REQUIRE(arange(24).reshape({2, 3, 4}).slice(1, 0, 3, kMost).shape() == Shape{2, 1, 4});
  REQUIRE(arange(24).reshape({2, 3, 4}).slice(1, 1, kMost, kMost).shape() == Shape{2, 1, 4});
  REQUIRE(arange(6).slice(0, kLeast, kMost, kMost - 1).to_vector<int64_t>() ==
          std::vector<int64_t>{0});
  REQUIRE(diagonal(ones({2, 3}), kLeast).numel() == 0);
  REQUIRE(diagonal(ones({2, 3}), kMost).numel() == 0);
  REQUIRE(unfold(arange(5), 0, 5, kMost).shape() == Shape{1, 5});
  REQUIRE_THROWS_AS(narrow(arange(5), 0, 3, kMost), Error);
  REQUIRE_THROWS_AS(narrow(arange(5), 0, kLeast, 2), Error);
  REQUIRE(narrow(arange(5), 0, -3, 2).to_vector<int64_t>() == std::vector<int64_t>{2, 3});
}

TEST_CASE("a large expanded tensor is a view like any other", "[autograd][views]") {
  const Tensor x = expand(ones({1, 1}), {int64_t{1} << 30, int64_t{1} << 30});
  REQUIRE(x.numel() == int64_t{1} << 60);
  REQUIRE(x.slice(0, 5, 7).slice(1, 5, 8).to_vector<double>() == std::vector<double>(6, 1.0));
  REQUIRE_THROWS_AS(x.contiguous(), Error);
  REQUIRE_THROWS_AS(x.to(kFloat64), Error);
}

}  // namespace
