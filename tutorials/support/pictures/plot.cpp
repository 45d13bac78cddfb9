#include "support/pictures/plot.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string_view>

#include "support/options/program.h"
#include <fcntl.h>
#include <unistd.h>

#include <hero/core/error.h>
#include <hero/core/io/file.h>

namespace tutorial {

namespace {

namespace fs = std::filesystem;

// Dark enough on white, and apart from each other for eyes that mix up red and green.
constexpr const char* kColours[] = {"#d55e00", "#0072b2", "#009e73", "#cc79a7",
                                    "#b8860b", "#56b4e9", "#6a3d9a", "#444444"};
constexpr const char* kDashes[] = {"1",     "(12,4)",         "(3,3)", "(12,3,3,3)",
                                   "(6,3)", "(12,3,3,3,3,3)", "(3,7)", "(18,6)"};
constexpr const char* kAligns[] = {"left", "center", "right"};
constexpr int kCurvePoints = 601;
constexpr int kGridPoints = 201;

// Type that is 12 pixels high where a figure is shown 368 wide.
constexpr const char* kSvgFont = "'DejaVu Sans,21'";
constexpr const char* kPngFont = "'DejaVu Sans,31'";  // of twice as many pixels
constexpr int kWidth = 640, kHeight = 560, kEqualHeight = 720;
constexpr size_t kTitleLine = 44;  // characters

// gnuplot doubles a quote inside single quotes, which know no end of a line.
std::string quoted(const std::string& text) {
  std::string out = "'";
  for (char c : text) {
    if (c == '\n') {
      out += "'.\"\\n\".'";
      continue;
    }
    out += c;
    if (c == '\'') out += c;
  }
  return out + "'";
}

// The text in as few lines of at most kTitleLine characters each as hold it, about equally long.
std::string in_lines(std::string text) {
  const size_t count = (text.size() + kTitleLine - 1) / kTitleLine;
  const size_t most = std::min(kTitleLine, text.size() / std::max<size_t>(count, 1) + 6);
  std::string lines;
  while (text.size() > most) {
    const size_t space = text.rfind(' ', most);
    if (space == std::string::npos) break;
    lines += text.substr(0, space) + "\n";
    text.erase(0, space + 1);
  }
  return lines + text;
}

std::string listed(const std::vector<Tick>& ticks) {
  std::string text;
  for (const Tick& tick : ticks) {
    text += (text.empty() ? "" : ", ") + quoted(tick.text) + " " + repr(tick.at);
  }
  return text;
}

bool have_gnuplot() {
  static const bool found = [] {
    const char* path = std::getenv("PATH");
    std::string_view rest = path != nullptr ? path : "";
    while (!rest.empty()) {
      const size_t end = std::min(rest.find(':'), rest.size());
      const std::string program = std::string(rest.substr(0, end)) + "/gnuplot";
      if (access(program.c_str(), X_OK) == 0) return true;
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
    std::fputs("no figures: gnuplot is not installed (Debian: gnuplot-nox)\n", stderr);
    return false;
  }();
  return found;
}

// gnuplot has read the whole script and was content, or else there is an Error.
void gnuplot(const std::string& script) {
  const auto old = std::signal(SIGPIPE, SIG_IGN);  // a gnuplot that ends early is no reason to die
  std::FILE* pipe = popen("gnuplot >/dev/null 2>&1", "w");
  bool good = pipe != nullptr;
  if (good) {
    good = std::fwrite(script.data(), 1, script.size(), pipe) == script.size();
    good = pclose(pipe) == 0 && good;
  }
  std::signal(SIGPIPE, old);
  hero::check(good, "gnuplot failed");
}

// A file without a name, which gnuplot draws into: it is gone with this process, however that ends.
class Canvas {
 public:
  Canvas() {
    std::FILE* const file = std::tmpfile();
    hero::check(file != nullptr, "no temporary file: ", std::strerror(errno));
    fd_ = ::fcntl(fileno(file), F_DUPFD, 10);  // above those that the shell changes
    std::fclose(file);
    hero::check(fd_ >= 0, "no temporary file: ", std::strerror(errno));
  }
  ~Canvas() { ::close(fd_); }
  Canvas(const Canvas&) = delete;
  Canvas& operator=(const Canvas&) = delete;

  /// The name that it has for gnuplot.
  std::string name() const { return "/dev/fd/" + std::to_string(fd_); }
  std::string bytes() const {
    std::string bytes(static_cast<size_t>(std::max<off_t>(0, ::lseek(fd_, 0, SEEK_END))), '\0');
    const ssize_t count = ::pread(fd_, bytes.data(), bytes.size(), 0);
    hero::check(count == static_cast<ssize_t>(bytes.size()) && count > 0, "gnuplot drew nothing");
    return bytes;
  }

 private:
  int fd_ = -1;
};

// Which gnuplot drew is no part of the figure.
std::string without_version(std::string svg) {
  const std::string last = "</desc>\n";
  const size_t begin = svg.find("<desc>Produced by GNUPLOT "), end = svg.find(last);
  if (begin < end && end != std::string::npos) svg.erase(begin, end + last.size() - begin);
  return svg;
}

void write(const std::string& path, const std::string& bytes) {
  hero::OutputFile file(path);
  file.write(bytes);
  file.commit();
}

}  // namespace

Figure::Figure(const std::string& title, const std::string& x_label, const std::string& y_label) {
  settings_ =
      "set encoding utf8\nset title " + quoted(in_lines(title)) + "\nset xlabel " +
      quoted(x_label) + " offset 0,0.7\nset ylabel " + quoted(y_label) +
      "\nset grid lc rgb '#dddddd' lt 1\nset border 3 lc rgb '#555555'\n"
      "set tics nomirror\n"
      "set key outside below center horizontal maxcols 2 Left reverse width 1.5 samplen 1.5\n"
      "set offsets graph 0, graph 0, graph 0.03, graph 0.03\n"
      "set palette defined (0 '#440154', 1 '#3b528b', 2 '#21918c', 3 '#5ec962', "
      "4 '#d9d422')\n";
}

Figure& Figure::height(int pixels) {
  height_ = pixels;
  return *this;
}

Figure& Figure::equal_axes() {
  height_ = kEqualHeight;
  settings_ += "set size ratio -1\n";
  return *this;
}

Figure& Figure::x_range(double low, double high) {
  x_low_ = low, x_high_ = high;
  settings_ += "set xrange [" + repr(low) + ":" + repr(high) + "]\n";
  return *this;
}

Figure& Figure::y_range(double low, double high) {
  y_low_ = low, y_high_ = high;
  settings_ += "set yrange [" + repr(low) + ":" + repr(high) + "]\n";
  return *this;
}

Figure& Figure::log_y() {
  settings_ += "set logscale y\nset format y '10^{%L}'\n";
  return *this;
}

Figure& Figure::x_ticks(const std::vector<Tick>& ticks) {
  settings_ += ticks.empty() ? "unset xtics\n" : "set xtics (" + listed(ticks) + ")\n";
  return *this;
}

Figure& Figure::y_ticks(const std::vector<Tick>& ticks) {
  settings_ += ticks.empty() ? "unset ytics\n" : "set ytics (" + listed(ticks) + ")\n";
  return *this;
}

Figure& Figure::legend_columns(int most) {
  settings_ += "set key maxcols " + std::to_string(most) + "\n";
  return *this;
}

Figure& Figure::patterned() {
  patterned_ = true;
  settings_ += "set key samplen 3\n";
  return *this;
}

Figure& Figure::curve(const std::string& title, const std::function<double(double)>& f, double low,
                      double high) {
  Values x, y;
  for (int i = 0; i < kCurvePoints; ++i) {
    x.push_back(low + (high - low) * i / (kCurvePoints - 1));
    y.push_back(f(x.back()));
  }
  const std::string block = data({&x, &y});
  parts_.push_back(block + " with lines lw 2 lc rgb '#4a7c59' title " + quoted(title));
  return *this;
}

Figure& Figure::line(const std::string& title, const Values& x, const Values& y, double width) {
  const std::string block = data({&x, &y});
  const size_t dash = static_cast<size_t>(colours_) % std::size(kDashes);
  const std::string dashes = patterned_ ? std::string(" dt ") + kDashes[dash] : std::string();
  parts_.push_back(block + " with lines lw " + repr(width) + dashes + " lc rgb '" + next_colour() +
                   "' title " + quoted(title));
  return *this;
}

Figure& Figure::points(const std::string& title, const Values& x, const Values& y) {
  const std::string block = data({&x, &y});
  const std::string colour = title.empty() ? "#333333" : next_colour();
  parts_.push_back(block + " with points pt 7 ps 0.9 lc rgb '" + colour + "' title " +
                   quoted(title));
  return *this;
}

Figure& Figure::rings(const std::string& title, const Values& x, const Values& y, double size) {
  const std::string block = data({&x, &y});
  parts_.push_back(block + " with points pt 6 lw 2 ps " + repr(0.9 * size) + " lc rgb '" +
                   next_colour() + "' title " + quoted(title));
  return *this;
}

Figure& Figure::steps(const std::string& title, const Values& x, const Values& y) {
  Values index;
  for (size_t i = 0; i < x.size(); ++i) index.push_back(static_cast<double>(i));
  const std::string block = data({&x, &y, &index});
  settings_ +=
      "set cblabel 'step'\nset colorbox user origin screen 0.83,0.15 size screen 0.02,0.7\n"
      "set rmargin at screen 0.8\nset cbrange [0:" +
      repr(std::max(1.0, static_cast<double>(x.size()) - 1.0)) + "]\n";
  const bool many = x.size() > 30;  // smaller, so that they hide less
  parts_.push_back(block + " using 1:2 with points pt 7 ps " + (many ? "0.9" : "1.5") +
                   " lc rgb '#222222' notitle");
  parts_.push_back(block + " using 1:2:3 with points pt 7 ps " + (many ? "0.7" : "1.2") +
                   " lc palette title " + quoted(title));
  return *this;
}

Figure& Figure::arrows(const std::string& title, const Values& x, const Values& y, const Values& dx,
                       const Values& dy) {
  const std::string block = data({&x, &y, &dx, &dy});
  parts_.push_back(block + " with vectors head filled size screen 0.012,18 lw 1.6 lc rgb '" +
                   next_colour() + "' title " + quoted(title));
  return *this;
}

Figure& Figure::box(double x, double y, double width, double height, const std::string& colour,
                    const std::string& text) {
  settings_ += "set object " + std::to_string(++boxes_) + " rectangle from " + repr(x) + "," +
               repr(y) + " to " + repr(x + width) + "," + repr(y + height) + " fc rgb '" + colour +
               "' fs solid border rgb 'white' lw 1 front\n";
  return text.empty() ? *this : label(text, x + width / 2, y + height / 2, "#111111");
}

Figure& Figure::area(const std::string& title, const Values& x, const Values& low,
                     const Values& high, const std::string& colour) {
  const std::string block = data({&x, &low, &high});
  const std::string fill = colour.empty() ? next_colour() : colour;
  parts_.push_back(block + " with filledcurves fs solid 0.75 noborder lc rgb '" + fill +
                   "' title " + quoted(title));
  return *this;
}

Figure& Figure::contours(const std::function<double(double, double)>& f, const Values& levels) {
  const std::string name = "$grid" + std::to_string(blocks_);
  data_ += name + " << EOD\n";
  for (int i = 0; i < kGridPoints; ++i) {
    const double x = x_low_ + (x_high_ - x_low_) * i / (kGridPoints - 1);
    for (int j = 0; j < kGridPoints; ++j) {
      const double y = y_low_ + (y_high_ - y_low_) * j / (kGridPoints - 1);
      const double value = f(x, y);
      data_ += repr(x) + ' ' + repr(y) + ' ' + (std::isfinite(value) ? repr(value) : "NaN") + '\n';
    }
    data_ += '\n';
  }
  data_ += "EOD\nset contour base\nunset surface\nset cntrparam levels discrete ";
  for (size_t i = 0; i < levels.size(); ++i) data_ += (i == 0 ? "" : ",") + repr(levels[i]);
  const std::string lines = "$contours" + std::to_string(blocks_++);
  data_ += "\nset table " + lines + "\nsplot " + name + "\nunset table\nunset contour\n";
  parts_.push_back(lines + " with lines lw 1 lc rgb '#b0b8c0' notitle");
  return *this;
}

Figure& Figure::rule(double y, const std::string& text, double end) {
  settings_ += "set arrow from graph 0, first " + repr(y) + " to graph 1, first " + repr(y) +
               " nohead dt 2 lw 1 lc rgb '#777777'\nset label " + quoted(text) + " at graph " +
               repr(end) + ", first " + repr(y) +
               " right offset 0,0.5 textcolor rgb '#555555' front\n";
  return *this;
}

Figure& Figure::mark(const std::string& title, double x, double y) {
  const Values at_x = {x}, at_y = {y};
  const std::string block = data({&at_x, &at_y});
  parts_.push_back(block + " with points pt 2 ps 1.8 lw 2.5 lc rgb '#c00000' title " +
                   quoted(title));
  return *this;
}

Figure& Figure::bare() {
  const bool named = std::any_of(parts_.begin(), parts_.end(), [](const std::string& part) {
    return !part.ends_with("title ''") && !part.ends_with("notitle");
  });
  settings_ += "unset border\nunset tics\nunset grid\nset lmargin 0.5\nset rmargin 0.5\n";
  if (!named) settings_ += "set bmargin 0.5\n";  // there is no legend
  return *this;
}

Figure& Figure::image(const Values& pixels, int columns) {
  const int rows = static_cast<int>(pixels.size()) / columns;
  Values x, y;
  for (int i = 0; i < rows * columns; ++i) {
    const int row = i / columns;
    x.push_back(i - row * columns);
    y.push_back(rows - 1 - row);
  }
  const std::string block = data({&x, &y, &pixels});
  bare().settings_ +=
      "unset colorbox\nset size ratio -1\n"
      "set palette defined (0 '#ffffff', 1 '#000000')\nset cbrange [0:255]\n";
  parts_.push_back(block + " with image notitle");
  return *this;
}

Figure& Figure::label(const std::string& text, double x, double y, const std::string& colour,
                      Align align) {
  const auto lines = 1 + std::count(text.begin(), text.end(), '\n');
  settings_ += "set label " + quoted(text) + " at " + repr(x) + "," + repr(y) + " " +
               kAligns[static_cast<int>(align)] + " offset 0," +
               repr(0.5 * static_cast<double>(lines - 1)) + " textcolor rgb '" + colour +
               "' front\n";
  return *this;
}

Figure& Figure::tag(const std::string& text, double x, double y, Align align) {
  const int last = std::max(colours_ - 1, 0) % static_cast<int>(std::size(kColours));
  settings_ +=
      "set style textbox opaque fillcolor rgb 'white' noborder margins 0.6,0.4\nset label " +
      quoted(text) + " at " + repr(x) + "," + repr(y) + " " + kAligns[static_cast<int>(align)] +
      (align == Align::center ? " offset 0,0.7" : "") + " textcolor rgb '" + kColours[last] +
      "' front" + (align == Align::center ? " boxed\n" : "\n");
  return *this;
}

Figure& Figure::below(const Figure& other) {
  panels_.push_back(other);
  return *this;
}

std::string Figure::plot() const {
  if (parts_.empty()) return "plot NaN notitle";  // boxes alone
  std::string text = "plot ";
  for (size_t i = 0; i < parts_.size(); ++i) text += (i == 0 ? "" : ", ") + parts_[i];
  return text;
}

void Figure::save(const std::string& folder, const std::string& name) const {
  if (!have_gnuplot()) return;
  const std::string base = (fs::path(folder) / name).string();
  try {
    hero::make_folders("--out", folder);
    const Canvas png, svg;
    int height = height_;
    for (const Figure& panel : panels_) height += panel.height_;
    std::string setup = "set terminal unknown\n", text;
    if (panels_.empty()) {
      setup += data_ + settings_;
      text = plot() + "\n";
    } else {
      text = "set multiplot\n";
      double top = height;
      const auto add = [&](const Figure& panel) {
        top -= panel.height_;
        text += "reset\n" + panel.data_ + panel.settings_ + "set origin 0," + repr(top / height) +
                "\nset size 1," + repr(1.0 * panel.height_ / height) + "\n" + panel.plot() + "\n";
      };
      add(*this);
      for (const Figure& panel : panels_) add(panel);
      text += "unset multiplot\n";
    }
    const auto drawn = [&](const std::string& terminal, int scale, const Canvas& canvas) {
      return "set terminal " + terminal + " size " + std::to_string(scale * kWidth) + "," +
             std::to_string(scale * height) + "\nset output " + quoted(canvas.name()) + "\n" + text;
    };
    gnuplot(setup + drawn(std::string("pngcairo font ") + kPngFont, 2, png) +
            drawn(std::string("svg font ") + kSvgFont + " background rgb 'white'", 1, svg) +
            "unset output\n");
    write(base + ".png", png.bytes());
    write(base + ".svg", without_version(svg.bytes()));
  } catch (const hero::Error& error) {
    std::fprintf(stderr, "no figure %s: %s\n", base.c_str(), error.what());
  }
}

std::string Figure::data(const std::vector<const Values*>& columns) {
  const std::string name = "$data" + std::to_string(blocks_++);
  data_ += name + " << EOD\n";
  for (size_t row = 0; row < columns[0]->size(); ++row) {
    for (const Values* column : columns) {
      const double value = (*column)[row];
      data_ += (std::isfinite(value) ? repr(value) : "NaN") + ' ';  // NaN: left out
    }
    data_ += '\n';
  }
  data_ += "EOD\n";
  return name;
}

const char* Figure::next_colour() {
  const char* colour = kColours[colours_ % static_cast<int>(std::size(kColours))];
  ++colours_;
  return colour;
}

bool fits(const std::string& text, double pixels) {
  return 12.0 * static_cast<double>(text.size()) < pixels;
}

std::string plain(const std::string& text) {
  std::string out;
  for (const char c : text) out += c == '_' ? std::string("\\_") : std::string(1, c);
  return out;
}

}  // namespace tutorial
