// 5. The engine: the order of the graph, and gradients that add up (chapter 6a)
//
// A value remembers what it was made from. Var is a pointer to one:
//
//   struct Value {
//     hero::Array data;          // the number or numbers
//     hero::Array grad;          // their gradient: undefined until you set it
//     std::vector<Var> inputs;   // the values from which this one was computed; none for a leaf
//     backward                   // a function: v->backward(g) gives one gradient for each input,
//   };                           // where g is the gradient of this value; empty for a leaf
//
// The operations, such as a * b and square(a), are given. You write the walk that goes from the
// loss backward to the leaves, in two parts: the order, and the walk itself.
//
// What you need besides:
//   add(a, b)               the sum of two arrays
//   ones_like(a)            ones of the shape of an array
//   array.defined()         false for a gradient that nobody has set yet
//   seen.insert(p).second   puts p into the set; false if it was in it before
//   v.get()                 the plain pointer to the value of a Var
//   if (v->backward)        whether v has this function: a leaf has none. What it returns is a
//                           std::vector<Array>, in the order of v->inputs
#include "exercises/05_engine/exercise.h"

using hero::Array;

namespace exercise {

// Appends to `sorted` all values from which v was computed, and then v itself, so that every value
// comes after its inputs. Each value comes once, however many others use it; `seen` has those that
// are in the list already, or on the way into it.
static void sort_graph(const Var& v, std::set<Value*>& seen, std::vector<Var>& sorted) {
  // WRITE 1: nothing if v was seen before; otherwise first its inputs, then v.
  to_write("1, the order, in sort_graph().");
}

void backward(const Var& loss) {
  std::set<Value*> seen;
  std::vector<Var> sorted;
  sort_graph(loss, seen, sorted);
  // WRITE 2: the gradient of the loss with respect to itself is 1. Then go through the list so that
  // a value passes its gradient on only when all values that use it have given it their shares. Add
  // up what an input gets from several values, or from one that uses it twice.
  to_write("2, the walk, in backward().");
}

}  // namespace exercise
