#pragma once
// Checks that ranks which compute one model together have the same inputs and parameters.
#include <hero/dist/communicator.h>
#include <hero/nn/module.h>

namespace hero::dist {

/// Declares x, which `what` needs to be the same on all ranks, with the group's next collective: if
/// ranks differ, all get an Error. It checks integers on the cpu, such as tokens, whose hash is
/// cheap; for other values it does nothing.
void declare_same(const Communicator& group, const char* what, const Tensor& x);

/// Makes each forward of the module declare its inputs, and forwards 1, 2, 4, 8 and so on declare
/// the parameters that are neither cut nor sharded, if they are on the cpu: if these differ after a
/// step, it used only a part of a gradient.
void declare_same_inputs(nn::Module& module, const Communicator& group, const char* what);

}  // namespace hero::dist
