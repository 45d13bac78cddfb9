"""Sums a CSV file of ncu (--csv --page raw, metric gpu__time_duration.sum) by kernel.

    kernel_table.py FILE
"""
import csv
import re
import sys


def rows(lines):
    """(name, microseconds) of each launch; lines that ncu or the program says beside are passed over."""
    head, unit = None, 1.0
    for row in csv.reader(lines):
        if head is None:
            if "Kernel Name" in row and "gpu__time_duration.sum" in row:
                head = row.index("Kernel Name"), row.index("gpu__time_duration.sum")
        elif len(row) > max(head):
            name, value = row[head[0]], row[head[1]].replace(",", "")
            if not name:  # the line of units
                unit = {"ns": 1e-3, "nsecond": 1e-3, "us": 1.0, "usecond": 1.0, "ms": 1e3}.get(value, 1.0)
            elif re.fullmatch(r"[0-9.]+", value):
                yield name, float(value) * unit


def main():
    with open(sys.argv[1], encoding="utf-8", errors="replace") as file:
        sums = {}
        for name, time in rows(file):
            name = re.sub(r"\(.*", "", name.replace("(anonymous namespace)::", "").replace("void ", ""))
            count, total = sums.get(name, (0, 0.0))
            sums[name] = count + 1, total + time
    whole = sum(total for _, total in sums.values())
    if not sums:
        sys.exit(f"{sys.argv[1]}: no kernel in it")
    print(f"{'kernel':70} {'launches':>9} {'us':>10} {'share':>7}")
    for name, (count, total) in sorted(sums.items(), key=lambda item: -item[1][1]):
        print(f"{name[:70]:70} {count:9} {total:10.1f} {total / whole:7.1%}")
    print(f"{'all':70} {sum(count for count, _ in sums.values()):9} {whole:10.1f}")


if __name__ == "__main__":
    main()
