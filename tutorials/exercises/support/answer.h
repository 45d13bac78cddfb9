#pragma once
// What every answer to an exercise may call.

namespace exercise {

/// Stands where an answer has a gap: ends the grade with "not yet" and with `what` is to be
/// written.
[[noreturn]] void to_write(const char* what);

}  // namespace exercise
