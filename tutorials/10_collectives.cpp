// Collectives: what ranks say to each other, drawn, with the bytes that each one sends
#include "support/options/device.h"
#include "support/options/ranks.h"
#include "support/pictures/exchanges.h"

#include <hero/autograd/autograd.h>

using hero::Array, hero::kFloat32;
using hero::dist::Communicator, hero::dist::ChunkCounts, hero::dist::ReduceOp;
using tutorial::cells, tutorial::device, tutorial::everywhere, tutorial::RankTable, tutorial::say;

namespace {

// What this rank has seen drawn; rank 0 makes a picture of it.
thread_local std::vector<tutorial::Exchange> drawn;

// Draws one collective: what every rank has before and after, the bytes that it sent, and the bytes
// that it should have sent.
class Drawing {
 public:
  Drawing(const Communicator& world, const char* title) : world_(world), title_(title) {
    std::vector<float> values;  // N of them: ten times the rank, and which one it is
    for (int i = 0; i < world.size(); ++i) {
      values.push_back(static_cast<float>(10 * world.rank() + i));
    }
    x = Array::from(values, {world.size()}).to(device());
    table_.row("before", cells(x));
  }
  void end(const Array& after, int64_t formula) {
    table_.row("after", cells(after));
    drawn.push_back({title_, table_.cells(0), table_.cells(1)});
    table_.row("bytes sent", world_.traffic().bytes() - sent_before_).row("formula", formula);
    table_.print(title_);
    say(world_, "\n");
  }
  Array x;

 private:
  const Communicator& world_;
  const char* title_;
  RankTable table_{world_};
  int64_t sent_before_ = world_.traffic().bytes();
};

void with_a_root(const Communicator& world) {
  const int64_t N = world.size(), n = 4 * N;  // ranks; bytes of one rank's numbers
  const int root = 0;
  const bool is_root = world.rank() == root;
  // [snippet: root]
  Drawing broadcast(world, "broadcast");
  world.broadcast(broadcast.x, root);
  broadcast.end(broadcast.x, is_root ? n * (N - 1) : 0);

  Drawing reduce(world, "reduce");
  world.reduce(reduce.x, root);
  reduce.end(reduce.x, is_root ? 0 : n);

  Drawing scatter(world, "scatter");
  const Array part = Array::empty({1}, kFloat32, device());
  world.scatter(part, scatter.x, root);
  scatter.end(part, is_root ? n - n / N : 0);

  Drawing gather(world, "gather");
  const Array all = is_root ? Array::empty({N}, kFloat32, device()) : Array();
  world.gather(all, gather.x.slice(0, 0, 1), root);
  gather.end(all, is_root ? 0 : n / N);
  // [end]
}

void without_a_root(const Communicator& world) {
  const int64_t N = world.size(), n = 4 * N;
  // [snippet: no_root]
  Drawing all_reduce(world, "all_reduce");
  world.all_reduce(all_reduce.x);
  all_reduce.end(all_reduce.x, 2 * (n - n / N));

  Drawing reduce_scatter(world, "reduce_scatter");
  const Array part = Array::empty({1}, kFloat32, device());
  world.reduce_scatter(part, reduce_scatter.x);
  reduce_scatter.end(part, n - n / N);

  Drawing all_gather(world, "all_gather");
  const Array all = Array::empty({N}, kFloat32, device());
  world.all_gather(all, all_gather.x.slice(0, 0, 1));
  all_gather.end(all, n - n / N);

  Drawing all_to_all(world, "all_to_all");
  const Array received = Array::empty({N}, kFloat32, device());
  world.all_to_all(received, all_to_all.x);
  all_to_all.end(received, n - n / N);
  // [end]
}

// [snippet: ring]
void ring(const Communicator& world) {
  const int me = world.rank(), size = world.size();
  if (size == 1) return;
  Drawing drawing(world, "send, recv");
  const Array received = drawing.x.empty_like();
  auto sending = world.send(drawing.x, (me + 1) % size, {.async = true});  // go on, do not wait
  world.recv(received, (me + size - 1) % size);
  sending.wait();
  drawing.end(received, drawing.x.nbytes());
}
// [end]

// [snippet: operations]
void operations(const Communicator& world) {
  RankTable table(world);
  table.row("before", world.rank() + 1);
  for (const ReduceOp op :
       {ReduceOp::sum, ReduceOp::product, ReduceOp::min, ReduceOp::max, ReduceOp::mean}) {
    const Array x = Array::full({1}, world.rank() + 1, kFloat32, device());
    world.all_reduce(x, {.op = op});
    table.row(name(op), cells(x));
  }
  table.print("all_reduce by");
}
// [end]

// [snippet: halves]
bool two_halves(const Communicator& world, const Array& x) {
  const Array whole = x.clone(), halves = x.empty_like();
  world.all_reduce(whole, {.unit = "whole"});
  const auto part = ChunkCounts::balanced(x.numel(), world.size()).chunk(world.rank());
  const Array mine = halves.slice(0, part.begin, part.begin + part.count);
  world.reduce_scatter(mine, x, {.unit = "halves"});
  world.all_gather(halves, mine, {.unit = "halves"});
  return whole.to_vector<float>() == halves.to_vector<float>();
}
// [end]

// [snippet: order]
float number_of(int rank) { return static_cast<float>(1.0 / (rank + 3)); }

// The sum of ranks begin to end - 1: that of the first p of them and that of the rest.
float tree(int begin, int end) {
  if (end - begin == 1) return number_of(begin);
  int p = 1;  // the largest power of two below their number
  while (2 * p < end - begin) p *= 2;
  return tree(begin, begin + p) + tree(begin + p, end);
}

bool sums_in_a_tree(const Communicator& world) {
  const Array sum = Array::full({1}, number_of(world.rank()), kFloat32, device());
  world.all_reduce(sum, {.unit = "order"});
  return sum.item<float>() == tree(0, world.size());
}
// [end]

// [snippet: mistake]
std::string mistake() {
  try {
    hero::dist::run_ranks(3, [](Communicator& other_world) {
      const Array x = Array::ones({8});
      const ReduceOp op = other_world.rank() == 2 ? ReduceOp::max : ReduceOp::sum;
      other_world.all_reduce(x, {.op = op, .unit = "gradients"});
    });
  } catch (const hero::Error& error) {
    return error.what();
  }
  return "nobody noticed";
}
// [end]

}  // namespace

int main(int argc, char** argv) {
  const char* title = "Collectives, drawn, with the bytes that each rank sends.";
  return tutorial::run_ranks(
      argc, argv, {.title = title, .trains = false}, [](Communicator& world, auto& options) {
        drawn.clear();
        with_a_root(world);
        without_a_root(world);
        if (world.rank() == 0) {
          tutorial::draw_exchanges(drawn, options.out);
          tutorial::draw_tree(options.out);
          tutorial::draw_ring(options.out);
        }
        ring(world);
        operations(world);
        hero::manual_seed(static_cast<uint64_t>(world.rank()));
        const bool same = everywhere(
            world,
            two_halves(world, hero::randn({250 * world.size()}, {.device = device()}).array()));
        say(world, "\nall_reduce and its two halves: %s\n", same ? "the same bits" : "they differ");
        const bool ordered = everywhere(world, sums_in_a_tree(world));
        say(world, "1/3 + 1/4 + ... in a tree: %s\n", ordered ? "the same bits" : "it differs");
        say(world, "\nwhat rank 0 has sent\n%s", world.traffic().table().c_str());
        if (world.rank() == 0) say(world, "\na mistake:\n%s\n", mistake().c_str());
      });
}
