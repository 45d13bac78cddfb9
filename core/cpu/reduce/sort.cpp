// Sorting by keys: every element becomes an unsigned number of the same order, NaN above all, and
// its position breaks ties, so that any sort is a stable one. Long rows are sorted by the digits of
// keys, see Knuth, "The art of computer programming" 3 (1973), 5.2.5. Results that are shorter than
// x along the dimension get only the first elements of the order.
#include <algorithm>
#include <array>
#include <bit>
#include <utility>
#include <vector>

#include <hero/core/cpu/cpu_backend.h>
#include <hero/core/cpu/lines.h>
#include <hero/core/cpu/workspace.h>
#include <hero/core/kernels/sort_keys.h>
#include <hero/core/thread_pool.h>

namespace hero::core::cpu {

namespace {

struct LongKey {
  uint64_t key;
  int64_t position;
  friend bool operator<(const LongKey& a, const LongKey& b) {
    return a.key != b.key ? a.key < b.key : a.position < b.position;
  }
};

// A key below 2^32 and a position below 2^32 fit one number.
void set_pair(uint64_t& pair, uint64_t key, int64_t position) {
  pair = key << 32 | static_cast<uint64_t>(position);
}
void set_pair(LongKey& pair, uint64_t key, int64_t position) { pair = {key, position}; }
uint64_t key_of(uint64_t pair) { return pair >> 32; }
uint64_t key_of(const LongKey& pair) { return pair.key; }
int64_t position_of(uint64_t pair) { return static_cast<int64_t>(pair & 0xFFFFFFFFu); }
int64_t position_of(const LongKey& pair) { return pair.position; }

constexpr int64_t kRadixLength = 1024;  // from which counting digits is faster than comparing
constexpr int64_t kMostRoom = 64;       // for elements that are kept beside few first ones
constexpr int64_t kSelectedShare = 4;   // of fewer than every fourth element the first are selected
constexpr int kMostDigitBits = 11;      // the places of whose values stay in the first-level cache

// Sorts by the lowest `bits` of keys, all others of which are 0, a digit at a time from the lowest
// on, which keeps equal ones in order; `spare` is as long.
template <class Pair>
void radix_sort(std::vector<Pair>& pairs, std::vector<Pair>& spare, int bits) {
  const int digits = (bits + kMostDigitBits - 1) / kMostDigitBits;
  for (int d = 0; d < digits; ++d) {
    const int low = bits * d / digits, width = bits * (d + 1) / digits - low;
    const uint64_t mask = (uint64_t{1} << width) - 1;
    const auto digit = [&](const Pair& pair) { return key_of(pair) >> low & mask; };
    std::array<int64_t, size_t{1} << kMostDigitBits> place = {};
    for (const Pair& pair : pairs) ++place[digit(pair)];
    int64_t next = 0;
    for (uint64_t value = 0; value <= mask; ++value) {
      next += std::exchange(place[value], next);
    }
    for (const Pair& pair : pairs) spare[static_cast<size_t>(place[digit(pair)]++)] = pair;
    pairs.swap(spare);
  }
}

// Scratch of a thread's rows.
template <class Pair>
struct Pairs {
  std::vector<Pair> all, spare;
};

// Of n sorted elements the first k.
template <class Pair, class Keys, class T>
void sort_pairs(const Keys& key, const T* x, int64_t n, int64_t k, int bits, Pairs<Pair>& pairs,
                T* values, int64_t* indices) {
  pairs.all.resize(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) set_pair(pairs.all[static_cast<size_t>(i)], key(i), i);
  if (n < kRadixLength) {
    std::sort(pairs.all.begin(), pairs.all.end());
  } else {
    pairs.spare.resize(static_cast<size_t>(n));
    radix_sort(pairs.all, pairs.spare, bits);
  }
  for (int64_t i = 0; i < k; ++i) indices[i] = position_of(pairs.all[static_cast<size_t>(i)]);
  for (int64_t i = 0; i < k; ++i) values[i] = x[indices[i]];
}

// Lets go of all but the first k of `count` pairs, and returns the key of the last of them.
template <class Pair>
[[gnu::noinline]] uint64_t keep_first(std::vector<Pair>& kept, int64_t count, int64_t k) {
  std::nth_element(kept.begin(), kept.begin() + k - 1, kept.begin() + count);
  return key_of(kept[static_cast<size_t>(k - 1)]);
}
template <class Pair>
[[gnu::noinline]] void sort_first(std::vector<Pair>& kept, int64_t k) {
  std::sort(kept.begin(), kept.begin() + k);
}

// The same without sorting the others. `kept` has the first k so far and what may displace them;
// when it is full, the others go. Of equal keys the earlier position comes first, so later ones
// never displace it.
template <class Pair, class Keys, class T>
void select_pairs(const Keys& key, const T* x, int64_t n, int64_t k, std::vector<Pair>& kept,
                  T* values, int64_t* indices) {
  const int64_t room = k + std::max(k, std::min(kMostRoom, n / 8));
  kept.resize(static_cast<size_t>(room));
  int64_t count = 0, i = 0;
  for (; i < n && count < room; ++i) set_pair(kept[static_cast<size_t>(count++)], key(i), i);
  uint64_t last = keep_first(kept, count, k);
  count = k;
  for (; i < n; ++i) {
    const uint64_t next = key(i);
    if (next >= last) continue;
    set_pair(kept[static_cast<size_t>(count++)], next, i);
    if (count < room) continue;
    last = keep_first(kept, count, k);
    count = k;
  }
  keep_first(kept, count, k);
  sort_first(kept, k);
  for (i = 0; i < k; ++i) indices[i] = position_of(kept[static_cast<size_t>(i)]);
  for (i = 0; i < k; ++i) values[i] = x[indices[i]];
}

template <class T>
void sort_row(const T* x, int64_t n, int64_t k, bool descending, Pairs<uint64_t>& pairs,
              Pairs<LongKey>& long_pairs, T* values, int64_t* indices) {
  using Key = SortBits<T>;
  const Key turned = descending ? static_cast<Key>(~Key{0}) : Key{0};
  const auto shown = [&](int64_t i) { return static_cast<Key>(sort_key(x[i]) ^ turned); };
  const bool fits = n <= int64_t{0xFFFFFFFF};
  if (k <= n / kSelectedShare && (fits || sizeof(Key) > 4)) {
    if constexpr (sizeof(Key) <= 4) {
      return select_pairs(shown, x, n, k, pairs.all, values, indices);
    } else {
      return select_pairs(shown, x, n, k, long_pairs.all, values, indices);
    }
  }
  Key least = shown(0), most = least;
  for (int64_t i = 1; i < n; ++i) {
    least = std::min(least, shown(i));
    most = std::max(most, shown(i));
  }
  // Keys count from the least one: numbers of a narrow range have few digits.
  const auto key = [&](int64_t i) { return uint64_t{static_cast<Key>(shown(i) - least)}; };
  const auto bits = static_cast<int>(std::bit_width(uint64_t{static_cast<Key>(most - least)}));
  if (bits <= 32 && fits) {  // NOLINT(bugprone-branch-clone): pairs of other types
    sort_pairs(key, x, n, k, bits, pairs, values, indices);
  } else {
    sort_pairs(key, x, n, k, bits, long_pairs, values, indices);
  }
}

template <class T>
void sort_as(const Array& x, int dim, bool descending, const Array& values, const Array& indices) {
  const RowReader<T> reader(x, dim);
  const RowWriter<T> value_writer(values, dim);
  const RowWriter<int64_t> index_writer(indices, dim);
  const int64_t n = reader.length(), k = value_writer.length();
  parallel_for(reader.count(), reader.grain(), [&](int64_t begin, int64_t end) {
    const Workspace<T> in(reader.buffer_size()), value_buffer(value_writer.buffer_size());
    const Workspace<int64_t> index_buffer(index_writer.buffer_size());
    Pairs<uint64_t> pairs;
    Pairs<LongKey> long_pairs;
    for (int64_t at = begin; at < end; at += reader.group()) {
      const int64_t count = std::min(reader.group(), end - at);
      const T* rows = reader.read(at, count, in.data());
      T* value = value_writer.target(at, value_buffer.data());
      int64_t* index = index_writer.target(at, index_buffer.data());
      for (int64_t r = 0; r < count; ++r) {
        sort_row(rows + r * n, n, k, descending, pairs, long_pairs, value + r * k, index + r * k);
      }
      value_writer.commit(at, count, value);
      index_writer.commit(at, count, index);
    }
  });
}

// The position of what would be element k of a row if it were sorted. Of a long row only those are
// compared whose keys begin as its key does.
template <class Pair, class T>
[[gnu::noinline]] int64_t find_one(const T* x, int64_t n, int64_t k, std::vector<Pair>& pairs) {
  constexpr int kLow = static_cast<int>(sizeof(SortBits<T>)) * 8 - kMostDigitBits;
  constexpr int64_t kLong = 8192;
  const auto keep = [&](int64_t room, auto&& is_kept) {
    pairs.resize(static_cast<size_t>(room) + 1);  // one is written and not kept
    size_t count = 0;
    for (int64_t i = 0; i < n; ++i) {
      const SortBits<T> key = sort_key(x[i]);
      set_pair(pairs[count], key, i);
      count += is_kept(key) ? 1 : 0;
    }
    pairs.pop_back();
  };
  if (n < kLong) {
    keep(n, [](SortBits<T>) { return true; });
  } else {
    std::array<int64_t, size_t{1} << kMostDigitBits> counts = {};
    for (int64_t i = 0; i < n; ++i) ++counts[sort_key(x[i]) >> kLow];
    size_t digit = 0;
    while (k >= counts[digit]) k -= counts[digit++];
    keep(counts[digit], [=](SortBits<T> key) { return key >> kLow == digit; });
  }
  std::nth_element(pairs.begin(), pairs.begin() + k, pairs.end());
  return position_of(pairs[static_cast<size_t>(k)]);
}

template <class T>
void find_kth_as(const Array& x, int dim, int64_t k, int64_t* positions) {
  const RowReader<T> reader(x, dim);
  const int64_t n = reader.length();
  parallel_for(reader.count(), reader.grain(), [&](int64_t begin, int64_t end) {
    const Workspace<T> in(reader.buffer_size());
    std::vector<uint64_t> pairs;
    std::vector<LongKey> long_pairs;
    for (int64_t at = begin; at < end; at += reader.group()) {
      const int64_t count = std::min(reader.group(), end - at);
      const T* rows = reader.read(at, count, in.data());
      for (int64_t r = 0; r < count; ++r) {
        const bool fits = sizeof(SortBits<T>) == 4 && n <= int64_t{0xFFFFFFFF};
        positions[at + r] =
            fits ? find_one(rows + r * n, n, k, pairs) : find_one(rows + r * n, n, k, long_pairs);
      }
    }
  });
}

}  // namespace

void CpuBackend::run(const call::KthPositions& call) {
  if (call.x.numel() == 0) return;
  dispatch_compute(call.x.dtype(), [&]<class T>(TypeTag<T>) {
    find_kth_as<T>(call.x, call.dim, call.k, call.positions.data<int64_t>());
  });
}

void CpuBackend::run(const call::Sort& call) {
  if (call.x.numel() == 0) return;
  dispatch_compute(call.x.dtype(), [&]<class T>(TypeTag<T>) {
    sort_as<T>(call.x, call.dim, call.descending, call.values, call.indices);
  });
}

}  // namespace hero::core::cpu
