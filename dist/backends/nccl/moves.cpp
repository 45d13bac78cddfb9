#include <algorithm>
#include <utility>
#include <vector>

#include <hero/core/array.h>
#include <hero/core/error.h>
#include <hero/core/ledger.h>
#include <hero/dist/backends/nccl/moves.h>

namespace hero::dist::nccl {
namespace {

constexpr int64_t kStaged = int64_t{64} << 20;  // bytes of what has come and is not added up

ncclDataType_t type_of(DType dtype) {
  switch (dtype) {
    case kBool:
    case kUInt8:
      return ncclUint8;
    case kInt32:
      return ncclInt32;
    case kInt64:
      return ncclInt64;
    case kFloat16:
      return ncclFloat16;
    case kBFloat16:
      return ncclBfloat16;
    case kFloat32:
      return ncclFloat32;
    case kFloat64:
      return ncclFloat64;
  }
  fail("nccl: no type for ", dtype);
}

// Bytes of 0 and 1: "or" and "and" are the larger and the smaller.
ncclRedOp_t op_of(ReduceOp op, DType dtype) {
  if (dtype == kBool) {
    return op == ReduceOp::sum || op == ReduceOp::max ? ncclMax : ncclMin;
  }
  constexpr ncclRedOp_t ops[] = {ncclSum, ncclProd, ncclMin, ncclMax, ncclAvg};
  return ops[static_cast<int>(op)];
}

// Whether every order of a reduction has the same bits: integers wrap, and bools are 0 and 1. Of
// floating minima and maxima NCCL does not say what becomes of NaN and of the sign of zero.
bool is_exact(const Call& call) { return !is_floating(call.dtype); }

size_t length(int64_t count) { return static_cast<size_t>(count); }

// A call on its way to NCCL.
class Asking {
 public:
  Asking(const End& end, const Call& call, const std::string& where, core::Array staged = {})
      : end_(end),
        call_(call),
        where_(where),
        item_(item_size(call.dtype)),
        staged_(std::move(staged)) {}

  void run() {
    if (is_ordered()) return ordered();
    if (call_.reduces()) return native();
    switch (call_.op) {
      case Collective::all_gather:
        return all_gather(call_.input);
      case Collective::broadcast:
        return broadcast();
      case Collective::gather:
        return gather();
      case Collective::scatter:
        return scatter();
      case Collective::all_to_all:
        return all_to_all();
      default:
        fail(where_, ": not a collective of arrays");
    }
  }

  core::Array staging() const {
    if (!is_ordered() || segment() == 0) return {};
    const bool adds = call_.two_levels() ? adds_up_for_hosts() : summed(end_.rank).count > 0;
    const MemoryScope tag(MemoryTag::communication);
    return core::Array::empty({adds ? staged_of_element() * segment() : 0}, kUInt8, end_.device);
  }

 private:
  bool is_ordered() const {
    return call_.reduces() && call_.order != Order::native && !is_exact(call_);
  }
  Chunk chunk(int i) const { return call_.counts.chunk(i); }
  Chunk own() const { return chunk(end_.rank); }
  bool is_root() const { return end_.rank == call_.root; }
  bool even() const { return call_.counts.all_equal(); }
  void said(ncclResult_t status) const {
    check_nccl(end_.comm.library(), status, end_.comm.handle(), where_);
  }
  template <class Calls>
  void group(const Calls& calls) {
    end_.comm.group(where_, call_.phase, calls);
  }
  template <class Each>
  void for_others(const Each& each) const {
    for (int i = 1; i < end_.size; ++i) each((end_.rank + i) % end_.size);
  }

  void send(int to, const std::byte* data, int64_t count) { send(to, data, count, item_); }
  void receive(int from, std::byte* data, int64_t count) { receive(from, data, count, item_); }
  void send(int to, const std::byte* data, int64_t count, int64_t item) {
    if (count == 0) return;
    said(end_.comm.library().Send(data, length(count * item), ncclUint8, to, end_.comm.handle(),
                                  end_.comm.queue()));
  }
  void receive(int from, std::byte* data, int64_t count, int64_t item) {
    if (count == 0) return;
    said(end_.comm.library().Recv(data, length(count * item), ncclUint8, from, end_.comm.handle(),
                                  end_.comm.queue()));
  }
  void copy(const std::byte* from, std::byte* to, int64_t count) {
    if (count > 0 && from != to) end_.exchange.copy(from, to, count * item_);
  }

