#include <cmath>
#include <fstream>

#include "autograd/tables/golden.h"

#include <hero/autograd/ops/creation/creation.h>
#include <hero/core/device/backend.h>
#include <hero/core/safetensors.h>

namespace hero::golden {

namespace {

Json read_json(const std::string& path) {
  std::ifstream file(path);
  check(file.good(), "golden: cannot read ", path);
  return Json::parse(file);
}

// The same values in other memory: dimensions in reverse order, or every second element of a row.
Array transposed(const Array& x) {
  if (x.ndim() == 0) return x;
  if (x.ndim() == 1) {
    const Array rows = Array::zeros({x.size(0), 2}, x.dtype(), x.device());
    const Array view = rows.select(1, 1);
    core::backend(x.device()).run(core::call::Copy{x, view});
    return view;
  }
  Dims reversed;
  for (int i = x.ndim() - 1; i >= 0; --i) reversed.push_back(i);
  return x.permute(reversed).clone().permute(reversed);
}

// Row-major position as indices.
std::string element_text(int64_t at, const Shape& shape) {
  Dims index = Dims::filled(shape.size(), 0);
  for (int i = shape.size() - 1; i >= 0; --i) {
    index[i] = at % shape[i];
    at /= shape[i];
  }
  return to_string(index);
}

std::string digits(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.17g", value);
  return text;
}

// The README's rule: |a - ref| <= tol max(1, |ref|); infinities and NaN match exactly.
bool agrees(double got, double expected, double tolerance) {
  if (std::isnan(expected)) return std::isnan(got);
  if (std::isinf(expected)) return got == expected;
  return std::abs(got - expected) <= tolerance * std::max(1.0, std::abs(expected));
}

// One case while it runs.
class Run {
 public:
  Run(const Json& one, const core::NamedArrays& arrays, const Table& table)
      : case_(one), arrays_(arrays), table_(table) {
    tolerance_ = one.value("tol", 1e-10);
  }

  std::vector<std::string> all(Layout layout, Device device) {
    layout_ = layout;
    device_ = device;
    try {
      make_inputs();
      forward();
      first_order();
      if (case_.contains("second")) second_order();
    } catch (const Error& error) {
      lines_.push_back(label("") + "threw: " + error.what());
    }
    return std::move(lines_);
  }

 private:
  std::string label(const std::string& what) const {
    return case_["name"].get<std::string>() + ": " + what;
  }

  Tensor load(const Json& name) const {
    const Array& array = arrays_.at(name.get<std::string>());
    if (device_ == kMeta) return Tensor(Array::empty(array.shape(), array.dtype(), kMeta));
    const Array there = array.to(device_);
    return Tensor(layout_ == Layout::transposed ? transposed(there) : there.clone());
  }

  void make_inputs() {
    for (const Json& input : case_["inputs"]) {
      Tensor x = load(input["tensor"]);
      if (input["grad"].get<bool>()) x.requires_grad_();
      inputs_[input["name"].get<std::string>()] = x;
    }
  }

  void forward() {
    const auto op = case_["op"].get<std::string>();
    const auto at = table_.find(op);
    check(at != table_.end(), "golden: operator ", op, " is not in the table");
    outputs_ = at->second(Call(case_["attrs"], inputs_));
    const Json& expected = case_["outputs"];
    check(outputs_.size() == expected.size(), "golden: ", op, " gave ", outputs_.size(),
          " outputs, expected ", expected.size());
    for (size_t i = 0; i < outputs_.size(); ++i) {
      compare("output " + std::to_string(i), outputs_[i], expected[i]["tensor"]);
      const bool differentiable =
          expected[i].contains("grad_output") && !expected[i]["grad_output"].is_null();
      if (!differentiable) continue;
      differentiable_.push_back(outputs_[i]);
      grad_outputs_.push_back(load(expected[i]["grad_output"]));
    }
  }

  void first_order() {
    if (!case_.contains("grads") || case_["grads"].empty()) return;
    BackwardOptions options;
    options.retain_graph = true;
    backward(differentiable_, grad_outputs_, options);
    for (const auto& [name, tensor] : case_["grads"].items()) {
      compare("gradient of " + name, inputs_.at(name).grad(), tensor);
    }
  }

