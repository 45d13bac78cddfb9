// The page as its readers meet it: keyboard, screen readers, both themes, narrow and wide.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iostream>

#include "site/browser.h"
#include "support/catch.h"

using hero_test::Browser, hero_test::Screen;
using nlohmann::json;

namespace {

std::string value(Browser& browser, const std::string& id) {
  return browser.evaluate("document.getElementById('" + id + "').value");
}

std::string text(Browser& browser, const std::string& id) {
  return browser.evaluate("document.getElementById('" + id + "').textContent");
}

std::string focused(Browser& browser) {
  return browser.evaluate("document.activeElement.id || document.activeElement.tagName");
}

void choose(Browser& browser, const std::string& id, const std::string& option) {
  browser.evaluate("{ const e = document.getElementById('" + id + "'); e.value = '" + option +
                   "'; e.dispatchEvent(new Event('change')); }");
}

// Presses Tab until the element has the focus.
void tab_to(Browser& browser, const std::string& id) {
  for (int i = 0; i < 80 && focused(browser) != id; ++i) browser.key("Tab");
  REQUIRE(focused(browser) == id);
}

void replace(Browser& browser, const std::string& id, const std::string& by) {
  tab_to(browser, id);
  browser.evaluate("document.activeElement.select()");
  browser.type(by);
}

// Texts whose colour is too near to what lies behind them: the Web Content Accessibility Guidelines
// 2.2 ask for a contrast of 4.5 (criterion 1.4.3), of their relative luminance.
constexpr const char* kTooPale = R"js((() => {
  const numbers = (colour) => colour.match(/[\d.]+/g).map(Number);
  const light = (colour) => {
    const [r, g, b] = numbers(colour).map((c) => c / 255).map((c) =>
        c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (node) => {
    if (node.matches('.pass-name')) return getComputedStyle(node.previousElementSibling).fill;
    const colour = getComputedStyle(node).backgroundColor;
    const [, , , alpha = 1] = numbers(colour);
    return alpha > 0 ? colour : node.parentElement ? behind(node.parentElement) : 'rgb(255, 255, 255)';
  };
  const found = [];
  for (const node of document.body.querySelectorAll('*')) {
    const own = [...node.childNodes].some((n) => n.nodeType === 3 && n.data.trim());
    if (!own || !node.checkVisibility() || node.matches('script, noscript, :disabled')) continue;
    const style = getComputedStyle(node);
    const [a, b] = [light(node.closest('svg') ? style.fill : style.color), light(behind(node))];
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (contrast < 4.5) found.push(node.textContent.trim() + ' ' + contrast.toFixed(2));
  }
  return found;
})())js";

}  // namespace

TEST_CASE("the page asks for its own files alone, and writes nothing to the console") {
  NEED_CHROMIUM();
  Browser browser;
  for (const char* key : {"newton", "canyon", "valley"}) {
    choose(browser, "play-function", key);
  }
  const std::string folder = "file://" HERO_SITE_DIR "/";
  CHECK(browser.requests().size() >= 17);  // the page, its style, its scripts
  for (const std::string& request : browser.requests()) {
    CAPTURE(request);
    CHECK((request.find(folder) == 0 || request == "data:,"));
  }
  CHECK(browser.complaints() == std::vector<std::string>{});
}

TEST_CASE("the page's links lead to pages that are there") {
  NEED_CHROMIUM();
  Browser browser;
  const json links =
      browser.evaluate("[...document.querySelectorAll('a')].map((a) => a.getAttribute('href'))");
  CHECK(links.size() >= 8);
  for (const std::string link : links) {
    CAPTURE(link);
    if (link[0] == '#') {
      CHECK(browser.evaluate("document.querySelector('" + link + "') !== null"));
    } else {
      CHECK(std::filesystem::exists(HERO_SITE_DIR "/" + link.substr(0, link.find('#'))));
    }
  }
}

