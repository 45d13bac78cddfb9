"""Tensors of Hero that NumPy and PyTorch read and write in place, and the other way round; started by tests/peers/dlpack.

    dlpack.py LIBRARY

Both structs of the standard, all dtypes, views with strides, without elements and without dimensions; who frees the
memory, and when.
"""
import ctypes
import sys

import numpy
import torch

VIEWS = ["whole", "strided", "single", "empty", "expanded"]
DTYPES = ["bool", "uint8", "int32", "int64", "float16", "bfloat16", "float32", "float64"]
NAMES = {True: b"dltensor_versioned", False: b"dltensor"}

hero = ctypes.CDLL(sys.argv[1])
for name, result, arguments in [
    ("hero_error", ctypes.c_char_p, []),
    ("hero_sample", ctypes.c_void_p, [ctypes.c_char_p, ctypes.c_char_p]),
    ("hero_free", None, [ctypes.c_void_p]),
    ("hero_live", ctypes.c_int64, []),
    ("hero_fill", None, [ctypes.c_void_p, ctypes.c_double]),
    ("hero_text", ctypes.c_int64, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int64]),
    ("hero_to_dlpack", ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_int, ctypes.c_uint64]),
    ("hero_from_dlpack", ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_int]),
    ("hero_delete", None, [ctypes.c_void_p, ctypes.c_int]),
]:
    getattr(hero, name).restype = result
    getattr(hero, name).argtypes = arguments

api = ctypes.pythonapi
Destructor = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
api.PyCapsule_New.restype = ctypes.py_object
api.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, Destructor]
# An object that is being destroyed may not be wrapped in Python's types any more: its address is enough.
for name, result in [("PyCapsule_IsValid", ctypes.c_int), ("PyCapsule_GetPointer", ctypes.c_void_p)]:
    getattr(api, name).restype = result
    getattr(api, name).argtypes = [ctypes.c_void_p, ctypes.c_char_p]
api.PyCapsule_SetName.argtypes = [ctypes.c_void_p, ctypes.c_char_p]

USED = {True: b"used_dltensor_versioned", False: b"used_dltensor"}
unused = 0


def destroyed(capsule):
    global unused
    for versioned, name in NAMES.items():
        if api.PyCapsule_IsValid(capsule, name):  # nobody took it
            unused += 1
            hero.hero_delete(api.PyCapsule_GetPointer(capsule, name), versioned)


DESTROYED = Destructor(destroyed)


class Tensor:
    """A tensor of Hero, which gives structs of one version."""

    def __init__(self, handle, versioned=True, flags=0):
        assert handle, hero.hero_error().decode()
        self.handle, self.versioned, self.flags = handle, versioned, flags

    def __del__(self):
        hero.hero_free(self.handle)

    def __str__(self):
        text = ctypes.create_string_buffer(4096)
        assert hero.hero_text(self.handle, text, len(text)) < len(text)
        return text.value.decode()

    def __dlpack_device__(self):
        return (1, 0)

    def __dlpack__(self, stream=None, max_version=None, dl_device=None, copy=None):
        managed = hero.hero_to_dlpack(self.handle, self.versioned, self.flags)
        assert managed, hero.hero_error().decode()
        return api.PyCapsule_New(managed, NAMES[self.versioned], DESTROYED)


def sample(view, dtype, versioned=True, flags=0):
    return Tensor(hero.hero_sample(view.encode(), dtype.encode()), versioned, flags)


def taken(capsule):
    """What Hero makes of a capsule, or its error."""
    versioned = bool(api.PyCapsule_IsValid(id(capsule), NAMES[True]))
    managed = api.PyCapsule_GetPointer(id(capsule), NAMES[versioned])
    handle = hero.hero_from_dlpack(managed, versioned)
    if not handle:
        return hero.hero_error().decode()
    api.PyCapsule_SetName(id(capsule), USED[versioned])
    return Tensor(handle)


def text_of(dtype, shape, strides, values):
    numbers = "".join(f" {float(v):g}" for v in values)
    return f"{dtype} {list(shape)} {list(strides)}:{numbers}"


