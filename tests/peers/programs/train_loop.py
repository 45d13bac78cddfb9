"""What every Python side of train_hero.cpp does with its networks: lines "CASE THREADS SECONDS" on
standard input are answered by the times of a step, arguments CASE THREADS STEPS take so many steps.
"""
import sys
import time


def serve(step_of):
    for line in sys.stdin:
        case, threads, seconds = line.split()
        step = step_of(case, int(threads))
        budget = float(seconds)
        times, spent = [], -0.2 * budget  # the first fifth warms up
        while spent < budget or not times:
            start = time.perf_counter()
            step()
            once = time.perf_counter() - start
            if spent >= 0.0:
                times.append(1e9 * once / getattr(step, "calls", 1))
            spent += once
        times.sort()
        print(f"{times[len(times) // 2]:.3f} {times[0]:.3f}", flush=True)


def run(step_of):
    """step_of(case, threads) makes a network and returns what takes one step of it."""
    if len(sys.argv) != 4:
        return serve(step_of)
    step = step_of(sys.argv[1], int(sys.argv[2]))
    for i in range(int(sys.argv[3])):
        step()
        if i == 0:
            print("first", flush=True)
