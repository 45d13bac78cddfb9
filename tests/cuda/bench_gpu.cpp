// hero_bench_gpu: times of the library on GPU 0, as JSON lines; see kHelp. tests/peers/gpu.py puts
// PyTorch's beside them.
#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <map>
#include <optional>

#include "bench_cases.h"

#include <hero/core/error.h>
#include <hero/core/random.h>
#include <hero/cuda/cuda.h>

namespace {

using namespace hero;
using hero_bench::Case;

constexpr const char* kHelp =
    R"(usage: hero_bench_gpu [--tiny] [--case NAME]...   times these cases, or all; 1 where one fails
       hero_bench_gpu [--tiny] --list             their names and variants, and ends
       hero_bench_gpu [--tiny] --serve            for each line "NAME VARIANT" that comes in, times
                                                  one round of that; another NAME frees the data
       hero_bench_gpu [--tiny] --first-step TIME  one step of gpt2_b16; seconds since TIME, which
                                                  counts seconds since 1970
       hero_bench_gpu --device                    which GPU there is, or why none (exit 77)
--tiny takes sizes for a simulated GPU.
)";

constexpr int kWarmUp = 3, kRounds = 7;
constexpr double kRoundSeconds = 0.05;  // of calls that are waited for together

double seconds_since_1970() {
  using namespace std::chrono;
  return duration<double>(system_clock::now().time_since_epoch()).count();
}

double timed(const std::function<void()>& call, int times) {
  using namespace std::chrono;
  cuda::synchronize();
  const auto begin = steady_clock::now();
  for (int i = 0; i < times; ++i) call();
  cuda::synchronize();
  return duration<double>(steady_clock::now() - begin).count() / times;
}

// A case whose data are made and whose call has been warmed up.
struct Prepared {
  std::function<void()> call;
  int group = 1;  // calls of a round
  int64_t peak = 0;

  explicit Prepared(const Case& what) {
    manual_seed(1);
    cuda::empty_cache();
    cuda::reset_peak_memory();
    const int64_t before = cuda::memory_stats().allocated;  // the other variant's data
    call = what.make();
    timed(call, kWarmUp);
    group = std::clamp(static_cast<int>(kRoundSeconds / timed(call, 1)), 1, 500);
    peak = cuda::memory_stats().peak_allocated - before;
  }
  double round() const { return timed(call, group); }
};

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c == '\n' ? ' ' : c;
  }
  return out + "\"";
}

void print_head(const std::string& name, const std::string& variant) {
  std::printf("{\"case\": %s, \"variant\": %s", quoted(name).c_str(), quoted(variant).c_str());
}

void print_error(const std::string& name, const std::string& variant, const char* error) {
  print_head(name, variant);
  std::printf(", \"error\": %s}\n", quoted(error).c_str());
  std::fflush(stdout);
}

void print_time(const Case& what, double seconds, int64_t peak) {
  print_head(what.name, what.variant);
  std::printf(
      ", \"what\": %s, \"seconds\": %.9g, \"amount\": %.9g, \"unit\": %s, \"peak_bytes\": "
      "%lld, \"device\": %s}\n",
      quoted(what.what).c_str(), seconds, what.amount, quoted(what.unit).c_str(),
      static_cast<long long>(peak), quoted(cuda::device_properties().name).c_str());
  std::fflush(stdout);
}

const Case& find(const std::vector<Case>& all, const std::string& name,
                 const std::string& variant) {
  const auto found = std::find_if(all.begin(), all.end(), [&](const Case& c) {
    return c.name == name && c.variant == variant;
  });
  check(found != all.end(), "there is no case '", name, "' with a variant '", variant,
        "'; --list shows them");
  return *found;
}

void serve(const std::vector<Case>& all) {
  std::string name, variant, last;
  std::map<std::string, Prepared> prepared;  // the variants of the last case
  while (std::cin >> name >> variant) {
    try {
      const Case& what = find(all, name, variant);
      if (name != last) {
        prepared.clear();
        cuda::empty_cache();
      }
      last = name;
      const Prepared& ready = prepared.try_emplace(variant, what).first->second;
      print_time(what, ready.round(), ready.peak);
    } catch (const std::exception& error) {
      print_error(name, variant, error.what());
    }
  }
}

// Whether it worked; cuDNN may be missing.
bool run(const Case& what) {
  bool good = true;
  try {
    const Prepared ready(what);
    std::vector<double> times;
    for (int i = 0; i < kRounds; ++i) times.push_back(ready.round());
    std::sort(times.begin(), times.end());
    print_time(what, times[kRounds / 2], ready.peak);
  } catch (const std::exception& error) {
    print_error(what.name, what.variant, error.what());
    good = what.variant == "cudnn";
  }
  cuda::empty_cache();
  return good;
}

void first_step(const std::vector<Case>& all, const std::string& since) {
  double begin = 0;
  const auto parsed = std::from_chars(since.data(), since.data() + since.size(), begin);
  check(parsed.ptr == since.data() + since.size() && !since.empty(),
        "--first-step needs a number of seconds: '", since, "'");
  timed(find(all, "gpt2_b16", "eager").make(), 1);
  print_head("first_step", "eager");
  std::printf(", \"seconds\": %.6g}\n", seconds_since_1970() - begin);
}

struct Options {
  bool tiny = false, device = false, list = false, serve = false;
  std::optional<std::string> first_step;
  std::vector<std::string> cases;
};

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const auto value = [&] {
      check(i + 1 < argc, word, " needs a value");
      return std::string(argv[++i]);
    };
    if (word == "--tiny") {
      options.tiny = true;
    } else if (word == "--device") {
      options.device = true;
    } else if (word == "--list") {
      options.list = true;
    } else if (word == "--serve") {
      options.serve = true;
    } else if (word == "--first-step") {
      options.first_step = value();
    } else if (word == "--case") {
      options.cases.push_back(value());
    } else {
      check(false, "no option ", word, ", see --help");
    }
  }
  return options;
}

int run_all(const Options& options) {
  if (!cuda::is_available() && !options.list) {
    std::printf("no GPU: %s\n", cuda::reason().c_str());
    return 77;
  }
  if (options.device) {
    std::printf("%s\n", cuda::device_properties().name.c_str());
    return 0;
  }
  const std::vector<Case> all = hero_bench::cases(options.tiny);
  if (options.list) {
    for (const Case& c : all) std::printf("%s %s\n", c.name.c_str(), c.variant.c_str());
  } else if (options.serve) {
    serve(all);
  } else if (options.first_step) {
    first_step(all, *options.first_step);
  } else {
    const auto known = [&](const std::string& name) {
      return std::any_of(all.begin(), all.end(), [&](const Case& c) { return c.name == name; });
    };
    for (const std::string& name : options.cases) {
      check(known(name), "no case '", name, "'; --list shows them");
    }
    int failed = 0;
    for (const Case& c : all) {
      const auto& names = options.cases;
      const bool asked =
          names.empty() || std::find(names.begin(), names.end(), c.name) != names.end();
      if (asked && !run(c)) failed = 1;
    }
    return failed;
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && std::strcmp(argv[1], "--help") == 0) {
    std::fputs(kHelp, stdout);
    return 0;
  }
  try {
    return run_all(parse(argc, argv));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "hero_bench_gpu: %s\n", error.what());
    return 2;
  }
}
