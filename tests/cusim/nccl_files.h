#pragma once
// NCCL between processes of one machine.
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "nccl_calls.h"

namespace cusim::nccl {

/// One rank's end of a communicator whose ranks are processes, one each. What they send are files
/// of the folder that HERO_CUSIM_NCCL names: written under another name and renamed, sent without
/// waiting for whom it is meant, removed by the one who reads it. Where the variable is not set,
/// ranks are threads of one process.
class Files : public std::enable_shared_from_this<Files> {
 public:
  /// Null where ranks are threads.
  static const char* folder();

  Files(std::string id, int rank, int size);
  const std::string& id() const { return id_; }
  /// Whether all have come.
  bool joined();
  /// What this rank says of its n-th split, and whether the others have said theirs: all[rank].
  void tell(size_t number, std::pair<int, int> color_and_key);
  bool told(size_t number, std::vector<std::pair<int, int>>& all);
  /// Puts a group of calls into their stream. They go on by a thread of the process, whatever the
  /// host does meanwhile. A host that waits for one for longer than HERO_TIMEOUT, or 600 seconds,
  /// ends the program, unless it waits patiently (cusim::wait_patiently).
  void ask(const std::vector<ItemPtr>& items);
  /// Ends it when what was asked for is done.
  void finish();
  /// Ends it at once.
  void abort();

  /// Moves on what was asked for, as far as the others have come.
  void move_on();
  /// The ranks without which the oldest call cannot go on; "" where there is none.
  std::string missing() const;

 private:
  struct UnderWay {
    cudaStream_t stream;
    uint64_t position;  // of the stream, when it is done
    std::vector<ItemPtr> items;
  };
  std::string path(const std::string& what, int from, int to) const;
  std::string path(const Item& item, int from, int to) const;
  bool here(const ItemPtr& item, std::string* who = nullptr) const;
  void send(const ItemPtr& item) const;
  void receive(const ItemPtr& item) const;
  void close();

  const std::string id_;
  const int rank_, size_;
  std::vector<bool> come_;
  std::pair<int, int> own_split_;
  std::map<std::pair<int, int>, uint64_t> next_;  // messages from one to another; {-1, -1}: calls
  std::deque<UnderWay> under_way_;
  bool aborted_ = false;
};

}  // namespace cusim::nccl
