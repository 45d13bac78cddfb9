// Every operator against reference values, gradients and second derivatives. Another folder of
// cases runs with HERO_GOLDEN_OPS=folder.
#include <cstdlib>

#include "autograd/golden.h"
#include "support/catch.h"

using hero::golden::Layout;
using hero::golden::Suite;

namespace {

const Suite& suite() {
  const char* folder = std::getenv("HERO_GOLDEN_OPS");
  static const Suite suite(folder ? folder : HERO_GOLDEN_DIR "/ops");
  return suite;
}

template <class Differences>
void check_all(Differences&& differences) {
  size_t failed = 0;
  for (size_t i = 0; i < suite().size(); ++i) {
    const auto lines = differences(i);
    for (const std::string& line : lines) FAIL_CHECK(line);
    failed += lines.empty() ? 0 : 1;
  }
  INFO(suite().size() << " cases");
  CHECK(failed == 0);
}

}  // namespace

TEST_CASE("the reference cases of operators are all there") {
  // Other folders may hold any number.
  if (!std::getenv("HERO_GOLDEN_OPS")) CHECK(suite().size() == 178);
  CHECK(suite().size() > 0);
}

TEST_CASE("operators match their references in value, gradient and second derivative") {
  check_all([](size_t i) { return suite().differences(i, Layout::as_stored); });
}

TEST_CASE("operators match their references on transposed memory") {
  check_all([](size_t i) { return suite().differences(i, Layout::transposed); });
}

TEST_CASE("operators give the references' shapes and dtypes on the meta device") {
  check_all([](size_t i) { return suite().meta_differences(i); });
}
