#include <csignal>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "support/catch.h"
#include "support/temp_dir.h"
#include <sys/resource.h>

#include <hero/core/error.h>
#include <hero/core/file.h>

namespace {

using Catch::Matchers::ContainsSubstring;
using hero::InputFile;
using hero::OutputFile;
using hero_test::slurp;
using hero_test::spill;
using hero_test::TempDir;

// No file of this process may grow beyond `bytes` while this lives: as good as a full disk.
class SmallDisk {
 public:
  explicit SmallDisk(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit now{bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &now);
  }
  ~SmallDisk() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  rlimit before_{};
  void (*handler_)(int);
};

TEST_CASE("a file appears whole, under its name, and alone", "[core][file]") {
  const TempDir dir;
  OutputFile file(dir / "a");
  file.write("hello ");
  file.write("world");
  CHECK(!std::filesystem::exists(dir / "a"));
  file.commit();
  CHECK(slurp(dir / "a") == "hello world");
  CHECK(dir.entries() == 1);
  CHECK_THROWS_AS(file.write("more"), hero::Error);
}

TEST_CASE("a file that is not committed leaves the old one and no traces", "[core][file]") {
  const TempDir dir;
  spill(dir / "a", "old");
  {
    OutputFile file(dir / "a");
    file.write("new");
  }
  CHECK(slurp(dir / "a") == "old");
  CHECK(dir.entries() == 1);
}

TEST_CASE("a full disk is one error, the old file stays, nothing is left over", "[core][file]") {
  const TempDir dir;
  spill(dir / "a", "old");
  std::string message;
  {
    const SmallDisk disk(1000);
    try {
      OutputFile file(dir / "a");
      for (int i = 0; i < 10; ++i) file.write(std::string(300, 'x'));
      file.commit();
    } catch (const hero::Error& error) {
      message = error.what();
    }
  }
  CHECK_THAT(message, ContainsSubstring("cannot write") && ContainsSubstring(dir / "a"));
  CHECK(slurp(dir / "a") == "old");
  CHECK(dir.entries() == 1);
}

TEST_CASE("a missing folder and a folder in place of a file are clear errors", "[core][file]") {
  const TempDir dir;
  CHECK_THROWS_WITH(OutputFile(dir / "missing/a"), ContainsSubstring("No such file or directory"));
  std::filesystem::create_directory(dir / "folder");
  CHECK_THROWS_WITH(OutputFile(dir / "folder"), ContainsSubstring("directory"));
  CHECK_THROWS_AS(OutputFile(""), hero::Error);
  CHECK(dir.entries() == 1);
}

TEST_CASE("writing keeps the permissions of the file and follows a link", "[core][file]") {
  const TempDir dir;
  using std::filesystem::perms;
  spill(dir / "a", "old");
  const perms mode = perms::owner_read | perms::owner_write;
  std::filesystem::permissions(dir / "a", mode);
  std::filesystem::create_symlink(dir / "a", dir / "link");
  OutputFile file(dir / "link");
  file.write("new");
  file.commit();
  CHECK(slurp(dir / "a") == "new");
  CHECK(std::filesystem::is_symlink(dir / "link"));
  CHECK(std::filesystem::status(dir / "a").permissions() == mode);
}

TEST_CASE("threads that write one file leave one of their texts", "[core][file]") {
  const TempDir dir;
  std::vector<std::thread> threads;
  for (const char c : {'a', 'b', 'c', 'd'}) {
    threads.emplace_back([&dir, c] {
      for (int i = 0; i < 5; ++i) {
        OutputFile file(dir / "same");
        file.write(std::string(5000, c));
        file.commit();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const std::string text = slurp(dir / "same");
  CHECK(text == std::string(5000, text.at(0)));
  CHECK(dir.entries() == 1);
}

TEST_CASE("reading is bounded by the file and names it", "[core][file]") {
  const TempDir dir;
  spill(dir / "a", "0123456789");
  const InputFile file(dir / "a");
  CHECK(file.size() == 10);
  std::string text(4, ' ');
  file.read(3, std::as_writable_bytes(std::span(text)));
  CHECK(text == "3456");
  CHECK_THROWS_WITH(file.read(8, std::as_writable_bytes(std::span(text))),
                    ContainsSubstring(dir / "a"));
  CHECK_THROWS_WITH(InputFile(dir / "b"), ContainsSubstring("No such file"));
  CHECK_THROWS_WITH(InputFile(dir / "."), ContainsSubstring("not a regular file"));
}

}  // namespace
