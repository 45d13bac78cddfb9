#include <hero/cuda/elementwise/map_table.cuh>

namespace hero::cuda {

template <>
MapKernel<float> strided_map_kernel<float>(uint16_t index) {
  return strided_kernel_of<float>(index, core::kernels::MapList{});
}

template <>
MapKernel<float> vector_map_kernel<float>(uint16_t index) {
  return vector_kernel_of<float>(index, core::kernels::MapList{});
}

}  // namespace hero::cuda
