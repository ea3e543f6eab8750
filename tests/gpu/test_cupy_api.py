"""Arrays and streams of CuPy by its table of C functions, where CuPy has one: here one that is made by ctypes."""

from __future__ import annotations

from pathlib import Path

import pytest

PROGRAM = """
import ctypes, sys
sys.path.insert(0, {folder!r})
import fake_cupy, numpy as np, appy

cupy = fake_cupy.install()
reads, streams = [], []

class Array(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("rank", ctypes.c_int), ("device", ctypes.c_int), ("size", ctypes.c_size_t),
                ("item_size", ctypes.c_ssize_t), ("shape", ctypes.c_void_p), ("strides", ctypes.c_void_p),
                ("dtype", ctypes.c_void_p)]

kept = {{}}

@ctypes.CFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(Array))
def read(array, out):
    reads.append(array)
    a = array._array
    shape, strides = (ctypes.c_ssize_t * 32)(*a.shape), (ctypes.c_ssize_t * 32)(*a.strides)
    kept[id(array)] = shape, strides, a.dtype
    out[0] = Array(a.ctypes.data, a.ndim, array._device, a.size, a.itemsize, ctypes.addressof(shape),
                   ctypes.addressof(strides), id(a.dtype))
    return 0

@ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.POINTER(ctypes.c_void_p))
def current_stream(device, out):
    streams.append(device)
    out[0] = fake_cupy.current_stream[device]
    return 0

class Api(ctypes.Structure):
    _fields_ = [("major", ctypes.c_int), ("minor", ctypes.c_int), ("array_type", ctypes.c_void_p),
                ("address", ctypes.c_void_p), ("read", ctypes.c_void_p), ("current_stream", ctypes.c_void_p)]

api = Api({version}, id(fake_cupy.ndarray), None, *(ctypes.cast(f, ctypes.c_void_p) for f in (read, current_stream)))
new = ctypes.pythonapi.PyCapsule_New
new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
cupy._public_c_api = new(ctypes.addressof(api), b"cupy._public_c_api", None)

@appy.jit(strict=True)
def add(a, b, c):
    # pragma parallel for
    for i in range(c.shape[0]):
        # pragma simd
        for j in range(c.shape[1]):
            c[i, j] = a[j, i] + b[j]

def check(dtype):
    a = np.arange(12).reshape(4, 3).astype(dtype)
    b, c = np.arange(8).astype(dtype)[::2], np.zeros((3, 4), dtype)
    arrays = [fake_cupy.ndarray(array, 0) for array in (a, b, c)]
    add(*arrays)
    appy.synchronize()
    np.testing.assert_array_equal(c, a.T + b)
"""


@pytest.mark.parametrize(("version", "used"), [("14, 3", True), ("15, 0", True), ("14, 2", False)])
def test_the_table_is_used_from_the_version_that_has_it(version, used, python, tmp_path):
    text = """
for dtype in ("float64", "float32", "int32", "complex128", "float64"):
    check(dtype)
assert bool(reads) is {used} and bool(streams) is {used}, (len(reads), len(streams))
if {used}:
    # Nothing is asked of the object itself.
    for name in ("data", "strides", "device", "flags"):
        setattr(fake_cupy.ndarray, name, property(lambda self: 1 / 0))
    cupy.cuda.get_current_stream = None
    check("float64")
assert add.stats()["runs"] == 5 + {used} and add.stats()["declined"] == 0, add.stats()
"""
    path = tmp_path / "program.py"
    folder = str(Path(__file__).parent)
    path.write_text(PROGRAM.format(folder=folder, version=version) + text.format(used=used))
    python(str(path), "")


def test_what_cannot_be_read_is_refused(python, tmp_path):
    text = """
failing = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_void_p)(lambda array, out: -1)
api.read = ctypes.cast(failing, ctypes.c_void_p)
try:
    check("float64")
except appy.CompileError as error:
    print(error)
"""
    path = tmp_path / "program.py"
    path.write_text(PROGRAM.format(folder=str(Path(__file__).parent), version="14, 3") + text)
    assert "cannot be read" in python(str(path), "")
