#pragma once
// What ranks that compute one model together must have alike.
#include <hero/dist/communicator.h>
#include <hero/nn/module.h>

namespace hero::dist {

/// Says with the group's next collective that this rank has x, of which `what` needs the same on
/// all ranks: where they differ, all get an Error. For whole numbers on the cpu, such as tokens,
/// whose hash costs nothing; of other values it says nothing.
void declare_same(const Communicator& group, const char* what, const Tensor& x);

/// From now on each forward of the module says so of its inputs, and forwards 1, 2, 4, 8 and so on
/// of the parameters that are neither cut nor sharded, if they lie on the cpu: a step after which
/// they differ has trained with a part of a gradient.
void declare_same_inputs(nn::Module& module, const Communicator& group, const char* what);

}  // namespace hero::dist
