#include <algorithm>
#include <utility>

#include <hero/core/error.h>
#include <hero/dist/engines/call.h>

namespace hero::dist {
namespace {

size_t at(int i) { return static_cast<size_t>(i); }

std::string list_text(std::span<const int64_t> values) {
  std::string text = "[";
  for (size_t i = 0; i < values.size(); ++i) {
    if (i > 0) text += ", ";
    text += std::to_string(values[i]);
  }
  return text + "]";
}

// The fields that all ranks must state alike, in the order in which they are reported.
struct Field {
  const char* name;
  std::string (*text)(const Call& call);
};

std::string root_text(const Call& call) { return "rank " + std::to_string(call.root); }

constexpr Field kFields[] = {
    {"the operation", [](const Call& call) { return std::string(name(call.op)); }},
    {"the unit", [](const Call& call) { return "'" + call.unit + "'"; }},
    {"the dtype", [](const Call& call) { return to_string(call.dtype); }},
    {"the device", [](const Call& call) { return to_string(call.device); }},
    {"the reduce op", [](const Call& call) { return std::string(name(call.reduce)); }},
    {"the order", [](const Call& call) { return std::string(name(call.order)); }},
    {"the root", root_text},
    {"the size", [](const Call& call) { return std::to_string(call.size) + " elements"; }},
    {"the counts",
     [](const Call& call) {
       return call.counts.empty() ? std::string("even parts") : list_text(call.counts);
     }},
};

// The two ends of a message differ in op and root by nature.
bool is_message(const Call& call) { return call.op == Op::send || call.op == Op::recv; }

bool alike(const Call& a, const Call& b) {
  const bool same_op = a.op == b.op || (is_message(a) && is_message(b));
  return same_op && a.dtype == b.dtype && a.device == b.device && a.reduce == b.reduce &&
         a.order == b.order && (a.root == b.root || is_message(a)) && a.size == b.size &&
         a.counts == b.counts && a.unit == b.unit;
}

std::string field_disagreement(const Field& field, std::span<const Call> calls,
                               std::span<const int> ranks) {
  std::vector<std::pair<std::string, std::vector<int>>> camps;
  for (size_t i = 0; i < calls.size(); ++i) {
    const std::string value = field.text(calls[i]);
    auto camp =
        std::find_if(camps.begin(), camps.end(), [&](const auto& c) { return c.first == value; });
    if (camp == camps.end()) camp = camps.emplace(camps.end(), value, std::vector<int>());
    camp->second.push_back(ranks[i]);
  }
  if (camps.size() < 2) return "";
  std::string line = std::string("ranks disagree on ") + field.name + ": ";
  for (size_t i = 0; i < camps.size(); ++i) {
    if (i > 0) line += "; ";
    line += rank_list(camps[i].second) + (camps[i].second.size() > 1 ? " say " : " says ") +
            camps[i].first;
  }
  return line;
}

std::string count_disagreement(std::span<const Call> calls, std::span<const int> ranks) {
  for (size_t i = 0; i < calls.size(); ++i) {
    for (size_t j = 0; j < calls.size(); ++j) {
      const int64_t sent = calls[i].send_counts[j], expected = calls[j].recv_counts[i];
      if (sent == expected) continue;
      return "ranks disagree on the counts: rank " + std::to_string(ranks[i]) + " sends " +
             std::to_string(sent) + " elements to rank " + std::to_string(ranks[j]) +
             ", which expects " + std::to_string(expected);
    }
  }
  return "";
}

}  // namespace

const char* name(Op op) {
  constexpr const char* names[kOpCount] = {"all_reduce", "reduce",  "reduce_scatter", "all_gather",
                                           "broadcast",  "scatter", "gather",         "all_to_all",
                                           "send",       "recv",    "barrier",        "split"};
  return names[static_cast<int>(op)];
}

const char* name(ReduceOp op) {
  constexpr const char* names[] = {"sum", "product", "min", "max", "mean"};
  return names[static_cast<int>(op)];
}

const char* name(Order order) { return order == Order::ranks ? "ranks" : "native"; }

bool Call::reduces() const {
  return op == Op::all_reduce || op == Op::reduce || op == Op::reduce_scatter;
}

Part part_of(std::span<const int64_t> counts, int64_t size, int ranks, int i) {
  if (counts.empty()) {
    const int64_t share = size / ranks, longer = size % ranks;
    return {share * i + std::min<int64_t>(i, longer), share + (i < longer ? 1 : 0)};
  }
  Part part{0, counts[at(i)]};
  for (int k = 0; k < i; ++k) part.begin += counts[at(k)];
  return part;
}

std::string describe(const Call& call, uint64_t sequence, const std::string& axis) {
  std::string text =
      std::string(name(call.op)) + " (call " + std::to_string(sequence) + " of '" + axis + "'";
  if (!call.unit.empty()) text += ", unit '" + call.unit + "'";
  return text + ")";
}

std::string rank_list(std::span<const int> ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < ranks.size();) {
    size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    if (i > 0) text += ", ";
    text += std::to_string(ranks[i]);
    if (last > i) text += (last > i + 1 ? "-" : ", ") + std::to_string(ranks[last]);
    i = last + 1;
  }
  return text;
}

std::string disagreement(std::span<const Call> calls, std::span<const int> ranks) {
  const Call& first = calls.front();
  bool agree = true;
  for (const Call& call : calls) agree = agree && alike(first, call);
  if (!agree) {
    for (const Field& field : kFields) {
      if (is_message(first) && (&field == &kFields[0] || field.text == root_text)) continue;
      std::string line = field_disagreement(field, calls, ranks);
      if (!line.empty()) return line;
    }
  }
  return first.op == Op::all_to_all ? count_disagreement(calls, ranks) : "";
}

}  // namespace hero::dist
