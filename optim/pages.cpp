#include <algorithm>
#include <unordered_set>
#include <utility>

#include <hero/core/error.h>
#include <hero/optim/pages.h>

namespace hero::optim {

Optimizer::Pages::Pages(core::SwapFile& file, const PagedOptions& options)
    : file_(file), options_(options) {
  check(options.window_bytes > 0, "paged: a window has at least 1 byte: ", options.window_bytes);
}

void Optimizer::Pages::divide(const Optimizer& of) {
  of_ = &of;
  windows_.clear();
  has_master_.clear();
  current_ = coming_ = leaving_ = -1;
  const std::vector<Tensor> params = of.model_parameters();
  for (size_t i = 0; i < params.size(); ++i) {
    has_master_.push_back(!is_same(params[i], of.states_[i].param));
  }
  int64_t held = 0;
  for (int group = 0; group < of.groups(); ++group) {
    const auto arrays = static_cast<int64_t>(of.array_names(group).size());
    for (int i = of.group_begin(group); i < of.group_end(group); ++i) {
      const Array& param = of.state(i).param.array();
      const int64_t each = param.numel() * item_size(core::state_dtype(param.dtype()));
      const int64_t bytes = (arrays + (has_master(i) ? 1 : 0)) * each;
      if (windows_.empty() || held + bytes > options_.window_bytes) {
        windows_.emplace_back();
        held = 0;
      }
      held += bytes;
      windows_.back().end = i + 1;
    }
  }
  put_back();
}

int Optimizer::Pages::window_of(int param) const {
  const auto found = std::partition_point(windows_.begin(), windows_.end(),
                                          [&](const Window& w) { return w.end <= param; });
  return static_cast<int>(found - windows_.begin());
}

void Optimizer::Pages::enter(Optimizer& of, int param) {
  const int window = window_of(param);
  if (current_ != window) {
    of.run_batch();
    leave(of);
    fetch(window);
  }
  stepped_.push_back(param);
}

void Optimizer::Pages::fetch(int window) {
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

void Optimizer::Pages::leave(Optimizer& of) {
  for (const int param : std::exchange(stepped_, {})) of.finish_param(param);
  write_current();
}

void Optimizer::Pages::write_current() {
  if (current_ < 0) return;
  if (leaving_ >= 0) wait(std::exchange(leaving_, -1));
  begin_write(current_);
  leaving_ = std::exchange(current_, -1);
}

void Optimizer::Pages::finish() {
  write_current();
  if (leaving_ >= 0) wait(std::exchange(leaving_, -1));
  if (coming_ < 0) return;
  const int window = std::exchange(coming_, -1);
  wait(window);
  for (const auto& each : windows_[static_cast<size_t>(window)].swapped) each->drop();
}

void Optimizer::Pages::fetch_all() {
  const auto all = static_cast<int>(windows_.size());
  for (int i = 0; i < all; ++i) begin_read(i);
  for (int i = 0; i < all; ++i) wait(i);
}

void Optimizer::Pages::put_back() {
  current_ = coming_ = leaving_ = -1;
  const auto all = static_cast<int>(windows_.size());
  for (int i = 0; i < all; ++i) begin_write(i);
  for (int i = 0; i < all; ++i) wait(i);
}

void Optimizer::Pages::begin_read(int window) {
  for (const auto& each : windows_[static_cast<size_t>(window)].swapped) each->begin_read();
}

// States that were made or replaced since the last write get a slot in the file.
void Optimizer::Pages::begin_write(int window) {
  auto& swapped = windows_[static_cast<size_t>(window)].swapped;
  std::unordered_set<const core::Storage*> present, with_slot;
  for (const auto& each : swapped) with_slot.insert(each->storage().get());
  const int first = window == 0 ? 0 : windows_[static_cast<size_t>(window) - 1].end;
  for (int param = first; param < windows_[static_cast<size_t>(window)].end; ++param) {
    const State& own = of_->state(param);
    std::vector<Array> states;
    for (const NamedState& state : own.arrays) states.push_back(state.array);
    if (has_master(param)) states.push_back(own.param.array());
    for (const Array& state : states) {
      const core::Storage* const storage = &state.storage();
      if (storage->bytes() == 0) continue;
      present.insert(storage);
      if (!with_slot.insert(storage).second) continue;
      swapped.push_back(std::make_unique<core::Swapped>(file_, state.storage_ref()));
    }
  }
  std::erase_if(swapped,
                [&](const auto& each) { return !present.contains(each->storage().get()); });
  for (const auto& each : swapped) each->begin_write();
}

void Optimizer::Pages::wait(int window) {
  for (const auto& each : windows_[static_cast<size_t>(window)].swapped) each->wait();
}

// What any optimizer has of pages beside its step.

void Optimizer::page_states(core::SwapFile& file, const PagedOptions& options) {
  const char* const reason = no_pages();
  check(reason == nullptr, name_, ": page_states: ", reason ? reason : "");
  check(!pages_, name_, ": page_states: the states lie in a file already");
  follow();
  auto pages = std::make_unique<Pages>(file, options);
  try {
    pages->divide(*this);
  } catch (...) {
    pages->fetch_all();  // the optimizer stays as it was
    throw;
  }
  pages_ = std::move(pages);
}

void Optimizer::params_added() {
  if (!pages_) return;
  pages_->fetch_all();
  pages_->divide(*this);
}

}  // namespace hero::optim
