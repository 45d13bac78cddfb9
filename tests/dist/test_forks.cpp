// Forks while other threads use the library for the first time.
#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "support/catch.h"
#include "support/child.h"
#include "support/fork.h"
#include "support/temp_dir.h"
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <hero/autograd/autograd.h>
#include <hero/core/error.h>
#include <hero/core/functions/linalg.h>
#include <hero/core/functions/matmul.h>
#include <hero/dist/launch.h>
#include <hero/nn/data/bpe.h>
#include <hero/nn/nn.h>
#include <hero/nn/training/checkpoint_folder.h>

namespace {

using namespace hero;
using hero_test::Child, hero_test::run_forked, hero_test::TempDir;

// This program's file in memory.
class OwnFile {
 public:
  OwnFile() {
    const int fd = ::open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    struct stat info {};
    check(fd >= 0 && ::fstat(fd, &info) == 0, "the program cannot read itself");
    size_ = static_cast<size_t>(info.st_size);
    bytes_ = static_cast<const char*>(::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, fd, 0));
    ::close(fd);
    check(bytes_ != MAP_FAILED, "the program cannot be mapped");
  }
  ~OwnFile() { ::munmap(const_cast<char*>(bytes_), size_); }
  OwnFile(const OwnFile&) = delete;
  OwnFile& operator=(const OwnFile&) = delete;

  template <class T>
  const T* at(size_t offset) const {
    return reinterpret_cast<const T*>(bytes_ + offset);
  }

 private:
  const char* bytes_ = nullptr;
  size_t size_ = 0;
};

// How far the program was moved as it was loaded.
uintptr_t load_offset() {
  uintptr_t offset = 0;
  ::dl_iterate_phdr(
      [](dl_phdr_info* program, size_t, void* found) {
        *static_cast<uintptr_t*>(found) = program->dlpi_addr;
        return 1;  // the first one is the program itself
      },
      &offset);
  return offset;
}

// The library's statics of functions that are not made yet, by the names of their guards: bytes
// that the compiler sets when a static is made.
std::vector<std::string> not_made() {
  const OwnFile file;
  const auto& header = *file.at<ElfW(Ehdr)>(0);
  const auto* sections = file.at<ElfW(Shdr)>(header.e_shoff);
  std::vector<std::string> names;
  size_t guards = 0;
  for (int i = 0; i < header.e_shnum; ++i) {
    if (sections[i].sh_type != SHT_SYMTAB) continue;
    const auto* symbols = file.at<ElfW(Sym)>(sections[i].sh_offset);
    const char* texts = file.at<char>(sections[sections[i].sh_link].sh_offset);
    for (size_t s = 0; s < sections[i].sh_size / sizeof *symbols; ++s) {
      const std::string name = texts + symbols[s].st_name;
      const bool is_ours = name.starts_with("_ZGVZN4hero") || name.starts_with("_ZGVZNK4hero");
      // Those of a thread have no lock; `N4hero4test` are of this program.
      if (!is_ours || ELF64_ST_TYPE(symbols[s].st_info) == STT_TLS) continue;
      if (name.starts_with("_ZGVZN4hero4test")) continue;
      ++guards;
      if (*reinterpret_cast<const char*>(load_offset() + symbols[s].st_value) == 0) {
        names.push_back(name);
      }
    }
  }
  check(guards > 10, "only ", guards, " statics found: the symbols have other names");
  return names;
}

constexpr auto kMade = "the program that looks for statics after a fork";

TEST_CASE(kMade, "[.child]") {
  if (Child::argument() == nullptr) return;
  const auto child = [] {
    std::string missing;
    for (const std::string& name : not_made()) {
      // the other tables of kernels, which nobody calls; a GPU's, which no child can use
      const bool is_unused = name.find("kernels_v") != std::string::npos ||
                             name.find("basic_kernels") != std::string::npos ||
                             name.find("4hero4cuda") != std::string::npos;
      if (!is_unused) missing += " " + name;
    }
    check(missing.empty(), "a fork comes before the first call of", missing);
  };
  if (run_forked(child) != 0) throw std::runtime_error("the child has failed");
}

TEST_CASE("all statics of functions are made before a fork", "[dist]") {
  Child child(kMade, "1");
  REQUIRE(child.wait() == 0);
}

#if !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)  // whose own locks a child may inherit held
// What makes all kinds of statics when it runs first.
void first_calls() {
  const Tensor x = rand({40, 40}, {.requires_grad = true});
  sum(matmul(x, x)).backward();
  core::eigh(core::matmul(x.array(), x.array().t()));
  {
    const nn::DeviceScope meta(kMeta);
    nn::Linear layer(8, 4);
    layer(Tensor(Array::empty({2, 8}, kFloat32, kMeta)));
  }
  const nn::data::BPETokenizer tokenizer =
      nn::data::BPETokenizer::train("ab ab abc", {.vocab_size = 260});
  check(tokenizer.decode(tokenizer.encode("abc")) == "abc", "another text");
  dist::run_ranks(2, [](dist::Communicator& world) { world.all_reduce(Array::ones({3})); });
}

constexpr auto kFirstCalls = "the program that forks while threads make first calls";

TEST_CASE(kFirstCalls, "[.child]") {
  if (Child::argument() == nullptr) return;
  std::vector<std::thread> threads;
  std::atomic<int> begun{0};
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&] {
      ++begun;
      for (int round = 0; round < 3; ++round) first_calls();
    });
  }
  while (begun < 2) std::this_thread::yield();
  int failed = 0;
  for (int round = 0; round < 3; ++round) failed += run_forked(first_calls, 60) != 0;
  for (std::thread& thread : threads) thread.join();
  if (failed > 0) throw std::runtime_error("a child has failed or waits for ever");
}

TEST_CASE("a child may be forked while other threads call functions for the first time", "[dist]") {
  for (int round = 0; round < 20; ++round) {
    Child child(kFirstCalls, "1");
    REQUIRE(child.wait() == 0);
  }
}

// Finds a checkpoint that a killed process has moved aside and not replaced, and puts it back.
void puts_back(const std::string& run) {
  namespace fs = std::filesystem;
  const fs::path root = fs::path(run) / "checkpoints", folder = root / "step-00000001";
  fs::create_directories(folder);
  std::ofstream(folder / "COMPLETE") << "whole";
  fs::rename(folder, fs::path(folder) += ".old");
  check(nn::checkpoints::complete_steps(root.string()) == std::vector<int64_t>{1}, "not put back");
  fs::remove_all(folder);
}

constexpr auto kPutsBack = "the program that forks while a thread renames checkpoints";

TEST_CASE(kPutsBack, "[.child]") {
  if (Child::argument() == nullptr) return;
  const TempDir files;
  std::atomic<bool> ends{false};
  std::thread thread([&] {
    while (!ends) puts_back(files / "own");
  });
  int failed = 0;
  for (int round = 0; round < 60 && failed == 0; ++round) {
    failed += run_forked([&] { puts_back(files / "child"); }, 30) != 0;
  }
  ends = true;
  thread.join();
  if (failed > 0) throw std::runtime_error("a child has failed or waits for ever");
}

TEST_CASE("a child may be forked while another thread renames checkpoints", "[dist]") {
  Child child(kPutsBack, "1");
  REQUIRE(child.wait() == 0);
}
#endif

}  // namespace
