// build/site, which docs/build makes, as its readers meet it. Hidden: tests/scripts/test_docs_build
// makes the site, then runs these cases.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "site/browser.h"
#include "support/catch.h"

using hero_test::Browser;
using nlohmann::json;

namespace {

const std::string kSite = std::filesystem::weakly_canonical(HERO_SITE_DIR "/../../build/site");

std::vector<std::string> pages() {
  std::vector<std::string> found;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(kSite)) {
    const std::string path = std::filesystem::relative(entry.path(), kSite);
    if (entry.path().extension() != ".html" || path.rfind("reference/", 0) == 0) continue;
    if (path.rfind("source/", 0) == 0 && path.find("03_sgd") == std::string::npos) continue;
    found.push_back(path);
  }
  std::sort(found.begin(), found.end());
  return found;
}

json results(Browser& browser, const std::string& question) {
  return browser.evaluate(
      "(() => { const input = document.getElementById('find'); input.value = " +
      json(question).dump() +
      "; input.form.requestSubmit(); return [...document.querySelectorAll('#results a')]"
      ".map((a) => a.getAttribute('href')); })()");
}

std::string text_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// axe-core, which docs/build installs with the packages of the site; empty where it has not.
std::string axe() {
  const std::filesystem::path packages = HERO_SITE_DIR "/../../build/site_venv/lib";
  std::error_code none;
  for (const auto& python : std::filesystem::directory_iterator(packages, none)) {
    const auto file = python.path() / "site-packages/axe_playwright_python/axe.min.js";
    if (std::filesystem::exists(file)) return text_of(file);
  }
  return {};
}

// The smallest type of a drawing, but for indices and exponents, as a share of its width.
double smallest_type(const std::string& drawing) {
  const std::regex index("<tspan[^>]*(dy=|baseline-shift)[^>]*>");
  const std::string svg = std::regex_replace(drawing, index, "");
  std::smatch box;
  REQUIRE(std::regex_search(svg, box, std::regex("viewBox=\"\\S+ \\S+ ([0-9.]+) ")));
  const std::regex size("font-size\\s*[=:]\\s*[\"']?([0-9.]+)");
  double least = 1e9;
  for (std::sregex_iterator at(svg.begin(), svg.end(), size), end; at != end; ++at) {
    least = std::min(least, std::stod((*at)[1].str()));
  }
  return least / std::stod(box[1].str());
}

struct Question {
  const char* asked;
  std::vector<std::string> pages;  // one of these is among the first five results
};

const std::vector<Question> kQuestions = {
    {"how do I install hero", {"guides/packages", "first_program"}},
    {"load a checkpoint and resume", {"guides/training", "guides/checkpoints"}},
    {"out of memory", {"errors", "tutorials/09_memory", "guides/offload"}},
    {"load a model from Hugging Face", {"guides/pretrained"}},
    {"which sharding strategy should I use", {"faq", "tutorials/17_fsdp"}},
    {"what is ZeRO-3", {"tutorials/16_zero3"}},
    {"custom dataset", {"guides/data"}},
    {"how to write my own layer", {"extending/adding_a_layer", "guides/modules"}},
    {"add an operation", {"extending/adding_an_op"}},
    {"gradient accumulation", {"tutorials/09_memory", "guides/ranks"}},
    {"mixed precision", {"tutorials/09a_precision"}},
    {"difference from PyTorch", {"differences", "coming_from"}},
    {"run on several hosts with slurm", {"guides/clusters"}},
    {"mpirun", {"guides/clusters", "guides/ranks"}},
    {"GPU support", {"guides/cuda", "performance", "index"}},
    {"fine-tune with LoRA", {"guides/pretrained"}},
    {"tensor parallelism", {"guides/tensor_parallel"}},
    {"pipeline bubble", {"guides/pipeline", "tutorials/13_model_parallel"}},
    {"activation checkpointing", {"tutorials/09_memory"}},
    {"Adam formula", {"tutorials/06_adaptive"}},
    {"what is all_reduce", {"tutorials/10_collectives"}},
    {"benchmarks against PyTorch", {"performance"}},
    {"NaN in loss", {"guides/training", "errors"}},
    {"tokenizer", {"guides/data"}},
    {"profile my training", {"guides/profiling"}},
    {"reproducible results", {"guides/numbers"}},
    {"FSDP prefetch", {"tutorials/17_fsdp"}},
    {"windows or mac", {"faq"}},
    {"environment variables", {"faq"}},
    {"generate text", {"guides/pretrained", "tutorials/08a_gpt"}},
    {"quantised communication", {"guides/compression"}},
    {"deepspeed config", {"coming_from"}},
    {"simulate a cluster", {"guides/simulation"}},
};

}  // namespace

