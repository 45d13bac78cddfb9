"""Writes print.json with NumPy itself (2.4): arrays, printing options, and the text NumPy prints.
Values are hexadecimal doubles; special ones are nan, inf, -inf."""
import json
import pathlib

import numpy as np

rng = np.random.RandomState(0)
cases = []


def add(values, dtype, shape=None, **options):
    array = np.asarray(values)
    if array.dtype.kind == "f" and dtype.startswith("float"):
        array = array.astype(dtype)
    array = np.asarray(array, dtype=dtype)
    if shape is not None:
        array = array.reshape(shape)
    given = {"precision": 4, "threshold": 1000, "edgeitems": 3, "max_line_width": 75,
             "suppress_small": False, "separator": " "}
    given.update(options)
    text = np.array2string(array, **given)
    kind = array.dtype.kind
    flat = [v.item() for v in array.ravel()]
    flat = [float(v).hex() if kind == "f" else int(v) for v in flat]
    cases.append({"dtype": dtype, "shape": list(array.shape), "values": flat,
                  "options": given, "text": text})


for dtype in ["float32", "float64", "float16"]:
    add(1.0, dtype)
    add(-2.5, dtype)
    add(np.nan, dtype)
    add([], dtype)
    add(np.zeros((0, 3)), dtype)
    add([1.0, 2.0, 3.0], dtype)
    add([1.0, -2.5, 0.125], dtype)
    add([0.1, 0.2, 0.3], dtype)
    add([0.1, 0.2, 0.3], dtype, precision=8)
    add([0.1, 0.2, 0.3], dtype, precision=17)
    add([1 / 3, 2 / 3, 100 / 3], dtype)
    add([1 / 3, 2 / 3, 100 / 3], dtype, precision=0)
    add([0.5, 1.5, 2.5, -0.5], dtype, precision=0)
    add([0.00048828125, 0.0001220703125, 1.0], dtype, precision=3)
    add([1e-4, 1.0], dtype)
    add([1e-4, 0.05], dtype)
    add([0.0001, 0.0002], dtype)
    add([9.9e-5, 2e-4], dtype)
    add([1.0, 1000.0], dtype)
    add([1.0, 1001.0], dtype)
    add([1.0, 1001.0], dtype, suppress_small=True)
    add([1e-7, 1.0], dtype, suppress_small=True)
    add([-0.0, 0.0], dtype)
    add([-0.0, 12345.0, 0.001], dtype)
    add([np.nan, 1.0, -1.5], dtype)
    add([np.inf, 1.25, 3.0], dtype)
    add([-np.inf, 1.25, np.nan], dtype)
    add([np.nan, np.nan], dtype)
    add([np.inf, -np.inf], dtype)
    add([-np.inf, 1e-6, 1.0, np.nan], dtype)
    add([0.0, 0.0], dtype)
    add([[1.5, 2.25], [3.125, -4.0]], dtype)
    add([9.99995, 99.99995, 0.99999], dtype)
    add([-0.00004, 0.00005], dtype, suppress_small=True)
    add(rng.randn(3, 4), dtype)
    add(rng.randn(2, 3, 4), dtype)
    add(rng.randn(2, 2, 2, 3), dtype, separator=", ")
    add(rng.randn(40), dtype)
    add(rng.randn(40), dtype, max_line_width=30, separator=", ")
    add(rng.randn(7), dtype, max_line_width=4)
    add(np.exp(rng.randn(5, 6) * 3), dtype)
    add(np.exp(rng.randn(6) * 3), dtype, precision=8)
    add(np.arange(1100.0), dtype)
    add(np.arange(24.0), dtype, (4, 6), threshold=10, edgeitems=1)
    add(np.arange(64.0), dtype, (8, 8), threshold=10, edgeitems=3)
    add(np.arange(64.0), dtype, (8, 8), threshold=10, edgeitems=2, separator=", ")
    add(np.arange(240.0), dtype, (2, 3, 40), threshold=10)
    add(np.arange(343.0), dtype, (7, 7, 7), threshold=100, edgeitems=1)
    add(np.where(np.arange(60) == 30, 1e6, 0.5), dtype if dtype != "float16" else "float32",
        threshold=10)

for dtype in ["float32", "float64"]:
    add([1e8, 1.0], dtype)
    add([99999999.0, 99999990.0], dtype)
    add([1e10, 1e-10], dtype)
    add([1e30, 2.5], dtype)
    add([123456.789, 987654.321], dtype)
    add([16777216.0, 1234567.0], dtype)
    add([1e-38, 3e38], dtype)
    add([5e-45 if dtype == "float32" else 5e-324], dtype)
add([1e300, 1e-300, 1.0], "float64")
add([1e100, 1.5], "float64")
add([1.7976931348623157e308, 5e-324], "float64", precision=17)
add([0.1 + 0.2, 1 / 3], "float64", precision=20)

for dtype in ["int64", "int32", "uint8"]:
    add(7, dtype)
    add([], dtype)
    add([1, 20, 300 % 256], dtype)
    add(np.arange(12), dtype, (3, 4))
    add(np.arange(12), dtype, (3, 4), separator=", ")
    add(np.arange(200), dtype)
    add(np.arange(200), dtype, threshold=20, edgeitems=4)
    add(np.arange(60), dtype, (3, 4, 5), threshold=20, edgeitems=1)
for dtype in ["int64", "int32"]:
    add([-5, 12, 0], dtype)
    add(rng.randint(-10**6, 10**6, 30), dtype)
add([-2**63, 2**63 - 1], "int64")

add(True, "bool")
add(False, "bool")
add([True, False], "bool")
add([True, True], "bool", separator=", ")
add(rng.rand(4, 5) < 0.5, "bool")
add(rng.rand(50) < 0.5, "bool", threshold=10)
add(rng.rand(50) < 0.5, "bool")
for size in [1, 2, 5, 6, 7, 8, 1000, 1001]:
    add(np.arange(size), "int64")
    add(np.arange(size), "int64", (1, size), threshold=5)
    add(np.arange(size), "int64", (size, 1), threshold=5)

# Many random shapes, magnitudes and options.
for _ in range(250):
    dtype = ["float32", "float64", "float16"][rng.randint(3)]
    shape = tuple(rng.randint(1, 6, rng.randint(0, 4)))
    scale = 10.0 ** rng.randint(-9, 10) if dtype != "float16" else 10.0 ** rng.randint(-3, 4)
    spread = [0.0, 1.0, 4.0][rng.randint(3)] if dtype != "float16" else [0.0, 1.0][rng.randint(2)]
    values = scale * rng.randn(*shape) * np.exp(spread * rng.randn(*shape))
    if rng.randint(4) == 0:
        values = np.round(values, 1)
    add(values, dtype, precision=int(rng.randint(0, 10)), threshold=int([5, 50, 1000][rng.randint(3)]),
        edgeitems=int(rng.randint(1, 4)), max_line_width=int([20, 40, 75][rng.randint(3)]),
        suppress_small=bool(rng.randint(2)))

path = pathlib.Path(__file__).with_name("print.json")
path.write_text("{\"numpy\":\"%s\",\"cases\":[\n" % np.__version__ +
                ",\n".join(json.dumps(c, separators=(",", ":")) for c in cases) + "\n]}\n")
print(len(cases))
