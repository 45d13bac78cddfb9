// Products of a group's weights with its windows, of float: a vector holds neighbours of a line, or
// the outputs of one place. Also bias and activation after the products.
#include <algorithm>

#include <hero/core/cpu/nn/conv_groups.h>
#include <hero/core/kernels/elementwise.h>

namespace hero::core::cpu {

namespace {

using GroupSums = micro::Vector<float>;

// The first `count` elements; masks are slower where they reach into a second line of the cache.
void store_front(float* to, const GroupSums& sums, int64_t count) {
  if (count == kGroupLanes) {
    micro::store<float>(to, sums);
  } else {
    micro::store_part<float>(to, sums, count);
  }
}

template <int rows>
[[gnu::noinline]] void add_chains(const GroupChains& chains, const float* w, const float* from,
                                  const WindowPiece* pieces, float* c, int64_t c_row) {
  constexpr int vectors = kGroupSums / rows;
  const auto k = static_cast<int64_t>(chains.steps.size());
  const int64_t* const steps = chains.steps.data();
  GroupSums totals[rows][vectors] = {};
  // Calls add(sum, weight, windows) for the sums of steps [begin, end).
  const auto each_step = [&](int64_t begin, int64_t end, auto& sums, const auto& add) {
    for (int64_t p = begin; p < end; ++p) {
      const float* const at = from + steps[p];
      GroupSums broadcast[rows];
#pragma GCC unroll 4
      for (int i = 0; i < rows; ++i) broadcast[i] = w[i * k + p] - GroupSums{};
#pragma GCC unroll 8
      for (int v = 0; v < vectors; ++v) {
        const GroupSums x = micro::load(at + pieces[v].offset);
#pragma GCC unroll 4
        for (int i = 0; i < rows; ++i) add(sums[i][v], broadcast[i], x);
      }
    }
  };
  const auto add_product = [](GroupSums& sum, const GroupSums& weight, const GroupSums& x) {
    sum = micro::multiply_add<float>(weight, x, sum);
  };
  const auto add_chain = [](GroupSums& sum, const GroupSums& weight, const GroupSums& x) {
    sum = sum + micro::multiply_add<float>(weight, x, GroupSums{});
  };
  const bool is_by_steps = chains.length == 1 && chains.begins_with_zero;
  if (is_by_steps) each_step(0, k, totals, add_chain);
  for (int64_t first = is_by_steps ? k : 0; first < k; first += chains.length) {
    const int64_t last = std::min(k, first + chains.length);
    GroupSums sums[rows][vectors] = {};
    each_step(first, last, sums, add_product);
    const bool sets = first == 0 && !chains.begins_with_zero;
    for (int i = 0; i < rows; ++i) {
      for (int v = 0; v < vectors; ++v)
        totals[i][v] = sets ? sums[i][v] : totals[i][v] + sums[i][v];
    }
  }
  for (int i = 0; i < rows; ++i) {
    for (int v = 0; v < vectors; ++v) {
      // a whole vector where what it has too much is overwritten next
      const WindowPiece& piece = pieces[v];
      const bool is_whole = piece.place + kGroupLanes <= c_row;
      store_front(c + i * c_row + piece.place, totals[i][v], is_whole ? kGroupLanes : piece.count);
    }
  }
}

// The sums of a vector of outputs at `count` places of a line.
template <int count>
[[gnu::noinline]] void add_outputs(const GroupChains& chains, const float* w, const float* from,
                                   float* to) {
  const auto k = static_cast<int64_t>(chains.steps.size());
  const int64_t* const steps = chains.steps.data();
  GroupSums totals[count] = {};
  for (int64_t first = 0; first < k; first += chains.length) {
    const int64_t last = std::min(k, first + chains.length);
    GroupSums sums[count] = {};
    for (int64_t p = first; p < last; ++p) {
      const float* const at = from + steps[p];
      const GroupSums weight = micro::load(w + p * kGroupLanes);
#pragma GCC unroll 14
      for (int v = 0; v < count; ++v) {
        sums[v] = micro::multiply_add<float>(weight, at[v] - GroupSums{}, sums[v]);
      }
    }
    const bool sets = first == 0 && !chains.begins_with_zero;
    for (int v = 0; v < count; ++v) totals[v] = sets ? sums[v] : totals[v] + sums[v];
  }
  for (int v = 0; v < count; ++v) micro::store<float>(to + v * kGroupLanes, totals[v]);
}

}  // namespace

void add_group_chains(int rows, const GroupChains& chains, const float* w, const float* from,
                      const WindowPiece* pieces, float* c, int64_t c_row) {
  const auto add = rows == 4 ? add_chains<4> : rows == 2 ? add_chains<2> : add_chains<1>;
  add(chains, w, from, pieces, c, c_row);
}

void add_group_outputs(int64_t places, const GroupChains& chains, const float* w, const float* from,
                       float* to) {
  constexpr auto sizes = kOutputPieces;
  const auto add = places == sizes[4]   ? add_outputs<sizes[4]>
                   : places == sizes[3] ? add_outputs<sizes[3]>
                   : places == sizes[2] ? add_outputs<sizes[2]>
                   : places == sizes[1] ? add_outputs<sizes[1]>
                                        : add_outputs<sizes[0]>;
  add(chains, w, from, to);
}

template <class T>
void finish_group(const HalfEnd& end, int64_t first_row, int64_t rows, int64_t count,
                  const float* sums, T* y) {
  if (end.bias == nullptr && rows > 1)
    return finish_group(end, first_row, 1, rows * count, sums, y);
  for (int64_t row = 0; row < rows; ++row, sums += count, y += count) {
    const float bias = end.bias != nullptr ? end.bias[first_row + row] : 0.0f;
    if (end.is_relu) {
      const kernels::Relu relu;
#pragma GCC ivdep
      for (int64_t i = 0; i < count; ++i) y[i] = T(relu(sums[i] + bias));
    } else if (end.bias != nullptr) {
#pragma GCC ivdep
      for (int64_t i = 0; i < count; ++i) y[i] = T(sums[i] + bias);
    } else {
#pragma GCC ivdep
      for (int64_t i = 0; i < count; ++i) y[i] = T(sums[i]);
    }
  }
}

template void finish_group(const HalfEnd&, int64_t, int64_t, int64_t, const float*, float*);
template void finish_group(const HalfEnd&, int64_t, int64_t, int64_t, const float*, BFloat16*);

}  // namespace hero::core::cpu
