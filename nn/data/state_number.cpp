#include <hero/core/error.h>
#include <hero/nn/data/state_number.h>

namespace hero::nn::data {

int64_t state_number(const char* op, const std::vector<core::NamedArray>& state,
                     const std::string& name) {
  for (const core::NamedArray& one : state) {
    if (one.name != name) continue;
    check(one.array.dtype() == kInt64 && one.array.numel() == 1, op, ": '", name,
          "' of the state is not one int64 number, but ", one.array.dtype(), " of shape ",
          one.array.shape());
    return one.array.item<int64_t>();
  }
  fail(op, ": the state has no number '", name, "'");
}

}  // namespace hero::nn::data
