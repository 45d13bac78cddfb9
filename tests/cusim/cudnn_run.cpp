// What the operations of cuDNN's graphs compute, by plain loops.
#include <algorithm>
#include <cmath>

#include "cudnn.h"
#include "numbers.h"

namespace cusim {

namespace {

double rounded(double value, cudnnDataType_t type) {
  const auto narrow = static_cast<float>(value);
  if (type == CUDNN_DATA_BFLOAT16)
    return static_cast<double>(static_cast<float>(hero::BFloat16(narrow)));
  if (type == CUDNN_DATA_HALF)
    return static_cast<double>(static_cast<float>(hero::Float16(narrow)));
  return static_cast<double>(narrow);
}

hero::DType dtype_of(cudnnDataType_t type) {
  if (type == CUDNN_DATA_BFLOAT16) return hero::kBFloat16;
  return type == CUDNN_DATA_HALF ? hero::kFloat16 : hero::kFloat32;
}

}  // namespace

Operation operation_of(const Descriptor& d) {
  switch (d.type) {
    case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR:
      return {d,
              {CUDNN_ATTR_OPERATION_MATMUL_ADESC, CUDNN_ATTR_OPERATION_MATMUL_BDESC},
              CUDNN_ATTR_OPERATION_MATMUL_CDESC};
    case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR: {
      Operation sum(d, {CUDNN_ATTR_OPERATION_REDUCTION_XDESC},
                    CUDNN_ATTR_OPERATION_REDUCTION_YDESC);
      sum.mode =
          d.child(CUDNN_ATTR_OPERATION_REDUCTION_DESC)->one<int>(CUDNN_ATTR_REDUCTION_OPERATOR);
      return sum;
    }
    case CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR:
      return {d, {CUDNN_ATTR_OPERATION_RESHAPE_XDESC}, CUDNN_ATTR_OPERATION_RESHAPE_YDESC};
    default: {
      Operation each(d,
                     {CUDNN_ATTR_OPERATION_POINTWISE_XDESC, CUDNN_ATTR_OPERATION_POINTWISE_BDESC,
                      CUDNN_ATTR_OPERATION_POINTWISE_TDESC},
                     CUDNN_ATTR_OPERATION_POINTWISE_YDESC);
      const Descriptor* kind = d.child(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
      each.mode = kind->one<int>(CUDNN_ATTR_POINTWISE_MODE);
      each.axis = kind->one<int64_t>(CUDNN_ATTR_POINTWISE_AXIS);
      return each;
    }
  }
}

bool fits(const Operation& op) {
  const std::vector<int64_t>& out = op.out.shape;
  for (const Tensor& x : op.in) {
    for (size_t d = 0; d < 2; ++d) {
      const int64_t more = std::max(x.shape[d], out[d]), less = std::min(x.shape[d], out[d]);
      if (more % less != 0) return false;
    }
  }
  if (op.type == CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR) {
    const std::vector<int64_t>&a = op.in[0].shape, &b = op.in[1].shape;
    return a[2] == out[2] && b[3] == out[3] && a[3] == b[2];
  }
  if (op.type == CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR)
    return op.in[0].size() == op.out.size();
  return true;
}

// A dimension of 1, or of a divisor, serves neighbours.
double Run::read(const Tensor& x, const int64_t* i, const std::vector<int64_t>& of) const {
  int64_t at = 0;
  for (size_t d = 0; d < 4; ++d) at = at * x.shape[d] + i[d] * x.shape[d] / of[d];
  return values.at(x.id)[static_cast<size_t>(at)];
}

void Run::fetch(const Tensor& x) {
  if (values.count(x.id) != 0) return;
  std::vector<double>& result = values[x.id];
  result.resize(static_cast<size_t>(x.size()));
  x.each([&](int64_t at, const int64_t* i) {
    result[static_cast<size_t>(at)] = load(memory.at(x.id), dtype_of(x.type), x.place(i));
  });
}

void Run::keep(const Tensor& x, std::vector<double> result) {
  for (double& value : result) value = rounded(value, x.type);
  if (!x.hidden) {
    x.each([&](int64_t at, const int64_t* i) {
      store(memory.at(x.id), dtype_of(x.type), x.place(i), result[static_cast<size_t>(at)]);
    });
  }
  values[x.id] = std::move(result);
}

double Run::pointwise(const Operation& op, const int64_t* i) const {
  const auto in = [&](size_t k) { return read(op.in[k], i, op.out.shape); };
  switch (op.mode) {
    case CUDNN_POINTWISE_ADD:
      return in(0) + in(1);
    case CUDNN_POINTWISE_MUL:
      return in(0) * in(1);
    case CUDNN_POINTWISE_DIV:
      return in(0) / in(1);
    case CUDNN_POINTWISE_SUB:
      return in(0) - in(1);
    case CUDNN_POINTWISE_EXP:
      return std::exp(in(0));
    case CUDNN_POINTWISE_LOG:
      return std::log(in(0));
    case CUDNN_POINTWISE_CMP_GE:
      return in(0) >= in(1) ? 1.0 : 0.0;
    case CUDNN_POINTWISE_GEN_INDEX:
      return static_cast<double>(i[op.axis]);
    default:  // CUDNN_POINTWISE_BINARY_SELECT
      return in(2) != 0.0 ? in(0) : in(1);
  }
}

void Run::reduce(const Operation& op, std::vector<double>& result) const {
  const bool most = op.mode == CUDNN_REDUCE_TENSOR_MAX;
  if (most) std::fill(result.begin(), result.end(), -INFINITY);
  const Tensor& x = op.in[0];
  x.each([&](int64_t from, const int64_t* i) {
    int64_t at = 0;
    for (size_t d = 0; d < 4; ++d) at = at * op.out.shape[d] + i[d] * op.out.shape[d] / x.shape[d];
    double& to = result[static_cast<size_t>(at)];
    const double value = values.at(x.id)[static_cast<size_t>(from)];
    to = most ? std::max(to, value) : to + value;
  });
}

void Run::multiply(const Operation& op, std::vector<double>& result) const {
  const Tensor &a = op.in[0], &b = op.in[1];
  const auto of = [&](const Tensor& x) {
    return std::vector<int64_t>{op.out.shape[0], op.out.shape[1], x.shape[2], x.shape[3]};
  };
  const std::vector<int64_t> of_a = of(a), of_b = of(b);
  op.out.each([&](int64_t at, const int64_t* i) {
    for (int64_t q = 0; q < a.shape[3]; ++q) {
      const int64_t left[4] = {i[0], i[1], i[2], q}, right[4] = {i[0], i[1], q, i[3]};
      result[static_cast<size_t>(at)] += read(a, left, of_a) * read(b, right, of_b);
    }
  });
}

// The same memory, seen with other sizes and strides.
void Run::reshape(const Operation& op, std::vector<double>& result) const {
  const Tensor& x = op.in[0];
  std::map<int64_t, double> at_place;
  x.each([&](int64_t at, const int64_t* i) {
    at_place[x.place(i)] = values.at(x.id)[static_cast<size_t>(at)];
  });
  op.out.each([&](int64_t at, const int64_t* i) {
    result[static_cast<size_t>(at)] = at_place.at(op.out.place(i));
  });
}

void Run::carry_out(const Operation& op) {
  for (const Tensor& x : op.in) fetch(x);
  std::vector<double> result(static_cast<size_t>(op.out.size()), 0.0);
  switch (op.type) {
    case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR:
      reduce(op, result);
      break;
    case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR:
      multiply(op, result);
      break;
    case CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR:
      reshape(op, result);
      break;
    default:
      op.out.each([&](int64_t at, const int64_t* i) {
        result[static_cast<size_t>(at)] = pointwise(op, i);
      });
  }
  keep(op.out, std::move(result));
}

}  // namespace cusim
