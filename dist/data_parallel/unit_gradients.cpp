// The part of Unit for gradients: they are packed, averaged over the ranks, and this rank's part is
// added to the gradients of the leaves.
#include <algorithm>
#include <utility>

#include <hero/autograd/graph/grad_mode.h>
#include <hero/autograd/graph/node.h>
#include <hero/core/device/backend.h>
#include <hero/core/functions/map.h>
#include <hero/core/kernels/elementwise.h>
#include <hero/dist/data_parallel/unit.h>

namespace hero::dist {

namespace k = core::kernels;

namespace {

// What a pass before left for the replicas goes to them, with zeros where this pass adds nothing.
bool has_unreduced(const UnitParameter& parameter, AllReduce when) {
  return when == AllReduce::now && parameter.unreduced.defined();
}

// Adds the gradient of `full` to the others that this rank has not averaged.
void accumulate_in(UnitParameter& parameter, DType wide) {
  const Array gradient = parameter.full.grad().array().to(wide);
  Array& sum = parameter.accumulated;
  if (!sum.defined()) {
    sum = gradient;
  } else if (gradient.numel() > 0) {
    core::map_into<k::Add>(sum, sum, gradient);
  }
  parameter.full.set_grad({});
}

// What this rank has of the whole parameter's gradient and has not averaged, which it has no more
// afterwards.
Array take_own_gradient(UnitParameter& parameter) {
  const Tensor gradient = parameter.full.grad();
  if (gradient.defined() && parameter.accumulated.defined())
    accumulate_in(parameter, parameter.accumulated.dtype());
  parameter.full.set_grad({});
  if (parameter.accumulated.defined()) return std::exchange(parameter.accumulated, {});
  return gradient.defined() ? gradient.array() : Array();
}

void write_zeros(const Array& to, int64_t begin, int64_t end) {
  if (begin < end) core::backend(to.device()).run(core::call::Fill{to.slice(0, begin, end), 0.0});
}

}  // namespace

Tensor apply_leaf_hooks(const UnitParameter& parameter, const Tensor& gradient) {
  Tensor result;
  detail::each_hook(*parameter.leaf.impl(), &detail::Hooks::tensor, [&](const auto& hook) {
    const Tensor replaced = hook.call(result.defined() ? result : gradient);
    if (!replaced.defined()) return;
    check(replaced.shape() == gradient.shape(), "hook: returned a gradient of shape ",
          replaced.shape(), " for the whole one of ", parameter.name, ", ", gradient.shape());
    result = replaced.to(gradient.dtype());
  });
  return result;
}

// Without gradients of some parameters (frozen ones, mostly) the parts are no longer balanced, and
// the same ones are missing in each step: the counts are made when that changes.
const ChunkCounts& Unit::counts_of(const std::vector<size_t>& parameters) {
  if (packed_.first == parameters) return packed_.second;
  std::vector<int64_t> counts(static_cast<size_t>(flat_.counts.size()), 0);
  for (const size_t i : parameters) {
    const Chunk& place = parameters_[i].place;
    const int64_t end = place.begin + place.count;
    for (int64_t at = place.begin; at < end;) {
      const int rank = flat_.counts.chunk_of(at);
      const int64_t next = std::min(end, flat_.counts.first(rank) + flat_.counts.count(rank));
      counts[static_cast<size_t>(rank)] += next - at;
      at = next;
    }
  }
  packed_ = {parameters, std::move(counts)};
  return packed_.second;
}

// Libraries reduce equal parts in one call and others in one call a rank: a flat parameter that
// lacks little is better sent with zeros.
bool Unit::goes_whole(int64_t elements, size_t parameters) const {
  const bool almost = options_.order == Order::native && elements >= flat_numel() / 4 * 3;
  return options_.stage != Stage::none && (parameters == parameters_.size() || almost);
}

// [note: which gradients travel] Those that are there. All ranks must have the same; where some are
// missing the call's name says which, so that ranks that disagree get an error and no wrong sum.
void Unit::pack(GradientReduction& reduction) {
  std::string missing;
  int64_t elements = 0;
  bool first = true;
  DType dtype = options_.gathered.value_or(parameters_.front().leaf.dtype());
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const UnitParameter& parameter = parameters_[i];
    const Tensor gradient = parameter.full.grad();
    const bool has = parameter.has_own_gradient() || has_unreduced(parameter, reduction.when);
    if (!has && !parameter.leaf.requires_grad()) continue;  // frozen, and not since no_sync()
    if (!has) {
      missing += (missing.empty() ? " without " : ", ") + parameter.name;
      continue;
    }
    reduction.parameters.push_back(i);
    reduction.has_unreduced = reduction.has_unreduced || parameter.unreduced.defined();
    elements += parameter.place.count;
    if (!gradient.defined()) continue;
    dtype = std::exchange(first, false) ? gradient.dtype() : promote(dtype, gradient.dtype());
  }
  reduction.name = name_ + missing;
  if (reduction.parameters.empty()) return;
  reduction.is_flat = goes_whole(elements, reduction.parameters.size());
  if (options_.stage != Stage::none) {
    reduction.counts = reduction.is_flat ? flat_.counts : counts_of(reduction.parameters);
  }
  const Device device = parameters_.front().full.device();
  const bool stays = options_.stage <= Stage::optimizer;  // whole gradients are kept
  const MemoryScope tag(stays ? MemoryTag::gradient : MemoryTag::communication);
  reduction.dtype = options_.reduce.value_or(dtype);
  const int64_t size = reduction.is_flat ? flat_numel() : elements;
  reduction.bucket = Array::empty({size}, reduction.dtype, device);
  int64_t end = 0;  // of what is written
  for (const size_t i : reduction.parameters) {
    UnitParameter& parameter = parameters_[i];
    const int64_t begin = reduction.is_flat ? parameter.place.begin : end;
    write_zeros(reduction.bucket, end, begin);
    end = begin + parameter.full.numel();
    const Array gradient = take_own_gradient(parameter);
    if (!gradient.defined()) {
      write_zeros(reduction.bucket, begin, end);
    } else if (begin < end) {
      core::backend(device).run(
          core::call::Copy{gradient.reshape({end - begin}), reduction.bucket.slice(0, begin, end)});
    }
  }
  write_zeros(reduction.bucket, end, size);
}

