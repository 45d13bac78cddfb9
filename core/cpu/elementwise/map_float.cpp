#include <hero/core/cpu/elementwise/map_table.h>

namespace hero::core::cpu {

template <>
MapKernel map_kernel_of<float>(uint16_t index) {
  static constexpr auto table = map_table<float>(kernels::MapList{});
  return table[index];
}

}  // namespace hero::core::cpu
