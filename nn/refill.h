#pragma once
#include <hero/nn/module.h>

namespace hero::nn {

/// Gives a parameter another recipe and its values: for models whose first values are not those of
/// the layers they are made of.
inline void refill(Slot& slot, const Init& init) {
  slot.init = init;
  fill_part(init, slot.tensor.array(), slot.tensor.shape(), 0, slot.stream);
}

}  // namespace hero::nn
