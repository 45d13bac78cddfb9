#include <algorithm>
#include <charconv>
#include <cmath>
#include <system_error>

#include <hero/core/error.h>
#include <hero/core/io/file.h>
#include <hero/core/io/name_list.h>
#include <hero/nn/data/bytes.h>
#include <hero/nn/data/csv.h>

namespace hero::nn::data {
namespace {

// Rows of fields, one at a time.
class Reader {
 public:
  Reader(std::string_view text, const std::string& label, const CSVOptions& options)
      : text_(text), label_(label), options_(options) {
    if (text_.starts_with("\xef\xbb\xbf")) at_ = 3;  // a byte order mark
    const bool marked = text_.starts_with("\xff\xfe") || text_.starts_with("\xfe\xff");
    check(!marked && text_.find('\0') == text_.npos, "load_csv: ", label_, " ",
          marked ? "begins with the mark of UTF-16" : "has a zero byte, as UTF-16 has",
          "; save it as UTF-8");
  }

  // The next row that is not an empty line; false at the end.
  bool next(std::vector<std::string>& fields) {
    while (at_ < text_.size() && line_end()) pass_line_end();
    if (at_ == text_.size()) return false;
    row_line_ = line_;
    fields.clear();
    while (true) {
      fields.push_back(field(fields.size()));
      if (at_ == text_.size()) return true;
      if (line_end()) {
        pass_line_end();
        return true;
      }
      ++at_;  // the delimiter
    }
  }

  /// Where the row that next() gave begins.
  std::string place() const { return "load_csv: " + label_ + " line " + std::to_string(row_line_); }

 private:
  bool line_end() const { return text_[at_] == '\n' || text_[at_] == '\r'; }
  void pass_line_end() {
    at_ += text_.substr(at_, 2) == "\r\n" ? 2 : 1;
    ++line_;
  }
  std::string field(size_t column) {
    if (at_ < text_.size() && text_[at_] == options_.quote) return quoted(column);
    const size_t begin = at_;
    while (at_ < text_.size() && text_[at_] != options_.delimiter && !line_end()) ++at_;
    return std::string(text_.substr(begin, at_ - begin));
  }
  std::string quoted(size_t column) {
    std::string value;
    ++at_;
    while (true) {
      const size_t end = text_.find(options_.quote, at_);
      check(end != text_.npos, place(), ", column ", column + 1, ": a quote is not closed");
      const std::string_view piece = text_.substr(at_, end - at_);
      value += piece;
      line_ += std::count(piece.begin(), piece.end(), '\n');
      at_ = end + 1;
      if (at_ == text_.size() || text_[at_] != options_.quote) break;
      value += options_.quote;
      ++at_;
    }
    check(at_ == text_.size() || text_[at_] == options_.delimiter || line_end(), place(),
          ", column ", column + 1, ": text after a closing quote");
    return value;
  }

  std::string_view text_;
  const std::string& label_;
  const CSVOptions& options_;
  size_t at_ = 0;
  int64_t line_ = 1;
  int64_t row_line_ = 1;
};

std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t");
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

// The number in a field; `where` tells the place of one that has none.
template <class Where>
double number(std::string_view field, const CSVOptions& options, const Where& where) {
  const std::string_view text = trimmed(field);
  if (text.empty()) {
    check(options.missing.has_value(), where(), "the field is empty; set `missing`");
    return *options.missing;
  }
  const bool plus = text.size() > 1 && text[0] == '+' && text[1] != '-';
  const char* const begin = text.data() + (plus ? 1 : 0);
  const char* const end = text.data() + text.size();
  double value = 0;
  const auto parsed = std::from_chars(begin, end, value);
  check(parsed.ec != std::errc::result_out_of_range, where(), "the number is outside float64: '",
        core::cut_text(text), "'");
  check(parsed.ec == std::errc{} && parsed.ptr == end, where(), "not a number: '",
        core::cut_text(text), "'");
  check(options.dtype == kFloat64 || !std::isfinite(value) ||
            std::isfinite(static_cast<float>(value)),
        where(), "the number is outside float32: '", core::cut_text(text), "'; read it as float64");
  return value;
}

std::string listed(const std::vector<std::string>& names) {
  core::NameList list;
  for (const std::string& name : names) list.add("'" + name + "'");
  return list.text();
}

size_t find_column(const std::vector<std::string>& names, std::string_view name,
                   const std::string& label) {
  const auto found = std::find(names.begin(), names.end(), name);
  check(found != names.end(), "load_csv: ", label, " has no column '", core::cut_text(name),
        "', it has ", listed(names));
  check(std::find(found + 1, names.end(), name) == names.end(), "load_csv: ", label,
        " has the column '", core::cut_text(name), "' twice");
  return static_cast<size_t>(found - names.begin());
}

}  // namespace

Array CSVTable::column(std::string_view name) const {
  return values.select(1, static_cast<int64_t>(find_column(names, name, "the table")));
}

CSVTable parse_csv(std::string_view text, const std::string& label, const CSVOptions& options) {
  check(options.dtype == kFloat32 || options.dtype == kFloat64,
        "load_csv: numbers can be float32 or float64, not ", options.dtype);
  check(options.delimiter != options.quote, "load_csv: delimiter and quote are the same");
  Reader reader(text, label, options);
  std::vector<std::string> fields, names;
  bool more = reader.next(fields);
  check(more, "load_csv: ", label, " is empty");
  if (options.header) {
    for (const std::string& field : fields) names.emplace_back(trimmed(field));
    more = reader.next(fields);
  } else {
    for (size_t i = 0; i < fields.size(); ++i) names.push_back(std::to_string(i));
  }
  CSVTable table;
  table.names = options.columns.empty() ? names : options.columns;
  std::vector<size_t> wanted;
  for (size_t i = 0; i < table.names.size(); ++i) {
    wanted.push_back(options.columns.empty() ? i : find_column(names, table.names[i], label));
  }
  std::vector<double> values;
  int64_t rows = 0;
  for (; more; more = reader.next(fields), ++rows) {
    check(fields.size() == names.size(), reader.place(), ": ", fields.size(), " fields, expected ",
          names.size());
    for (const size_t column : wanted) {
      values.push_back(number(fields[column], options, [&] {
        return reader.place() + ", column '" + names[column] + "': ";
      }));
    }
  }
  table.values = Array::from(values, {rows, static_cast<int64_t>(wanted.size())}).to(options.dtype);
  return table;
}

CSVTable load_csv(const std::string& path, const CSVOptions& options) {
  return with_file_errors("load_csv", path,
                          [&] { return parse_csv(read_text(path), path, options); });
}

}  // namespace hero::nn::data
