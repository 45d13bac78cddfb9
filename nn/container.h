#pragma once
// Modules that hold modules.
#include <hero/nn/module.h>

namespace hero::nn {

/// Modules run one after the other, named "0", "1", ...:
///
///   nn::Sequential net{nn::Linear(784, 512), nn::ReLU(), nn::Linear(512, 10)};
///
/// Write braces: they make the modules from left to right, which fixes whose random numbers come
/// first.
/// \snippet test_examples_networks.cpp Sequential
class Sequential : public Module {
 public:
  Sequential() = default;
  Sequential(Sequential&&) noexcept = default;
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

  /// Makes a module at the end.
  template <class M, class... Args>
  M& append(Args&&... args) {
    return add<M>(std::to_string(size()), std::forward<Args>(args)...);
  }
  /// With the options in braces, as Module::add.
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
  /// Takes a module made elsewhere.
  template <class M>
  M& push_back(M&& module) {
    static_assert(!std::is_lvalue_reference_v<M>, "a module can be moved, not copied");
    return static_cast<M&>(
        adopt(std::to_string(size()), std::make_unique<M>(std::forward<M>(module))));
  }
  size_t size() const { return children().size(); }
  Module& operator[](size_t i);
};

/// A list of modules of one type, named "0", "1", ..., that the owner runs as it likes.
template <class M>
class ModuleListOf : public Module {
 public:
  std::string type_name() const override { return "ModuleList"; }
  /// Makes a module at the end.
  template <class N = M, class... Args>
  N& append(Args&&... args) {
    return listed(add<N>(std::to_string(list_.size()), std::forward<Args>(args)...));
  }
  /// With the options in braces, as Module::add.
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
  /// Takes a module made elsewhere.
  template <class N>
  N& push_back(N&& module) {
    static_assert(!std::is_lvalue_reference_v<N>, "a module can be moved, not copied");
    return listed(static_cast<N&>(
        adopt(std::to_string(list_.size()), std::make_unique<N>(std::forward<N>(module)))));
  }
  size_t size() const { return list_.size(); }
  M& operator[](size_t i) {
    check(i < list_.size(), "ModuleList: no module ", i, " of ", list_.size());
    return *list_[i];
  }

  /// Walks over the modules themselves: for (Block& block : blocks).
  class Iterator {
   public:
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
  Iterator begin() const { return Iterator(list_.data()); }
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
  template <class M, class... Args>
  M& insert(const std::string& name, Args&&... args) {
    return add<M>(name, std::forward<Args>(args)...);
  }
  /// With the options in braces, as Module::add.
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
  Module& operator[](const std::string& name);
  bool contains(const std::string& name) const;
};

}  // namespace hero::nn
