#pragma once
// at_fork(): functions to call before and after a process forks, so that its child can go on
// computing.
//
// [note: forks] A forked child has one thread, a copy of the one that forked. What another thread
// was just doing in the parent is never finished in the child: a mutex that it held stays locked
// there, and a function's static that it was just making, at the function's first call, stays
// half-made. Code that needs one of them in the child waits for ever. So files with such a mutex
// lock it around every fork, and files with such statics have them made before the first one, where
// no other thread can be making them any more. What can be initialised as a constant needs neither.
#include <pthread.h>

namespace hero::core {

/// Registers functions: `before` is called before every fork of this process, and `in_parent` and
/// `in_child` after it in the parent and in the child, all on the thread that forks. For an
/// initializer at namespace scope:
///   [[maybe_unused]] const bool kTableAtFork = at_fork([] { table(); });
/// Functions must not throw. The `before` that was registered last is called first, the other two
/// kinds in the order of registration. The order of registration of different files is unspecified,
/// so a mutex that is locked here may not be held while another one is locked.
inline bool at_fork(void (*before)(), void (*in_parent)() = nullptr, void (*in_child)() = nullptr) {
  return pthread_atfork(before, in_parent, in_child) == 0;
}

}  // namespace hero::core
