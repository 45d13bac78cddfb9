#pragma once
// The traffic ledger: what one rank has sent, by operation, unit and axis.
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include <hero/dist/engines/call.h>

namespace hero::dist {

/// Between which memories of one rank bytes are copied: the host's, a device's, a file.
enum class Transfer : uint8_t { to_device, to_host, from_disk, to_disk };
inline constexpr int kTransferCount = 4;
const char* name(Transfer transfer);

/// Counts calls and the bytes this rank sent to others, padding included; one for each rank, filled
/// by all its communicators. Of n bytes an N-rank operation sends: all_reduce n - own part to the
/// reduction and (N - 1) own parts of the result, together 2 n (N - 1) / N where N divides n;
/// reduce_scatter n - own part; all_gather (N - 1) own parts; all_to_all all parts but the own;
/// broadcast and scatter the root alone, (N - 1) n and n - own part; reduce and gather n each but
/// the root; send n; barrier and the forming of groups nothing. A rank's own thread only.
class Traffic {
 public:
  /// One line of the ledger.
  struct Row {
    Collective op;
    std::string unit;
    std::string axis;
    int64_t calls = 0;
    int64_t bytes = 0;
  };

  void add(Collective op, const std::string& unit, const std::string& axis, int64_t bytes);

  /// Counts bytes of shards that have a home elsewhere (see Offload): no rank sends them. Copies
  /// that a program makes itself are not counted.
  void move(Transfer transfer, int64_t bytes) { moved_[static_cast<size_t>(transfer)] += bytes; }
  int64_t moved(Transfer transfer) const { return moved_[static_cast<size_t>(transfer)]; }

  /// \name Sums over rows.
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
  void reset() {
    rows_.clear();
    moved_ = {};
  }
  /// A printed table: axis, operation, unit, calls, bytes, a line with the totals, and one for each
  /// kind of transfer that there was.
  std::string table() const;

 private:
  std::vector<Row> rows_;
  std::array<int64_t, kTransferCount> moved_ = {};
};

/// Bytes that `rank` of `ranks` sends in this call, by the formulas of Traffic.
int64_t bytes_sent(const Call& call, int rank, int ranks);

}  // namespace hero::dist