TEST_CASE("the memory calculator is used by keyboard alone") {
  NEED_CHROMIUM();
  Browser browser;
  tab_to(browser, "memory-model");
  browser.key("ArrowDown");
  CHECK(value(browser, "memory-parameters") == "128000000000");
  CHECK(text(browser, "memory-parameters-short") == "128 B");
  tab_to(browser, "memory-ranks-slider");
  browser.key("ArrowRight");
  CHECK(value(browser, "memory-ranks") == "128");
  replace(browser, "memory-ranks", "1024");
  CHECK(value(browser, "memory-ranks-slider") == "10");
  browser.key("Tab");  // to the stages, of which the third is chosen
  browser.key("ArrowUp");
  CHECK(browser.evaluate("document.querySelector('input[name=stage]:checked').value") == "2");
  CHECK(text(browser, "memory-said").find("ZeRO-2 on 1024 ranks: 258 GB per rank") == 0);
  replace(browser, "memory-optimizer-bytes", "8");
  CHECK(value(browser, "memory-precision") == "2");  // momentum under mixed precision
  CHECK(text(browser, "memory-said").find("ZeRO-2 on 1024 ranks: 257 GB per rank") == 0);
  replace(browser, "memory-gradient-bytes", "3");
  CHECK(value(browser, "memory-precision") == "own");
}

TEST_CASE("a number outside its limits is marked, and said") {
  NEED_CHROMIUM();
  Browser browser;
  replace(browser, "memory-ranks", "0");
  CHECK(browser.evaluate("document.getElementById('memory-ranks').getAttribute('aria-invalid')") ==
        "true");
  CHECK(text(browser, "memory-said") == "One of the numbers is missing or outside its limits.");
  browser.evaluate("document.activeElement.select()");
  browser.type("2");
  CHECK(browser.evaluate("document.getElementById('memory-ranks').getAttribute('aria-invalid')") ==
        "false");
  CHECK(text(browser, "memory-said").find("ZeRO-3 on 2 ranks: 60.0 GB per rank") == 0);
  replace(browser, "play-rate", "-1");
  CHECK(text(browser, "play-said") == "One of the numbers is missing or outside its limits.");
}

TEST_CASE("the playground is used by keyboard alone") {
  NEED_CHROMIUM();
  Browser browser;
  CHECK(text(browser, "play-said").find("it arrives at the minimum after 222 steps") !=
        std::string::npos);
  tab_to(browser, "play-method");
  browser.key("ArrowDown");  // Nesterov
  CHECK(value(browser, "play-method") == "nesterov");
  CHECK(text(browser, "play-said").find("after 34 steps") != std::string::npos);
  tab_to(browser, "play-keep");
  browser.key("Enter");
  CHECK(text(browser, "play-kept") == "Nesterov from x = −8, rate 1, momentum 0.9");
  tab_to(browser, "play-picture");
  browser.key("ArrowRight");
  CHECK(value(browser, "play-start-x") == "-7.75");
  CHECK(text(browser, "play-said").find("Nesterov from x = −7.75") == 0);
  browser.key("Tab");  // the summary of the table
  browser.key("Enter");
  const json rows = browser.evaluate(
      "new Promise((done) => { const rows = document.getElementById('play-steps-rows').rows; "
      "const look = () => rows.length ? done([...rows].map((row) => row.cells[1].textContent)) "
      ": setTimeout(look); look(); })");
  REQUIRE(rows.size() > 1);
  CHECK(rows[0] == "−7.75");
  tab_to(browser, "play-function");
  browser.key("ArrowDown");
  browser.key("ArrowDown");
  CHECK(value(browser, "play-function") == "canyon");
  CHECK(text(browser, "play-said").find("after 1547 steps") != std::string::npos);
  CHECK(text(browser, "play-kept").empty());  // what was kept belonged to another function
  tab_to(browser, "play-picture");
  browser.key("ArrowUp");
  CHECK(value(browser, "play-start-y") == "2.05");
}

TEST_CASE("a path that leaves the plane is said to, and drawn as far as it goes") {
  NEED_CHROMIUM();
  Browser browser;
  choose(browser, "play-function", "canyon");
  choose(browser, "play-method", "sgd");
  replace(browser, "play-rate", "1");
  CHECK(text(browser, "play-said").find("x = NaN, y = NaN") != std::string::npos);
  CHECK(browser.evaluate("document.querySelector('.now .route').getAttribute('points')")
            .get<std::string>()
            .find("NaN") == std::string::npos);
  CHECK(browser.evaluate("document.querySelectorAll('.now .dot').length") == 6);
  choose(browser, "play-function", "valley");
  replace(browser, "play-rate", "100");
  CHECK(text(browser, "play-said").find("it has not arrived after 500 steps") != std::string::npos);
  CHECK(browser.complaints() == std::vector<std::string>{});
}

