#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>

#include <fcntl.h>
#include <unistd.h>

#include <hero/core/error.h>
#include <hero/core/file.h>
#include <hero/nn/training/append_file.h>
#include <hero/nn/training/checkpoint_folder.h>

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

std::vector<std::string> names_in(const std::string& root) {
  std::vector<std::string> names;
  if (!fs::is_directory(root)) return names;
  for (const auto& entry : fs::directory_iterator(root)) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

// Entries of a folder reach the disk by a flush of the folder itself.
void flush_folder(const fs::path& folder) {
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  check(fd >= 0, "checkpoint: cannot open ", folder.string(), ": ", std::strerror(errno));
  const int status = ::fsync(fd);
  const int error = errno;
  ::close(fd);
  check(status == 0 || error == EINVAL || error == ENOTSUP,  // file systems without such flushes
        "checkpoint: cannot flush ", folder.string(), ": ", std::strerror(error));
}

void rename_folder(const fs::path& from, const fs::path& to) {
  check(::rename(from.c_str(), to.c_str()) == 0, "checkpoint: cannot rename ", from.string(),
        " to ", to.string(), ": ", std::strerror(errno));
}

void remove_folder(const fs::path& folder) {
  std::error_code failed;
  fs::remove_all(folder, failed);
  check(!failed, "checkpoint: cannot remove ", folder.string(), ": ", failed.message());
}

bool is_complete(const fs::path& folder) { return fs::exists(folder / kCompleteFile); }

// A process was killed between moving the old one aside and naming the new one.
void put_back(const std::string& root) {
  for (const std::string& name : names_in(root)) {
    if (!name.ends_with(kReplaced)) continue;
    const fs::path aside = fs::path(root) / name;
    const fs::path folder = fs::path(root) / name.substr(0, name.size() - std::strlen(kReplaced));
    if (step_of(folder.filename().string()) && !fs::exists(folder)) rename_folder(aside, folder);
  }
}

std::string complete_text(const fs::path& folder) {
  const FileDigest digest = digest_file((folder / kStateFile).string());
  return std::string(kStateFile) + " " + std::to_string(digest.bytes) + " bytes crc32c " +
         hex(digest.crc32c) + "\n";
}

}  // namespace

std::string hex(uint32_t value) {
  std::array<char, 16> text{};
  std::snprintf(text.data(), text.size(), "%08x", value);
  return text.data();
}

std::string folder_name(int64_t step) {
  const std::string digits = std::to_string(step);
  return std::string(kPrefix) + std::string(8 - std::min<size_t>(8, digits.size()), '0') + digits;
}

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
  std::error_code failed;
  fs::create_directories(root, failed);
  check(!failed, "checkpoint: cannot make the folder ", root, ": ", failed.message());
  remove_folder(folder);
  fs::create_directory(folder, failed);
  check(!failed, "checkpoint: cannot make the folder ", folder.string(), ": ", failed.message());
  return folder.string();
}

void finish(const std::string& root, int64_t step) {
  const fs::path folder = folder_of(root, step), unfinished = fs::path(folder) += kUnfinished,
                 aside = fs::path(folder) += kReplaced;
  OutputFile mark((unfinished / kCompleteFile).string());
  mark.write(complete_text(unfinished));
  mark.commit();
  flush_folder(unfinished);
  if (fs::exists(folder)) {
    remove_folder(aside);
    rename_folder(folder, aside);
  }
  rename_folder(unfinished, folder);
  flush_folder(root);
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
  if (!fs::exists(folder)) return;
  const std::string stem = folder.string() + "." + why;
  std::string aside = stem;
  for (int i = 2; fs::exists(aside); ++i) aside = stem + "-" + std::to_string(i);
  rename_folder(folder, aside);
  const std::string line = "checkpoint: moved " + folder.string() + " (" + why + ") to " + aside;
  std::fprintf(stderr, "%s\n", line.c_str());
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

std::string state_damage(const std::string& folder) {
  const fs::path state = fs::path(folder) / kStateFile;
  if (!fs::exists(state)) return state.string() + " is missing";
  const std::string noted = read_text((fs::path(folder) / kCompleteFile).string());
  const std::string found = complete_text(folder);
  if (noted == found) return "";
  return state.string() + " is damaged: " + found.substr(0, found.size() - 1) + ", but " +
         kCompleteFile + " says " + (noted.empty() ? "nothing" : noted.substr(0, noted.find('\n')));
}

std::string file_damage(const std::string& path, const FileDigest& expected) {
  if (!fs::exists(path)) return path + " is missing";
  const FileDigest found = digest_file(path);
  if (found == expected) return "";
  return path + " is damaged: " + std::to_string(found.bytes) + " bytes, crc32c " +
         hex(found.crc32c) + "; written were " + std::to_string(expected.bytes) +
         " bytes, crc32c " + hex(expected.crc32c);
}

}  // namespace hero::nn::checkpoints
