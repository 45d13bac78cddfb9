// The libFuzzer form; tests/fuzz/run builds and runs it.
#include "checkpoint_formats.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  hero_fuzz::feed_manifest(std::as_bytes(std::span(data, size)));
  return 0;
}
