#include <algorithm>

#include <hero/dist/backends/mpi/wire.h>
#include <hero/dist/backends/mpi/world.h>

namespace hero::dist {
namespace {

// [note: counts on the wire] Balanced counts are sent as two numbers, others as one number for each
// part. The message also tells whether they were given as a list, since ranks compare that.
enum class CountsForm : uint8_t { balanced, balanced_list, list };

void put_counts(Packet& packet, const ChunkCounts& counts) {
  if (!counts.is_balanced()) {
    packet.put(CountsForm::list).put(counts.to_vector());
    return;
  }
  packet.put(counts.is_list() ? CountsForm::balanced_list : CountsForm::balanced)
      .put(counts.size())
      .put(counts.total());
}

ChunkCounts take_counts(Packet& packet) {
  const auto form = packet.take<CountsForm>();
  if (form == CountsForm::list) return packet.take_list<int64_t>();
  const int parts = packet.take<int>();
  const auto total = packet.take<int64_t>();
  if (parts == 0) return {};
  const ChunkCounts counts = ChunkCounts::balanced(total, parts);
  return form == CountsForm::balanced_list ? counts.as_list() : counts;
}

}  // namespace

void put_call(Packet& packet, const Call& call) {
  packet.put(call.op)
      .put(call.dtype)
      .put(call.result)
      .put(call.reduce)
      .put(call.order)
      .put(call.divide_by)
      .put(call.root)
      .put(call.size)
      .put(call.device);
  for (const ChunkCounts* counts : {&call.counts, &call.send_counts, &call.recv_counts}) {
    put_counts(packet, *counts);
  }
  packet.put(call.unit).put(call.declared);
}

Call take_call(Packet& packet) {
  Call call;
  call.op = packet.take<Collective>();
  call.dtype = packet.take<DType>();
  call.result = packet.take<DType>();
  call.reduce = packet.take<ReduceOp>();
  call.order = packet.take<Order>();
  call.divide_by = packet.take<double>();
  call.root = packet.take<int>();
  call.size = packet.take<int64_t>();
  call.device = packet.take<Device>();
  call.counts = take_counts(packet);
  call.send_counts = take_counts(packet);
  call.recv_counts = take_counts(packet);
  call.unit = packet.take<std::string>();
  call.declared = packet.take<std::string>();
  return call;
}

bool Told::has(const CallKey& key) const {
  const auto calls = begun.find(key.lane);
  return calls != begun.end() && key.sequence < calls->second &&
         std::find(never.begin(), never.end(), key) == never.end();
}

void put_summary(Packet& packet, const StatementSummary& summary) {
  packet.put(summary.least).put(summary.greatest).put(summary.balance).put(summary.carried);
}

StatementSummary take_summary(Packet& packet) {
  StatementSummary summary;
  summary.least = packet.take<Digest>();
  summary.greatest = packet.take<Digest>();
  summary.balance = packet.take<Digest>();
  summary.carried = packet.take<std::string>();
  return summary;
}

void put_told(Packet& packet, const Told& told) {
  packet.put(told.begun.size());
  for (const auto& [lane, calls] : told.begun) packet.put(lane).put(calls);
  packet.put(told.never);
}

Told take_told(Packet& packet) {
  Told told;
  for (auto left = packet.take<size_t>(); left > 0; --left) {
    const Lane lane = packet.take<Lane>();
    told.begun[lane] = packet.take<uint64_t>();
  }
  told.never = packet.take_list<CallKey>();
  return told;
}

void put_failure(Packet& packet, const Failure& failure) {
  packet.put(failure.rank).put(failure.line);
}

Failure take_failure(Packet& packet) {
  const int rank = packet.take<int>();
  return {rank, packet.take<std::string>()};
}

void ToldByAll::add(const Told& told) {
  for (const auto& [lane, calls] : told.begun) {
    Begun& all = begun[lane];
    all.least = all.ranks == 0 ? calls : std::min(all.least, calls);
    ++all.ranks;
  }
  never.insert(told.never.begin(), told.never.end());
}

void ToldByAll::add(const ToldByAll& other) {
  for (const auto& [lane, theirs] : other.begun) {
    Begun& all = begun[lane];
    all.least = all.ranks == 0 ? theirs.least : std::min(all.least, theirs.least);
    all.ranks += theirs.ranks;
  }
  never.insert(other.never.begin(), other.never.end());
}

bool ToldByAll::has(const CallKey& key, int ranks) const {
  const auto calls = begun.find(key.lane);
  return calls != begun.end() && calls->second.ranks >= ranks &&
         key.sequence < calls->second.least && never.count(key) == 0;
}

void put_told_by_all(Packet& packet, const ToldByAll& told) {
  packet.put(told.begun.size());
  for (const auto& [lane, begun] : told.begun) {
    packet.put(lane).put(begun.least).put(begun.ranks);
  }
  packet.put(std::vector<CallKey>(told.never.begin(), told.never.end()));
}

ToldByAll take_told_by_all(Packet& packet) {
  ToldByAll told;
  for (auto left = packet.take<size_t>(); left > 0; --left) {
    const Lane lane = packet.take<Lane>();
    ToldByAll::Begun& begun = told.begun[lane];
    begun.least = packet.take<uint64_t>();
    begun.ranks = packet.take<int>();
  }
  const auto never = packet.take_list<CallKey>();
  told.never = {never.begin(), never.end()};
  return told;
}

}  // namespace hero::dist
