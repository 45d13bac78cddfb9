// The libFuzzer form; tests/fuzz/run builds and runs it.
#include "gguf_formats.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  hero_fuzz::feed_gguf(std::as_bytes(std::span(data, size)));
  hero_fuzz::feed_gguf_model(std::as_bytes(std::span(data, size)));
  return 0;
}
