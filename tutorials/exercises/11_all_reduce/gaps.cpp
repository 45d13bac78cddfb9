// 11. all_reduce from send and recv: naive, ring, tree (chapter 10)
//
// After an all_reduce every rank has the sum of all ranks' arrays. You write it three times, with
// nothing but messages from one rank to another:
//
//   naive   all send to rank 0, which adds and sends the sum to everyone: N - 1 whole arrays.
//   ring    the array is cut in N parts, and every rank sends one part after the other to its
//           right neighbour, all ranks at the same time. Every rank sends 2 (N - 1) parts.
//   tree    pairs of ranks add, then pairs of pairs, and the sum goes the same way back. It takes
//           2 log2 N messages one after the other, the fewest of the three.
//
// What you need, where x is an array and world the Communicator:
//   world.rank(), world.size()     this rank's number, from 0, and how many there are
//   world.send(x, to)              sends x to rank `to`, and returns when that rank has received it
//   Work work = world.send(x, to, {.async = true});
//   work.wait();                   the same in two parts: begins to send, and returns when it
//                                  was received
//   world.recv(x, from)            waits for the array from rank `from`, and writes it to x
//   add_to(x, y)                   x += y
//   part(x, i, n)                  part i of n equal ones: a window on x. i is taken modulo n.
//   x.empty_like()                 a new array of the same shape
#include "exercises/11_all_reduce/exercise.h"

using hero::Array;
using hero::dist::Communicator, hero::dist::Work;

namespace exercise {

void naive_all_reduce(const Array& x, const Communicator& world) {
  // WRITE 1: rank 0 receives from all others and adds, and then sends the sum to each.
  to_write("1, naive_all_reduce().");
}

void ring_all_reduce(const Array& x, const Communicator& world) {
  const int n = world.size(), me = world.rank();
  const int right = (me + 1) % n, left = (me + n - 1) % n;
  const Array received = part(x, 0, n).empty_like();
  // WRITE 2: two loops of n - 1 rounds. In round s of the first loop a rank sends part me - s to
  // the right and adds what comes from the left to part me - s - 1. After it, part me + 1 of this
  // rank is the whole sum. In round s of the second loop it sends part me + 1 - s to the right, and
  // what comes from the left is part me - s. All ranks send at the same time: a rank must not wait
  // for its message to be received before it receives the other one.
  to_write("2, ring_all_reduce().");
}

void tree_all_reduce(const Array& x, const Communicator& world) {
  // WRITE 3: for step = 1, 2, 4 ... below n: of ranks me and me + step, where me is a multiple of
  // 2 * step, the second one sends its array to the first, which adds. Then the same steps from the
  // largest to 1, in which the first one of the pair sends the sum to the second.
  to_write("3, tree_all_reduce().");
}

}  // namespace exercise
