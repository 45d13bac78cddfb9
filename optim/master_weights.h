#pragma once
// Training parameters of 16 bits with an optimizer that computes in 32. Micikevicius et al., arXiv
// 1710.03740.
#include <hero/autograd/leaves/partition.h>
#include <hero/optim/optimizer.h>

namespace hero::optim {

namespace detail {

/// Returns a float32 leaf with the values of a float16 or bfloat16 parameter, charged to
/// MemoryTag::optimizer; for other dtypes, the parameter itself.
Tensor master_of(const Tensor& param);
std::vector<Tensor> masters_of(const std::vector<Tensor>& params);
/// Throws an Error unless all parameters, beside those before them, can be optimised: masters,
/// which an optimizer checks itself, are always separate tensors without overlap.
void check_parameters(const char* optimizer, const std::vector<Tensor>& params,
                      const std::vector<Tensor>& before);
/// True if the master has the elements, the device and the precision that one made of the parameter
/// now would have. A parameter that is of half precision no more may keep its master.
bool is_master_of(const Tensor& master, const Tensor& param);
/// True if the master has the values of all elements that the parameter holds now.
bool can_follow(const Tensor& master, const Tensor& param);
/// Throws an Error if not.
void check_can_follow(const char* optimizer, size_t at, const Tensor& master, const Tensor& param);
/// The master of a parameter that may have been converted, moved or cut since it was made: `master`
/// itself, whose values are converted, moved and cut as the parameter was, or if `begun` is false
/// are those of the parameter; a new one if the parameter was its own and is of half precision now.
Tensor follow(const Tensor& master, const Tensor& param, bool begun);
/// Copies master into param, rounded to nearest; does nothing if they are the same tensor.
void round_to_param(const Tensor& master, const Tensor& param);
/// The gradient of param in float32, times factor.
Array wide_gradient(const Tensor& param, double factor);
/// The array of a 16-bit parameter that one pass can set while it reads the gradient; undefined if
/// it is not contiguous, not in memory, or the gradient has another dtype.
Array low_copy(const Tensor& param);
/// The bytes that wide_gradient() allocates; 0 if it returns the gradient itself.
int64_t wide_gradient_bytes(const Tensor& param, double factor);
/// Moves the gradient of every param, converted to float32, to its master.
void move_gradients(const std::vector<Tensor>& params, const std::vector<Tensor>& masters);
bool gradients_are_finite(const std::vector<Tensor>& params);
/// Adds the entries "master.<parameter>" to a state dict, or takes them out of one, which has them
/// for parameters of half precision and may have them for others.
void add_masters(StateDict& dict, const std::vector<Tensor>& params,
                 const std::vector<Tensor>& masters);
StateDict take_masters(const char* optimizer, const StateDict& dict,
                       const std::vector<Tensor>& params, std::vector<Array>& masters);

}  // namespace detail

/// Runs the optimizer O on float32 copies ("masters") of float16 and bfloat16 parameters. step()
/// reads the parameters' gradients; updates the masters, with the bits that O gives float32
/// parameters with the same gradients; and rounds the masters into the parameters. It does all
/// three in one pass if O is elementwise, as all of optim's are but LAMB, Adafactor and Muon;
/// otherwise it converts no more gradients at a time than the largest parameter has. Parameters of
/// other dtypes are their own masters. O is any optimizer of optim that steps without a closure and
/// without lookahead().
///
///   optim::MasterWeights<optim::AdamW> adamw(model.parameters(), {.lr = 3e-4});
///
/// Masters follow their parameters as states do: if the model is converted, moved or cut between
/// two steps, the masters keep their precision. A model that is converted to bfloat16 gets masters,
/// and one that is converted from it to float32 or float64 keeps them in that dtype: they have the
/// digits that the parameters get at the next step.
///
/// parameters() returns the masters. state_dict() contains them as "master.<parameter>".
template <class O>
class MasterWeights : public O {
  static_assert(
      !requires(O & o) { o.lookahead(); }, "the look-ahead would move the masters only");

 public:
  using Group = typename O::Group;
  using Options = decltype(Group::options);

  /// Makes masters of these parameters and an optimizer O of the masters, all with the same
  /// options.
  explicit MasterWeights(const std::vector<Tensor>& params, const Options& options = {})
      : O(detail::masters_of(optimizer_leaves(params)), options),
        params_(optimizer_leaves(params)) {
    detail::check_parameters(this->name(), params_, {});
  }
  /// Makes masters of groups of parameters, each group with options of its own.
  explicit MasterWeights(const std::vector<Group>& groups)
      : O(master_groups(groups)), params_(all_params(groups)) {
    detail::check_parameters(this->name(), params_, {});
  }

  /// Makes masters of the new parameters, too.
  void add_param_group(const Group& group) override {
    const std::vector<Tensor> leaves = optimizer_leaves(group.params);
    detail::check_parameters(this->name(), leaves, params_);
    params_.reserve(params_.size() + leaves.size());
    O::add_param_group(Group{detail::masters_of(leaves), group.options});
    params_.insert(params_.end(), leaves.begin(), leaves.end());
  }
  /// The parameters of the model, which the masters are rounded into.
  std::vector<Tensor> model_parameters() const override { return params_; }
  /// Copies the parameters' values into the masters. Call it after something else has written to
  /// the parameters, such as a loaded checkpoint, or a DDP that sent rank 0's first values. Before
  /// the first step the masters of parameters that were converted or cut take their values from
  /// there by themselves.
  void refresh() {
    begun_ = false;
    follow();
    const NoGrad no_grad;
    const std::vector<Tensor> masters = this->parameters();
    for (size_t i = 0; i < params_.size(); ++i) {
      if (!is_same(masters[i], params_[i])) masters[i].copy_(params_[i]);
    }
  }
  /// Moves the gradients, converted to float32, to the masters, so that
  /// clip_grad_norm(parameters()) sees them; GradScaler::unscale_() does so too. It takes 4 bytes
  /// for each element, which step() alone does not.
  void take_gradients() {
    follow();
    detail::move_gradients(params_, this->parameters());
  }