  void gather_even(const std::byte* own_part, int64_t count) {
    said(end_.comm.library().AllGather(own_part, call_.output, length(count * item_), ncclUint8,
                                       end_.comm.handle(), end_.comm.queue()));
  }

  // `own` is this rank's part, wherever it lies; the output takes all.
  void all_gather(const std::byte* own_part) {
    if (call_.size == 0) return;
    if (even()) return group([&] { gather_even(own_part, call_.size / end_.size); });
    copy(own_part, call_.output + own().begin * item_, own().count);
    group([&] {
      for_others([&](int i) {
        send(i, own_part, own().count);
        receive(i, call_.output + chunk(i).begin * item_, chunk(i).count);
      });
    });
  }

  void broadcast() {
    if (call_.size == 0) return;
    const std::byte* const from = is_root() ? call_.input : call_.output;
    std::byte* const to = is_root() ? const_cast<std::byte*>(call_.input) : call_.output;
    group([&] {
      said(end_.comm.library().Broadcast(from, to, length(call_.size * item_), ncclUint8,
                                         call_.root, end_.comm.handle(), end_.comm.queue()));
    });
  }

  void gather() {
    if (is_root()) copy(call_.input, call_.output + own().begin * item_, own().count);
    group([&] {
      if (!is_root()) return send(call_.root, call_.input, own().count);
      for_others([&](int i) { receive(i, call_.output + chunk(i).begin * item_, chunk(i).count); });
    });
  }

  void scatter() {
    if (is_root()) copy(call_.input + own().begin * item_, call_.output, own().count);
    group([&] {
      if (!is_root()) return receive(call_.root, call_.output, own().count);
      for_others([&](int i) { send(i, call_.input + chunk(i).begin * item_, chunk(i).count); });
    });
  }

  void all_to_all() {
    const auto sent = [&](int i) { return call_.send_counts.chunk(i); };
    const auto come = [&](int i) { return call_.recv_counts.chunk(i); };
    copy(call_.input + sent(end_.rank).begin * item_, call_.output + come(end_.rank).begin * item_,
         sent(end_.rank).count);
    group([&] {
      for_others([&](int i) {
        send(i, call_.input + sent(i).begin * item_, sent(i).count);
        receive(i, call_.output + come(i).begin * item_, come(i).count);
      });
    });
  }

  void native() {
    if (call_.size == 0) return;
    const Library& nccl = end_.comm.library();
    const ncclDataType_t type = type_of(call_.dtype);
    const bool divides =
        call_.reduce == ReduceOp::mean && call_.divide_by > 0.0;  // by what it says
    const ncclRedOp_t op = divides ? ncclSum : op_of(call_.reduce, call_.dtype);
    const auto reduce = [&](const std::byte* from, std::byte* to, int64_t count, int root) {
      said(nccl.Reduce(from, to, length(count), type, op, root, end_.comm.handle(),
                       end_.comm.queue()));
    };
    group([&] {
      if (call_.op == Collective::all_reduce) {
        said(nccl.AllReduce(call_.input, call_.output, length(call_.size), type, op,
                            end_.comm.handle(), end_.comm.queue()));
      } else if (call_.op == Collective::reduce) {
        reduce(call_.input, call_.output, call_.size, call_.root);
      } else if (even()) {
        said(nccl.ReduceScatter(call_.input, call_.output, length(own().count), type, op,
                                end_.comm.handle(), end_.comm.queue()));
      } else {
        for (int i = 0; i < end_.size; ++i) {
          if (chunk(i).count > 0) {
            reduce(call_.input + chunk(i).begin * item_, call_.output, chunk(i).count, i);
          }
        }
      }
    });
    const int64_t count = call_.op == Collective::reduce_scatter ? own().count : call_.size;
    if (!divides || (call_.op == Collective::reduce && !is_root())) return;
    const std::byte* const sums[] = {call_.output};
    end_.exchange.combine(call_.fold(), sums, call_.output, count);
  }

  // Where this rank's sums go.
  void ordered() {
    if (call_.op == Collective::all_reduce) return ordered_of_all();
    exchange_and_sum(call_.output);
  }