// One rank alone: its gradients are the mean.
void Unit::keep_whole() {
  if (options_.stage == Stage::none) return;
  for (UnitParameter& parameter : parameters_) {
    const Array gradient = take_own_gradient(parameter);
    if (!gradient.defined()) continue;
    const DType reduced = options_.reduce.value_or(gradient.dtype());
    const Array whole = gradient.reshape({parameter.place.count}).to(reduced);
    if (options_.divide_by > 0.0) core::map_into<k::Div>(whole, whole, Scalar(options_.divide_by));
    give_gradient(parameter, target_->begin_gradient(whole, parameter.leaf.dtype()));
  }
}

void Unit::accumulate() {
  if (options_.stage == Stage::none || !options_.reduce) return;
  const MemoryScope tag(MemoryTag::gradient);
  for (UnitParameter& parameter : parameters_) {
    const Tensor gradient = parameter.full.grad();
    if (!gradient.defined()) continue;
    const DType wide = promote(gradient.dtype(), *options_.reduce);
    if (wide != gradient.dtype()) accumulate_in(parameter, wide);
  }
}

// It is asked whenever a gradient comes, which completes no parameter that was complete before.
bool Unit::is_complete() {
  const auto is_ready = [](const UnitParameter& m) { return m.ready || !m.leaf.requires_grad(); };
  while (complete_ < parameters_.size() && is_ready(parameters_[complete_])) ++complete_;
  return complete_ == parameters_.size();
}

void Unit::begin_pass() {
  complete_ = 0;
  for (UnitParameter& parameter : parameters_) parameter.ready = false;
}

bool Unit::has_gradients(AllReduce when) const {
  const bool under_way = reduction_ != nullptr;  // with what passes before have left
  return std::any_of(parameters_.begin(), parameters_.end(), [&](const UnitParameter& parameter) {
    return parameter.has_own_gradient() || (!under_way && has_unreduced(parameter, when));
  });
}

void Unit::begin_reduce(AllReduce when) {
  if (!reduce_) return keep_whole();
  reduction_ = std::make_unique<GradientReduction>();
  reduction_->when = when;
  pack(*reduction_);
  if (!reduction_->parameters.empty()) reduce_(*reduction_);
}

