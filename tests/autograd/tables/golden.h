#pragma once
// Reference cases of operators: tests/golden/ops/README.md says what they hold.
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include <hero/autograd/ops.h>

namespace hero::golden {

using Json = nlohmann::json;

/// What an operator of the table is given: inputs by name and attributes, either of which may be
/// absent.
class Call {
 public:
  Call(const Json& attrs, const std::map<std::string, Tensor>& inputs)
      : attrs_(attrs), inputs_(inputs) {}

  /// Undefined when absent.
  Tensor in(const std::string& name) const {
    const auto at = inputs_.find(name);
    return at == inputs_.end() ? Tensor() : at->second;
  }
  Tensor x() const { return in("x"); }
  /// The inputs named by the attribute `operands`.
  std::vector<Tensor> operands() const;

  /// True when the attribute is there and not null.
  bool has(const std::string& key) const { return attrs_.contains(key) && !attrs_[key].is_null(); }
  const Json& attr(const std::string& key) const { return attrs_.at(key); }
  template <class T>
  T get(const std::string& key, T absent) const {
    return has(key) ? attrs_.at(key).get<T>() : absent;
  }
  double number(const std::string& key) const { return attr(key).get<double>(); }
  int64_t integer(const std::string& key) const { return attr(key).get<int64_t>(); }
  bool keepdim() const { return get<bool>("keepdim", false); }
  Scalar scalar(const std::string& key) const;
  std::optional<Scalar> bound(const std::string& key) const;
  /// A number or a list; empty when absent.
  Dims dims(const std::string& key) const;
  /// A number for both, or two.
  Pair pair(const std::string& key, int64_t absent) const;
  Reduction reduction() const;

 private:
  const Json& attrs_;
  const std::map<std::string, Tensor>& inputs_;
};

using Results = std::vector<Tensor>;
using Operator = std::function<Results(const Call&)>;
using Table = std::map<std::string, Operator>;

/// Values and indices as two results.
inline Results both(const ValuesIndices& found) { return {found.values, found.indices}; }

/// \name The operators, by room of the table
/// \{
void add_elementwise(Table& table);
void add_reductions(Table& table);
void add_shapes(Table& table);
void add_networks(Table& table);
void add_further(Table& table);
void add_orders(Table& table);
void add_images(Table& table);
void add_options(Table& table);
void add_composed(Table& table);
void add_rare(Table& table);
/// \}

/// How the inputs of a case are laid out.
enum class Layout { as_stored, transposed };

/// All cases of a folder and their arrays.
class Suite {
 public:
  explicit Suite(const std::string& folder);
  ~Suite();
  size_t size() const;
  const std::string& name(size_t i) const;
  /// Computes case i and returns one line for each tensor that differs.
  std::vector<std::string> differences(size_t i, Layout layout, Device device = kCpu) const;
  /// The same for shapes and dtypes alone, on the meta device.
  std::vector<std::string> meta_differences(size_t i) const;

 private:
  struct Data;
  std::unique_ptr<Data> data_;
};

}  // namespace hero::golden
