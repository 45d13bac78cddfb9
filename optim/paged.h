#pragma once
// Optimizer states in a file, which are in memory only during their step.
#include <concepts>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include <hero/core/memory/fetcher.h>
#include <hero/core/swap_file.h>
#include <hero/optim/lamb.h>
#include <hero/optim/optimizer.h>

namespace hero::optim {

/// Options of Paged.
struct PagedOptions {
  /// Bytes of states that are read, stepped and written together.
  int64_t window_bytes = int64_t{256} << 20;
};

namespace detail {

/// Decides which states are in memory: while the states of one window of parameters are stepped,
/// those of the next are being read, and those of the previous one are being written.
class StatePager {
 public:
  /// Returns the states of a parameter, whether or not they are in memory.
  using States = std::function<std::vector<Array>(int param)>;

  /// Divides parameters, of which parameter i has bytes[i] bytes of states, into windows. A window
  /// has either one parameter or states of at most window_bytes.
  StatePager(core::SwapFile& file, const PagedOptions& options, const std::vector<int64_t>& bytes,
             States states);

  /// True if the window of the parameter is the one in memory.
  bool holds(int param) const;
  /// Reads the window of a parameter into memory, and begins to read the next window.
  void fetch(int param);
  /// Begins to write the window that is in memory; afterwards no window is.
  void leave();
  /// Waits until no state is in memory.
  void finish();
  /// fetch_all() reads all states into memory; put_back() writes what is in memory, and waits.
  void fetch_all();
  void put_back();

 private:
  struct Window {
    int end = 0;  // its parameters are those from the end of the window before
    std::vector<std::unique_ptr<core::Swapped>> swapped = {};
  };

  int window_of(int param) const;
  void begin_read(int window);
  void begin_write(int window);
  void wait(int window);

  core::SwapFile& file_;
  States states_;
  std::vector<Window> windows_;
  int current_ = -1;  // the window in memory, and those on their way in and out; -1: none
  int coming_ = -1;
  int leaving_ = -1;
};

}  // namespace detail

/// Runs the optimizer O with its states in a SwapFile. A step reads them window by window; while
/// one window is stepped, the next is read and the previous one is written, so at most three
/// windows of `window_bytes` (or of the largest parameter's states) are in memory, and none is
/// between two steps. The bits are those of O, because the same numbers are stepped in the same
/// order. A step reads and writes the states of every window that has a gradient once: 8 bytes per
/// element for AdamW and 12 with MasterWeights, in whole blocks of 4 KiB per state. O is any
/// optimizer of optim that steps each element by itself (LAMB does not), or MasterWeights of one;
/// the masters are states too, and all of them are in memory until the constructor returns.
///
///   core::SwapFile disk("/nvme", {.bytes = int64_t{200} << 30});
///   optim::Paged<optim::MasterWeights<optim::AdamW>> adamw(disk, model.parameters(), {.lr =
///   3e-4});
///
/// If the disk fails during a step, an Error says so; it is then unknown which parameters were
/// stepped, and you have to resume from a checkpoint. state_dict() and load_state_dict() have all
/// states in memory while they run, and so has a step after parameters were converted or cut.
/// Rajbhandari et al., "ZeRO-Infinity", arXiv 2104.07857, section
/// 5.1.
template <class O>
class Paged : public O {
  static_assert(!std::derived_from<O, LAMB>, "LAMB steps by norms of whole parameters");
  static_assert(
      !requires(O & o) { o.lookahead(); }, "the look-ahead would move all states");

 public:
  using Group = typename O::Group;
  using Options = decltype(Group::options);

  /// Makes an optimizer O for these parameters, with its states in `file`, which must outlive it.
  Paged(core::SwapFile& file, const std::vector<Tensor>& params, const Options& options = {},
        const PagedOptions& paged = {})
      : O(params, options), file_(file), paged_options_(paged) {
    page();
  }
  /// Makes an optimizer O for groups of parameters, each group with options of its own.
  Paged(core::SwapFile& file, const std::vector<Group>& groups, const PagedOptions& paged = {})
      : O(groups), file_(file), paged_options_(paged) {
    page();
  }

  /// Has all states in memory for a moment, and divides them into windows anew.
  void add_param_group(const Group& group) override {
    follow();
    pager_->fetch_all();
    try {
      O::add_param_group(group);
    } catch (...) {
      page();
      throw;
    }
    page();
  }
  void step() override {
    try {
      O::step();
    } catch (...) {
      leave();
      pager_->put_back();
      throw;
    }
    leave();
    core::put_back();  // parameters that lie in a file, into which masters were rounded
    pager_->finish();
  }
  StateDict state_dict() const override {
    follow();
    pager_->fetch_all();
    StateDict dict = O::state_dict();
    pager_->put_back();
    return dict;
  }
  void load_state_dict(const StateDict& dict) override {
    pager_->fetch_all();
    try {
      O::load_state_dict(dict);
    } catch (...) {
      page();
      throw;
    }
    page();
  }

 protected:
  /// Has all states in memory while they change, and divides them into windows anew.
  void follow() const override {
    if (!this->is_behind()) return;
    pager_->fetch_all();
    try {
      O::follow();
    } catch (...) {
      page();
      throw;
    }
    page();
  }
  void entered(int param) override {
    O::entered(param);
    if (!pager_->holds(param)) {
      this->run_batch();
      leave();
      pager_->fetch(param);
    }
    stepped_.push_back(param);
  }
  // leave() calls O's, which may want the states.
  void updated(int /*param*/) override {}

 private:
  // Gives what is in memory to a new pager, which writes it.
  void page() const {
    pager_.reset();
    has_master_.clear();
    std::vector<int64_t> bytes;
    for (const Tensor& param : this->model_parameters()) {
      const auto i = static_cast<int>(has_master_.size());
      has_master_.push_back(!is_same(param, this->state(i).param));
    }
    for (int group = 0; group < this->groups(); ++group) {
      const auto arrays = static_cast<int64_t>(this->array_names(group).size());
      for (int i = this->group_begin(group); i < this->group_end(group); ++i) {
        const Array& param = this->state(i).param.array();
        const int64_t each = param.numel() * item_size(core::state_dtype(param.dtype()));
        bytes.push_back((arrays + (has_master(i) ? 1 : 0)) * each);
      }
    }
    pager_ = std::make_unique<detail::StatePager>(file_, paged_options_, bytes,
                                                  [this](int i) { return states_of(i); });
    pager_->put_back();
  }
  void leave() {
    for (const int param : std::exchange(stepped_, {})) O::updated(param);
    pager_->leave();
  }
  // Whether a copy is stepped in place of the parameter.
  bool has_master(int param) const { return has_master_[static_cast<size_t>(param)]; }
  std::vector<Array> states_of(int param) const {
    std::vector<Array> arrays;
    for (const auto& state : this->state(param).arrays) arrays.push_back(state.array);
    if (has_master(param)) arrays.push_back(this->state(param).param.array());
    return arrays;
  }

  core::SwapFile& file_;
  const PagedOptions paged_options_;
  // Made anew when states have followed their parameters.
  mutable std::unique_ptr<detail::StatePager> pager_;
  mutable std::vector<bool> has_master_;  // of each parameter
  std::vector<int> stepped_;              // of the window in memory
};

}  // namespace hero::optim
