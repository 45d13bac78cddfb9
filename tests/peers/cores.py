"""Times Hero, and PyTorch beside it where Python has it, on more and more cores; started by tests/peers/cores and by
tests/run --gpu --cores.

    cores.py TRAIN_PROGRAM CORES_PROGRAM [--threads T...] [--seconds S] [--rounds R] [--limit S] [--out FILE]
        [--cases CASE...]
    cores.py --draw RESULTS FIGURE

Each case is timed with each number of threads by both in turns; the figure is the least of the rounds' medians. It is
a line of JSON in FILE as soon as it is there, and what the last number of threads brings is said at the end of a case's
row. After --limit seconds none begins. --draw makes an SVG of such lines: how many times faster than on one
thread, beside what would be ideal.
"""
import argparse
import importlib.util
import json
import os
import sys
import time
from math import log2

from speed import TORCH_ENVIRONMENT, Side, least_medians

NETWORKS = ["mlp", "gpt_128", "gpt_384", "cnn", "resnet18"]
PARTS = ["matmul_512", "matmul_2048", "sum", "region", "all_reduce", "loader"]
ALONE = ["region", "all_reduce"]  # PyTorch has none, or none of its threads
GROWS = ["region", "all_reduce"]  # with more threads there is more to do
TORCH = [sys.executable, os.path.join(os.path.dirname(os.path.abspath(__file__)), "programs", "cores_torch.py")]


def all_threads():
    """1, 2, 4 and so on, up to the cores that this process may use."""
    cores = len(os.sched_getaffinity(0))
    return [t for t in (1, 2, 4, 8, 16, 32, 64) if t <= cores]


def measure(options):
    begin = time.monotonic()
    hero = {False: Side([options.programs[0]], {}), True: Side([options.programs[1]], {})}
    torch = Side(TORCH, TORCH_ENVIRONMENT) if importlib.util.find_spec("torch") else None
    threads = options.threads or all_threads()
    out = open(options.out, "a", encoding="utf-8") if options.out else None
    print(f"ms{'':10}" + "".join(f"{t:>20}" for t in threads) + "   Hero (PyTorch / Hero); faster at the last", flush=True)
    for case in options.cases or [*PARTS, *NETWORKS]:
        row = []
        for count in threads:
            if options.limit is not None and time.monotonic() - begin > options.limit:
                print(f"{case}: no time left", flush=True)
                return 1
            sides = {"hero": hero[case in PARTS]}
            if torch and case not in ALONE:
                sides["torch"] = torch
            times = least_medians(sides.values(), case, count, options)
            best = {name: nanoseconds / 1e6 for name, nanoseconds in zip(sides, times)}
            row.append(best)
            if out:
                print(json.dumps({"cores_case": case, "threads": count, "ms": best}), file=out, flush=True)
        texts = [f"{best['hero']:.4g}" + (f" ({best['torch'] / best['hero']:.2f})" if "torch" in best else "") for best in row]
        faster = row[0]["hero"] / row[-1]["hero"]
        print(f"{case:12}" + "".join(f"{text:>20}" for text in texts) + f"   {faster:.2f}", flush=True)
    return 0


def draw(results, figure):
    rows = {}
    with open(results, encoding="utf-8") as lines:
        for line in lines:
            if line.startswith('{"cores_case"'):
                row = json.loads(line)
                rows.setdefault(row["cores_case"], {})[row["threads"]] = row["ms"]
    cases = [case for case in rows if case not in GROWS and 1 in rows[case]]
    if not cases:
        raise SystemExit(f"cores.py: {results} has no times at one thread")
    most = max(max(times) for times in rows.values())
    ways = most.bit_length() - 1
    wide, high, gap = 190, 150, 20  # a frame: doubled threads to the right, how many times faster upwards

    def line_of(times, name, at):
        points = []
        for count, ms in sorted(times.items()):
            if name in ms:
                faster = max(times[1][name] / ms[name], 0.5)
                x = at[0] + wide * (count.bit_length() - 1) / max(ways, 1)
                points.append(f"{x:.1f},{at[1] + high - high * (1 + log2(faster)) / (ways + 1.5):.1f}")
        return " ".join(points)

    height = 80 + (len(cases) + 2) // 3 * (high + 2 * gap + 16)
    svg = [f'<svg xmlns="http://www.w3.org/2000/svg" width="660" height="{height}" viewBox="0 0 660 {height}" '
           'font-family="DejaVu Sans, sans-serif" font-size="16">',
           "<title>How many times faster on more threads</title>",
           f'<rect width="660" height="{height}" fill="#ffffff"/>',
           '<text x="10" y="28" font-size="21" fill="#111111">How many times faster on more threads</text>',
           f'<text x="10" y="54"><tspan fill="#0072b2">Hero</tspan>, <tspan fill="#d55e00">PyTorch</tspan>, '
           f'<tspan fill="#999999">ideal</tspan>; 1 to {most} threads, both axes double at each step</text>']
    for i, case in enumerate(cases):
        at = 10 + i % 3 * (wide + gap), 80 + i // 3 * (high + 2 * gap + 16) + gap
        ideal = {count: {"ideal": 1 / count} for count in rows[case]}
        svg.append(f'<text x="{at[0]}" y="{at[1] - 4}" fill="#111111">{case}</text>')
        svg.append(f'<rect x="{at[0]}" y="{at[1]}" width="{wide}" height="{high}" fill="none" stroke="#cccccc"/>')
        for name, times, colour in (("ideal", ideal, "#999999"), ("torch", rows[case], "#d55e00"),
                                    ("hero", rows[case], "#0072b2")):
            points = line_of(times, name, at)
            if points:
                svg.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>')
    with open(figure, "w", encoding="utf-8") as file:
        file.write("\n".join([*svg, "</svg>", ""]))
    return 0


def main():
    if sys.argv[1:2] == ["--draw"] and len(sys.argv) == 4:
        return draw(*sys.argv[2:])
    parser = argparse.ArgumentParser()
    parser.add_argument("programs", nargs=2)
    parser.add_argument("--threads", type=int, nargs="+")
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--limit", type=float)
    parser.add_argument("--out")
    parser.add_argument("--cases", nargs="+", choices=[*PARTS, *NETWORKS])
    return measure(parser.parse_args())


if __name__ == "__main__":
    sys.exit(main())
