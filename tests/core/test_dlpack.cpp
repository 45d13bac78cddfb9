// Arrays from and for other libraries by DLPack.
#include <cstddef>

#include "support/arrays.h"
#include "support/catch.h"

#include <hero/core/dlpack.h>

namespace {

using namespace hero;
using namespace hero::core;
using Catch::Matchers::Equals;
using Catch::Matchers::StartsWith;
using dlpack::DLManagedTensor;
using dlpack::DLManagedTensorVersioned;

// The layout of the standard's structs on a machine of 64 bits, counted by hand.
static_assert(sizeof(dlpack::DLTensor) == 48 && sizeof(DLManagedTensor) == 64);
static_assert(offsetof(dlpack::DLTensor, device) == 8 && offsetof(dlpack::DLTensor, ndim) == 16);
static_assert(offsetof(dlpack::DLTensor, dtype) == 20 && offsetof(dlpack::DLTensor, shape) == 24);
static_assert(offsetof(dlpack::DLTensor, strides) == 32);
static_assert(offsetof(dlpack::DLTensor, byte_offset) == 40);
static_assert(offsetof(DLManagedTensor, manager_ctx) == 48);
static_assert(offsetof(DLManagedTensor, deleter) == 56);
static_assert(sizeof(DLManagedTensorVersioned) == 80);
static_assert(offsetof(DLManagedTensorVersioned, manager_ctx) == 8);
static_assert(offsetof(DLManagedTensorVersioned, deleter) == 16);
static_assert(offsetof(DLManagedTensorVersioned, flags) == 24);
static_assert(offsetof(DLManagedTensorVersioned, dl_tensor) == 32);

// Memory of another library, which counts how often it is freed.
struct Foreign {
  alignas(8) std::array<std::byte, 96> memory{};
  std::vector<int64_t> shape, strides;
  int freed = 0;
  DLManagedTensorVersioned managed{};

  Foreign(dlpack::DLDataType dtype, std::vector<int64_t> sizes, std::vector<int64_t> steps = {})
      : shape(std::move(sizes)), strides(std::move(steps)) {
    managed.version = {1, 3};
    managed.manager_ctx = this;
    managed.deleter = [](DLManagedTensorVersioned* self) {
      ++static_cast<Foreign*>(self->manager_ctx)->freed;
    };
    managed.dl_tensor = {memory.data(),
                         {dlpack::kDLCPU, 0},
                         static_cast<int32_t>(shape.size()),
                         dtype,
                         shape.data(),
                         strides.empty() ? nullptr : strides.data(),
                         0};
  }
  Foreign(const Foreign&) = delete;

  template <class T>
  void fill(int count) {
    for (int i = 0; i < count; ++i) reinterpret_cast<T*>(memory.data())[i] = T(i);
  }
};

constexpr dlpack::DLDataType kFloats{dlpack::kDLFloat, 32, 1};

TEST_CASE("an array is described for other libraries with its dtype, strides and first element") {
  const auto check_one = [](DType dtype, uint8_t code, uint8_t bits) {
    const Array whole = Array::zeros({3, 4}, dtype);
    const Array x = whole.slice(1, 1, 4, 2).t();  // [2, 3]
    DLManagedTensorVersioned* const managed = to_dlpack(x);
    const dlpack::DLTensor& t = managed->dl_tensor;
    CHECK((managed->version.major == 1 && managed->version.minor == 0));
    CHECK(managed->flags == 0);
    CHECK((t.dtype.code == code && t.dtype.bits == bits && t.dtype.lanes == 1));
    CHECK((t.device.device_type == dlpack::kDLCPU && t.device.device_id == 0));
    REQUIRE(t.ndim == 2);
    CHECK((t.shape[0] == 2 && t.shape[1] == 3));
    CHECK((t.strides[0] == 2 && t.strides[1] == 4));
    CHECK(static_cast<std::byte*>(t.data) + t.byte_offset == x.bytes());
    managed->deleter(managed);
  };
  check_one(kBool, 6, 8);
  check_one(kUInt8, 1, 8);
  check_one(kInt32, 0, 32);
  check_one(kInt64, 0, 64);
  check_one(kFloat16, 2, 16);
  check_one(kBFloat16, 4, 16);
  check_one(kFloat32, 2, 32);
  check_one(kFloat64, 2, 64);
}

TEST_CASE("what is given away keeps its memory until the deleter is called") {
  Ledger ledger;
  const LedgerScope scope(ledger);
  DLManagedTensorVersioned* managed = nullptr;
  DLManagedTensor* unversioned = nullptr;
  {
    const Array x = Array::full({4}, 3.0);
    managed = to_dlpack(x, dlpack::kReadOnly);
    unversioned = to_dlpack_unversioned(x);
  }
  CHECK(managed->flags == dlpack::kReadOnly);
  CHECK(ledger.live() == 16);
  CHECK(static_cast<float*>(managed->dl_tensor.data)[3] == 3.0F);
  managed->deleter(managed);
  CHECK(ledger.live() == 16);
  unversioned->deleter(unversioned);
  CHECK(ledger.live() == 0);
}

TEST_CASE("arrays come back as views of the same memory") {
  const auto round = [](const Array& x, const Array& back) {
    CHECK(back.shape() == x.shape());
    CHECK(back.dtype() == x.dtype());
    CHECK(test::same(back.contiguous(), x.contiguous()));
    if (x.numel() > 0) CHECK(back.bytes() == x.bytes());
  };
  const auto both = [&](const Array& x) {
    round(x, from_dlpack(to_dlpack(x)));
    round(x, from_dlpack(to_dlpack_unversioned(x)));
  };
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    const Array x = Array::ones({3, 4, 2}, dtype);
    both(x);
    both(x.permute({2, 0, 1}).slice(1, 1));
    both(x.select(0, 2).select(0, 1).select(0, 0));  // no dimensions
    both(x.slice(1, 2, 2));                          // no elements
    both(x.slice(2, 0, 1).expand({3, 4, 5}));
    both(Array::full({}, 1, dtype));
    both(Array::empty({0}, dtype));
  }
  const Array x = Array::zeros({2, 3});
  const Array back = from_dlpack(to_dlpack(x.t()));
  back.data<float>()[1] = 5;
  CHECK(x.to_vector<double>() == std::vector<double>{0, 5, 0, 0, 0, 0});
}