def text_of_numpy(a):
    return text_of(a.dtype.name, a.shape, [s // a.itemsize for s in a.strides], a.reshape(-1))


def text_of_torch(t):
    return text_of(str(t.dtype).split(".")[1], t.shape, t.stride(), t.reshape(-1).tolist())


def same(a, b, values_alone=False):
    if values_alone:  # strides of arrays without elements are anybody's
        a, b = (text[: text.index("]")] + text[text.index(":") :] for text in (a, b))
    assert a == b, f"\n{a}\n{b}"


checks = 0
before = hero.hero_live()
for versioned in (True, False):
    for dtype in DTYPES:
        for view in VIEWS:
            ours = sample(view, dtype, versioned)
            for library, from_dlpack, text in (
                ("numpy", numpy.from_dlpack, text_of_numpy),
                ("torch", torch.from_dlpack, text_of_torch),
            ):
                if library == "numpy" and dtype == "bfloat16":
                    continue
                theirs = from_dlpack(ours)
                same(text(theirs), str(ours), view == "empty")
                hero.hero_fill(ours.handle, 1)  # writes of ours are seen
                if view != "expanded":
                    same(text(theirs), str(ours), view == "empty")
                if view in ("whole", "strided"):  # and writes of theirs
                    if library == "torch" or theirs.flags.writeable:
                        theirs[...] = 0
                        same(text(theirs), str(ours))
                kept = text(theirs)
                lone = sample(view, dtype, versioned)
                theirs = from_dlpack(lone)
                held = text(theirs)
                del lone  # they hold the memory
                same(text(theirs), held)
                del theirs
                checks += 1
            del ours
            assert hero.hero_live() == before, f"{view} {dtype}: not freed"
    del kept
capsule = sample("whole", "float32").__dlpack__()
del capsule
assert unused == 1 and hero.hero_live() == before

whole = numpy.arange(24).reshape(2, 3, 4) % 7
for versioned in (True, False):
    ask = {"max_version": (1, 0)} if versioned else {}
    for dtype in DTYPES:
        for library in ("numpy", "torch"):
            if library == "numpy":
                if dtype == "bfloat16":
                    continue
                x, text = whole.astype(dtype), text_of_numpy
                views = [x, x.transpose(2, 0, 1)[::2, :, 1:], x[1, 2, 3:4].reshape(()), x[:, 3:]]
            else:
                x, text = torch.tensor(whole).to(getattr(torch, dtype)), text_of_torch
                views = [x, x.permute(2, 0, 1)[::2, :, 1:], x[1, 2, 3], x[:, 3:], x[:, 1:2].expand(2, 5, 4)]
            for theirs in views:
                references = sys.getrefcount(theirs)
                ours = taken(theirs.__dlpack__(**ask))
                assert isinstance(ours, Tensor), ours
                same(str(ours), text(theirs), 0 in theirs.shape)
                if theirs.ndim and 5 not in theirs.shape:
                    hero.hero_fill(ours.handle, 1)
                    same(str(ours), text(theirs), 0 in theirs.shape)
                del ours
                assert sys.getrefcount(theirs) == references, "the deleter was not called"
                checks += 1

for array, said in (
    (numpy.arange(3)[::-1], "from_dlpack: dimension 0 of shape [3] has the stride -1"),
    (numpy.zeros(3, numpy.int16), "from_dlpack: no dtype of Hero has elements of code 0 (int) with 16 bits and 1 lane"),
    (numpy.zeros(3, numpy.complex64), "from_dlpack: no dtype of Hero has elements of code 5 (complex) with 64 bits"),
    (torch.zeros(3, dtype=torch.float8_e4m3fn), "from_dlpack: no dtype of Hero has elements of code 10"),
):
    references = sys.getrefcount(array)
    error = taken(array.__dlpack__(max_version=(1, 0)))
    assert isinstance(error, str) and error.startswith(said), error
    assert sys.getrefcount(array) == references, "an array that was refused is held"
    checks += 1
frozen = numpy.arange(3.0)
frozen.flags.writeable = False
error = taken(frozen.__dlpack__(max_version=(1, 0)))
assert isinstance(error, str) and error.startswith("from_dlpack: the memory is read-only"), error
assert not numpy.from_dlpack(sample("whole", "float32", True, 1)).flags.writeable
print(f"{checks} arrays were shared with NumPy {numpy.__version__} and PyTorch {torch.__version__}")
