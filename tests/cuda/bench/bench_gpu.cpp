// hero_bench_gpu: times of the library on GPU 0, as JSON lines; see kHelp. tests/peers/gpu.py puts
// PyTorch's beside them.
#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
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
using hero_bench::Call;
using hero_bench::Case;

constexpr Device kGpu{DeviceType::cuda, 0};

constexpr const char* kHelp =
    R"(usage: hero_bench_gpu [--tiny] [--case NAME]...   times these cases, or all; 1 where one fails
       hero_bench_gpu [--tiny] --list             their names and variants, and ends
       hero_bench_gpu [--tiny] --serve            for each line "NAME VARIANT" that comes in, times
                                                  one round of that; another NAME frees the data
       hero_bench_gpu [--tiny] --first-step TIME  one step of gpt2_b16; seconds since TIME, which
                                                  counts seconds since 1970
       hero_bench_gpu [--tiny] --times NAME       where the GPU's time of one call of that case goes
       hero_bench_gpu [--tiny] --profile NAME     the same call for a profiler that begins late
       hero_bench_gpu [--tiny] --cpu [--case NAME]...  the first call's number on the CPU
       hero_bench_gpu --device                    which GPU there is, or why none (exit 77)
--tiny takes sizes for a simulated GPU; --only NAME leaves out all other cases. A line has one number of what the first call gave and one of
the last (a loss where there is one, else mean absolute values): a case fails where they are not
finite, the first is not what a CPU computes, or the last is not below it in training and near it
elsewhere.
)";

constexpr int kWarmUp = 3, kRounds = 7;
constexpr int kTinyRounds = 2;          // over a simulated GPU, whose times mean nothing
constexpr double kRoundSeconds = 0.05;  // of calls that are waited for together

double seconds_since_1970() {
  using namespace std::chrono;
  return duration<double>(system_clock::now().time_since_epoch()).count();
}

// A case whose numbers are wrong: its times mean nothing, whatever the library.
struct Wrong : Error {
  using Error::Error;
};

double timed(const Call& call, int times) {
  using namespace std::chrono;
  cuda::synchronize();
  const auto begin = steady_clock::now();
  for (int i = 0; i < times; ++i) call();
  cuda::synchronize();
  return duration<double>(steady_clock::now() - begin).count() / times;
}

const Case& find(const std::vector<Case>& all, const std::string& name,
                 const std::string& variant) {
  const auto found = std::find_if(all.begin(), all.end(), [&](const Case& c) {
    return c.name == name && (variant.empty() || c.variant == variant);
  });
  check(found != all.end(), "there is no case '", name, "' with a variant '", variant,
        "'; --list shows them");
  return *found;
}

// The number of a case's first call on the CPU, with the random numbers of the GPU's.
double value_on_cpu(const std::string& name, bool tiny) {
  const std::vector<Case> all = hero_bench::cases(tiny, kCpu);
  const Case& what = find(all, name, "");
  manual_seed(1);
  return hero_bench::value_of(what.make()());
}

// A case whose data are made and whose call has been warmed up.
struct Prepared {
  Call call;
  int group = 1;  // calls of a round
  int64_t peak = 0;
  double first = 0.0, cpu = 0.0;

  Prepared(const Case& what, bool tiny)
      : cpu(tiny ? value_on_cpu(what.name, true) : hero_bench::cpu_value(what.name)) {
    manual_seed(1);
    cuda::empty_cache();
    cuda::reset_peak_memory();
    const int64_t before = cuda::memory_stats().allocated;  // the other variant's data
    call = what.make();
    first = hero_bench::value_of(call());
    cuda::empty_cache();
    cuda::reset_peak_memory();
    timed(call, tiny ? 1 : kWarmUp - 1);
    group = std::clamp(static_cast<int>(kRoundSeconds / timed(call, 1)), 1, 500);
    peak = cuda::memory_stats().peak_allocated - before;
  }
  double round() const { return timed(call, group); }

