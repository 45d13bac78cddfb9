// On x86-64 a switch saves what a call must keep and changes the stack, some nanoseconds; elsewhere
// it is the C library's swapcontext, which also asks the system for signal masks.
#include "fibre.h"

#include <cstdint>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif
#if !defined(__x86_64__)
#include <ucontext.h>
#endif

namespace cusim {

namespace {

#if defined(__SANITIZE_ADDRESS__)
constexpr size_t kStack = 256 * 1024;  // its frames are larger
#else
constexpr size_t kStack = 64 * 1024;
#endif

void leaving(Side& from, const Side& to) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(&from.fake_stack, to.bottom, to.size);
#else
  (void)from, (void)to;
#endif
}
void arrived(const Side& here) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(here.fake_stack, nullptr, nullptr);
#else
  (void)here;
#endif
}

}  // namespace

struct Fibre::Start {
  void (*run)();
  Side* home;

  // The first words of a fibre: the sanitizer tells which stack was left. For the first fibre it is
  // the host thread's; a later one may have been begun by another fibre.
  void operator()() {
#if defined(__SANITIZE_ADDRESS__)
    Side left;
    __sanitizer_finish_switch_fiber(nullptr, &left.bottom, &left.size);
    if (!home->bottom) {
      home->bottom = left.bottom;
      home->size = left.size;
    }
#endif
    run();
  }
};

#if defined(__x86_64__)

extern "C" void cusim_switch(void** from, void* to);
asm(R"(
.text
.globl cusim_switch
.type cusim_switch, @function
cusim_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size cusim_switch, .-cusim_switch
.globl cusim_begin
.type cusim_begin, @function
cusim_begin:
  movq %r12, %rdi
  callq *%r13
  ud2
.size cusim_begin, .-cusim_begin
)");
extern "C" void cusim_begin();

void switch_to(Side& from, Side& to) {
  leaving(from, to);
  cusim_switch(&from.stack_pointer, to.stack_pointer);
  arrived(from);
}

Fibre::Fibre(void (*run)(), Side& home) : stack_(new char[kStack]), start_(new Start{run, &home}) {
  side.bottom = stack_.get();
  side.size = kStack;
  // What cusim_switch takes from the stack: r15 r14 r13 r12 rbx rbp, and where it returns to.
  auto top = reinterpret_cast<uintptr_t>(stack_.get() + kStack) & ~uintptr_t{15};
  auto* words = reinterpret_cast<uintptr_t*>(top) - 9;
  for (int i = 0; i < 9; ++i) words[i] = 0;
  void (*const first)(Start*) = [](Start* start) { (*start)(); };
  words[2] = reinterpret_cast<uintptr_t>(first);
  words[3] = reinterpret_cast<uintptr_t>(start_.get());
  words[6] = reinterpret_cast<uintptr_t>(&cusim_begin);
  side.stack_pointer = words;
}

#else

void switch_to(Side& from, Side& to) {
  leaving(from, to);
  swapcontext(static_cast<ucontext_t*>(from.stack_pointer),
              static_cast<ucontext_t*>(to.stack_pointer));
  arrived(from);
}

Fibre::Fibre(void (*run)(), Side& home) : stack_(new char[kStack]), start_(new Start{run, &home}) {
  if (!home.stack_pointer) home.stack_pointer = new ucontext_t;
  auto* context = new ucontext_t;
  getcontext(context);
  context->uc_stack.ss_sp = stack_.get();
  context->uc_stack.ss_size = kStack;
  context->uc_link = nullptr;
  const auto start = reinterpret_cast<uintptr_t>(start_.get());
  void (*const first)(unsigned, unsigned) = [](unsigned high, unsigned low) {
    (*reinterpret_cast<Start*>(static_cast<uintptr_t>(high) << 32 | low))();
  };
  makecontext(context, reinterpret_cast<void (*)()>(first), 2, static_cast<unsigned>(start >> 32),
              static_cast<unsigned>(start));
  side = {context, stack_.get(), kStack, nullptr};
}

#endif

Fibre::~Fibre() {
#if !defined(__x86_64__)
  delete static_cast<ucontext_t*>(side.stack_pointer);
#endif
}

}  // namespace cusim
