#include <algorithm>
#include <array>

#include <hero/core/ledger.h>
#include <hero/dist/traffic.h>

namespace hero::dist {
namespace {

template <class Wanted>
int64_t sum_bytes(const std::vector<Traffic::Row>& rows, const Wanted& wanted) {
  int64_t sum = 0;
  for (const Traffic::Row& row : rows) {
    if (wanted(row)) sum += row.bytes;
  }
  return sum;
}

// What is summed up by `rank` and those with its index on the other hosts.
int64_t summed_at(const Call& call, int rank, int ranks) {
  int64_t sum = 0;
  for (int i = rank % call.ranks_of_host; i < ranks; i += call.ranks_of_host) {
    sum += call.summed_by(i).count;
  }
  return sum;
}

int64_t bytes_within(const Call& call, int rank, int ranks) {
  const int64_t summed = summed_at(call, rank, ranks), others = call.ranks_of_host - 1;
  const int64_t returned = call.op == Collective::all_reduce ? others * summed : 0;
  return (call.size - summed + returned) * item_size(call.dtype);
}

}  // namespace

void Traffic::add(Collective op, const std::string& unit, const std::string& axis, int64_t bytes) {
  const auto same = [&](const Row& row) {
    return row.op == op && row.unit == unit && row.axis == axis;
  };
  auto row = std::find_if(rows_.begin(), rows_.end(), same);
  if (row == rows_.end()) row = rows_.insert(rows_.end(), Row{op, unit, axis, 0, 0});
  row->calls += 1;
  row->bytes += bytes;
}

int64_t Traffic::bytes() const {
  return sum_bytes(rows_, [](const Row&) { return true; });
}

int64_t Traffic::bytes(Collective op) const {
  return sum_bytes(rows_, [&](const Row& row) { return row.op == op; });
}

int64_t Traffic::bytes_of_unit(const std::string& unit) const {
  return sum_bytes(rows_, [&](const Row& row) { return row.unit == unit; });
}

int64_t Traffic::bytes_of_axis(const std::string& axis) const {
  return sum_bytes(rows_, [&](const Row& row) { return row.axis == axis; });
}

int64_t Traffic::calls() const {
  int64_t sum = 0;
  for (const Row& row : rows_) sum += row.calls;
  return sum;
}

int64_t Traffic::calls(Collective op) const {
  int64_t sum = 0;
  for (const Row& row : rows_) sum += row.op == op ? row.calls : 0;
  return sum;
}

std::string Traffic::table() const {
  using Line = std::array<std::string, 6>;
  std::vector<Line> lines = {{"axis", "operation", "unit", "calls", "bytes", ""}};
  for (const Row& row : rows_) {
    lines.push_back({row.axis, name(row.op), row.unit.empty() ? "-" : row.unit,
                     std::to_string(row.calls), std::to_string(row.bytes), bytes_text(row.bytes)});
  }
  lines.push_back(
      {"all", "", "", std::to_string(calls()), std::to_string(bytes()), bytes_text(bytes())});
  for (int i = 0; i < kTransferCount; ++i) {
    const auto transfer = static_cast<Transfer>(i);
    const int64_t bytes = moved(transfer);
    if (bytes == 0) continue;
    lines.push_back({"", name(transfer), "", "", std::to_string(bytes), bytes_text(bytes)});
  }
  std::array<size_t, 6> width{};
  for (const Line& line : lines) {
    for (size_t i = 0; i < line.size(); ++i) width[i] = std::max(width[i], line[i].size());
  }
  std::string text;
  for (const Line& line : lines) {
    std::string row;
    for (size_t i = 0; i < line.size(); ++i) {
      const std::string gap(width[i] - line[i].size(), ' ');
      if (i > 0) row += "  ";
      row += i < 3 ? line[i] + gap : gap + line[i];  // numbers to the right
    }
    row.erase(row.find_last_not_of(' ') + 1);
    text += row + "\n";
  }
  return text;
}

int64_t bytes_sent_across(const Call& call, int rank, int ranks) {
  const int64_t own = call.summed_by(rank).count, other_hosts = ranks / call.ranks_of_host - 1;
  const int64_t returned = call.op == Collective::all_reduce ? other_hosts * own : 0;
  return (summed_at(call, rank, ranks) - own) * item_size(call.partial_dtype()) +
         returned * item_size(call.dtype);
}

int64_t bytes_sent(const Call& call, int rank, int ranks) {
  if (call.two_levels()) {
    return bytes_within(call, rank, ranks) + bytes_sent_across(call, rank, ranks);
  }
  const int64_t own = call.counts.empty() ? 0 : call.counts.count(rank);
  const int64_t others = ranks - 1;
  const bool root = rank == call.root;
  int64_t elements = 0;
  switch (call.op) {
    case Collective::all_reduce:
      elements = (call.size - own) + others * own;
      break;
    case Collective::reduce_scatter:
      elements = call.size - own;
      break;
    case Collective::all_gather:
      elements = others * own;
      break;
    case Collective::broadcast:
      elements = root ? others * call.size : 0;
      break;
    case Collective::scatter:
      elements = root ? call.size - own : 0;
      break;
    case Collective::reduce:
      elements = root ? 0 : call.size;
      break;
    case Collective::gather:
      elements = root ? 0 : own;
      break;
    case Collective::all_to_all:
      elements = call.send_counts.total() - call.send_counts.count(rank);
      break;
    case Collective::send:
      elements = call.size;
      break;
    case Collective::recv:
    case Collective::barrier:
    case Collective::split:
      break;
  }
  return elements * item_size(call.dtype);
}

}  // namespace hero::dist
