// Functors compare with 0 whatever their type; nvcc finds that pointless for unsigned ones.
#pragma nv_diag_suppress 186

#include <hero/cuda/elementwise/map_table.cuh>

namespace hero::cuda {

template <>
MapKernel<int64_t> strided_map_kernel<int64_t>(uint16_t index) {
  return strided_kernel_of<int64_t>(index, core::kernels::MapList{});
}

template <>
MapKernel<int32_t> strided_map_kernel<int32_t>(uint16_t index) {
  return strided_kernel_of<int32_t>(index, core::kernels::MapList{});
}

template <>
MapKernel<uint8_t> strided_map_kernel<uint8_t>(uint16_t index) {
  return strided_kernel_of<uint8_t>(index, core::kernels::MapList{});
}

}  // namespace hero::cuda
