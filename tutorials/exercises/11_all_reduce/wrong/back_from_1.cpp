// says: from the largest step to 1
#include "exercises/11_all_reduce/exercise.h"

using hero::Array;
using hero::dist::Communicator, hero::dist::Work;

namespace exercise {

void naive_all_reduce(const Array& x, const Communicator& world) {
  if (world.rank() == 0) {
    const Array received = x.empty_like();
    for (int from = 1; from < world.size(); ++from) {
      world.recv(received, from);
      add_to(x, received);
    }
    for (int to = 1; to < world.size(); ++to) world.send(x, to);
  } else {
    world.send(x, 0);
    world.recv(x, 0);
  }
}

void ring_all_reduce(const Array& x, const Communicator& world) {
  const int n = world.size(), me = world.rank();
  const int right = (me + 1) % n, left = (me + n - 1) % n;
  const Array received = part(x, 0, n).empty_like();
  for (int s = 0; s < n - 1; ++s) {
    Work sending = world.send(part(x, me - s, n), right, {.async = true});
    world.recv(received, left);
    sending.wait();
    add_to(part(x, me - s - 1, n), received);
  }
  for (int s = 0; s < n - 1; ++s) {
    Work sending = world.send(part(x, me + 1 - s, n), right, {.async = true});
    world.recv(part(x, me - s, n), left);
    sending.wait();
  }
}

void tree_all_reduce(const Array& x, const Communicator& world) {
  const int n = world.size(), me = world.rank();
  const Array received = x.empty_like();
  int step = 1;
  for (; step < n; step *= 2) {
    if (me % (2 * step) == step) world.send(x, me - step);
    if (me % (2 * step) == 0 && me + step < n) {
      world.recv(received, me + step);
      add_to(x, received);
    }
  }
  for (step = 1; step < n; step *= 2) {
    if (me % (2 * step) == step) world.recv(x, me - step);
    if (me % (2 * step) == 0 && me + step < n) world.send(x, me + step);
  }
}

}  // namespace exercise
