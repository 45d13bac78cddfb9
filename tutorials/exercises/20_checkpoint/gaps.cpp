// 20. A sharded checkpoint that resumes on another number of ranks (chapter 18)
//
// Each rank has its part, the shard, of two states, the parameters and the momentum. All parts
// together, one behind the other, are Psi numbers each. To save them, every rank writes a file for
// each state with its own numbers, and nobody needs memory for all of them. A list comes last. A
// run that is killed while it saves leaves no list, and so nobody takes what it left for a whole
// checkpoint.
//
// The run may go on with another number of ranks. Then the parts have other sizes, and a new part
// may consist of the end of one file and the beginning of the next.
//
// What is given, on a rank:
//   shards           pairs of a name and an Array: for (const auto& [state, shard] : shards)
//   cut.begin, cut.end      this rank owns the numbers begin, begin + 1, ... end - 1
//   cut.counts       how many numbers each rank owns
//
// What you need (more in tutorials/exercises/20_checkpoint/exercise.h):
//   file_of(state, rank)           the name of a file
//   folder.write(file, array)      writes a file
//   folder.read(file, begin, end)  some numbers of a file; its first one is number 0
//   folder.write_list(cut.counts), folder.read_list()
//                                  the list: how many numbers each rank has saved
//   world.rank(), world.barrier()  this rank's number; waits until all ranks are here
//   shard.slice(0, begin, end)     these numbers of a shard: a window on its memory, no copy
//   copy(to, from)                 the numbers of `to` become those of `from`
#include <algorithm>

#include "exercises/20_checkpoint/exercise.h"

using hero::Array;
using hero::dist::Communicator;

namespace exercise {

void save(Folder& folder, const Shards& shards, const tutorial::Cut& cut,
          const Communicator& world) {
  // WRITE 1: this rank's files. Then one rank writes the list, when all files of all ranks are
  // there.
  to_write("1, save().");
}

bool load(Folder& folder, const Shards& shards, const tutorial::Cut& cut) {
  const std::vector<int64_t> saved = folder.read_list();
  // WRITE 2: for each state and each file, the numbers that this rank needs and the file has, to
  // their place in the shard. Read no others.
  to_write("2, load().");
  return true;
}

}  // namespace exercise
