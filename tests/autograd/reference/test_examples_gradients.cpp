// The examples of the API reference about gradients: each runs, and its comments are checked.
#include <support/catch.h>

#include <hero/autograd/autograd.h>

namespace {

using namespace hero;
using Values = std::vector<double>;

Values values(const Tensor& x) { return x.to_vector<double>(); }

TEST_CASE("example: backward") {
  //! [backward]
  const Tensor w = tensor({1.0, 2.0}, {.requires_grad = true});
  const Tensor loss = square(w).sum();
  loss.backward();  // w.grad() is 2 w: 2 4
  square(w).sum().backward();
  const Tensor twice = w.grad();  // gradients add up: 4 8
  w.set_grad({});                 // and this clears them
  //! [backward]
  CHECK(values(twice) == Values{4, 8});
  CHECK(!w.grad().defined());
}

TEST_CASE("example: grad") {
  //! [grad]
  const Tensor x = tensor(3.0, {.requires_grad = true});
  const Tensor y = x * x * x;
  const Tensor slope = grad(y, x, {.create_graph = true});  // 3 x^2 = 27
  const Tensor bend = grad(slope, x);                       // 6 x = 18; x.grad() stays undefined
  //! [grad]
  CHECK(slope.item() == 27);
  CHECK(bend.item() == 18);
  CHECK(!x.grad().defined());
}

TEST_CASE("example: NoGrad") {
  //! [NoGrad]
  const Tensor w = tensor({1.0}, {.requires_grad = true});
  {
    const NoGrad no_grad;  // nothing is recorded while it lives
    w.sub_(0.5);           // so a leaf may be changed in place
  }
  const Tensor y = w * 2.0;  // recorded again
  //! [NoGrad]
  CHECK(w.item() == 0.5);
  CHECK(y.requires_grad());
}

TEST_CASE("example: detach") {
  //! [detach]
  const Tensor x = tensor(2.0, {.requires_grad = true});
  const Tensor y = x * x.detach();  // the second factor counts as a constant
  y.backward();
  const double slope = x.grad().item();  // 2, not 4
  //! [detach]
  CHECK(slope == 2);
}

TEST_CASE("example: register_hook") {
  //! [register_hook]
  const Tensor x = tensor({1.0, 2.0}, {.requires_grad = true});
  const Tensor h = x * 3.0;
  HookHandle handle = h.register_hook([](const Tensor& g) { return g * 10.0; });
  h.sum().backward();  // x.grad(): 30 30
  handle.remove();
  //! [register_hook]
  CHECK(values(x.grad()) == Values{30, 30});
}

TEST_CASE("example: checkpoint") {
  //! [checkpoint]
  const Tensor x = randn({16, 64}, {.requires_grad = true});
  const Tensor w = randn({64, 64}, {.requires_grad = true});
  const auto block = [&](const Tensor& h) { return relu(matmul(relu(matmul(h, w)), w)); };
  const Tensor y = checkpoint(block, x);  // keeps x alone; backward runs the block once more
  y.sum().backward();
  //! [checkpoint]
  CHECK(equal(x.grad(), grad(block(x).sum(), x)));
}

TEST_CASE("example: Autocast") {
  //! [Autocast]
  const Tensor x = randn({4, 8});
  const Tensor w = randn({8, 8}, {.requires_grad = true});
  Tensor loss;
  {
    const Autocast autocast({.dtype = kBFloat16});
    const Tensor y = matmul(x, w);  // bfloat16
    loss = square(y).mean();        // float32
  }
  loss.backward();  // outside of the scope; the gradient has the dtype of its leaf
  //! [Autocast]
  CHECK(loss.dtype() == kFloat32);
  CHECK(w.grad().dtype() == kFloat32);
}

TEST_CASE("example: gradcheck") {
  //! [gradcheck]
  const Tensor x = randn({3}, {.dtype = kFloat64, .requires_grad = true});
  const bool right = gradcheck([](const std::vector<Tensor>& in) { return tanh(in[0]); }, {x});
  //! [gradcheck]
  CHECK(right);
}

}  // namespace
