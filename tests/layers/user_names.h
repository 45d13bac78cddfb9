#pragma once
// Types of a program that has `using namespace hero` at its top. Every public header is compiled
// with this behind it: names as general as these are the program's.
namespace hero {}
using namespace hero;

struct Counted;
struct Edge;
struct Node;
struct Recorder;
template <class T>
struct Ref;

void use_names(Counted*, Edge*, Node*, Recorder*, Ref<Node>*);
