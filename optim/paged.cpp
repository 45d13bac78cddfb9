#include <algorithm>
#include <utility>

#include <hero/core/error.h>
#include <hero/optim/paged.h>

namespace hero::optim::detail {

StatePager::StatePager(core::SwapFile& file, const PagedOptions& options,
                       const std::vector<int64_t>& bytes, States states)
    : file_(file), states_(std::move(states)) {
  check(options.window_bytes > 0, "paged: a window has at least 1 byte: ", options.window_bytes);
  int64_t held = 0;
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (windows_.empty() || held + bytes[i] > options.window_bytes) {
      windows_.emplace_back();
      held = 0;
    }
    held += bytes[i];
    windows_.back().end = static_cast<int>(i) + 1;
  }
}

int StatePager::window_of(int param) const {
  const auto found = std::partition_point(windows_.begin(), windows_.end(),
                                          [&](const Window& w) { return w.end <= param; });
  return static_cast<int>(found - windows_.begin());
}

bool StatePager::holds(int param) const { return current_ >= 0 && window_of(param) == current_; }

void StatePager::fetch(int param) {
  const int window = window_of(param);
  if (coming_ >= 0 && coming_ != window) {  // none of its parameters had a gradient
    wait(coming_);
    for (const auto& each : windows_[static_cast<size_t>(coming_)].swapped) each->drop();
  }
  coming_ = -1;
  begin_read(window);
  wait(window);
  current_ = window;
  if (window + 1 == static_cast<int>(windows_.size())) return;
  begin_read(window + 1);
  coming_ = window + 1;
}

void StatePager::leave() {
  if (current_ < 0) return;
  if (leaving_ >= 0) wait(std::exchange(leaving_, -1));
  begin_write(current_);
  leaving_ = std::exchange(current_, -1);
}

void StatePager::finish() {
  leave();
  if (leaving_ >= 0) wait(std::exchange(leaving_, -1));
  if (coming_ < 0) return;
  const int window = std::exchange(coming_, -1);
  wait(window);
  for (const auto& each : windows_[static_cast<size_t>(window)].swapped) each->drop();
}

void StatePager::fetch_all() {
  const auto all = static_cast<int>(windows_.size());
  for (int i = 0; i < all; ++i) begin_read(i);
  for (int i = 0; i < all; ++i) wait(i);
}

void StatePager::put_back() {
  current_ = coming_ = leaving_ = -1;
  const auto all = static_cast<int>(windows_.size());
  for (int i = 0; i < all; ++i) begin_write(i);
  for (int i = 0; i < all; ++i) wait(i);
}

void StatePager::begin_read(int window) {
  for (const auto& each : windows_[static_cast<size_t>(window)].swapped) each->begin_read();
}

// States that were made since, or took the place of others, get a slot.
void StatePager::begin_write(int window) {
  auto& swapped = windows_[static_cast<size_t>(window)].swapped;
  std::vector<const core::Storage*> present;
  const int first = window == 0 ? 0 : windows_[static_cast<size_t>(window) - 1].end;
  for (int param = first; param < windows_[static_cast<size_t>(window)].end; ++param) {
    for (const Array& state : states_(param)) {
      const core::Storage* const storage = &state.storage();
      if (storage->bytes() == 0) continue;
      present.push_back(storage);
      const bool has_slot = std::any_of(swapped.begin(), swapped.end(), [&](const auto& each) {
        return each->storage().get() == storage;
      });
      if (has_slot) continue;
      swapped.push_back(std::make_unique<core::Swapped>(file_, state.storage_ref()));
    }
  }
  std::erase_if(swapped, [&](const auto& each) {
    return std::find(present.begin(), present.end(), each->storage().get()) == present.end();
  });
  for (const auto& each : swapped) each->begin_write();
}

void StatePager::wait(int window) {
  for (const auto& each : windows_[static_cast<size_t>(window)].swapped) each->wait();
}

}  // namespace hero::optim::detail
