#pragma once
// AMX on a processor without it. Its instructions raise SIGILL there, and a handler does in their
// place what Intel's manual says that they do ("64 and IA-32 Architectures Software Developer's
// Manual", volume 2: LDTILECFG, TDPBF16PS, TILELOADD, TILERELEASE, TILESTORED, TILEZERO). So the
// very code that a processor with AMX runs is run, encodings and addresses included.
#if defined(__x86_64__) && defined(__linux__)
#include <atomic>
#include <bit>
#include <cstdint>
#include <cstring>

#include "core/products/native_half_sum.h"
#include <signal.h>
#include <ucontext.h>

namespace hero_test {

/// The unit of eight tiles. What a processor refuses gives false.
class EmulatedTiles {
 public:
  bool configure(const uint8_t* shapes) {
    bool valid = shapes[0] == 1;
    for (int i = 1; i < 16; ++i) valid = valid && shapes[i] == 0;
    for (int t = 0; t < 16; ++t) {
      const int bytes = shapes[16 + 2 * t] | shapes[17 + 2 * t] << 8, rows = shapes[48 + t];
      valid = valid && bytes <= 64 && rows <= 16 && (bytes == 0) == (rows == 0);
      valid = valid && (t < 8 || rows == 0);
      if (valid && t < 8) tiles_[t] = {rows, bytes, {}};
    }
    return valid;
  }
  void release() {
    for (Tile& tile : tiles_) tile = {};
  }
  bool clear(int t) {
    std::memset(tiles_[t].data, 0, sizeof(tiles_[t].data));
    return tiles_[t].rows > 0;
  }
  bool load(int t, const uint8_t* from, int64_t step) {
    Tile& to = tiles_[t];
    const bool valid = clear(t);
    for (int i = 0; i < to.rows; ++i) std::memcpy(to.data[i], from + i * step, to.width());
    return valid;
  }
  bool store(int t, uint8_t* to, int64_t step) const {
    const Tile& from = tiles_[t];
    for (int i = 0; i < from.rows; ++i) std::memcpy(to + i * step, from.data[i], from.width());
    return from.rows > 0;
  }
  bool multiply(int sums, int left, int right) {
    Tile& c = tiles_[sums];
    const Tile &a = tiles_[left], &b = tiles_[right];
    if (sums == left || sums == right || left == right) return false;
    if (c.rows == 0 || c.rows != a.rows || c.bytes != b.bytes || a.bytes != 4 * b.rows)
      return false;
    for (int m = 0; m < c.rows; ++m) {
      for (int n = 0; n < c.bytes / 4; ++n) {
        float even = 0.0f, odd = 0.0f;
        for (int k = 0; k < b.rows; ++k) {
          even = flushed_fma(a.half(m, 2 * k), b.half(k, 2 * n), even);
          odd = flushed_fma(a.half(m, 2 * k + 1), b.half(k, 2 * n + 1), odd);
        }
        float sum = 0.0f;
        std::memcpy(&sum, c.data[m] + 4 * n, sizeof(sum));
        sum = flushed_fma(sum, 1.0f, flushed_fma(even, 1.0f, odd));
        std::memcpy(c.data[m] + 4 * n, &sum, sizeof(sum));
      }
    }
    return true;
  }

