"""Times Hero and PyTorch on one GPU in turns, and prints their ratios; started by tests/run --gpu.

    gpu.py HERO_BENCH_GPU [--seconds S] [--rounds R] [--out FOLDER] [--tiny] [--torch-device cpu]

Adds all times to results.jsonl in that folder as they come; what the programs complain of goes to
peers.err there. Both programs stay up (see gpu_torch.py and tests/cuda/bench/bench_gpu.cpp) and each waits
while the other is timed: A-B-A-B, medians of the rounds. First the rows with a goal beside eager
PyTorch, then the rest of those and the products of GPT-2's layers; what PyTorch must compile comes
last, since that takes minutes. What has no time left, or fails, is named in the table.
"""
import argparse
import json
import os
import select
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))

# what is asked: label, case, Hero's variant, PyTorch's, least PyTorch's time / Hero's (None: no goal)
RATIOS = [
    ("GPT-2 124M, B=16", "gpt2_b16", "eager", "eager", 1.6),
    ("GPT-2 124M, B=16", "gpt2_b16", "eager", "compile", 1.0),
    ("the same, cuDNN attention", "gpt2_b16", "cudnn", "compile", None),
    ("GPT-2 124M, B=1, graphed", "gpt2_b1", "graphed", "eager", 3),
    ("GPT-2 124M, B=1, graphed", "gpt2_b1", "graphed", "compile", None),
    ("GPT-2 124M, B=1, graphed", "gpt2_b1", "graphed", "graphed", None),
    ("cross entropy", "cross_entropy", "eager", "eager", 6),
    ("cross entropy", "cross_entropy", "eager", "compile", None),
    ("cross entropy in bf16", "cross_entropy_bf16", "eager", "eager", None),
    ("cross entropy in bf16", "cross_entropy_bf16", "eager", "compile", None),
    ("residual + layer norm", "add_layer_norm", "eager", "eager", 2),
    ("residual + layer norm", "add_layer_norm", "eager", "compile", None),
    ("clip + AdamW, 124M", "clip_adamw", "eager", "eager", 1.4),
    ("an op of a chain", "small_ops", "eager", "eager", 2.86),
    ("to the first GPT-2 step", "first_step", "eager", "eager", 3),
    ("to the first GPT-2 step", "first_step", "eager", "compile", None),
    ("copy", "copy", "eager", "eager", None),
    ("add", "add", "eager", "eager", None),
    ("sum", "sum", "eager", "eager", None),
    ("softmax", "softmax", "eager", "eager", None),
    ("layer norm", "layer_norm", "eager", "eager", None),
    ("layer norm", "layer_norm", "eager", "compile", None),
    ("embedding's gradient", "embedding_backward", "eager", "eager", None),
    ("sort", "sort", "eager", "eager", None),
    ("feed-forward part", "feed_forward", "eager", "eager", None),
    ("the same as two layers", "feed_forward", "two", "eager", None),
    ("weights' gradients", "weight_gradient", "eager", "eager", None),
    ("the same as two sums", "weight_gradient", "two", "eager", None),
    ("linear cross entropy", "linear_cross_entropy", "eager", "eager", None),
    ("attention", "attention", "eager", "eager", None),
    ("attention by cuDNN", "attention", "cudnn", "eager", None),
    ("attention, with backward", "attention_backward", "eager", "eager", None),
    ("the same by cuDNN", "attention_backward", "cudnn", "eager", None),
    ("product 4096 bfloat16", "matmul_4096_bfloat16", "eager", "eager", None),
    ("product 8192 bfloat16", "matmul_8192_bfloat16", "eager", "eager", None),
    ("product 4096 float32", "matmul_4096_float32", "eager", "eager", None),
]
# products of GPT-2's layers: no goal, since both sides call the same library
LAYERS = ("c_attn", "attn_c_proj", "c_fc", "mlp_c_proj", "lm_head")
RATIOS += [(f"{layer}, {kind}", f"gemm_{layer}_{kind}", "eager", "eager", None)
           for layer in LAYERS for kind in ("forward", "input", "weight")]
# bytes per second, as a share of the copy's: least share (None: no goal)
SHARES = {"cross_entropy": None, "cross_entropy_bf16": 0.85, "add_layer_norm": 0.85, "clip_adamw": 0.85, "add": 0.85,
          "sum": 0.85, "softmax": 0.85, "layer_norm": 0.85, "embedding_backward": None}
MEMORY = ("gpt2_b16", 0.7)  # most of PyTorch's peak


class Late(Exception):
    pass


class Deadline:
    def __init__(self, seconds):
        self.end = time.monotonic() + seconds

    def left(self):
        return max(0.0, self.end - time.monotonic())

    def check(self):
        if not self.left():
            raise Late  # nothing is started any more


