#include <hero/cuda/elementwise/map_table.cuh>

namespace hero::cuda {

template <>
MapKernel<float> vector_map_kernel<BFloat16>(uint16_t index) {
  return vector_kernel_of<BFloat16>(index, core::kernels::MapList{});
}

}  // namespace hero::cuda
