#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

#include <hero/core/error.h>
#include <hero/core/functions/scaled_products.h>
#include <hero/core/thread_pool.h>

namespace hero::core {

namespace {

// mantissa 2^exponent: a product of any number of factors.
class Scaled {
 public:
  void multiply(double x) {
    int exponent = 0;
    const double mantissa = std::frexp(x, &exponent);
    multiply({mantissa, std::isfinite(x) ? exponent : 0});
  }
  void multiply(const Scaled& other) {
    // Each is below 1, and above 2^-500 unless it is 0.
    mantissa_ *= other.mantissa_;
    exponent_ += other.exponent_;
    if (std::fabs(mantissa_) >= 0x1p-500 || !std::isfinite(mantissa_)) return;
    int exponent = 0;
    mantissa_ = std::frexp(mantissa_, &exponent);
    exponent_ += exponent;
  }
  double value() const {
    constexpr int64_t kBeyond = 4000;
    return std::ldexp(mantissa_, static_cast<int>(std::clamp(exponent_, -kBeyond, kBeyond)));
  }
  Scaled() = default;

 private:
  Scaled(double mantissa, int64_t exponent) : mantissa_(mantissa), exponent_(exponent) {}
  double mantissa_ = 1.0;
  int64_t exponent_ = 0;
};

// Whether a product of some of these factors may be out of the range of normal numbers.
template <class T>
bool leaves_range(const T* x, int64_t n) {
  using Limits = std::numeric_limits<T>;
  using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
  constexpr int kMantissa = Limits::digits - 1;
  constexpr auto kLast = static_cast<int64_t>((Bits{1} << (8 * sizeof(T) - Limits::digits)) - 1);
  constexpr int64_t kBias = Limits::max_exponent - 1;
  int64_t up = 0, down = 0;  // bounds of the logarithms to base 2 of all such products
  int64_t odd = 0;           // denormals, infinities and NaN
  for (int64_t i = 0; i < n; ++i) {
    const Bits size = std::bit_cast<Bits>(x[i]) << 1;  // without the sign
    const auto field = static_cast<int64_t>(size >> (kMantissa + 1));
    const int64_t exponent = size == 0 ? 0 : field - kBias, above = size == 0 ? 0 : exponent + 1;
    up += std::max<int64_t>(above, 0);
    down += std::min<int64_t>(exponent, 0);
    odd |= static_cast<int64_t>((field == 0 && size != 0) || field == kLast);
  }
  return odd != 0 || up >= Limits::max_exponent || down < Limits::min_exponent - 1;
}

constexpr int64_t kProductsGrain = 32768;  // factors that are worth a thread

// correct(factors, line, n) for each line that may leave the range.
template <class Correct>
void each_line(const Array& x, const Correct& correct) {
  if (x.numel() == 0) return;
  const int64_t n = x.size(-1), lines = x.numel() / n;
  const auto run = [&]<class T>(TypeTag<T>) {
    const T* const data = x.data<T>();
    parallel_for(lines, std::max<int64_t>(1, kProductsGrain / n), [&](int64_t begin, int64_t end) {
      for (int64_t line = begin; line < end; ++line) {
        const T* const factors = data + line * n;
        if (leaves_range(factors, n)) correct(factors, line, n);
      }
    });
  };
  check(x.is_contiguous() && (x.dtype() == kFloat32 || x.dtype() == kFloat64),
        "scaled products: needs contiguous float32 or float64: got ", x.dtype());
  x.dtype() == kFloat32 ? run(TypeTag<float>()) : run(TypeTag<double>());
}

}  // namespace

bool may_leave_range(const Array& x) {
  std::atomic<bool> any{false};
  each_line(x, [&](const auto*, int64_t, int64_t) { any = true; });
  return any;
}

void correct_products(const Array& x, const Array& y) {
  each_line(x, [&]<class T>(const T* factors, int64_t line, int64_t n) {
    Scaled all;
    for (int64_t i = 0; i < n; ++i) all.multiply(static_cast<double>(factors[i]));
    y.data<T>()[line] = static_cast<T>(all.value());
  });
}

void correct_running_products(const Array& x, const Array& y) {
  each_line(x, [&]<class T>(const T* factors, int64_t line, int64_t n) {
    Scaled all;
    for (int64_t i = 0; i < n; ++i) {
      all.multiply(static_cast<double>(factors[i]));
      y.data<T>()[line * n + i] = static_cast<T>(all.value());
    }
  });
}

void correct_slopes(const Array& x, const Array& g, const Array& slopes) {
  each_line(x, [&]<class T>(const T* factors, int64_t line, int64_t n) {
    std::vector<Scaled> behind(static_cast<size_t>(n));  // factor i
    for (int64_t i = n - 1; i > 0; --i) {
      Scaled& next = behind[static_cast<size_t>(i - 1)];
      next = behind[static_cast<size_t>(i)];
      next.multiply(static_cast<double>(factors[i]));
    }
    Scaled before;
    before.multiply(static_cast<double>(g.data<T>()[line]));
    for (int64_t i = 0; i < n; ++i) {
      Scaled others = before;
      others.multiply(behind[static_cast<size_t>(i)]);
      slopes.data<T>()[line * n + i] = static_cast<T>(others.value());
      before.multiply(static_cast<double>(factors[i]));
    }
  });
}

}  // namespace hero::core
