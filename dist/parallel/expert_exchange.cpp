#include <numeric>

#include <hero/autograd/graph/op.h>
#include <hero/core/functions/indexing.h>
#include <hero/dist/parallel/expert_exchange.h>

namespace hero::dist {

namespace {

using RowCounts = std::vector<int64_t>;

int64_t total_rows(const RowCounts& counts) {
  return std::accumulate(counts.begin(), counts.end(), int64_t{0});
}

struct ExchangeRows : Op {
  static constexpr AutocastRule kAutocast = AutocastRule::fallthrough;
  Communicator comm;
  RowCounts send, recv;  // rows to and from each rank
  ExchangeRows(Communicator c, RowCounts s, RowCounts r)
      : comm(std::move(c)), send(std::move(s)), recv(std::move(r)) {}
  const char* name() const override { return "exchange_rows"; }
  Array forward(const Array& x) {
    const int64_t width = x.size(1);
    const auto elements = [width](RowCounts rows) {
      for (int64_t& n : rows) n *= width;
      return ChunkCounts(std::move(rows));
    };
    const Array out = Array::empty({total_rows(recv), width}, x.dtype(), x.device());
    comm.all_to_all(
        out, x.contiguous(),
        {.unit = "experts", .send_counts = elements(send), .recv_counts = elements(recv)});
    return out;
  }
  Grads backward(const Tensor& g) override { return {exchange_rows(comm, g, recv, send)}; }
};

// Rows in another order: row i of the result is row order[i]. Its derivative is the inverse
// permutation, and not a sum over equal indices, as that of index_select is.
struct ReorderRows : Op {
  static constexpr AutocastRule kAutocast = AutocastRule::fallthrough;
  Array order, inverse;
  ReorderRows(Array o, Array i) : order(std::move(o)), inverse(std::move(i)) {}
  const char* name() const override { return "reorder_rows"; }
  Array forward(const Array& x) { return core::index_select(x, 0, order); }
  Grads backward(const Tensor& g) override { return {record(ReorderRows(inverse, order), g)}; }
};

// Rows come in groups [rank][expert] and are computed in groups [expert][rank], an expert's tokens
// in the order of ranks.
struct ExpertGroups {
  Array order, inverse;
  RowCounts of_experts;
};

ExpertGroups group_by_expert(const RowCounts& came, size_t ranks, size_t experts, Device device) {
  RowCounts first(came.size());
  std::exclusive_scan(came.begin(), came.end(), first.begin(), int64_t{0});
  ExpertGroups result;
  result.of_experts.assign(experts, 0);
  const auto rows = static_cast<size_t>(total_rows(came));
  RowCounts order, inverse(rows);
  order.reserve(rows);
  for (size_t e = 0; e < experts; ++e) {
    for (size_t r = 0; r < ranks; ++r) {
      const size_t group = r * experts + e;
      result.of_experts[e] += came[group];
      for (int64_t i = first[group]; i < first[group] + came[group]; ++i) {
        inverse[static_cast<size_t>(i)] = static_cast<int64_t>(order.size());
        order.push_back(i);
      }
    }
  }
  result.order = Array::from(order, {total_rows(came)}).to(device);
  result.inverse = Array::from(inverse, {total_rows(came)}).to(device);
  return result;
}

}  // namespace

Tensor exchange_rows(const Communicator& comm, const Tensor& x, const RowCounts& send,
                     const RowCounts& recv) {
  return record(ExchangeRows(comm, send, recv), x);
}

Tensor ExpertExchange::run(const Tensor& rows, const RowCounts& counts, const Experts& experts) {
  if (comm_.size() == 1) return experts(rows, counts);
  const auto ranks = static_cast<size_t>(comm_.size()), here = counts.size() / ranks;
  const Array came = Array::empty({static_cast<int64_t>(counts.size())}, kInt64);
  comm_.all_to_all(came, Array::from(counts, came.shape()), {.unit = "experts"});
  const RowCounts received = came.to_vector<int64_t>();
  RowCounts send(ranks, 0), recv(ranks, 0);
  for (size_t i = 0; i < counts.size(); ++i) {
    send[i / here] += counts[i];
    recv[i / here] += received[i];
  }
  const Tensor arrived = exchange_rows(comm_, rows, send, recv);
  if (here == 1) return exchange_rows(comm_, experts(arrived, {total_rows(received)}), recv, send);
  const ExpertGroups groups = group_by_expert(received, ranks, here, rows.device());
  const Tensor sorted = record(ReorderRows(groups.order, groups.inverse), arrived);
  const Tensor results = experts(sorted, groups.of_experts);
  return exchange_rows(comm_, record(ReorderRows(groups.inverse, groups.order), results), recv,
                       send);
}

RowCounts ExpertExchange::add_up(const RowCounts& counts) {
  const Array sums = Array::from(counts, {static_cast<int64_t>(counts.size())});
  if (loads_over_.size() > 1) loads_over_.all_reduce(sums, {.unit = "loads of experts"});
  return sums.to_vector<int64_t>();
}

}  // namespace hero::dist
