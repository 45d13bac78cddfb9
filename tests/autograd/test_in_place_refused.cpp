// In-place operations that would lose or mix up values are errors that leave the values alone.
#include <functional>

#include "support/catch.h"

#include <hero/autograd/autograd.h>
#include <hero/core/functions/overlap.h>

using namespace hero;
using Catch::Matchers::ContainsSubstring;
using Values = std::vector<double>;

namespace {

struct Write {
  const char* name;
  std::function<void(const Tensor& self, const Tensor& other)> run;
};

const std::vector<Write>& writes() {
  using T = const Tensor&;
  static const std::vector<Write> list = {
      {"add_", [](T x, T y) { x.add_(y); }},
      {"add_ with alpha", [](T x, T y) { x.add_(y, 2); }},
      {"add_ a number", [](T x, T) { x.add_(1.5); }},
      {"sub_", [](T x, T y) { x.sub_(y); }},
      {"sub_ a number", [](T x, T) { x.sub_(1.5); }},
      {"mul_", [](T x, T y) { x.mul_(y); }},
      {"mul_ by a number", [](T x, T) { x.mul_(1.5); }},
      {"div_", [](T x, T y) { x.div_(y); }},
      {"div_ by a number", [](T x, T) { x.div_(2); }},
      {"clamp_", [](T x, T) { x.clamp_(0.5, 0.75); }},
  };
  return list;
}

using Views = std::vector<std::pair<std::string, std::function<Tensor(const Tensor&)>>>;

// Every kind of view of [4, 6].
const Views& views() {
  using T = const Tensor&;
  static const Views list = {
      {"view", [](T x) { return x.view({24}); }},
      {"reshape",
       [](T x) {
         return reshape(x, {6, 4});
       }},
      {"transpose", [](T x) { return x.transpose(0, 1); }},
      {"t", [](T x) { return x.t(); }},
      {"permute",
       [](T x) {
         return x.permute({1, 0});
       }},
      {"expand",
       [](T x) {
         return x.expand({4, 6});
       }},
      {"squeeze", [](T x) { return squeeze(x); }},
      {"unsqueeze", [](T x) { return x.unsqueeze(1); }},
      {"flatten", [](T x) { return x.flatten(); }},
      {"slice", [](T x) { return x.slice(0, 1, 3); }},
      {"narrow", [](T x) { return narrow(x, 1, -2, 2); }},
      {"select", [](T x) { return x[2]; }},
      {"diagonal", [](T x) { return diagonal(x); }},
      {"unfold", [](T x) { return unfold(x, 0, 2, 2); }},
      {"as_strided", [](T x) { return as_strided(x, {3}, {2}); }},
      {"split", [](T x) { return split(x, 2)[1]; }},
      {"chunk", [](T x) { return chunk(x, 3, 1)[0]; }},
      {"unbind", [](T x) { return unbind(x)[3]; }},
      {"a view of a view", [](T x) { return x.t()[1].unsqueeze(0); }},
  };
  return list;
}

}  // namespace

TEST_CASE("what an integer or bool tensor cannot hold is refused in place, recorded or not") {
  for (const DType dtype : {kBool, kUInt8, kInt32, kInt64}) {
    const Tensor x = ones({2}, {.dtype = dtype});
    const Tensor plain = full({2}, 0.5), wanted = full({2}, 0.5, {.requires_grad = true});
    for (const Write& write : writes()) {
      INFO(write.name << " of " << name(dtype));
      CHECK_THROWS_WITH(write.run(x, plain), ContainsSubstring("cannot be stored in"));
      CHECK_THROWS_WITH(write.run(x, wanted), ContainsSubstring("cannot be stored in"));
      CHECK(x.to_vector<double>() == Values{1, 1});
      CHECK_FALSE(x.requires_grad());
    }
  }
  const Tensor flags = tensor({true, false});
  CHECK_THROWS_WITH(flags.add_(2), ContainsSubstring("result of int64 cannot be stored in bool"));
  CHECK_THROWS_WITH(flags.add_(tensor({1, 2})), ContainsSubstring("cannot be stored in bool"));
  flags.add_(true);
  CHECK(flags.to_vector<double>() == Values{1, 1});
  // copy_ converts.
  CHECK(tensor({1, 2}).copy_(tensor({1.5, -2.5})).to_vector<double>() == Values{1, -2});
}

