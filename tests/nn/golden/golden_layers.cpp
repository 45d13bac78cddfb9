#include "nn/golden/layer_golden.h"
#include "support/catch.h"
#include "support/golden_dir.h"

#include <hero/autograd/ops.h>
#include <hero/core/safetensors.h>

namespace hero::test {

const Golden& golden() {
  static const Golden data = [] {
    const auto file = core::load_safetensors(golden_dir() + "/nn/layers.safetensors");
    Golden result{Json::parse(file.metadata.at("cases")), {}};
    result.tensors.resize(result.cases.size());
    for (const core::NamedArray& entry : file.arrays) {
      const size_t slash = entry.name.find('/');
      result.tensors[std::stoul(entry.name.substr(0, slash))][entry.name.substr(slash + 1)] =
          Tensor(entry.array);
    }
    return result;
  }();
  return data;
}

// The tensors named prefix0, prefix1, ...
Tensors listed(const std::map<std::string, Tensor>& tensors, const std::string& prefix) {
  Tensors result;
  for (size_t i = 0; tensors.contains(prefix + std::to_string(i)); ++i) {
    result.push_back(tensors.at(prefix + std::to_string(i)));
  }
  return result;
}

// The case's layer in double precision with the case's state.
Subject loaded(size_t number) {
  Subject subject = make_subject(golden().cases[number]);
  subject.module->to(kFloat64);
  nn::StateDict state;
  for (const auto& [name, tensor] : golden().tensors[number]) {
    if (name.starts_with("p.")) state.push_back({name.substr(2), tensor.array()});
  }
  subject.module->load_state_dict(state);
  return subject;
}

namespace {

void check_near(const Tensor& value, const Tensor& expected, double tol) {
  CHECK(to_string(value.shape()) == to_string(expected.shape()));
  CHECK(allclose(value.to(kFloat64), expected.to(kFloat64), tol, tol));
}

}  // namespace

void check_layers(Device device) {
  each_case([device](size_t i, const Json& description) {
    const auto& tensors = golden().tensors[i];
    const Subject subject = loaded(i);
    subject.module->to(device);
    const auto there = [&](const char* prefix) {
      Tensors moved;
      for (const Tensor& x : listed(tensors, prefix)) moved.push_back(x.to(device));
      return moved;
    };
    const double tol = description["tol"].get<double>();  // its reason stands in layer_cases.py
    const Results results = run_subject(subject, description, there("i"), there("g"));
    for (const auto& [name, found] : results) {
      const Tensor value = found.to(kCpu);
      INFO(name);
      if (tensors.contains(name)) {
        check_near(value, tensors.at(name), tol);
      } else if (name.starts_with("s.")) {
        check_near(value, tensors.at("p." + name.substr(2)), 0.0);  // nothing should have changed
      } else {
        // PyTorch has no gradient here.
        CHECK(allclose(value, zeros_like(value), 0.0, 0.0));
      }
    }
    for (const auto& [name, tensor] : tensors) {
      INFO(name);
      const bool computed = name[0] == 'o' || name[0] == 'd' || name[0] == 's';
      if (computed) CHECK(results.contains(name));
    }
  });
}

}  // namespace hero::test
