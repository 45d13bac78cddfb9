// The engine. Order is fixed: a node runs when every node that feeds it a gradient has run; of
// those ready, a leaf first, else the newest. So every rank of a distributed program sees the same
// order.
#include <algorithm>
#include <atomic>
#include <queue>
#include <unordered_map>

#include <hero/autograd/graph/accumulate.h>
#include <hero/autograd/graph/engine.h>
#include <hero/autograd/graph/op.h>
#include <hero/autograd/graph/op_scopes.h>
#include <hero/autograd/graph/two_part_backward.h>
#include <hero/autograd/ops/autocast.h>
#include <hero/autograd/ops/elementwise/elementwise.h>
#include <hero/autograd/ops/reduce/reduce.h>
#include <hero/core/functions/map.h>
#include <hero/core/profile/observer.h>
#include <hero/core/threads/per_thread.h>

namespace hero {

namespace {

thread_local int walk_depth = 0;
thread_local bool has_rest = false;  // of the outermost pass
std::atomic<uint32_t> walk_counter = 0;
using Callbacks = std::vector<std::function<void()>>;
Callbacks& end_callbacks() { return core::PerThread<Callbacks, struct OfBackward>::get(); }

}  // namespace

class detail::BackwardWalk {
 public:
  explicit BackwardWalk(BackwardRequest& walk) : walk_(walk), id_(next_id()) {}
  ~BackwardWalk() {
    for (const State& s : states_) {
      if (s.claimed) s.node->walk_.store(0, std::memory_order_release);
    }
  }

  std::vector<Tensor> run() {
    collect();
    if (!walk_.captures.empty() || walk_.rest) mark_needed();
    captured_.resize(walk_.captures.size());
    for (size_t i = 0; i < walk_.roots.size(); ++i) {
      deliver(walk_.roots[i], std::move(walk_.gradients[i]));
    }
    for (BegunNode& begun : walk_.begun) {
      state(begun.node.get()).progress = begun.known ? Progress::known : Progress::half;
      state(begun.node.get()).grads = std::move(begun.grads);
    }
    for (uint32_t i = 0; i < states_.size(); ++i) {
      if (states_[i].pending == 0) ready_.push({states_[i].node->sequence(), i});
    }
    const GradMode mode(walk_.create_graph);
    while (!ready_.empty()) {
      const uint32_t index = ready_.top().second;
      ready_.pop();
      step(index);
    }
    return std::move(captured_);
  }

 private:
  enum class Progress : uint8_t { none, half, known };  // of a node begun in a first part

  struct State {
    Node* node;
    Grads grads;
    uint32_t pending = 0;  // nodes yet to run that feed this one
    bool needed = true;
    bool owned = false;   // grads[0] is a sum made here: more can be added in place
    bool passed = false;  // a gradient was passed on past this node
    bool claimed = true;  // the node's own word says where this state lies
    Progress progress = Progress::none;
  };

  // [note: nodes that several passes meet] A node tells where its state lies: the number of the
  // pass that has claimed it in the upper half of a word, and in the lower half the place. Passes
  // of other threads that meet it too (the leaves of a shared model), or a backward inside a
  // backward, look it up in a table of their own.
  static uint64_t next_id() {
    uint64_t id = 0;
    while (id == 0) id = ++walk_counter;  // it wraps, and 0 is nobody
    return id << 32;
  }
  static uint64_t pass_of(uint64_t slot) { return slot >> 32 << 32; }

  uint32_t index_of(Node* node) const {
    const uint64_t slot = node->walk_.load(std::memory_order_relaxed);
    return pass_of(slot) == id_ ? static_cast<uint32_t>(slot) : elsewhere_.at(node);
  }
  State& state(Node* node) { return states_[index_of(node)]; }

