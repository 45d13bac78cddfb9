#include "autograd/tables/golden.h"

namespace hero::golden {

std::vector<Tensor> Call::operands() const {
  std::vector<Tensor> result;
  for (const std::string name : attr("operands")) result.push_back(in(name));
  return result;
}

Scalar Call::scalar(const std::string& key) const {
  const Json& value = attr(key);
  return value.is_number_integer() ? Scalar(value.get<int64_t>()) : Scalar(value.get<double>());
}

std::optional<Scalar> Call::bound(const std::string& key) const {
  return has(key) ? std::optional<Scalar>(scalar(key)) : std::nullopt;
}

Dims Call::dims(const std::string& key) const {
  if (!has(key)) return {};
  const Json& value = attr(key);
  return value.is_array() ? Dims(value.get<std::vector<int64_t>>()) : Dims{value.get<int64_t>()};
}

Pair Call::pair(const std::string& key, int64_t absent) const {
  const Dims values = dims(key);
  if (values.empty()) return {absent, absent};
  return {values[0], values.back()};
}

Reduction Call::reduction() const {
  const auto text = get<std::string>("reduction", "mean");
  check(text == "none" || text == "mean" || text == "sum", "golden: reduction is ", text);
  if (text == "none") return Reduction::none;
  return text == "sum" ? Reduction::sum : Reduction::mean;
}

}  // namespace hero::golden