  // [note: parts of an all_reduce] Nobody but this backend sees them. All ranks sum up equal parts,
  // which begin at 16 bytes and which NCCL gathers in a call of its own; the last rank sums up what
  // is left as well, less than 16 bytes a rank, and broadcasts it.
  int64_t even_part() const { return call_.size / end_.size / pack() * pack(); }
  void ordered_of_all() {
    if (call_.size == 0) return;
    const int64_t even = even_part(), left = call_.size - even * end_.size;
    std::byte* const sums = call_.output + end_.rank * even * item_;
    exchange_and_sum(sums);
    std::byte* const behind = call_.output + end_.size * even * item_;
    group([&] {
      if (even > 0) gather_even(sums, even);
      if (left == 0) return;
      said(end_.comm.library().Broadcast(behind, behind, length(left * item_), ncclUint8,
                                         end_.size - 1, end_.comm.handle(), end_.comm.queue()));
    });
  }

  // What rank i sums up of all inputs; see [note: parts of an all_reduce].
  Chunk summed(int i) const {
    if (call_.op != Collective::all_reduce) return call_.summed_by(i);
    const int64_t even = even_part(), left = call_.size - even * end_.size;
    return {i * even, i == end_.size - 1 ? even + left : even};
  }
  // All ranks make the same number of steps: those of the longest part.
  int64_t longest() const {
    int64_t most = 0;
    for (int i = 0; i < end_.size; ++i) most = std::max(most, summed(i).count);
    return most;
  }
  int64_t pack() const { return 16 / item_; }
  // Bytes that lie in memory for each element of a step.
  int64_t staged_of_element() const {
    if (!call_.two_levels()) return std::max(end_.size - 1, 1) * item_;
    return hosts() * (call_.ranks_of_host * item_ + 2 * item_size(call_.partial_dtype()));
  }
  // The elements of a step: whole packs, so that each rank's segment begins where the device reads
  // 16 bytes at a time.
  int64_t segment() const {
    const int64_t fits = kStaged / staged_of_element() / pack() * pack();
    const int64_t whole = (longest() + pack() - 1) / pack() * pack();
    return std::min(whole, std::max(fits, pack()));
  }

  // Of two levels: the hosts, this rank's host, and its index there.
  int hosts() const { return end_.size / call_.ranks_of_host; }
  int host() const { return end_.rank / call_.ranks_of_host; }
  int index() const { return end_.rank % call_.ranks_of_host; }
  int rank_of(int of_host, int with_index) const {
    return of_host * call_.ranks_of_host + with_index;
  }
  // Whether a rank with this index sums up anything.
  bool adds_up_for_hosts() const {
    for (int i = index(); i < end_.size; i += call_.ranks_of_host) {
      if (summed(i).count > 0) return true;
    }
    return false;
  }

