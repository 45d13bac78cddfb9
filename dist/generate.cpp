#include <hero/core/error.h>
#include <hero/dist/generate.h>

namespace hero::dist {

std::function<bool(bool)> any_unfinished(const Communicator& group) {
  check(group.defined(), "any_unfinished: the group of ranks is undefined");
  return [group](bool unfinished) {
    const Array any = Array::from(std::vector<int64_t>{unfinished ? 1 : 0}, {1});
    group.all_reduce(any, {.op = ReduceOp::max, .unit = "rows that go on"});
    return any.to_vector<int64_t>()[0] != 0;
  };
}

}  // namespace hero::dist
