#pragma once
#include <hero/nn/module.h>

namespace hero::nn {

/// Gives a parameter another initialiser and its values; for models that do not initialise their
/// layers as the layers do by themselves.
inline void reset_parameter(Slot& slot, const Init& init) {
  slot.init = init;
  fill_part(init, slot.tensor.array(), slot.tensor.shape(), 0, slot.stream);
}

}  // namespace hero::nn