TEST_CASE("no page of the site is wider than the window, complains, or asks the network",
          "[.built]") {
  NEED_CHROMIUM();
  const std::vector<std::string> all = pages();
  REQUIRE(all.size() >= 60);
  Browser browser({.width = 400}, kSite + "/" + all.front());
  for (const std::string& page : all) {
    CAPTURE(page);
    browser.show(kSite + "/" + page);
    for (const int width : {400, 1280}) {
      browser.resize({.width = width});
      CAPTURE(width);
      CHECK(browser.evaluate("document.documentElement.scrollWidth") == width);
    }
    REQUIRE(browser.complaints() == std::vector<std::string>{});
  }
  for (const std::string& request : browser.requests()) {
    CAPTURE(request);
    CHECK((request.rfind("file://" + kSite + "/", 0) == 0 || request.rfind("data:", 0) == 0));
  }
}

TEST_CASE("the site's search finds what a newcomer asks for, from a file", "[.built]") {
  NEED_CHROMIUM();
  Browser browser({}, kSite + "/search.html");
  for (const Question& question : kQuestions) {
    CAPTURE(question.asked);
    const json found = results(browser, question.asked);
    bool there = false;
    for (size_t i = 0; i < std::min<size_t>(5, found.size()); ++i) {
      for (const std::string& page : question.pages) {
        there = there || found[i].get<std::string>().rfind(page + ".html", 0) == 0;
      }
    }
    CAPTURE(found.dump());
    CHECK(there);
  }
  CHECK(results(browser, "qzxjk").empty());
  CHECK(browser.evaluate("document.getElementById('found').textContent") ==
        "Nothing has these words. Try fewer, or more common ones.");
}

TEST_CASE("interactive parts stand in the chapters and start with the chapter's choice",
          "[.built]") {
  NEED_CHROMIUM();
  const std::vector<std::pair<std::string, std::string>> kPlayed = {
      {"03_sgd", "Gradient descent from x = −8, rate 1: it arrives at the minimum after 17 steps"},
      {"04_momentum", "Momentum from x = −8, rate 1, momentum 0.9: it arrives"},
      {"05_nesterov", "Nesterov from x = −8, rate 1, momentum 0.9: it arrives"},
      {"06_adaptive", "Adam from x = −1.5, y = 2, rate 0.1, momentum 0.9: it arrives"},
  };
  for (const auto& [chapter, said] : kPlayed) {
    CAPTURE(chapter);
    Browser browser({}, kSite + "/tutorials/" + chapter + ".html");
    const std::string text = browser.evaluate("document.getElementById('play-said').textContent");
    CAPTURE(text);
    CHECK(text.rfind(said, 0) == 0);
  }
  Browser browser({}, kSite + "/tutorials/12_distributed_memory.html");
  const std::string text = browser.evaluate("document.getElementById('memory-said').textContent");
  CHECK(text.rfind("ZeRO-3 on 64 ranks: 1.88 GB per rank", 0) == 0);
  browser.show(kSite + "/tutorials/10_collectives.html");
  CHECK(browser.evaluate("document.getElementById('collective-said').textContent") ==
        "all_reduce: before the first of 6 rounds.");
  browser.show(kSite + "/tutorials/17_fsdp.html");
  CHECK(browser.evaluate("document.getElementById('fsdp-said').textContent")
            .get<std::string>()
            .find("At most 2 of 6 units are in memory at once") != std::string::npos);
  for (const char* chapter : {"13_model_parallel", "19_3d_parallel"}) {
    browser.show(kSite + "/tutorials/" + chapter + ".html");
    const std::string said =
        browser.evaluate("document.getElementById('pipeline-said').textContent");
    CAPTURE(chapter, said);
    CHECK(said.find("4 ranks, 8 micro-batches: a step takes 33 times a forward pass") !=
          std::string::npos);
  }
}

