#pragma once
// The folders of checkpoints on the disk; internal to the Checkpointers of nn and dist.
#include <cstdint>
#include <string>
#include <vector>

#include <hero/nn/training/crc32c.h>

namespace hero::nn::checkpoints {

inline constexpr const char* kStateFile = "trainer_state.json";
inline constexpr const char* kCompleteFile = "COMPLETE";

/// step-00000500
std::string folder_name(int64_t step);

/// The folder of the run, whose lock says who may write (<hero/nn/training/folder_lock.h>).
std::string run_of(const std::string& root);

/// Steps of the complete checkpoints under `root`, ascending; those that cannot be looked at are
/// among them. What a process left that was killed while it replaced one is put right first, unless
/// another process is writing.
std::vector<int64_t> complete_steps(const std::string& root);

/// Makes an empty folder beside the final one, and returns its path.
std::string begin(const std::string& root, int64_t step);
/// Writes COMPLETE and gives the folder its name; an older checkpoint of that step is replaced. All
/// of it is on the disk when this returns.
void finish(const std::string& root, int64_t step);

/// Removes one checkpoint; it is not complete from the first moment on.
void remove(const std::string& root, int64_t step);
/// Renames the checkpoint of a step, if there is one, to "step-00000500.<why>", or
/// "step-00000500.<why>-2" and so on where that is taken, and says so on stderr. Nothing removes
/// it, and it is no checkpoint until somebody renames it back.
void set_aside(const std::string& root, int64_t step, const std::string& why);
/// Removes what killed processes left unfinished.
void remove_unfinished(const std::string& root);

/// Removes the oldest checkpoints up to step `newest` beyond `keep`, and all after it. With keep 0
/// nothing is removed, and those after it are set aside as "abandoned".
void prune(const std::string& root, int64_t newest, int keep);
/// An Error unless the name is of letters, digits, '-' and '_'.
void check_name(const std::string& name);

/// What is wrong with the state file of a complete checkpoint, by COMPLETE; "" where nothing is. A
/// file that cannot be read, for whatever reason, is damage and no Error.
std::string state_damage(const std::string& folder);
/// The same of a file, by the digest that the state file has for it.
std::string file_damage(const std::string& path, const FileDigest& expected);
/// Eight hexadecimal digits.
std::string hex(uint32_t value);

}  // namespace hero::nn::checkpoints