void Unit::use_hook(std::shared_ptr<const CommHook> hook, int index, bool is_last) {
  if (!reduce_) return;  // one rank alone
  reduce_ = reduce_by_hook(std::move(hook), [this, index, is_last](const GradientReduction& r) {
    GradBucket bucket{options_.groups.shard,    index, is_last, r.bucket, {}, divisor(options_),
                      mean_of(options_, r.name)};
    int64_t begin = 0;
    for (const size_t i : r.parameters) {
      bucket.parameters.push_back({parameters_[i].name, begin, parameters_[i].shape});
      begin += parameters_[i].place.count;
    }
    return bucket;
  });
}

void Unit::advance_hook() {
  if (!reduction_) return;
  const UnitScope named(reduction_->name);
  reduction_->steps.advance();
}

bool Unit::begin_all_reduce() {
  if (!reduction_ || !reduction_->is_of_group || reduction_->when == AllReduce::later) return false;
  end_within(*reduction_);
  begin_over_replicas(options_, *reduction_, {});
  return true;
}

// The group's sums are there: what passes before have left is added to them, in the order of the
// passes.
void Unit::end_within(GradientReduction& r) {
  r.wait();
  r.is_of_group = false;
  each_part(r, [](UnitParameter& parameter, const Array& mine) {
    const Array before = std::exchange(parameter.unreduced, {});
    if (before.defined() && mine.numel() > 0) core::map_into<k::Add>(mine, before, mine);
  });
}

bool Unit::end_reduce() {
  if (!reduction_) return true;
  begin_all_reduce();
  const std::unique_ptr<GradientReduction> done = std::move(reduction_);
  GradientReduction& r = *done;
  if (r.parameters.empty()) return true;
  if (r.is_of_group) {
    end_within(r);
    each_part(r, [](UnitParameter& parameter, const Array& mine) { parameter.unreduced = mine; });
    return false;
  }
  r.wait();
  r.own = target_->begin_gradient(r.own.to(r.dtype), parameters_.front().leaf.dtype());
  each_part(r, [this](UnitParameter& parameter, const Array& mine) {
    give_gradient(parameter, options_.stage == Stage::none ? mine.reshape(parameter.shape) : mine);
  });
  return true;
}

// Calls fn with each parameter that was packed and its elements among this rank's.
void Unit::each_part(const GradientReduction& r,
                     const std::function<void(UnitParameter&, const Array&)>& fn) {
  int64_t begin = 0;
  for (const size_t i : r.parameters) {
    UnitParameter& parameter = parameters_[i];
    const Chunk place = options_.stage == Stage::none ? parameter.place : shard_of(parameter).place;
    if (r.is_flat && place.count > 0) begin = place.begin;
    fn(parameter, r.own.slice(0, begin, begin + place.count));
    begin += place.count;
  }
}

void Unit::drop_gradients() {
  if (reduction_) {
    reduction_->work.wait();
    reduction_->steps.abandon();
  }
  reduction_.reset();
  target_->wait_gradients();
  arriving_.clear();
  for (UnitParameter& parameter : parameters_) {
    parameter.full.set_grad({});
    parameter.accumulated = {};
    parameter.unreduced = {};
  }
}

void Unit::give_gradient(UnitParameter& parameter, const Array& gradient) {
  if (!target_->crosses()) return add_gradient(parameter, gradient);
  arriving_.emplace_back(&parameter, gradient);
}

void Unit::add_arrived() {
  if (arriving_.empty()) return;
  target_->wait_gradients();
  for (const auto& [parameter, gradient] : std::exchange(arriving_, {})) {
    add_gradient(*parameter, gradient);
  }
}

void Unit::add_gradient(UnitParameter& parameter, const Array& gradient) const {
  {
    const MemoryScope tag(MemoryTag::gradient);
    if (parameter.previous_grad.defined())
      parameter.leaf.set_grad(std::exchange(parameter.previous_grad, {}));
    const Array mine = gradient.to(parameter.leaf.dtype());
    const Tensor former = parameter.leaf.grad();
    if (!former.defined()) {
      parameter.leaf.set_grad(Tensor(mine));
    } else if (mine.numel() > 0) {
      core::map_into<k::Add>(former.array(), former.array(), mine);
    }
  }
  if (options_.stage == Stage::none) return;  // the backend has called the leaf's hooks
  const NoGrad as_in_backward;
  detail::each_hook(*parameter.leaf.impl(), &detail::Hooks::leaf,
                    [&](const auto& hook) { hook.call(parameter.leaf); });
}

}  // namespace hero::dist
