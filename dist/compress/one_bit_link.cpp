#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include <hero/core/device/backend.h>
#include <hero/core/error.h>
#include <hero/core/ledger.h>
#include <hero/dist/compress/one_bit_link.h>
#include <hero/dist/data_parallel/sharded_module.h>
#include <hero/dist/one_bit.h>
#include <hero/optim/all_finite.h>

namespace hero::dist {
namespace {

// 1 + the first parameter whose gradient is not finite, or 0.
int64_t first_not_finite(const std::vector<Tensor>& parameters) {
  std::vector<Array> gradients;
  for (const Tensor& parameter : parameters) {
    if (parameter.grad().defined()) gradients.push_back(parameter.grad().array());
  }
  if (optim::all_finite(gradients)) return 0;
  const auto bad = std::find_if(parameters.begin(), parameters.end(), [](const Tensor& p) {
    return p.grad().defined() && !optim::all_finite({p.grad().array()});
  });
  return bad - parameters.begin() + 1;
}

}  // namespace

OneBitLink::OneBitLink(const char* what, std::shared_ptr<ShardedModule> sharded,
                       const std::vector<Tensor>& parameters, int64_t bucket_elements)
    : what_(what), sharded_(std::move(sharded)), bucket_elements_(bucket_elements) {
  check(!sharded_->shards(), what,
        ": needs a DDP, on which every rank holds whole gradients and states; under ZeRO and "
        "fully_shard() use optim::AdamW or LAMB, or FSDP's quantised gathers and reductions");
  device_ = parameters.front().device();
  std::unordered_map<const detail::TensorImpl*, const std::string*> names;
  for (const auto& unit : sharded_->units()) {
    for (const UnitParameter& each : unit->parameters()) names[each.leaf.impl()] = &each.name;
  }
  int64_t begin = 0;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const Tensor& parameter = parameters[i];
    const auto known = names.find(parameter.impl());
    check(known != names.end(), what, ": parameter ", i, " of shape ", parameter.shape(),
          " is no trainable parameter of the DDP's module");
    names_.push_back(*known->second);
    shapes_.push_back(parameter.shape());
    begins_.push_back(begin);
    begin += parameter.numel();
  }
  begins_.push_back(begin);
  check_fits(parameters);
  check_all_given(parameters);
}

void OneBitLink::check_fits(const std::vector<Tensor>& parameters) const {
  for (size_t i = 0; i < parameters.size(); ++i) {
    const Tensor& parameter = parameters[i];
    check(parameter.dtype() != kFloat64, what_, ": parameter '", names_[i],
          "' is float64, and bits stand for float32; convert the module");
    check(parameter.device() == device_, what_, ": parameter '", names_[i], "' is on ",
          parameter.device(), ", and bits are sent from ", device_,
          "; have all on one device when the optimizer is made, and leave them there");
  }
}

// Once gradients stay on their ranks, another optimizer would step by each rank's own.
void OneBitLink::check_all_given(const std::vector<Tensor>& parameters) const {
  std::unordered_set<const detail::TensorImpl*> all_given;
  for (const Tensor& parameter : parameters) all_given.insert(parameter.impl());
  for (const auto& unit : sharded_->units()) {
    for (const UnitParameter& each : unit->parameters()) {
      const bool given = all_given.contains(each.leaf.impl());
      check(given || !each.leaf.requires_grad(), what_, ": '", each.name,
            "' is trainable and not among the parameters; after the warm-up nobody averages its "
            "gradients: give the optimizer all of the DDP's, or freeze it");
    }
  }
}

const Communicator& OneBitLink::comm() const { return sharded_->groups().shard; }

void OneBitLink::keep_gradients_local(bool on) { sharded_->keep_gradients_local(on); }

OneBitLink::~OneBitLink() { keep_gradients_local(false); }

void OneBitLink::check_found(int64_t found, int rank) const {
  check(found == 0, what_, ": the gradient of '",
        names_[static_cast<size_t>(std::max<int64_t>(found - 1, 0))], "' is not finite on rank ",
        rank, "; nothing was changed: leave this step out on every rank, or use optim::GradScaler");
}

void OneBitLink::check_finite_here(const std::vector<Tensor>& parameters) const {
  check_found(first_not_finite(parameters), comm().rank());
}

void OneBitLink::check_finite(const std::vector<Tensor>& parameters) const {
  const int64_t mine = first_not_finite(parameters);
  if (comm().backend_kind() == BackendKind::simulated) return;
  const Array all = Array::empty({comm().size()}, kInt64);
  const Array own = all.slice(0, comm().rank(), comm().rank() + 1);
  own.data<int64_t>()[0] = mine;
  comm().all_gather(all, own, {.unit = "finite gradients"});
  for (int rank = 0; rank < comm().size(); ++rank) {
    check_found(all.data<int64_t>()[rank], rank);
  }
}

bool OneBitLink::all_say(bool mine) const {
  if (comm().backend_kind() == BackendKind::simulated) return mine;
  const Array word = Array::full({1}, mine ? 1 : 0, kInt64);
  comm().all_reduce(word, {.op = ReduceOp::min, .unit = "finite gradients"});
  return word.item() != 0.0;
}

Array OneBitLink::flat() const {
  const MemoryScope tag(MemoryTag::optimizer);
  return Array::empty({begins_.back()}, kFloat32, device_);
}

Array OneBitLink::part_of(const Array& flat, size_t parameter) const {
  return flat.slice(0, begins_[parameter], begins_[parameter + 1]).reshape(shapes_[parameter]);
}

OneBitMean& OneBitLink::bits() {
  if (!bits_) {
    bits_ = std::make_unique<OneBitMean>(comm(), begins_.back(), device_, bucket_elements_,
                                         sharded_->divide_by());
  }
  return *bits_;
}

void OneBitLink::mean(const Array& flat) {
  const UnitScope named(what_);
  const std::vector<OneBitMean::Range> lost = bits().mean(flat);
  if (lost.empty()) return;
  std::string names;
  for (const auto& [begin, end] : lost) names += names_between(begin, end);
  fail(what_, ": what is sent in bits overflowed float32 in a bucket, among", names,
       "; go on from the last checkpoint with a lower learning rate");
}

// The parameters that have elements in [begin, end).
std::string OneBitLink::names_between(int64_t begin, int64_t end) const {
  std::string names;
  for (size_t i = 0; i < names_.size(); ++i) {
    if (begins_[i] < end && begins_[i + 1] > begin) names += " '" + names_[i] + "'";
  }
  return names;
}

optim::StateDict OneBitLink::errors() const { return bits_ ? bits_->errors() : optim::StateDict(); }

void OneBitLink::set_errors(const optim::StateDict& dict) {
  dict.empty() ? reset_errors() : bits().set_errors(what_, dict);
}

void OneBitLink::reset_errors() {
  if (bits_) bits_->reset();
}

OneBitErrors::OneBitErrors(const char* what, const DataParallel& ddp,
                           const std::vector<Tensor>& parameters, int64_t bucket_elements)
    : link_(std::make_unique<OneBitLink>(what, sharded_module_of(ddp), parameters,
                                         bucket_elements)) {}

OneBitErrors::~OneBitErrors() = default;

optim::StateDict OneBitErrors::rank_state_dict() const { return link_->errors(); }
void OneBitErrors::load_rank_state_dict(const optim::StateDict& dict) { link_->set_errors(dict); }
void OneBitErrors::reset_rank_state() { link_->reset_errors(); }

}  // namespace hero::dist
