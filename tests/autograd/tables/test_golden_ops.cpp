// Every operator against reference values, gradients and second derivatives: golden/ops and its
// neighbours ops_more, ops_further, ops_composed and ops_rare, or with HERO_GOLDEN_OPS=folder the
// cases of that folder.
#include <cstdlib>

#include "autograd/tables/golden.h"
#include "support/catch.h"

using hero::golden::Layout;
using hero::golden::Suite;

namespace {

std::vector<std::unique_ptr<Suite>> load() {
  std::vector<std::unique_ptr<Suite>> suites;
  if (const char* folder = std::getenv("HERO_GOLDEN_OPS")) {
    suites.push_back(std::make_unique<Suite>(folder));
  } else {
    suites.push_back(std::make_unique<Suite>(HERO_GOLDEN_DIR "/ops"));
    suites.push_back(std::make_unique<Suite>(HERO_GOLDEN_DIR "/ops_more"));
    suites.push_back(std::make_unique<Suite>(HERO_GOLDEN_DIR "/ops_further"));
    suites.push_back(std::make_unique<Suite>(HERO_GOLDEN_DIR "/ops_composed"));
    suites.push_back(std::make_unique<Suite>(HERO_GOLDEN_DIR "/ops_rare"));
  }
  return suites;
}

template <class Differences>
void check_all(Differences&& differences) {
  for (const auto& suite : load()) {
    size_t failed = 0;
    for (size_t i = 0; i < suite->size(); ++i) {
      const auto lines = differences(*suite, i);
      for (const std::string& line : lines) FAIL_CHECK(line);
      failed += lines.empty() ? 0 : 1;
    }
    INFO(suite->size() << " cases");
    CHECK(failed == 0);
  }
}

}  // namespace

TEST_CASE("the reference cases of operators are all there") {
  const auto suites = load();
  for (const auto& suite : suites) CHECK(suite->size() > 0);
  // Other folders may hold any number.
  if (!std::getenv("HERO_GOLDEN_OPS")) CHECK(suites[0]->size() == 177);
}

TEST_CASE("operators match their references in value, gradient and second derivative") {
  check_all([](const Suite& suite, size_t i) { return suite.differences(i, Layout::as_stored); });
}

TEST_CASE("operators match their references on transposed memory") {
  check_all([](const Suite& suite, size_t i) { return suite.differences(i, Layout::transposed); });
}

TEST_CASE("operators give the references' shapes and dtypes on the meta device") {
  check_all([](const Suite& suite, size_t i) { return suite.meta_differences(i); });
}
