#include <atomic>

#include <hero/core/device/planned_device.h>
#include <hero/core/functions/half_products.h>

namespace hero {

namespace {
std::atomic<HalfProducts> order_of_halves{HalfProducts::native};
}  // namespace

void set_half_products(HalfProducts order) {
  order_of_halves.store(order, std::memory_order_relaxed);
}
HalfProducts half_products() { return order_of_halves.load(std::memory_order_relaxed); }

bool core::has_native_products(DType dtype, Device device) {
  return dtype == kBFloat16 && kernels_of(device) == DeviceType::cpu && native_half_products();
}

}  // namespace hero
