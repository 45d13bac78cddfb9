#include "support/pictures/pictures.h"

#include <cstddef>

#include "support/pictures/plot.h"

namespace tutorial {

constexpr size_t kSide = 28;
constexpr size_t kAcross = kSide + 6;  // with the space between
constexpr size_t kDown = kSide + 14;   // and room for two lines of text

void draw_pictures(const std::string& title, const std::vector<Picture>& pictures, int columns,
                   const std::string& folder, const std::string& name) {
  const auto across = static_cast<size_t>(columns);
  const size_t rows = (pictures.size() + across - 1) / across;
  const size_t width = across * kAcross, height = rows * kDown;
  Values canvas(width * height, 0.0);  // white
  Figure figure(title, "", "");
  for (size_t i = 0; i < pictures.size(); ++i) {
    const Picture& picture = pictures[i];
    const size_t left = i % across * kAcross + (kAcross - kSide) / 2, top = i / across * kDown + 2;
    for (size_t y = 0; y < kSide; ++y) {
      for (size_t x = 0; x < kSide; ++x) {
        canvas[(top + y) * width + left + x] = picture.pixels.at(y * kSide + x);
      }
    }
    const double middle = static_cast<double>(left) + static_cast<double>(kSide) / 2;
    figure.label(picture.text, middle, static_cast<double>(height - (top + kSide + 7)),
                 picture.good ? "#222222" : "#c00000");
  }
  figure.image(canvas, static_cast<int>(width));
  figure.height(60 + static_cast<int>(640 * height / width)).save(folder, name);
}

}  // namespace tutorial
