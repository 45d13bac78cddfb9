#include <algorithm>
#include <bit>
#include <charconv>
#include <cstdio>
#include <iterator>
#include <utility>

#include <hero/autograd/sharding/gradient_reducer.h>
#include <hero/autograd/sharding/partition.h>
#include <hero/autograd/sharding/replaced_values.h>
#include <hero/autograd/sharding/unreduced_gradients.h>
#include <hero/core/device/host_steps.h>
#include <hero/core/functions/map.h>
#include <hero/core/functions/overlap.h>
#include <hero/core/memory/fetcher.h>
#include <hero/core/profile/observer.h>
#include <hero/optim/all_finite.h>
#include <hero/optim/masters.h>
#include <hero/optim/optimizer.h>
#include <hero/optim/pages.h>
#include <hero/optim/state_lookup.h>

namespace hero::optim {

namespace {

std::string state_key(size_t param, const std::string& name) {
  return "state." + std::to_string(param) + "." + name;
}
std::string group_key(int group, const std::string& name) {
  return "group." + std::to_string(group) + "." + name;
}

// Room for more items, so that adding them cannot fail; as much as was used, so that adding one
// after the other moves each but a few times.
template <class T>
void make_room(std::vector<T>& list, size_t more) {
  const size_t needed = list.size() + more;
  if (needed > list.capacity()) list.reserve(std::max(needed, 2 * list.size()));
}

// Throws an Error unless all parameters with gradients are on a GPU, since the repetition of a
// recorded step runs only the work of the GPU.
void check_repeatable(const char* name, const std::vector<Tensor>& params) {
  for (const Tensor& param : params) {
    check(!param.grad().defined() || param.device().type == DeviceType::cuda, name,
          ": a graphed step repeats what a GPU does, and a parameter of shape ", param.shape(),
          " is on ", param.device(), "; use recapture");
  }
}

// A hash of a list of words: each step is the finalizer of SplitMix64.
uint64_t add_word(uint64_t hash, uint64_t word) {
  hash = (hash ^ word) + 0x9e3779b97f4a7c15u;
  hash = (hash ^ (hash >> 30)) * 0xbf58476d1ce4e5b9u;
  hash = (hash ^ (hash >> 27)) * 0x94d049bb133111ebu;
  return hash ^ (hash >> 31);
}

uint64_t add_number(uint64_t hash, double number) {
  return add_word(hash, std::bit_cast<uint64_t>(number));
}

// A parameter of a step: by which name the ranks know it, and what they must have alike.
struct Stepped {
  std::string name;
  int group;
  double steps;
  bool has_gradient;
};

// What ranks that share parameters must do alike: the step itself, which a rank might leave out
// because its own loss is not finite, its options, of which the text has the rate and a hash, and
// what it steps, in any order. Ranks that hold different parts of a tensor (tensor and expert
// parallelism) know no names: there parameters are counted, and a part may have no gradient.
std::string step_text(const char* name, double lr, const std::vector<double>& options,
                      const std::vector<Stepped>& params, bool by_gradients) {
  uint64_t hash = 0;
  for (const double option : options) hash = add_number(hash, option);
  uint64_t members = 0, steps = 0, gradients = 0;
  for (size_t i = 0; i < params.size(); ++i) {
    const Stepped& param = params[i];
    uint64_t own = param.name.empty() ? add_word(1, i) : 0;
    for (const char c : param.name) own = add_word(own, static_cast<unsigned char>(c));
    members += add_word(own, static_cast<uint64_t>(param.group));
    if (param.name.empty()) continue;
    steps += add_number(own, param.steps);
    if (by_gradients && param.has_gradient) gradients += own;
  }
  char rate[32];
  *std::to_chars(rate, rate + sizeof(rate) - 1, lr).ptr = '\0';
  const auto shown = [](uint64_t word) { return static_cast<uint32_t>(word ^ (word >> 32)); };
  char text[256];
  (void)std::snprintf(text, sizeof(text),
                      "%s step with lr %s (options of hash %08x, members of groups %08x, numbers "
                      "of steps %08x, gradients %08x)",
                      name, rate, shown(hash), shown(members), shown(steps), shown(gradients));
  return text;
}

}  // namespace

void detail::check_parameter(const char* optimizer, size_t at, const Tensor& param, bool twice) {
  check(param.defined(), optimizer, ": parameter ", at, " is undefined");
  check(param.is_leaf(), optimizer, ": parameter ", at, " of shape ", param.shape(),
        " is not a leaf: it was computed by a recorded operation; pass the tensors that it was "
        "computed from");
  check(is_floating(param.dtype()), optimizer, ": parameter ", at, " has dtype ", param.dtype(),
        "; only floating dtypes can be optimised");
  check(!twice, optimizer, ": parameter ", at, " of shape ", param.shape(),
        " is given twice; it would be updated twice a step");
  check_places(optimizer, at, param.array());
}

void detail::check_places(const char* optimizer, size_t at, const Array& values) {
  check(!core::overlaps_itself(values), optimizer, ": parameter ", at, " of shape ", values.shape(),
        " and strides ", values.strides(),
        " has several elements in one place of memory, as what expand() gives, so that a step of "
        "one would be lost; pass the tensor that was expanded, or clone() it");
}

void detail::add_field(OptionFields& fields, const OptionField& field) { fields.push_back(field); }

bool detail::flag_of(const char* optimizer, const char* option, double value) {
  check(value == 0.0 || value == 1.0, optimizer, ": ", option, " is a flag, 0 or 1: ", value);
  return value != 0.0;
}

double detail::whole_number_of(const char* optimizer, const char* option, double value,
                               double least, double end) {
  // NaN passes no comparison
  check(value >= least && value < end && value == std::floor(value), optimizer, ": ", option,
        " is a whole number: ", value);
  return value;
}

Optimizer::Optimizer(const char* name) : name_(name) {}
Optimizer::~Optimizer() = default;

void Optimizer::add_params(const std::vector<Tensor>& params) {
  if (pages_) follow();
  const std::vector<Tensor> leaves = optimizer_leaves(params);
  std::vector<State> added;
  std::unordered_set<const hero::detail::TensorImpl*> known;
  for (const Tensor& param : leaves) {
    const bool twice = known_.contains(param.impl()) || !known.insert(param.impl()).second;
    detail::check_parameter(name_, states_.size() + added.size(), param, twice);
    State state;
    state.param = param;
    state.layout = shard_layout_of(param);
    added.push_back(std::move(state));
  }
  check_group(params);
  make_room(states_, added.size());
  make_room(group_ends_, 1);
  known_.reserve(known_.size() + known.size());
  if (masters_) {
    const std::vector<Tensor> masters = Masters::made_of(leaves);
    masters_->add(leaves);
    for (size_t i = 0; i < added.size(); ++i) added[i].param = masters[i];
  }
  known_.merge(known);
  std::move(added.begin(), added.end(), std::back_inserter(states_));
  group_ends_.push_back(static_cast<int>(states_.size()));
}

void Optimizer::check_groups(const StateDict& dict) const {
  constexpr std::string_view kGroup = "group.";
  int most = 0;
  for (const core::NamedArray& entry : dict) {
    if (!entry.name.starts_with(kGroup)) continue;
    int group = 0;
    const char* const end = entry.name.data() + entry.name.size();
    const auto [stop, error] = std::from_chars(entry.name.data() + kGroup.size(), end, group);
    if (error == std::errc() && stop != end && *stop == '.') most = std::max(most, group + 1);
  }
  // A state without any is none of an optimizer; what is missing is listed.
  check(most == 0 || most == groups(), name_, ": load_state_dict: the state has ", most,
        most == 1 ? " group" : " groups", " of parameters, and the optimizer has ", groups(),
        most > groups() ? "; make it with as many, or call add_param_group() before loading"
                        : "; load the state before add_param_group() adds the others");
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
  const auto clear = [&](const Tensor& param) {
    const Tensor grad = param.grad();
    if (!grad.defined()) return;
    if (set_to_none) {
      param.set_grad({});
    } else if (grad.grad_fn()) {
      // A gradient that was itself recorded belongs to a graph: it is replaced, not overwritten.
      param.set_grad(Tensor(Array::zeros(grad.shape(), grad.dtype(), grad.device())));
    } else {
      grad.zero_();
    }
  };
  const std::vector<Tensor> params = model_parameters();
  clear_unreduced_gradients(params, set_to_none);
  for (size_t i = 0; i < params.size(); ++i) {
    clear(params[i]);
    if (!is_same(states_[i].param, params[i])) states_[i].param.set_grad({});
  }
}

Shape Optimizer::state_shape(const char* array, const Tensor& param) const {
  return array_shape(array, is_number(array) ? whole_shape(param) : param.shape());
}

Array Optimizer::fresh_array(int group, const char* array, const Tensor& param) const {
  return Array::full(state_shape(array, param), first_value(group, array),
                     core::state_dtype(param.dtype()), param.device());
}

void Optimizer::prepare(int group, State& state) {
  const auto names = array_names(group);
  const auto same = [](const NamedState& a, const char* b) {
    return std::string_view(a.name) == b;
  };
  state.just_made =
      !std::equal(state.arrays.begin(), state.arrays.end(), names.begin(), names.end(), same);
  if (!state.just_made && state.steps > 0.0) return;
  std::vector<NamedState> arrays;
  for (const char* array : names) {
    const auto found = std::find_if(state.arrays.begin(), state.arrays.end(),
                                    [&](const NamedState& s) { return same(s, array); });
    arrays.push_back(found != state.arrays.end()
                         ? *found
                         : NamedState{array, fresh_array(group, array, state.param)});
  }
  state.arrays = std::move(arrays);
  if (state.steps > 0.0) return;
  state.numbers.clear();
  for (const char* item : number_names()) state.numbers.push_back(first_value(group, item));
}

bool Optimizer::fits(const State& state) const {
  const Array& param = state.param.array();
  const auto is_fit = [&](const NamedState& item) {
    return item.array.dtype() == core::state_dtype(param.dtype()) &&
           item.array.device() == param.device();
  };
  return has_layout(state.layout, state.param) &&
         std::all_of(state.arrays.begin(), state.arrays.end(), is_fit) &&
         (!state.scratch.defined() || state.scratch.device() == param.device());
}

bool Optimizer::states_behind() const {
  return !std::all_of(states_.begin(), states_.end(), [&](const State& s) { return fits(s); });
}

// [note: states that follow] A leaf stays the same tensor when it is converted, moved or cut, and
// nobody tells optimizers. So each state knows which elements of the parameter it was made for, and
// is made to fit when it is used next. All are asked first, so that an error changes none.
void Optimizer::follow() const {
  const bool masters_behind = masters_ && masters_->is_behind(states_);
  if (!masters_behind && !states_behind()) return;
  with_all_states([&] {
    if (masters_behind) masters_->follow(name_, states_);
    if (states_behind()) states_follow();
  });
}

void Optimizer::states_follow() const {
  const MemoryScope scope(MemoryTag::optimizer);
  for (size_t at = 0; at < states_.size(); ++at) check_can_follow(at);
  for (State& state : states_) {
    if (!fits(state)) fit(state);
  }
}

void Optimizer::with_all_states(const std::function<void()>& body) const {
  if (!pages_) return body();
  pages_->fetch_all();
  try {
    body();
  } catch (...) {
    pages_->divide(*this);
    throw;
  }
  pages_->divide(*this);
}

void Optimizer::check_can_follow(size_t at) const {
  constexpr const char* kWhatToDo =
      "; make the optimizer after that, or load its state from a checkpoint";
  const State& state = states_[at];
  const Array& param = state.param.array();
  const ShardLayout now = shard_layout_of(state.param);
  for (const auto& [item, array] : state.arrays) {
    check(array.device().type != DeviceType::meta || param.device().type == DeviceType::meta ||
              array.numel() == 0,
          name_, ": parameter ", at, " has got values since its state '", item,
          "' was made on meta, without any", kWhatToDo);
    if (state.layout == now) continue;
    const bool is_whole = is_number(item);
    const bool is_like_param = array.shape() == state.layout.shape;
    check(is_whole ? array.shape() == state_shape(item, state.param)
                   : is_like_param && covers(state.layout, now),
          name_, ": parameter ", at, " has become ", describe(now), ", but its state '", item,
          "' is of ", describe(state.layout),
          is_whole || is_like_param ? "" : ", in a shape of its own", kWhatToDo);
  }
}

void Optimizer::fit(State& state) const {
  const Array& param = state.param.array();
  const ShardLayout now = shard_layout_of(state.param);
  std::vector<NamedState> arrays = state.arrays;
  for (auto& [item, array] : arrays) {
    if (state.layout != now && !is_number(item)) array = recut(array, state.layout, now);
    array = array.to(core::state_dtype(param.dtype())).to(param.device());
  }
  Array scratch = state.scratch;
  if (scratch.defined()) {
    const bool is_cut = scratch.shape() == state.layout.shape && covers(state.layout, now);
    scratch = (is_cut ? recut(scratch, state.layout, now) : scratch).to(param.device());
  }
  state.arrays = std::move(arrays);
  state.scratch = std::move(scratch);
  state.layout = now;
}

void Optimizer::step() {
  if (!pages_) return step_in_memory();
  try {
    step_in_memory();
  } catch (...) {
    pages_->leave(*this);
    pages_->put_back();
    throw;
  }
  pages_->leave(*this);
  core::put_back();  // parameters that lie in a file, into which masters were rounded
  pages_->finish();
}

void Optimizer::step_in_memory() {
  const ProfileScope::Step profiled("optimizer step");
  const NoGrad no_grad;
  const MemoryScope scope(MemoryTag::optimizer);
  follow();
  core::HostSteps* const recorded = is_elementwise() ? core::HostSteps::current() : nullptr;
  const core::HostSteps::Taking taking(recorded);
  if (recorded) check_repeatable(name_, parameters());
  const std::vector<Tensor> params = model_parameters();
  if (steps_by_gradients()) {
    check_own_values(name_, parameters(), ValueUse::step);
    check_own_values(name_, params, ValueUse::step);
    check_averaged(params, "step");
    declare_gradients(params, "step");
  }
  declare_each(params, [&](const std::vector<size_t>& numbers) {
    std::vector<Stepped> stepped;
    for (const size_t i : numbers) {
      const auto end =
          std::upper_bound(group_ends_.begin(), group_ends_.end(), static_cast<int>(i));
      stepped.push_back({name_on_ranks(params[i]), static_cast<int>(end - group_ends_.begin()),
                         states_[i].steps,
                         params[i].grad().defined() || states_[i].param.grad().defined()});
    }
    return step_text(name_, has_option("lr") ? option("lr") : 0.0, all_options(), stepped,
                     steps_by_gradients());
  });
  stepped_.clear();
  try {
    step_params();
  } catch (...) {
    run_batch();  // the parameters before are stepped
    finish_step();
    throw;
  }
  run_batch();
  step_done();
  finish_step();
  if (masters_) masters_->step_done(states_);
  if (recorded) {
    recorded->parts.push_back(
        {[this, params = stepped_] { step_again(params); }, [this] { return all_options(); }});
  }
}

// What a step changes on the host, and the coefficients of its updates; arrays are not touched.
void Optimizer::step_again(const std::vector<int>& params) {
  const NoGrad no_grad;
  const core::HostSteps::Taking taking(core::HostSteps::current());
  int group = 0;
  for (const int param : params) {
    while (param >= group_end(group)) ++group;
    State& own = state(param);
    own.steps += 1.0;
    // in place of a gradient what has its shape and dtype
    update(group, own, own.low.defined() ? own.low : own.param.array());
  }
  batch_.run();
}

std::vector<double> Optimizer::all_options() const {
  std::vector<double> values;
  for (int group = 0; group < groups(); ++group) {
    for (const Option& option : list_options(group)) values.push_back(option.value);
  }
  return values;
}

void Optimizer::step_params() {
  const auto bytes_of = [this](int param) {
    const bool in_one_pass = is_elementwise() && masters_->low_of(state(param), param).defined();
    return in_one_pass ? 0 : masters_->gradient_bytes(state(param), param);
  };
  // No more of the gradients that masters need in float32 than the largest parameter has.
  int64_t limit = 0, held = 0;
  for (int i = 0; masters_ && i < group_end(groups() - 1); ++i) {
    limit = std::max(limit, bytes_of(i));
  }
  for (int group = 0; group < groups(); ++group) {
    for (int i = group_begin(group); i < group_end(group); ++i) {
      const int64_t bytes = limit > 0 ? bytes_of(i) : 0;
      if (held + bytes > limit) {
        run_batch();
        held = 0;
      }
      held += bytes;
      step_param(group, i);
    }
  }
}

void Optimizer::step_param(int group, int param) {
  if (masters_)
    state(param).low = is_elementwise() ? masters_->low_of(state(param), param) : Array();
  const Array grad = masters_ ? masters_->gradient_of(state(param), param) : gradient_of(param);
  if (!grad.defined()) return;
  const Array& values = state(param).param.array();
  detail::check_places(name_, static_cast<size_t>(param), values);
  if (core::is_away(values)) {  // and those of the parameters before leave
    run_batch();
    core::fetch_next(values);
  }
  if (pages_) pages_->enter(*this, param);
  gradients_.push_back(grad);
  prepare(group, state(param));
  state(param).steps += 1.0;
  update(group, state(param), grad);
  stepped_.push_back(param);
}

void Optimizer::run_batch() {
  const std::vector<Array> gradients = std::exchange(gradients_, {});
  batch_.run();
  batch_done();
}

void Optimizer::finish_step() {
  // What is paged is finished as it leaves memory.
  for (const int param : pages_ ? std::vector<int>() : stepped_) finish_param(param);
  core::put_back();
}

void Optimizer::finish_param(int param) {
  if (masters_) masters_->updated(state(param), param);
}

Array Optimizer::gradient_of(int param) const {
  const Tensor grad = state(param).param.grad();
  return grad.defined() ? grad.array() : Array();
}

bool Optimizer::gradients_finite() const {
  std::vector<Array> gradients;
  const std::vector<Tensor> params = model_parameters();
  for (size_t i = 0; i < params.size(); ++i) {
    const Tensor& stepped = states_[i].param;
    if (params[i].grad().defined()) gradients.push_back(params[i].grad().array());
    if (is_same(stepped, params[i]) || !stepped.grad().defined()) continue;
    gradients.push_back(stepped.grad().array());
  }
  return all_finite(gradients);
}

void Optimizer::scale_gradients(double factor) {
  take_gradients();
  for (const State& state : states_) {
    const Tensor grad = state.param.grad();
    if (!grad.defined()) continue;
    check(grad.dtype() != kFloat16, name_,
          ": float16 gradients lose small values when they are unscaled; wrap the optimizer in "
          "MasterWeights");
    core::map_into<core::kernels::Mul>(grad.array(), grad.array(), Scalar(factor));
  }
}

void Optimizer::step_scaled(double factor) {
  if (masters_) {
    const Masters::Scaled scaled(*masters_, factor);
    return step();
  }
  scale_gradients(factor);
  step();
}

std::vector<Tensor> Optimizer::parameters() const {
  std::vector<Tensor> list;
  for (const State& state : states_) list.push_back(state.param);
  return list;
}

std::vector<Tensor> Optimizer::model_parameters() const {
  return masters_ ? masters_->params() : parameters();
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
  change_options(group, [&](const detail::OptionFields& fields) {
    const auto found = std::find_if(fields.begin(), fields.end(),
                                    [&](const auto& field) { return name == field.name; });
    check(found != fields.end(), name_, ": there is no option ", name);
    found->write(found->at, name_, found->name, value);
  });
}

void Optimizer::assign_options(int group, const std::vector<Option>& options) {
  change_options(group, [&](const detail::OptionFields& fields) {
    for (const Option& option : options) {
      for (const detail::OptionField& field : fields) {
        if (std::string_view(option.name) != field.name) continue;
        field.write(field.at, name_, field.name, option.value);
      }
    }
  });
}

std::vector<Optimizer::Option> Optimizer::values_of(const detail::OptionFields& fields) {
  std::vector<Option> options;
  options.reserve(fields.size());
  for (const detail::OptionField& field : fields) {
    options.push_back({field.name, field.read(field.at)});
  }
  return options;
}

void Optimizer::set_lr(double lr) {
  for (int group = 0; group < groups(); ++group) set_lr(lr, group);
}

bool Optimizer::is_number(const std::string& state) const {
  for (const char* item : number_names()) {
    if (state == item) return true;
  }
  return state == "step";
}

StateDict Optimizer::state_dict() const {
  follow();
  if (pages_) pages_->fetch_all();
  StateDict dict;
  add_options(dict);
  const auto numbers = number_names();
  for (int group = 0; group < groups(); ++group) {
    for (int i = group_begin(group); i < group_end(group); ++i) {
      const auto at = static_cast<size_t>(i);
      const State& state = states_[at];
      if (state.steps == 0.0) continue;
      dict.push_back(state_number(state_key(at, "step"), state.steps));
      for (size_t k = 0; k < numbers.size(); ++k) {
        dict.push_back(state_number(state_key(at, numbers[k]), state.numbers[k]));
      }
      for (const NamedState& item : state.arrays) {
        dict.push_back({state_key(at, item.name), item.array.clone()});
      }
    }
  }
  if (masters_) masters_->add_to(dict, states_);
  if (pages_) pages_->put_back();
  return dict;
}

void Optimizer::add_options(StateDict& dict) const {
  for (int group = 0; group < groups(); ++group) {
    for (const Option& option : list_options(group)) {
      dict.push_back(state_number(group_key(group, option.name), option.value));
    }
  }
}

void Optimizer::load_options(StateLookup& lookup) {
  for (int group = 0; group < groups(); ++group) {
    std::vector<Option> options = default_options(group);
    for (Option& option : options) {
      const std::string key = group_key(group, option.name);
      // Every version saved lr, so a state without it is not whole.
      const bool is_wanted = lookup.contains(key) || option.name == std::string("lr");
      const Array* found = is_wanted ? lookup.array(key, {}, kFloat64) : nullptr;
      if (found != nullptr) option.value = found->item();
    }
    assign_options(group, options);
  }
}

void Optimizer::keep_options(const std::function<void()>& body) {
  std::vector<std::vector<Option>> former;
  for (int group = 0; group < groups(); ++group) former.push_back(list_options(group));
  try {
    body();
  } catch (...) {
    for (int group = 0; group < groups(); ++group) {
      assign_options(group, former[static_cast<size_t>(group)]);
    }
    throw;
  }
}

Optimizer::State Optimizer::read_state(StateLookup& lookup, int group, size_t at) const {
  State fresh;
  fresh.param = states_[at].param;
  fresh.layout = shard_layout_of(fresh.param);
  if (has_layout(states_[at].layout, fresh.param)) fresh.scratch = states_[at].scratch;
  // A parameter that never had a gradient has no state.
  if (!lookup.contains(state_key(at, "step"))) return fresh;
  fresh.steps = lookup.count(state_key(at, "step"));
  for (const char* item : number_names()) {
    const auto [least, most] = number_range(item);
    fresh.numbers.push_back(lookup.number(state_key(at, item), least, most));
  }
  const Array& param = fresh.param.array();
  for (const char* item : array_names(group)) {
    const Array* found = lookup.array(state_key(at, item), state_shape(item, fresh.param),
                                      core::state_dtype(param.dtype()));
    if (found) fresh.arrays.push_back({item, found->clone().to(param.device())});
  }
  return fresh;
}

void Optimizer::load_state_dict(const StateDict& dict) {
  check_groups(dict);
  with_all_states([&] {
    if (!masters_) return load_states(dict);
    masters_->begin_load(name_, states_);
    std::vector<Array> arrays;
    load_states(masters_->take_from(name_, dict, arrays));
    masters_->load(states_, arrays);
  });
}

void Optimizer::load_states(const StateDict& dict) {
  const MemoryScope scope(MemoryTag::optimizer);
  StateLookup lookup(name_, dict);
  std::vector<State> loaded;
  keep_options([&] {
    // Options first: which states a parameter has depends on them.
    load_options(lookup);
    for (int group = 0; group < groups(); ++group) {
      for (int i = group_begin(group); i < group_end(group); ++i) {
        loaded.push_back(read_state(lookup, group, static_cast<size_t>(i)));
      }
    }
    lookup.finish();
  });
  states_ = std::move(loaded);
}

}  // namespace hero::optim
