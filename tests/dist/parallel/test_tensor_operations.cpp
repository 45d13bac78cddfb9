// The differentiable operations between ranks that compute one function together.
#include <string>
#include <vector>

#include "dist/ranks.h"
#include "support/catch.h"

#include <hero/autograd/autograd.h>
#include <hero/autograd/ops/collectives.h>
#include <hero/dist/data_parallel/communicator_group.h>
#include <hero/dist/tensor_parallel.h>

using namespace hero;
using namespace hero::test;
using Catch::Matchers::ContainsSubstring;

namespace {

collectives::Group owners_among(const dist::Communicator& world) {
  return std::make_shared<dist::CommunicatorGroup>(world);
}

// Values in thirds, whose sums round.
Tensor thirds(const Shape& shape, uint64_t seed, DType dtype = kFloat32) {
  return Tensor((Tensor(noise(shape, kFloat64, seed)) / 3.0).to(dtype).array());
}

double factor(const collectives::Group& group) { return 1.0 + 0.5 * group->rank(); }

// What eight slices add up to, forward and backward, on a number of ranks: bits.
std::vector<uint64_t> sums_of_eight(int ranks, DType dtype) {
  std::vector<uint64_t> bits(2);
  dist::run_ranks(ranks, [&](dist::Communicator& world) {
    const collectives::Group group = owners_among(world);
    const int here = 8 / ranks;
    const Tensor x = thirds({5, 3}, 1, dtype).requires_grad_();
    std::vector<Tensor> slices = collectives::copy_in(x, group, here);
    for (int i = 0; i < here; ++i) {
      const auto seed = static_cast<uint64_t>(world.rank() * here + i + 7);
      slices[static_cast<size_t>(i)] = slices[static_cast<size_t>(i)] * thirds({5, 3}, seed, dtype);
    }
    const Tensor y = collectives::sum_out(slices, group);
    expect(y.dtype() == dtype, "the dtype of the sum");
    y.backward(thirds({5, 3}, 99, dtype));
    if (world.rank() == 0) bits = {hash(y.array()), hash(x.grad().array())};
  });
  return bits;
}

}  // namespace

TEST_CASE("operations between ranks have the values that their names say", "[tensor]") {
  for (const int ranks : {1, 2, 3, 4}) {
    CAPTURE(ranks);
    dist::run_ranks(ranks, [&](dist::Communicator& world) {
      const collectives::Group group = owners_among(world);
      const Tensor whole(noise({12, 24}, kFloat64));  // whose sums are exact
      Tensor sum = whole * 0.0;
      for (int r = 0; r < ranks; ++r) sum = sum + whole * static_cast<double>(r + 1);
      const Tensor summand = whole * static_cast<double>(world.rank() + 1);
      const auto same = [](const Tensor& a, const Tensor& b) {
        return a.shape() == b.shape() && a.to_vector<double>() == b.to_vector<double>();
      };
      expect(same(collectives::copy_in(whole, group), whole), "copy_in");
      expect(same(collectives::sum_out(summand, group), sum), "sum_out");
      for (const int dim : {0, 1}) {
        const Tensor part = collectives::split(whole, dim, group);
        const int64_t size = whole.size(dim) / ranks;
        expect(same(part, narrow(whole, dim, world.rank() * size, size)), "split");
        expect(same(collectives::gather(part, dim, group), whole), "gather");
        expect(same(collectives::gather_in(part, dim, group, 2)[1], whole), "gather_in");
        expect(same(collectives::scatter_out({summand}, dim - 2, group),
                    collectives::split(sum, dim, group)),
               "scatter_out");
      }
    });
  }
}

