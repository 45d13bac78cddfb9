#pragma once
// One side of a comparison of speed. Reads lines "CASE THREADS SECONDS" from standard input; times
// the case for so long and answers "MEDIAN BEST", nanoseconds a call. So two programs can be timed
// in turns while the other one sleeps. The line "list 0 0" is answered with the names of all cases.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <iostream>
#include <map>
#include <string>
#include <vector>

namespace peers {

/// Makes ready and returns what is to be timed; each call of that counts as `calls`.
struct Case {
  int calls;
  std::function<std::function<void()>()> prepare;
};
using Cases = std::map<std::string, Case>;

inline double seconds_of(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

inline int answer(const Cases& cases, void (*set_threads)(int)) {
  std::string name;
  int threads = 0;
  double budget = 0.0;
  while (std::cin >> name >> threads >> budget) {
    if (name == "list") {
      for (const auto& [each, c] : cases) std::printf("%s ", each.c_str());
      std::printf("\n");
      std::fflush(stdout);
      continue;
    }
    set_threads(threads);
    const Case& c = cases.at(name);
    const std::function<void()> work = c.prepare();
    std::vector<double> times;
    double spent = -0.2 * budget;  // the first fifth warms up
    while (spent < budget || times.empty()) {
      const double once = seconds_of(work);
      if (spent >= 0.0) times.push_back(1e9 * once / c.calls);
      spent += once;
    }
    std::sort(times.begin(), times.end());
    std::printf("%.3f %.3f\n", times[times.size() / 2], times[0]);
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace peers
