#pragma once
// CSV files of numbers (RFC 4180).
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <hero/core/array.h>

namespace hero::nn::data {

/// Options of load_csv() and parse_csv().
struct CSVOptions {
  char delimiter = ',';  ///< what separates two fields
  /// Quoted fields may contain delimiters and line ends; written twice, it is itself.
  char quote = '"';
  bool header = true;  ///< whether the first row has names; else they are "0", "1", ...
  std::vector<std::string> columns = {};  ///< which columns to read, in this order; empty: all
  DType dtype = kFloat32;                 ///< dtype of the values: float32 or float64
  std::optional<double> missing = {};  ///< value of an empty field, which is an Error when absent
};

/// Named columns of numbers.
struct CSVTable {
  std::vector<std::string> names;  ///< the names of the columns
  Array values;                    ///< [rows, names.size()]

  /// One column, [rows]. Throws an Error that lists the names if there is no column of this name.
  Array column(std::string_view name) const;
};

/// Reads a CSV file in UTF-8, plain or .gz; lines end with LF, CR LF or CR, and empty ones are
/// skipped. Only the columns that are read need to be numbers. A malformed row, or a number too
/// large for the dtype, is an Error with file, line and column; so is a file in UTF-16.
CSVTable load_csv(const std::string& path, const CSVOptions& options = {});

/// Reads the same from a text; `label` names it in errors.
CSVTable parse_csv(std::string_view text, const std::string& label, const CSVOptions& options = {});

}  // namespace hero::nn::data
