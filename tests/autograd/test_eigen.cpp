// Tensors from matrices of Eigen and the other way round.
#if __has_include(<Eigen/Dense>)
#include "support/catch.h"
#include <Eigen/Dense>

#include <hero/autograd/autograd.h>
#include <hero/autograd/eigen.h>

namespace {

using namespace hero;
using Catch::Matchers::Equals;
using Catch::Matchers::StartsWith;
using Eigen::Dynamic;

// A map of a temporary would show memory that is gone.
template <class T>
concept Mapped = requires(T x) {
  eigen_map<Eigen::VectorXf>(static_cast<T>(x));
};
template <class T>
concept MappedWithStrides = requires(T x) {
  strided_eigen_map<const Eigen::VectorXf>(static_cast<T>(x));
};
static_assert(Mapped<Tensor&> && Mapped<const Tensor&> && !Mapped<Tensor&&>);
static_assert(MappedWithStrides<const Tensor&> && !MappedWithStrides<Tensor&&>);

template <class Matrix>
Matrix counted(int64_t rows, int64_t cols) {
  Matrix m(rows, cols);
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < cols; ++j) {
      m(i, j) = static_cast<typename Matrix::Scalar>(10 * i + j + 1);
    }
  }
  return m;
}

Tensor counted_tensor(int64_t rows, int64_t cols, DType dtype) {
  return (arange(rows).unsqueeze(1) * 10 + arange(cols) + 1).to(dtype);
}

TEST_CASE("matrices of every order, size and element become tensors, and back") {
  const auto check_type = []<class T>(T) {
    const auto check_matrix = []<class Matrix>(const Matrix& m) {
      const Tensor expected = counted_tensor(3, 4, kDTypeOf<T>);
      const Tensor copied = from_eigen(m);
      CHECK(copied.dtype() == kDTypeOf<T>);
      CHECK(copied.is_contiguous());
      CHECK(equal(copied, expected));
      Matrix own = m;
      const Tensor borrowed = borrow_eigen(own);
      CHECK(borrowed.data_ptr<T>() == own.data());
      CHECK(equal(borrowed, expected));
      own(2, 1) = T(7);
      CHECK(borrowed({2, 1}).item() == 7);
      borrowed.fill_(2);
      CHECK((own.array() == T(2)).all());
      CHECK((to_eigen<Matrix>(expected).array() == m.array()).all());
      CHECK((strided_eigen_map<const Matrix>(expected).array() == m.array()).all());
      // A tensor in the order of the type is shown without gaps.
      const Tensor turned = expected.t().contiguous().t();
      const Tensor& ordered = Matrix::IsRowMajor ? expected : turned;
      const auto map = eigen_map<const Matrix>(ordered);
      CHECK(map.data() == ordered.data_ptr<T>());
      CHECK((map.array() == m.array()).all());
    };
    check_matrix(counted<Eigen::Matrix<T, Dynamic, Dynamic>>(3, 4));
    check_matrix(counted<Eigen::Array<T, 3, 4, Eigen::RowMajor>>(3, 4));
    if constexpr (std::is_same_v<T, float>) {  // what differs by order and size does not by element
      check_matrix(counted<RowMajorMatrix<T>>(3, 4));
      check_matrix(counted<Eigen::Matrix<T, 3, 4>>(3, 4));
      check_matrix(counted<Eigen::Matrix<T, 3, Dynamic, Eigen::RowMajor>>(3, 4));
      check_matrix(counted<Eigen::Array<T, Dynamic, 4>>(3, 4));
    }
  };
  check_type(float{});
  check_type(double{});
  check_type(int32_t{});
  check_type(int64_t{});
  check_type(uint8_t{});
}

TEST_CASE("vectors of Eigen have one dimension") {
  const auto check_vector = []<class V>(V v) {
    v.setLinSpaced(3, 1.0F, 3.0F);
    const Tensor x = from_eigen(v);
    CHECK(x.shape() == Shape{3});
    CHECK(equal(x, tensor({1.0, 2.0, 3.0})));
    const Tensor over = borrow_eigen(v);
    CHECK(over.shape() == Shape{3});
    over.mul_(2.0);
    CHECK(v(2) == 6.0F);
    CHECK((eigen_map<const V>(x).array() * 2 == v.array()).all());
    CHECK((to_eigen<V>(x).array() * 2 == v.array()).all());
    const Tensor column = tensor({{1.0, 2.0}, {3.0, 4.0}, {5.0, 6.0}}).select(1, 1);
    CHECK(strided_eigen_map<V>(column)(2) == 6.0F);
    CHECK_THROWS_WITH(eigen_map<V>(column), StartsWith("eigen_map: the elements do not lie"));
  };
  check_vector(Eigen::VectorXf(3));
  check_vector(Eigen::RowVectorXf(3));
  check_vector(Eigen::Vector3f());
  check_vector(Eigen::ArrayXf(3));
  const Eigen::Matrix<bool, 2, 1> flags(true, false);
  CHECK(equal(from_eigen(flags), tensor({true, false})));
  CHECK(from_eigen(Eigen::VectorXd(0)).shape() == Shape{0});
}

