#pragma once
// CSV files of numbers (RFC 4180).
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <hero/core/array.h>

namespace hero::nn::data {

struct CSVOptions {
  char delimiter = ',';
  char quote = '"';    ///< a quoted field may hold delimiters and line ends; twice it is itself
  bool header = true;  ///< the first row has the columns' names; else they are "0", "1", ...
  std::vector<std::string> columns = {};  ///< which to read, in this order; empty: all
  DType dtype = kFloat32;                 ///< float32 or float64
  std::optional<double> missing = {};     ///< stands for an empty field, which else is an Error
};

/// Columns by name, and their numbers.
struct CSVTable {
  std::vector<std::string> names;
  Array values;  ///< [rows, names.size()]

  /// One column, [rows]; an Error that lists the names when there is none of that name.
  Array column(std::string_view name) const;
};

/// Reads a CSV file, plain or .gz; lines that are empty are passed over. Only the columns asked for
/// must be numbers. A row that is malformed is an Error with file, line and column.
CSVTable load_csv(const std::string& path, const CSVOptions& options = {});

/// The same from a text; `label` names it in errors.
CSVTable parse_csv(std::string_view text, const std::string& label, const CSVOptions& options = {});

}  // namespace hero::nn::data
