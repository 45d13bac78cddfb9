#pragma once
// Modules that move elements and have no parameters.
#include <optional>

#include <hero/nn/module.h>
#include <hero/nn/size2.h>

namespace hero::nn {

/// Dimensions start_dim .. end_dim become one; by default all but the batch.
class Flatten : public Module {
 public:
  explicit Flatten(int64_t start_dim = 1, int64_t end_dim = -1)
      : start_(start_dim), end_(end_dim) {}
  Tensor forward(const Tensor& x) override { return flatten(x, start_, end_); }
  std::string extra_repr() const override;

 private:
  int64_t start_, end_;
};

/// Dimension `dim` becomes `unflattened_size`, in which one size may be -1.
class Unflatten : public Module {
 public:
  Unflatten(int64_t dim, const Shape& unflattened_size) : dim_(dim), sizes_(unflattened_size) {}
  Tensor forward(const Tensor& x) override;
  std::string extra_repr() const override;

 private:
  int64_t dim_;
  Shape sizes_;
};

/// Zeros around images [.., H, W]; negative widths cut.
class ZeroPad2d : public Module {
 public:
  explicit ZeroPad2d(int64_t padding) : ZeroPad2d(padding, padding, padding, padding) {}
  ZeroPad2d(int64_t left, int64_t right, int64_t top, int64_t bottom)
      : padding_{left, right, top, bottom} {}
  Tensor forward(const Tensor& x) override { return pad(x, padding_); }
  std::string extra_repr() const override;

 private:
  std::vector<int64_t> padding_;
};

struct UpsampleOptions {
  std::optional<Size2> size = {};          ///< height and width of the result, or
  std::optional<Size2> scale_factor = {};  ///< how often each pixel is repeated down and across
};

/// Nearest neighbours of x [N, C, H, W] or [C, H, W].
class Upsample : public Module {
 public:
  using Options = UpsampleOptions;
  /// An Error unless exactly one of size and scale_factor is given.
  explicit Upsample(const UpsampleOptions& options);
  Tensor forward(const Tensor& x) override;
  std::string extra_repr() const override;

 private:
  UpsampleOptions options_;
};

}  // namespace hero::nn
