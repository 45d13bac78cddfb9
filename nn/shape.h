#pragma once
// Modules that rearrange elements and have no parameters.
#include <optional>

#include <hero/nn/module.h>
#include <hero/nn/size2.h>

namespace hero::nn {

/// Joins dimensions start_dim to end_dim into one; by default all but the batch.
class Flatten : public Module {
 public:
  /// Makes the module. Negative dimensions count from the end.
  explicit Flatten(int64_t start_dim = 1, int64_t end_dim = -1)
      : start_(start_dim), end_(end_dim) {}
  Tensor forward(const Tensor& x) override { return flatten(x, start_, end_); }
  std::string extra_repr() const override;

 private:
  int64_t start_, end_;
};

/// Splits dimension `dim` into dimensions of `unflattened_size`, in which one size may be -1.
class Unflatten : public Module {
 public:
  /// Makes the module. A negative dimension counts from the end.
  Unflatten(int64_t dim, const Shape& unflattened_size) : dim_(dim), sizes_(unflattened_size) {}
  Tensor forward(const Tensor& x) override;
  std::string extra_repr() const override;

 private:
  int64_t dim_;
  Shape sizes_;
};

/// Adds zeros around images [.., H, W]; negative widths cut elements off.
class ZeroPad2d : public Module {
 public:
  /// Makes the module, with the same width on all sides.
  explicit ZeroPad2d(int64_t padding) : ZeroPad2d(padding, padding, padding, padding) {}
  /// Makes the module, with a width for each side.
  ZeroPad2d(int64_t left, int64_t right, int64_t top, int64_t bottom)
      : padding_{left, right, top, bottom} {}
  Tensor forward(const Tensor& x) override { return pad(x, padding_); }
  std::string extra_repr() const override;

 private:
  std::vector<int64_t> padding_;
};

/// Options of Upsample; give exactly one of the two.
struct UpsampleOptions {
  std::optional<Size2> size = {};          ///< height and width of the result
  std::optional<Size2> scale_factor = {};  ///< how often each pixel is repeated, down and across
};

/// Enlarges images x [N, C, H, W] or [C, H, W] by nearest neighbours.
class Upsample : public Module {
 public:
  using Options = UpsampleOptions;
  /// Makes the module. Throws an Error unless exactly one of size and scale_factor is given.
  explicit Upsample(const UpsampleOptions& options);
  Tensor forward(const Tensor& x) override;
  std::string extra_repr() const override;

 private:
  UpsampleOptions options_;
};

}  // namespace hero::nn
