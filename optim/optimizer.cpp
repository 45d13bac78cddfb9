#include <algorithm>
#include <map>

#include <hero/optim/optimizer.h>

namespace hero::optim {

namespace {

std::string state_key(size_t param, const std::string& name) {
  return "state." + std::to_string(param) + "." + name;
}
std::string group_key(int group, const std::string& name) {
  return "group." + std::to_string(group) + "." + name;
}

core::NamedArray number(std::string name, double value) {
  return {std::move(name), Array::full({}, value, kFloat64)};
}

// Looks names up in a state dict and collects everything that does not fit.
class Lookup {
 public:
  Lookup(const char* optimizer, const StateDict& dict) : optimizer_(optimizer) {
    for (const core::NamedArray& entry : dict) {
      check(entry.array.defined(), optimizer, ": load_state_dict: ", entry.name, " is undefined");
      check(entries_.emplace(entry.name, Entry{&entry.array}).second, optimizer,
            ": load_state_dict: ", entry.name, " appears twice");
    }
  }

  bool contains(const std::string& name) const { return entries_.count(name) > 0; }
  const Array* array(const std::string& name, const Shape& shape, DType dtype) {
    const auto found = entries_.find(name);
    if (found == entries_.end()) {
      add(missing_, name);
      return nullptr;
    }
    found->second.used = true;
    const Array& array = *found->second.array;
    if (array.shape() == shape && array.dtype() == dtype) return &array;
    add(misshaped_, name + " is " + to_string(array.dtype()) + " " + to_string(array.shape()) +
                        ", not " + to_string(dtype) + " " + to_string(shape));
    return nullptr;
  }
  double number(const std::string& name) {
    const Array* found = array(name, {}, kFloat64);
    return found ? found->item() : 0.0;
  }
  // One message for all there is to say.
  void finish() {
    std::string unexpected;
    for (const auto& [name, entry] : entries_) {
      if (!entry.used) add(unexpected, name);
    }
    std::string text;
    const auto part = [&](const char* label, const std::string& names) {
      if (!names.empty()) text += (text.empty() ? "" : "; ") + (label + names);
    };
    part("missing: ", missing_);
    part("unexpected: ", unexpected);
    part("does not fit: ", misshaped_);
    check(text.empty(), optimizer_, ": load_state_dict: the state is not this optimizer's: ", text);
  }

 private:
  struct Entry {
    const Array* array;
    bool used = false;
  };
  static void add(std::string& list, const std::string& name) {
    list += (list.empty() ? "" : ", ") + name;
  }

