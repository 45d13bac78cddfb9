#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <utility>

#include <unistd.h>

#include <hero/core/error.h>
#include <hero/dist/backends/child_process.h>
#include <hero/dist/backends/notices.h>
#include <hero/dist/backends/supervisor.h>

namespace hero::dist {
namespace {

// Exit codes after which a restart would not help: wrong options, and a command that does not
// exist.
constexpr int kWrongUsage = 2, kNotFound = 127;
constexpr int kLostHost = 205;     // mpirun's, where it has lost its own process on a host
constexpr double kMostPause = 60;  // seconds between two attempts
constexpr double kToldPause = 4;   // from here on a line says that it waits
constexpr const char* kFirstPause = "HERO_RESTART_PAUSE";

int parse_positive(const std::string& text, const char* what) {
  int value = 0;
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, value);
  check(parsed.ec == std::errc{} && parsed.ptr == end && value >= 1, "launch: ", what, ": '", text,
        "'");
  return value;
}

std::vector<std::string> words_of(const std::string& command) {
  std::istringstream words(command);
  return {std::istream_iterator<std::string>(words), {}};
}

// As it was typed, however much main() has taken out of argv since.
std::vector<std::string> own_command() {
  std::vector<std::string> words;
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  for (std::string word; std::getline(file, word, '\0');) words.push_back(word);
  check(!words.empty(), "launch: /proc/self/cmdline cannot be read");
  std::error_code wrong;
  words[0] = std::filesystem::read_symlink("/proc/self/exe", wrong).string();
  check(!wrong, "launch: /proc/self/exe cannot be read: ", wrong.message());
  return words;
}

// Of ranks that a run may have, descending.
std::vector<int> numbers_of(const Restarts& restarts, int ranks) {
  std::vector<int> numbers = restarts.numbers;
  if (numbers.empty()) numbers = {ranks};
  while (restarts.elastic && restarts.numbers.empty() && numbers.back() % 2 == 0) {
    numbers.push_back(numbers.back() / 2);
  }
  std::sort(numbers.begin(), numbers.end(), std::greater<>());
  check(numbers.back() <= ranks, "launch: of the numbers of ranks of --elastic none is at most ",
        ranks, ", as --ranks says");
  return numbers;
}

double first_pause() {
  const char* const text = std::getenv(kFirstPause);
  if (text == nullptr || *text == '\0') return 1;
  double seconds = 0;
  const char* const end = text + std::strlen(text);
  const auto parsed = std::from_chars(text, end, seconds);
  check(parsed.ec == std::errc{} && parsed.ptr == end && seconds >= 0, "launch: ", kFirstPause,
        " is no number of seconds: '", text, "'");
  return seconds;
}

class Supervisor {
 public:
  Supervisor(const std::string& name, const Restarts& restarts, int ranks)
      : name_(name),
        restarts_(restarts),
        most_(ranks),
        room_(ranks),
        numbers_(numbers_of(restarts, ranks)),
        first_pause_(first_pause()) {}

  /// In a child that runs the program as threads: on how many. The supervisor ends in it.
  int run() {
    for (;;) {
      find_room();
      if (attempt_ > 0) say(last_ + ", " + next());
      notices_->begun = notices_->saved = notices_->failed = notices_->late = 0;
      const pid_t child = restarts_.mpirun.empty() ? children_.start() : children_.start(mpirun());
      if (child == 0) return ranks_;
      const Ended ended = children_.wait(child, [this] { return notices_->failed != 0; });
      const int code = ended.exit_code();
      if (ended.stop != 0) end(code == 0 ? 0 : 128 + ended.stop);
      if (code == 0) end(0);
      ++attempt_;
      give_back();
      last_ = "attempt " + std::to_string(attempt_) + " of " +
              std::to_string(attempt_ + *restarts_.count - used_) + " " + ended.text();
      const std::string why_not = last_word(ended);
      if (!why_not.empty()) {
        say(last_ + ", " + why_not + ": it is not started again");
        end(code);
      }
      if (restarts_.elastic) room_ = ranks_ - 1;
      pause();
      ++used_;
    }
  }

 private:
  void say(const std::string& what) const {
    const std::string line = (name_.empty() ? "" : name_ + ": ") + what + "\n";
    std::fwrite(line.data(), 1, line.size(), stderr);
  }

  // Nothing that the program wants done at exit: it was done in the child.
  [[noreturn]] void end(int code) {
    notices_.remove();
    ::_exit(code);
  }

  // [note: how often a program is started again]
  // A restart is used up by an attempt that has not come further than all before. One that has
  // written a newer checkpoint gives back all: a run of weeks may lose a host each day. Between two
  // attempts it waits 1 s, and twice as long each time while nothing is gained, so that a host that
  // comes and goes does not use up all restarts within minutes.
  void give_back() {
    if (notices_->saved == 0 || notices_->step <= furthest_) return;
    furthest_ = notices_->step;
    used_ = 0;
  }

  void pause() {
    const double seconds = std::min(kMostPause, std::ldexp(first_pause_, std::min(used_, 30)));
    if (seconds >= kToldPause) {
      say(last_ + ", the next one begins in " + hero::detail::number_text(seconds) + " s");
    }
    const int stop = children_.pause(seconds);
    if (stop != 0) end(128 + stop);
  }

  // Whether the program is no more to blame than the machines it ran on: a signal has ended a
  // process, mpirun has lost a host, or ranks have waited in vain for another.
  bool may_be_machine(const Ended& ended) const {
    return ended.by_signal() || notices_->late != 0 ||
           (!restarts_.mpirun.empty() && ended.code == kLostHost);
  }

