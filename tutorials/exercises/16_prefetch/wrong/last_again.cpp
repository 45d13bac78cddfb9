// says: the last layer of forward is the first one of backward
#include "exercises/16_prefetch/exercise.h"

namespace exercise {

std::vector<Action> schedule(int layers) {
  std::vector<Action> list;
  list.push_back(gather(0));
  for (int i = 0; i < layers; ++i) {
    if (i + 1 < layers) list.push_back(gather(i + 1));
    list.push_back(forward(i));
    list.push_back(free(i));
  }
  for (int i = layers - 1; i >= 0; --i) {
    if (i + 1 == layers) list.push_back(gather(i));
    if (i > 0) list.push_back(gather(i - 1));
    list.push_back(backward(i));
    list.push_back(free(i));
    list.push_back(reduce(i));
  }
  return list;
}

}  // namespace exercise
