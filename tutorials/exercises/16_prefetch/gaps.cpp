// 16. FSDP's prefetch: the order that hides the messages (chapter 17)
//
// A rank has two things that work at the same time: a processor, which computes layers, and a link,
// over which messages travel one after the other. You write the list of what the rank does in a
// step, and the grade plays it on a model of both. The processor goes through your list:
//
//   gather(i)     begins the message that makes layer i whole, and goes on at once. From now on
//                 layer i takes its memory.
//   forward(i)    waits until layer i has come, then computes it: layers 0, 1, 2 ... in this order.
//   backward(i)   waits until layer i has come, then computes its gradients, which takes twice as
//                 long: the last layer first, layer 0 last. The gradients take as much memory as
//                 the layer.
//   reduce(i)     begins the message that adds up the gradients of layer i, and goes on at once.
//                 Their memory is free when the message has left.
//   free(i)       gives the memory of the whole layer i back.
//
// A layer can be gathered again after it was freed, and at the end of the step none is whole.
// Memory has a limit of four layers. Where it is full, the processor waits for a reduce that is
// under way; if there is none, the schedule has failed.
//
// Below is a schedule that works, in which no message is hidden: the link sends while the processor
// waits, and the other way round. Make it as fast as ours.
#include "exercises/16_prefetch/exercise.h"

namespace exercise {

std::vector<Action> schedule(int layers) {
  std::vector<Action> list;
  for (int i = 0; i < layers; ++i) {
    list.push_back(gather(i));
    list.push_back(forward(i));
    list.push_back(free(i));
  }
  for (int i = layers - 1; i >= 0; --i) {
    list.push_back(gather(i));
    list.push_back(backward(i));
    list.push_back(free(i));
    list.push_back(reduce(i));
  }
  // WRITE 1: change both loops so that the next layer travels while this one computes, and so that
  // the layer with which backward begins is not sent twice. Then delete the line below.
  to_write("1, the schedule, in schedule().");
  return list;
}

}  // namespace exercise
