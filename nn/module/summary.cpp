#include <algorithm>
#include <map>
#include <unordered_map>
#include <unordered_set>

#include <hero/autograd/ops/creation/creation.h>
#include <hero/core/ledger.h>
#include <hero/nn/summary.h>

namespace hero::nn {

namespace {

struct Row {
  std::string layer, shape, count, bytes;
};

// 1234567 as "1,234,567"
std::string grouped(int64_t value) {
  std::string digits = std::to_string(value);
  for (auto at = static_cast<int64_t>(digits.size()) - 3; at > 0; at -= 3) {
    digits.insert(static_cast<size_t>(at), 1, ',');
  }
  return digits;
}

std::string padded(const std::string& text, size_t width, bool right) {
  const std::string gap(width - std::min(width, text.size()), ' ');
  return right ? gap + text : text + gap;
}

std::string laid_out(const std::vector<Row>& rows, const std::string& totals) {
  size_t layer = 0, shape = 0, count = 0, bytes = 0;
  for (const Row& row : rows) {
    layer = std::max(layer, row.layer.size());
    shape = std::max(shape, row.shape.size());
    count = std::max(count, row.count.size());
    bytes = std::max(bytes, row.bytes.size());
  }
  const std::string rule(layer + shape + count + bytes + 6, '-');
  std::string text;
  for (size_t i = 0; i < rows.size(); ++i) {
    std::string line = padded(rows[i].layer, layer, false) + "  ";
    if (shape > 0) line += padded(rows[i].shape, shape, false) + "  ";
    line += padded(rows[i].count, count, true) + "  " + padded(rows[i].bytes, bytes, true);
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
    if (i == 0) text += rule + "\n";
  }
  return text + rule + "\n" + totals;
}

using Shapes = std::map<const Module*, std::string>;

std::string table(Module& module, const Shapes& shapes) {
  std::vector<Row> rows = {{"layer", shapes.empty() ? "" : "output", "parameters", "bytes"}};
  int64_t bytes = 0, buffer_bytes = 0;
  std::unordered_set<const hero::detail::TensorImpl*> counted;
  std::unordered_map<std::string_view, std::vector<Slot*>> slots;  // by the path of their module
  const Named<Slot*> all_slots = module.slots();
  for (const auto& [name, slot] : all_slots) {
    const size_t dot = name.rfind('.');
    slots[std::string_view(name).substr(0, dot == std::string::npos ? 0 : dot)].push_back(slot);
  }
  for (const auto& [path, each] : module.named_modules()) {
    int64_t own = 0, own_bytes = 0;
    for (const Slot* slot : slots[path]) {
      if (!counted.insert(slot->tensor.impl()).second) continue;
      if (slot->kind != Slot::Kind::parameter) {
        buffer_bytes += slot->tensor.array().nbytes();
        continue;
      }
      own += slot->tensor.numel();
      own_bytes += slot->tensor.array().nbytes();
    }
    bytes += own_bytes;
    const auto depth =
        static_cast<size_t>(path.empty() ? 0 : 1 + std::count(path.begin(), path.end(), '.'));
    const std::string label =
        path.empty() ? each->type_name() : each->name() + ": " + each->type_name();
    const auto shape = shapes.find(each);
    rows.push_back({std::string(2 * depth, ' ') + label, shape == shapes.end() ? "" : shape->second,
                    own > 0 ? grouped(own) : "", own > 0 ? bytes_text(own_bytes) : ""});
  }
  const int64_t all = module.parameter_count(), trained = module.parameter_count(true);
  std::string totals = "parameters: " + grouped(all) + ", trainable: " + grouped(trained) +
                       ", frozen: " + grouped(all - trained) + "\nbytes: " + bytes_text(bytes) +
                       " parameters, " + bytes_text(buffer_bytes) + " buffers\n";
  return laid_out(rows, totals);
}

// Takes the hooks off and the modes back, also when forward throws.
struct Probe {
  std::vector<HookHandle> handles;
  std::vector<std::pair<Module*, bool>> modes;
  Shapes shapes;

  explicit Probe(Module& module) {
    for (Module* each : module.modules()) {
      modes.emplace_back(each, each->training());
      handles.push_back(each->register_forward_hook(
          [this](Module& called, const Tensors&, const Tensors& outputs) {
            std::string text;
            for (const Tensor& out : outputs) {
              if (out.defined()) text += (text.empty() ? "" : ", ") + to_string(out.shape());
            }
            shapes[&called] = text;
          }));
    }
    module.eval();
  }
  ~Probe() {
    for (HookHandle& handle : handles) handle.remove();
    // parents come first, so that a child's own mode is what stays
    for (const auto& [module, training] : modes) module->train(training);
  }
  Probe(const Probe&) = delete;
  Probe& operator=(const Probe&) = delete;
};

}  // namespace

std::string summary(Module& module) { return table(module, {}); }

std::string summary(Module& module, const Tensor& example) {
  Probe probe(module);
  const NoGrad no_grad;
  module(example);
  return table(module, probe.shapes);
}

std::string summary(Module& module, const Shape& input_shape) {
  const Tensors parameters = module.parameters();
  const Device device = parameters.empty() ? kCpu : parameters[0].device();
  return summary(module, zeros(input_shape, {.device = device}));
}

}  // namespace hero::nn
