#include <hero/core/device/backend.h>
#include <hero/core/functions/map.h>
#include <hero/core/kernels/elementwise.h>
#include <hero/core/ledger.h>
#include <hero/dist/data_parallel/quantized_sum.h>

// G ranks of a host, H hosts; rank h G + g. A row is a rank's part.

namespace hero::dist {
namespace {

struct PartExchange {
  Codec codec;
  int64_t row;
  Array sent, received;

  PartExchange(Codec with, int64_t elements, int64_t rows, Device device)
      : codec(with), row(elements) {
    const MemoryScope tag(MemoryTag::communication);
    const Shape bytes{rows, core::encoded_bytes(codec, row)};
    sent = Array::empty(bytes, kUInt8, device);
    received = Array::empty(bytes, kUInt8, device);
  }
};

void divide_into(const Array& sum, double divide_by, const Array& own) {
  if (own.numel() == 0) return;
  core::map_into<core::kernels::Div>(own, sum, Scalar(divide_by));
}

// The sum of all rows.
void finish(const PartExchange& last, const Array& own, double divide_by) {
  const MemoryScope tag(MemoryTag::communication);
  const Array sum = Array::empty({own.numel()}, kFloat32, own.device());
  core::decode(last.codec, last.received, last.row, sum, core::DecodeMode::sum);
  divide_into(sum, divide_by, own);
}

// Rows in the order of ranks become rows by place in the host, those of its hosts behind each
// other.
Array by_place(const Array& parts, int64_t row, int places, int hosts) {
  return parts.reshape({hosts, places, row})
      .permute({1, 0, 2})
      .contiguous()
      .reshape({parts.numel()});
}

}  // namespace

QuantizedRoute quantized_route(const Communicator& group, int ranks_of_host) {
  check(ranks_of_host >= 1 && group.size() % ranks_of_host == 0,
        "fully_shard: quantize.ranks_of_host ", ranks_of_host, " does not divide ", group.size(),
        " ranks");
  if (ranks_of_host == 1 || ranks_of_host == group.size()) return {group};
  const int host = group.rank() / ranks_of_host, place = group.rank() % ranks_of_host;
  return {group.split(host, place, "within hosts"), group.split(place, host, "between hosts")};
}

Future quantized_reduce_scatter(const QuantizedRoute& route, Codec codec, const Array& own,
                                const Array& parts, double divide_by) {
  const int64_t n = own.numel();
  const int places = route.inner.size(), hosts = route.hosts();
  const auto exchange =
      std::make_shared<PartExchange>(codec, n, int64_t{places} * hosts, own.device());
  if (n == 0) return {};
  const Array rows = hosts > 1 ? by_place(parts, n, places, hosts) : parts;
  core::encode(codec, rows, n, exchange->sent);
  Future within(route.inner.all_to_all(exchange->received, exchange->sent, {.async = true}));
  if (hosts == 1)
    return std::move(within).then(
        [exchange, own, divide_by] { finish(*exchange, own, divide_by); });
  const auto between = std::make_shared<PartExchange>(codec, n, hosts, own.device());
  return std::move(within)
      .then([exchange, between, route, n, places, hosts] {
        const MemoryScope tag(MemoryTag::communication);
        const int64_t bytes = exchange->received.size(1);
        const Array by_rank = exchange->received.reshape({places, hosts, bytes});
        for (int64_t host = 0; host < hosts; ++host) {
          const Array sum = Array::empty({n}, kFloat32, exchange->sent.device());
          const Array of_host = by_rank.select(1, host).contiguous();
          core::decode(exchange->codec, of_host, n, sum, core::DecodeMode::sum);
          core::encode(exchange->codec, sum, n, between->sent.slice(0, host, host + 1));
        }
        return route.outer.all_to_all(between->received, between->sent, {.async = true});
      })
      .then([between, own, divide_by] { finish(*between, own, divide_by); });
}

}  // namespace hero::dist
