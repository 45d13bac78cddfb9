#include "exercises/support/grade.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <new>
#include <sstream>
#include <thread>

#include "support/pictures/palette.h"
#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

namespace exercise {

namespace {

constexpr double kSeconds = 8;  // that a check may take; those of the exercises take less than one
constexpr rlim_t kMemory = rlim_t{1} << 30;     // bytes that it may take
constexpr rlim_t kOfThread = rlim_t{32} << 20;  // and as many for each thread, whose stack counts
constexpr size_t kColumn = 13;                  // where the texts begin
constexpr size_t kWidth = 100;                  // of a line
enum class Verdict : char { right = 'r', wrong = 'w', not_yet = 'n' };

struct NotWritten : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Result {
  Verdict verdict;
  std::string text;
};

// In the process of a check.
Result outcome_of(const Check& check) {
  try {
    return {Verdict::right, check.run()};
  } catch (const NotWritten& error) {
    return {Verdict::not_yet, error.what()};
  } catch (const Wrong& error) {
    return {Verdict::wrong, error.what()};
  } catch (const std::bad_alloc&) {
    return {Verdict::wrong,
            "It takes more than 1 GB of memory: look for a loop that appends and never ends."};
  } catch (const std::exception& error) {
    std::string text = std::string("It throws an error: ") + error.what();
    for (const char* hangs : {"deadlock", "has finished without this call"}) {
      if (text.find(hangs) == std::string::npos) continue;
      text += ". " + check.if_it_hangs;
      break;
    }
    return {Verdict::wrong, text};
  } catch (...) {
    return {Verdict::wrong, "It throws something that is no std::exception."};
  }
}

void write_all(int file, const std::string& text) {
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t count = ::write(file, text.data() + done, text.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return;
    done += static_cast<size_t>(count);
  }
}

// All that is in a file, which is closed. What the standard library has found is left out of what
// goes on to stderr.
std::string pass_on(std::FILE* file) {
  std::rewind(file);
  std::string all, line;
  for (int letter = 0; (letter = std::fgetc(file)) != EOF;) {
    line += static_cast<char>(letter);
    if (letter != '\n') continue;
    all += line;
    if (line.find(": Assertion '") == std::string::npos) std::fputs(line.c_str(), stderr);
    line.clear();
  }
  std::fputs(line.c_str(), stderr);
  std::fclose(file);
  return all + line;
}

// What a process says that ends by a signal; `errors` is what it has printed to stderr.
std::string text_of_signal(int number, const std::string& errors) {
  const auto says = [&](const char* text) { return errors.find(text) != std::string::npos; };
  if (number == SIGABRT && says("__n < this->size()")) {
    return "It asks for an element that is not there: the index is the size of the vector, or "
           "larger. A size_t is never negative: 0 - 1 is the largest number that there is.";
  }
  if (number == SIGABRT && says("!this->empty()")) {
    return "It asks an empty list for its first or last element.";
  }
  if (number == SIGABRT && (says("!= nullptr") || says("!= pointer()"))) {
    return "It uses a pointer that was never set.";
  }
  std::string text = std::string("It ends the program by a signal: ") + ::strsignal(number) + ".";
  if (number == SIGSEGV) {
    text +=
        " The likeliest causes: a pointer that was never set, also a member that a local variable "
        "of "
        "its name hides; an element that is not there; a function that calls itself without end.";
  }
  return text;
}

// Runs a check in a process of its own, which may crash or hang.
Result run(const Check& check) {
  int ends[2];
  std::fflush(nullptr);  // what lies in buffers would be written by both
  std::cout.flush();
  std::FILE* const errors = std::tmpfile();
  if (errors == nullptr || ::pipe(ends) != 0) {
    throw std::runtime_error("grade: no pipe for the answer");
  }
  const pid_t pid = ::fork();
  if (pid < 0) throw std::runtime_error("grade: no process for the answer");
  if (pid == 0) {
    ::close(ends[0]);
    ::dup2(::fileno(errors), STDERR_FILENO);
    const rlim_t memory = kMemory + kOfThread * std::thread::hardware_concurrency();
    const rlimit limit = {memory, memory};
    ::setrlimit(RLIMIT_DATA, &limit);
    const Result result = outcome_of(check);
    std::fflush(nullptr);
    std::cout.flush();
    write_all(ends[1], static_cast<char>(result.verdict) + result.text);
    ::_exit(0);  // threads of a rank may still wait for something
  }
  ::close(ends[1]);
  std::string said;
  bool in_time = true;
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(kSeconds);
  for (;;) {
    const std::chrono::duration<double, std::milli> left = end - std::chrono::steady_clock::now();
    pollfd ready = {ends[0], POLLIN, 0};
    const int count = ::poll(&ready, 1, left.count() > 0 ? static_cast<int>(left.count()) + 1 : 0);
    if (count < 0 && errno == EINTR) continue;
    if (count == 0) {
      in_time = false;
      break;
    }
    char buffer[4096];
    const ssize_t bytes = ::read(ends[0], buffer, sizeof buffer);
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes <= 0) break;
    said.append(buffer, static_cast<size_t>(bytes));
  }
  ::close(ends[0]);
  if (!in_time) ::kill(pid, SIGKILL);
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  const std::string complained = pass_on(errors);
  if (!in_time) {
    return {Verdict::wrong, "It has not ended after " + std::to_string(static_cast<int>(kSeconds)) +
                                " seconds and was stopped. " + check.if_it_hangs};
  }
  if (!said.empty()) return {static_cast<Verdict>(said[0]), said.substr(1)};
  if (WIFSIGNALED(status)) return {Verdict::wrong, text_of_signal(WTERMSIG(status), complained)};
  return {Verdict::wrong, "It ends the whole program, by exit() or a function like it."};
}

// The sentence of a check beside its name, in lines of kWidth; then its further lines.
void print(const std::string& name, const char* verdict, const std::string& text) {
  const size_t end = text.find('\n');
  std::istringstream words(text.substr(0, end));
  std::string line = "  " + name, word = verdict;
  line.resize(std::max(kColumn, line.size() + 1), ' ');
  line += word;
  while (words >> word) {
    if (line.size() + 1 + word.size() > kWidth) {
      std::printf("%s\n", line.c_str());
      line.assign(kColumn, ' ');
      line += word;
    } else {
      line += " " + word;
    }
  }
  std::printf("%s\n", line.c_str());
  if (end != std::string::npos) std::printf("%s\n", text.c_str() + end + 1);
}

// Neighbours that are alike are one block.
void save(const std::string& path, const std::string& title, const std::vector<Lane>& lanes) {
  constexpr int kLabels = 118, kRows = 512, kHigh = 44, kTop = 56;  // units of the drawing
  constexpr const char* kFont = "font-family=\"sans-serif\" font-size=\"21\" fill=\"#111111\"";
  const int high = kTop + kHigh * static_cast<int>(lanes.size()) + 40;
  std::ofstream file(path);
  file << "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 640 " << high
       << "\" width=\"640\" height=\"" << high
       << "\">\n<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n<text x=\"320\" y=\"34\" "
          "text-anchor=\"middle\" "
       << kFont << ">" << title << "</text>\n";
  for (size_t i = 0; i < lanes.size(); ++i) {
    const Lane& lane = lanes[i];
    const int y = kTop + kHigh * static_cast<int>(i);
    const double wide = static_cast<double>(kRows) / static_cast<double>(lane.row.size());
    file << "<text x=\"8\" y=\"" << y + 27 << "\" " << kFont << ">" << lane.label << "</text>\n";
    for (size_t begin = 0, end = 0; begin < lane.row.size(); begin = end) {
      const char what = lane.row[begin];
      while (end < lane.row.size() && lane.row[end] == what) ++end;
      if (what == '.') continue;
      const bool is_letter = what >= 'a' && what <= 'z';
      const double x = kLabels + wide * static_cast<double>(begin),
                   across = wide * static_cast<double>(end - begin);
      file << "<rect x=\"" << x << "\" y=\"" << y << "\" width=\"" << across
           << "\" height=\"36\" stroke=\"#ffffff\" fill=\""
           << (is_letter ? tutorial::kBackwardColours[0] : lane.colour) << "\"/>\n<text x=\""
           << x + across / 2 << "\" y=\"" << y + 26 << "\" text-anchor=\"middle\" " << kFont << ">"
           << what << "</text>\n";
    }
  }
  file << "<text x=\"" << kLabels << "\" y=\"" << high - 12 << "\" " << kFont
       << ">time &#8594;</text>\n</svg>\n";
}

}  // namespace

