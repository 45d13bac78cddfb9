// Every operation with every integer it takes at the ends of 64 bits and around powers of two: the
// result is what mathematics says, or an Error, and comes at once.
#include <functional>
#include <limits>

#include <support/catch.h>
#include <sys/resource.h>
#include <unistd.h>

#include <hero/autograd/autograd.h>
#include <hero/autograd/linalg.h>

namespace {

using namespace hero;

constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;  // their own memory is in the way of a limit
#else
constexpr bool kSanitized = false;
#endif

// While it lives the process may ask for no more than a GiB more than it has: what would take
// minutes to fill is refused at once, as on a machine with less memory.
class MemoryLimit {
 public:
  MemoryLimit() {
    if (kSanitized) return;
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
    if (!kSanitized) ::setrlimit(RLIMIT_AS, &former_);
  }
  MemoryLimit(const MemoryLimit&) = delete;
  MemoryLimit& operator=(const MemoryLimit&) = delete;

 private:
  rlimit former_{};
};

std::vector<int64_t> extremes() {
  std::vector<int64_t> numbers{
      kLeast, kLeast + 1, -(int64_t{1} << 62), -3,        -2,   -1, 0, 1, 2,
      3,      5,          (int64_t{1} << 61),  kMost - 1, kMost};
  for (int power : {60, 61, 62}) {
    for (int64_t beside : {-1, 0, 1}) numbers.push_back((int64_t{1} << power) + beside);
  }
  if (kSanitized) return numbers;
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

Tensor image(Device d) { return ones({1, 2, 5, 6}, {.device = d}); }
Tensor line(Device d) { return ones({1, 2, 7}, {.device = d}); }
Tensor matrix(Device d) { return ones({3, 4}, {.device = d}); }
Tensor list(Device d) { return ones({6}, {.device = d}); }

std::vector<Case> cases() {
  using D = Device;
  using N = const Numbers&;
  return {
      // creation
      {"zeros",
       {2, 3},
       [](N n, D d) {
         return Results{zeros({n[0], n[1]}, {.device = d})};
       }},
      {"empty",
       {2, 3, 4},
       [](N n, D d) {
         return Results{empty({n[0], n[1], n[2]}, {.dtype = kUInt8, .device = d})};
       }},
      {"full", {2, 3}, [](N n, D d) { return Results{full({2}, n[1], {.device = d})}; }},
      {"arange",
       {2, 9, 3},
       [](N n, D d) { return Results{arange(n[0], n[1], n[2], {.device = d})}; }},
      {"arange of floats",
       {2, 9, 3},
       [](N n, D d) {
         const auto f = [&](size_t i) { return static_cast<double>(n[i]); };
         return Results{arange(f(0), f(1), f(2), {.device = d})};
       }},
      {"linspace", {5}, [](N n, D d) { return Results{linspace(0, 1, n[0], {.device = d})}; }},
      {"eye", {3, 4}, [](N n, D d) { return Results{eye(n[0], n[1], {.device = d})}; }},
      {"one_hot",
       {3, 0},
       [](N n, D) {
         return Results{one_hot(tensor(std::vector<int64_t>{n[1], 0}), n[0])};
       }},
      {"rand",
       {2, 3},
       [](N n, D d) {
         return Results{rand({n[0], n[1]}, {.device = d})};
       }},
      {"randn",
       {2, 3},
       [](N n, D d) {
         return Results{randn({n[0], n[1]}, {.device = d})};
       }},
      {"randint",
       {0, 9, 4},
       [](N n, D d) { return Results{randint(n[0], n[1], {n[2]}, {.device = d})}; }},
      {"randperm", {4}, [](N n, D d) { return Results{randperm(n[0], {.device = d})}; }},
      {"tensor of",
       {4},
       [](N n, D) {
         return Results{tensor(std::vector<int64_t>{n[0], n[0]})};
       }},
      // views and shapes
      {"reshape",
       {2, 6},
       [](N n, D d) {
         return Results{reshape(matrix(d), {n[0], n[1]})};
       }},
      {"view",
       {2, 6},
       [](N n, D d) {
         return Results{matrix(d).view({n[0], n[1]})};
       }},
      {"expand",
       {3, 4},
       [](N n, D d) {
         return Results{expand(ones({1, 1}, {.device = d}), {n[0], n[1]})};
       }},
      {"permute",
       {1, 0},
       [](N n, D d) {
         return Results{permute(matrix(d), {n[0], n[1]})};
       }},
      {"transpose", {0, 1}, [](N n, D d) { return Results{transpose(matrix(d), n[0], n[1])}; }},
      {"squeeze", {0}, [](N n, D d) { return Results{squeeze(line(d), n[0])}; }},
      {"unsqueeze", {0}, [](N n, D d) { return Results{unsqueeze(line(d), n[0])}; }},
      {"flatten", {0, 1}, [](N n, D d) { return Results{flatten(image(d), n[0], n[1])}; }},
      {"slice",
       {0, 1, 3, 2},
       [](N n, D d) { return Results{slice(matrix(d), n[0], n[1], n[2], n[3])}; }},
      {"narrow", {0, 1, 2}, [](N n, D d) { return Results{narrow(matrix(d), n[0], n[1], n[2])}; }},
      {"select", {0, 1}, [](N n, D d) { return Results{select(matrix(d), n[0], n[1])}; }},
      {"index operator", {1}, [](N n, D d) { return Results{matrix(d)[n[0]]}; }},
      {"diagonal",
       {1, 0, 1},
       [](N n, D d) { return Results{diagonal(matrix(d), n[0], n[1], n[2])}; }},
      {"diag",
       {1},
       [](N n, D d) {
         return Results{diag(list(d), n[0]), diag(matrix(d), n[0])};
       }},
      {"unfold", {0, 3, 2}, [](N n, D d) { return Results{unfold(list(d), n[0], n[1], n[2])}; }},
      {"as_strided",
       {2, 2, 3, 1, 1},
       [](N n, D d) {
         return Results{as_strided(matrix(d), {n[0], n[1]}, {n[2], n[3]}, n[4])};
       }},
      {"as_strided of an array",
       {2, 2, 3, 1, 1},
       [](N n, D d) {
         return Results{Tensor(matrix(d).array().as_strided({n[0], n[1]}, {n[2], n[3]}, n[4]))};
       }},
      {"flip",
       {0, 1},
       [](N n, D d) {
         return Results{flip(matrix(d), {n[0], n[1]})};
       }},
      {"roll", {2, 0}, [](N n, D d) { return Results{roll(matrix(d), {n[0]}, {n[1]})}; }},
      {"roll of all", {2}, [](N n, D d) { return Results{roll(matrix(d), {n[0]}, {})}; }},
      {"repeat",
       {2, 3},
       [](N n, D d) {
         return Results{repeat(matrix(d), {n[0], n[1]})};
       }},
      {"repeat of nothing",
       {2, 3},
       [](N n, D d) {
         return Results{repeat(zeros({0, 3}, {.device = d}), {n[0], n[1]})};
       }},
      {"repeat_interleave",
       {2, 1},
       [](N n, D d) { return Results{repeat_interleave(matrix(d), n[0], n[1])}; }},
      {"tril", {1}, [](N n, D d) { return Results{tril(matrix(d), n[0])}; }},
      {"triu", {1}, [](N n, D d) { return Results{triu(matrix(d), n[0])}; }},
      {"cat",
       {1},
       [](N n, D d) {
         return Results{cat({matrix(d), matrix(d)}, n[0])};
       }},
      {"stack",
       {1},
       [](N n, D d) {
         return Results{stack({matrix(d), matrix(d)}, n[0])};
       }},
      {"split", {2, 0}, [](N n, D d) { return split(matrix(d), n[0], n[1]); }},
      {"split by sizes",
       {2, 1, 1, 1},
       [](N n, D d) {
         return split(matrix(d), Numbers{n[0], n[1], n[2]}, n[3]);
       }},
      {"chunk", {2, 0}, [](N n, D d) { return chunk(matrix(d), n[0], n[1]); }},
      {"chunk of nothing", {2}, [](N n, D d) { return chunk(zeros({0}, {.device = d}), n[0]); }},
      {"unbind", {0}, [](N n, D d) { return unbind(matrix(d), n[0]); }},
      {"pad",
       {1, 2, 1, 0},
       [](N n, D d) {
         return Results{pad(matrix(d), {n[0], n[1], n[2], n[3]})};
       }},
      {"pad by reflection",
       {1, 2},
       [](N n, D d) {
         return Results{pad(matrix(d), {n[0], n[1]}, PadMode::reflect)};
       }},
      {"pad by replication",
       {1, 2},
       [](N n, D d) {
         return Results{pad(matrix(d), {n[0], n[1]}, PadMode::replicate)};
       }},
      // reductions and orders
      {"sum",
       {1},
       [](N n, D d) {
         return Results{sum(matrix(d), {n[0]}), sum(matrix(d), {0, n[0]})};
       }},
      {"sum_to",
       {1, 4},
       [](N n, D d) {
         return Results{sum_to(matrix(d), {n[0], n[1]})};
       }},
      {"max", {0}, [](N n, D d) { return Results{max(matrix(d), n[0]).values}; }},
      {"argmax", {0}, [](N n, D d) { return Results{argmax(matrix(d), n[0])}; }},
      {"var", {0}, [](N n, D d) { return Results{var(matrix(d), {.dims = {n[0]}})}; }},
      {"logsumexp", {0}, [](N n, D d) { return Results{logsumexp(matrix(d), {n[0]})}; }},
      {"cumsum", {0}, [](N n, D d) { return Results{cumsum(matrix(d), n[0])}; }},
      {"cumprod", {0}, [](N n, D d) { return Results{cumprod(matrix(d), n[0])}; }},
      {"sort", {0}, [](N n, D d) { return Results{sort(matrix(d), n[0]).values}; }},
      {"topk", {2, 1}, [](N n, D d) { return Results{topk(matrix(d), n[0], n[1]).values}; }},
      {"softmax", {0}, [](N n, D d) { return Results{softmax(matrix(d), n[0])}; }},
      {"glu", {1}, [](N n, D d) { return Results{glu(matrix(d), n[0])}; }},
      {"cosine_similarity",
       {1},
       [](N n, D d) { return Results{cosine_similarity(matrix(d), matrix(d), n[0])}; }},
      // indices
      {"gather",
       {0, 1},
       [](N n, D) {
         return Results{gather(list(kCpu), n[0], tensor(std::vector<int64_t>{n[1]}))};
       }},
      {"index_select",
       {0, 1},
       [](N n, D) {
         return Results{index_select(matrix(kCpu), n[0], tensor(std::vector<int64_t>{n[1]}))};
       }},
      {"index",
       {1},
       [](N n, D) { return Results{index(matrix(kCpu), {tensor(std::vector<int64_t>{n[0]})})}; }},
      {"index_put",
       {1},
       [](N n, D) {
         return Results{
             index_put(list(kCpu), {tensor(std::vector<int64_t>{n[0]})}, ones({1}), true)};
       }},
      {"index_add",
       {0, 1},
       [](N n, D) {
         return Results{index_add(list(kCpu), n[0], tensor(std::vector<int64_t>{n[1]}), ones({1}))};
       }},
      {"embedding",
       {1, 2},
       [](N n, D) {
         return Results{embedding(matrix(kCpu), tensor(std::vector<int64_t>{n[0]}), n[1])};
       }},
      {"nll_loss",
       {1, -100},
       [](N n, D) {
         return Results{nll_loss(matrix(kCpu), tensor(std::vector<int64_t>{0, 1, n[0]}),
                                 {.ignore_index = n[1]})};
       }},
      {"linear_cross_entropy",
       {1, -100, 2},
       [](N n, D) {
         return Results{linear_cross_entropy(matrix(kCpu), ones({5, 4}),
                                             tensor(std::vector<int64_t>{0, 1, n[0]}),
                                             {.ignore_index = n[1], .batch_chunk_size = n[2]})};
       }},
      {"multi_margin_loss",
       {1, 1},
       [](N n, D) {
         return Results{multi_margin_loss(matrix(kCpu), tensor(std::vector<int64_t>{0, 1, n[0]}),
                                          {.p = n[1]})};
       }},
      // windows
      {"conv1d",
       {1, 1, 1, 1},
       [](N n, D d) {
         const Tensor w = ones({2, 2, 3}, {.device = d});
         return Results{conv1d(line(d), w, {}, {n[0], n[1], n[2], n[3]})};
       }},
      {"conv1d of one tap",
       {1, 1, 1},
       [](N n, D d) {
         const Tensor w = ones({2, 2, 1}, {.device = d});
         return Results{conv1d(line(d), w, {}, {n[0], n[1], n[2]})};
       }},
      {"conv2d",
       {1, 1, 1, 1, 1, 1, 1},
       [](N n, D d) {
         const Tensor w = ones({2, 2, 3, 2}, {.device = d});
         return Results{conv2d(image(d), w, {}, {{n[0], n[1]}, {n[2], n[3]}, {n[4], n[5]}, n[6]})};
       }},
      {"conv_transpose1d",
       {2, 1, 1, 1, 1},
       [](N n, D d) {
         const Tensor w = ones({2, 2, 3}, {.device = d});
         return Results{conv_transpose1d(line(d), w, {}, {n[0], n[1], n[2], n[3], n[4]})};
       }},
      {"conv_transpose2d",
       {2, 2, 1, 1, 1, 1, 1, 1, 1},
       [](N n, D d) {
         const Tensor w = ones({2, 2, 3, 1}, {.device = d});
         return Results{conv_transpose2d(
             image(d), w, {}, {{n[0], n[1]}, {n[2], n[3]}, {n[4], n[5]}, {n[6], n[7]}, n[8]})};
       }},
      {"max_pool1d",
       {3, 2, 1, 1},
       [](N n, D d) {
         Results results;
         for (bool ceil : {false, true}) {
           results.push_back(
               max_pool1d(line(d), n[0],
                          {.stride = n[1], .padding = n[2], .dilation = n[3], .ceil_mode = ceil}));
         }
         return results;
       }},
      {"max_pool2d",
       {3, 3, 2, 2, 1, 1, 1, 1},
       [](N n, D d) {
         return Results{max_pool2d(
             image(d), {n[0], n[1]},
             {.stride = Pair{n[2], n[3]}, .padding = {n[4], n[5]}, .dilation = {n[6], n[7]}})};
       }},
      {"avg_pool1d",
       {3, 2, 1},
       [](N n, D d) {
         Results results;
         for (bool ceil : {false, true}) {
           for (bool padded : {false, true}) {
             results.push_back(avg_pool1d(line(d), n[0],
                                          {.stride = n[1],
                                           .padding = n[2],
                                           .ceil_mode = ceil,
                                           .count_include_pad = padded}));
           }
         }
         return results;
       }},
      {"avg_pool2d",
       {3, 3, 2, 2, 1, 1},
       [](N n, D d) {
         return Results{avg_pool2d(image(d), {n[0], n[1]},
                                   {.stride = Pair{n[2], n[3]}, .padding = {n[4], n[5]}})};
       }},
      {"adaptive_avg_pool1d",
       {3},
       [](N n, D d) { return Results{adaptive_avg_pool1d(line(d), n[0])}; }},
      {"adaptive_avg_pool2d",
       {3, 4},
       [](N n, D d) {
         return Results{adaptive_avg_pool2d(image(d), {n[0], n[1]})};
       }},
      {"adaptive_max_pool1d",
       {3},
       [](N n, D d) { return Results{adaptive_max_pool1d(line(d), n[0])}; }},
      {"adaptive_max_pool2d",
       {3, 4},
       [](N n, D d) {
         return Results{adaptive_max_pool2d(image(d), {n[0], n[1]})};
       }},
      {"upsample_nearest2d",
       {7, 9},
       [](N n, D d) {
         return Results{upsample_nearest2d(image(d), {n[0], n[1]})};
       }},
      // the rest
      {"group_norm", {2}, [](N n, D d) { return Results{group_norm(image(d), n[0])}; }},
      {"layer_norm",
       {5, 6},
       [](N n, D d) {
         return Results{layer_norm(image(d), {n[0], n[1]})};
       }},
      {"pow of integers",
       {3, 2},
       [](N n, D) { return Results{pow(tensor(std::vector<int64_t>{n[0]}), n[1])}; }},
      {"remainder",
       {7, 3},
       [](N n, D) { return Results{remainder(tensor(std::vector<int64_t>{n[0]}), n[1])}; }},
      {"clamp",
       {1, 3},
       [](N n, D) { return Results{clamp(tensor(std::vector<int64_t>{n[0]}), n[0], n[1])}; }},
  };
}

// "" or what is wrong with a result.
std::string flaw(const Tensor& x) {
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

void try_numbers(const Case& one, const Numbers& numbers, Device device, Tally& tally) {
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

TEST_CASE("every integer argument takes the largest numbers or refuses them", "[autograd]") {
  const MemoryLimit limit;
  const std::vector<int64_t> numbers = extremes();
  for (const Case& one : cases()) {
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

TEST_CASE("gradients of operations with the largest numbers they take", "[autograd]") {
  const auto gradient = [](const Shape& shape, auto&& f) {
    Tensor x = ones(shape, {.requires_grad = true});
    sum(f(x)).backward();
    return x.grad().reshape({-1}).to_vector<double>();
  };
  using V = std::vector<double>;
  const auto wide = int64_t{1} << 61;
  REQUIRE(gradient({3}, [](auto& x) { return slice(x, 0, 0, kMost, kMost); }) == V{1, 0, 0});
  REQUIRE(gradient({2, 2}, [](auto& x) { return tril(x, kMost); }) == V{1, 1, 1, 1});
  REQUIRE(gradient({2, 2}, [](auto& x) { return tril(x, kLeast); }) == V{0, 0, 0, 0});
  REQUIRE(gradient({2, 2}, [](auto& x) { return triu(x, kLeast); }) == V{1, 1, 1, 1});
  REQUIRE(gradient({2, 2}, [](auto& x) { return triu(x, kMost); }) == V{0, 0, 0, 0});
  REQUIRE(gradient({3}, [](auto& x) { return unfold(x, 0, 2, kMost); }) == V{1, 1, 0});
  REQUIRE(gradient({3}, [](auto& x) { return roll(x, {kMost}, {0}) * arange(3); }) == V{1, 2, 0});
  REQUIRE(gradient({3}, [](auto& x) { return split(x, kMost)[0]; }) == V{1, 1, 1});
  REQUIRE(gradient({3}, [](auto& x) { return chunk(x, kMost)[2]; }) == V{0, 0, 1});
  // A window of one tap has no dilation, and one that fits once no stride.
  const Tensor tap = ones({1, 1, 1}), taps = ones({1, 1, 2});
  REQUIRE(gradient({1, 1, 3}, [&](auto& x) {
            return conv1d(x, tap, {}, {.stride = 2, .dilation = kMost});
          }) == V{1, 0, 1});
  REQUIRE(gradient({1, 1, 3}, [&](auto& x) { return conv1d(x, taps, {}, {.stride = kMost}); }) ==
          V{1, 1, 0});
  REQUIRE(gradient({1, 1, 1}, [&](auto& x) {
            return conv_transpose1d(x, taps, {}, {.stride = kMost});
          }) == V{2});
  REQUIRE(gradient({1, 1, 3}, [&](auto& x) {
            return max_pool1d(x, 1, {.stride = 1, .dilation = kMost});
          }) == V{1, 1, 1});
  REQUIRE(gradient({1, 1, 3}, [&](auto& x) { return max_pool1d(x, 2, {.stride = kMost}); }) ==
          V{1, 0, 0});
  // Padding as far as the stride: a place on either side of the input, and one inside.
  REQUIRE(conv1d(ones({1, 1, 3}), taps, {}, {.stride = wide / 8, .padding = wide / 8})
              .to_vector<double>() == V{0, 2, 0});
}

TEST_CASE("arange takes any integers whose count fits", "[autograd]") {
  using V = std::vector<int64_t>;
  REQUIRE(arange(kLeast, kMost, kMost).to_vector<int64_t>() == V{kLeast, -1, kMost - 1});
  REQUIRE(arange(kMost, kLeast, kLeast).to_vector<int64_t>() == V{kMost, -1});
  REQUIRE(arange(kMost - 1, kMost).to_vector<int64_t>() == V{kMost - 1});
  REQUIRE(arange(kMost, kMost).numel() == 0);
  REQUIRE(arange(kLeast + 1, kLeast, -1).to_vector<int64_t>() == V{kLeast + 1});
  REQUIRE_THROWS_AS(arange(kMost, kMost - 1), Error);
  REQUIRE_THROWS_AS(arange(kLeast, kMost), Error);
  REQUIRE_THROWS_AS(arange(0.0, 1e300, 1e-300), Error);
}

}  // namespace
