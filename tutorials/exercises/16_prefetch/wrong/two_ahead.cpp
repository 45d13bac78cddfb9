// says: Memory is full
#include "exercises/16_prefetch/exercise.h"

namespace exercise {

std::vector<Action> schedule(int layers) {
  std::vector<Action> list;
  list.push_back(gather(0));
  for (int i = 0; i < layers; ++i) {
    if (i + 1 < layers) list.push_back(gather(i + 1));
    list.push_back(forward(i));
    if (i + 1 < layers) list.push_back(free(i));  // the last layer is the first of backward
  }
  for (int i = layers - 1; i >= 0; --i) {
    if (i == layers - 1) list.push_back(gather(i - 1));
    if (i > 1) list.push_back(gather(i - 2));
    list.push_back(backward(i));
    list.push_back(free(i));
    list.push_back(reduce(i));
  }
  return list;
}

}  // namespace exercise
