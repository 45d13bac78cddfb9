#include <cstdlib>
#include <filesystem>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <hero/core/error.h>
#include <hero/dist/backends/notices.h>
#include <hero/nn/training/lock_patience.h>

namespace hero::dist {
namespace {

constexpr const char* kVariable = "HERO_SUPERVISOR";
static_assert(std::atomic<int64_t>::is_always_lock_free);  // between processes

Notices* notices = nullptr;  // of this process's supervisor, or of itself

bool map_file(int file) {
  void* const at = ::mmap(nullptr, sizeof(Notices), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (at != MAP_FAILED) notices = static_cast<Notices*>(at);
  return at != MAP_FAILED;
}

}  // namespace

NoticeFile::NoticeFile() : process_(::getpid()) {
  std::error_code none;
  const std::filesystem::path folder = std::filesystem::temp_directory_path(none);
  path_ = (folder / "hero_restarts_XXXXXX").string();
  const int file = ::mkostemp(path_.data(), O_CLOEXEC);
  // not ftruncate(): on a full disk a write to the mapping would end the process by SIGBUS
  const bool ok = file >= 0 && ::posix_fallocate(file, 0, sizeof(Notices)) == 0 && map_file(file);
  if (file >= 0) ::close(file);
  if (file >= 0 && !ok) ::unlink(path_.c_str());
  check(ok, "launch: restarts need a small file in ", folder.string(), ", which cannot be made; ",
        "let TMPDIR name another folder");
}

void NoticeFile::remove() {
  if (::getpid() == process_) ::unlink(path_.c_str());
}

Notices& NoticeFile::operator*() const { return *notices; }

std::string NoticeFile::variable(int starts_before) const {
  return std::string(kVariable) + "=" + std::to_string(starts_before) + ":" + path_;
}

bool join_supervisor() {
  const char* const text = std::getenv(kVariable);
  if (text == nullptr) return false;
  char* path = nullptr;
  const bool again = std::strtol(text, &path, 10) > 0;
  if (again) nn::wait_for_other_hosts(nn::kLostHostSeconds);
  if (*path == ':') ++path;
  const int file = ::open(path, O_RDWR | O_CLOEXEC);  // on other hosts there is none
  ::unsetenv(kVariable);
  if (file < 0) return true;
  (void)map_file(file);
  ::close(file);
  return true;
}

void tell_begun() {
  if (notices != nullptr) notices->begun = 1;
}

void tell_failed() {
  if (notices != nullptr) notices->failed = 1;
}

void tell_late() {
  if (notices != nullptr) notices->late = 1;
}

void tell_saved(int64_t step) {
  if (notices == nullptr) return;
  notices->step = step + 1;
  ++notices->saved;
}

void tell_resumed(int64_t step) {
  if (notices != nullptr) notices->step = step + 1;
}

}  // namespace hero::dist
