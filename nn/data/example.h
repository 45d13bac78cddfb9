#pragma once
// Example: one sample or a batch of samples, as a list of tensors. Datasets and loaders return it.
#include <cstddef>
#include <initializer_list>
#include <tuple>
#include <utility>
#include <vector>

#include <hero/autograd/tensor.h>

namespace hero::nn::data {

/// Tensors that belong together, one for each field, such as an input and its target. An example of
/// two fields can be unpacked by `auto [x, y] = example`.
class Example {
 public:
  /// Makes an example without fields.
  Example() = default;
  /// Makes an example of these fields.
  Example(std::initializer_list<Tensor> fields) : fields_(fields) {}
  /// Makes an example of these fields.
  explicit Example(std::vector<Tensor> fields) : fields_(std::move(fields)) {}

  /// The number of fields.
  int size() const { return static_cast<int>(fields_.size()); }
  /// A field. Throws an Error if there is none of that number.
  const Tensor& operator[](int field) const;
  /// All fields.
  const std::vector<Tensor>& fields() const { return fields_; }
  /// Copies the fields to a device.
  Example to(Device device) const;

 private:
  std::vector<Tensor> fields_;
};

/// Makes `auto [x, y] = example` work. Throws an Error unless there are exactly two fields.
template <size_t I>
Tensor get(const Example& example) {
  static_assert(I < 2);
  check(example.size() == 2, "example: [x, y] asks for two fields, there are ", example.size(),
        "; use example[i]");
  return example[static_cast<int>(I)];
}

/// Stacks samples along a new first dimension, field by field. All samples must have as many fields
/// as the first, with the same shapes and dtypes.
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
