#pragma once
// Transport: the functions of MPI that the mpi backend uses, as an interface without symbols of
// MPI.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <hero/core/dtype.h>
#include <hero/dist/backends/call.h>

namespace hero::dist {

/// Messages between processes. Only one thread at a time may use it. A counter `pending` is
/// increased when a transfer begins and decreased by poll() when it has ended.
class Transport {
 public:
  virtual ~Transport() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// Processes of the world on this host.
  virtual int local_size() const = 0;
  /// This process's number among them.
  virtual int local_rank() const = 0;
  /// By rank: a number of its host. A rank for which the environment has HERO_HOST lies on the host
  /// of that name, with all others for which it is the same text.
  virtual std::span<const int> hosts() const = 0;

  /// Sends a short message to another rank; messages to one rank arrive in order.
  virtual void tell(int to, std::string text) = 0;
  /// Receives the next short message from any rank; returns false if there is none.
  virtual bool hear(int& from, std::string& text) = 0;
  /// Puts back a message that came too early: hear() will return it again.
  virtual void keep(int from, std::string text) = 0;
  /// True when all short messages have been sent.
  virtual bool told() const = 0;

  /// \name Bytes from and to where they lie, any number of them; `tag` from 0 to 32767.
  /// \{
  virtual void send(int to, int tag, const std::byte* data, int64_t bytes, int& pending) = 0;
  virtual void receive(int from, int tag, std::byte* data, int64_t bytes, int& pending) = 0;
  /// The ranks, ascending, with which a transfer has begun and not ended.
  virtual std::vector<int> unfinished() const = 0;
  /// \}

  /// \name The library's own reductions; see Order::native.
  /// \{
  /// Makes the communicator `id` of these world ranks; its members wait for each other here.
  virtual void make_group(uint64_t id, std::span<const int> members) = 0;
  virtual bool has_group(uint64_t id) const = 0;
  /// Frees it. All its members must do so, in the same order of groups.
  virtual void free_group(uint64_t id) = 0;
  /// The number of groups that exist; any thread may ask.
  virtual int groups() const = 0;
  /// Begins an all_reduce, reduce or reduce_scatter. `counts`: elements of each part of the last.
  virtual void reduce(uint64_t group, const Call& call, std::span<const int> counts,
                      int& pending) = 0;
  /// \}

  /// Continues all transfers; returns true if one has ended.
  virtual bool poll() = 0;
  /// Ends all processes of the world, soon; may return before.
  virtual void abort(int code) = 0;
};

/// True when this build has MPI.
bool has_mpi();

/// The transport of this process; the first call initialises MPI. Throws an Error if the build has
/// no MPI, or if MPI was finalised. `at_exit` is called when the process ends, before MPI is
/// finalised.
Transport& mpi_transport(void (*at_exit)());

}  // namespace hero::dist