TEST_CASE("blocks, maps, transposes and expressions of Eigen become tensors") {
  Eigen::MatrixXd m = counted<Eigen::MatrixXd>(4, 5);
  const Tensor whole = counted_tensor(4, 5, kFloat64);
  const Tensor part = whole.slice(0, 1, 3).slice(1, 2, 5);
  CHECK(equal(from_eigen(m.block(1, 2, 2, 3)), part));
  CHECK(equal(borrow_eigen(m.block(1, 2, 2, 3)), part));
  CHECK(equal(borrow_eigen(m.row(3)), whole[3]));
  CHECK(equal(borrow_eigen(m.col(4)), whole.select(1, 4)));
  CHECK(equal(borrow_eigen(m.diagonal()), whole.diagonal()));
  CHECK(equal(borrow_eigen(m.transpose()), whole.t()));
  Eigen::Ref<Eigen::MatrixXd> ref = m.topRows(2);
  CHECK(equal(borrow_eigen(ref), whole.slice(0, 0, 2)));
  Eigen::Map<Eigen::MatrixXd, 0, Eigen::Stride<Dynamic, Dynamic>> map(
      m.data(), 2, 5, Eigen::Stride<Dynamic, Dynamic>(4, 2));
  CHECK(equal(borrow_eigen(map), whole.slice(0, 0, kEnd, 2)));
  CHECK(equal(from_eigen(m * m.transpose()), matmul(whole, whole.t())));
  CHECK(equal(from_eigen(m.array() + 1), whole + 1));
  CHECK(equal(from_eigen(m.cast<float>()), whole.to(kFloat32)));
  CHECK(equal(from_eigen(m.rowwise().reverse()), whole.flip({1})));
  borrow_eigen(m.block(1, 2, 2, 3)).zero_();
  CHECK(m(1, 2) == 0);
  CHECK(m(2, 4) == 0);
  CHECK(m(1, 1) == 12);
  CHECK(m.sum() == (whole.sum() - part.sum()).item());

  const Tensor leaf = from_eigen(m, {.dtype = kFloat32, .requires_grad = true});
  CHECK((leaf.requires_grad() && leaf.dtype() == kFloat32));
  m(3, 3) = 300;
  CHECK_THROWS_WITH(from_eigen(m, {.dtype = kUInt8}), Equals("from_eigen: 300 does not fit uint8"));
  CHECK(from_eigen(m, {.dtype = kInt32}).dtype() == kInt32);
  CHECK_THROWS_WITH(borrow_eigen(m, {.dtype = kFloat32}),
                    StartsWith("borrow_eigen: the memory has elements of float64 on cpu, asked "
                               "for float32"));
  using Backwards = Eigen::Map<Eigen::VectorXd, 0, Eigen::InnerStride<>>;
  double values[] = {1, 2, 3};
  Backwards backwards(values + 2, 3, Eigen::InnerStride<>(-1));
  CHECK(equal(from_eigen(backwards), tensor({3.0, 2.0, 1.0}, {.dtype = kFloat64})));
  CHECK_THROWS_WITH(borrow_eigen(backwards), StartsWith("borrow_eigen: negative size or stride"));
  Eigen::MatrixXf nothing(0, 3);
  CHECK(borrow_eigen(nothing).shape() == Shape{0, 3});
  CHECK(to_eigen<Eigen::MatrixXf>(zeros({0, 3})).cols() == 3);
  const Tensor none = zeros({0, 3});
  CHECK(eigen_map<Eigen::MatrixXf>(none).rows() == 0);
}

