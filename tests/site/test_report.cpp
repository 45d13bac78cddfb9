// The report of a training run as a browser shows it.
#include <iostream>

#include "site/browser.h"
#include "support/catch.h"

#include <hero/autograd/autograd.h>
#include <hero/core/array.h>
#include <hero/nn/training/report.h>

namespace {

using namespace hero;
using hero_test::Browser;
using hero_test::TempDir;
using nlohmann::json;

// 3000 steps, with names that would be markup.
void write_report(const std::string& path) {
  double time = 0.0;
  nn::Report report(path, {.title = "</title><script>document.title = 'taken'</script>",
                           .now = [&] { return time; }});
  report.configure("<b>rate</b>", "\"><img src=x onerror=\"document.title = 'taken'\">");
  const Array held = Array::zeros({1000});
  for (int64_t step = 1; step <= 3000; ++step) {
    time += 0.1;
    const double loss = 1.0 + 1.0 / static_cast<double>(step);
    report.write(step, {{"train/loss", loss}, {"train/lr", 1e-3}});
    if (step % 1000 == 0) report.write(step, {{"val/loss", loss + 0.1}});
  }
  report.sample("<i>said</i>", "</pre><script>document.title = 'taken'</script>");
  report.image("<u>grey</u>", full({3, 2}, 0.5));
  Array colours = Array::zeros({3, 2, 5}, kUInt8);  // red, green and blue planes of 2 rows
  for (int64_t i = 0; i < 10; ++i) colours.data<uint8_t>()[i] = 200;
  report.image("colours", Tensor(colours));
  report.finish();
}

TEST_CASE("report: four charts with their lines, nothing asked for, nothing taken for markup") {
  NEED_CHROMIUM();
  const TempDir folder;
  const std::string path = folder / "run.html";
  write_report(path);
  Browser browser({}, path);
  CHECK(browser.evaluate("[...document.querySelectorAll('.grids h2')].map((h) => h.textContent)") ==
        json::array({"loss", "lr", "memory, MB", "steps a second", "configuration", "machine"}));
  CHECK(browser.evaluate("document.querySelectorAll('section:first-child polyline').length") == 2);
  CHECK(browser.evaluate("document.querySelector('polyline').points.length > 512") == true);
  CHECK(browser.evaluate("document.title") == "</title><script>document.title = 'taken'</script>");
  CHECK(browser.evaluate("document.scripts.length") == 0);
  CHECK(browser.evaluate("document.querySelector('.state').textContent") == "finished");
  CHECK(browser.evaluate("document.querySelector('meta[http-equiv]')") == json());
  std::vector<std::string> requests = browser.requests();
  std::erase_if(requests, [](const auto& url) { return url.starts_with("data:"); });  // in the page
  CHECK(requests == std::vector<std::string>{"file://" + path});
  CHECK(browser.complaints().empty());
}

TEST_CASE("report: pictures have the size and the colours that they were given") {
  NEED_CHROMIUM();
  const TempDir folder;
  const std::string path = folder / "run.html";
  write_report(path);
  Browser browser({}, path);
  CHECK(browser.evaluate("[...document.images].map((i) => [i.alt, i.naturalWidth, "
                         "i.naturalHeight])") ==
        json::array({{"<u>grey</u>", 2, 3}, {"colours", 5, 2}}));
  const std::string pixel =
      "(n, x, y) => { const c = document.createElement('canvas').getContext('2d'); "
      "c.drawImage(document.images[n], 0, 0); return [...c.getImageData(x, y, 1, 1).data]; }";
  CHECK(browser.evaluate("(" + pixel + ")(0, 1, 2)") == json::array({128, 128, 128, 255}));
  CHECK(browser.evaluate("(" + pixel + ")(1, 4, 1)") == json::array({200, 0, 0, 255}));
  CHECK(browser.complaints().empty());
}

TEST_CASE("report: light and dark, by keyboard, and no wider than the window") {
  NEED_CHROMIUM();
  const TempDir folder;
  const std::string path = folder / "run.html";
  write_report(path);
  for (const char* theme : {"light", "dark"}) {
    Browser browser({.theme = theme}, path);
    const json white = "rgb(255, 255, 255)";
    const auto colour = [&](const std::string& what) {
      return browser.evaluate("getComputedStyle(document.body)." + what);
    };
    CHECK((colour("backgroundColor") == white) == (std::string(theme) == "light"));
    CHECK(colour("backgroundColor") != colour("color"));
    for (const int width : {360, 1400}) {
      browser.resize({.width = width, .theme = theme});
      CHECK(browser.evaluate("document.documentElement.scrollWidth") == width);
    }
    // the first thing that a keyboard comes to opens the numbers of the first chart
    browser.key("Tab");
    browser.key("Enter");
    CHECK(browser.evaluate("document.querySelector('details').open") == true);
    CHECK(browser.evaluate("document.querySelectorAll('details:first-of-type tr').length > 10") ==
          true);
  }
}

}  // namespace
