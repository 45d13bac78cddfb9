#pragma once
// ProfileRecorder: writes down what a thread does while a Profiler is open.
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <hero/autograd/profile/profiler.h>
#include <hero/core/profile/work.h>

namespace hero {

class ProfileRecorder : public core::Observer, public core::WorkMeter {
 public:
  explicit ProfileRecorder(const ProfilerOptions& options);
  ~ProfileRecorder() override;
  ProfileRecorder(const ProfileRecorder&) = delete;
  ProfileRecorder& operator=(const ProfileRecorder&) = delete;

  /// That of this thread, or null.
  static ProfileRecorder* current();
  void stop();
  bool running() const { return running_; }
  /// A copy, with the time until now.
  Profile profile() const;

  /// An operation begins; 0 where it is a part of another one.
  int64_t begin_operation(const char* op);

  int64_t begin_part(std::string_view name, bool step) override;
  void end_part(int64_t part) noexcept override;
  int64_t begin_call(const core::ObservedCall& call) override;
  int64_t begin_wait(int64_t call) override;
  void complete_call(int64_t call) noexcept override;
  void charge(const core::Work& work) override;

 private:
  struct Interval {
    int64_t number;
    int32_t row;
    bool operation;
    bool step;
    int64_t call;  // of `calls_` where it is a wait, else -1
    double begin;
    double inside = 0.0;  // seconds of intervals inside
    int64_t flops = 0, bytes = 0;
  };
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };
  struct OpenCall {
    int64_t row;    // of Profile::collectives
    int64_t place;  // in Profile::calls, -1 over the limit
    double begin;
  };
  using Numbers = std::unordered_map<std::string, int32_t, Hash, std::equal_to<>>;

  static int32_t number_of(Numbers& numbers, std::string_view text);
  int32_t row(std::string_view name, std::string_view module, ProfilePhase phase);
  /// Now; the profile begins with the first of these.
  double start();
  int64_t open(int32_t row, bool operation, bool step, int64_t call);
  void close_top();
  void sample_memory(double now);

  ProfilerOptions options_;
  Profile profile_;
  Numbers texts_;
  std::unordered_map<uint64_t, int32_t> rows_;
  std::unordered_map<std::string, int64_t, Hash, std::equal_to<>> collectives_;
  std::unordered_map<int64_t, OpenCall> open_calls_;
  std::vector<Interval> stack_;
  core::WorkMeter* outer_ = nullptr;
  std::optional<core::WorkScope> metering_;
  int open_steps_ = 0;
  bool running_ = true;
};

}  // namespace hero
