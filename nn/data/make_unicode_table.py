#!/usr/bin/env python3
"""Writes nn/data/unicode_table.h from Python's unicodedata: the classes of characters, the characters of
words, and what canonical composition (NFC) needs. Usage:

    python3 nn/data/make_unicode_table.py >nn/data/unicode_table.h
"""
import unicodedata

OTHER, LETTER, NUMBER, SPACE = range(4)
# Unicode's White_Space property, which unicodedata does not tell.
SPACES = {*range(0x09, 0x0E), 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029,
          0x202F, 0x205F, 0x3000}
# What else a word has: Join_Control, and symbols that are Alphabetic (letters in circles and squares).
JOINERS = {0x200C, 0x200D}
ALPHABETIC_SYMBOLS = {*range(0x24B6, 0x24EA), *range(0x1F130, 0x1F14A), *range(0x1F150, 0x1F16A),
                      *range(0x1F170, 0x1F18A)}
HANGUL = range(0xAC00, 0xD7A4)  # composed by arithmetic


def class_of(code):
    if code in SPACES:
        return SPACE
    return {"L": LETTER, "N": NUMBER}.get(unicodedata.category(chr(code))[0], OTHER)


def in_word(code):
    category = unicodedata.category(chr(code))
    return (category[0] in "LM" or category in ("Nd", "Nl", "Pc") or code in JOINERS or
            code in ALPHABETIC_SYMBOLS)


def changes(value_of, shift):
    """The code points at which a value changes, with the value from there on."""
    entries, former = [], 0
    for code in range(0x110000):
        now = int(value_of(code))
        if now != former:
            entries.append(f"0x{code << shift | now:x},")
            former = now
    return entries


def canonical():
    """Rows of code point, its first and its second part (0: none), and the order of those that compose."""
    rows = []
    for code in range(0x110000):
        parts = unicodedata.decomposition(chr(code))
        if parts and not parts.startswith("<") and code not in HANGUL:
            first, *second = (int(part, 16) for part in parts.split())
            rows.append((code, first, second[0] if second else 0))
    composing = [i for i, (code, first, second) in enumerate(rows)
                 if second and unicodedata.normalize("NFC", chr(first) + chr(second)) == chr(code)]
    composing.sort(key=lambda i: rows[i][1:])
    assert len(rows) < 1 << 16
    return [f"{{0x{a:x}, 0x{b:x}, 0x{c:x}}}," for a, b, c in rows], [f"{i}," for i in composing]


def lines(entries):
    line = ""
    for entry in entries:
        if len(line) + len(entry) > 99:
            yield line
            line = ""
        line += (" " if line else "") + entry
    yield line


def table(comment, declaration, entries):
    text = "".join(f"/// {line}\n" for line in comment.split("\n"))
    print(f"\n{text}inline constexpr {declaration}[] = {{")
    print("\n".join(lines(entries)))
    print("};")


print(f"""#pragma once
// Made by make_unicode_table.py from Unicode {unicodedata.unidata_version}; not edited by hand.
#include <cstdint>

namespace hero::nn::data {{
// clang-format off""")
table("Code points at which the class of characters changes, ascending: code point << 2 | class from\n"
      "there on. Classes: 0 other, 1 letter (category L), 2 number (N), 3 White_Space.",
      "uint32_t kUnicodeClasses", changes(class_of, 2))
table("Code points at which a run of characters of words begins or ends, ascending:\n"
      "code point << 1 | whether it begins.", "uint32_t kUnicodeWords", changes(in_word, 1))
table("Code points at which the canonical combining class changes, ascending: code point << 8 | class\n"
      "from there on.", "uint32_t kUnicodeCombining",
      changes(lambda code: unicodedata.combining(chr(code)), 8))
rows, composing = canonical()
print("""
/// A character and the one or two that are canonically equivalent to it.
struct UnicodeParts {
  uint32_t whole;   ///< the character
  uint32_t first;   ///< what it begins with
  uint32_t second;  ///< the other; 0: there is none
};""")
table("Canonical decompositions but Hangul's, in the order of `whole`.", "UnicodeParts kUnicodeParts", rows)
table("Places in kUnicodeParts of those pairs that NFC composes, in the order of first and second.",
      "uint16_t kUnicodeComposing", composing)
print("""// clang-format on

}  // namespace hero::nn::data""")
