// What products of bfloat16 do beside the sums: bias, activations, rounding, which order is taken.
#include <cmath>

#include "support/arrays.h"
#include "support/catch.h"
#include "support/half_products.h"

#include <hero/core/cpu/kernels.h>
#include <hero/core/device/backend.h>
#include <hero/core/functions/half_products.h>
#include <hero/core/functions/matmul.h>
#include <hero/core/kernels/elementwise.h>

namespace {

using namespace hero;
using namespace hero::core;
using namespace hero::test;
using cpu::Level;

Array activated(Activation activation, const Array& z) {
  const Array out = z.clone();
  cpu_backend().run(call::BiasActivation{activation, nullptr, out, out});
  return out;
}

// x w^T in float32, in the order that is taken now.
Array sums_of(const Array& x, const Array& w) {
  if (!native_half_products()) return matmul(x.to(kFloat32), w.t().to(kFloat32));
  const Array sums = Array::empty({x.size(0), w.size(0)});
  cpu::kernels().gemm_bf16(
      x.size(0), w.size(0), x.size(1), {x.data<BFloat16>(), x.strides()[0], x.strides()[1]},
      {w.data<BFloat16>(), w.strides()[1], w.strides()[0]}, sums.data<float>(), w.size(0), false);
  return sums;
}

TEST_CASE("portable products of bfloat16 are those of float32, rounded", "[core][half]") {
  const HalfProductsScope portable(HalfProducts::portable);
  REQUIRE(!native_half_products());
  const Array a = noise({3, 40, 700}, kBFloat16, 1), b = noise({3, 700, 50}, kBFloat16, 2);
  REQUIRE(same(matmul(a, b), matmul(a.to(kFloat32), b.to(kFloat32)).to(kBFloat16)));
}

TEST_CASE("products of bfloat16 are rounded once, batched and of views too", "[core][half]") {
  const Array a = noise({3, 40, 700}, kBFloat16, 1), b = noise({3, 50, 700}, kBFloat16, 2);
  const Array all = matmul(a, b.transpose(1, 2));
  for (int64_t p = 0; p < 3; ++p) {
    const Array x = a.select(0, p), w = b.select(0, p);
    const Array expected = sums_of(x, w).to(kBFloat16);
    REQUIRE(same(all.select(0, p).contiguous(), expected));
    REQUIRE(same(matmul(awkward(x), awkward(w.t())), expected));
  }
  // One matrix on the right, and many small products.
  const Array shared = matmul(a, b.select(0, 0).t());
  REQUIRE(same(shared.select(0, 2).contiguous(),
               sums_of(a.select(0, 2), b.select(0, 0)).to(kBFloat16)));
  const Array many = noise({90, 4, 6}, kBFloat16, 3), more = noise({90, 5, 6}, kBFloat16, 4);
  const Array products = matmul(many, more.transpose(1, 2));
  REQUIRE(same(products.select(0, 89).contiguous(),
               sums_of(many.select(0, 89), more.select(0, 89)).to(kBFloat16)));
}

TEST_CASE("a matrix of halves that is packed once has the products of one that is not",
          "[core][half]") {
  for (const HalfProducts order : {HalfProducts::native, HalfProducts::portable}) {
    const HalfProductsScope scope(order);
    for (const DType dtype : {kBFloat16, kFloat16}) {
      for (const Shape& s : {Shape{1, 1, 1}, Shape{3, 31, 7}, Shape{9, 100, 64},
                             Shape{45, 33, 1025}, Shape{33, 530, 4200}}) {
        const Array a = noise({s[0], s[2]}, dtype, 1), w = noise({s[1], s[2]}, dtype, 2);
        for (const Array& b : {w.t(), w.t().contiguous(), awkward(w.t())}) {
          const PackedMatrix packed = cpu_backend().run(call::PackMatrix{b});
          const Array out = Array::empty({s[0], s[1]}, dtype), sums = Array::empty({s[0], s[1]});
          cpu_backend().run(call::MatmulPacked{awkward(a), packed, out});
          cpu_backend().run(call::MatmulPacked{a, packed, sums});
          REQUIRE(same(out, matmul(a, b)));
          const Array expected =
              dtype == kBFloat16 ? sums_of(a, w) : matmul(a.to(kFloat32), b.to(kFloat32));
          REQUIRE(same(sums, expected));
        }
      }
    }
  }
  const PackedMatrix none = cpu_backend().run(call::PackMatrix{noise({0, 5}, kBFloat16, 1)});
  const Array out = noise({4, 5}, kBFloat16, 2);
  cpu_backend().run(call::MatmulPacked{noise({4, 0}, kBFloat16, 3), none, out});
  REQUIRE(same(out, Array::zeros({4, 5}, kBFloat16)));
}

TEST_CASE("what follows a product of bfloat16 is done on its float32 sums", "[core][half]") {
  for (const HalfProducts order : {HalfProducts::native, HalfProducts::portable}) {
    const HalfProductsScope scope(order);
    for (const Activation activation :
         {Activation::none, Activation::relu, Activation::gelu, Activation::gelu_tanh}) {
      for (const int64_t n : {1, 31, 64, 70}) {
        const Array x = noise({45, 300}, kBFloat16, 1), w = noise({n, 300}, kBFloat16, 2);
        const Array bias = noise({n}, kBFloat16, 3);
        const Array sums = sums_of(x, w);
        for (const bool biased : {false, true}) {
          Array z = sums.clone();
          if (biased) {
            const Array shift = bias.to(kFloat32);
            cpu_backend().run(call::BiasActivation{Activation::none, &shift, z, z});
          }
          const Array out = Array::empty({45, n}, kBFloat16), stored = out.empty_like();
          cpu_backend().run(call::Linear{activation, x, w, biased ? &bias : nullptr, out, &stored});
          CAPTURE(static_cast<int>(order), static_cast<int>(activation), n, biased);
          REQUIRE(same(stored, z.to(kBFloat16)));
          REQUIRE(same(out, activated(activation, z).to(kBFloat16)));
        }
      }
    }
  }
}

TEST_CASE("gradients through a product of bfloat16 are those of its parts", "[core][half]") {
  for (const Activation activation : {Activation::none, Activation::gelu, Activation::gelu_tanh}) {
    call::LinearBack back;
    back.g = noise({45, 70}, kBFloat16, 1);
    back.w = noise({70, 300}, kBFloat16, 2);
    back.x = noise({45, 300}, kBFloat16, 3);
    back.activation = activation;
    if (activation != Activation::none) back.u = noise({45, 300}, kBFloat16, 4);
    call::LinearBack plain = back;
    for (call::LinearBack* each : {&back, &plain}) {
      each->g_x = Array::empty({45, 300}, kBFloat16);
      each->g_w = Array::empty({70, 300}, kBFloat16);
      each->g_bias = Array::empty({70}, kBFloat16);
    }
    cpu_backend().run(back);
    plain_input_backward(plain);
    plain_weight_backward(plain);
    REQUIRE(same(back.g_x, plain.g_x));
    REQUIRE(same(back.g_w, plain.g_w));
    REQUIRE(same(back.g_w, sums_of(back.g.t(), back.x.t()).to(kBFloat16)));
    REQUIRE(same(back.g_bias, plain.g_bias));
  }
}

TEST_CASE("HERO_CPU names a level that the processor has", "[core]") {
  REQUIRE(cpu::level() <= cpu::machine_level());
  const cpu::Features all{.v4 = true, .bf16 = true, .tiles = true, .are_tiles_allowed = true};
  for (const Level each : cpu::kLevels) {
    REQUIRE(cpu::level_named(cpu::name_of(each), all) == each);
  }
#if defined(__aarch64__)
  REQUIRE(error_of([] { cpu::level_named("neon-bf16", {}); }) ==
          "cpu: HERO_CPU is 'neon-bf16', and this processor has neon; name one of them");
  REQUIRE(error_of([&] { cpu::level_named("v4", all); }) ==
          "cpu: HERO_CPU is 'v4', and this processor has neon, neon-bf16; name one of them");
#else
  REQUIRE(error_of([] { cpu::level_named("v4-bf16", {.v4 = true}); }) ==
          "cpu: HERO_CPU is 'v4-bf16', and this processor has v3, v4; name one of them");
  REQUIRE(error_of([] { cpu::level_named("amx", {}); }) ==
          "cpu: HERO_CPU is 'amx', and this processor has v3; name one of them");
#endif
}

#if !defined(__aarch64__)

TEST_CASE(
    "products of bfloat16 by AVX-512 are chosen on Intel's processors only if HERO_CPU says so",
    "[core]") {
  const cpu::Features amd{.v4 = true, .bf16 = true};
  REQUIRE(cpu::default_level(amd) == Level::v4_bf16);
  cpu::Features intel = amd;
  intel.is_intel = true;
  REQUIRE(cpu::default_level(intel) == Level::v4);
  REQUIRE(cpu::level_named("v4-bf16", intel) == Level::v4_bf16);
  intel.tiles = intel.are_tiles_allowed = true;
  REQUIRE(cpu::default_level(intel) == Level::amx);
  REQUIRE(cpu::default_level({}) == Level::v3);
}

TEST_CASE("a system that refuses tiles leaves the level below, and HERO_CPU=amx says so",
          "[core]") {
  const cpu::Features refused{.v4 = true, .bf16 = true, .tiles = true};
  REQUIRE(cpu::highest_level(refused) == Level::v4_bf16);
  REQUIRE(error_of([&] { cpu::level_named("amx", refused); }) ==
          "cpu: HERO_CPU is 'amx', and this processor has v3, v4, v4-bf16 (and amx, but the system "
          "lets this program have no tiles); name one of them");
  const cpu::Features& found = cpu::machine_features();
  REQUIRE((found.tiles || !found.are_tiles_allowed));
  REQUIRE((cpu::machine_level() == Level::amx) == (found.bf16 && found.are_tiles_allowed));
}
#endif

}  // namespace
