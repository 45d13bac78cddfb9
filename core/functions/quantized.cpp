#include <atomic>
#include <cmath>
#include <cstring>
#include <string>

#include <hero/core/device/backend.h>
#include <hero/core/error.h>
#include <hero/core/io/gguf_blocks.h>
#include <hero/core/quantized.h>
#include <hero/core/thread_pool.h>

namespace hero::core {

namespace {

const gguf::BlockType& quantized_type(const char* op, std::string_view name) {
  const gguf::BlockType* type = gguf::block_type(name);
  check(type != nullptr && type->bytes > 0 && type->elements > 1, op, ": '", name,
        "' is no type of blocks; there are Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q4_K, Q5_K and Q6_K");
  return *type;
}

constexpr int64_t kBlocksGrain = 512;  // blocks of 32 numbers that are worth a thread

}  // namespace

QuantizedMatrix::QuantizedMatrix(std::string_view type, const Array& blocks)
    : type_(&quantized_type("QuantizedMatrix", type)), blocks_(blocks) {
  check(blocks.defined() && blocks.dtype() == kUInt8 && blocks.ndim() == 2 &&
            blocks.is_contiguous() && blocks.size(1) % type_->bytes == 0,
        "QuantizedMatrix: blocks of ", type, " are contiguous uint8 [rows, a multiple of ",
        type_->bytes, "], not ", blocks.dtype(), " ", blocks.shape());
}

const char* QuantizedMatrix::type() const { return type_->name; }
int64_t QuantizedMatrix::columns() const {
  return blocks_.size(1) / type_->bytes * type_->elements;
}

QuantizedMatrix QuantizedMatrix::from(const Array& x, std::string_view name) {
  const gguf::BlockType& type = quantized_type("QuantizedMatrix", name);
  check(gguf::can_encode(type), "QuantizedMatrix: numbers are quantised to Q8_0, Q4_0 and Q4_1; ",
        "blocks of ", name, " come from files");
  check(is_floating(x.dtype()) && x.ndim() == 2 && x.device() == kCpu,
        "QuantizedMatrix: what is quantised is a floating matrix in cpu memory, not ", x.dtype(),
        " ", x.shape(), " on ", x.device());
  check(x.size(1) % type.elements == 0, "QuantizedMatrix: rows of ", x.size(1),
        " numbers are no whole blocks of ", type.elements);
  const Array values = x.to(kFloat32).contiguous();
  const int64_t in_row = x.size(1) / type.elements;
  QuantizedMatrix matrix(name, Array::empty({x.size(0), in_row * type.bytes}, kUInt8));
  std::atomic<bool> good = true;
  parallel_for(x.size(0) * in_row, kBlocksGrain, [&](int64_t begin, int64_t end) {
    const float* from = values.data<float>() + begin * type.elements;
    bool finite = true;
    for (int64_t i = 0; i < (end - begin) * type.elements; ++i) {
      finite = finite && std::isfinite(from[i]);
    }
    if (!finite ||
        !gguf::encode(type, from, end - begin, matrix.blocks_.bytes() + begin * type.bytes)) {
      good = false;
    }
  });
  check(good, "QuantizedMatrix: the matrix ", x.shape(), " has infinities, NaN or numbers too ",
        "large for ", name, ", whose scales are float16");
  return matrix;
}

Array QuantizedMatrix::values(DType dtype) const {
  check(is_floating(dtype), "QuantizedMatrix: its numbers are floating, not ", dtype);
  check(blocks_.device() == kCpu, "QuantizedMatrix: its blocks lie on ", blocks_.device(),
        "; they are read in cpu memory alone");
  Array out = Array::empty({rows(), columns()}, dtype);
  if (out.numel() > 0) {
    gguf::decode(*type_, blocks_.bytes(), out.numel() / type_->elements, dtype, out.bytes());
  }
  return out;
}

Array QuantizedMatrix::values_of(std::span<const int64_t> numbers, DType dtype) const {
  Array some = Array::empty({static_cast<int64_t>(numbers.size()), blocks_.size(1)}, kUInt8);
  check(blocks_.device() == kCpu, "QuantizedMatrix: its blocks lie on ", blocks_.device(),
        "; they are read in cpu memory alone");
  std::byte* to = some.bytes();
  for (const int64_t number : numbers) {
    check(number >= 0 && number < rows(), "QuantizedMatrix: row ", number, " is outside [0, ",
          rows(), ")");
    std::memcpy(to, blocks_.bytes() + number * blocks_.size(1),
                static_cast<size_t>(blocks_.size(1)));
    to += blocks_.size(1);
  }
  return QuantizedMatrix(type_->name, some).values(dtype);
}

Array quantized_product(const Array& x, const QuantizedMatrix& w) {
  constexpr const char* kName = "quantized_product";
  check(x.dtype() == kFloat32 || is_half(x.dtype()), kName, ": x is ", x.dtype(),
        "; it must be float32, float16 or bfloat16");
  check(x.ndim() >= 1 && x.size(-1) == w.columns(), kName, ": expected [.., ", w.columns(),
        "], got ", x.shape());
  check(x.device() == kCpu && w.blocks().device() == kCpu, kName, ": x lies on ", x.device(),
        " and the matrix on ", w.blocks().device(),
        "; such products are computed on the cpu alone");
  const Array rows = x.to(kFloat32).contiguous();
  Shape shape = x.shape();
  shape.back() = w.rows();
  const Array y = Array::empty(shape, kFloat32);
  const int64_t k = w.columns();
  if (y.numel() == 0) return y.to(x.dtype());
  if (k == 0) return Array::zeros(y.shape(), x.dtype());
  backend(kCpu).run(call::QuantizedProduct{*w.type_, rows, w.blocks(), y});
  return y.to(x.dtype());
}

}  // namespace hero::core
