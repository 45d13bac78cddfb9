#include <string>
#include <vector>

#include "support/catch.h"
#include "support/temp_dir.h"

#include <hero/core/io/sha256.h>

using namespace hero;

namespace {

std::string hash_of(const std::string& text) { return sha256(std::as_bytes(std::span(text))); }

}  // namespace

TEST_CASE("sha256 has the digests of FIPS 180-4's examples") {
  CHECK(hash_of("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(hash_of("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(hash_of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq") ==
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  CHECK(hash_of(std::string(1'000'000, 'a')) ==
        "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST_CASE("sha256 of pieces of any length is that of the whole, and of the file") {
  std::string text;
  for (int i = 0; i < 300; ++i) text += static_cast<char>('a' + i * i % 26);
  for (size_t size = 0; size <= text.size(); size += 7) {
    const std::string part = text.substr(0, size);
    for (const size_t step : {1u, 3u, 63u, 64u, 65u, 200u}) {
      Sha256 hash;
      for (size_t at = 0; at < size; at += step) {
        hash.update(std::as_bytes(std::span(part).subspan(at, std::min(step, size - at))));
      }
      REQUIRE(hash.finish() == hash_of(part));
    }
    REQUIRE(sha256_by_words(std::as_bytes(std::span(part))) == hash_of(part));
  }
  const hero_test::TempDir dir;
  hero_test::spill(dir / "text", text);
  CHECK(hash_file(dir / "text") == FileHash{text.size(), hash_of(text)});
}
