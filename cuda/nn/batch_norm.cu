// Normalisation of channels [N, C, L]. Sums over a channel are computed by one block for each strip
// of samples, for short planes column by column; another kernel adds the sums of strips in order.
// The number of strips depends on the shape alone.
#include <hero/cuda/cuda_backend.cuh>
#include <hero/cuda/elementwise/elements.cuh>
#include <hero/cuda/reduce/lines.cuh>
#include <hero/cuda/reduce/reduce.cuh>

namespace hero::cuda {

namespace {

constexpr int64_t kChannelBlocks = 528;  // four a multiprocessor of the largest GPU
constexpr int64_t kChannelStrips = 64;

// Contiguous [N, C, L]; sums are made for `columns` columns, `parts` neighbours of which are a
// channel, in strips of samples.
struct ChannelSums {
  int64_t N, C, L, columns, parts, strips;
  explicit ChannelSums(const Array& x) : N(x.size(0)), C(x.size(1)), L(x.size(2)) {
    parts = L < kWarp ? L : 1;
    columns = C * parts;
    const int64_t across = short_planes() ? ceil_div(columns, int64_t{kWarp}) : C;
    strips = std::clamp<int64_t>(ceil_div(kChannelBlocks, across), 1, std::min(N, kChannelStrips));
  }
  bool short_planes() const { return L < kWarp; }
  HERO_HD int64_t start(int64_t strip) const { return strip * N / strips; }
};

// The sums that a pass over the elements makes; i is an element's place, c its channel.
template <class T>
struct SumOfElements {
  static constexpr int kSums = 1;
  const T* x;
  __device__ void add(T (&sums)[1], int64_t i, int64_t) const { sums[0] += x[i]; }
};
template <class T>
struct SumOfDeviations {
  static constexpr int kSums = 1;
  const T *x, *mean;
  __device__ void add(T (&sums)[1], int64_t i, int64_t c) const {
    const T deviation = x[i] - mean[c];
    sums[0] += deviation * deviation;
  }
};
template <class T>
__device__ T channel_scale(const T* variance, T eps, int64_t c) {
  return T(1) / math::sqrt(variance[c] + eps);
}
template <class T>
struct SumsOfGradient {
  static constexpr int kSums = 2;
  const T *g, *x, *mean, *variance;
  T eps;
  __device__ void add(T (&sums)[2], int64_t i, int64_t c) const {
    sums[0] += g[i];
    sums[1] += g[i] * ((x[i] - mean[c]) * channel_scale(variance, eps, c));
  }
};

// partial [strips, kSums, columns]: a block a channel and strip.
template <class T, class Terms>
__global__ void plane_sums_kernel(const Terms terms, const ChannelSums s, T* partial) {
  const int64_t c = blockIdx.x, last = s.start(blockIdx.y + 1);
  const int64_t thread = threadIdx.x;
  T sums[Terms::kSums] = {};
  int64_t n = s.start(blockIdx.y) + thread / s.L, p = thread % s.L;
  const int64_t samples = kThreads / s.L, places = kThreads % s.L;
  while (n < last) {
    terms.add(sums, (n * s.C + c) * s.L + p, c);
    n += samples;
    p += places;
    if (p >= s.L) {
      p -= s.L;
      ++n;
    }
  }
#pragma unroll
  for (int k = 0; k < Terms::kSums; ++k) {
    const T total = block_reduce(sums[k], SumJoin());
    if (thread == 0) partial[(blockIdx.y * Terms::kSums + k) * s.columns + c] = total;
  }
}

// The same for short planes: a warp's lanes have neighbouring columns.
template <class T, class Terms>
__global__ void column_sums_kernel(const Terms terms, const ChannelSums s, T* partial) {
  const LinePlace place = LinePlace::mine();
  const int64_t last = s.start(blockIdx.y + 1), column = place.line;
  T sums[Terms::kSums] = {};
  if (column < s.columns) {
    const int64_t c = column / s.parts;
    for (int64_t n = s.start(blockIdx.y) + place.slice; n < last; n += kSlices) {
      terms.add(sums, n * s.columns + column, c);
    }
  }
#pragma unroll
  for (int k = 0; k < Terms::kSums; ++k) {
    __syncthreads();  // the parts of the sum before have been read
    const T total = join_slices(sums[k], SumJoin());
    if (place.slice == 0 && column < s.columns) {
      partial[(blockIdx.y * Terms::kSums + k) * s.columns + column] = total;
    }
  }
}

// results.at[k][c] = share times channel c's sum k.
template <class T>
struct ChannelResults {
  T* at[2];
};
template <class T, int kSums>
__global__ void join_channels_kernel(const T* partial, const ChannelSums s, T share,
                                     const ChannelResults<T> results) {
  const int64_t c = global_thread();
  if (c >= s.C) return;
#pragma unroll
  for (int k = 0; k < kSums; ++k) {
    T total = T(0);
    for (int64_t strip = 0; strip < s.strips; ++strip) {
      const T* from = partial + (strip * kSums + k) * s.columns + c * s.parts;
      for (int64_t i = 0; i < s.parts; ++i) total += from[i];
    }
    results.at[k][c] = total * share;
  }
}

template <class T, class Terms>
void channel_sums(const char* op, const Terms& terms, const ChannelSums& s, T share,
                  const ChannelResults<T>& results, Device device) {
  const Array partial = Array::empty({s.strips, Terms::kSums, s.columns}, kDTypeOf<T>, device);
  T* const to = reinterpret_cast<T*>(partial.bytes());
  const auto strips = static_cast<unsigned>(s.strips);
  if (s.short_planes()) {
    const dim3 grid(static_cast<unsigned>(ceil_div(s.columns, int64_t{kWarp})), strips);
    launch(op, column_sums_kernel<T, Terms>, grid, dim3(kThreads), 0, terms, s, to);
  } else {
    launch(op, plane_sums_kernel<T, Terms>, dim3(static_cast<unsigned>(s.C), strips),
           dim3(kThreads), 0, terms, s, to);
  }
  launch(op, join_channels_kernel<T, Terms::kSums>, blocks_for(s.C), dim3(kThreads), 0, to, s,
         share, results);
}

// Parameters of channels and what is made of x (and g) with them.
template <class T>
struct ChannelPass {
  const T *x, *g, *mean, *variance, *weight, *bias, *of_bias, *of_weight;
  T* out;
  T eps, share;
  bool fixed;

