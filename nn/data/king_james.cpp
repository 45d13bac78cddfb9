#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <vector>

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <hero/core/error.h>
#include <hero/nn/data/bytes.h>
#include <hero/nn/data/king_james.h>

extern char** environ;

namespace hero::nn::data {
namespace {

constexpr int64_t kVerses = 31102;
constexpr const char* kRemedy =
    "install the package bible-kjv (apt-get install bible-kjv), or put "
    "the text as king_james.txt into the folder named by HERO_DATA";

// Both ends of a pipe, closed at the end of the scope at the latest.
class Pipe {
 public:
  Pipe() {
    const bool made = ::pipe2(ends_, O_CLOEXEC) == 0;
    check(made, "king_james: no pipe: ", std::strerror(errno));
  }
  ~Pipe() {
    close_writer();
    ::close(ends_[0]);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;

  int writer() const { return ends_[1]; }
  void close_writer() {
    if (ends_[1] >= 0) ::close(ends_[1]);
    ends_[1] = -1;
  }
  // Everything until the other side closes.
  std::string read_all() {
    std::string text;
    char piece[1 << 16];
    while (true) {
      const ssize_t got = ::read(ends_[0], piece, sizeof piece);
      if (got < 0 && errno == EINTR) continue;
      check(got >= 0, "king_james: cannot read from 'bible': ", std::strerror(errno));
      if (got == 0) return text;
      text.append(piece, static_cast<size_t>(got));
    }
  }

 private:
  int ends_[2] = {-1, -1};
};

// Standard input is empty, standard output goes to the pipe.
class Redirection {
 public:
  explicit Redirection(int writer) {
    posix_spawn_file_actions_init(&actions_);
    posix_spawn_file_actions_addopen(&actions_, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions_, writer, STDOUT_FILENO);
  }
  ~Redirection() { posix_spawn_file_actions_destroy(&actions_); }
  Redirection(const Redirection&) = delete;
  Redirection& operator=(const Redirection&) = delete;
  const posix_spawn_file_actions_t* get() const { return &actions_; }

 private:
  posix_spawn_file_actions_t actions_;
};

// What the program prints for the whole book.
std::string run_bible() {
  std::vector<char*> environment;  // without COLUMNS, by which the program folds lines
  for (char** one = environ; *one != nullptr; ++one) {
    if (!std::string_view(*one).starts_with("COLUMNS=")) environment.push_back(*one);
  }
  environment.push_back(nullptr);
  std::string words[] = {"bible", "-f", "gen1:1-rev22:21"};
  char* const arguments[] = {words[0].data(), words[1].data(), words[2].data(), nullptr};
  Pipe pipe;
  const Redirection redirection(pipe.writer());
  pid_t child = 0;
  const int error =
      ::posix_spawnp(&child, "bible", redirection.get(), nullptr, arguments, environment.data());
  check(error == 0, "king_james: cannot run the program 'bible': ", std::strerror(error), "; ",
        kRemedy);
  pipe.close_writer();
  std::string text = pipe.read_all();
  int status = 0;
  pid_t waited = 0;
  do waited = ::waitpid(child, &status, 0);
  while (waited < 0 && errno == EINTR);
  // A program that ignores SIGCHLD gets no status; the text itself is checked all the same.
  check(waited < 0 || status == 0, "king_james: the program 'bible' failed with status ", status,
        "; ", kRemedy);
  return text;
}

// The program's output must be the whole book; what a user puts in its place is the user's choice.
void check_whole(const std::string& text) {
  const int64_t lines = std::count(text.begin(), text.end(), '\n');
  check(
      text.starts_with("Ge1:1 In the beginning ") && text.ends_with("Amen.\n") && lines == kVerses,
      "king_james: the program 'bible' printed ", lines, " lines, expected the ", kVerses,
      " verses from 'Ge1:1 In the beginning' on; ", kRemedy);
}

// "Ge1:1", "1Cor13:4": a word that ends in a digit and has a colon between digits.
bool is_reference(std::string_view word) {
  const size_t colon = word.find(':');
  const auto digit = [&](size_t at) { return word[at] >= '0' && word[at] <= '9'; };
  return colon != word.npos && colon > 1 && colon + 1 < word.size() && digit(colon - 1) &&
         digit(word.size() - 1);
}

std::string without_references(const std::string& text) {
  std::string verses;
  verses.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size() - 1) + 1;
    const std::string_view line = std::string_view(text).substr(at, end - at);
    const size_t space = line.find(' ');
    const bool referred = space != line.npos && is_reference(line.substr(0, space));
    verses += referred ? line.substr(space + 1) : line;
    at = end;
  }
  return verses;
}

}  // namespace

std::string king_james(const KingJamesOptions& options) {
  const std::string folder = data_folder();
  const std::string file = folder + "/king_james.txt";
  std::string text;
  if (!folder.empty() && is_file(file)) {
    text = read_text(file);
    check(!text.empty(), "king_james: ", file, " is empty; ", kRemedy);
  } else {
    text = run_bible();
    check_whole(text);
  }
  return options.references ? text : without_references(text);
}

}  // namespace hero::nn::data
