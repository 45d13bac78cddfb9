#pragma once
// Figures drawn by gnuplot, which need not be there: without it the programs print all the same.
#include <functional>
#include <string>
#include <vector>

namespace tutorial {

using Values = std::vector<double>;

struct Tick {
  double at = 0.0;
  std::string text;
};

/// Where a label lies beside its place.
enum class Align { left, center, right };

/// One picture, built part by part and saved as PNG and SVG. Labels know gnuplot's markup: x^2.
/// It is 640 pixels wide, and all its type can be read on a phone: it is at least 12 pixels high
/// where the figure is 368 wide. A line holds some 45 characters; a longer title has several lines,
/// and so has a label with \n. The legend is below.
class Figure {
 public:
  Figure(const std::string& title, const std::string& x_label, const std::string& y_label);

  /// Of the whole picture, in pixels.
  Figure& height(int pixels);
  /// Both axes have the same scale, so that right angles are right angles.
  Figure& equal_axes();

  Figure& x_range(double low, double high);
  Figure& y_range(double low, double high);
  Figure& log_y();
  /// The words that stand at places of an axis, in place of numbers.
  /// Where there are none the axis has neither.
  Figure& x_ticks(const std::vector<Tick>& ticks);
  Figure& y_ticks(const std::vector<Tick>& ticks);
  /// At most so many names of the legend stand side by side; 2 if this is not called.
  Figure& legend_columns(int most);

  /// From now on lines have dashes of their own, and can be told apart without colours.
  Figure& patterned();

  /// y = f(x) from low to high.
  Figure& curve(const std::string& title, const std::function<double(double)>& f, double low,
                double high);
  Figure& line(const std::string& title, const Values& x, const Values& y, double width = 2.2);
  /// Without a title they are dark and not in the legend.
  Figure& points(const std::string& title, const Values& x, const Values& y);
  /// Open circles of a size that is given in those of points().
  Figure& rings(const std::string& title, const Values& x, const Values& y, double size);
  /// Points coloured by their position in the list, with a colour bar.
  Figure& steps(const std::string& title, const Values& x, const Values& y);
  /// Arrows from (x, y) to (x + dx, y + dy).
  Figure& arrows(const std::string& title, const Values& x, const Values& y, const Values& dx,
                 const Values& dy);
  /// A filled rectangle from (x, y) on, with a text in its middle.
  Figure& box(double x, double y, double width, double height, const std::string& colour,
              const std::string& text = {});
  /// The area between two curves over x; without a colour in that which is next.
  Figure& area(const std::string& title, const Values& x, const Values& low, const Values& high,
               const std::string& colour = {});
  /// Lines on which f(x, y) is one of `levels`, in the rectangle of x_range and y_range.
  /// There are none where f is NaN.
  Figure& contours(const std::function<double(double, double)>& f, const Values& levels);
  /// A dashed level over the whole width, with its name above it, which ends at a share of the
  /// width.
  Figure& rule(double y, const std::string& text, double end = 0.99);
  /// A cross with its name.
  Figure& mark(const std::string& title, double x, double y);
  /// Axes and grid go.
  Figure& bare();
  /// Numbers from 0 (white) to 255 (black), `columns` in a row, from the top; axes go.
  Figure& image(const Values& pixels, int columns);
  /// Text around a point, or on one side of it.
  Figure& label(const std::string& text, double x, double y, const std::string& colour,
                Align align = Align::center);

  /// Text above a point, on white, or beside it, in the colour of the line that was drawn last.
  Figure& tag(const std::string& text, double x, double y, Align align = Align::center);

  /// A panel of its own below those before.
  Figure& below(const Figure& other);

  /// Writes folder/name.png and folder/name.svg; an older figure is replaced only by a whole one.
  /// Without gnuplot, or if it fails, one line on stderr says so.
  void save(const std::string& folder, const std::string& name) const;

 private:
  std::string data(const std::vector<const Values*>& columns);
  std::string plot() const;  // gnuplot's command
  const char* next_colour();

  std::string settings_;
  std::string data_;
  std::vector<std::string> parts_;
  std::vector<Figure> panels_;
  int height_ = 560;
  int blocks_ = 0;
  int colours_ = 0;
  int boxes_ = 0;
  bool patterned_ = false;
  double x_low_ = 0, x_high_ = 1, y_low_ = 0, y_high_ = 1;
};

/// Whether a text fits into so many of a figure's 640 pixels.
bool fits(const std::string& text, double pixels);

/// A text as gnuplot's markup, to which _ is the mark of an index: no subscripts.
std::string plain(const std::string& text);

}  // namespace tutorial