  // Why there is no further attempt; "" where there is one.
  std::string last_word(const Ended& ended) {
    if (ended.signal == 0 && (ended.code == kWrongUsage || ended.code == kNotFound)) {
      return "which no restart mends";
    }
    // mpirun may have begun rank 0 on another host: then nothing is known of its checkpoints
    const bool known = restarts_.mpirun.empty() || notices_->begun != 0;
    const bool vain = known && notices_->saved == 0 && !may_be_machine(ended);
    in_vain_ = vain ? in_vain_ + 1 : 0;
    if (in_vain_ == 2) return "like the one before without a new checkpoint";
    return used_ >= *restarts_.count ? "no restart is left" : "";
  }

  // "node2 has no room any more, it starts again on 2 ranks from step 12"
  std::string next() const {
    std::string text;
    for (const Slots& slots : former_hosts_) {
      if (!lists(hosts_, slots.host)) text += (text.empty() ? "" : ", ") + slots.host;
    }
    if (!text.empty()) text += " has no room any more, ";
    text += "it starts again on " + std::to_string(ranks_) + (ranks_ == 1 ? " rank" : " ranks");
    const int64_t step = notices_->step;
    return step == 0 ? text : text + " from step " + std::to_string(step - 1);
  }

  // The number of ranks of the next attempt, and their hosts.
  void find_room() {
    int room = std::max(room_, numbers_.back());
    if (!restarts_.hosts.empty()) {
      former_hosts_ = std::exchange(hosts_, ask_hosts());
      room = 0;
      for (const Slots& slots : hosts_) room += slots.count;
      room = std::min(room, most_);
    }
    const auto fits = [&](int number) { return number <= room; };
    const auto found = std::find_if(numbers_.begin(), numbers_.end(), fits);
    check(found != numbers_.end(), "launch: --hosts has room for ", room, " of at least ",
          numbers_.back(), " ranks", attempt_ == 0 ? "" : "; before, " + last_);
    ranks_ = *found;
  }

  std::vector<Slots> ask_hosts() {
    std::FILE* const output = std::tmpfile();
    check(output != nullptr, "launch: no temporary file for the output of --hosts");
    const pid_t child = children_.start({"/bin/sh", "-c", restarts_.hosts}, ::fileno(output));
    const Ended ended = children_.wait(child, [] { return false; });
    std::string text;
    std::rewind(output);
    for (int c = std::fgetc(output); c != EOF; c = std::fgetc(output)) {
      text += static_cast<char>(c);
    }
    std::fclose(output);
    if (ended.stop != 0) end(128 + ended.stop);
    check(ended.exit_code() == 0, "launch: --hosts '", restarts_.hosts, "' ", ended.text());
    return parse_slots(text);
  }

  // mpirun --host node1:2,node2:2 -n 4 env HERO_SUPERVISOR=.. train ..; a variable of its own would
  // not come to other hosts by itself
  std::vector<std::string> mpirun() const {
    std::vector<std::string> words = words_of(restarts_.mpirun);
    check(!words.empty(), "launch: --mpirun names no command");
    std::string hosts;
    int left = ranks_;
    for (const Slots& slots : hosts_) {
      const int count = std::min(left, slots.count);
      left -= count;
      if (count > 0) hosts += (hosts.empty() ? "" : ",") + slots.host + ":" + std::to_string(count);
    }
    if (!hosts.empty()) words.insert(words.end(), {"--host", hosts});
    words.insert(words.end(), {"-n", std::to_string(ranks_), "env", notices_.variable(attempt_)});
    for (std::string& word : own_command()) words.push_back(std::move(word));
    return words;
  }

  static bool lists(const std::vector<Slots>& hosts, const std::string& name) {
    return std::any_of(hosts.begin(), hosts.end(), [&](const Slots& s) { return s.host == name; });
  }

  std::string name_;
  Restarts restarts_;
  int most_ = 1, room_ = 1, ranks_ = 1;  // ranks: asked for, without --hosts left, of the attempt
  std::vector<int> numbers_;             // of ranks that may be; descending
  std::vector<Slots> hosts_, former_hosts_;
  double first_pause_ = 1;  // seconds
  int attempt_ = 0;         // how many have ended
  int used_ = 0;            // restarts, since the run came further than before
  int64_t furthest_ = 0;    // 1 + the step of the newest checkpoint that an attempt has written
  int in_vain_ = 0;         // of these the last ones that an error ended without a new checkpoint
  std::string last_;
  ChildProcesses children_;
  NoticeFile notices_;
};

}  // namespace

std::vector<int> parse_numbers(const std::string& text) {
  std::vector<int> numbers;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find(',', at), text.size());
    numbers.push_back(
        parse_positive(text.substr(at, end - at), "--elastic=8,4,2,1 names numbers of ranks"));
    at = end + 1;
  }
  return numbers;
}

std::vector<Slots> parse_slots(const std::string& text) {
  std::vector<Slots> hosts;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::vector<std::string> words = words_of(line.substr(0, line.find('#')));
    if (words.empty()) continue;
    std::string slots;
    const size_t colon = words[0].find(':');
    if (words.size() == 2 && words[1].starts_with("slots=")) slots = words[1].substr(6);
    if (words.size() == 1 && colon != std::string::npos) slots = words[0].substr(colon + 1);
    check(words.size() == 1 || !slots.empty(),
          "launch: --hosts prints lines as 'node1 slots=2', not '", line, "'");
    const bool one = slots.empty() && colon == std::string::npos;
    hosts.push_back({words[0].substr(0, colon),
                     one ? 1 : parse_positive(slots, "--hosts prints slots that are no number")});
  }
  return hosts;
}

int supervise(const std::string& name, const Restarts& restarts, int ranks) {
  return Supervisor(name, restarts, ranks).run();
}

}  // namespace hero::dist
