#pragma once
// Making tensors. Random ones draw from this thread's generator (manual_seed in core/random.h).
#include <hero/autograd/tensor.h>
#include <hero/core/random.h>

namespace hero {

struct TensorOptions {
  std::optional<DType> dtype = {};  ///< float32 where floats are expected, else int64 or bool
  Device device = kCpu;
  bool requires_grad = false;
};

/// What lists and rows may be made of.
template <class T>
concept RowElement = std::same_as<T, double> || std::same_as<T, float> || std::same_as<T, int> ||
    std::same_as<T, int64_t> || std::same_as<T, bool>;

/// \name From values: floats become float32, integers int64, bools bool, unless a dtype is given
/// That includes doubles, single ones and vectors of them, as PyTorch's tensor() of Python's
/// floats; {.dtype = kFloat64} keeps all their digits.
/// \{
/// A number, as a tensor without dimensions.
/// \snippet test_examples_tensors.cpp tensor
Tensor tensor(Scalar value, const TensorOptions& options = {});
/// The elements are of one type. A template, so that {{1.0}, {2.0}} can be nothing but rows.
template <RowElement T>
Tensor tensor(std::initializer_list<T> values, const TensorOptions& options = {});
/// Rows of equal length, also of one element each.
template <RowElement T>
Tensor tensor(std::initializer_list<std::initializer_list<T>> rows,
              const TensorOptions& options = {});
Tensor tensor(const std::vector<double>& values, const TensorOptions& options = {});
Tensor tensor(const std::vector<float>& values, const TensorOptions& options = {});
Tensor tensor(const std::vector<int>& values, const TensorOptions& options = {});
Tensor tensor(const std::vector<int64_t>& values, const TensorOptions& options = {});
Tensor tensor(const std::vector<bool>& values, const TensorOptions& options = {});
/// \}

Tensor empty(const Shape& shape, const TensorOptions& options = {});
/// \snippet test_examples_tensors.cpp zeros
Tensor zeros(const Shape& shape, const TensorOptions& options = {});
Tensor ones(const Shape& shape, const TensorOptions& options = {});
/// Every element is the value; float32, int64 or bool as the value is, unless a dtype is given.
Tensor full(const Shape& shape, Scalar value, const TensorOptions& options = {});
Tensor empty_like(const Tensor& x);
Tensor zeros_like(const Tensor& x);
Tensor ones_like(const Tensor& x);
Tensor full_like(const Tensor& x, Scalar value);
/// start, start + step, ... below end; int64 for integer arguments, else float32. With an integer
/// dtype given, start and step lose their fractions first, as in PyTorch.
/// \snippet test_examples_tensors.cpp arange
Tensor arange(Scalar start, Scalar end, Scalar step = 1, const TensorOptions& options = {});
Tensor arange(Scalar end, const TensorOptions& options = {});
/// `steps` values from start to end, both included. With an integer dtype given, both lose their
/// fractions first, and each value loses its own.
Tensor linspace(double start, double end, int64_t steps, const TensorOptions& options = {});
Tensor eye(int64_t n, const TensorOptions& options = {});
Tensor eye(int64_t n, int64_t m, const TensorOptions& options = {});
/// int64 [.., num_classes], 1 at each index of `x`; -1: one class more than the largest index.
Tensor one_hot(const Tensor& x, int64_t num_classes = -1);
/// Uniform in [0, 1).
Tensor rand(const Shape& shape, const TensorOptions& options = {});
/// Standard normal.
/// \snippet test_examples_tensors.cpp randn
Tensor randn(const Shape& shape, const TensorOptions& options = {});
/// Integers in [low, high), int64.
Tensor randint(int64_t low, int64_t high, const Shape& shape, const TensorOptions& options = {});
/// A random order of 0 .. n - 1, int64.
Tensor randperm(int64_t n, const TensorOptions& options = {});
/// 1 with the probability given by each element of p, else 0.
Tensor bernoulli(const Tensor& p);
/// num_samples positions (int64) in p [C] or in each row of p [N, C], each drawn with a probability
/// in proportion to its element of p, which is not negative; without replacement no position comes
/// twice. Without replacement those with the largest p / E win, E exponential: Efraimidis and
/// Spirakis, Information Processing Letters 97, 2006.
Tensor multinomial(const Tensor& p, int64_t num_samples, bool replacement = false);
/// Normal with the mean and the standard deviation (not negative) of each element; tensors
/// broadcast, and have no gradient.
Tensor normal(const Tensor& mean, const Tensor& std);
Tensor normal(const Tensor& mean, double std = 1.0);
Tensor normal(double mean, const Tensor& std);
Tensor normal(double mean, double std, const Shape& shape, const TensorOptions& options = {});
Tensor rand_like(const Tensor& x);
Tensor randn_like(const Tensor& x);

/// \name With a dtype in place of options: zeros({2}, kInt64)
/// Templates, so that {} stays the options.
/// \{
template <std::same_as<DType> D>
Tensor empty(const Shape& shape, D dtype) {
  return empty(shape, TensorOptions{.dtype = dtype});
}
template <std::same_as<DType> D>
Tensor zeros(const Shape& shape, D dtype) {
  return zeros(shape, TensorOptions{.dtype = dtype});
}
template <std::same_as<DType> D>
Tensor ones(const Shape& shape, D dtype) {
  return ones(shape, TensorOptions{.dtype = dtype});
}
template <std::same_as<DType> D>
Tensor full(const Shape& shape, Scalar value, D dtype) {
  return full(shape, value, TensorOptions{.dtype = dtype});
}
template <std::same_as<DType> D>
Tensor rand(const Shape& shape, D dtype) {
  return rand(shape, TensorOptions{.dtype = dtype});
}
template <std::same_as<DType> D>
Tensor randn(const Shape& shape, D dtype) {
  return randn(shape, TensorOptions{.dtype = dtype});
}
template <std::same_as<DType> D>
Tensor arange(Scalar end, D dtype) {
  return arange(end, TensorOptions{.dtype = dtype});
}
template <std::same_as<DType> D>
Tensor arange(Scalar start, Scalar end, Scalar step, D dtype) {
  return arange(start, end, step, TensorOptions{.dtype = dtype});
}
template <std::same_as<DType> D>
Tensor eye(int64_t n, D dtype) {
  return eye(n, TensorOptions{.dtype = dtype});
}
/// \}

}  // namespace hero
