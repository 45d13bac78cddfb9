// The other half of layers.py: builds every layer of a file, runs it twice, and writes what came
// out.
//   layers IN.safetensors OUT.safetensors
// "n/name": with the state that Python wrote. "n/own/name": with first values of our own, which
// stand beside as "n/own/p.name".
#include <cstdio>
#include <string>

#include "nn/golden/layer_cases.h"

#include <hero/core/safetensors.h>

namespace {

using hero::Tensor;
using hero::core::NamedArray;
using hero::nn::Tensors;
using namespace hero::test;

// The tensors of one case, by their names without its number.
using CaseTensors = std::map<std::string, Tensor>;

Tensors listed(const CaseTensors& tensors, const std::string& prefix) {
  Tensors result;
  for (size_t i = 0; tensors.contains(prefix + std::to_string(i)); ++i) {
    result.push_back(tensors.at(prefix + std::to_string(i)));
  }
  return result;
}

Subject build(const Json& description) {
  Subject subject = make_subject(description);
  subject.module->to(description["dtype"] == "float64" ? hero::kFloat64 : hero::kFloat32);
  return subject;
}

void append(std::vector<NamedArray>& out, const std::string& prefix, const Results& results) {
  for (const auto& [name, tensor] : results) {
    out.push_back({prefix + name, tensor.array().contiguous()});
  }
}

void run_case(const Json& description, const CaseTensors& tensors, const std::string& prefix,
              std::vector<NamedArray>& out) {
  const Tensors inputs = listed(tensors, "i"), grads = listed(tensors, "g");
  const Subject theirs = build(description);
  hero::nn::StateDict state;
  for (const auto& [name, tensor] : tensors) {
    if (name.starts_with("p.")) state.push_back({name.substr(2), tensor.array()});
  }
  theirs.module->load_state_dict(state);
  append(out, prefix, run_subject(theirs, description, inputs, grads));
  const Subject own = build(description);
  for (const NamedArray& entry : own.module->state_dict()) {
    out.push_back({prefix + "own/p." + entry.name, entry.array.clone()});
  }
  append(out, prefix + "own/", run_subject(own, description, inputs, grads));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  try {
    const auto file = hero::core::load_safetensors(argv[1]);
    const Json cases = Json::parse(file.metadata.at("cases"));
    std::vector<CaseTensors> tensors(cases.size());
    for (const NamedArray& entry : file.arrays) {
      const size_t slash = entry.name.find('/');
      const size_t number = std::stoul(entry.name.substr(0, slash));
      tensors.at(number)[entry.name.substr(slash + 1)] = Tensor(entry.array);
    }
    std::vector<NamedArray> out;
    int failures = 0;
    for (size_t i = 0; i < cases.size(); ++i) {
      try {
        run_case(cases[i], tensors[i], std::to_string(i) + "/", out);
      } catch (const std::exception& error) {
        std::fprintf(stderr, "%s: %s\n", cases[i]["name"].get<std::string>().c_str(), error.what());
        ++failures;
      }
    }
    hero::core::save_safetensors(argv[2], out);
    return failures > 0 ? 1 : 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
