#include <hero/dist/engines/mpi/wire.h>

namespace hero::dist {

void put_call(Packet& packet, const Call& call) {
  packet.put(call.op)
      .put(call.dtype)
      .put(call.reduce)
      .put(call.order)
      .put(call.root)
      .put(call.size)
      .put(call.device);
  packet.put(call.counts).put(call.send_counts).put(call.recv_counts).put(call.unit);
}

Call take_call(Packet& packet) {
  Call call;
  call.op = packet.take<Op>();
  call.dtype = packet.take<DType>();
  call.reduce = packet.take<ReduceOp>();
  call.order = packet.take<Order>();
  call.root = packet.take<int>();
  call.size = packet.take<int64_t>();
  call.device = packet.take<Device>();
  call.counts = packet.take_list<int64_t>();
  call.send_counts = packet.take_list<int64_t>();
  call.recv_counts = packet.take_list<int64_t>();
  call.unit = packet.take<std::string>();
  return call;
}

}  // namespace hero::dist
