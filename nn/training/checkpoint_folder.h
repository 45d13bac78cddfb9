#pragma once
// The folders of checkpoints on the disk; internal to the Checkpointers of nn and dist.
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <hero/nn/training/checkpoint.h>
#include <hero/nn/training/file_digest.h>

namespace hero::nn::checkpoints {

inline constexpr const char* kStateFile = "trainer_state.json";
inline constexpr const char* kCompleteFile = "COMPLETE";

/// step-00000500
std::string folder_name(int64_t step);

/// The folder of the run, whose lock says who may write (<hero/nn/training/folder_lock.h>).
std::string run_of(const std::string& root);

/// The steps of the complete checkpoints under `root`, ascending, including those that cannot be
/// read. If a process was killed while it replaced a checkpoint, that is repaired first, unless
/// another process is writing.
std::vector<int64_t> complete_steps(const std::string& root);

/// Makes an empty folder beside the final one, and returns its path. Files are written there with
/// OutputOptions::in_new_folder: rename_into_place() flushes the folder for all of them.
std::string begin(const std::string& root, int64_t step);
/// Writes the state file with this text and COMPLETE, flushes the folder and gives it its name; an
/// older checkpoint of that step is replaced. All of it is on the disk when this returns.
void rename_into_place(const std::string& root, int64_t step, const std::string& state);

/// Removes one checkpoint; it counts as incomplete as soon as the removal begins.
void remove(const std::string& root, int64_t step);
/// Renames the checkpoint of a step, if there is one, to "step-00000500.<why>", or to
/// "step-00000500.<why>-2" and so on if that name is taken, and says so on stderr. Nothing removes
/// it, and it does not count as a checkpoint until you rename it back.
void set_aside(const std::string& root, int64_t step, const std::string& why);
/// Removes what killed processes left unfinished.
void remove_unfinished(const std::string& root);

/// Of the checkpoints up to step `newest`, removes the oldest until `keep` are left; removes all
/// later ones. With keep 0 nothing is removed, and the later ones are set aside as "abandoned".
void prune(const std::string& root, int64_t newest, int keep);
/// Throws an Error unless the name consists of letters, digits, '-' and '_'.
void check_name(const std::string& name);
/// Throws an Error unless something new can be tracked under this name: check_name() holds, it is
/// not `taken`, and it is not that of the default generator.
void check_new_name(const std::string& name, bool taken);

/// Says what is wrong with the state file of a complete checkpoint, given COMPLETE; "" if nothing
/// is. A file that cannot be read, for whatever reason, counts as damaged and is no Error.
std::string state_damage(const std::string& folder);
/// Says the same of a file, given the digest that the state file has for it.
std::string file_damage(const std::string& path, const FileDigest& expected);
/// The checkpoint that resume() loads.
struct Newest {
  std::optional<int64_t> step = {};       ///< nothing where there is no checkpoint
  std::vector<int64_t> passed_over = {};  ///< steps of damaged checkpoints that are newer
};
/// Chooses among the steps `found` of complete checkpoints, ascending, as `which` says; `damage`
/// says what is wrong with one, "" if nothing is. Passing one over is said on stderr, if `tells`.
Newest newest(const std::string& root, std::vector<int64_t> found, Resume which,
              const std::function<std::string(int64_t)>& damage, bool tells = true);

/// Eight hexadecimal digits.
std::string hex(uint32_t value);

}  // namespace hero::nn::checkpoints
