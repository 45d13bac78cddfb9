#pragma once
// Models and texts that transformers made: tests/golden/make_hugging_face.py.
#include <string>
#include <vector>

#include "support/golden_dir.h"

#include <hero/autograd/ops.h>
#include <hero/core/safetensors.h>

namespace hero::test {

/// One of the folders, with what transformers computed.
struct Pretrained {
  explicit Pretrained(const std::string& name)
      : folder(golden_dir() + "/hugging_face/" + name),
        expected(core::load_safetensors(folder + "/expected.safetensors")) {}

  Tensor at(const std::string& name) const { return Tensor(expected.at(name)); }
  /// Three, of different lengths.
  std::vector<Tensor> prompts() const {
    std::vector<Tensor> list;
    const std::vector<int64_t> lengths = at("lengths").to_vector<int64_t>();
    for (size_t b = 0; b < lengths.size(); ++b) {
      list.push_back(at("prompts")[static_cast<int64_t>(b)].slice(0, 0, lengths[b]));
    }
    return list;
  }

  std::string folder;
  core::NamedArrays expected;
};

}  // namespace hero::test
