"""A library of GPU code with the machine code of one kind of GPU alone, so that it can be carried.

usage: keep_arch.py LIBRARY RESULT KIND     (KIND: 90 for sm_90)

CUDA's code lies in containers, each a header and then entries, one for each kind of GPU: machine code
or PTX, a header before each. A driver takes the entry of its own kind. The bytes of all others become
zeros here, in their places, which a compressor removes; headers stay. Ends with 1 where there is no code
of that kind.
"""

import struct
import sys

CONTAINER = struct.Struct("<IHHQ")  # magic, version, bytes of this header, bytes behind it
MAGIC = struct.pack("<I", 0xBA55ED50)
ENTRY = struct.Struct("<HHIQ")  # what it is, version, bytes of this header, bytes behind it
PTX, MACHINE_CODE = 1, 2
KIND_AT = 28  # in the header of an entry, 4 bytes
LEAST_HEADER = 64


def containers(data):
    """Begin and end of the entries of each container."""
    at = data.find(MAGIC)
    while at >= 0:
        end = at + len(MAGIC)
        if at + CONTAINER.size <= len(data):
            _, version, header, size = CONTAINER.unpack_from(data, at)
            if version == 1 and header >= CONTAINER.size and at + header + size <= len(data):
                end = at + header + size
                yield at + header, end
        at = data.find(MAGIC, end)


def entries(data, begin, end):
    """What each entry is, its kind of GPU, and where its bytes lie."""
    while begin + LEAST_HEADER <= end:
        what, _, header, size = ENTRY.unpack_from(data, begin)
        if what not in (PTX, MACHINE_CODE) or header < LEAST_HEADER or begin + header + size > end:
            return
        (kind,) = struct.unpack_from("<I", data, begin + KIND_AT)
        yield what, kind, slice(begin + header, begin + header + size)
        begin += header + size


def keep(data, wanted):
    """Zeroes the bytes of all other entries of `data`, a bytearray; bytes kept and zeroed."""
    kept = zeroed = 0
    for begin, end in containers(data):
        for what, kind, place in entries(data, begin, end):
            size = place.stop - place.start
            if what == MACHINE_CODE and kind == wanted:
                kept += size
            else:
                data[place] = bytes(size)
                zeroed += size
    return kept, zeroed


def main():
    if len(sys.argv) != 4 or not sys.argv[3].isdigit():
        sys.exit(__doc__)
    library, result, kind = sys.argv[1], sys.argv[2], int(sys.argv[3])
    with open(library, "rb") as file:
        data = bytearray(file.read())
    kept, zeroed = keep(data, kind)
    if kept == 0:
        sys.exit(f"{library}: no code for sm_{kind}")
    with open(result, "wb") as file:
        file.write(data)
    print(f"{library}: {kept / 1e6:.1f} MB for sm_{kind}, {zeroed / 1e6:.1f} MB for others left out")


if __name__ == "__main__":
    main()