  const char* optimizer_;
  std::map<std::string, Entry> entries_;
  std::string missing_, misshaped_;
};

}  // namespace

void Optimizer::add_params(const std::vector<Tensor>& params) {
  for (const Tensor& param : params) {
    const size_t at = states_.size();
    check(param.defined(), name_, ": parameter ", at, " is undefined");
    check(param.is_leaf(), name_, ": parameter ", at, " of shape ", param.shape(),
          " is not a leaf: it was computed by a recorded operation; pass the tensors that it was "
          "computed from");
    check(is_floating(param.dtype()), name_, ": parameter ", at, " has dtype ", param.dtype(),
          "; only floating dtypes can be optimised");
    const bool twice = std::any_of(states_.begin(), states_.end(),
                                   [&](const State& s) { return is_same(s.param, param); });
    check(!twice, name_, ": parameter ", at, " of shape ", param.shape(),
          " is given twice; it would be updated twice a step");
    State state;
    state.param = param;
    states_.push_back(std::move(state));
  }
  group_ends_.push_back(static_cast<int>(states_.size()));
}

void Optimizer::check_any() const {
  check(!states_.empty(), name_, ": there is no parameter to optimise");
}

size_t Optimizer::group_at(int group) const {
  check(group >= 0 && group < groups(), name_, ": there is no group ", group, " of ", groups());
  return static_cast<size_t>(group);
}

void Optimizer::zero_grad(bool set_to_none) {
  const NoGrad no_grad;
  for (const State& state : states_) {
    const Tensor grad = state.param.grad();
    if (!grad.defined()) continue;
    if (set_to_none) {
      state.param.set_grad({});
    } else if (grad.grad_fn()) {
      // A gradient that was itself recorded belongs to a graph: it is replaced, not overwritten.
      state.param.set_grad(Tensor(Array::zeros(grad.shape(), grad.dtype(), grad.device())));
    } else {
      grad.zero_();
    }
  }
}

void Optimizer::prepare(int group, State& state) {
  const auto names = array_names(group);
  const auto same = [](const NamedState& a, const char* b) {
    return std::string_view(a.name) == b;
  };
  state.just_made =
      !std::equal(state.arrays.begin(), state.arrays.end(), names.begin(), names.end(), same);
  if (!state.just_made && state.steps > 0.0) return;
  const Array& param = state.param.array();
  std::vector<NamedState> arrays;
  for (const char* array : names) {
    const auto found = std::find_if(state.arrays.begin(), state.arrays.end(),
                                    [&](const NamedState& s) { return same(s, array); });
    arrays.push_back(
        found != state.arrays.end()
            ? *found
            : NamedState{array, Array::full(param.shape(), first_value(group, array),
                                            core::state_dtype(param.dtype()), param.device())});
  }
  state.arrays = std::move(arrays);
  if (state.steps > 0.0) return;
  state.numbers.clear();
  for (const char* item : number_names(group)) state.numbers.push_back(first_value(group, item));
}

void Optimizer::step() {
  const NoGrad no_grad;
  const MemoryScope scope(MemoryTag::optimizer);
  for (int group = 0; group < groups(); ++group) {
    for (int i = group_begin(group); i < group_end(group); ++i) {
      const Tensor grad = state(i).param.grad();
      if (!grad.defined()) continue;
      prepare(group, state(i));
      state(i).steps += 1.0;
      update(group, state(i), grad.array());
    }
  }
}

std::vector<Tensor> Optimizer::parameters() const {
  std::vector<Tensor> list;
  for (const State& state : states_) list.push_back(state.param);
  return list;
}

bool Optimizer::has_option(const std::string& name) const {
  for (const Option& option : list_options(0)) {
    if (option.name == name) return true;
  }
  return false;
}

double Optimizer::option(const std::string& name, int group) const {
  for (const Option& option : list_options(group)) {
    if (option.name == name) return option.value;
  }
  fail(name_, ": there is no option ", name);
}

void Optimizer::set_option(const std::string& name, double value, int group) {
  check(assign_option(group, name, value), name_, ": there is no option ", name);
}

void Optimizer::set_lr(double lr) {
  for (int group = 0; group < groups(); ++group) set_lr(lr, group);
}

StateDict Optimizer::state_dict() const {
  StateDict dict;
  for (int group = 0; group < groups(); ++group) {
    for (const Option& option : list_options(group)) {
      dict.push_back(number(group_key(group, option.name), option.value));
    }
    const auto numbers = number_names(group);
    for (int i = group_begin(group); i < group_end(group); ++i) {
      const auto at = static_cast<size_t>(i);
      const State& state = states_[at];
      if (state.steps == 0.0) continue;
      dict.push_back(number(state_key(at, "step"), state.steps));
      for (size_t k = 0; k < numbers.size(); ++k) {
        dict.push_back(number(state_key(at, numbers[k]), state.numbers[k]));
      }
      for (const NamedState& item : state.arrays) {
        dict.push_back({state_key(at, item.name), item.array.clone()});
      }
    }
  }
  return dict;
}

void Optimizer::load_state_dict(const StateDict& dict) {
  const MemoryScope scope(MemoryTag::optimizer);
  Lookup lookup(name_, dict);
  // Options first: which states a parameter has depends on them. They are put back on an error.
  std::vector<std::vector<Option>> former;
  std::vector<State> loaded;
  for (int group = 0; group < groups(); ++group) former.push_back(list_options(group));
  try {
    for (int group = 0; group < groups(); ++group) {
      for (const Option& option : former[static_cast<size_t>(group)]) {
        const std::string key = group_key(group, option.name);
        const double value = lookup.number(key);
        if (lookup.contains(key)) assign_option(group, option.name, value);
      }
      for (int i = group_begin(group); i < group_end(group); ++i) {
        const auto at = static_cast<size_t>(i);
        State fresh;
        fresh.param = states_[at].param;
        // A parameter that never had a gradient has no state.
        if (lookup.contains(state_key(at, "step"))) {
          fresh.steps = lookup.number(state_key(at, "step"));
          for (const char* item : number_names(group)) {
            fresh.numbers.push_back(lookup.number(state_key(at, item)));
          }
          const Array& param = fresh.param.array();
          for (const char* item : array_names(group)) {
            const Array* found =
                lookup.array(state_key(at, item), param.shape(), core::state_dtype(param.dtype()));
            if (found) fresh.arrays.push_back({item, found->clone().to(param.device())});
          }
        }
        loaded.push_back(std::move(fresh));
      }
    }
    lookup.finish();
  } catch (...) {
    for (int group = 0; group < groups(); ++group) {
      for (const Option& option : former[static_cast<size_t>(group)]) {
        assign_option(group, option.name, option.value);
      }
    }
    throw;
  }
  states_ = std::move(loaded);
}

}  // namespace hero::optim
