#include <hero/core/dtype.h>

namespace hero {

const char* name(DType dtype) {
  constexpr const char* names[kDTypeCount] = {"bool",    "uint8",    "int32",   "int64",
                                              "float16", "bfloat16", "float32", "float64"};
  return names[static_cast<int>(dtype)];
}

}  // namespace hero