TEST_CASE("maps show parts of tensors, and refuse what the type does not allow") {
  const Tensor x = counted_tensor(4, 6, kFloat32);
  const Tensor part = x.slice(1, 2, 5);  // rows of three that lie six apart
  auto map = eigen_map<RowMajorMatrix<float>>(part);
  CHECK(map.outerStride() == 6);
  CHECK(map(3, 2) == 35);
  map.row(1).setZero();
  CHECK(x({1, 3}).item() == 0);
  CHECK(x({1, 1}).item() == 12);
  CHECK(x({1, 5}).item() == 16);
  CHECK_THROWS_WITH(eigen_map<Eigen::MatrixXf>(part),
                    Equals("eigen_map: the columns do not lie without gaps, shape [4, 3] with "
                           "strides [6, 1]; rows need a row-major type, as RowMajorMatrix; take "
                           "contiguous() first, or strided_eigen_map()"));
  const Tensor thin = x.slice(1, 2, 3);  // a column: of one element in a row there are no gaps
  CHECK(eigen_map<const RowMajorMatrix<float>>(thin)(3, 0) == 33);
  CHECK(to_eigen<Eigen::MatrixXi>(x.t())(5, 3) == 36);
  const Tensor wide = x.slice(0, 0, 1).expand({5, 6});
  CHECK(strided_eigen_map<const Eigen::MatrixXf>(wide).col(1).sum() == 10.0F);
  CHECK_THROWS_WITH(strided_eigen_map<Eigen::MatrixXf>(wide),
                    StartsWith("strided_eigen_map: several elements of shape [5, 6]"));
  CHECK_THROWS_WITH(eigen_map<const RowMajorMatrix<double>>(x),
                    Equals("eigen_map: the tensor is float32, asked for float64; convert with "
                           "to()"));
  CHECK_THROWS_WITH((eigen_map<const Eigen::Matrix<float, 3, Dynamic, Eigen::RowMajor>>(x)),
                    Equals("eigen_map: a type with 3 rows for a tensor of shape [4, 6]"));
  using Small = Eigen::Matrix<float, Dynamic, Dynamic, Eigen::RowMajor, 4, 4>;
  CHECK_THROWS_WITH(
      eigen_map<const Small>(x),
      Equals("eigen_map: a type with at most 4 columns for a tensor of shape [4, 6]"));
  CHECK_THROWS_WITH(to_eigen<Eigen::VectorXf>(x),
                    Equals("to_eigen: a vector is asked for, and the tensor has shape [4, 6]; "
                           "reshape it to 1 dimension"));
  const Tensor vector = x[0];
  CHECK_THROWS_WITH(eigen_map<RowMajorMatrix<float>>(vector),
                    Equals("eigen_map: a matrix is asked for, and the tensor has shape [6]; "
                           "reshape it to 2 dimensions"));
  const Tensor meta = zeros({2, 2}, {.device = kMeta});
  CHECK_THROWS_WITH(eigen_map<RowMajorMatrix<float>>(meta),
                    StartsWith("eigen_map: the tensor lies on meta"));
  CHECK_THROWS_WITH(to_eigen<Eigen::MatrixXf>(Tensor()), StartsWith("to_eigen: x is undefined"));
}

TEST_CASE("a map that writes counts as a write, one that reads does not") {
  const Tensor w = tensor({{1.0, 2.0}, {3.0, 4.0}}, {.requires_grad = true});
  CHECK(eigen_map<const RowMajorMatrix<float>>(w)(1, 1) == 4);
  CHECK_THROWS_WITH(eigen_map<RowMajorMatrix<float>>(w),
                    Equals("eigen_map: a tensor of shape [2, 2] that requires grad cannot be "
                           "written to while recording; only read it, or use NoGrad or clone()"));
  const Tensor row = w[0], y = w * 2.0;
  CHECK_THROWS_AS(eigen_map<Eigen::VectorXf>(row), Error);
  CHECK_THROWS_AS(strided_eigen_map<RowMajorMatrix<float>>(y), Error);
  Tensor x = tensor({{1.0, 1.0}, {1.0, 1.0}});
  Tensor loss = (w * x).sum();
  CHECK(eigen_map<const RowMajorMatrix<float>>(x).sum() == 4);
  loss.backward();
  CHECK(equal(w.grad(), x));
  loss = (w * x).sum();
  eigen_map<RowMajorMatrix<float>>(x).setZero();
  CHECK_THROWS_WITH(loss.backward(), Catch::Matchers::ContainsSubstring("changed"));
  {
    const NoGrad no_grad;
    eigen_map<RowMajorMatrix<float>>(w) *= 10.0F;
  }
  CHECK(equal(w.detach(), tensor({{10.0, 20.0}, {30.0, 40.0}})));
}

TEST_CASE("Eigen factorises and solves in a tensor's memory") {
  const Tensor a = tensor({{4.0, 1.0}, {1.0, 3.0}}, {.dtype = kFloat64});
  const Tensor b = tensor({1.0, 2.0}, {.dtype = kFloat64});
  const Tensor x = solve(a, b);
  auto factor = eigen_map<RowMajorMatrix<double>>(a);
  const Eigen::LLT<Eigen::Ref<RowMajorMatrix<double>>> llt(factor);
  CHECK(a({0, 0}).item() == 2.0);  // the factor lies where the matrix was
  auto right = eigen_map<Eigen::VectorXd>(b);
  llt.solveInPlace(right);
  CHECK(allclose(b, x, 1e-14, 1e-14));
}

}  // namespace
#endif
