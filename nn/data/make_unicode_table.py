#!/usr/bin/env python3
"""Writes nn/data/unicode_table.h: the code points at which the class of characters changes, from
Python's unicodedata. Usage: python3 nn/data/make_unicode_table.py >nn/data/unicode_table.h"""
import unicodedata

OTHER, LETTER, NUMBER, SPACE = range(4)
# Unicode's White_Space property, which unicodedata does not tell.
SPACES = {*range(0x09, 0x0E), 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029,
          0x202F, 0x205F, 0x3000}


def class_of(code):
    if code in SPACES:
        return SPACE
    return {"L": LETTER, "N": NUMBER}.get(unicodedata.category(chr(code))[0], OTHER)


entries, former = [], OTHER
for code in range(0x110000):
    now = class_of(code)
    if now != former:
        entries.append(f"0x{code << 2 | now:x},")
        former = now

print(f"""#pragma once
// Made by make_unicode_table.py from Unicode {unicodedata.unidata_version}; not edited by hand.
#include <cstdint>

namespace hero::nn::data {{

/// Code points at which the class of characters changes, ascending: code point << 2 | class from
/// there on. Classes: 0 other, 1 letter (category L), 2 number (N), 3 White_Space.
// clang-format off
inline constexpr uint32_t kUnicodeClasses[] = {{""")
line = ""
for entry in entries:
    if len(line) + len(entry) > 99:
        print(line)
        line = ""
    line += (" " if line else "") + entry
print(line)
print("""};
// clang-format on

}  // namespace hero::nn::data""")