std::string draw(const std::string& name, const std::string& title,
                 const std::vector<Lane>& lanes) {
  const char* const to = std::getenv("EXERCISE_PICTURES");  // set by tutorials/exercise
  if (to != nullptr && *to != '\0') save(std::string(to) + "_" + name + ".svg", title, lanes);
  size_t longest = 0;
  for (const Lane& lane : lanes) longest = std::max(longest, lane.label.size());
  std::string text = "\n";
  for (const Lane& lane : lanes) {
    text += "\n" + std::string(15, ' ') + lane.label;
    text.append(longest + 1 - lane.label.size(), ' ').append(lane.row);
  }
  return text;
}

void to_write(const char* what) { throw NotWritten(what); }

int grade(const std::string& title, const std::vector<Check>& checks) {
  std::printf("%s\n\n", title.c_str());
  const char* const warnings = std::getenv("EXERCISE_WARNINGS");  // set by tutorials/exercise
  const bool warned = warnings != nullptr && *warnings != '\0';
  print("compiles", warned ? "right, but the compiler warns:" : "right", warned ? warnings : "");
  for (const Check& check : checks) {
    const Result result = run(check);
    switch (result.verdict) {
      case Verdict::right:
        print(check.name, "right:", result.text);
        continue;
      case Verdict::wrong:
        print(check.name, "WRONG:", result.text);
        std::printf("\nNot right yet.\n");
        return 1;
      case Verdict::not_yet:
        print(check.name, "not yet: to be written is", result.text);
        std::printf(
            "\nNot all is written yet: your lines take the place of to_write(..) in each gap.\n");
        return 3;
    }
  }
  std::printf("\nAll is right: this exercise is done.\n");
  return 0;
}

std::string number(double value) {
  char text[40];
  for (int digits = 6; digits <= 17; ++digits) {
    std::snprintf(text, sizeof text, "%.*g", digits, value);
    if (std::strtod(text, nullptr) == value) break;
  }
  return text;
}

std::string grouped(int64_t value) {
  std::string text = std::to_string(value);
  for (size_t at = text.size(); at > 3 + (value < 0 ? 1U : 0U);) text.insert(at -= 3, ",");
  return text;
}

bool near(double a, double b, double tolerance) {
  return std::fabs(a - b) <= tolerance * (1.0 + std::fabs(b));
}

}  // namespace exercise
