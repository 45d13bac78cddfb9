#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <optional>
#include <string_view>
#include <system_error>

#include <hero/core/error.h>
#include <hero/core/io/crc32c.h>
#include <hero/core/io/file.h>
#include <hero/core/io/printable.h>
#include <hero/core/threads/at_fork.h>
#include <hero/nn/training/checkpoint_folder.h>
#include <hero/nn/training/checkpoint_state.h>
#include <hero/nn/training/folder_lock.h>

namespace hero::nn::checkpoints {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "step-";
constexpr const char* kUnfinished = ".tmp";  // being written, or being removed
constexpr const char* kReplaced = ".old";    // moved aside for a new one of the same step

fs::path folder_of(const std::string& root, int64_t step) {
  return fs::path(root) / folder_name(step);
}

// The step of a name "step-00000500"; none for any other.
std::optional<int64_t> step_of(const std::string& name) {
  if (!name.starts_with(kPrefix)) return std::nullopt;
  int64_t step = -1;
  const char* begin = name.data() + kPrefix.size();
  const char* end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(begin, end, step);
  if (error != std::errc() || stop != end || step < 0) return std::nullopt;
  return folder_name(step) == name ? std::optional(step) : std::nullopt;
}

void rename_folder(const fs::path& from, const fs::path& to) {
  const bool renamed = ::rename(from.c_str(), to.c_str()) == 0;
  check(renamed, "checkpoint: cannot rename ", from.string(), " to ", to.string(), ": ",
        std::strerror(errno));
}

void remove_folder(const fs::path& folder) {
  std::error_code failed;
  fs::remove_all(folder, failed);
  check(!failed, "checkpoint: cannot remove ", folder.string(), ": ", failed.message());
}

bool is_complete(const fs::path& folder) { return path_exists((folder / kCompleteFile).string()); }

// Threads of one process share its lock: what one of them is replacing is not for another to put
// back.
constinit std::mutex renaming;
[[maybe_unused]] const bool kRenamingAtFork =
    core::at_fork([] { renaming.lock(); }, [] { renaming.unlock(); },
                  [] { renaming.unlock(); });  // see [note: forks]

// The folders that stand aside while nothing has their name.
std::vector<fs::path> without_successor(const std::string& root) {
  std::vector<fs::path> folders;
  for (const std::string& name : names_in(root)) {
    if (!name.ends_with(kReplaced)) continue;
    const std::string stem = name.substr(0, name.size() - std::strlen(kReplaced));
    const fs::path folder = fs::path(root) / stem;
    if (step_of(stem) && !path_exists(folder.string())) folders.push_back(folder);
  }
  return folders;
}

// A process was killed between moving the old one aside and naming the new one. Where another
// process writes it may be just there, and nothing is wrong.
void put_back(const std::string& root) {
  if (without_successor(root).empty()) return;
  // Before `renaming`, which is held while nothing else is locked.
  const std::shared_ptr<FolderLock> lock = FolderLock::attempt(run_of(root));
  if (!lock) return;
  const std::lock_guard guard(renaming);
  // Somebody else may have done it since the folder was listed.
  for (const fs::path& folder : without_successor(root)) {
    rename_folder(fs::path(folder) += kReplaced, folder);
  }
}

std::string size_text(uint64_t bytes) {
  return std::string(kStateFile) + " " + std::to_string(bytes) + " bytes";
}

std::string complete_text(const FileDigest& digest) {
  return size_text(digest.bytes) + " crc32c " + hex(digest.crc32c) + "\n";
}

}  // namespace

Newest newest(const std::string& root, std::vector<int64_t> found, Resume which,
              const std::function<std::string(int64_t)>& damage, bool tells) {
  const size_t count = found.size();
  check(which != Resume::no || found.empty(), "checkpoint: ", root,
        " holds checkpoints of another run (", count, ", the last of step ",
        found.empty() ? 0 : found.back(), "); resume it, or choose another folder");
  Newest chosen;
  for (; !found.empty(); found.pop_back()) {
    const std::string wrong = damage(found.back());
    if (wrong.empty()) {
      chosen.step = found.back();
      return chosen;
    }
    check(which == Resume::newest_intact, "checkpoint: ", wrong,
          "; to go back to the checkpoint before, remove this one or ask for newest_intact");
    const std::string line = printable("checkpoint: " + wrong + "; going back to the one before");
    if (tells) std::fprintf(stderr, "%s\n", line.c_str());
    chosen.passed_over.push_back(found.back());
  }
  check(chosen.passed_over.empty(), "checkpoint: none of the ", count, " checkpoints in ", root,
        " is intact, and nothing was changed; put one right, or move them to another folder to "
        "begin anew");
  return chosen;
}

std::string hex(uint32_t value) {
  std::array<char, 16> text{};
  std::snprintf(text.data(), text.size(), "%08x", value);
  return text.data();
}

std::string folder_name(int64_t step) {
  const std::string digits = std::to_string(step);
  return std::string(kPrefix) + std::string(8 - std::min<size_t>(8, digits.size()), '0') + digits;
}

std::string run_of(const std::string& root) { return fs::path(root).parent_path().string(); }

