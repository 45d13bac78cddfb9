#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

#include <hero/core/error.h>
#include <hero/core/memory/fetcher.h>
#include <hero/core/profile/observer.h>
#include <hero/dist/backends/rank_state.h>
#include <hero/dist/communicator.h>

namespace hero::dist {
namespace {

thread_local std::string current_unit;

// Meta arrays have no bytes, but those that lie in a planned file are read from there; empty ones
// need none.
std::byte* pointer(const Array& array) {
  if (!array.defined() || array.numel() == 0) return nullptr;
  if (array.device().type != DeviceType::meta) return array.bytes();
  if (core::is_away(array)) core::fetcher_of(array.storage())->fetch();
  return nullptr;
}

// True when the arrays share bytes, but for b lying exactly `begin` elements into a.
bool overlap_but_at(const Array& a, const Array& b, int64_t begin) {
  const std::byte *pa = pointer(a), *pb = pointer(b);
  if (pa == nullptr || pb == nullptr) return false;
  if (pb == pa + begin * item_size(a.dtype())) return false;
  return pa < pb + b.nbytes() && pb < pa + a.nbytes();
}

void check_counted(Collective op, const char* what, const Array& array, const Chunk& own,
                   const Call& call) {
  check(own.count == array.numel(), name(op), ": ", what, " has ", array.numel(),
        " elements, the counts say ", own.count, ": ", call.counts);
}

void check_input_apart(Collective op, const Array& output, const Array& input, const Chunk& own) {
  check(!overlap_but_at(output, input, own.begin), name(op),
        ": output and input overlap; the input may only be the output's own part");
}

void check_output_apart(Collective op, const Array& output, const Array& input, const Chunk& own) {
  check(!overlap_but_at(input, output, own.begin), name(op),
        ": output and input overlap; the output may only be the input's own part");
}

}  // namespace

UnitScope::UnitScope(std::string unit) : previous_(std::exchange(current_unit, std::move(unit))) {}
UnitScope::~UnitScope() { current_unit = std::move(previous_); }

Communicator::Communicator(std::shared_ptr<Backend> backend, std::shared_ptr<RankState> state,
                           std::string axis)
    : backend_(std::move(backend)), state_(std::move(state)), axis_(std::move(axis)) {}

Backend& Communicator::backend() const {
  check(defined(),
        "communicator: undefined; this rank is in none of the groups, or it was made "
        "without launch(), run_ranks(), split() or group(), or it was moved from; use the one "
        "that it was moved into");
  return *backend_;
}

Traffic& Communicator::traffic() const {
  backend();
  return state_->traffic;
}

std::ostream& Communicator::out() const {
  backend();
  return state_->out;
}

void Communicator::check_rank(Collective op, const char* what, int rank) const {
  check(rank >= 0 && rank < size(), name(op), ": ", what, " is not a rank of '", axis_, "': ", rank,
        "; ranks are 0 to ", size() - 1);
}

void Communicator::check_array(Collective op, const char* what, const Array& array) const {
  check(array.defined(), name(op), ": ", what, " is undefined");
  const BackendKind backend = backend_kind();
  const DeviceType device = array.device().type;
  const bool simulated = backend == BackendKind::simulated;  // it says itself how much of the cpu's
  const bool has_devices = backend == BackendKind::local || backend == BackendKind::nccl;
  check(device == DeviceType::cpu || (simulated && device == DeviceType::meta) ||
            (has_devices && device == DeviceType::cuda),
        name(op), ": ", what, " is on ", array.device(),
        simulated     ? "; simulated ranks have no values: make it on meta"
        : has_devices ? "; this backend exchanges cpu and cuda arrays"
                      : "; this backend exchanges cpu arrays");
  check(array.is_contiguous(), name(op), ": ", what, " is not contiguous: ", array.shape(),
        " with strides ", array.strides(), "; pass contiguous()");
}

void Communicator::check_pair(Collective op, const Array& output, const Array& input) const {
  check(output.dtype() == input.dtype(), name(op), ": dtypes differ: output ", output.dtype(),
        ", input ", input.dtype());
  check_devices(op, output, input);
}

void Communicator::check_devices(Collective op, const Array& output, const Array& input) const {
  check(output.device() == input.device(), name(op), ": devices differ: output ", output.device(),
        ", input ", input.device());
}

void Communicator::check_counts(Collective op, const ChunkCounts& counts) const {
  if (counts.empty()) return;
  check(counts.size() == size(), name(op), ": ", counts.size(), " counts for ", size(),
        " ranks: ", counts);
  check(counts.fault() == nullptr, name(op), ": ", counts.fault(), ": ", counts);
}

Call Communicator::make_call(Collective op, const Array& x, int64_t total,
                             const CallOptions& options) const {
  check_counts(op, options.counts);
  const bool parted = op == Collective::reduce_scatter || op == Collective::all_gather ||
                      op == Collective::scatter || op == Collective::gather;
  check(parted || options.counts.empty(), name(op), ": has no parts to count: ", options.counts,
        "; leave counts empty");
  Call call;
  call.op = op;
  call.dtype = call.result = x.dtype();
  call.device = x.device();
  call.reduce = options.op;
  check(call.reduces() || options.op == ReduceOp::sum, name(op),
        ": does not reduce: ", name(options.op), "; leave op out");
  check(call.reduces() || options.order == Order::tree, name(op), ": does not reduce: order ",
        name(options.order), "; leave order out");
  call.order = options.order;
  check(options.divide_by == 0.0 || (options.op == ReduceOp::mean && options.divide_by > 0.0 &&
                                     std::isfinite(options.divide_by)),
        name(op), ": divide_by is of a mean, and a positive number: ", options.divide_by, " of a ",
        name(options.op));
  call.divide_by = options.divide_by;
  if (call.reduces() && call.order == Order::tree) call.ranks_of_host = backend().ranks_of_host();
  check(options.op != ReduceOp::mean || is_floating(x.dtype()), name(op), ": mean of ", x.dtype(),
        " is not exact; convert to a floating dtype, or use sum");
  call.counts = options.counts.empty() ? ChunkCounts::balanced(total, size()) : options.counts;
  call.size = call.counts.total();
  check(call.reduces() || options.after.pending() == nullptr, name(op),
        ": does not reduce: leave `after` out, and wait for the other call");
  call.after = options.after.pending();
  call.unit = options.unit.empty() ? current_unit : options.unit;
  return call;
}

Work Communicator::post(Call call, const Array& output, const Array& input, bool async) const {
  call.input = pointer(input);
  call.output = pointer(output);
  call.awaited = !async;
  const Collective op = call.op;
  if (op != Collective::send && op != Collective::recv) call.declared = backend().take_declared();
  const std::string unit = call.unit;
  const int64_t bytes = bytes_sent(call, rank(), size());
  if (!state_->met) call.phase = Phase::join;
  int64_t observed = 0;
  if (core::observer != nullptr && op != Collective::split) [[unlikely]]
    observed = core::observer->begin_call({name(op), axis_, unit, bytes});
  FlightCall flight{.op = op,
                    .axis = axis_,
                    .unit = unit,
                    .dtype = call.dtype,
                    .size = call.size,
                    .bytes = bytes,
                    .root = call.root};
  call.flight = {state_->flight, state_->flight->ask(std::move(flight))};
  const FlightEntry noted = call.flight;
  Work work(backend().post(std::move(call), input, output), observed);
  work.record(noted);
  if (output.defined()) output.storage().bump_version();
  if (op != Collective::split) state_->traffic.add(op, unit, axis_, bytes);
  if (!async) {
    work.wait();
    state_->met = true;
  }
  return work;
}

Work Communicator::all_reduce(const Array& x, const CallOptions& options) const {
  check_array(Collective::all_reduce, "the array", x);
  return post(make_call(Collective::all_reduce, x, x.numel(), options), x, x, options.async);
}

Work Communicator::reduce(const Array& x, int root, const CallOptions& options) const {
  check_rank(Collective::reduce, "root", root);
  check_array(Collective::reduce, "the array", x);
  Call call = make_call(Collective::reduce, x, x.numel(), options);
  call.root = root;
  return post(std::move(call), rank() == root ? x : Array(), x, options.async);
}

Work Communicator::broadcast(const Array& x, int root, const CallOptions& options) const {
  check_rank(Collective::broadcast, "root", root);
  check_array(Collective::broadcast, "the array", x);
  Call call = make_call(Collective::broadcast, x, x.numel(), options);
  call.root = root;
  const bool sends = rank() == root;
  return post(std::move(call), sends ? Array() : x, sends ? x : Array(), options.async);
}

Work Communicator::reduce_scatter(const Array& output, const Array& input,
                                  const CallOptions& options) const {
  constexpr Collective kOp = Collective::reduce_scatter;
  check_array(kOp, "the output", output);
  check_array(kOp, "the input", input);
  const bool widens = is_half(input.dtype()) && output.dtype() == kFloat32;
  if (widens) {
    check_devices(kOp, output, input);
    check(options.order != Order::native, name(kOp), ": of ", input.dtype(),
          " into float32 is not there in Order::native; use Order::tree");
  } else {
    check_pair(kOp, output, input);
  }
  Call call = make_call(kOp, input, input.numel(), options);
  call.result = output.dtype();
  const Chunk own = call.counts.chunk(rank());
  check(call.size == input.numel(), name(kOp), ": the input has ", input.numel(),
        " elements, the counts say ", call.size, ": ", call.counts);
  check(!options.counts.empty() || call.counts.all_equal(), name(kOp), ": ", call.size,
        " elements are not even parts for ", size(), " ranks; pad the input, or give counts");
  check(own.count == output.numel(), name(kOp), ": the output has ", output.numel(),
        " elements, this rank's part ", own.count);
  if (widens) {
    check(!overlap_but_at(output, input, output.numel()), name(kOp),
          ": output and input overlap, and their dtypes differ");
  } else {
    check_output_apart(kOp, output, input, own);
  }
  return post(std::move(call), output, input, options.async);
}

Work Communicator::all_gather(const Array& output, const Array& input,
                              const CallOptions& options) const {
  constexpr Collective kOp = Collective::all_gather;
  check_array(kOp, "the output", output);
  check_array(kOp, "the input", input);
  check_pair(kOp, output, input);
  Call call = make_call(kOp, input, input.numel() * size(), options);
  const Chunk own = call.counts.chunk(rank());
  check_counted(kOp, "the input", input, own, call);
  check(call.size == output.numel(), name(kOp), ": the output has ", output.numel(),
        " elements, the inputs together ", call.size);
  check_input_apart(kOp, output, input, own);
  return post(std::move(call), output, input, options.async);
}

Work Communicator::scatter(const Array& output, const Array& input, int root,
                           const CallOptions& options) const {
  constexpr Collective kOp = Collective::scatter;
  check_rank(kOp, "root", root);
  check_array(kOp, "the output", output);
  Call call = make_call(kOp, output, output.numel() * size(), options);
  call.root = root;
  const Chunk own = call.counts.chunk(rank());
  check_counted(kOp, "the output", output, own, call);
  if (rank() != root) return post(std::move(call), output, Array(), options.async);
  check_array(kOp, "the input", input);
  check_pair(kOp, output, input);
  check(call.size == input.numel(), name(kOp), ": the root's input has ", input.numel(),
        " elements, the outputs together ", call.size);
  check_output_apart(kOp, output, input, own);
  return post(std::move(call), output, input, options.async);
}

Work Communicator::gather(const Array& output, const Array& input, int root,
                          const CallOptions& options) const {
  constexpr Collective kOp = Collective::gather;
  check_rank(kOp, "root", root);
  check_array(kOp, "the input", input);
  Call call = make_call(kOp, input, input.numel() * size(), options);
  call.root = root;
  const Chunk own = call.counts.chunk(rank());
  check_counted(kOp, "the input", input, own, call);
  if (rank() != root) return post(std::move(call), Array(), input, options.async);
  check_array(kOp, "the output", output);
  check_pair(kOp, output, input);
  check(call.size == output.numel(), name(kOp), ": the root's output has ", output.numel(),
        " elements, the inputs together ", call.size);
  check_input_apart(kOp, output, input, own);
  return post(std::move(call), output, input, options.async);
}

Work Communicator::all_to_all(const Array& output, const Array& input,
                              const AllToAllOptions& options) const {
  constexpr Collective kOp = Collective::all_to_all;
  check_array(kOp, "the output", output);
  check_array(kOp, "the input", input);
  check_pair(kOp, output, input);
  check_counts(kOp, options.send_counts);
  check_counts(kOp, options.recv_counts);
  Call call = make_call(kOp, input, 0, {.unit = options.unit});
  const auto parts = [&](const char* what, const Array& array, const ChunkCounts& given) {
    check(given.empty() || given.total() == array.numel(), name(kOp), ": the ", what, " has ",
          array.numel(), " elements, the counts say ", given.total(), ": ", given);
    const ChunkCounts even = ChunkCounts::balanced(array.numel(), size());
    check(!given.empty() || even.all_equal(), name(kOp), ": the ", what, "'s ", array.numel(),
          " elements are not even parts for ", size(), " ranks; pad it, or give counts");
    return given.empty() ? even : given;
  };
  call.send_counts = parts("input", input, options.send_counts);
  call.recv_counts = parts("output", output, options.recv_counts);
  check(!overlap_but_at(output, input, output.numel()), name(kOp), ": output and input overlap");
  return post(std::move(call), output, input, options.async);
}

Work Communicator::send(const Array& x, int to, const CallOptions& options) const {
  check_rank(Collective::send, "the receiver", to);
  check_array(Collective::send, "the array", x);
  check(to != rank() || options.async, "send: to itself, rank ", to,
        ", and waiting for it; make it async");
  Call call = make_call(Collective::send, x, x.numel(), options);
  call.root = to;
  return post(std::move(call), Array(), x, options.async);
}

Work Communicator::recv(const Array& x, int from, const CallOptions& options) const {
  check_rank(Collective::recv, "the sender", from);
  check_array(Collective::recv, "the array", x);
  Call call = make_call(Collective::recv, x, x.numel(), options);
  call.root = from;
  return post(std::move(call), x, Array(), options.async);
}

void Communicator::barrier(const CallOptions& options) const {
  Call call;
  call.op = Collective::barrier;
  call.unit = options.unit.empty() ? current_unit : options.unit;
  post(std::move(call), Array(), Array(), false);
}

void Communicator::declare(const std::string& what) const {
  if (size() > 1) backend().declare(what);
}

std::vector<int64_t> Communicator::exchange(std::span<const int64_t> words) const {
  const PhaseScope joining(Phase::join);
  Call call;
  call.op = Collective::split;
  call.dtype = kInt64;
  call.size = static_cast<int64_t>(words.size()) * size();
  call.counts = ChunkCounts::balanced(call.size, size());
  const Array all = Array::empty({call.size}, kInt64);
  post(std::move(call), all, Array::from(words, {static_cast<int64_t>(words.size())}), false);
  return all.to_vector<int64_t>();
}

Communicator Communicator::split(int color, int key, const std::string& axis) const {
  check(backend_kind() != BackendKind::simulated,
        "split: simulated ranks cannot ask the others for their colors; use group() or a Mesh");
  const int64_t words[] = {color, key};
  const std::vector<int64_t> all = exchange(words);
  if (color < 0) {
    backend().group_of_others(axis);
    return {};
  }
  std::vector<int> members;
  const auto at = [&](int rank, int word) {
    return all[2 * static_cast<size_t>(rank) + static_cast<size_t>(word)];
  };
  for (int i = 0; i < size(); ++i) {
    if (at(i, 0) == color) members.push_back(i);
  }
  std::stable_sort(members.begin(), members.end(),
                   [&](int a, int b) { return at(a, 1) < at(b, 1); });
  const PhaseScope joining(Phase::join);
  return {backend().group(members, axis), state_, axis};
}

Communicator Communicator::group(std::span<const int> ranks, const std::string& axis) const {
  uint64_t hash = 0xcbf29ce484222325u;  // FNV-1a over the list
  for (size_t i = 0; i < ranks.size(); ++i) {
    check_rank(Collective::split, "a member of the group", ranks[i]);
    check(std::count(ranks.begin(), ranks.end(), ranks[i]) == 1, "group: rank ", ranks[i],
          " is named twice");
    hash = (hash ^ static_cast<uint64_t>(ranks[i])) * 0x100000001b3u;
  }
  const bool member = std::find(ranks.begin(), ranks.end(), rank()) != ranks.end();
  check(member || ranks.empty(), "group: rank ", rank(),
        " is not in its own list; ranks outside pass an empty list");
  const int64_t words[] = {static_cast<int64_t>(hash), ranks.empty() ? 0 : 1};
  const std::vector<int64_t> all = exchange(words);
  if (ranks.empty()) {
    backend().group_of_others(axis);
    return {};
  }
  for (size_t i = 0; i < ranks.size(); ++i) {
    const size_t place = 2 * static_cast<size_t>(ranks[i]);
    check(all[place] == words[0] && all[place + 1] == 1, "group: rank ", rank(), " and rank ",
          ranks[i], " of '", axis_, "' name different members for '", axis, "'");
  }
  const PhaseScope joining(Phase::join);
  return {backend().group(ranks, axis), state_, axis};
}

}  // namespace hero::dist
