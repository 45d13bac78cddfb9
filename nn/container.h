#pragma once
// Modules that hold modules.
#include <hero/nn/module.h>

namespace hero::nn {

/// Modules run one after the other, named "0", "1", ...:
///
///   nn::Sequential net{nn::Linear(784, 512), nn::ReLU(), nn::Linear(512, 10)};
///
/// Write braces, which make the modules from left to right; this fixes the order in which they draw
/// random numbers.
/// \snippet test_examples_networks.cpp Sequential
class Sequential : public Module {
 public:
  /// Makes an empty container.
  Sequential() = default;
  Sequential(Sequential&&) noexcept = default;
  /// Takes the modules in order, under the names "0", "1", ...
  template <class First, class... Rest>
  requires(std::is_base_of_v<Module, First> && !std::is_lvalue_reference_v<First> &&
           (std::is_base_of_v<Module, Rest> && ...) &&
           (sizeof...(Rest) > 0 ||
            !std::is_same_v<First, Sequential>)) explicit Sequential(First&& first,
                                                                     Rest&&... rest) {
    push_back(std::forward<First>(first));
    (push_back(std::forward<Rest>(rest)), ...);
  }

  Tensor forward(const Tensor& x) override;

  /// Makes a module of type M and appends it.
  template <class M, class... Args>
  M& append(Args&&... args) {
    return add<M>(std::to_string(size()), std::forward<Args>(args)...);
  }
  /// Does the same with options in braces, as Module::add() takes them.
  template <class M>
  requires TakesOptions<M> M& append(const typename M::Options& options) {
    return add<M>(std::to_string(size()), options);
  }
  template <class M, class A>
  requires TakesOptions<M, A> M& append(A&& a, const typename M::Options& options) {
    return add<M>(std::to_string(size()), std::forward<A>(a), options);
  }
  template <class M, class A, class B>
  requires TakesOptions<M, A, B> M& append(A&& a, B&& b, const typename M::Options& options) {
    return add<M>(std::to_string(size()), std::forward<A>(a), std::forward<B>(b), options);
  }
  template <class M, class A, class B, class C>
  requires TakesOptions<M, A, B, C> M& append(A&& a, B&& b, C&& c,
                                              const typename M::Options& options) {
    return add<M>(std::to_string(size()), std::forward<A>(a), std::forward<B>(b),
                  std::forward<C>(c), options);
  }
  /// Appends a module made elsewhere, which is moved into the container.
  template <class M>
  M& push_back(M&& module) {
    static_assert(!std::is_lvalue_reference_v<M>, "a module can be moved, not copied");
    return static_cast<M&>(
        adopt(std::to_string(size()), std::make_unique<M>(std::forward<M>(module))));
  }
  /// The number of modules.
  size_t size() const { return child_count(); }
  /// The module at position i. Throws an Error if there is none.
  Module& operator[](size_t i);
};

/// A list of modules of one type, named "0", "1", ..., which the owner calls in any way it likes.
/// It has no forward of its own.
template <class M>
class ModuleListOf : public Module {
 public:
  std::string type_name() const override { return "ModuleList"; }
  /// Makes a module and appends it.
  template <class N = M, class... Args>
  N& append(Args&&... args) {
    return listed(add<N>(std::to_string(list_.size()), std::forward<Args>(args)...));
  }
  /// Does the same with options in braces, as Module::add() takes them.
  template <class N = M>
  requires TakesOptions<N> N& append(const typename N::Options& options) {
    return listed(add<N>(std::to_string(list_.size()), options));
  }
  template <class N = M, class A>
  requires TakesOptions<N, A> N& append(A&& a, const typename N::Options& options) {
    return listed(add<N>(std::to_string(list_.size()), std::forward<A>(a), options));
  }
  template <class N = M, class A, class B>
  requires TakesOptions<N, A, B> N& append(A&& a, B&& b, const typename N::Options& options) {
    return listed(
        add<N>(std::to_string(list_.size()), std::forward<A>(a), std::forward<B>(b), options));
  }
  template <class N = M, class A, class B, class C>
  requires TakesOptions<N, A, B, C> N& append(A&& a, B&& b, C&& c,
                                              const typename N::Options& options) {
    return listed(add<N>(std::to_string(list_.size()), std::forward<A>(a), std::forward<B>(b),
                         std::forward<C>(c), options));
  }
  /// Appends a module made elsewhere, which is moved into the list.
  template <class N>
  N& push_back(N&& module) {
    static_assert(!std::is_lvalue_reference_v<N>, "a module can be moved, not copied");
    return listed(static_cast<N&>(
        adopt(std::to_string(list_.size()), std::make_unique<N>(std::forward<N>(module)))));
  }
  /// The number of modules.
  size_t size() const {
    check_not_moved();
    return list_.size();
  }
  /// The module at position i. Throws an Error if there is none.
  M& operator[](size_t i) {
    check(i < size(), "ModuleList: no module ", i, " of ", list_.size());
    return *list_[i];
  }

