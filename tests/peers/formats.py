"""Sends arrays through Hero's files and printer and compares with NumPy and safetensors.

    python3 -m venv build/venv && build/venv/bin/pip install numpy safetensors ml_dtypes
    build/venv/bin/python tests/peers/formats.py [build folder, default build/release]

Needs NumPy 2.4 or later for the printed text (it changed its cut-offs then).
"""
import pathlib
import subprocess
import sys
import tempfile

import ml_dtypes
import numpy as np
import safetensors
import safetensors.numpy

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / (sys.argv[1] if len(sys.argv) > 1 else "build/release")
DTYPES = ["bool", "uint8", "int32", "int64", "float16", "float32", "float64"]
SHAPES = [(), (0,), (1,), (7,), (3, 4), (2, 0, 3), (2, 3, 4, 5)]
rng = np.random.default_rng(0)


def built(folder):
    program = folder / "formats"
    core, kernels = (str(BUILD / f"libhero_{name}.a") for name in ("core", "cpu_kernels"))
    # the table of kernels: nothing refers to it by name (cmake/HeroKernels.cmake)
    libraries = [core, "-Wl,--undefined=_ZN4hero4core3cpu10kernels_v3Ev", kernels, core, "-lz", "-lpthread"]
    subprocess.run(["g++", "-std=c++20", "-O1", f"-I{BUILD}/include",
                    str(ROOT / "tests/peers/programs/formats.cpp"), *libraries, "-o", str(program)], check=True)
    return program


def random_array(dtype, shape):
    bits = rng.integers(0, 256, (*shape, np.dtype(dtype).itemsize), dtype=np.uint8)
    if dtype == "bool":
        bits &= 1
    return np.ascontiguousarray(bits).view(dtype).reshape(shape)


def same(a, b):
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def check_npy(program, folder):
    count = 0
    for dtype in DTYPES:
        for shape in SHAPES:
            for order in "CF":
                array = np.asarray(random_array(dtype, shape), order=order)
                for version in [(1, 0), (2, 0), (3, 0)]:
                    with open(folder / "in.npy", "wb") as file:
                        np.lib.format.write_array(file, array, version=version)
                    subprocess.run([program, "npy", folder / "in.npy", folder / "out.npy"], check=True)
                    assert same(np.load(folder / "out.npy"), np.ascontiguousarray(array).reshape(shape)), (dtype, shape)
                    count += 1
    # A C-ordered file of version 1 comes back byte for byte.
    np.save(folder / "in.npy", rng.random((3, 5)))
    subprocess.run([program, "npy", folder / "in.npy", folder / "out.npy"], check=True)
    assert (folder / "in.npy").read_bytes() == (folder / "out.npy").read_bytes()
    print(f"npy: {count} files the same")


def check_safetensors(program, folder):
    arrays = {f"{dtype}.{shape} é\"\n": random_array(dtype, shape)
              for dtype in [*DTYPES, "bfloat16"] for shape in SHAPES}
    metadata = {"format": "pt", "note": "tab\t and ü"}
    safetensors.numpy.save_file(arrays, folder / "in.safetensors", metadata)
    subprocess.run([program, "safetensors", folder / "in.safetensors", folder / "out.safetensors"], check=True)
    back = safetensors.numpy.load_file(folder / "out.safetensors")
    assert set(back) == set(arrays)
    assert all(same(np.asarray(back[name]), arrays[name]) for name in arrays)
    with safetensors.safe_open(folder / "out.safetensors", "numpy") as file:
        assert file.metadata() == metadata
    print(f"safetensors: {len(arrays)} tensors the same")


def check_print(program, folder):
    every_half = np.arange(65536, dtype=np.uint16).view(np.float16)
    finite = np.sort(every_half[np.isfinite(every_half)])
    cases = [every_half, *np.array_split(finite, 40)]
    cases += [random_array(d, (500,)) for d in ["float32", "float64", "float16"]]
    for scale in [1e-3, 1.0, 1e3, 1e5]:
        cases += [(scale * rng.standard_normal(500)).astype(d) for d in ["float32", "float64"]]
    for array in cases:
        for precision in [0, 3, 4, 8, 17]:
            np.save(folder / "in.npy", array)
            got = subprocess.run([program, "print", folder / "in.npy", str(precision)], check=True,
                                 capture_output=True, text=True).stdout
            want = np.array2string(array, precision=precision, threshold=2**40)
            assert got == want, (array.dtype, precision)
    print(f"print: {5 * len(cases)} texts the same")


with tempfile.TemporaryDirectory() as name:
    work = pathlib.Path(name)
    tool = built(work)
    check_npy(tool, work)
    check_safetensors(tool, work)
    check_print(tool, work)
