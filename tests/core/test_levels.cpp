// Kernels of all levels that this processor has, called side by side in one program: the same bits.
// With HERO_BITS_FILE also what they are, for a comparison with those of another processor
// (tests/arm/check_bits).
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "support/arrays.h"
#include "support/catch.h"
#include "support/functors.h"
#include "support/half_products.h"

#include <hero/core/cpu/kernels.h>
#include <hero/core/functions/codec.h>
#include <hero/core/functions/exact_sum.h>
#include <hero/core/functions/half_products.h>
#include <hero/core/functions/map.h>
#include <hero/core/io/sha256.h>
#include <hero/core/kernels/optimizer_steps.h>
#include <hero/core/kernels/philox.h>

namespace {

using namespace hero;
using namespace hero::core;
using cpu::Level;
using hero::test::awkward;
using hero::test::noise;

using Results = std::vector<Array>;

// Arithmetic does not promise which NaN it gives.
Array without_nan_kinds(const Array& x) {
  const Array dense = x.clone();
  const auto make_one = [&]<class T>(T* values) {
    for (int64_t i = 0; i < dense.numel(); ++i) {
      if (std::isnan(values[i])) values[i] = std::numeric_limits<T>::quiet_NaN();
    }
  };
  if (x.dtype() == kFloat32) make_one(dense.data<float>());
  if (x.dtype() == kFloat64) make_one(dense.data<double>());
  return dense;
}

// A line for each result: what computed it, how often that did before, and a hash.
void write_bits(const std::string& name, const Results& results) {
  const char* const file = std::getenv("HERO_BITS_FILE");
  if (file == nullptr) return;
  static std::map<std::string, int> calls;
  std::ofstream lines(file, std::ios::app);
  for (const Array& result : results) {
    const Array dense = without_nan_kinds(result);
    const std::string hash = sha256({dense.bytes(), static_cast<size_t>(dense.nbytes())});
    lines << name << ' ' << calls[name]++ << ' ' << hash << '\n';
  }
  REQUIRE(lines.flush());
}

// Whether this machine has the level, and other kernels for it than for the lowest.
bool is_another(Level level) {
  return level <= cpu::machine_level() && &cpu::kernels_of(level) != &cpu::kernels_of(Level::v3);
}

// `call` gives results computed by the backend that it is given.
void compare(const std::string& name, const std::function<Results(Backend&)>& call) {
  const Results expected = call(cpu::kernels_of(Level::v3).backend);
  write_bits(name, expected);
  for (const Level level : cpu::kLevels) {
    if (!is_another(level)) continue;
    const Results results = call(cpu::kernels_of(level).backend);
    REQUIRE(results.size() == expected.size());
    for (size_t i = 0; i < results.size(); ++i) {
      CAPTURE(name, i, cpu::name_of(level));
      REQUIRE(hero::test::same(without_nan_kinds(results[i]), without_nan_kinds(expected[i])));
    }
  }
}

template <class... Fs, class Body>
void update_functors(TypeList<Fs...>, const Body& body) {
  (body(TypeTag<Fs>{}), ...);
}

Array room(const Shape& shape, DType dtype) { return Array::zeros(shape, dtype); }

TEST_CASE("levels: elementwise functions have the same bits", "[core]") {
  for (const auto& [dtype, scale] : {std::pair{kFloat32, 1.0},
                                     {kFloat32, 40.0},
                                     {kFloat64, 1.0},
                                     {kFloat64, 40.0},
                                     {kBFloat16, 1.0}}) {
    const DType compute = dtype == kBFloat16 ? kFloat32 : dtype;
    std::vector<Array> inputs;
    for (uint64_t seed : {1, 2, 3, 4}) {
      inputs.push_back(map<kernels::Mul>(noise({37, 61}, dtype, seed), scale));
    }
    inputs[1] = awkward(inputs[1]);
    for (const hero::test::Functor& f : hero::test::kFunctors) {
      if (!f.computes_in(compute)) continue;
      const std::vector<Operand> operands(inputs.begin(), inputs.begin() + f.arity);
      compare("functor " + std::to_string(f.op.index), [&](Backend& backend) {
        const Array out = room({37, 61}, f.result(compute));
        backend.run(call::Map{f.op, operands, compute, out});
        return Results{out};
      });
    }
  }
}

TEST_CASE("levels: reductions, sums and softmaxes have the same bits", "[core]") {
  for (const DType dtype : {kFloat32, kFloat64}) {
    const Array x = noise({43, 299}, dtype);
    for (const Shape& shape : {Shape{43, 1}, Shape{1, 299}, Shape{1, 1}}) {
      const Array center = noise(shape, dtype, 2);
      for (int kind = 0; kind <= static_cast<int>(ReduceKind::sum_exp); ++kind) {
        const auto op = static_cast<ReduceKind>(kind);
        const bool centered = op == ReduceKind::sum_deviation || op == ReduceKind::sum_exp;
        const bool tells = op == ReduceKind::any || op == ReduceKind::all;
        compare("reduce " + std::to_string(kind), [&](Backend& backend) {
          const Array out = room(shape, tells ? kBool : dtype);
          backend.run(call::Reduce{op, x, centered ? &center : nullptr, out});
          return Results{out};
        });
      }
    }
    for (const auto kind : {SoftmaxKind::softmax, SoftmaxKind::log_softmax}) {
      for (const int dim : {0, 1}) {
        compare("softmax", [&](Backend& backend) {
          const Array y = room(x.shape(), dtype), back = room(x.shape(), dtype);
          backend.run(call::Softmax{kind, x, dim, y});
          backend.run(call::SoftmaxBack{kind, noise(x.shape(), dtype, 3), y, dim, back});
          return Results{y, back};
        });
      }
    }
    compare("scan", [&](Backend& backend) {
      const Array out = room(x.shape(), dtype);
      backend.run(call::Scan{ScanOp::sum, Direction::forward, x, 1, out});
      return Results{out};
    });
    compare("log_likelihood", [&](Backend& backend) {
      const Array classes = hero::test::make(
          {43}, [](int64_t i) { return static_cast<double>(i); }, kInt64);
      const Array out = room({43}, dtype), log_sum = room({43, 2}, dtype),
                  back = room({43, 299}, dtype);
      backend.run(call::LogLikelihood{x, classes, out, log_sum});
      backend.run(call::LogLikelihoodBack{noise({43}, dtype, 4), x, classes, log_sum, back});
      return Results{out, log_sum, back};
    });
  }
}

TEST_CASE("levels: products have the same bits", "[core][gemm]") {
  for (const DType dtype : {kFloat32, kFloat64}) {
    struct Sizes {
      int64_t batch, m, n, k;
    };
    for (const auto& s : {Sizes{1, 1, 90, 300}, Sizes{1, 64, 130, 784}, Sizes{3, 37, 29, 61},
                          Sizes{1, 200, 10, 512}, Sizes{40, 3, 2, 5}}) {
      const Array a = noise({s.batch, s.m, s.k}, dtype, 1),
                  b = noise({s.batch, s.k, s.n}, dtype, 2);
      compare("matmul", [&](Backend& backend) {
        const Array c = room({s.batch, s.m, s.n}, dtype), d = room({s.batch, s.n, s.m}, dtype);
        backend.run(call::Matmul{a, b, c});
        backend.run(call::Matmul{b.transpose(1, 2), a.transpose(1, 2), d});
        return Results{c, d};
      });
    }
    const Array x = noise({45, 70}, dtype, 1), w = noise({300, 70}, dtype, 2);
    const Array bias = noise({300}, dtype, 3);
    for (const auto activation :
         {Activation::none, Activation::relu, Activation::gelu, Activation::gelu_tanh}) {
      compare("linear", [&](Backend& backend) {
        const Array out = room({45, 300}, dtype), z = room({45, 300}, dtype);
        backend.run(call::Linear{activation, x, w, &bias, out, &z});
        call::LinearBack back{.g = out,
                              .x = x,
                              .w = w,
                              .g_x = room({45, 70}, dtype),
                              .g_w = room({300, 70}, dtype),
                              .g_bias = room({300}, dtype),
                              .activation = Activation::none,
                              .u = {}};
        backend.run(back);
        return Results{out, z, back.g_x, back.g_w, back.g_bias};
      });
    }
  }
}

TEST_CASE("levels: portable products of halves have the same bits", "[core][gemm]") {
  const test::HalfProductsScope scope(HalfProducts::portable);
  for (const DType dtype : {kBFloat16, kFloat16}) {
    const Array a = noise({3, 37, 300}, dtype, 1), b = noise({3, 300, 29}, dtype, 2);
    compare("matmul of halves", [&](Backend& backend) {
      const Array c = room({3, 37, 29}, dtype);
      backend.run(call::Matmul{a, b, c});
      return Results{c};
    });
  }
}

TEST_CASE("levels: factors, eigenvalues and singular values have the same bits", "[core]") {
  for (const DType dtype : {kFloat32, kFloat64}) {
    constexpr int64_t n = 75;
    const Array a = noise({40, n}, dtype), square = noise({n, n}, dtype, 2);
    const Array definite = map<kernels::Add>(noise({n, n}, dtype), 3.0);
    cpu::kernels_of(Level::v3).backend.run(call::Fill{definite.diagonal(), 1000});
    compare("solvers", [&](Backend& backend) {
      Results all;
      const auto more = [&](const Shape& shape) { return all.emplace_back(room(shape, dtype)); };
      const Array u = more({40, 40}), s = more({40}), vh = more({40, n}), lu = more({n, n}),
                  x = more({n, n}), l = more({n, n}), q = more({n, 40}), r = more({40, 40}),
                  values = more({n}), vectors = more({n, n}), least = more({40, 3}),
                  inverse = more({n, n});
      const Array pivots = all.emplace_back(room({n}, kInt64));
      CHECK(!backend.run(call::FactorSVD{a, u, s, vh}));
      backend.run(call::Copy{square, lu});
      CHECK(!backend.run(call::FactorLU{lu, pivots}));
      backend.run(call::Copy{definite, x});
      backend.run(call::SolveTriangular{true, false, lu, x});
      backend.run(call::Copy{definite, inverse});
      backend.run(call::SolveLU{lu, pivots, false, inverse});
      CHECK(!backend.run(call::FactorCholesky{definite, l}));
      backend.run(call::FactorQR{a.t(), q, r});
      CHECK(!backend.run(call::LeastSquares{a.t(), square.slice(1, 0, 3), least}));
      CHECK(!backend.run(call::FactorEigh{square, values, vectors}));
      return all;
    });
  }
}

TEST_CASE("levels: exact sums have the same words", "[core]") {
  std::vector<Array> xs;
  for (const DType dtype : {kFloat32, kFloat64, kFloat16, kBFloat16}) {
    xs.push_back(noise({70001}, kFloat32).to(dtype));  // of more than one thread
    xs.push_back(awkward(noise({3, 171}, kFloat32, 2).to(dtype)));
  }
  for (const ReduceKind op : {ReduceKind::sum_square, ReduceKind::sum_abs}) {
    ExactSum sum;
    op == ReduceKind::sum_abs ? sum.add_magnitudes(xs) : sum.add_squares(xs);
    const auto found = sum.words();
    const std::vector<int64_t> expected(found.begin(), found.end());
    for (const Level level : cpu::kLevels) {
      if (level > Level::v3 && !is_another(level)) continue;
      CAPTURE(cpu::name_of(level));
      const Array words = Array::zeros({exact::kWords}, kInt64);
      cpu::kernels_of(level).backend.run(call::ExactSum{op, xs, words});
      CHECK(words.to_vector<int64_t>() == expected);
    }
  }
}

TEST_CASE("levels: random words are those of the cipher", "[core]") {
  constexpr uint64_t kKey = 0x0123456789ABCDEFu, kHigh = 0xFEDCBA9876543210u;
  // counters that carry into their upper half, and the last ones
  for (const uint64_t first : {uint64_t{0}, uint64_t{0xFFFFFFFDu}, kHigh, ~uint64_t{4}}) {
    for (const uint64_t stream : {uint64_t{0}, uint64_t{3} << 32, kHigh}) {
      for (const int blocks : {1, 7, 8, 19, 64}) {
        std::vector<uint32_t> expected;
        for (int i = 0; i < blocks; ++i) {
          const auto block = philox::block(kKey, stream, first + static_cast<uint64_t>(i));
          expected.insert(expected.end(), block.word, block.word + 4);
        }
        for (const Level level : cpu::kLevels) {
          if (level > cpu::machine_level()) continue;
          CAPTURE(cpu::name_of(level), first, stream, blocks);
          std::vector<uint32_t> words(4 * 64);
          cpu::kernels_of(level).philox_words({kKey, stream}, first, blocks, words.data());
          words.resize(expected.size());
          CHECK(words == expected);
        }
      }
    }
  }
}

TEST_CASE("levels: norms, attention and recurrent cells have the same bits", "[core]") {
  for (const DType dtype : {kFloat32, kFloat64}) {
    const Array x = noise({33, 259}, dtype), g = noise({33, 259}, dtype, 2);
    const Array weight = noise({259}, dtype, 3), bias = noise({259}, dtype, 4);
    compare("normalize_rows", [&](Backend& backend) {
      const RowNorm norm{.weight = &weight, .bias = &bias, .eps = 1e-5};
      const Array out = room({33, 259}, dtype), mean = room({33}, dtype), scale = room({33}, dtype);
      backend.run(call::NormalizeRows{norm, x, out, mean, scale});
      const Array g_x = room({33, 259}, dtype), g_w = room({259}, dtype), g_b = room({259}, dtype);
      backend.run(call::NormalizeRowsBack{norm, g, x, mean, scale, g_x, &g_w, &g_b});
      return Results{out, mean, scale, g_x, g_w, g_b};
    });
    const Shape heads{2, 3, 70, 24};
    const Array q = noise(heads, dtype, 1), k = noise(heads, dtype, 2), v = noise(heads, dtype, 3);
    compare("attention", [&](Backend& backend) {
      const AttentionScores scores{.scale = 0.2, .is_causal = true};
      const Array out = room(heads, dtype), log_sum = room({2, 3, 70}, dtype);
      backend.run(call::Attention{scores, q, k, v, out, log_sum});
      const Array g_q = room(heads, dtype), g_k = room(heads, dtype), g_v = room(heads, dtype);
      backend.run(call::AttentionBack{scores, noise(heads, dtype, 4), q, k, v, out, log_sum, g_q,
                                      g_k, g_v});
      return Results{out, log_sum, g_q, g_k, g_v};
    });
    compare("recurrent_cell", [&](Backend& backend) {
      call::CellStep step{.kind = CellKind::lstm};
      step.of_x = noise({5, 4 * 33}, dtype, 1);
      step.of_h = noise({5, 4 * 33}, dtype, 2);
      step.h_before = noise({5, 33}, dtype, 3);
      step.c_before = noise({5, 33}, dtype, 4);
      step.h = room({5, 33}, dtype);
      step.c = room({5, 33}, dtype);
      backend.run(step);
      return Results{step.of_x, step.h, step.c};
    });
  }
}

TEST_CASE("levels: random numbers, codecs and steps of optimizers have the same bits", "[core]") {
  for (const DType dtype : {kFloat32, kFloat64}) {
    for (int kind = 0; kind <= static_cast<int>(RandomFill::Kind::exponential); ++kind) {
      compare("random " + std::to_string(kind), [&](Backend& backend) {
        const Array out = room({1003}, dtype);
        backend.run(call::Random{
            {.kind = static_cast<RandomFill::Kind>(kind), .seed = 7, .a = 0.5, .high = 9}, 3, out});
        return Results{out};
      });
    }
    update_functors(kernels::UpdateList{}, [&]<class F>(TypeTag<F>) {
      // any numbers do
      std::vector<double> coefficients(sizeof(typename F::template Step<double>) / sizeof(double));
      for (size_t i = 0; i < coefficients.size(); ++i) {
        coefficients[i] = 0.9 - 0.01 * static_cast<double>(i);
      }
      compare(F::name, [&](Backend& backend) {
        Results values;
        for (uint64_t seed = 0; seed < 5; ++seed) values.push_back(noise({1003}, dtype, seed));
        const double norms[] = {3.0, 2.0};
        const UpdateItem item{.n = 1003,
                              .param = values[0].bytes(),
                              .grad = values[1].bytes(),
                              .states = {values[2].bytes(), values[3].bytes(), values[4].bytes()},
                              .norms = norms};
        backend.run(
            call::Update{{kernels::UpdateList::index_of<F>()}, dtype, {&item, 1}, coefficients});
        return values;
      });
    });
  }
  const Array x = noise({1003});
  for (int kind = 0; kind <= static_cast<int>(Codec::fp8_e5m2); ++kind) {
    const auto codec = static_cast<Codec>(kind);
    compare(name(codec), [&](Backend& backend) {
      const Array bytes = room({1, encoded_bytes(codec, 1024)}, kUInt8), error = noise({1003}),
                  out = room({1003}, kFloat32);
      backend.run(call::Encode{codec, x, 1024, bytes, &error});
      backend.run(call::Decode{codec, bytes, 1024, DecodeMode::assign, out});
      return Results{bytes, error, out};
    });
  }
}

}  // namespace
