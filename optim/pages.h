#pragma once
// Pages: optimizer states in a file, which are in memory only during their step; internal to optim.
#include <memory>
#include <vector>

#include <hero/core/swap_file.h>
#include <hero/optim/optimizer.h>

namespace hero::optim {

/// Decides which states of an optimizer are in memory: while the states of one window of parameters
/// are stepped, those of the next are being read, and those of the previous one are being written.
/// The states of a parameter are the arrays of its State and, if it has one, its master.
class Optimizer::Pages {
 public:
  /// Pages states in `file`; divide() must be called first.
  Pages(core::SwapFile& file, const PagedOptions& options);

  /// Divides parameters into windows and writes all states, which must be in memory. A window has
  /// either one parameter or states of at most window_bytes.
  void divide(const Optimizer& of);
  /// Called before a parameter's step: its window is in memory then. Ends the batch of the window
  /// before, begins to write that and to read the next one.
  void enter(Optimizer& of, int param);
  /// Finishes the parameters of the window in memory, and begins to write it; afterwards no window
  /// is in memory.
  void leave(Optimizer& of);
  /// Waits until no state is in memory.
  void finish();
  /// fetch_all() reads all states into memory; put_back() writes what is in memory, and waits.
  void fetch_all();
  void put_back();

 private:
  struct Window {
    int end = 0;  // one past its last parameter; it begins at the end of the previous window
    std::vector<std::unique_ptr<core::Swapped>> swapped = {};
  };

  int window_of(int param) const;
  void fetch(int window);
  void write_current();
  void begin_read(int window);
  void begin_write(int window);
  void wait(int window);
  // Whether a copy is stepped in place of the parameter.
  bool has_master(int param) const { return has_master_[static_cast<size_t>(param)]; }

  core::SwapFile& file_;
  const PagedOptions options_;
  const Optimizer* of_ = nullptr;
  std::vector<Window> windows_;
  std::vector<bool> has_master_;  // whether each parameter has a master
  std::vector<int> stepped_;      // parameters of the window in memory that were stepped
  int current_ = -1;  // the window in memory, and those on their way in and out; -1: none
  int coming_ = -1;
  int leaving_ = -1;
};

}  // namespace hero::optim