  void zero_grad(bool set_to_none = true) override {
    O::zero_grad(true);
    const NoGrad no_grad;
    for (const Tensor& param : params_) {
      if (!param.grad().defined()) continue;
      set_to_none ? param.set_grad({}) : (void)param.grad().zero_();
    }
  }
  void step() override {
    O::step();  // which calls follow()
    begun_ = true;
    for (int i = 0; i < static_cast<int>(params_.size()); ++i) {
      if (!own(i)) this->state(i).param.set_grad({});
    }
  }
  bool gradients_finite() const override {
    return detail::gradients_are_finite(params_) && O::gradients_finite();
  }
  void scale_gradients(double factor) override {
    take_gradients();
    O::scale_gradients(factor);
  }
  void step_scaled(double factor) override {
    factor_ = factor;
    try {
      step();
    } catch (...) {
      factor_ = 1.0;
      throw;
    }
    factor_ = 1.0;
  }
  StateDict state_dict() const override {
    follow();
    StateDict dict = O::state_dict();
    detail::add_masters(dict, params_, this->parameters());
    return dict;
  }
  void load_state_dict(const StateDict& dict) override {
    this->check_groups(dict);
    for (int i = 0; i < static_cast<int>(params_.size()); ++i) {
      if (!detail::can_follow(this->state(i).param, params_[static_cast<size_t>(i)])) {
        begun_ = false;  // a state that was saved has what these masters lack
      }
    }
    follow_masters();
    std::vector<Array> arrays;
    O::load_state_dict(detail::take_masters(this->name(), dict, params_, arrays));
    const std::vector<Tensor> masters = this->parameters();
    for (size_t i = 0; i < params_.size(); ++i) {
      if (!arrays[i].defined()) {
        this->set_param(static_cast<int>(i), params_[i]);  // it is its own, as when it was saved
        continue;
      }
      const NoGrad no_grad;
      masters[i].copy_(Tensor(arrays[i]));
      detail::round_to_param(masters[i], params_[i]);
    }
    begun_ = true;
  }

 protected:
  Array gradient_of(int param) const override {
    if (this->state(param).low.defined()) return with_gradient(param).grad().array();
    return detail::wide_gradient(with_gradient(param), factor_);
  }
  int64_t gradient_bytes(int param) const override {
    if (low_of(param).defined()) return 0;
    return detail::wide_gradient_bytes(with_gradient(param), factor_);
  }
  /// The parameter, if one pass can read its gradient, update the master and round it.
  Array low_of(int param) const override {
    if (!this->is_elementwise() || factor_ != 1.0 || own(param)) return {};
    return detail::low_copy(with_gradient(param));
  }
  bool is_behind() const override { return masters_behind() || O::is_behind(); }
  void follow() const override {
    if (masters_behind()) follow_masters();
    O::follow();
  }
  void updated(int param) override {
    if (Array& low = this->state(param).low; low.defined()) {
      low = {};
    } else {
      detail::round_to_param(this->state(param).param, params_[static_cast<size_t>(param)]);
    }
  }

 private:
  // The master where it has a gradient, else the parameter.
  const Tensor& with_gradient(int param) const {
    const Tensor& master = this->state(param).param;
    return master.grad().defined() ? master : params_[static_cast<size_t>(param)];
  }
  bool own(int param) const {
    return is_same(this->state(param).param, params_[static_cast<size_t>(param)]);
  }
  static std::vector<Group> master_groups(std::vector<Group> groups) {
    for (Group& group : groups) group.params = detail::masters_of(optimizer_leaves(group.params));
    return groups;
  }
  static std::vector<Tensor> all_params(const std::vector<Group>& groups) {
    std::vector<Tensor> all;
    for (const Group& group : groups) {
      all.insert(all.end(), group.params.begin(), group.params.end());
    }
    return optimizer_leaves(std::move(all));
  }

  bool masters_behind() const {
    for (int i = 0; i < static_cast<int>(params_.size()); ++i) {
      if (!detail::is_master_of(this->state(i).param, params_[static_cast<size_t>(i)])) return true;
    }
    return false;
  }
  void follow_masters() const {
    for (size_t i = 0; begun_ && i < params_.size(); ++i) {
      detail::check_can_follow(this->name(), i, this->state(static_cast<int>(i)).param, params_[i]);
    }
    for (int i = 0; i < static_cast<int>(params_.size()); ++i) {
      const Tensor& param = params_[static_cast<size_t>(i)];
      this->set_param(i, detail::follow(this->state(i).param, param, begun_));
    }
  }

  std::vector<Tensor> params_;
  double factor_ = 1.0;  // of the step now running
  bool begun_ = false;   // the masters have what the parameters have not
};

}  // namespace hero::optim