std::vector<int64_t> complete_steps(const std::string& root) {
  put_back(root);
  std::vector<int64_t> steps;
  for (const std::string& name : names_in(root)) {
    const std::optional<int64_t> step = step_of(name);
    if (step && is_complete(fs::path(root) / name)) steps.push_back(*step);
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

std::string begin(const std::string& root, int64_t step) {
  const fs::path folder = folder_of(root, step) += kUnfinished;
  make_folders("checkpoint", root);
  remove_folder(folder);
  make_folders("checkpoint", folder.string());
  return folder.string();
}

void rename_into_place(const std::string& root, int64_t step, const std::string& state) {
  const fs::path folder = folder_of(root, step), unfinished = fs::path(folder) += kUnfinished,
                 aside = fs::path(folder) += kReplaced;
  const auto write = [&](const char* name, const std::string& text) {
    OutputFile file((unfinished / name).string(), {.in_new_folder = true});
    file.write(text);
    file.commit();
  };
  write(kStateFile, state);
  write(kCompleteFile, complete_text({state.size(), core::crc32c(state)}));
  flush_folder("checkpoint", unfinished.string());
  {
    const std::lock_guard guard(renaming);
    if (path_exists(folder.string())) {
      remove_folder(aside);
      rename_folder(folder, aside);
    }
    rename_folder(unfinished, folder);
  }
  flush_folder("checkpoint", root);
  remove_folder(aside);
}

void remove(const std::string& root, int64_t step) {
  const fs::path folder = folder_of(root, step), unfinished = fs::path(folder) += kUnfinished;
  remove_folder(unfinished);
  rename_folder(folder, unfinished);
  remove_folder(unfinished);
}

void set_aside(const std::string& root, int64_t step, const std::string& why) {
  const fs::path folder = folder_of(root, step);
  if (!path_exists(folder.string())) return;
  const std::string stem = folder.string() + "." + why;
  std::string aside = stem;
  for (int i = 2; path_exists(aside); ++i) aside = stem + "-" + std::to_string(i);
  rename_folder(folder, aside);
  const std::string line = "checkpoint: moved " + folder.string() + " (" + why + ") to " + aside;
  std::fprintf(stderr, "%s\n", printable(line).c_str());
}

void remove_unfinished(const std::string& root) {
  put_back(root);
  for (const std::string& name : names_in(root)) {
    for (const char* end : {kUnfinished, kReplaced}) {
      if (!name.ends_with(end)) continue;
      const std::string stem = name.substr(0, name.size() - std::strlen(end));
      if (step_of(stem)) remove_folder(fs::path(root) / name);
    }
  }
}

void prune(const std::string& root, int64_t newest, int keep) {
  std::vector<int64_t> mine;
  for (const int64_t step : complete_steps(root)) {
    if (step <= newest) {
      mine.push_back(step);
    } else if (keep == 0) {
      set_aside(root, step, "abandoned");
    } else {
      remove(root, step);
    }
  }
  if (keep == 0) return;
  for (size_t i = 0; i + static_cast<size_t>(keep) < mine.size(); ++i) remove(root, mine[i]);
}

void check_name(const std::string& name) {
  const auto is_plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_';
  };
  check(!name.empty() && std::all_of(name.begin(), name.end(), is_plain), "checkpoint: '", name,
        "' is no name; letters, digits, '-' and '_' make one");
}

void check_new_name(const std::string& name, bool taken) {
  check_name(name);
  check(!taken && name != kDefaultGenerator, "checkpoint: the name '", name, "' is taken");
}

std::string state_damage(const std::string& folder) {
  constexpr uint64_t kMost = 1000;  // COMPLETE is one short line
  const std::string state = (fs::path(folder) / kStateFile).string();
  if (!path_exists(state)) return state + " is missing";
  std::string noted, found;
  try {
    noted = read_file_text((fs::path(folder) / kCompleteFile).string(), kMost);
    found = size_text(InputFile(state).size());
    if (noted.starts_with(found))
      found = complete_text(digest_file(state));  // else there is no need to read it
  } catch (const Error& error) {
    return folder + " cannot be read: " + error.what();
  }
  if (noted == found) return "";
  return state + " is damaged: " + found.substr(0, found.find('\n')) + ", but " + kCompleteFile +
         " says " + (noted.empty() ? "nothing" : noted.substr(0, noted.find('\n')));
}

std::string file_damage(const std::string& path, const FileDigest& expected) {
  if (!path_exists(path)) return path + " is missing";
  FileDigest found;
  try {
    // A file of another size need not be read: it may be of any size.
    found.bytes = InputFile(path).size();
    if (found.bytes == expected.bytes) found = digest_file(path);
  } catch (const Error& error) {
    return path + " cannot be read: " + error.what();
  }
  if (found == expected) return "";
  std::string sum;
  if (found.bytes == expected.bytes) sum.append(", crc32c ").append(hex(found.crc32c));
  return path + " is damaged: " + std::to_string(found.bytes) + " bytes" + sum + "; written were " +
         std::to_string(expected.bytes) + " bytes, crc32c " + hex(expected.crc32c);
}

}  // namespace hero::nn::checkpoints