TEST_CASE("the type of figures has twelve pixels on a phone, and figures follow the scheme",
          "[.built]") {
  NEED_CHROMIUM();
  Browser browser({.width = 400}, kSite + "/tutorials/00_start.html");
  int figures = 0;
  for (const std::string& page : pages()) {
    if (text_of(kSite + "/" + page).find("class=\"picture\"") == std::string::npos) continue;
    CAPTURE(page);
    browser.show(kSite + "/" + page);
    const json shown = browser.evaluate(
        "[...document.querySelectorAll('.picture img')].map((i) => "
        "[decodeURI(new URL(i.src).pathname), i.getBoundingClientRect().width, "
        "i.closest('.picture').clientWidth])");
    for (const json& figure : shown) {
      const std::string file = figure[0];
      CAPTURE(file);
      if (!file.ends_with(".svg")) continue;
      const double type = smallest_type(text_of(file));
      if (type > 1) continue;  // it has no text
      CHECK(type * 368 >= 12.0);
      CHECK(type * figure[1].get<double>() >= 12.0);
      CHECK(figure[1].get<double>() < figure[2].get<double>() + 1.0);  // all of it is seen
      ++figures;
    }
  }
  CHECK(figures > 60);
  const std::string filter = "getComputedStyle(document.querySelector('.picture img')).filter";
  browser.show(kSite + "/tutorials/12_distributed_memory.html");
  CHECK(browser.evaluate(filter) == "none");
  browser.resize({.width = 1280, .theme = "dark"});
  CHECK(browser.evaluate(filter) != "none");
  browser.evaluate("document.body.dataset.theme = 'light'");  // the reader's choice comes first
  CHECK(browser.evaluate(filter) == "none");
}

TEST_CASE("tabs are chosen by mouse and keys, and stay chosen on other pages", "[.built]") {
  NEED_CHROMIUM();
  Browser browser({}, kSite + "/index.html");
  const std::string seen =
      "[...document.querySelectorAll('.tab')].filter((t) => !t.hidden).map((t) => "
      "document.getElementById(t.getAttribute('aria-labelledby')).textContent)";
  CHECK(browser.evaluate(seen) == json{"Hero"});
  browser.evaluate("document.querySelector('[role=tab]').focus()");
  browser.key("ArrowRight");
  CHECK(browser.evaluate(seen) == json{"PyTorch"});
  CHECK(browser.evaluate("document.activeElement.textContent") == "PyTorch");
  browser.show(kSite + "/guides/ranks.html");
  CHECK(browser.evaluate(seen) == json{"PyTorch"});
  browser.show(kSite + "/coming_from.html");
  CHECK(browser.evaluate(seen) == json{"Hero"});  // it has DeepSpeed in PyTorch's place
  browser.evaluate("[...document.querySelectorAll('[role=tab]')].at(-1).click()");
  CHECK(browser.evaluate(seen) == json{"DeepSpeed"});
}

TEST_CASE("axe-core finds no fault of contrast, names, roles and keyboard in either scheme",
          "[.built]") {
  NEED_CHROMIUM();
  const std::string program = axe();
  if (program.empty()) {
    std::cout << "skipped: no axe-core; docs/build installs it" << std::endl;
    return;
  }
  Browser browser({.width = 1280}, kSite + "/index.html");
  for (const std::string theme : {"light", "dark"}) {
    for (const char* page :
         {"index", "first_program", "coming_from", "errors", "search", "tutorials/00_start",
          "tutorials/03_sgd", "tutorials/06a_backward", "tutorials/10_collectives",
          "tutorials/12_distributed_memory", "tutorials/17_fsdp", "guides/ranks", "performance"}) {
      CAPTURE(theme, page);
      browser.resize({.width = 1280, .theme = theme});
      browser.show(kSite + "/" + page + ".html");
      browser.evaluate(program + "; 0");
      const json faults = browser.evaluate(
          "axe.run({runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa']}).then((found) => "
          "found.violations.map((v) => v.id + ': ' + v.nodes.slice(0, 4).map((n) => "
          "n.html.slice(0, "
          "160)).join(' ; ')))");
      CHECK(faults == json::array());
    }
  }
}
