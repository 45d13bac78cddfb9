// The other half of formats.py: reads a file and writes or prints what it read.
//   formats npy|safetensors IN OUT      formats print IN.npy PRECISION
#include <cstdio>
#include <string>

#include <hero/core/error.h>
#include <hero/core/npy.h>
#include <hero/core/print.h>
#include <hero/core/safetensors.h>

int main(int argc, char** argv) {
  using namespace hero::core;
  if (argc != 4) return 2;
  const std::string mode = argv[1];
  try {
    if (mode == "npy") {
      save_npy(argv[3], load_npy(argv[2]));
    } else if (mode == "safetensors") {
      const NamedArrays file = load_safetensors(argv[2]);
      save_safetensors(argv[3], file.arrays, file.metadata);
    } else {
      const PrintOptions options{.precision = std::stoi(argv[3]), .threshold = int64_t{1} << 40};
      std::fputs(format_values(load_npy(argv[2]), options).c_str(), stdout);
    }
  } catch (const hero::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