TEST_CASE("memory of others is read where it lies, and freed once") {
  Foreign foreign(kFloats, {2, 3});
  foreign.fill<float>(10);
  foreign.managed.dl_tensor.byte_offset = 8;
  {
    const Array x = from_dlpack(&foreign.managed);
    CHECK(x.is_contiguous());
    CHECK(x.to_vector<double>() == std::vector<double>{2, 3, 4, 5, 6, 7});
    const Array part = x.select(0, 1);
    CHECK(part.bytes() == foreign.memory.data() + 20);
    CHECK(foreign.freed == 0);
  }
  CHECK(foreign.freed == 1);

  Foreign strided({dlpack::kDLInt, 64, 1}, {2, 1, 3}, {1, -7, 4});  // a stride of one element
  strided.fill<int64_t>(12);
  CHECK(from_dlpack(&strided.managed).to_vector<double>() == std::vector<double>{0, 4, 8, 1, 5, 9});
  CHECK(strided.freed == 1);

  Foreign empty(kFloats, {0, 3}, {3, 1});
  empty.managed.dl_tensor.data = nullptr;
  CHECK(from_dlpack(&empty.managed).shape() == Shape{0, 3});
  CHECK(empty.freed == 1);

  Foreign single({dlpack::kDLBfloat, 16, 1}, {});
  single.managed.dl_tensor.shape = nullptr;
  single.managed.dl_tensor.device = {dlpack::kDLCUDAHost, 0};
  single.managed.deleter = nullptr;  // nothing to free
  CHECK(from_dlpack(&single.managed).item() == 0);
}

TEST_CASE("what cannot be an array is refused, and stays with the caller") {
  const auto refused = [](Foreign& foreign, const std::string& text) {
    CHECK_THROWS_WITH(from_dlpack(&foreign.managed), StartsWith("from_dlpack: " + text));
    CHECK(foreign.freed == 0);
  };
  const auto of_type = [&](uint8_t code, uint8_t bits, uint16_t lanes, const std::string& text) {
    Foreign foreign({code, bits, lanes}, {2});
    refused(foreign, "no dtype of Hero has elements of code " + text);
  };
  of_type(dlpack::kDLInt, 16, 1, "0 (int) with 16 bits and 1 lane; convert them first to bool");
  of_type(dlpack::kDLUInt, 32, 1, "1 (uint) with 32 bits and 1 lane");
  of_type(dlpack::kDLFloat, 32, 4, "2 (float) with 32 bits and 4 lanes");
  of_type(dlpack::kDLComplex, 64, 1, "5 (complex) with 64 bits and 1 lane");
  of_type(10, 8, 1, "10 (one of a later standard) with 8 bits and 1 lane");

  Foreign foreign(kFloats, {2, 3}, {3, 1});
  dlpack::DLTensor& tensor = foreign.managed.dl_tensor;
  const dlpack::DLTensor right = tensor;
  tensor.device = {8, 0};
  refused(foreign,
          "the memory is on a device of kind 8, and Hero knows the host, 1 and 3, and "
          "GPUs of NVIDIA, 2");
  tensor.device = {dlpack::kDLCUDA, 500};
  refused(foreign, "there is no GPU 500");
  tensor = right;
  tensor.ndim = 9;
  refused(foreign, "9 dimensions; an array has 0 to 8");
  tensor.ndim = -1;
  refused(foreign, "-1 dimensions");
  tensor = right;
  tensor.shape = nullptr;
  refused(foreign, "the shape is null, and there are 2 dimensions");
  tensor = right;
  tensor.data = nullptr;
  refused(foreign, "data is null, and shape [2, 3] has 6 elements");
  tensor = right;
  tensor.byte_offset = 2;
  refused(foreign, "the first element is not aligned for float32");
  tensor = right;
  foreign.strides[0] = -3;
  refused(foreign, "dimension 0 of shape [2, 3] has the stride -3");
  foreign.strides[0] = int64_t{1} << 62;
  refused(foreign, "");
  foreign.strides[0] = 3;
  foreign.shape[1] = -1;
  refused(foreign, "");
  foreign.shape[1] = 3;
  foreign.managed.flags = dlpack::kReadOnly;
  refused(foreign, "the memory is read-only");
  foreign.managed.flags = dlpack::kIsCopied;
  foreign.managed.version = {2, 0};
  refused(foreign, "the struct is of version 2.0 of DLPack, and Hero reads 1.x");
  foreign.managed.version = {1, 0};
  CHECK(from_dlpack(&foreign.managed).numel() == 6);
  CHECK(foreign.freed == 1);
  CHECK_THROWS_WITH(from_dlpack(static_cast<DLManagedTensor*>(nullptr)),
                    Equals("from_dlpack: the pointer is null"));
  CHECK_THROWS_WITH(to_dlpack(Array()), Equals("to_dlpack: the array is undefined"));
  CHECK_THROWS_WITH(to_dlpack(Array::empty({2}, kFloat32, kMeta)),
                    Equals("to_dlpack: an array on meta has no values to share"));
  CHECK_THROWS_WITH(to_dlpack(Array::zeros({2}), 6), StartsWith("to_dlpack: flags are 6"));
}

}  // namespace
