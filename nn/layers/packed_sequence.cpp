#include <algorithm>
#include <numeric>

#include <hero/autograd/ops/creation/creation.h>
#include <hero/autograd/ops/elementwise/elementwise.h>
#include <hero/autograd/ops/index/index.h>
#include <hero/autograd/ops/linalg/linalg.h>
#include <hero/autograd/ops/shape/shape.h>
#include <hero/core/array/checked.h>
#include <hero/nn/layers/packed_checks.h>

namespace hero::nn {

namespace {

// For each row of packed data its row in [T, N, ..], for sequences in their first order.
Tensor places(const PackedSequence& packed) {
  const auto N = static_cast<int64_t>(packed.sorted_indices.size());
  std::vector<int64_t> rows;
  for (size_t t = 0; t < packed.batch_sizes.size(); ++t) {
    for (int64_t i = 0; i < packed.batch_sizes[t]; ++i) {
      rows.push_back(static_cast<int64_t>(t) * N + packed.sorted_indices[static_cast<size_t>(i)]);
    }
  }
  return tensor(rows);
}

std::vector<int64_t> inverse(const std::vector<int64_t>& order) {
  std::vector<int64_t> out(order.size());
  for (size_t i = 0; i < order.size(); ++i) {
    out[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
  }
  return out;
}

Tensor swapped(const Tensor& x, bool swap) { return swap ? transpose(x, 0, 1) : x; }

std::vector<int64_t> lengths_of(const char* what, const Tensor& lengths) {
  check(lengths.ndim() == 1 && !is_floating(lengths.dtype()) && lengths.dtype() != kBool, what,
        ": lengths must be integers of shape [N]: got ", lengths.dtype(), " ", lengths.shape());
  return lengths.to(kInt64).to_vector<int64_t>();
}

}  // namespace

void check_packed(const char* what, const PackedSequence& packed, const Tensor& data) {
  constexpr auto kAdvice = "; make packed sequences with pack_padded_sequence()";
  const std::vector<int64_t>&sizes = packed.batch_sizes, &sorted = packed.sorted_indices,
        &unsorted = packed.unsorted_indices;
  check(data.defined() && !sizes.empty(), what, ": the packed sequences are empty", kAdvice);
  check(data.ndim() > 0, what, ": the packed data has no dimension", kAdvice);
  const auto count = [](const std::vector<int64_t>& list) {
    return static_cast<int64_t>(list.size());
  };
  const int64_t N = sizes[0], rows = data.size(0);
  int64_t sum = 0;
  for (size_t t = 0; t < sizes.size(); ++t) {
    check(sizes[t] > 0, what, ": batch_sizes[", t, "] is ", sizes[t], ", and not positive",
          kAdvice);
    check(t == 0 || sizes[t] <= sizes[t - 1], what, ": batch_sizes[", t, "] is ", sizes[t],
          " and follows ", sizes[t == 0 ? 0 : t - 1], ", but sequences only end from step to step",
          kAdvice);
    check(sizes[t] <= rows - sum, what, ": batch_sizes have more rows than the packed data, which ",
          "has ", rows, kAdvice);
    sum += sizes[t];
  }
  check(sum == rows, what, ": batch_sizes have ", sum, " rows, and the packed data ", rows,
        kAdvice);
  check(count(sorted) == N && count(unsorted) == N, what, ": ", count(sorted),
        " sorted_indices and ", count(unsorted), " unsorted_indices for ", N, " sequences",
        kAdvice);
  std::vector<bool> seen(sorted.size());
  for (size_t i = 0; i < sorted.size(); ++i) {
    const int64_t at = sorted[i];
    check(at >= 0 && at < N, what, ": sorted_indices[", i, "] is ", at, ", outside [0, ", N, ")",
          kAdvice);
    check(!seen[static_cast<size_t>(at)], what, ": sorted_indices has ", at, " twice", kAdvice);
    seen[static_cast<size_t>(at)] = true;
    check(unsorted[static_cast<size_t>(at)] == static_cast<int64_t>(i), what, ": unsorted_indices[",
          at, "] is ", unsorted[static_cast<size_t>(at)], ", but sequence ", at, " is number ", i,
          " in sorted_indices", kAdvice);
  }
}

PackedSequence pack_padded_sequence(const Tensor& x, const std::vector<int64_t>& lengths,
                                    const PackOptions& options) {
  check(x.ndim() >= 2, "pack_padded_sequence: x must be ",
        options.batch_first ? "[N, T, ..]" : "[T, N, ..]", ": got ", x.shape());
  const int64_t T = x.size(options.batch_first ? 1 : 0), N = x.size(options.batch_first ? 0 : 1);
  check(static_cast<int64_t>(lengths.size()) == N && N > 0,
        "pack_padded_sequence: ", lengths.size(), " lengths for ", N, " sequences: x ", x.shape(),
        options.batch_first ? "" : "; pass batch_first = true if x is [N, T, ..]");
  for (size_t i = 0; i < lengths.size(); ++i) {
    check(lengths[i] > 0 && lengths[i] <= T, "pack_padded_sequence: length ", lengths[i],
          " of sequence ", i, " is outside [1, ", T, "]");
    check(!options.enforce_sorted || i == 0 || lengths[i] <= lengths[i - 1],
          "pack_padded_sequence: length ", lengths[i], " of sequence ", i, " follows ",
          i == 0 ? 0 : lengths[i - 1], "; pass enforce_sorted = false");
  }
  PackedSequence packed;
  packed.sorted_indices.resize(lengths.size());
  std::iota(packed.sorted_indices.begin(), packed.sorted_indices.end(), 0);
  std::stable_sort(packed.sorted_indices.begin(), packed.sorted_indices.end(),
                   [&](int64_t a, int64_t b) {
                     return lengths[static_cast<size_t>(a)] > lengths[static_cast<size_t>(b)];
                   });
  packed.unsorted_indices = inverse(packed.sorted_indices);
  const int64_t longest = *std::max_element(lengths.begin(), lengths.end());
  for (int64_t t = 0; t < longest; ++t) {
    packed.batch_sizes.push_back(
        std::count_if(lengths.begin(), lengths.end(), [&](int64_t length) { return length > t; }));
  }
  const Tensor rows = flatten(swapped(x, options.batch_first), 0, 1);
  packed.data = index_select(rows, 0, places(packed).to(x.device()));
  return packed;
}

PackedSequence pack_padded_sequence(const Tensor& x, const Tensor& lengths,
                                    const PackOptions& options) {
  return pack_padded_sequence(x, lengths_of("pack_padded_sequence", lengths), options);
}

PackedSequence pack_sequence(const std::vector<Tensor>& sequences, bool enforce_sorted) {
  const Tensor padded = pad_sequence(sequences);
  std::vector<int64_t> lengths;
  for (const Tensor& each : sequences) lengths.push_back(each.size(0));
  return pack_padded_sequence(padded, lengths, {.enforce_sorted = enforce_sorted});
}

PaddedSequences pad_packed_sequence(const PackedSequence& packed, const PadOptions& options) {
  constexpr auto kOp = "pad_packed_sequence";
  check_packed(kOp, packed, packed.data);
  const auto longest = static_cast<int64_t>(packed.batch_sizes.size());
  const auto N = static_cast<int64_t>(packed.sorted_indices.size());
  const int64_t T = options.total_length.value_or(longest);
  check(T >= longest, "pad_packed_sequence: total_length ", T, " is less than the longest length ",
        longest);
  core::Checked elements = core::Checked{kOp, T} * N;
  Shape shape{elements.value};
  for (int i = 1; i < packed.data.ndim(); ++i) {
    shape.push_back(packed.data.size(i));
    elements = elements * packed.data.size(i);
  }
  const Tensor padding = full(shape, options.padding_value,
                              {.dtype = packed.data.dtype(), .device = packed.data.device()});
  const Tensor filled =
      index_copy(padding, 0, places(packed).to(packed.data.device()), packed.data);
  std::vector<int64_t> lengths(packed.sorted_indices.size());
  for (size_t i = 0; i < lengths.size(); ++i) {
    lengths[static_cast<size_t>(packed.sorted_indices[i])] =
        std::count_if(packed.batch_sizes.begin(), packed.batch_sizes.end(),
                      [&](int64_t size) { return size > static_cast<int64_t>(i); });
  }
  return {swapped(filled.unflatten(0, {T, N}), options.batch_first), tensor(lengths)};
}

Tensor pad_sequence(const std::vector<Tensor>& sequences, const PadOptions& options) {
  check(!sequences.empty(), "pad_sequence: there is no sequence");
  int64_t longest = 0;
  for (const Tensor& each : sequences) {
    check(each.ndim() > 0, "pad_sequence: a sequence has no dimension");
    longest = std::max(longest, each.size(0));
  }
  const int64_t T = options.total_length.value_or(longest);
  check(T >= longest, "pad_sequence: total_length ", T, " is less than the longest length ",
        longest);
  std::vector<Tensor> padded;
  for (size_t i = 0; i < sequences.size(); ++i) {
    const Tensor& each = sequences[i];
    Shape shape = each.shape(), first = sequences[0].shape();
    check(each.dtype() == sequences[0].dtype() &&
              std::equal(shape.begin() + 1, shape.end(), first.begin() + 1, first.end()),
          "pad_sequence: sequence ", i, " is ", each.dtype(), " ", shape, ", and sequence 0 ",
          sequences[0].dtype(), " ", first, "; they may differ in the first size only");
    shape[0] = T - each.size(0);
    padded.push_back(shape[0] == 0
                         ? each
                         : cat({each, full(shape, options.padding_value,
                                           {.dtype = each.dtype(), .device = each.device()})},
                               0));
  }
  return stack(padded, options.batch_first ? 0 : 1);
}

std::vector<Tensor> unpad_sequence(const Tensor& padded, const Tensor& lengths, bool batch_first) {
  const std::vector<int64_t> counts = lengths_of("unpad_sequence", lengths);
  check(
      padded.ndim() >= 2 && padded.size(batch_first ? 0 : 1) == static_cast<int64_t>(counts.size()),
      "unpad_sequence: ", counts.size(), " lengths do not fit ", padded.shape());
  std::vector<Tensor> out;
  for (size_t i = 0; i < counts.size(); ++i) {
    const Tensor each = select(padded, batch_first ? 0 : 1, static_cast<int64_t>(i));
    check(counts[i] >= 0 && counts[i] <= each.size(0), "unpad_sequence: length ", counts[i],
          " of sequence ", i, " is outside [0, ", each.size(0), "]");
    out.push_back(each.slice(0, 0, counts[i]));
  }
  return out;
}

}  // namespace hero::nn
