#pragma once
// Backend: the kernels that a device has to provide, one for each family of core/device/calls.h.
// They are pure virtual functions, so a backend that lacks one does not compile. Those of FusedMap,
// FusedMapSum, LogLikelihoodInPlace and HasConvolution have a default, and those that only the CPU
// has throw an Error on other devices.
//
// On the CPU, a kernel has done its work when it returns, and its bits do not depend on the
// number of threads. A GPU's backend only queues the work on the calling thread's stream.
#include <tuple>

#include <hero/core/device/calls.h>
#include <hero/core/error.h>

namespace hero::core {

/// \cond
template <size_t I, class List>
struct CallAt;
template <size_t I, class... Each>
struct CallAt<I, TypeList<Each...>> : std::tuple_element<I, std::tuple<Each...>> {};
// The n-th call from the end of the list Calls.
template <int n>
using LastCall = typename CallAt<Calls::size - n, Calls>::type;

// run() for each of the last n calls, pure virtual unless only the CPU has the kernel.
template <int n>
class Runs : public Runs<n - 1> {
 public:
  using Runs<n - 1>::run;
  virtual ResultOf<LastCall<n>> run(const LastCall<n>& call) = 0;
};
template <>
class Runs<0> {
 public:
  virtual ~Runs() = default;
  void run() = delete;
};
template <int n>
requires(LastCall<n>::kOnHost) class Runs<n> : public Runs<n - 1> {
 public:
  using Runs<n - 1>::run;
  virtual ResultOf<LastCall<n>> run(const LastCall<n>&) {
    fail("backend: this device has no such kernel; the CPU has");
  }
};
/// \endcond

/// The kernels of a device: run() for each call of core/device/calls.h.
class Backend : public Runs<Calls::size> {
 public:
  using Runs<Calls::size>::run;
  /// \name Kernels for a device that has no way with fewer passes through memory.
  /// \{
  void run(const call::FusedMap& call) override;              ///< one map after the other
  void run(const call::FusedMapSum& call) override;           ///< a fused map and a reduction
  void run(const call::LogLikelihoodInPlace& call) override;  ///< first one, then the other
  /// \}
  /// False: all convolutions are products with columns.
  bool run(const call::HasConvolution&) override { return false; }
};

// A backend whose run() calls around(call) of `Self` for every family; around() is a template, with
// overloads for families that are different.
/// \cond
template <class Self, int n = Calls::size>
class RunsAround : public RunsAround<Self, n - 1> {
 public:
  using RunsAround<Self, n - 1>::run;
  ResultOf<LastCall<n>> run(const LastCall<n>& call) override {
    return static_cast<Self*>(this)->around(call);
  }
};
template <class Self>
class RunsAround<Self, 0> : public Backend {};
/// \endcond

/// The backend of a device. Throws an Error if the device is not available.
Backend& backend(Device device);

/// \name The backends of core.
/// \{
Backend& cpu_backend();   ///< that of the best instruction set that this processor has
Backend& meta_backend();  ///< computes nothing, as its arrays have no bytes
/// \}

}  // namespace hero::core
