#pragma once
// A headless Chromium with one page, driven over a pipe by the Chrome DevTools Protocol
// (https://chromedevtools.github.io/devtools-protocol/): commands and events are JSON texts that
// end with a zero byte.
#include <string>
#include <vector>

#include "support/temp_dir.h"
#include <nlohmann/json.hpp>

namespace hero_test {

/// The first program in PATH of the names chromium, chromium-browser, google-chrome; empty where
/// there is none.
std::string chromium();

struct Screen {
  int width = 1400, height = 900;  ///< pixels
  std::string theme = "light";     ///< what the system prefers: light or dark
};

class Browser {
 public:
  /// Starts the browser and shows a file; "" is docs/site/index.html. A std::runtime_error where it
  /// does not run, which ctest counts as skipped where it has not even started.
  explicit Browser(const Screen& screen = {}, const std::string& page = "");
  ~Browser();
  Browser(const Browser&) = delete;
  Browser& operator=(const Browser&) = delete;

  /// The value of a JavaScript expression. What it throws is a std::runtime_error here.
  nlohmann::json evaluate(const std::string& expression);
  /// Presses and releases a key as a person does: Tab, Enter, an arrow, or one character.
  void key(const std::string& key);
  /// The same for every character of a text.
  void type(const std::string& text);
  /// Presses and releases the left mouse button, at pixels of the window.
  void click(double x, double y);
  void resize(const Screen& screen);
  /// Shows the page anew, as after a start with the same profile.
  void load();
  /// Shows another file.
  void show(const std::string& page);
  /// The nodes of the page as assistive programs are told of them.
  nlohmann::json accessibility_tree();

  /// What the page shows of the element that a CSS selector finds, and 12 pixels around, as PNG.
  std::string png(const std::string& selector);

  /// What the page wrote to the console, and exceptions that nobody caught.
  const std::vector<std::string>& complaints() const { return complaints_; }
  /// Addresses that were asked for.
  const std::vector<std::string>& requests() const { return requests_; }

 private:
  nlohmann::json call(const std::string& method,
                      const nlohmann::json& params = nlohmann::json::object());
  nlohmann::json next();
  void take_event(const nlohmann::json& event);
  void attach();

  TempDir profile_;
  std::string page_;
  int to_ = -1, from_ = -1, pid_ = -1, last_id_ = 0;
  std::string session_, unread_;
  std::vector<std::string> complaints_, requests_;
};

}  // namespace hero_test

/// Ends a test case where there is no browser; ctest counts it as skipped.
#define NEED_CHROMIUM()                                                            \
  do {                                                                             \
    if (hero_test::chromium().empty()) {                                           \
      std::cout << "skipped: no chromium in PATH (Debian: chromium)" << std::endl; \
      SUCCEED("skipped: no chromium");                                             \
      return;                                                                      \
    }                                                                              \
  } while (false)