  // [note: sums in two levels on GPUs] Call::two_levels(), in steps of equally many elements of
  // each part. In step k the ranks of a host exchange their contributions, and in the same group of
  // NCCL's the sums of step k - 1 go between hosts: by different ways, so at the same time. A rank
  // sends its own contributions to itself, so that all lie in rows, one for each rank of the host,
  // with room for the segment of each host, and are added up by one kernel.
  void exchange_in_levels(std::byte* sums) {
    const int64_t most = longest(), step = segment();
    if (step == 0) return;
    const core::Array staged = staged_.defined() ? staged_ : staging();
    const bool adds = staged.numel() > 0;
    const int h = call_.ranks_of_host;
    const int64_t sum_item = item_size(call_.partial_dtype());
    const auto row_at = [&](int64_t element) { return staged.bytes() + element * item_; };
    const auto sum_at = [&](int64_t element) {
      return row_at(hosts() * h * step) + element * sum_item;
    };
    const auto count = [&](int rank, int64_t begin) {
      return std::clamp<int64_t>(summed(rank).count - begin, 0, step);
    };
    // elements from the segment of a host to that of the next
    const auto stride = [&](int64_t begin) {
      return std::min(step, (most - begin + pack() - 1) / pack() * pack());
    };
    const auto contribute = [&](int to, int64_t begin) {
      for (int i = 0; i < hosts(); ++i) {
        const int receiver = rank_of(i, to);
        send(rank_of(host(), to), call_.input + (summed(receiver).begin + begin) * item_,
             count(receiver, begin));
      }
    };
    const auto take_contributions = [&](int from, int64_t begin) {
      for (int i = 0; i < hosts(); ++i) {
        receive(rank_of(host(), from), row_at((from * hosts() + i) * stride(begin)),
                count(rank_of(i, index()), begin));
      }
    };
    const auto exchange_sums = [&](int to, int from, int64_t begin) {
      const int receiver = rank_of(to, index());
      send(receiver, sum_at(to * stride(begin)), count(receiver, begin), sum_item);
      receive(rank_of(from, index()), sum_at((hosts() + from) * step), count(end_.rank, begin),
              sum_item);
    };
    for (int64_t begin = 0; begin < most + step; begin += step) {
      const int64_t before = begin - step;
      group([&] {
        for (int i = 0; i < h && begin < most; ++i) {
          contribute((index() + i) % h, begin);
          if (adds) take_contributions((index() + h - i) % h, begin);
        }
        for (int i = 1; i < hosts() && begin > 0 && adds; ++i) {
          exchange_sums((host() + i) % hosts(), (host() + hosts() - i) % hosts(), before);
        }
      });
      if (!adds) continue;
      if (begin > 0 && count(end_.rank, before) > 0) {
        std::vector<const std::byte*> of_hosts;
        for (int i = 0; i < hosts(); ++i) {
          of_hosts.push_back(sum_at(i == host() ? i * stride(before) : (hosts() + i) * step));
        }
        end_.exchange.combine(call_.fold_over_hosts(end_.size), of_hosts,
                              sums + before * item_size(call_.result), count(end_.rank, before));
      }
      if (begin >= most) continue;
      const int64_t row = hosts() * stride(begin);
      std::vector<const std::byte*> inputs;
      for (int i = 0; i < h; ++i) inputs.push_back(row_at(i * row));
      end_.exchange.combine(call_.fold_within(), inputs, sum_at(0), row);
    }
  }

  // Rank i sums up summed(i) of all inputs.
  void exchange_and_sum(std::byte* sums) {
    if (call_.two_levels()) return exchange_in_levels(sums);
    const Chunk own = summed(end_.rank);
    const int64_t most = longest(), step = segment();
    if (step == 0) return;
    const core::Array staged = staged_.defined() ? staged_ : staging();
    for (int64_t begin = 0; begin < most; begin += step) {
      const auto count = [&](const Chunk& p) {
        return std::clamp<int64_t>(p.count - begin, 0, step);
      };
      std::vector<const std::byte*> inputs(static_cast<size_t>(end_.size));
      group([&] {
        int64_t place = 0;
        for (int i = 0; i < end_.size; ++i) {
          if (i == end_.rank) continue;
          const Chunk its = summed(i);
          if (count(its) > 0) send(i, call_.input + (its.begin + begin) * item_, count(its));
          if (count(own) > 0) {
            std::byte* const to = staged.bytes() + place++ * step * item_;
            receive(i, to, count(own));
            inputs[static_cast<size_t>(i)] = to;
          }
        }
      });
      if (count(own) == 0) continue;
      inputs[static_cast<size_t>(end_.rank)] = call_.input + (own.begin + begin) * item_;
      std::byte* const to = sums + begin * item_size(call_.result);
      end_.exchange.combine(call_.fold(), inputs, to, count(own));
    }
  }

  const End& end_;
  const Call& call_;
  const std::string& where_;
  const int64_t item_;
  const core::Array staged_;
};

}  // namespace

void ask_collective(const End& end, const Call& call, const std::string& where,
                    core::Array staged) {
  Asking(end, call, where, std::move(staged)).run();
}

core::Array staging_of(const End& end, const Call& call) { return Asking(end, call, "").staging(); }

void ask_message(const End& end, const Call& call, const std::string& where) {
  if (call.size == 0) return;
  const Library& nccl = end.comm.library();
  const size_t bytes = length(call.size * item_size(call.dtype));
  end.comm.group(where, call.phase, [&] {
    const ncclResult_t status =
        call.op == Collective::send
            ? nccl.Send(call.input, bytes, ncclUint8, 1, end.comm.handle(), end.comm.queue())
            : nccl.Recv(call.output, bytes, ncclUint8, 0, end.comm.handle(), end.comm.queue());
    check_nccl(nccl, status, end.comm.handle(), where);
  });
}

}  // namespace hero::dist::nccl
