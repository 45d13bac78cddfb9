#pragma once
// AMX's tiles for a test: the processor's, or its instructions done one at a time.
#include <cstdint>
#include <optional>

#include "core/products/trapped_tiles.h"
#include "support/catch.h"

#include <hero/core/cpu/level.h>

#if defined(__x86_64__) && defined(__linux__)

namespace hero_test {

/// Tiles for a test, if packing their operands runs here.
class Tiles {
 public:
  Tiles() : has_amx_(hero::core::cpu::machine_level() == hero::core::cpu::Level::amx) {
    if (hero::core::cpu::machine_level() < hero::core::cpu::Level::v4_bf16) {
      SUCCEED("skipped: AMX's operands are packed by AVX-512, which this processor lacks");
      return;
    }
    works_ = true;
    if (!has_amx_) trapped_.emplace();
    before_ = TileInstruction::multiplications;
  }
  explicit operator bool() const { return works_; }
  /// Whether the instructions ran: trapped ones are counted.
  bool were_used() const { return has_amx_ || TileInstruction::multiplications > before_; }

 private:
  bool has_amx_, works_ = false;
  int64_t before_ = 0;
  std::optional<TrappedTiles> trapped_;
};

}  // namespace hero_test

#endif
