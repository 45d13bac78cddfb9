#pragma once
// Operations with every integer they take at the ends of 64 bits and around powers of two: the
// result is what mathematics says, or an Error, and comes at once.
#include <algorithm>
#include <cstdio>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include <support/catch.h>
#include <support/sanitized.h>
#include <sys/resource.h>
#include <unistd.h>

#include <hero/autograd/autograd.h>

namespace hero::ends {

inline constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
inline constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();

// While it lives the process may ask for no more than a GiB more than it has: what would take
// minutes to fill is refused at once, as on a machine with less memory. A sanitizer's own memory
// would be in the way.
class MemoryLimit {
 public:
  MemoryLimit() {
    if (hero_test::kIsSanitized) return;
    ::getrlimit(RLIMIT_AS, &former_);
    long pages = 0;
    if (FILE* file = std::fopen("/proc/self/statm", "r")) {
      REQUIRE(std::fscanf(file, "%ld", &pages) == 1);
      std::fclose(file);
    }
    rlimit limit = former_;
    limit.rlim_cur = static_cast<rlim_t>(pages * ::sysconf(_SC_PAGESIZE)) + (rlim_t{1} << 30);
    REQUIRE(::setrlimit(RLIMIT_AS, &limit) == 0);
  }
  ~MemoryLimit() {
    if (!hero_test::kIsSanitized) ::setrlimit(RLIMIT_AS, &former_);
  }
  MemoryLimit(const MemoryLimit&) = delete;
  MemoryLimit& operator=(const MemoryLimit&) = delete;

 private:
  rlimit former_{};
};

inline std::vector<int64_t> extremes() {
  std::vector<int64_t> numbers{
      kLeast, kLeast + 1, -(int64_t{1} << 62), -3,        -2,   -1, 0, 1, 2,
      3,      5,          (int64_t{1} << 61),  kMost - 1, kMost};
  for (int power : {60, 61, 62}) {
    for (int64_t beside : {-1, 0, 1}) numbers.push_back((int64_t{1} << power) + beside);
  }
  if (hero_test::kIsSanitized) return numbers;
  for (int power : {31, 32, 33, 40, 48, 56}) {
    for (int64_t beside : {-1, 0, 1}) {
      numbers.push_back((int64_t{1} << power) + beside);
      numbers.push_back(-(int64_t{1} << power) + beside);
    }
  }
  return numbers;
}

using Numbers = std::vector<int64_t>;
using Results = std::vector<Tensor>;

// An operation of small tensors and of integers, which are right as they stand here.
struct Case {
  const char* name;
  Numbers numbers;
  std::function<Results(const Numbers& n, Device device)> run;
};

inline Tensor image(Device d) { return ones({1, 2, 5, 6}, {.device = d}); }
inline Tensor line(Device d) { return ones({1, 2, 7}, {.device = d}); }
inline Tensor matrix(Device d) { return ones({3, 4}, {.device = d}); }
inline Tensor list(Device d) { return ones({6}, {.device = d}); }

// "" or what is wrong with a result.
inline std::string flaw(const Tensor& x) {
  __extension__ typedef __int128 Wide;
  Wide count = 1, last = x.array().offset();
  for (int i = 0; i < x.ndim(); ++i) {
    const int64_t size = x.shape()[i];
    if (size < 0) return "a negative size";
    count *= size;
    if (count > kMost) return "a count beyond 64 bits";
    last += static_cast<Wide>(size > 0 ? size - 1 : 0) * x.array().strides()[i];
  }
  if (count != x.numel()) return "the count of elements";
  const int64_t held = x.array().storage().bytes() / item_size(x.dtype());
  if (count > 0 && (last < 0 || last >= held)) return "elements outside the storage";
  return "";
}

struct Tally {
  int results = 0, errors = 0;
};

inline void try_numbers(const Case& one, const Numbers& numbers, Device device, Tally& tally) {
  INFO(one.name << " of " << to_string(device) << " with "
                << to_string(Dims(std::span(numbers).first(std::min<size_t>(8, numbers.size())))));
  try {
    for (const Tensor& result : one.run(numbers, device)) {
      const std::string wrong = flaw(result);
      if (!wrong.empty()) FAIL(wrong << ": " << to_string(result.shape()));
      if (device == kCpu && result.numel() < 1 << 16) sum(result.to(kFloat64)).item();
    }
    ++tally.results;
  } catch (const Error&) {
    ++tally.errors;
  } catch (const std::exception& error) {
    FAIL("not an Error: " << error.what());
  }
}

// Each number of each case in turn, then several at once.
inline void try_cases(const std::vector<Case>& cases) {
  const MemoryLimit limit;
  const std::vector<int64_t> numbers = extremes();
  for (const Case& one : cases) {
    for (Device device : {kCpu, kMeta}) {
      Tally tally;
      try_numbers(one, one.numbers, device, tally);
      INFO(one.name);
      REQUIRE(tally.results == 1);  // as it stands in the table
      for (size_t i = 0; i < one.numbers.size(); ++i) {
        for (int64_t number : numbers) {
          Numbers changed = one.numbers;
          changed[i] = number;
          try_numbers(one, changed, device, tally);
        }
      }
      // Several at once: sums and products of two of them are where numbers wrap.
      uint64_t state = 1;
      for (int round = 0; round < 300; ++round) {
        Numbers changed = one.numbers;
        for (int64_t& number : changed) {
          state = state * 6364136223846793005u + 1442695040888963407u;
          if ((state >> 40) % 2 == 0) number = numbers[(state >> 45) % numbers.size()];
        }
        try_numbers(one, changed, device, tally);
      }
      REQUIRE(tally.errors + tally.results > 300);
    }
  }
}

}  // namespace hero::ends
