#pragma once
// Fibres: functions with stacks of their own that hand the processor to one another by name.
#include <cstddef>
#include <memory>

namespace cusim {

/// One side of a switch: the host thread's own stack, or that of a fibre.
struct Side {
  void* stack_pointer = nullptr;
  const void* bottom = nullptr;  // for the address sanitizer, which must know all stacks
  size_t size = 0;
  void* fake_stack = nullptr;
};

/// Leaves `from` and goes on where `to` was left; returns when somebody switches back to `from`.
void switch_to(Side& from, Side& to);

/// A stack on which `run` begins when first switched to, from `home`; it must not return.
class Fibre {
 public:
  Fibre(void (*run)(), Side& home);
  ~Fibre();
  Side side;

 private:
  struct Start;
  std::unique_ptr<char[]> stack_;
  std::unique_ptr<Start> start_;
};

}  // namespace cusim