  void second_order() {
    const Json& second = case_["second"];
    std::vector<Tensor> along, directions;
    for (const auto& [name, tensor] : second["v"].items()) {
      along.push_back(inputs_.at(name));
      directions.push_back(load(tensor));
    }
    for (const Tensor& g : grad_outputs_) g.requires_grad_();
    const std::vector<Tensor> first =
        grad(differentiable_, along,
             {.grad_outputs = grad_outputs_, .create_graph = true, .allow_unused = true});
    Tensor total = zeros({}, {.dtype = kFloat64, .device = device_});
    for (size_t i = 0; i < first.size(); ++i) {
      if (first[i].defined()) total = total + sum(directions[i] * first[i]);
    }
    std::vector<std::string> labels;
    std::vector<Tensor> with_respect_to;
    std::vector<Json> expected;
    for (const auto& [name, tensor] : second["grads"].items()) {
      labels.push_back("second derivative of " + name);
      with_respect_to.push_back(inputs_.at(name));
      expected.push_back(tensor);
    }
    for (size_t i = 0; second.contains("grad_go") && i < second["grad_go"].size(); ++i) {
      if (second["grad_go"][i].is_null()) continue;
      labels.push_back("J v of output " + std::to_string(i));
      with_respect_to.push_back(grad_outputs_.at(i));
      expected.push_back(second["grad_go"][i]);
    }
    std::vector<Tensor> results(expected.size());
    if (total.requires_grad()) results = grad({total}, with_respect_to, {.allow_unused = true});
    for (size_t i = 0; i < expected.size(); ++i) compare(labels[i], results[i], expected[i]);
  }

  // An undefined gradient stands for zero.
  void compare(const std::string& what, const Tensor& got, const Json& name) {
    const Array& expected = arrays_.at(name.get<std::string>());
    const Tensor value =
        got.defined() ? got
                      : zeros(expected.shape(), {.dtype = expected.dtype(), .device = device_});
    if (!(value.shape() == expected.shape()) || value.dtype() != expected.dtype()) {
      lines_.push_back(label(what) + " is " + to_string(value.dtype()) + " " +
                       to_string(value.shape()) + ", expected " + to_string(expected.dtype()) +
                       " " + to_string(expected.shape()));
      return;
    }
    if (device_ == kMeta) return;
    const auto a = value.to_vector<double>(), b = expected.to_vector<double>();
    for (size_t i = 0; i < a.size(); ++i) {
      if (agrees(a[i], b[i], tolerance_)) continue;
      lines_.push_back(label(what) + " at " +
                       element_text(static_cast<int64_t>(i), expected.shape()) + ": got " +
                       digits(a[i]) + ", expected " + digits(b[i]));
      return;
    }
  }

  const Json& case_;
  const core::NamedArrays& arrays_;
  const Table& table_;
  double tolerance_;
  Layout layout_ = Layout::as_stored;
  Device device_ = kCpu;
  std::map<std::string, Tensor> inputs_;
  std::vector<Tensor> outputs_, differentiable_, grad_outputs_;
  std::vector<std::string> lines_;
};

}  // namespace

struct Suite::Data {
  Json cases;
  std::vector<std::string> names;
  core::NamedArrays arrays;
  Table table;
};

Suite::Suite(const std::string& folder) : data_(std::make_unique<Data>()) {
  const Json root = read_json(folder + "/ops.json");
  data_->cases = root.at("cases");
  for (const Json& one : data_->cases) data_->names.push_back(one.at("name").get<std::string>());
  data_->arrays =
      core::load_safetensors(folder + "/" + root.value("file", std::string("ops.safetensors")));
  add_elementwise(data_->table);
  add_reductions(data_->table);
  add_shapes(data_->table);
  add_networks(data_->table);
  add_further(data_->table);
  add_orders(data_->table);
  add_images(data_->table);
  add_options(data_->table);
  add_composed(data_->table);
  add_rare(data_->table);
}

Suite::~Suite() = default;
size_t Suite::size() const { return data_->cases.size(); }
const std::string& Suite::name(size_t i) const { return data_->names[i]; }

std::vector<std::string> Suite::differences(size_t i, Layout layout, Device device) const {
  return Run(data_->cases[i], data_->arrays, data_->table).all(layout, device);
}

std::vector<std::string> Suite::meta_differences(size_t i) const {
  // What has a shape that depends on values says so.
  if (!data_->cases[i].at("attrs").value("meta", true)) return {};
  return Run(data_->cases[i], data_->arrays, data_->table).all(Layout::as_stored, kMeta);
}

}  // namespace hero::golden
