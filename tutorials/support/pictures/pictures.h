#pragma once
// Small grey pictures in rows, each with a line of text under it.
#include <cstdint>
#include <string>
#include <vector>

namespace tutorial {

struct Picture {
  std::vector<uint8_t> pixels;  ///< 28 x 28, row by row
  std::string text;
  bool good = true;  ///< the text's colour
};

/// Draws them `columns` in a row into folder/name.png and .svg.
void draw_pictures(const std::string& title, const std::vector<Picture>& pictures, int columns,
                   const std::string& folder, const std::string& name);

}  // namespace tutorial
