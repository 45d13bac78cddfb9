#pragma once
// For the option parsers of this folder: numbers that pass a test.
#include <functional>
#include <string>

namespace CLI {
class Validator;
}

namespace tutorial {

/// Accepts a text that is as a whole a finite number and passes `test`; else "<text> is not
/// <what>". CLI11's own conversion would let "nan" pass every range.
CLI::Validator number_that(const std::function<bool(double)>& test, const std::string& what);

}  // namespace tutorial
