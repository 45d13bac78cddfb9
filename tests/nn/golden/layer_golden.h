#pragma once
// The layers' reference cases: golden/nn/layers.safetensors, which tests/golden/make_layers.py
// wrote.
#include <map>
#include <string>
#include <vector>

#include "nn/golden/layer_cases.h"
#include "support/catch.h"

#include <hero/autograd/ops/creation/creation.h>

namespace hero::test {

/// The file, and its tensors by case.
struct Golden {
  Json cases;
  std::vector<std::map<std::string, Tensor>> tensors;
};
const Golden& golden();

/// The tensors named prefix0, prefix1, ...
Tensors listed(const std::map<std::string, Tensor>& tensors, const std::string& prefix);

/// The case's layer in double precision with the case's state.
Subject loaded(size_t number);

/// Outputs, gradients and state of every case, computed on this device, are PyTorch's.
void check_layers(Device device);

template <class Body>
void each_case(Body&& body) {
  for (size_t i = 0; i < golden().cases.size(); ++i) {
    INFO(golden().cases[i]["name"].get<std::string>() << " " << golden().cases[i]["args"].dump());
    body(i, golden().cases[i]);
  }
}

}  // namespace hero::test