TEST_CASE("a click into the playground's picture is the start") {
  NEED_CHROMIUM();
  Browser browser({.width = 1400, .height = 2600});
  choose(browser, "play-function", "canyon");
  // the middle of the axes' box, which has x from -2 to 2 and y from -1 to 3
  const json middle = browser.evaluate(
      "(() => { const box = document.querySelector('#play-clip rect'), "
      "svg = document.getElementById('play-picture').getBoundingClientRect(); "
      "return [svg.left + box.x.baseVal.value + box.width.baseVal.value / 2, "
      "svg.top + box.y.baseVal.value + box.height.baseVal.value / 2]; })()");
  browser.click(middle[0], middle[1]);
  CHECK(std::abs(std::stod(value(browser, "play-start-x"))) <= 0.02);  // a pixel and a half
  CHECK(std::abs(std::stod(value(browser, "play-start-y")) - 1.0) <= 0.02);
}

TEST_CASE("every control has a name for those who do not see it") {
  NEED_CHROMIUM();
  Browser browser;
  const std::vector<std::string> roles = {"slider", "spinbutton", "combobox", "button",
                                          "radio",  "link",       "region",   "image",
                                          "img",    "table",      "form",     "application"};
  size_t controls = 0;
  for (const json& node : browser.accessibility_tree()) {
    if (node.value("ignored", true)) continue;
    const std::string role = node.at("role").at("value");
    if (std::find(roles.begin(), roles.end(), role) == roles.end()) continue;
    ++controls;
    CAPTURE(node.dump());
    CHECK_FALSE(node.at("name").at("value").get<std::string>().empty());
  }
  CHECK(controls >= 30);
  CHECK(browser.evaluate("document.querySelectorAll('[role=status]').length") == 5);
}

TEST_CASE("no text is pale, in neither theme, whoever chooses it") {
  NEED_CHROMIUM();
  for (const char* theme : {"light", "dark"}) {
    Browser browser({.theme = theme});
    const auto paper = [&] {
      return browser.evaluate("getComputedStyle(document.body).backgroundColor");
    };
    const json white = "rgb(255, 255, 255)";
    const bool dark = std::string(theme) == "dark";
    CHECK((paper() == white) == !dark);
    CHECK(browser.evaluate(kTooPale) == json::array());
    tab_to(browser, "theme");  // by keyboard to the other one
    browser.type(dark ? "l" : "d");
    CHECK((paper() == white) == dark);
    CHECK(browser.evaluate(kTooPale) == json::array());
    browser.load();
    CHECK((paper() == white) == dark);  // the choice was kept
  }
}

TEST_CASE("nothing is wider than the window, at 400 and at 1400 pixels") {
  NEED_CHROMIUM();
  Browser browser;
  for (const int width : {400, 1400, 320, 761}) {
    // a picture is drawn anew even while a number is not good
    if (width == 320) replace(browser, "memory-ranks", "0");
    browser.resize({.width = width});
    CAPTURE(width);
    browser.evaluate("document.getElementById('play-steps-table').open = true");
    CHECK(browser.evaluate("document.documentElement.scrollWidth") == width);
    // letters of a readable size, in the pictures too
    const json small = browser.evaluate(
        "[...document.querySelectorAll('p, label, legend, td, text')].filter((node) => "
        "parseFloat(getComputedStyle(node).fontSize) < 12).length");
    CHECK(small == 0);
    const json wide = browser.evaluate(
        "[...document.querySelectorAll('svg')].map((svg) => svg.viewBox.baseVal.width - "
        "svg.clientWidth)");
    CHECK(wide == json::array({0, 0, 0, 0}));  // drawn for the width they have
  }
}

// Not a test: hero_test_site "[pictures]" writes what the pages show of the site.
TEST_CASE("the pictures of the site are taken", "[.pictures]") {
  NEED_CHROMIUM();
  Browser browser({.width = 1100, .height = 900});
  const std::string figures = HERO_SITE_DIR "/../figures/";
  hero_test::spill(figures + "12/12_site.png", browser.png("#memory .sides"));
  choose(browser, "play-function", "canyon");
  for (const char* method : {"momentum", "adam"}) {
    choose(browser, "play-method", method);
    browser.evaluate("document.getElementById('play-keep').click()");
  }
  choose(browser, "play-method", "nesterov");
  hero_test::spill(figures + "06/06_site.png", browser.png("#playground .sides"));
}