TEST_CASE("operations between ranks agree with finite differences", "[tensor]") {
  for (const int ranks : {1, 2, 3}) {
    CAPTURE(ranks);
    dist::run_ranks(ranks, [&](dist::Communicator& world) {
      const collectives::Group group = owners_among(world);
      const Tensor x = Tensor(noise({6, 6}, kFloat64, 3)).requires_grad_();
      // Functions of a whole x that have a whole result: what gradients of ranks belong to.
      const std::vector<TensorFunction> functions = {
          [&](const std::vector<Tensor>& in) {
            const std::vector<Tensor> c = collectives::copy_in(in[0], group, 2);
            return collectives::sum_out({square(c[0]) * factor(group), c[1] * c[1] * c[1]}, group);
          },
          [&](const std::vector<Tensor>& in) {
            const Tensor part = collectives::split(in[0], 1, group);
            return collectives::gather(square(part) * factor(group), 1, group);
          },
          [&](const std::vector<Tensor>& in) {
            const Tensor part = square(collectives::split(in[0], 0, group));
            const std::vector<Tensor> c = collectives::gather_in(part, 0, group, 2);
            const std::vector<Tensor> summands = {c[0] * factor(group), square(c[1])};
            return collectives::gather(sin(collectives::scatter_out(summands, 0, group)), 0, group);
          }};
      for (const TensorFunction& function : functions) {
        gradcheck(function, {x});
        gradgradcheck(function, {x});
      }
    });
  }
}

TEST_CASE("eight slices have the same sums on any number of ranks", "[tensor]") {
  for (const DType dtype : {kFloat32, kFloat64, kBFloat16}) {
    const auto expected = sums_of_eight(1, dtype);
    for (const int ranks : {2, 4, 8}) {
      CAPTURE(ranks, hero::name(dtype));
      CHECK(sums_of_eight(ranks, dtype) == expected);
    }
  }
}

TEST_CASE("a rank whose copies got no gradient takes part in the sum", "[tensor]") {
  dist::run_ranks(2, [](dist::Communicator& world) {
    const collectives::Group group = owners_among(world);
    const Tensor x = Tensor(noise({4})).requires_grad_();
    const std::vector<Tensor> copies = collectives::copy_in(x, group, 2);
    sum(world.rank() == 0 ? copies[0] : copies[1] * 2.0).backward();
    for (const float g : x.grad().to_vector<float>()) expect(g == 3.0f, "1 + 2, got ", g);
  });
}

TEST_CASE("misuse of operations between ranks has one clear line", "[tensor]") {
  const auto error_of = [](const std::function<void(const collectives::Group&)>& body) {
    return errors_of(2, [&](dist::Communicator& world) { body(owners_among(world)); })[1];
  };
  const Tensor x(noise({3, 4}));
  CHECK_THAT(error_of([&](const auto& g) { collectives::split(x, 0, g); }),
             ContainsSubstring("split: 2 ranks do not divide dim 0 of shape [3, 4]"));
  CHECK_THAT(error_of([&](const auto& g) { collectives::scatter_out({x}, 0, g); }),
             ContainsSubstring("scatter_out: 2 ranks do not divide dim 0 of shape [3, 4]"));
  CHECK_THAT(error_of([&](const auto& g) {
               collectives::sum_out({x, x.to(kFloat64)}, g);
             }),
             ContainsSubstring("sum_out: summands differ: float32 [3, 4] and float64 [3, 4]"));
  CHECK_THAT(error_of([&](const auto& g) { collectives::copy_in(x, g, 0); }),
             ContainsSubstring("copy_in: the number of copies must be positive: 0"));
  CHECK_THAT(error_of([&](const auto&) { collectives::copy_in(x, nullptr); }),
             ContainsSubstring("copy_in: there is no group of ranks"));
  CHECK_THAT(error_of([&](const auto& g) {
               if (g->rank() == 0) collectives::sum_out(x, g);
               if (g->rank() == 1) collectives::gather(x, 0, g);
             }),
             ContainsSubstring("sum_out") && ContainsSubstring("gather"));
  const auto errors = errors_of(2, [&](dist::Communicator& world) {
    const auto inner = std::make_shared<dist::CommunicatorGroup>(world);
    collectives::sum_out(x, inner->together_with(owners_among(world)));
  });
  CHECK_THAT(errors[1], ContainsSubstring("no single group of ranks"));
}
