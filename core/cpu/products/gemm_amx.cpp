// Products of bfloat16 by AMX, a unit of eight tiles of 16 rows of 64 bytes beside the processor's
// registers. Its instructions are inline assembly, which declares the memory that each accesses;
// the functions are called only if the processor has AMX. [note: the bits of a product by tiles] is
// what tdpbf16ps does with the tiles that it is given here: Intel, "64 and IA-32 Architectures
// Software Developer's Manual", volume 2, TDPBF16PS.
#include <algorithm>
#include <cstdlib>

#include <hero/core/cpu/products/gemm_bf16.h>
#include <hero/core/cpu/products/gemm_bf16_kernel.h>

namespace hero::core::cpu::bf16 {

namespace {

constexpr int64_t kTileRows = 16;
constexpr int64_t kTileColumns = 16;  // float32 numbers, or pairs of bfloat16
constexpr int64_t kTileBytes = 64;    // of a row
constexpr int64_t kSumsStep = kColumns * static_cast<int64_t>(sizeof(float));
constexpr int64_t kPairsStep = kColumns * static_cast<int64_t>(sizeof(uint32_t));

#if defined(__x86_64__)

// What ldtilecfg reads.
struct alignas(64) TileShapes {
  uint8_t palette = 1, start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {};  // of tiles 0 to 7; there are no others
  uint8_t rows[16] = {};

  void set(int tile, int64_t count, int64_t bytes) {
    rows[tile] = static_cast<uint8_t>(count);
    row_bytes[tile] = static_cast<uint16_t>(count > 0 ? bytes : 0);
  }
};
static_assert(sizeof(TileShapes) == 64);

void configure(const TileShapes& shapes) { asm volatile("ldtilecfg %0" : : "m"(shapes)); }
void release() { asm volatile("tilerelease"); }
template <int tile>
void clear() {
  asm volatile("tilezero %%tmm%c0" : : "i"(tile));
}
template <int tile>
void load(const void* rows, int64_t step) {
  asm volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(rows), "r"(step), "i"(tile) : "memory");
}
template <int tile>
void store(void* rows, int64_t step) {
  asm volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(rows), "r"(step), "i"(tile) : "memory");
}
// Sums += rows of A times columns of B.
template <int sums, int a, int b>
void add_product() {
  asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(sums), "i"(a), "i"(b));
}

// Tiles 0 to 3 are the sums: 0 and 1 of the upper 16 rows, 2 and 3 of the others, 1 and 3 of the
// right 16 columns. Tiles 4 and 5 are the upper and the other rows of A, 6 and 7 the left and the
// right columns of B.
struct Extent {
  int64_t rows, columns;
  bool has_lower() const { return rows > kTileRows; }
  bool has_right() const { return columns > kTileColumns; }
};

void load_sums(const Extent& of, const float* sums) {
  load<0>(sums, kSumsStep);
  if (of.has_right()) load<1>(sums + kTileColumns, kSumsStep);
  if (!of.has_lower()) return;
  load<2>(sums + kTileRows * kColumns, kSumsStep);
  if (of.has_right()) load<3>(sums + kTileRows * kColumns + kTileColumns, kSumsStep);
}

void store_sums(const Extent& of, float* sums) {
  store<0>(sums, kSumsStep);
  if (of.has_right()) store<1>(sums + kTileColumns, kSumsStep);
  if (!of.has_lower()) return;
  store<2>(sums + kTileRows * kColumns, kSumsStep);
  if (of.has_right()) store<3>(sums + kTileRows * kColumns + kTileColumns, kSumsStep);
}

void clear_sums(const Extent& of) {
  clear<0>();
  if (of.has_right()) clear<1>();
  if (!of.has_lower()) return;
  clear<2>();
  if (of.has_right()) clear<3>();
}

// Sets the unit up for so many rows and pairs, unless it is. That and giving it back takes 120 ns.
void set_up(int64_t rows, int64_t pairs, int64_t& unit) {
  const int64_t wanted = rows * (kTileColumns + 1) + pairs;
  if (unit == wanted) return;
  const int64_t upper = std::min(rows, kTileRows), lower = rows - upper;
  TileShapes shapes;
  for (const int tile : {0, 1}) shapes.set(tile, upper, kTileBytes);
  for (const int tile : {2, 3}) shapes.set(tile, lower, kTileBytes);
  shapes.set(4, upper, 4 * pairs);
  shapes.set(5, lower, 4 * pairs);
  for (const int tile : {6, 7}) shapes.set(tile, pairs, kTileBytes);
  configure(shapes);
  unit = wanted;
}

// `steps` times `pairs` pairs, up to kTileColumns. Memory is read and written in the extent of the
// tiles alone, but sums in whole tiles to the right.
void run_steps(const Extent& of, int64_t steps, int64_t pairs, const RowPairs& a, const uint32_t* b,
               float* sums, bool add, int64_t& unit) {
  set_up(of.rows, pairs, unit);
  add ? load_sums(of, sums) : clear_sums(of);
  for (int64_t s = 0; s < steps; ++s) {
    const std::byte* const rows = a.data + s * kTileBytes;
    const uint32_t* const columns = b + s * kTileRows * kColumns;
    load<4>(rows, a.step);
    load<6>(columns, kPairsStep);
    add_product<0, 4, 6>();
    if (of.has_right()) {
      load<7>(columns + kTileColumns, kPairsStep);
      add_product<1, 4, 7>();
    }
    if (!of.has_lower()) continue;
    load<5>(rows + kTileRows * a.step, a.step);
    add_product<2, 5, 6>();
    if (of.has_right()) add_product<3, 5, 7>();
  }
  store_sums(of, sums);
}

// First the pairs that fill tiles, then those that are left.
void multiply_by_tiles(int64_t pairs, int64_t rows, int64_t columns, const RowPairs& a,
                       const uint32_t* b, float* sums, bool add, int64_t& unit) {
  const Extent extent{rows, columns};
  const int64_t steps = pairs / kTileColumns, left = pairs % kTileColumns;
  if (steps > 0) run_steps(extent, steps, kTileColumns, a, b, sums, add, unit);
  if (left == 0) return;
  const RowPairs rest{a.data + steps * kTileBytes, a.step};
  run_steps(extent, 1, left, rest, b + steps * kTileRows * kColumns, sums, add || steps > 0, unit);
}

void end_of_tiles(int64_t& unit) {
  if (unit != 0) release();
  unit = 0;
}

#else

// No processor of this kind has them: the level is below amx.
void multiply_by_tiles(int64_t, int64_t, int64_t, const RowPairs&, const uint32_t*, float*, bool,
                       int64_t&) {
  std::abort();
}
void end_of_tiles(int64_t&) {}

#endif

}  // namespace

const TileKernel& amx_kernel() {
  static constexpr TileKernel kernel{.rows = 2 * kTileRows,
                                     .chain = 4 * kBf16Chain,
                                     .is_by_rows = true,
                                     .pack_rows = pack_whole_rows,
                                     .multiply = multiply_by_tiles,
                                     .end = end_of_tiles};
  return kernel;
}

}  // namespace hero::core::cpu::bf16
