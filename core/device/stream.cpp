#include <ostream>

#include <hero/core/ostream.h>

namespace hero {

std::ostream& operator<<(std::ostream& out, const Dims& dims) { return out << to_string(dims); }
std::ostream& operator<<(std::ostream& out, DType dtype) { return out << name(dtype); }
std::ostream& operator<<(std::ostream& out, const Device& device) {
  return out << to_string(device);
}
std::ostream& operator<<(std::ostream& out, const Scalar& scalar) {
  return out << to_string(scalar);
}

}  // namespace hero
