#include <algorithm>
#include <bit>
#include <utility>

#include <hero/core/error.h>
#include <hero/dist/backends/call.h>

namespace hero::dist {
namespace {

// The fields that all ranks must state alike, in the order in which they are reported.
struct Field {
  const char* name;
  std::string (*text)(const Call& call);
};

std::string op_text(const Call& call) { return name(call.op); }
std::string root_text(const Call& call) { return "rank " + std::to_string(call.root); }

std::string declared_text(const Call& call) {
  return call.declared.empty() ? "nothing" : call.declared;
}

constexpr Field kDeclared = {"what they did before", declared_text};
constexpr Field kFields[] = {
    {"the operation", op_text},
    {"the unit", [](const Call& call) { return "'" + call.unit + "'"; }},
    {"the dtype", [](const Call& call) { return to_string(call.dtype); }},
    {"the output's dtype", [](const Call& call) { return to_string(call.result); }},
    {"the device", [](const Call& call) { return to_string(call.device); }},
    {"the reduce op", [](const Call& call) { return std::string(name(call.reduce)); }},
    {"the order", [](const Call& call) { return std::string(name(call.order)); }},
    {"the divisor", [](const Call& call) { return detail::number_text(call.divide_by); }},
    {"the root", root_text},
    {"the size", [](const Call& call) { return std::to_string(call.size) + " elements"; }},
    {"the counts", [](const Call& call) { return to_string(call.counts); }},
};

// The two ends of a message differ in op and root by nature.
bool is_message(const Call& call) {
  return call.op == Collective::send || call.op == Collective::recv;
}

bool alike(const Call& a, const Call& b) {
  const bool same_op = a.op == b.op || (is_message(a) && is_message(b));
  return same_op && a.dtype == b.dtype && a.result == b.result && a.device == b.device &&
         a.reduce == b.reduce && a.order == b.order && a.divide_by == b.divide_by &&
         (a.root == b.root || is_message(a)) && a.size == b.size &&
         a.counts.is_list() == b.counts.is_list() && a.counts == b.counts && a.unit == b.unit &&
         a.declared == b.declared;
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
  const int size = static_cast<int>(calls.size());
  for (int i = 0; i < size; ++i) {
    for (int j = 0; j < size; ++j) {
      const Call &sender = calls[static_cast<size_t>(i)], &receiver = calls[static_cast<size_t>(j)];
      std::string line = count_disagreement(sender.send_counts, i, receiver.recv_counts, j, ranks);
      if (!line.empty()) return line;
    }
  }
  return "";
}

}  // namespace

const char* name(Collective op) {
  constexpr const char* names[kCollectiveCount] = {
      "all_reduce", "reduce",     "reduce_scatter", "all_gather", "broadcast", "scatter",
      "gather",     "all_to_all", "send",           "recv",       "barrier",   "split"};
  return names[static_cast<int>(op)];
}

const char* name(ReduceOp op) {
  constexpr const char* names[] = {"sum", "product", "min", "max", "mean"};
  return names[static_cast<int>(op)];
}

const char* name(Order order) {
  constexpr const char* names[] = {"tree", "ranks", "native"};
  return names[static_cast<int>(order)];
}

bool Call::reduces() const {
  return op == Collective::all_reduce || op == Collective::reduce ||
         op == Collective::reduce_scatter;
}

Chunk Call::summed_by(int i) const {
  if (op != Collective::reduce) return counts.chunk(i);
  return i == root ? Chunk{0, size} : Chunk{};
}

DType Call::partial_dtype() const {
  const bool rounds = reduce != ReduceOp::min && reduce != ReduceOp::max;
  return is_half(dtype) && rounds ? kFloat32 : dtype;
}

core::Fold Call::fold_within() const {
  core::Fold within = fold();
  if (reduce == ReduceOp::mean) within.op = core::Combine::sum;
  within.result = partial_dtype();
  return within;
}

core::Fold Call::fold_over_hosts(int ranks) const {
  core::Fold over = fold();
  over.dtype = partial_dtype();
  over.divisor = core::divisor_of(fold(), static_cast<size_t>(ranks));
  return over;
}

std::string describe(const Call& call, uint64_t sequence, const std::string& axis) {
  std::string text = std::string(name(call.op)) + " (call " +
                     std::to_string(call.number.value_or(sequence)) + " of '" + axis + "'";
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
    // What was done before may be the cause of any other difference, so it is told with it.
    const std::string before = field_disagreement(kDeclared, calls, ranks);
    for (const Field& field : kFields) {
      if (is_message(first) && (field.text == op_text || field.text == root_text)) continue;
      const std::string line = field_disagreement(field, calls, ranks);
      if (!line.empty()) return before.empty() ? line : line + "; " + before;
    }
    if (!before.empty()) return before;
  }
  return first.op == Collective::all_to_all ? count_disagreement(calls, ranks) : "";
}

Digest digest_of(const Call& call) {
  const auto word = [](auto value) { return static_cast<uint64_t>(value); };
  const bool message = is_message(call);
  const double divisor = call.divide_by == 0 ? 0.0 : call.divide_by;  // -0.0 is equal to it
  return Digest()
      .put(word(message ? Collective::send : call.op))
      .put(word(message ? -1 : call.root))
      .put(word(call.dtype))
      .put(word(call.result))
      .put(word(call.device.type))
      .put(word(call.device.index))
      .put(word(call.reduce))
      .put(word(call.order))
      .put(std::bit_cast<uint64_t>(divisor))
      .put(word(call.size))
      .put(word(call.counts.is_list()))
      .put(call.counts.digest())
      .put(call.unit)
      .put(call.declared);
}

Digest balance_of(const Call& call, int me) {
  Digest balance;
  if (call.op != Collective::all_to_all) return balance;
  const auto elements = [](int from, int to, int64_t count) {
    const uint64_t lane = uint64_t{static_cast<uint32_t>(from)} << 32 | static_cast<uint32_t>(to);
    return Digest().put(lane).put(static_cast<uint64_t>(count));
  };
  for (int i = 0; i < call.send_counts.size(); ++i) {
    balance += elements(me, i, call.send_counts.count(i));
  }
  for (int i = 0; i < call.recv_counts.size(); ++i) {
    balance -= elements(i, me, call.recv_counts.count(i));
  }
  return balance;
}

std::string count_disagreement(const ChunkCounts& send, int from, const ChunkCounts& recv, int to,
                               std::span<const int> ranks) {
  const int64_t sent = send.count(to), expected = recv.count(from);
  if (sent == expected) return "";
  return "ranks disagree on the counts: rank " + std::to_string(ranks[static_cast<size_t>(from)]) +
         " sends " + std::to_string(sent) + " elements to rank " +
         std::to_string(ranks[static_cast<size_t>(to)]) + ", which expects " +
         std::to_string(expected);
}

}  // namespace hero::dist
