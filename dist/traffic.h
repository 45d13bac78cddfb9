#pragma once
// The traffic ledger: the bytes that a rank has sent, by operation, unit and axis.
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include <hero/core/profile/transfers.h>
#include <hero/dist/backends/call.h>

namespace hero::dist {

/// Kinds of copies between the memories of a rank: host memory, device memory and files.
using core::kTransferCount;
using core::Transfer;

/// Counts the calls of a rank and the bytes that it sent to others, including padding. Each rank
/// has one, into which all its communicators count; only the rank's own thread may use it. For n
/// bytes and N ranks, operations count: all_reduce n - own part for the reduction and (N - 1) own
/// parts of the result, together 2 n (N - 1) / N if N divides n; reduce_scatter n - own part;
/// all_gather (N - 1) own parts; all_to_all all parts but the own; broadcast and scatter on the
/// root only, (N - 1) n and n - own part; reduce and gather n on each rank but the root; send n;
/// barriers and the forming of groups nothing. Reductions in two levels (Call::two_levels()) over H
/// hosts of h ranks count what the ranks with this index on all hosts sum up, s of the n bytes: for
/// the reduction n - s within the host and s - own part to other hosts, in Call::partial_dtype();
/// for the result of an all_reduce (h - 1) s and (H - 1) own parts.
class Traffic {
 public:
  /// A line of the ledger.
  struct Row {
    Collective op;      ///< the operation
    std::string unit;   ///< the unit that was named in the call
    std::string axis;   ///< the group: "world", or an axis of a mesh
    int64_t calls = 0;  ///< how many calls
    int64_t bytes = 0;  ///< how many bytes this rank sent
  };

  /// Counts a call.
  void add(Collective op, const std::string& unit, const std::string& axis, int64_t bytes);

  /// Counts bytes that are copied between memories for offloaded shards (see Offload); no rank
  /// sends them to another. Copies that a program makes itself are not counted.
  void move(Transfer transfer, int64_t bytes) { moved_[static_cast<size_t>(transfer)] += bytes; }
  /// The bytes that were copied between these memories.
  int64_t moved(Transfer transfer) const { return moved_[static_cast<size_t>(transfer)]; }

  /// \name Sums over rows
  /// \{
  int64_t bytes() const;
  int64_t bytes(Collective op) const;
  int64_t bytes_of_unit(const std::string& unit) const;
  int64_t bytes_of_axis(const std::string& axis) const;
  int64_t calls() const;
  int64_t calls(Collective op) const;
  /// \}

  /// All rows in the order of their first call.
  const std::vector<Row>& rows() const { return rows_; }
  /// Sets all counts to zero.
  void reset() {
    rows_.clear();
    moved_ = {};
  }
  /// The ledger as a table: axis, operation, unit, calls and bytes, with a line of totals and one
  /// for each kind of transfer that occurred.
  std::string table() const;

 private:
  std::vector<Row> rows_;
  std::array<int64_t, kTransferCount> moved_ = {};
};

/// The bytes that `rank` of `ranks` sends in this call, by the formulas of Traffic.
int64_t bytes_sent(const Call& call, int rank, int ranks);
/// Those of them that a reduction in two levels sends to other hosts.
int64_t bytes_sent_across(const Call& call, int rank, int ranks);

}  // namespace hero::dist
