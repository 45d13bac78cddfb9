#pragma once
// Exercise 16: what an answer is given, and the function that it defines.
#include <vector>

#include "exercises/support/answer.h"

namespace exercise {

/// What a rank can do with a layer.
enum class Do { gather, free, forward, backward, reduce };

/// One thing that a rank does. Actions are written as gather(3), free(3), forward(3), backward(3)
/// and reduce(3).
struct Action {
  Do what;
  int layer;  ///< from 0, in the order of forward
};
inline Action gather(int layer) { return {Do::gather, layer}; }
inline Action free(int layer) { return {Do::free, layer}; }
inline Action forward(int layer) { return {Do::forward, layer}; }
inline Action backward(int layer) { return {Do::backward, layer}; }
inline Action reduce(int layer) { return {Do::reduce, layer}; }

/// The answer: a step of FSDP for a network of so many layers, in the order in which a rank does
/// it.
std::vector<Action> schedule(int layers);

}  // namespace exercise
