#include <hero/cuda/elementwise/map_table.cuh>

namespace hero::cuda {

template <>
MapKernel<double> strided_map_kernel<double>(uint16_t index) {
  return strided_kernel_of<double>(index, core::kernels::MapList{});
}

template <>
MapKernel<double> vector_map_kernel<double>(uint16_t index) {
  return vector_kernel_of<double>(index, core::kernels::MapList{});
}

}  // namespace hero::cuda
