#include "pictures.h"

#include "plot.h"

namespace tutorial {

constexpr int kSide = 28;
constexpr int kAcross = kSide + 6;  // with the space between
constexpr int kDown = kSide + 9;    // and room for the text

void draw_pictures(const std::string& title, const std::vector<Picture>& pictures, int columns,
                   const std::string& folder, const std::string& name) {
  const int count = static_cast<int>(pictures.size());
  const int rows = (count + columns - 1) / columns;
  const int width = columns * kAcross, height = rows * kDown;
  Values canvas(static_cast<size_t>(width * height), 0.0);  // white
  Figure figure(title, "", "");
  for (int i = 0; i < count; ++i) {
    const Picture& picture = pictures[static_cast<size_t>(i)];
    const int left = i % columns * kAcross + (kAcross - kSide) / 2, top = i / columns * kDown + 2;
    for (int y = 0; y < kSide; ++y) {
      for (int x = 0; x < kSide; ++x) {
        canvas[static_cast<size_t>((top + y) * width + left + x)] =
            picture.pixels.at(static_cast<size_t>(y * kSide + x));
      }
    }
    figure.label(picture.text, left + kSide / 2, height - (top + kSide + 3),
                 picture.good ? "#222222" : "#c00000");
  }
  figure.image(canvas, width).save(folder, name);
}

}  // namespace tutorial
