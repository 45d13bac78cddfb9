// Tensors from and for other libraries by DLPack; arrays are in tests/core.
#include "support/catch.h"

#include <hero/autograd/autograd.h>
#include <hero/autograd/dlpack.h>

namespace {

using namespace hero;
using Catch::Matchers::Equals;

TEST_CASE("tensors share memory with other libraries, without their history") {
  const Tensor w = tensor({{1.0, 2.0}, {3.0, 4.0}}, {.requires_grad = true});
  CHECK_THROWS_WITH(to_dlpack(w),
                    Equals("to_dlpack: a tensor of shape [2, 2] requires grad, and its history "
                           "cannot be given away; give detach() of it"));
  CHECK_THROWS_AS(to_dlpack_unversioned(w * 2.0), Error);
  CHECK_THROWS_AS(to_dlpack(Tensor()), Error);
  const Tensor back = from_dlpack(to_dlpack(w.detach().t()));
  CHECK(back.is_leaf());
  CHECK_FALSE(back.requires_grad());
  CHECK(back.data_ptr<float>() == w.data_ptr<float>());
  CHECK(equal(back, w.detach().t()));
  CHECK(equal(from_dlpack(to_dlpack_unversioned(back)), back));
  Tensor loss = (w * back.t()).sum();
  loss.backward();
  CHECK(equal(w.grad(), w.detach()));
}

}  // namespace
