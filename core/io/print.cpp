#include <algorithm>
#include <cstdint>
#include <ostream>
#include <utility>
#include <vector>

#include <hero/core/error.h>
#include <hero/core/io/print_number.h>
#include <hero/core/print.h>

namespace hero::core {
namespace {

// The elements that will be printed: all, or the edges of each long dimension.
class PrintedBlock {
 public:
  PrintedBlock(const Array& array, const PrintOptions& options)
      : array_(array), options_(options), summarised_(array.numel() > options.threshold) {
    const std::vector<int64_t> offsets = kept_offsets();
    dispatch(array.dtype(), [&](auto tag) {
      using T = typename decltype(tag)::type;
      const T* data = array.data<T>();
      if constexpr (std::is_same_v<T, bool>) {
        // As wide as "False", except for a single value on its own.
        for (const int64_t at : offsets) {
          texts_.push_back(data[at] ? (array.ndim() == 0 ? "True" : " True") : "False");
        }
      } else if constexpr (std::is_integral_v<T>) {
        std::vector<int64_t> values;
        values.reserve(offsets.size());
        for (const int64_t at : offsets) values.push_back(data[at]);
        texts_ = integer_texts(values);
      } else {
        std::vector<double> values;
        values.reserve(offsets.size());
        for (const int64_t at : offsets) values.push_back(convert<double>(data[at]));
        texts_ = float_texts(values, kDTypeOf<T>, options);
      }
    });
  }

  std::string text() {
    next_ = 0;
    return nested(0, " ", options_.line_width);
  }

 private:
  bool is_cut(int dim) const {
    const int64_t edge = options_.edge_items;
    return summarised_ && array_.shape()[dim] - edge > edge;
  }

  // Offsets of the printed elements from the first one, row-major.
  std::vector<int64_t> kept_offsets() const {
    std::vector<int64_t> offsets{0};
    for (int dim = 0; dim < array_.ndim(); ++dim) {
      const int64_t size = array_.shape()[dim], edge = options_.edge_items;
      std::vector<int64_t> wider;
      for (const int64_t base : offsets) {
        for (int64_t i = 0; i < size; ++i) {
          if (is_cut(dim) && i == edge) i = size - edge;
          if (i < size) wider.push_back(base + i * array_.strides()[dim]);
        }
      }
      offsets = std::move(wider);
    }
    return offsets;
  }

  // `indent` starts every line of this level, `width` is what is left of the line.
  std::string nested(int dim, const std::string& indent, int64_t width) {
    if (dim == array_.ndim()) return texts_[next_++];
    const std::string body =
        dim + 1 == array_.ndim() ? row(dim, indent, width) : rows(dim, indent, width);
    return '[' + body.substr(indent.size()) + ']';
  }

  // The number of leading items, then of trailing ones.
  std::pair<int64_t, int64_t> items(int dim) const {
    if (is_cut(dim)) return {options_.edge_items, options_.edge_items};
    return {0, array_.shape()[dim]};
  }

  std::string row(int dim, const std::string& indent, int64_t width) {
    const std::string_view separator = options_.separator;
    const int64_t room =
        width - std::max<int64_t>(static_cast<int64_t>(trimmed(separator).size()), 1);
    std::string done, line = indent;
    const auto append = [&](std::string_view word) {
      const bool wraps = static_cast<int64_t>(line.size() + word.size()) > room;
      if (wraps && line.size() > indent.size()) {  // an empty line would gain nothing
        done += trimmed(line);
        done += '\n';
        line = indent;
      }
      line += word;
    };
    const auto [leading, trailing] = items(dim);
    for (int64_t i = 0; i < leading; ++i) {
      append(nested(dim + 1, indent, width));
      line += separator;
    }
    if (is_cut(dim)) {
      append("...");
      if (trailing > 0) line += separator;
    }
    for (int64_t i = 0; i < trailing; ++i) {
      append(nested(dim + 1, indent, width));
      if (i + 1 < trailing) line += separator;
    }
    return done + line;
  }

  std::string rows(int dim, const std::string& indent, int64_t width) {
    std::string gap(trimmed(options_.separator));
    gap.append(static_cast<size_t>(array_.ndim() - dim - 1), '\n');
    const auto [leading, trailing] = items(dim);
    std::string body;
    for (int64_t i = 0; i < leading; ++i) {
      body += indent + nested(dim + 1, indent + ' ', width - 1) + gap;
    }
    if (is_cut(dim)) body += indent + "..." + (trailing > 0 ? gap : "");
    for (int64_t i = 0; i < trailing; ++i) {
      body += indent + nested(dim + 1, indent + ' ', width - 1);
      if (i + 1 < trailing) body += gap;
    }
    return body;
  }

  static std::string_view trimmed(std::string_view text) {
    return text.substr(0, text.find_last_not_of(" \t\n") + 1);
  }

  const Array& array_;
  const PrintOptions& options_;
  bool summarised_;
  std::vector<std::string> texts_;
  size_t next_ = 0;
};

}  // namespace

std::string format_values(const Array& array, const PrintOptions& options) {
  check(options.precision >= 0 && options.precision <= 100 && options.edge_items >= 0,
        "print: precision must be in [0, 100] and edge_items not negative: ", options.precision,
        ", ", options.edge_items);
  if (!array.defined() || array.device() == kMeta) return {};
  if (array.numel() == 0) return "[]";
  const Array here = array.to(kCpu);
  return PrintedBlock(here, options).text();
}

std::string describe(const Array& array) {
  return to_string(array.shape()) + " " + name(array.dtype()) + " " + to_string(array.device());
}

std::string to_string(const Array& array, std::string_view trailer, const PrintOptions& options) {
  std::string text = format_values(array, options);
  if (!text.empty()) text += '\n';
  text += trailer;
  return text;
}

std::string to_string(const Array& array, const PrintOptions& options) {
  return to_string(array, array.defined() ? "Array" + describe(array) : "Array undefined", options);
}

std::ostream& operator<<(std::ostream& out, const Array& array) { return out << to_string(array); }

}  // namespace hero::core
