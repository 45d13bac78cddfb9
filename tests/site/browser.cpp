#include "site/browser.h"

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <map>
#include <sstream>
#include <stdexcept>

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

namespace hero_test {

using nlohmann::json;

namespace {

constexpr int kPatience = 60'000;            // ms; a browser that says nothing for so long is lost
constexpr int kCommands = 3, kMessages = 4;  // where Chromium reads and writes

// After two frames the page has been laid out and its pictures drawn anew.
constexpr const char* kTwoFrames =
    "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done())))";

// The program that is found as `name` in PATH, or nothing.
std::string in_path(const std::string& name) {
  const char* path = std::getenv("PATH");
  std::istringstream folders(path != nullptr ? path : "");
  for (std::string folder; std::getline(folders, folder, ':');) {
    const std::string program = folder + "/" + name;
    if (::access(program.c_str(), X_OK) == 0) return program;
  }
  return {};
}

void check(bool good, const std::string& what) {
  if (!good) throw std::runtime_error("browser: " + what);
}

std::vector<std::string> arguments(const std::string& program, const std::string& profile) {
  std::vector<std::string> words = {program,
                                    "--headless",
                                    "--remote-debugging-pipe",
                                    "--user-data-dir=" + profile,
                                    "--disable-gpu",
                                    "--disable-dev-shm-usage",  // small in containers
                                    "--disable-background-networking",
                                    "--no-first-run",
                                    "--hide-scrollbars"};
  if (::geteuid() == 0) words.emplace_back("--no-sandbox");  // Chromium refuses to run as root
  words.emplace_back("about:blank");
  return words;
}

// In the child: becomes the browser, in a process group of its own, with its words in a file.
[[noreturn]] void become(const std::vector<std::string>& words, int commands, int messages,
                         const std::string& log) {
  ::setpgid(0, 0);
  const int nothing = ::open("/dev/null", O_RDONLY);
  const int said = ::open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  // first out of the way of the two numbers that are wanted
  commands = ::fcntl(commands, F_DUPFD, 10);
  messages = ::fcntl(messages, F_DUPFD, 10);
  ::dup2(nothing, STDIN_FILENO);
  ::dup2(said, STDOUT_FILENO);
  ::dup2(said, STDERR_FILENO);
  ::dup2(commands, kCommands);
  ::dup2(messages, kMessages);
  for (int fd = kMessages + 1; fd < 64; ++fd) ::close(fd);
  std::vector<char*> argv;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  ::execv(argv[0], argv.data());
  ::_exit(127);
}

struct Key {
  const char* code;
  int number;        // as Windows counts keys, which the protocol asks for
  const char* text;  // what it writes
};

Key key_of(const std::string& key) {
  static const std::map<std::string, Key> kKeys = {
      {"Tab", {"Tab", 9, ""}},
      {"Enter", {"Enter", 13, "\r"}},
      {" ", {"Space", 32, " "}},
      {"Home", {"Home", 36, ""}},
      {"ArrowLeft", {"ArrowLeft", 37, ""}},
      {"ArrowUp", {"ArrowUp", 38, ""}},
      {"ArrowRight", {"ArrowRight", 39, ""}},
      {"ArrowDown", {"ArrowDown", 40, ""}},
  };
  const auto known = kKeys.find(key);
  if (known != kKeys.end()) return known->second;
  check(key.size() == 1, "no key " + key);
  return {"", key[0], key.c_str()};
}

// RFC 4648, section 4.
std::string from_base64(const std::string& text) {
  const std::string digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  uint32_t held = 0;
  int bits = 0;
  for (const char each : text) {
    const size_t digit = digits.find(each);
    if (digit == std::string::npos) break;  // '=' at the end
    held = held << 6 | static_cast<uint32_t>(digit);
    bits += 6;
    if (bits < 8) continue;
    bits -= 8;
    bytes.push_back(static_cast<char>(held >> bits & 0xff));
  }
  return bytes;
}

}  // namespace

std::string chromium() {
  for (const char* name : {"chromium", "chromium-browser", "google-chrome"}) {
    if (const std::string program = in_path(name); !program.empty()) return program;
  }
  return {};
}

Browser::Browser(const Screen& screen, const std::string& page)
    : page_(page.empty() ? HERO_SITE_DIR "/index.html" : page) {
  int commands[2], messages[2];
  check(::pipe2(commands, O_CLOEXEC) == 0 && ::pipe2(messages, O_CLOEXEC) == 0, "no pipe");
  const std::vector<std::string> words = arguments(chromium(), profile_ / "profile");
  const std::string log = profile_ / "log";
  pid_ = ::fork();
  check(pid_ >= 0, "no process");
  if (pid_ == 0) become(words, commands[0], messages[1], log);
  ::close(commands[0]);
  ::close(messages[1]);
  to_ = commands[1];
  from_ = messages[0];
  ::signal(SIGPIPE, SIG_IGN);  // a browser that has died is an error of write()
  try {
    attach();
  } catch (const std::runtime_error&) {
    // The machine does not let it run: for ctest that is as if there were none.
    std::cout << "\nskipped: Chromium does not start here" << std::endl;
    throw;
  }
  resize(screen);
  load();
}

Browser::~Browser() {
  ::close(to_);
  ::close(from_);
  ::kill(-pid_, SIGKILL);
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

void Browser::attach() {
  const json target = call("Target.createTarget", {{"url", "about:blank"}});
  session_ = call("Target.attachToTarget", {{"targetId", target.at("targetId")}, {"flatten", true}})
                 .at("sessionId");
  for (const char* domain : {"Page", "Runtime", "Log", "Network", "Accessibility"}) {
    call(std::string(domain) + ".enable");
  }
}

json Browser::next() {
  for (;;) {
    const size_t end = unread_.find('\0');
    if (end != std::string::npos) {
      const json message = json::parse(unread_.substr(0, end));
      unread_.erase(0, end + 1);
      return message;
    }
    pollfd ready{from_, POLLIN, 0};
    const int many = ::poll(&ready, 1, kPatience);
    if (many < 0 && errno == EINTR) continue;
    check(many > 0, "it has said nothing for a minute; its log: " + slurp(profile_ / "log"));
    char bytes[65536];
    const ssize_t got = ::read(from_, bytes, sizeof bytes);
    check(got > 0, "it has ended; its log: " + slurp(profile_ / "log"));
    unread_.append(bytes, static_cast<size_t>(got));
  }
}

void Browser::take_event(const json& event) {
  const std::string method = event.at("method");
  const json& params = event.at("params");
  if (method == "Network.requestWillBeSent") {
    requests_.push_back(params.at("request").at("url"));
  } else if (method == "Runtime.exceptionThrown" || method == "Runtime.consoleAPICalled" ||
             method == "Log.entryAdded") {
    complaints_.push_back(params.dump());
  }
}

json Browser::call(const std::string& method, const json& params) {
  const int id = ++last_id_;
  json command = {{"id", id}, {"method", method}, {"params", params}};
  if (!session_.empty()) command["sessionId"] = session_;
  const std::string text = command.dump();
  const char* at = text.c_str();
  for (size_t left = text.size() + 1; left > 0;) {  // with its zero byte
    const ssize_t sent = ::write(to_, at, left);
    if (sent < 0 && errno == EINTR) continue;
    check(sent > 0, "it has ended; its log: " + slurp(profile_ / "log"));
    at += sent;
    left -= static_cast<size_t>(sent);
  }
  for (;;) {
    const json message = next();
    if (message.contains("method")) {
      take_event(message);
    } else if (message.at("id") == id) {
      check(message.contains("result"), method + ": " + message.dump());
      return message.at("result");
    }
  }
}

json Browser::evaluate(const std::string& expression) {
  const json params = {{"expression", expression}, {"returnByValue", true}, {"awaitPromise", true}};
  const json answer = call("Runtime.evaluate", params);
  check(!answer.contains("exceptionDetails"), expression + ": " + answer.dump());
  return answer.at("result").value("value", json());
}

void Browser::key(const std::string& key) {
  const Key k = key_of(key);
  json params = {{"type", *k.text != '\0' ? "keyDown" : "rawKeyDown"},
                 {"key", key},
                 {"code", k.code},
                 {"text", k.text},
                 {"windowsVirtualKeyCode", k.number}};
  call("Input.dispatchKeyEvent", params);
  params["type"] = "keyUp";
  params.erase("text");
  call("Input.dispatchKeyEvent", params);
}

void Browser::type(const std::string& text) {
  for (const char each : text) key(std::string(1, each));
}

void Browser::click(double x, double y) {
  for (const char* type : {"mousePressed", "mouseReleased"}) {
    call("Input.dispatchMouseEvent",
         {{"type", type}, {"x", x}, {"y", y}, {"button", "left"}, {"clickCount", 1}});
  }
}

void Browser::resize(const Screen& screen) {
  call("Emulation.setDeviceMetricsOverride", {{"width", screen.width},
                                              {"height", screen.height},
                                              {"deviceScaleFactor", 1},
                                              {"mobile", false}});
  const json preferred = {{"name", "prefers-color-scheme"}, {"value", screen.theme}};
  call("Emulation.setEmulatedMedia", {{"features", json::array({preferred})}});
  evaluate(kTwoFrames);
}

void Browser::load() {
  const json answer = call("Page.navigate", {{"url", "file://" + page_}});
  check(!answer.contains("errorText"), answer.dump());
  evaluate(
      "new Promise((done) => document.readyState === 'complete' ? done() : "
      "addEventListener('load', () => done()))");
  evaluate(kTwoFrames);
}

void Browser::show(const std::string& page) {
  page_ = page;
  load();
}

std::string Browser::png(const std::string& selector) {
  const json clip =
      evaluate("(() => { const b = document.querySelector('" + selector +
               "').getBoundingClientRect(); return {x: b.x + scrollX - 12, y: b.y + scrollY - 12, "
               "width: b.width + 24, height: b.height + 24, scale: 1}; })()");
  return from_base64(
      call("Page.captureScreenshot", {{"clip", clip}, {"captureBeyondViewport", true}}).at("data"));
}

json Browser::accessibility_tree() { return call("Accessibility.getFullAXTree").at("nodes"); }

}  // namespace hero_test