class Side:
    """One of the two programs, started when it is first asked."""

    def __init__(self, name, command, deadline, folder, environment=None):
        self.name, self.command, self.deadline = name, command, deadline
        self.errors = open(os.path.join(folder, "peers.err"), "ab")
        self.environment = os.environ | (environment or {})
        self.process, self.started, self.text = None, None, b""

    def start(self):
        self.started, self.text = time.time(), b""
        self.process = subprocess.Popen(self.command + ["--serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=self.errors, env=self.environment)

    def stop(self):
        if self.process:
            self.process.kill()
            self.process.wait()
            self.process = None

    def ask(self, case, variant):
        """The answer for one round; raises Late when the time is over, RuntimeError when it failed."""
        self.deadline.check()
        if not self.process:
            self.start()
        try:
            self.process.stdin.write(f"{case} {variant}\n".encode())
            self.process.stdin.flush()
            answer = json.loads(self.line())
        except (OSError, ValueError) as error:
            self.stop()
            raise RuntimeError(f"ended: {error}, see {self.errors.name}") from error
        except Late:
            self.stop()
            raise
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer

    def line(self):
        """The next answer; what else the program's libraries print is passed over."""
        while True:
            line, end, rest = self.text.partition(b"\n")
            if end:
                self.text = rest
                if line.startswith(b"{"):
                    return line
                continue
            if not select.select([self.process.stdout], [], [], self.deadline.left())[0]:
                raise Late
            piece = os.read(self.process.stdout.fileno(), 65536)
            if not piece:
                raise ValueError("no answer")
            self.text += piece

    def first_step(self):
        """Seconds from the start of the program to the end of its first step."""
        self.deadline.check()
        try:
            done = subprocess.run(self.command + ["--first-step", repr(time.time())], env=self.environment,
                                  stdout=subprocess.PIPE, stderr=self.errors,
                                  timeout=max(0.01, self.deadline.left()), check=True)
            return json.loads(done.stdout.splitlines()[-1])  # others may have said something before
        except subprocess.TimeoutExpired as error:
            raise Late from error
        except subprocess.CalledProcessError as error:
            raise RuntimeError(f"exit status {error.returncode}, see {self.errors.name}") from error
        except (ValueError, IndexError) as error:
            raise RuntimeError(f"no time in its answer: {done.stdout[-200:]!r}") from error


class Results:
    """All answers, by side, case and variant; what went wrong instead, in words."""

    def __init__(self, folder):
        self.file = open(os.path.join(folder, "results.jsonl"), "a")
        self.answers, self.words = {}, {}

    def add(self, side, answer):
        print(json.dumps({"side": side} | answer), file=self.file, flush=True)
        self.answers.setdefault((side, answer["case"], answer["variant"]), []).append(answer)

    def median(self, side, case, variant, field="seconds"):
        found = self.answers.get((side, case, variant))
        return statistics.median(answer[field] for answer in found) if found else None


def plan(rounds):
    """What is measured, in order: (case, [(side, variant)], rounds); the first steps as ("first_step", [], rounds)."""
    timed = [row for row in RATIOS if row[1] != "first_step"]
    eager = [row for row in timed if row[3] == "eager"]
    compiled = [row for row in timed if row[3] != "eager"]
    with_goal = [row for row in eager if row[4] is not None]
    rest = [row for row in eager if row[4] is None]
    for rows, times in ((with_goal, rounds), (rest, max(2, rounds - 2)), (compiled, max(2, rounds - 2))):
        if rows is rest:
            yield "first_step", [], 2
        for case in dict.fromkeys(row[1] for row in rows):
            keys = [key for row in rows if row[1] == case for key in (("hero", row[2]), ("torch", row[3]))]
            yield case, list(dict.fromkeys(keys)), times


def measure(sides, results, rounds):
    """Fills `results`; A-B-A-B over the sides' variants of each case."""
    by_name = {side.name: side for side in sides}

    def turn(key, ask):
        if key in results.words:
            return
        try:
            results.add(key[0], ask())
        except Late:
            results.words[key] = "no time left"
        except RuntimeError as error:
            results.words[key] = str(error)

    cold = None  # when PyTorch began with what it compiles first
    for case, keys, times in plan(rounds):
        if case == "first_step":
            for side in sides * times:
                turn((side.name, case, "eager"), side.first_step)
            continue
        compiles = any(variant == "compile" for _, variant in keys)
        if compiles and cold is None and "torch" in by_name:
            by_name["torch"].stop()  # so that its first compiled step begins with nothing
            cold = case
            keys = sorted(keys, key=lambda key: key[1] != "compile")
        for _ in range(times):
            for name, variant in keys:
                if name in by_name:
                    turn((name, case, variant), lambda: by_name[name].ask(case, variant))
        if compiles and cold == case:
            found = results.answers.get(("torch", case, "compile"))
            if found and not results.answers.get(("torch", "first_step", "compile")):
                results.add("torch", {"case": "first_step", "variant": "compile",
                                      "seconds": found[0]["first_call"] - by_name["torch"].started})


def text_of(seconds):
    for unit, size in (("s", 1), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.4g} {unit}"
    return f"{seconds * 1e6:.4g} us"


def verdict(met):
    return "" if met is None else "met" if met else "MISSED"


def print_ratios(results, missing):
    print(f"{'':26} {'beside':8} {'Hero':>10} {'PyTorch':>10} {'ratio':>7} {'goal':>6}")
    for label, case, variant, other, goal in RATIOS:
        hero, torch = results.median("hero", case, variant), results.median("torch", case, other)
        word = results.words.get(("hero", case, variant)) or results.words.get(("torch", case, other)) or missing
        cells = [text_of(s) if s else "-" for s in (hero, torch)]
        line = f"{label:26} {other:8} {cells[0]:>10} {cells[1]:>10}"
        if hero and torch:
            what = {a["what"] for who, v in (("hero", variant), ("torch", other))
                    for a in results.answers[who, case, v] if "what" in a}
            if len(what) > 1:
                word = f"NOT THE SAME WORK: {' and '.join(sorted(what))}"
            ratio = hero and torch / hero
            line += f" {ratio:7.2f} {goal or '':>6} {verdict(goal and ratio >= goal)}"
        else:
            line += f" {'-':>7} {goal or '':>6}"
        print(f"{line} {word or ''}".rstrip())


def print_shares(results):
    copied = results.answers.get(("hero", "copy", "eager"))
    if not copied:
        return
    copy = copied[0]["amount"] / results.median("hero", "copy", "eager")
    print(f"\nbytes that must be moved, beside a copy's {copy * 1e-9:.0f} GB/s")
    for case, goal in SHARES.items():
        row = []
        for side in ("hero", "torch"):
            seconds, hero = results.median(side, case, "eager"), results.answers.get(("hero", case, "eager"))
            row.append(hero[0]["amount"] / seconds / copy if seconds and hero else None)
        cells = [f"{share:.2f}" if share else "-" for share in row]
        print(f"{case:26} {'':8} {cells[0]:>10} {cells[1]:>10} {'':7} {goal or '':>6} "
              f"{verdict(goal and row[0] and row[0] >= goal)}".rstrip())


def print_memory(results):
    case, goal = MEMORY
    peaks = {v: results.median(s, case, v, "peak_bytes") for s, v in (("torch", "eager"), ("torch", "compile"))}
    hero = results.median("hero", case, "eager", "peak_bytes")
    if not hero:
        return
    print(f"\npeak memory of {case}: Hero {hero / 2**30:.2f} GiB")
    for variant, peak in peaks.items():
        if peak:
            print(f"{'':26} {variant:8} {'':10} {peak / 2**30:6.2f} GiB {hero / peak:7.2f} "
                  f"{goal if variant == 'eager' else '':>6} {verdict(hero / peak <= goal) if variant == 'eager' else ''}"
                  .rstrip())


def why_no_torch(device):
    """"" where PyTorch can be used, else why not."""
    test = f"import torch; torch.empty(1, device={device!r}); print(torch.__version__)"
    done = subprocess.run([sys.executable, "-c", test], capture_output=True, text=True)
    if done.returncode == 0:
        print(f"PyTorch {done.stdout.strip()}")
        return ""
    lines = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
    return f"no PyTorch here ({lines[-1]})"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("hero")
    parser.add_argument("--seconds", type=float, default=200)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", default=".")
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--torch-device", default="cuda")
    options = parser.parse_args()
    deadline, tiny = Deadline(options.seconds), ["--tiny"] if options.tiny else []
    results = Results(options.out)
    sides = [Side("hero", [options.hero] + tiny, deadline, options.out)]
    missing = why_no_torch(options.torch_device)
    # empty: a program that compiles begins with nothing; its workers may still write at the end
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as cache:
        if not missing:
            command = [sys.executable, os.path.join(HERE, "gpu_torch.py"), "--device", options.torch_device]
            sides.append(Side("torch", command + tiny, deadline, options.out,
                              {"TORCHINDUCTOR_CACHE_DIR": cache, "TRITON_CACHE_DIR": cache + "/triton"}))
        try:
            measure(sides, results, options.rounds)
        finally:
            for side in sides:
                side.stop()
    print_ratios(results, missing)
    print_shares(results)
    print_memory(results)
    # a machine may lack cuDNN; its rows say so
    hero = [key for key in results.words if key[0] == "hero" and key[2] != "cudnn"]
    return 1 if hero or not results.answers else 0


if __name__ == "__main__":
    sys.exit(main())
