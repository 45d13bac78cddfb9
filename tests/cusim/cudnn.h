#pragma once
// cuDNN's descriptors as tests/cusim keeps them, and the operations that they
// describe.
#include <cstring>
#include <map>
#include <vector>

#include <cudnn_graph.h>

namespace cusim {

struct Descriptor {
  cudnnBackendDescriptorType_t type;
  bool finished = false;
  std::map<int, std::vector<char>> values = {};

  template <class T>
  std::vector<T> all(int name) const {
    const auto found = values.find(name);
    if (found == values.end()) return {};
    std::vector<T> result(found->second.size() / sizeof(T));
    std::memcpy(result.data(), found->second.data(), result.size() * sizeof(T));
    return result;
  }
  template <class T>
  T one(int name) const {
    T result{};
    const auto found = values.find(name);
    if (found != values.end()) std::memcpy(&result, found->second.data(), sizeof(T));
    return result;
  }
  const Descriptor* child(int name) const {
    return static_cast<const Descriptor*>(one<void*>(name));
  }
};

struct Tensor {
  int64_t id = 0;
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  std::vector<int64_t> shape, strides;
  bool hidden = false, by_value = false;

  explicit Tensor(const Descriptor& d)
      : id(d.one<int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID)),
        type(d.one<cudnnDataType_t>(CUDNN_ATTR_TENSOR_DATA_TYPE)),
        shape(d.all<int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS)),
        strides(d.all<int64_t>(CUDNN_ATTR_TENSOR_STRIDES)),
        hidden(d.one<bool>(CUDNN_ATTR_TENSOR_IS_VIRTUAL)),
        by_value(d.one<bool>(CUDNN_ATTR_TENSOR_IS_BY_VALUE)) {}
  int64_t size() const { return shape[0] * shape[1] * shape[2] * shape[3]; }
  template <class F>
  void each(const F& f) const {  // f(position among all, indices)
    int64_t at = 0, i[4];
    for (i[0] = 0; i[0] < shape[0]; ++i[0]) {
      for (i[1] = 0; i[1] < shape[1]; ++i[1]) {
        for (i[2] = 0; i[2] < shape[2]; ++i[2]) {
          for (i[3] = 0; i[3] < shape[3]; ++i[3]) f(at++, i);
        }
      }
    }
  }
  int64_t place(const int64_t* i) const {
    return i[0] * strides[0] + i[1] * strides[1] + i[2] * strides[2] + i[3] * strides[3];
  }
};

// One operation, with copies of what describes it.
struct Operation {
  cudnnBackendDescriptorType_t type;
  int mode = 0;
  int64_t axis = 0;
  std::vector<Tensor> in;
  Tensor out;

  Operation(const Descriptor& d, std::initializer_list<int> inputs, int output)
      : type(d.type), out(*d.child(output)) {
    for (const int name : inputs) {
      if (const Descriptor* x = d.child(name)) in.emplace_back(*x);
    }
  }
};

Operation operation_of(const Descriptor& d);
/// Whether shapes fit: those of a product, and elsewhere dimensions that divide
/// one another.
bool fits(const Operation& op);

/// The values of tensors while a graph's operations are carried out, one after
/// the other.
struct Run {
  std::map<int64_t, std::vector<double>> values;
  std::map<int64_t, void*> memory;

  void carry_out(const Operation& op);
  /// Reads a tensor's memory, unless its values are there.
  void fetch(const Tensor& x);

 private:
  double read(const Tensor& x, const int64_t* i, const std::vector<int64_t>& of) const;
  void keep(const Tensor& x, std::vector<double> result);
  double pointwise(const Operation& op, const int64_t* i) const;
  void reduce(const Operation& op, std::vector<double>& result) const;
  void multiply(const Operation& op, std::vector<double>& result) const;
  void reshape(const Operation& op, std::vector<double>& result) const;
};

}  // namespace cusim
