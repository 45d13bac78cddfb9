#pragma once
// Exercise 20: what an answer is given, and the functions that it defines.
#include <string>
#include <utility>
#include <vector>

#include "exercises/support/answer.h"
#include "support/lessons/data_parallel.h"

namespace exercise {

/// A folder that all ranks see, with files of float32 numbers.
class Folder {
 public:
  virtual ~Folder() = default;
  /// Writes a file.
  virtual void write(const std::string& file, const hero::Array& numbers) = 0;
  /// The numbers begin ... end - 1 of a file, counted from the file's first one, in a new array.
  virtual hero::Array read(const std::string& file, int64_t begin, int64_t end) = 0;
  /// Writes the list, which says how many numbers of each state every rank has saved.
  virtual void write_list(const std::vector<int64_t>& counts) = 0;
  /// What the list says; empty where there is no list.
  virtual std::vector<int64_t> read_list() = 0;
};

/// This rank's part of each state, with its name: "parameters", "momentum".
using Shards = std::vector<std::pair<std::string, hero::Array>>;

/// \name The answer. Rank r owns the numbers cut.begin ... cut.end - 1 of every state.
/// \{
/// Saves the shards of all ranks, and the list last.
void save(Folder& folder, const Shards& shards, const tutorial::Cut& cut,
          const hero::dist::Communicator& world);
/// Fills the shards from what any number of ranks has saved. Returns false, and leaves the shards
/// as they are, where there is no list.
bool load(Folder& folder, const Shards& shards, const tutorial::Cut& cut);
/// \}

/// The file of a state and a rank.
std::string file_of(const std::string& state, int rank);
/// The numbers of `to` become those of `from`, of which there are as many.
void copy(const hero::Array& to, const hero::Array& from);

}  // namespace exercise
