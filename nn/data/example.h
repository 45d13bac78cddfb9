#pragma once
// Example: what datasets and loaders give out. One sample or a batch of them, as a list of tensors.
#include <cstddef>
#include <initializer_list>
#include <tuple>
#include <utility>
#include <vector>

#include <hero/autograd/tensor.h>

namespace hero::nn::data {

/// Tensors that belong together, one a field: an input and its target, say. An example of two
/// fields comes apart by `auto [x, y] = example`.
class Example {
 public:
  Example() = default;
  Example(std::initializer_list<Tensor> fields) : fields_(fields) {}
  explicit Example(std::vector<Tensor> fields) : fields_(std::move(fields)) {}

  /// Number of fields.
  int size() const { return static_cast<int>(fields_.size()); }
  /// A field; an Error when there is none of that number.
  const Tensor& operator[](int field) const;
  const std::vector<Tensor>& fields() const { return fields_; }
  /// The same fields on a device.
  Example to(Device device) const;

 private:
  std::vector<Tensor> fields_;
};

/// For `auto [x, y] = example`; an Error unless there are exactly two fields.
template <size_t I>
Tensor get(const Example& example) {
  static_assert(I < 2);
  check(example.size() == 2, "example: [x, y] asks for two fields, there are ", example.size(),
        "; use example[i]");
  return example[static_cast<int>(I)];
}

/// Stacks samples along a new first dimension, field by field. All must have as many fields as the
/// first, each with the same shape and dtype.
Example collate(const std::vector<Example>& samples);

}  // namespace hero::nn::data

/// @cond
template <>
struct std::tuple_size<hero::nn::data::Example> : std::integral_constant<size_t, 2> {};
template <size_t I>
struct std::tuple_element<I, hero::nn::data::Example> {
  using type = hero::Tensor;
};
/// @endcond