  // True the first time this walk meets the node.
  bool meet(Node* node) {
    const auto index = static_cast<uint32_t>(states_.size());
    uint64_t slot = node->walk_.load(std::memory_order_relaxed);
    if (pass_of(slot) == id_) return false;
    const bool claimed =
        slot == 0 && (elsewhere_.empty() || !elsewhere_.contains(node)) &&
        node->walk_.compare_exchange_strong(slot, id_ | index, std::memory_order_acquire);
    if (!claimed && !elsewhere_.emplace(node, index).second) return false;
    states_.push_back({.node = node, .grads = {}, .claimed = claimed});
    return true;
  }

  // Every node reachable from the roots, with the number of its consumers.
  void collect() {
    std::vector<Node*> open;
    const auto begin = [&](Node* node) {
      if (node && meet(node)) open.push_back(node);
    };
    for (const Edge& root : walk_.roots) begin(root.node.get());
    for (const BegunNode& begun : walk_.begun) begin(begun.node.get());
    while (!open.empty()) {
      Node* node = open.back();
      open.pop_back();
      for (const auto& input : node->inputs_) {
        Node* earlier = input.edge.node.get();
        if (!earlier) continue;
        begin(earlier);
        ++state(earlier).pending;
      }
    }
  }

  // For grad() and a first part: only nodes from which a captured gradient can be reached run.
  void mark_needed() {
    std::vector<uint32_t> order(states_.size());
    for (uint32_t i = 0; i < order.size(); ++i) order[i] = i;
    const auto age = [this](uint32_t i) {
      const uint64_t sequence = states_[i].node->sequence();
      return sequence == AccumulateGrad::kFirst ? 0 : sequence;
    };
    std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return age(a) < age(b); });
    for (uint32_t i : order) {
      State& s = states_[i];
      s.needed = false;
      for (const auto& [edge, spec] : s.node->inputs_) {
        s.needed = s.needed || (edge.node && (state(edge.node.get()).needed || wanted(edge)));
      }
    }
  }

  bool wanted(const Edge& edge) const {
    for (const Edge& capture : walk_.captures) {
      if (capture.node == edge.node && capture.index == edge.index) return true;
    }
    return false;
  }

  // Hands a gradient on past a node that need not see it; false where somebody wants to.
  bool pass(const Edge& edge, Tensor& gradient) {
    Node& node = *edge.node;
    if (node.hooks_ || wanted(edge)) return false;
    state(&node).passed = true;
    const Edge& next = node.input_edge(edge.index);
    if (next.node) deliver(next, std::move(gradient));
    return true;
  }

  void deliver(const Edge& edge, Tensor gradient) {
    if (!gradient.defined()) return;
    if (put_off(edge)) return put_into_rest(edge, std::move(gradient));
    if (edge.node->bypassed_ && pass(edge, gradient)) return;
    State& s = state(edge.node.get());
    s.grads.resize(std::max(s.grads.size(), edge.index + 1));
    Tensor& slot = s.grads[edge.index];
    if (!slot.defined()) {
      slot = std::move(gradient);
    } else if (walk_.create_graph || edge.index > 0) {
      slot = slot + gradient;
    } else if (s.owned) {
      core::map_into<core::kernels::Add>(slot.array(), slot.array(), gradient.array());
    } else {
      slot = Tensor(core::map<core::kernels::Add>(slot.array(), gradient.array()));
      s.owned = true;
    }
  }

  void run_hooks(Node* node, Grads& grads) {
    const auto apply = [&grads](int index, const Hook<TensorHook>& hook) {
      if (!*hook.alive || index >= grads.size() || !grads[index].defined()) return;
      Tensor replaced = hook.call(grads[index]);
      if (!replaced.defined()) return;
      check(replaced.shape() == grads[index].shape(), "hook: returned a gradient of shape ",
            replaced.shape(), " for one of ", grads[index].shape());
      const DType dtype = grads[index].dtype();
      grads[index] = replaced.dtype() == dtype ? std::move(replaced) : replaced.to(dtype);
    };
    if (node->hooks_) {
      for (size_t i = 0; i < node->hooks_->size(); ++i) {
        const auto entry = (*node->hooks_)[i];
        apply(entry.first, entry.second);
      }
    }
    if (node->sequence() != AccumulateGrad::kFirst) return;
    each_hook(static_cast<AccumulateGrad*>(node)->leaf(), &Hooks::tensor,
              [&](const auto& hook) { apply(0, hook); });
  }

  void capture(Node* node, const Grads& grads) {
    for (size_t i = 0; i < walk_.captures.size(); ++i) {
      const Edge& edge = walk_.captures[i];
      if (edge.node.get() == node && edge.index < grads.size()) captured_[i] = grads[edge.index];
    }
  }

  // The gradient as the input's shape and dtype demand: broadcasting is undone here, once for all
  // ops.
  Tensor fit(const Node& node, int i, Tensor g) const {
    const GradSpec& spec = node.input_spec(i);
    if (!(g.shape() == spec.shape)) {
      check(g.ndim() >= spec.shape.size() &&
                broadcast_shapes(node.name(), g.shape(), spec.shape) == g.shape(),
            node.name(), ": backward gave a gradient of shape ", g.shape(), " for input ", i,
            " of shape ", spec.shape);
      g = sum_to(g, spec.shape);
    }
    return g.dtype() == spec.dtype ? g : g.to(spec.dtype);
  }

  static void check_kept(const Node& node) {
    check(!node.released(), node.name(),
          ": backward ran through this graph before and freed it; pass retain_graph = true to the "
          "first");
  }

  static Grads run_node(Node& node, const Grads& grads) {
    check_kept(node);
    const detail::WatchDerivative derivative(node, node.place_.get());
    Grads results = node.run(grads);
    check(results.size() == node.input_count(), node.name(), ": backward gave ", results.size(),
          " gradients for ", node.input_count(), " inputs");
    return results;
  }

  void step(uint32_t index) {
    // A copy of the pointer: running a node may not touch states_, but a hook may start another
    // walk.
    Node* node = states_[index].node;
    const bool leaf = node->sequence() == AccumulateGrad::kFirst;
    const bool needed = states_[index].needed;
    if (walk_.rest && !needed && !leaf) return;
    const Progress progress = states_[index].progress;
    Grads grads = std::move(states_[index].grads);
    states_[index].grads.clear();
    if (progress == Progress::known) return pass_on(*node, grads);
    grads.resize(std::max(node->output_count(), 1));
    bool any = false;
    for (const Tensor& g : grads) any = any || g.defined();
    Grads results;
    if (any) {
      if (progress == Progress::none) {
        run_hooks(node, grads);
        capture(node, grads);
      }
      if (walk_.rest && !leaf && leads_to_rest(*node)) return run_first_part(*node, grads);
      if (needed && !(leaf && !walk_.captures.empty())) results = run_node(*node, grads);
    }
    if (!any && states_[index].passed && needed) {
      check_kept(*node);
      static_cast<IdentityOp*>(node)->bypassed();
    }
    look(*node, grads, results);
    grads.clear();
    pass_on(*node, results);
    if (!walk_.retain_graph) node->release();
  }

  static void look(const Node& node, const Grads& grads, const Grads& results) {
    if (detail::open_scopes & detail::kAnomalyScope) [[unlikely]] {
      detail::look_at_gradients(node, node.place_ ? *node.place_ : std::string(), grads, results);
    }
  }

  void pass_on(Node& node, Grads& results) {
    for (int i = 0; i < node.input_count(); ++i) {
      const Edge& edge = node.input_edge(i);
      if (!edge.node) continue;
      if (i < results.size() && results[i].defined()) {
        deliver(edge, fit(node, i, std::move(results[i])));
      }
      const uint32_t index = index_of(edge.node.get());
      if (--states_[index].pending == 0) ready_.push({edge.node->sequence(), index});
    }
  }

  // [note: the first part of a pass] Nodes that lead to a captured gradient run, as in grad(). What
  // other inputs of such a node get is put off: the node runs a second time for them where it does
  // its work in two parts, and else their gradients are made at once and kept. The second part
  // begins at these nodes and has the order of every pass, so sums are made in that order, too.
  bool put_off(const Edge& edge) {
    return walk_.rest && !state(edge.node.get()).needed && !wanted(edge);
  }

  void put_into_rest(const Edge& edge, Tensor gradient) {
    walk_.rest->roots.push_back(edge);
    walk_.rest->gradients.push_back(std::move(gradient));
  }

  bool leads_to_rest(const Node& node) {
    return std::any_of(node.inputs_.begin(), node.inputs_.end(), [this](const auto& input) {
      return input.edge.node && put_off(input.edge);
    });
  }

  // While it lives, a node's inputs whose gradients are put off want none.
  struct WithoutRest {
    WithoutRest(BackwardWalk& walk, Node& of) : node(of) {
      for (int i = 0; i < node.input_count(); ++i) {
        Edge& edge = node.inputs_[i].edge;
        Edge& kept = edges.emplace_back();
        if (edge.node && walk.put_off(edge)) std::swap(kept, edge);
      }
    }
    ~WithoutRest() {
      for (int i = 0; i < node.input_count(); ++i) {
        if (has(i)) node.inputs_[i].edge = std::move(edges[i]);
      }
    }
    WithoutRest(const WithoutRest&) = delete;
    WithoutRest& operator=(const WithoutRest&) = delete;
    bool has(int i) const { return static_cast<bool>(edges[i].node); }

    Node& node;
    InlineVector<Edge, 4> edges;
  };

  void run_first_part(Node& node, const Grads& grads) {
    BegunNode begun{.node = core::Ref<Node>::share(&node), .grads = grads};
    auto* parts = dynamic_cast<TwoPartBackward*>(&node);
    Grads results;
    if (!parts) results = run_node(node, grads);
    const WithoutRest first(*this, node);
    if (parts) {
      parts->begin_part(TwoPartBackward::Part::first);
      results = run_node(node, grads);
      parts->begin_part(TwoPartBackward::Part::second);
    } else {
      begun.known = true;
      begun.grads = Grads();
      begun.grads.resize(node.input_count());
      for (int i = 0; i < node.input_count(); ++i) {
        if (!first.has(i) || !results[i].defined()) continue;
        begun.grads[i] = fit(node, i, std::move(results[i]));
      }
      node.release();
    }
    look(node, grads, results);
    pass_on(node, results);
    for (auto& input : node.inputs_) {
      if (input.edge.node) finished_.push_back(std::move(input.edge));
    }
    walk_.rest->begun.push_back(std::move(begun));
  }

  BackwardRequest& walk_;
  uint64_t id_;  // the number of the pass, in the upper half
  std::vector<State> states_;
  std::vector<Tensor> captured_;
  std::vector<Edge> finished_;  // that the rest needs no more; their nodes live as long as states_
  std::unordered_map<Node*, uint32_t> elsewhere_;
  std::priority_queue<std::pair<uint64_t, uint32_t>> ready_;
};

std::vector<Tensor> run_backward(BackwardRequest walk) {
  struct Depth {
    explicit Depth(bool rest) {
      if (walk_depth++ == 0) has_rest = rest;
    }
    ~Depth() {
      // After an Error, callbacks of the failed pass must not run in the next.
      if (--walk_depth == 0) end_callbacks().clear();
    }
  } depth(walk.rest != nullptr);
  const Autocast off({.enabled = false});
  const ProfileScope profiled("backward");
  std::vector<Tensor> captured = detail::BackwardWalk(walk).run();
  for (size_t i = 0; walk_depth == 1 && i < end_callbacks().size(); ++i) {
    const auto callback = end_callbacks()[i];
    callback();
  }
  return captured;
}

bool backward_running() { return walk_depth > 0; }

bool backward_has_rest() { return walk_depth > 0 && has_rest; }

void on_backward_end(std::function<void()> callback) {
  check(walk_depth > 0, "on_backward_end: no backward pass is running on this thread");
  end_callbacks().push_back(std::move(callback));
}

}  // namespace hero
