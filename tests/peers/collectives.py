"""Times collectives as threads, as processes, in plain MPI and in Gloo; started by tests/peers/collectives.

    collectives.py HERO_PROGRAM MPI_PROGRAM MPIEXEC [--ranks N...] [--json FILE]

Each side runs alone, one after the other. Microseconds a call, the best of five rounds, and how many
times as long as Hero's threads the others take. `native`: Hero's mpi backend with Order::native.
"""
import argparse
import json
import os
import subprocess
import sys

GLOO = os.path.join(os.path.dirname(os.path.abspath(__file__)), "programs", "collectives_gloo.py")
SIDES = ["threads", "mpi", "native", "Open MPI", "Gloo"]


def mpi_flags(mpiexec):
    version = subprocess.run([mpiexec, "--version"], capture_output=True, text=True).stdout
    if "Open MPI" not in version and "OpenRTE" not in version:
        return []
    root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    return ["--oversubscribe", "--bind-to", "none", *root]


def rows_of(command, environment):
    said = subprocess.run(command, env=os.environ | environment, capture_output=True, text=True)
    if said.returncode != 0:
        raise SystemExit(f"{' '.join(command)} failed:\n{said.stderr}")
    lines = [json.loads(line) for line in said.stdout.splitlines() if line.startswith("{")]
    return {(line["op"], line["bytes"]): line["us"] for line in lines}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("hero")
    parser.add_argument("plain")
    parser.add_argument("mpiexec")
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--json")
    options = parser.parse_args()
    sink = open(options.json, "w", encoding="utf-8") if options.json else None
    for ranks in options.ranks:
        crowded = ranks > len(os.sched_getaffinity(0))
        environment = {"OMPI_MCA_mpi_yield_when_idle": "1"} if crowded else {}
        start = [options.mpiexec, *mpi_flags(options.mpiexec), "-n", str(ranks)]
        commands = [[options.hero, "--ranks", str(ranks)], [*start, options.hero],
                    [*start, options.hero, "native"], [*start, options.plain],
                    [sys.executable, GLOO, str(ranks)]]
        results = [rows_of(command, environment) for command in commands]
        print(f"{ranks} ranks, us a call" + f"{'':16}" + "".join(f"{side:>12}" for side in SIDES) +
              "     times as long as threads")
        for key, us in results[0].items():
            times = [side.get(key) for side in results]
            text = "".join("           -" if t is None else f"{t:12.1f}" for t in times)
            ratios = "".join("       -" if t is None else f"{t / us:8.1f}" for t in times[1:])
            print(f"{key[0]:16} {key[1]:10} bytes {'':5}{text} {ratios}", flush=True)
            for side, t in zip(SIDES, times):
                if sink and t is not None:
                    sink.write(json.dumps({"ranks": ranks, "op": key[0], "bytes": key[1],
                                           "side": side, "us": t}) + "\n")


if __name__ == "__main__":
    main()
