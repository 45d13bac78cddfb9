// 10. Activation checkpointing: compute again what was not kept (chapter 9)
//
// A chain of layers keeps the activations of all its layers until backward has used them. Here it
// is cut in pieces of `every` layers, and forward keeps only what goes into each piece. Backward
// takes the pieces from the last one to the first. It runs each of them once more, now with a
// graph, and goes backward through it; what then arrives at the input of the piece is the gradient
// with which the piece before it begins.
//
// The last piece need not run twice: backward needs its activations at once.
//
// What you need of the library, for tensors:
//   run(layers, first, last, x)    the layers first, first + 1, ... last - 1, one after the other
//   const hero::NoGrad no_grad;    as long as it lives, nothing is recorded for backward
//   x.detach()                     the values of x, without a history
//   x.requires_grad_()             from now on backward makes a gradient for x: x.grad()
//   value.backward()               backward from one number
//   y.backward(gradient)           backward from a tensor of any shape whose gradient is known
//   hero::default_generator().state(), hero::default_generator().set_state(state)
//                                  the state of the random numbers. After set_state() the same
//                                  numbers come again, as dropout needs them.
#include "exercises/10_checkpointing/exercise.h"

using hero::Tensor;

namespace exercise {

// What is kept of a piece.
struct Piece {
  size_t first, last;  // the layers first ... last - 1
  Tensor input;
  hero::Generator::State random;  // as it was before the piece ran
};

Tensor forward_and_backward(const std::vector<Layer>& layers, size_t every, const Loss& loss,
                            const Tensor& x) {
  std::vector<Piece> pieces;
  // WRITE 1: forward, which records nothing. It puts every piece into `pieces` and runs it, the
  // last one excepted.
  to_write("1, forward, in forward_and_backward().");

  Tensor value, gradient;        // the loss; the gradient of what the present piece returns
  hero::Generator::State after;  // of the random numbers, where all layers have run once
  // WRITE 2: backward, from the last piece to the first. A piece that is done keeps nothing. In the
  // end the random numbers go on where the last layer has left them.
  to_write("2, backward, in forward_and_backward().");
  return value.detach();
}

}  // namespace exercise
