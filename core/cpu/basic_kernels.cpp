// The backend of a program that is linked with the basic kernels alone.
#include <cstdlib>
#include <string>
#include <type_traits>
#include <typeinfo>

#include <cxxabi.h>

#include <hero/core/cpu/cpu_backend.h>
#include <hero/core/cpu/kernels.h>
#include <hero/core/error.h>

namespace hero::core::cpu {

namespace {

// "Softmax" of call::Softmax.
template <class Call>
std::string name_of_call() {
  int status = 0;
  char* const text = abi::__cxa_demangle(typeid(Call).name(), nullptr, nullptr, &status);
  const std::string full = status == 0 ? text : typeid(Call).name();
  std::free(text);
  return full.substr(full.rfind(':') + 1);
}

// Not defined: tells which class has the run() of a call.
template <class Call, class Class>
Class class_with(ResultOf<Call> (Class::*run)(const Call&));
template <class Call>
concept IsBasic = std::is_same_v<decltype(class_with<Call>(&BasicKernels::run)), BasicKernels>;

// run() for each of the last n calls that BasicKernels does not define, whichever these are.
template <int n>
class LeftOut : public LeftOut<n - 1> {
 public:
  using LeftOut<n - 1>::run;
  ResultOf<LastCall<n>> run(const LastCall<n>&) override {
    BasicKernels::fail_without(name_of_call<LastCall<n>>());
  }
};
template <>
class LeftOut<0> : public BasicKernels {};
template <int n>
requires(IsBasic<LastCall<n>>) class LeftOut<n> : public LeftOut<n - 1> {
};

}  // namespace

void BasicKernels::fail_without(const std::string& what) {
  fail("cpu: no kernel of ", what,
       " in this program, which is linked without hero_cpu_kernels, as chapters 1 to 6 are; for "
       "these call cmake -DHERO_ALL_KERNELS=ON build/release and build again");
}

const Kernels& basic_kernels() {
  static const auto* const table =
      new Kernels{*new LeftOut<Calls::size>, cpu::philox_words};  // leaked, as those of all
  return *table;
}

}  // namespace hero::core::cpu