  // One number of a call of now; Wrong where it cannot be right, or that of the first call was not.
  double last(const Case& what) const {
    const double now = hero_bench::value_of(call());
    const char* wrong = hero_bench::wrong_numbers(what.course, first, now, cpu);
    if (wrong != nullptr) {
      char line[160];
      std::snprintf(line, sizeof(line), "wrong numbers: %s: first %.9g, on a CPU %.9g, last %.9g",
                    wrong, first, cpu, now);
      throw Wrong(line);
    }
    return now;
  }
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

// A number as JSON has it.
std::string number(double value) {
  if (!std::isfinite(value)) return "null";
  char text[40];
  std::snprintf(text, sizeof(text), "%.9g", value);
  return text;
}

void print_time(const Case& what, double seconds, const Prepared& ready) {
  const double last = ready.last(what);
  print_head(what.name, what.variant);
  std::printf(
      ", \"what\": %s, \"seconds\": %.9g, \"amount\": %.9g, \"unit\": %s, \"peak_bytes\": "
      "%lld, \"first\": %s, \"last\": %s, \"cpu\": %s, \"device\": %s}\n",
      quoted(what.what).c_str(), seconds, what.amount, quoted(what.unit).c_str(),
      static_cast<long long>(ready.peak), number(ready.first).c_str(), number(last).c_str(),
      number(ready.cpu).c_str(), quoted(cuda::device_properties().name).c_str());
  std::fflush(stdout);
}

void serve(const std::vector<Case>& all, bool tiny) {
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
      const Prepared& ready = prepared.try_emplace(variant, what, tiny).first->second;
      print_time(what, ready.round(), ready);
    } catch (const std::exception& error) {
      print_error(name, variant, error.what());
    }
  }
}

// Whether it worked; cuDNN may be missing.
bool run(const Case& what, bool tiny) {
  bool good = true;
  try {
    const Prepared ready(what, tiny);
    std::vector<double> times;
    for (int i = 0; i < (tiny ? kTinyRounds : kRounds); ++i) times.push_back(ready.round());
    std::sort(times.begin(), times.end());
    print_time(what, times[times.size() / 2], ready);
  } catch (const Wrong& error) {
    print_error(what.name, what.variant, error.what());
    good = false;
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

// One call of the case after those that warm it up, between the two.
void watch(const Case& what, const std::function<void()>& begin, const std::function<void()>& end) {
  manual_seed(1);
  const Call call = what.make();
  timed(call, kWarmUp);
  begin();
  timed(call, 1);
  end();
}

void times(const Case& what) {
  watch(
      what,
      [] {
        cuda::time_operations(true);
        cuda::reset_operation_times();
      },
      [] { std::printf("%s", cuda::operation_times_text().c_str()); });
}

void profile(const Case& what) {
  watch(
      what, [] { cuda::profile(true); }, [] { cuda::profile(false); });
}

struct Options {
  bool tiny = false, device = false, list = false, serve = false, cpu = false;
  std::optional<std::string> first_step, times, profile;
  std::vector<std::string> cases, only;
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
    } else if (word == "--cpu") {
      options.cpu = true;
    } else if (word == "--times") {
      options.times = value();
    } else if (word == "--profile") {
      options.profile = value();
    } else if (word == "--first-step") {
      options.first_step = value();
    } else if (word == "--only") {
      options.only.push_back(value());
    } else if (word == "--case") {
      options.cases.push_back(value());
    } else {
      check(false, "no option ", word, ", see --help");
    }
  }
  return options;
}

bool asked_for(const Options& options, const Case& c) {
  const auto among = [&](const std::vector<std::string>& names) {
    return names.empty() || std::find(names.begin(), names.end(), c.name) != names.end();
  };
  return among(options.cases) && among(options.only);
}

void values_on_cpu(const Options& options) {
  std::string last;
  for (const Case& c : hero_bench::cases(options.tiny, kCpu)) {
    if (!asked_for(options, c) || c.name == last) continue;
    last = c.name;
    std::printf("{\"%s\", %.9g},\n", c.name.c_str(), value_on_cpu(c.name, options.tiny));
    std::fflush(stdout);
  }
}

int run_all(const Options& options) {
  if (options.cpu) {
    values_on_cpu(options);
    return 0;
  }
  if (!cuda::is_available() && !options.list) {
    std::printf("no GPU: %s\n", cuda::reason().c_str());
    return 77;
  }
  if (options.device) {
    std::printf("%s\n", cuda::device_properties().name.c_str());
    return 0;
  }
  const std::vector<Case> all = hero_bench::cases(options.tiny, kGpu);
  if (options.list) {
    for (const Case& c : all) std::printf("%s %s\n", c.name.c_str(), c.variant.c_str());
  } else if (options.serve) {
    serve(all, options.tiny);
  } else if (options.times) {
    times(find(all, *options.times, ""));
  } else if (options.profile) {
    profile(find(all, *options.profile, ""));
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
      if (asked_for(options, c) && !run(c, options.tiny)) failed = 1;
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