TEST_CASE("a tensor whose elements lie in one place is not written to") {
  const Tensor other = tensor({1.0, 10.0, 100.0, 1000.0});
  for (const bool recorded : {false, true}) {
    const Tensor one = ones({1}),
                 base = recorded ? one * tensor(1.0, {.requires_grad = true}) : one;
    const Tensor wide = base.expand({4});
    for (const Write& write : writes()) {
      INFO(write.name);
      CHECK_THROWS_WITH(write.run(wide, other), ContainsSubstring("lie in one place"));
    }
    CHECK_THROWS_WITH(wide.copy_(other), ContainsSubstring("copy_: several elements"));
    CHECK(base.item() == 1.0);
  }
  CHECK_THROWS_WITH(unfold(ones({6}), 0, 3, 1).add_(1), ContainsSubstring("lie in one place"));
  CHECK_THROWS_WITH(as_strided(ones({5}), {2, 3}, {1, 1}).add_(1), ContainsSubstring("one place"));
  // A constant is the same however often it is written.
  CHECK(ones({1}).expand({4}).fill_(3).to_vector<double>() == Values(4, 3.0));
  CHECK(ones({1}).expand({4}).zero_().to_vector<double>() == Values(4, 0.0));
  // Strides alone do not make an overlap.
  CHECK(ones({1}).expand({1}).add_(1).item() == 2.0);
  CHECK(zeros({0}).expand({3, 0}).add_(1).numel() == 0);
  CHECK(ones({4, 4}).t().slice(0, 0, 4, 2).add_(1).to_vector<double>() == Values(8, 2.0));
  CHECK(as_strided(ones({12}), {3, 2}, {2, 3}).add_(1).to_vector<double>() == Values(6, 2.0));
}

TEST_CASE("overlaps are found by looking at every element") {
  // All small shapes and strides, against a set of places.
  for (int64_t a = 1; a <= 4; ++a) {
    for (int64_t b = 1; b <= 4; ++b) {
      for (int64_t sa = 0; sa <= 6; ++sa) {
        for (int64_t sb = 0; sb <= 6; ++sb) {
          std::vector<int64_t> places;
          for (int64_t i = 0; i < a; ++i) {
            for (int64_t j = 0; j < b; ++j) places.push_back(i * sa + j * sb);
          }
          std::sort(places.begin(), places.end());
          const bool twice = std::adjacent_find(places.begin(), places.end()) != places.end();
          INFO(a << "x" << b << " by " << sa << ", " << sb);
          CHECK(core::overlaps_itself(core::Array::zeros({64}).as_strided({a, b}, {sa, sb})) ==
                twice);
        }
      }
    }
  }
}

TEST_CASE("a view of a leaf that requires grad is not changed in place while recording") {
  for (const auto& [label, view] : views()) {
    INFO(label);
    const Tensor leaf = ones({4, 6}, {.requires_grad = true});
    const Tensor part = view(leaf);
    for (const Write& write : writes()) {
      INFO(write.name);
      CHECK_THROWS_WITH(write.run(part, tensor(2.0)), ContainsSubstring("of a leaf that requires"));
    }
    CHECK_THROWS_WITH(part.fill_(2), ContainsSubstring("of a leaf that requires"));
    CHECK_THROWS_WITH(part.copy_(part * 2.0), ContainsSubstring("of a leaf that requires"));
    CHECK(leaf.to_vector<double>() == Values(24, 1.0));
    // What was computed from the leaf may be changed, and so may views of that.
    const Tensor made = view(leaf * 1.0);
    made.mul_(2.0);
    CHECK(made.to_vector<double>()[0] == 2.0);
    // Without recording the leaf may be, too.
    const NoGrad no_grad;
    view(leaf).mul_(2.0);
    CHECK(amax(leaf).item() == 2.0);
  }
}

TEST_CASE("a stale view is not written to, nor written from, while recording") {
  // It says that it requires no grad, from before the write that was recorded, and has no base: it
  // was made without recording.
  using T = const Tensor&;
  const std::vector<std::pair<std::string, std::function<void(T)>>> writes = {
      {"mul_", [](T x) { x.mul_(3.0); }},
      {"add_ alpha", [](T x) { x.add_(tensor(1.0), 2.0); }},
      {"add_", [](T x) { x.add_(tensor(1.0)); }},
      {"clamp_", [](T x) { x.clamp_(0.0, 0.5); }},
      {"copy_", [](T x) { x.copy_(tensor(1.0)); }},
      {"fill_", [](T x) { x.fill_(1.0); }},
      {"exp_", [](T x) { x.exp_(); }},
      {"normal_", [](T x) { x.normal_(); }},
      {"add_ from", [](T x) { zeros({2}).add_(x); }},
      {"add_ alpha from", [](T x) { zeros({2}).add_(x, 2.0); }},
      {"copy_ from", [](T x) { zeros({2}).copy_(x); }},
      {"lerp_ from", [](T x) { zeros({2}).lerp_(x, 0.5); }},
      {"index_add_ from",
       [](T x) {
         zeros({2}).index_add_(0, tensor({0, 1}), x);
       }},
  };
  for (const auto& [label, write] : writes) {
    INFO(label);
    const Tensor w = ones({4}, {.requires_grad = true}), base = zeros({4});
    const Tensor view = [&] {
      const NoGrad no_grad;
      return base.slice(0, 0, 2);
    }();
    base.copy_(w);
    CHECK_THROWS_WITH(write(view), ContainsSubstring("take the view again"));
    CHECK(base.to_vector<double>() == Values{1, 1, 1, 1});
    base.slice(0, 0, 2).mul_(3.0);
    base.detach().mul_(2.0);  // no history, on purpose
    const NoGrad no_grad;     // what is written without recording changes no history
    CHECK_NOTHROW(view.mul_(2.0));
  }
}
