#include <cerrno>
#include <csignal>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "support/catch.h"
#include "support/small_disk.h"
#include "support/temp_dir.h"
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <hero/core/error.h>
#include <hero/core/io/file.h>

namespace {

using Catch::Matchers::ContainsSubstring;
using hero::InputFile;
using hero::OutputFile;
using hero_test::slurp;
using hero_test::SmallDisk;
using hero_test::spill;
using hero_test::TempDir;

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

TEST_CASE("a file in a new folder leaves what else lies there alone, and its bytes are observed",
          "[core][file]") {
  const TempDir dir;
  spill(dir / "a.tmp.1.2", "a leftover that nobody looks for");
  std::string observed;
  OutputFile file(dir / "a", {.in_new_folder = true, .observe = [&](auto bytes) {
                                observed.append(reinterpret_cast<const char*>(bytes.data()),
                                                bytes.size());
                              }});
  file.write("hello ");
  file.write("world");
  CHECK(!std::filesystem::exists(dir / "a"));
  file.commit();
  CHECK(slurp(dir / "a") == "hello world");
  CHECK(observed == "hello world");
  CHECK(dir.entries() == 2);
  OutputFile(dir / "a", {.in_new_folder = true}).write("not committed");
  CHECK(slurp(dir / "a") == "hello world");
  CHECK(dir.entries() == 2);
  OutputFile(dir / "a").commit();
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

TEST_CASE("a device or a pipe is not replaced by a file", "[core][file]") {
  const TempDir dir;
  REQUIRE(::mkfifo((dir / "pipe").c_str(), 0600) == 0);
  CHECK_THROWS_WITH(OutputFile(dir / "pipe"), ContainsSubstring("is a device or a pipe"));
  CHECK(std::filesystem::is_fifo(dir / "pipe"));
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

// A child that writes half a file and is killed.
void be_killed_while_writing(const std::string& path) {
  const pid_t child = ::fork();
  if (child == 0) {
    OutputFile file(path);
    file.write("half");
    ::kill(::getpid(), SIGKILL);
    ::_exit(0);
  }
  int status = 0;
  hero::retried([&] { return ::waitpid(child, &status, 0); });
  REQUIRE(WIFSIGNALED(status));
}

TEST_CASE("what killed writers leave goes with the next file of that name", "[core][file]") {
  const TempDir dir;
  for (int i = 0; i < 3; ++i) be_killed_while_writing(dir / "a");
  CHECK(dir.entries() == 1);  // each removed what the one before had left
  be_killed_while_writing(dir / "ab");
  CHECK(dir.entries() == 2);
  OutputFile living(dir / "a");
  CHECK(dir.entries() == 2);  // its own, and that of the other name
  living.write("living");
  // Names that only look like leftovers are somebody's files.
  for (const char* name : {"a.tmp.12", "a.tmp.x.1", "a.tmp.1.", "a.tmp..1", "a.tmp.1.2.bak"}) {
    spill(dir / name, "mine");
  }
  OutputFile second(dir / "a");
  second.write("second");
  second.commit();
  living.commit();  // was not taken for a leftover
  CHECK(slurp(dir / "a") == "living");
  CHECK(dir.entries() == 7);
  be_killed_while_writing(dir / "a");
  std::filesystem::create_symlink(dir / "a", dir / "link");
  OutputFile(dir / "link").commit();  // leftovers lie beside what a link leads to
  CHECK(dir.entries() == 8);
}

TEST_CASE("a temporary's name that is taken is passed over", "[core][file]") {
  const TempDir dir;
  const std::string mine = ".tmp." + std::to_string(::getpid()) + ".";
  // Nobody writes these, but a folder cannot be removed as a leftover.
  for (int i = 0; i < 100; ++i) {
    std::filesystem::create_directory(dir / ("a" + mine + std::to_string(i)));
  }
  OutputFile file(dir / "a");
  file.write("x");
  file.commit();
  CHECK(slurp(dir / "a") == "x");
}

TEST_CASE("signals do not interrupt reading and writing", "[core][file]") {
  int calls = 0;
  CHECK(hero::retried([&] {
          errno = EINTR;
          return ++calls < 4 ? -1 : 17;
        }) == 17);
  CHECK(hero::retried([&] {
          errno = EIO;
          ++calls;
          return -1;
        }) == -1);
  CHECK(calls == 5);
  const TempDir dir;
  struct sigaction ignore {
  }, before{};
  ignore.sa_handler = [](int) {};  // without SA_RESTART
  ::sigaction(SIGALRM, &ignore, &before);
  const itimerval often{{0, 500}, {0, 500}}, never{};
  ::setitimer(ITIMER_REAL, &often, nullptr);
  const std::string text(3 << 20, 'x');
  for (int i = 0; i < 20; ++i) {
    OutputFile file(dir / "a");
    file.write(text);
    file.commit();
    CHECK(hero::read_file_text(dir / "a") == text);
  }
  ::setitimer(ITIMER_REAL, &never, nullptr);
  ::sigaction(SIGALRM, &before, nullptr);
}

TEST_CASE("a path that cannot be looked at counts as there", "[core][file]") {
  const TempDir dir;
  spill(dir / "file", "12345");
  std::filesystem::create_symlink(dir / "loop", dir / "loop");
  std::filesystem::create_symlink(dir / "nothing", dir / "dangling");
  CHECK(hero::path_exists(dir / "file"));
  CHECK(hero::path_exists(dir / "loop"));
  CHECK_FALSE(hero::path_exists(dir / "dangling"));
  CHECK_FALSE(hero::path_exists(dir / "nothing"));
  CHECK_FALSE(hero::path_exists(dir / "file/below"));
  CHECK(hero::is_folder(dir / "."));
  CHECK_FALSE(hero::is_folder(dir / "file"));
  CHECK_FALSE(hero::is_folder(dir / "loop"));
  CHECK(hero::names_in(dir / ".") == std::vector<std::string>{"dangling", "file", "loop"});
  CHECK(hero::names_in(dir / "nothing").empty());
  CHECK_THROWS_AS(hero::names_in(dir / "loop"), hero::Error);
  CHECK_THROWS_AS(hero::names_in(dir / "file"), hero::Error);
  CHECK_THROWS_WITH(hero::flush_folder("save", dir / "nothing"),
                    ContainsSubstring("save: cannot open the folder"));
  CHECK_THROWS_WITH(hero::make_folders("save", dir / "file/below"),
                    ContainsSubstring("save: cannot make the folder"));
  CHECK_THROWS_WITH(hero::make_folders("save", dir / "file"),
                    ContainsSubstring("save: cannot make the folder"));
  hero::make_folders("save", dir / "a/b/c");
  hero::make_folders("save", dir / "a/b/c");
  CHECK(hero::is_folder(dir / "a/b/c"));
  CHECK(hero::read_file_text(dir / "file", 5) == "12345");
  CHECK_THROWS_WITH(hero::read_file_text(dir / "file", 4), ContainsSubstring("expected at most 4"));
}

TEST_CASE("what the standard library throws over a file is an Error of that file", "[core][file]") {
  const auto error = [](const auto& body) -> std::string {
    try {
      hero::with_file_errors("load", "a.npy", body);
    } catch (const hero::Error& caught) {
      return caught.what();
    }
    return "";
  };
  CHECK(error([]() -> int { throw std::bad_alloc(); }) == "load: a.npy: out of memory");
  CHECK_THAT(error([]() -> int { throw std::length_error("x"); }), ContainsSubstring("too long"));
  CHECK_THAT(error([]() -> int {
               (void)std::filesystem::file_size("/nothing/here");
               return 0;
             }),
             ContainsSubstring("load: a.npy: ") && ContainsSubstring("No such file"));
  CHECK(hero::with_file_errors("load", "a.npy", [] { return 3; }) == 3);
}

}  // namespace