  /// Iterates over the modules themselves: for (Block& block : blocks).
  class Iterator {
   public:
    /// Begins at a position of the list.
    explicit Iterator(M* const* at) : at_(at) {}
    M& operator*() const { return **at_; }
    Iterator& operator++() {
      ++at_;
      return *this;
    }
    bool operator!=(const Iterator& other) const { return at_ != other.at_; }

   private:
    M* const* at_;
  };
  Iterator begin() const {
    check_not_moved();
    return Iterator(list_.data());
  }
  Iterator end() const { return Iterator(list_.data() + list_.size()); }

 private:
  template <class N>
  N& listed(N& made) {
    list_.push_back(&made);
    return made;
  }

  std::vector<M*> list_;
};
using ModuleList = ModuleListOf<Module>;

/// Modules by name.
class ModuleDict : public Module {
 public:
  /// Makes a module of type M under this name.
  template <class M, class... Args>
  M& insert(const std::string& name, Args&&... args) {
    return add<M>(name, std::forward<Args>(args)...);
  }
  /// Does the same with options in braces, as Module::add() takes them.
  template <class M>
  requires TakesOptions<M> M& insert(const std::string& name, const typename M::Options& options) {
    return add<M>(name, options);
  }
  template <class M, class A>
  requires TakesOptions<M, A> M& insert(const std::string& name, A&& a,
                                        const typename M::Options& options) {
    return add<M>(name, std::forward<A>(a), options);
  }
  template <class M, class A, class B>
  requires TakesOptions<M, A, B> M& insert(const std::string& name, A&& a, B&& b,
                                           const typename M::Options& options) {
    return add<M>(name, std::forward<A>(a), std::forward<B>(b), options);
  }
  template <class M, class A, class B, class C>
  requires TakesOptions<M, A, B, C> M& insert(const std::string& name, A&& a, B&& b, C&& c,
                                              const typename M::Options& options) {
    return add<M>(name, std::forward<A>(a), std::forward<B>(b), std::forward<C>(c), options);
  }
  /// The module of this name. Throws an Error if there is none.
  Module& operator[](const std::string& name);
  /// True if there is a module of this name.
  bool contains(const std::string& name) const;
};

/// Parameters named "0", "1", ..., in one list, which may grow until an optimizer is made.
class ParameterList : public Module {
 public:
  /// Makes an empty list.
  ParameterList() = default;
  /// Takes these values, as append() does.
  explicit ParameterList(const std::vector<Tensor>& values) {
    for (const Tensor& value : values) append(value);
  }
  /// Registers a leaf, which trains from now on, under the next number. The reference remains
  /// valid.
  Tensor& append(const Tensor& value);
  /// The number of parameters.
  size_t size() const {
    check_not_moved();
    return list_.size();
  }
  /// The parameter at position i. Throws an Error if there is none.
  Tensor& operator[](size_t i);

 private:
  std::vector<Tensor*> list_;
};

/// Parameters by name.
class ParameterDict : public Module {
 public:
  /// Registers a leaf, which trains from now on, under this name. The reference remains valid.
  Tensor& insert(const std::string& name, const Tensor& value);
  /// The parameter of this name. Throws an Error if there is none.
  Tensor& operator[](const std::string& name);
  /// True if there is a parameter of this name.
  bool contains(const std::string& name) const;
  /// The number of parameters.
  size_t size() const {
    check_not_moved();
    return size_;
  }

 private:
  size_t size_ = 0;
};

}  // namespace hero::nn