  // What all elements of channel c have in common.
  struct Channel {
    T mean, scale, factor, bias, along_one, along_x;
  };
  __device__ Channel channel(int64_t c) const {
    Channel found{};
    found.mean = mean[c];
    found.scale = channel_scale(variance, eps, c);
    found.factor = weight != nullptr ? found.scale * weight[c] : found.scale;
    found.bias = bias != nullptr ? bias[c] : T(0);
    if (g != nullptr && !fixed) {
      found.along_one = of_bias[c] * share;
      found.along_x = of_weight[c] * share;
    }
    return found;
  }
  __device__ void element(int64_t i, const Channel& c) const {
    if (g == nullptr) {
      out[i] = (x[i] - c.mean) * c.factor + c.bias;
    } else if (fixed) {
      out[i] = g[i] * c.factor;
    } else {
      out[i] = (g[i] - c.along_one - (x[i] - c.mean) * c.scale * c.along_x) * c.factor;
    }
  }
};

// A team of threads for each plane, or, of short planes, a thread for each element.
template <class T>
__global__ void channel_pass_kernel(const ChannelPass<T> pass, const ChannelSums s,
                                    const Team team) {
  const int64_t planes = s.N * s.C, step = grid_threads() / team.width;
  for (int64_t plane = team.index(); plane < planes; plane += step) {
    const typename ChannelPass<T>::Channel channel = pass.channel(plane % s.C);
    for (int64_t i = team.rank(); i < s.L; i += team.width) pass.element(plane * s.L + i, channel);
  }
}
template <class T>
__global__ void short_channel_pass_kernel(const ChannelPass<T> pass, const ChannelSums s) {
  const int64_t count = s.N * s.columns;
  for (int64_t i = global_thread(); i < count; i += grid_threads()) {
    pass.element(i, pass.channel(i % s.columns / s.parts));
  }
}

template <class T>
void run_channel_pass(const char* op, const ChannelPass<T>& pass, const ChannelSums& s) {
  if (s.short_planes()) {
    launch(op, short_channel_pass_kernel<T>, loop_blocks(s.N * s.columns), dim3(kThreads), 0, pass,
           s);
    return;
  }
  const Team team{std::max(kWarp, team_width<T>(s.L, 1, kThreads))};
  launch(op, channel_pass_kernel<T>, loop_blocks(s.N * s.C * team.width), dim3(kThreads), 0, pass,
         s, team);
}

template <class T>
const T* channel_values(const Array* array) {
  return array != nullptr ? reinterpret_cast<const T*>(array->bytes()) : nullptr;
}

template <class T>
ChannelPass<T> channel_pass_of(const ChannelNorm& norm, const Array& x, const Array& mean,
                               const Array& variance) {
  ChannelPass<T> pass{};
  pass.x = channel_values<T>(&x);
  pass.mean = channel_values<T>(&mean);
  pass.variance = channel_values<T>(&variance);
  pass.weight = channel_values<T>(norm.weight);
  pass.bias = channel_values<T>(norm.bias);
  pass.eps = static_cast<T>(norm.eps);
  pass.share = T(1) / static_cast<T>(x.size(0) * x.size(2));
  pass.fixed = norm.fixed;
  return pass;
}

template <class T>
void channels_forward(const ChannelNorm& norm, const Array& x, const Array& out, const Array& mean,
                      const Array& variance) {
  constexpr const char* kOp = "normalize_channels";
  const ChannelSums s(x);
  ChannelPass<T> pass = channel_pass_of<T>(norm, x, mean, variance);
  pass.out = reinterpret_cast<T*>(out.bytes());
  if (!norm.fixed) {
    T* const means = reinterpret_cast<T*>(mean.bytes());
    T* const variances = reinterpret_cast<T*>(variance.bytes());
    channel_sums<T>(kOp, SumOfElements<T>{pass.x}, s, pass.share, {{means, nullptr}}, x.device());
    channel_sums<T>(kOp, SumOfDeviations<T>{pass.x, means}, s, pass.share, {{variances, nullptr}},
                    x.device());
  }
  run_channel_pass(kOp, pass, s);
}

template <class T>
void channels_backward(const ChannelNorm& norm, const Array& g, const Array& x, const Array& mean,
                       const Array& variance, const Array* g_x, const Array* g_weight,
                       const Array* g_bias) {
  constexpr const char* kOp = "normalize_channels_backward";
  const ChannelSums s(x);
  ChannelPass<T> pass = channel_pass_of<T>(norm, x, mean, variance);
  pass.g = channel_values<T>(&g);
  if (!norm.fixed || g_weight != nullptr || g_bias != nullptr) {
    const Array spare = Array::empty({2, s.C}, kDTypeOf<T>, x.device());
    const auto room = [&](const Array* wanted, int64_t i) {
      return reinterpret_cast<T*>(wanted != nullptr ? wanted->bytes() : spare.select(0, i).bytes());
    };
    T *const of_bias = room(g_bias, 0), *const of_weight = room(g_weight, 1);
    channel_sums<T>(kOp, SumsOfGradient<T>{pass.g, pass.x, pass.mean, pass.variance, pass.eps}, s,
                    T(1), {{of_bias, of_weight}}, x.device());
    pass.of_bias = of_bias;
    pass.of_weight = of_weight;
    if (g_x != nullptr) {
      pass.out = reinterpret_cast<T*>(g_x->bytes());
      run_channel_pass(kOp, pass, s);
    }
    return;
  }
  if (g_x == nullptr) return;
  pass.out = reinterpret_cast<T*>(g_x->bytes());
  run_channel_pass(kOp, pass, s);
}

}  // namespace

void CudaBackend::run(const call::NormalizeChannels& call) {
  if (call.x.numel() == 0) return;
  const DeviceGuard guard(index_);
  if (call.x.dtype() == kFloat64)
    return channels_forward<double>(call.norm, call.x, call.out, call.mean, call.variance);
  channels_forward<float>(call.norm, call.x, call.out, call.mean, call.variance);
}

void CudaBackend::run(const call::NormalizeChannelsBack& call) {
  const DeviceGuard guard(index_);
  if (call.x.numel() == 0) {
    if (call.g_weight != nullptr) run(call::Fill{*call.g_weight, 0});
    if (call.g_bias != nullptr) run(call::Fill{*call.g_bias, 0});
    return;
  }
  if (call.x.dtype() == kFloat64) {
    return channels_backward<double>(call.norm, call.g, call.x, call.mean, call.variance, call.g_x,
                                     call.g_weight, call.g_bias);
  }
  channels_backward<float>(call.norm, call.g, call.x, call.mean, call.variance, call.g_x,
                           call.g_weight, call.g_bias);
}

}  // namespace hero::cuda
