// A shared library with which tests/peers/dlpack.py gives tensors to Python and takes them from
// there.
#include <cstdio>
#include <cstring>
#include <string>

#include <hero/autograd/autograd.h>
#include <hero/autograd/dlpack.h>
#include <hero/core/ledger.h>

using namespace hero;

namespace {

std::string last_error;

template <class F>
auto caught(F&& f) -> decltype(f()) {
  try {
    return f();
  } catch (const Error& error) {
    last_error = error.what();
    return nullptr;
  }
}

Tensor sample(const std::string& view, DType dtype) {
  const Tensor x = (arange(24).reshape({2, 3, 4}) % 7).to(dtype);
  if (view == "whole") return x;
  if (view == "strided") return x.permute({2, 0, 1}).slice(2, 1).slice(0, 0, kEnd, 2);
  if (view == "single") return x.select(0, 1).select(0, 2).select(0, 3);
  if (view == "empty") return x.slice(1, 3);
  return x.slice(1, 1, 2).expand({2, 5, 4});
}

}  // namespace

extern "C" {

const char* hero_error() { return last_error.c_str(); }

/// A tensor of a view ("whole", "strided", "single", "empty", "expanded") and a dtype's name.
void* hero_sample(const char* view, const char* dtype) {
  for (int i = 0; i < kDTypeCount; ++i) {
    if (std::strcmp(name(static_cast<DType>(i)), dtype) == 0) {
      return new Tensor(sample(view, static_cast<DType>(i)));
    }
  }
  last_error = "no such dtype";
  return nullptr;
}

void hero_free(void* tensor) { delete static_cast<Tensor*>(tensor); }

/// Bytes of all tensors that are alive.
int64_t hero_live() { return current_ledger().live(); }

void hero_fill(void* tensor, double value) { static_cast<Tensor*>(tensor)->fill_(value); }

/// "float32 [2, 3] [1, 2]: 0 1 2 ..." with shape, strides and values.
int64_t hero_text(void* tensor, char* text, int64_t size) {
  const Tensor& x = *static_cast<Tensor*>(tensor);
  std::string all = std::string(name(x.dtype())) + " " + to_string(x.shape()) + " " +
                    to_string(x.strides()) + ":";
  for (const double value : x.to_vector<double>()) {
    char number[32];
    std::snprintf(number, sizeof(number), " %g", value);
    all += number;
  }
  std::snprintf(text, static_cast<size_t>(size), "%s", all.c_str());
  return static_cast<int64_t>(all.size());
}

void* hero_to_dlpack(void* tensor, int versioned, uint64_t flags) {
  return caught([&]() -> void* {
    const Tensor& x = *static_cast<Tensor*>(tensor);
    if (versioned != 0) return to_dlpack(x, flags);
    return to_dlpack_unversioned(x);
  });
}

void* hero_from_dlpack(void* managed, int versioned) {
  return caught([&]() -> void* {
    if (versioned != 0) {
      return new Tensor(from_dlpack(static_cast<dlpack::DLManagedTensorVersioned*>(managed)));
    }
    return new Tensor(from_dlpack(static_cast<dlpack::DLManagedTensor*>(managed)));
  });
}

void hero_delete(void* managed, int versioned) {
  if (versioned != 0) {
    auto* const self = static_cast<dlpack::DLManagedTensorVersioned*>(managed);
    self->deleter(self);
  } else {
    auto* const self = static_cast<dlpack::DLManagedTensor*>(managed);
    self->deleter(self);
  }
}
}
