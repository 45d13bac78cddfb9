// The backend of docs/extending/adding_a_kernel.md, and what calls tell of themselves.
#include <support/catch.h>

#include <hero/core/device/backend.h>

namespace {

using namespace hero;
using namespace hero::core;

class CountingBackend final : public RunsAround<CountingBackend> {
 public:
  explicit CountingBackend(Backend& inner) : inner_(inner) {}

  template <class Call>
  ResultOf<Call> around(const Call& call) {
    ++calls;
    call.arrays([&](const auto&... each) { (count(each), ...); });
    return inner_.run(call);
  }
  // A family that is different: random numbers are not counted.
  void around(const call::Random& call) { inner_.run(call); }

  int calls = 0;
  int64_t bytes = 0;  ///< of all arrays of the calls

 private:
  void count(const Array& x) { bytes += x.defined() ? x.nbytes() : 0; }
  void count(const Array* x) { bytes += x != nullptr ? x->nbytes() : 0; }
  void count(std::span<const Array> xs) {
    for (const Array& x : xs) count(x);
  }
  void count(std::span<const Operand> operands) {
    for (const Operand& x : operands) count(x.array);
  }

  Backend& inner_;
};

TEST_CASE("the backend of adding_a_kernel.md counts calls and their bytes", "[core]") {
  CountingBackend counting(cpu_backend());
  const Array a = Array::full({1, 2, 3}, 2.0), b = Array::full({1, 3, 4}, 1.0);
  const Array out = Array::empty({1, 2, 4});
  counting.run(call::Matmul{a, b, out});
  counting.run(call::Fill{b, 0});
  CHECK(out.to_vector<float>() == std::vector<float>(8, 6.0F));
  CHECK(b.to_vector<float>() == std::vector<float>(12, 0.0F));
  CHECK(counting.calls == 2);
  CHECK(counting.bytes == 4 * (6 + 12 + 8 + 12));
  counting.run(call::Random{RandomFill{}, 0, b});
  CHECK(counting.calls == 2);
  // what a kernel returns comes back, and a span and a null pointer are arrays, too
  CHECK(counting.run(call::Nonzero{a}).shape() == Shape{6, 3});
  counting.bytes = 0;
  const Operand operands[] = {a, Scalar(1.0)};
  counting.run(call::Reduce{ReduceKind::sum, a, nullptr, Array::empty({1, 2, 1})});
  CHECK(counting.bytes == 4 * (6 + 2));
  call::Map{MapOp{0}, operands, kFloat32, a}.arrays(
      [&](const auto& inputs, const Array&) { CHECK(inputs.size() == 2); });
  call::LinearBack back;
  back.g = a;
  int visited = 0;
  back.arrays([&](const auto&... each) { visited = static_cast<int>(sizeof...(each)); });
  CHECK(visited == 7);
}

}  // namespace