 private:
  struct Tile {
    int rows = 0, bytes = 0;
    uint8_t data[16][64] = {};
    size_t width() const { return static_cast<size_t>(bytes); }
    float half(int row, int i) const {
      uint16_t bits = 0;
      std::memcpy(&bits, data[row] + 2 * i, sizeof(bits));
      return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
    }
  };
  Tile tiles_[8];
};

/// One of the instructions, with the registers of the thread that met it.
class TileInstruction {
 public:
  explicit TileInstruction(greg_t* registers)
      : registers_(registers), at_(reinterpret_cast<const uint8_t*>(registers[REG_RIP])) {
    vex_[0] = at_[1];
    vex_[1] = at_[2];
    opcode_ = at_[3];
    form_ = at_[4];
  }
  /// Does it and goes on behind it. False if it is none of them, or a processor would refuse it.
  bool run(EmulatedTiles& tiles) {
    // three bytes of VEX, of the map 0F 38, without W and L
    if (at_[0] != 0xC4 || (vex_[0] & 0x1F) != 2 || (vex_[1] & 0x84) != 0) return false;
    const int prefix = vex_[1] & 3, first = form_ >> 3 & 7;  // none, 66, F3, F2
    const bool of_memory = form_ < 0xC0;
    const int64_t step = of_memory && (form_ & 7) == 4 ? index() : 0;
    uint8_t* const memory = of_memory ? address() : nullptr;
    if (!of_memory) length_ = 5;
    bool done = false;
    if (opcode_ == 0x5C && prefix == 2 && !of_memory) {
      done = tiles.multiply(first, form_ & 7, ~vex_[1] >> 3 & 15);
      ++multiplications;
    } else if (opcode_ == 0x4B && of_memory && (form_ & 7) == 4) {
      if (prefix == 3) done = tiles.load(first, memory, step);
      if (prefix == 2) done = tiles.store(first, memory, step);
    } else if (opcode_ == 0x49 && prefix == 3 && !of_memory) {
      done = tiles.clear(first);
    } else if (opcode_ == 0x49 && prefix == 0) {
      if (of_memory && first == 0) done = tiles.configure(memory);
      if (form_ == 0xC0) {
        tiles.release();
        done = true;
      }
    }
    if (done) registers_[REG_RIP] += length_;
    return done;
  }
  static inline std::atomic<int64_t> multiplications = 0;

 private:
  int64_t value(int number) const {
    constexpr int kOrder[] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP,
                              REG_RSI, REG_RDI, REG_R8,  REG_R9,  REG_R10, REG_R11,
                              REG_R12, REG_R13, REG_R14, REG_R15};
    return registers_[kOrder[number]];
  }
  // The scaled index of an address that has a second byte: for tiles the step from row to row.
  int64_t index() const {
    const int number = (at_[5] >> 3 & 7) | ((vex_[0] & 0x40) != 0 ? 0 : 8);
    return number == 4 ? 0 : value(number) << (at_[5] >> 6);
  }
  // Of the first row: without the index where that is a step. Sets the length.
  uint8_t* address() {
    const int mode = form_ >> 6, high = (vex_[0] & 0x20) != 0 ? 0 : 8;
    const bool has_second = (form_ & 7) == 4;
    const int base = (has_second ? at_[5] : form_) & 7;
    const uint8_t* const offset = at_ + (has_second ? 6 : 5);
    const bool is_bare = base == 5 && mode == 0;  // four bytes, from the next instruction or from 0
    int32_t far = 0;
    if (mode == 2 || is_bare) std::memcpy(&far, offset, sizeof(far));
    if (mode == 1) far = static_cast<int8_t>(*offset);
    length_ = offset - at_ + (mode == 2 || is_bare ? 4 : mode);
    int64_t from = is_bare ? 0 : value(base | high);
    if (is_bare && !has_second) from = registers_[REG_RIP] + length_;
    if (opcode_ == 0x49 && has_second) from += index();
    return reinterpret_cast<uint8_t*>(from + far);
  }

  greg_t* registers_;
  const uint8_t* at_;
  uint8_t vex_[2], opcode_, form_;
  int64_t length_ = 0;
};

/// While one lives, all threads of the program have tiles.
class TrappedTiles {
 public:
  TrappedTiles() {
    struct sigaction action = {};
    action.sa_sigaction = [](int, siginfo_t*, void* context) {
      static thread_local EmulatedTiles tiles;
      greg_t* const registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
      // another instruction, or one that is wrong: met once more, it ends the program
      if (!TileInstruction(registers).run(tiles)) signal(SIGILL, SIG_DFL);
    };
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGILL, &action, &before_);
  }
  ~TrappedTiles() { sigaction(SIGILL, &before_, nullptr); }
  TrappedTiles(const TrappedTiles&) = delete;
  TrappedTiles& operator=(const TrappedTiles&) = delete;

 private:
  struct sigaction before_ = {};
};

}  // namespace hero_test
#endif
