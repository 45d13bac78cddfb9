// The libFuzzer form; tests/fuzz/run builds and runs it.
#include "config_formats.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  hero_fuzz::feed_config(std::as_bytes(std::span(data, size)));
  return 0;
}
