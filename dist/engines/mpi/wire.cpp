#include <hero/dist/engines/mpi/wire.h>

namespace hero::dist {
namespace {

// [note: counts on the wire] Balanced counts are two numbers; others are as many as there are
// parts. Whether they were given as a list goes along, as ranks are told apart by it.
enum class CountsForm : uint8_t { balanced, balanced_list, list };

void put_counts(Packet& packet, const PartCounts& counts) {
  if (!counts.is_balanced()) {
    packet.put(CountsForm::list).put(counts.to_vector());
    return;
  }
  packet.put(counts.is_list() ? CountsForm::balanced_list : CountsForm::balanced)
      .put(counts.size())
      .put(counts.total());
}

PartCounts take_counts(Packet& packet) {
  const auto form = packet.take<CountsForm>();
  if (form == CountsForm::list) return packet.take_list<int64_t>();
  const int parts = packet.take<int>();
  const auto total = packet.take<int64_t>();
  if (parts == 0) return {};
  const PartCounts counts = PartCounts::balanced(total, parts);
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
  for (const PartCounts* counts : {&call.counts, &call.send_counts, &call.recv_counts}) {
    put_counts(packet, *counts);
  }
  packet.put(call.unit);
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
  return call;
}

}  // namespace hero::dist
