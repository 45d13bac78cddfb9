#include <utility>

#include <hero/core/backend.h>
#include <hero/core/exchange.h>
#include <hero/dist/data_parallel/home.h>

namespace hero::dist {

Home::~Home() {
  try {
    wait_up();
    wait_down();
  } catch (const std::exception&) {
    // a device that has failed copies no more
  }
}

Array Home::pinned(int64_t count, DType dtype) const {
  return accelerator().pinned({count}, dtype);
}

Array Home::zeros(int64_t count, DType dtype) const {
  const Array values = pinned(count, dtype);
  if (count > 0) core::backend(values.device()).fill(values, 0);
  return values;
}

std::shared_ptr<core::Point> Home::begin_copy(const Array& from, const Array& to) const {
  accelerator().copy_async(from, to);
  return accelerator().exchange(device_.index).point();
}

const Array& Home::rounded(const Array& values, DType dtype) {
  const uint32_t version = values.storage().version();
  const bool fits = rounded_.defined() && rounded_.dtype() == dtype;
  if (fits && rounded_version_ == version) return rounded_;
  wait_up();  // it may still be read
  if (!fits) {
    const MemoryScope tag(MemoryTag::communication);
    rounded_ = pinned(values.numel(), dtype);
  }
  core::backend(rounded_.device()).copy(values, rounded_);
  rounded_version_ = version;
  return rounded_;
}

std::unique_ptr<core::Aside> Home::begin_up(const Array& values, const Array& target) {
  if (values.numel() == 0) return nullptr;
  const Array& from = values.dtype() == target.dtype() ? values : rounded(values, target.dtype());
  std::unique_ptr<core::Aside> aside = accelerator().aside(core::Way::to_device, device_.index);
  up_ = begin_copy(from, target);
  target.storage().bump_version();
  traffic_.move(Transfer::to_device, from.nbytes());
  return aside;
}

void Home::join_up() const {
  if (up_) up_->join();
}

void Home::wait_up() {
  if (const auto point = std::exchange(up_, nullptr)) point->wait();
}

Array Home::begin_down(const Array& gradient) {
  const Array here = pinned(gradient.numel(), gradient.dtype());
  if (gradient.numel() == 0) return here;
  const auto aside = accelerator().aside(core::Way::to_host, device_.index);
  down_ = begin_copy(gradient.contiguous().reshape({gradient.numel()}), here);
  traffic_.move(Transfer::to_host, gradient.nbytes());
  return here;
}

void Home::wait_down() {
  if (const auto point = std::exchange(down_, nullptr)) point->wait();
}

}  // namespace hero::dist
