"""Arrays of other libraries as inputs and outputs of regions, with a CuPy whose device is the host's memory."""

from __future__ import annotations

import ctypes
import importlib
import sys
import types
import warnings

import numpy as np
import pytest

import appy

sys.path.insert(0, __file__.rpartition("/")[0])
fake = importlib.import_module("fake_cupy")


backend = "cpu"


@pytest.fixture(autouse=True, params=["cpu", "eval"])
def emulated(request):
    global backend
    before = appy.config()
    appy.config(emulated=True)
    backend = request.param
    yield
    appy.config(**before)


def jit(function, strict=True, **options):
    return appy.jit(strict=strict, **{"backend": backend} | options)(function)


@pytest.fixture(scope="module", autouse=True)
def cp():
    before = sys.modules.get("cupy")
    yield fake.install()
    if before is None:
        del sys.modules["cupy"]
    else:
        sys.modules["cupy"] = before


def both(plain, make):
    """The function compiled and plain, on arguments that `make` makes anew; what each leaves and returns."""
    compiled = jit(plain)
    args, expected_args = make(), make()
    result, expected = compiled(*args), plain(*expected_args)
    assert compiled.stats()["runs"] > 0
    for mine, theirs in zip(args, expected_args, strict=True):
        assert_same(mine, theirs)
    assert_same(result, expected)
    return result


def assert_same(mine, theirs):
    assert type(mine) is type(theirs)
    if isinstance(mine, fake.ndarray):
        assert mine.dtype == theirs.dtype and mine.shape == theirs.shape and mine._device == theirs._device
        np.testing.assert_allclose(mine.get(), theirs.get(), rtol=1e-12)
    elif isinstance(mine, tuple):
        for x, y in zip(mine, theirs, strict=True):
            assert_same(x, y)
    else:
        assert mine == theirs


def array(*shape, dtype="float64", device=0):
    rng = np.random.default_rng(sum(shape))
    return fake.ndarray((rng.random(shape) * 100).astype(dtype), device)


def axpy(a, x, y):
    # pragma parallel for simd
    for i in range(x.shape[0]):
        y[i] += a * x[i]


def matrix_vector(A, x, y):
    # pragma parallel for
    for i in range(A.shape[0]):
        s = 0.0
        # pragma simd
        for j in range(A.shape[1]):
            s += A[i, j] * x[j]
        y[i] = s


def total(x):
    s = 0.0
    # pragma parallel for simd
    for i in range(x.shape[0]):
        s += x[i]
    return s


def masked(x, y):
    # pragma parallel for simd
    for i in range(len(x)):
        if x[i] > 30:
            y[i] = np.sqrt(x[i])


def expression(x, y):
    # pragma 0=>parallel,simd
    z = np.exp(x / 100) * y + 1
    return z


def own_functions(cp):
    def f(x, y):
        # pragma 0=>parallel,simd
        z = cp.where(x > y, cp.maximum(x, 3.0), cp.log(y + 1))
        return z

    return f


def test_loops_and_expressions(cp):
    both(axpy, lambda: (2.5, array(1000), array(1000)))
    both(matrix_vector, lambda: (array(30, 40), array(40), array(30)))
    both(masked, lambda: (array(100), array(100)))
    assert isinstance(both(expression, lambda: (array(50), array(50))), fake.ndarray)
    both(own_functions(cp), lambda: (array(50), array(50)))


@pytest.mark.parametrize("dtype", ["bool", "int8", "int64", "uint8", "float16", "float32", "float64", "complex128"])
def test_dtypes(dtype):
    def f(x, y):
        # pragma parallel for simd
        for i in range(x.shape[0]):
            y[i] = x[i]

    both(f, lambda: (array(100, dtype=dtype), array(100, dtype=dtype)))


def test_a_sum_is_a_0d_array():
    result = both(total, lambda: (array(1000),))
    assert isinstance(result, fake.ndarray) and result.shape == ()


def test_a_sum_of_nothing_is_what_it_was():
    assert both(total, lambda: (array(0),)) == 0.0


def test_reductions():
    def f(x):
        # pragma 0=>parallel,simd
        s = x.sum(axis=0)
        # pragma 0=>parallel,simd
        m = np.max(x)
        return s, m

    both(f, lambda: (array(20, 30),))


def test_attributes():
    def f(x, y):
        # pragma parallel for
        for i in range(x.shape[0]):
            y[i] = x.ndim + x.size + len(x) + x.T[0, i]

    both(f, lambda: (array(20, 30), array(20)))


def test_strided_views_and_transposes():
    both(axpy, lambda: (2.0, array(200)[::2], array(200)[1::2]))
    both(axpy, lambda: (2.0, array(200)[::-1], array(200)))
    both(matrix_vector, lambda: (array(40, 30).T, array(40), array(30)))


def test_views_that_overlap_keep_their_order():
    def f(x, y):
        # pragma parallel for simd
        for i in range(x.shape[0]):
            y[i] = x[i] + 1

    compiled = jit(f)
    one, other = array(101), array(101)
    compiled(one[:100], one[1:])
    f(other[:100], other[1:])
    assert_same(one, other)
    assert compiled.stats()["compiled"] == 2


def test_parts_that_are_bound_are_views_of_the_library():
    def f(x):
        # pragma sequential for
        for i in range(3):
            row = x[i, ::2]
            row[0] = i
        column = x.T[1:3, None]
        return row, column

    x = array(5, 6)
    row, column = jit(f)(x)
    plain = f(array(5, 6))
    assert_same((row, column), plain)
    row[1] = -1
    assert x[2, 2].get() == -1


def test_guards():
    def f(a, x, y):
        # pragma parallel for simd
        for i in range(x.shape[0]):
            y[i] += a * x[i]

    compiled = jit(f)
    for x, count in (
        (array(10), 1),
        (array(20), 1),
        (array(10, dtype="float32"), 2),
        (array(20)[::2], 3),
        (array(10, device=1), 4),
        (np.arange(10.0), 5),
        (array(20), 5),
    ):
        y = np.ones(len(x)) if isinstance(x, np.ndarray) else fake.ndarray(np.ones(len(x)), x._device)
        compiled(2.0, x, y)
        assert compiled.stats()["compiled"] == count
        plain = np.ones(len(x)) + 2.0 * (x if isinstance(x, np.ndarray) else x.get())
        np.testing.assert_array_equal(y if isinstance(y, np.ndarray) else y.get(), plain)


def test_a_new_rank_compiles_anew():
    def f(x):
        # pragma 0=>parallel
        x[:] += 1

    x, y = array(10), array(10, 3)
    before = x.get(), y.get()
    compiled = jit(f)
    compiled(x)
    compiled(y)
    assert compiled.stats()["compiled"] == 2
    np.testing.assert_array_equal(x.get(), before[0] + 1)
    np.testing.assert_array_equal(y.get(), before[1] + 1)


@pytest.mark.parametrize(
    ("x", "y", "words"),
    [
        (lambda: array(5, device=0), lambda: array(5, device=1), ["x", "y", "on device 0", "on device 1"]),
        (lambda: array(5), lambda: np.ones(5), ["of CuPy on device 0", "of NumPy in the host's memory"]),
    ],
    ids=["devices", "numpy"],
)
def test_mixed_memory_is_refused(x, y, words):
    with pytest.raises(appy.CompileError) as error:
        jit(axpy)(2.0, x(), y())
    assert all(word in str(error.value) for word in words)


def test_a_refusal_is_not_remembered_for_other_devices():
    compiled = jit(axpy, strict=False)
    runs, declined = compiled.stats()["runs"], compiled.stats()["declined"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", appy.AppyWarning)  # said once
        compiled(2.0, array(5, device=0), array(5, device=1))
    assert compiled.stats()["declined"] == declined + 1
    compiled(2.0, array(5, device=1), array(5, device=1))
    assert compiled.stats()["runs"] == runs + 1


def test_numpy_arrays_made_inside_are_refused():
    def f(x):
        # pragma 0=>parallel
        y = np.zeros(5) + x
        return y

    with pytest.raises(appy.CompileError, match=r"numpy.zeros is of NumPy"):
        jit(f)(array(5))


def test_new_arrays_are_the_librarys(cp):
    def f(x):
        # pragma 0=>parallel
        a = cp.zeros(x.shape[0]) + x
        # pragma 0=>parallel
        b = np.empty_like(x)
        # pragma parallel for simd
        for i in range(x.shape[0]):
            b[i] = a[i] * 2
        return a, b

    both(f, lambda: (array(12),))
    made = jit(f)(array(12, device=1))
    assert [a._device for a in made] == [1, 1]
    before = len(fake.allocations)
    jit(expression)(array(50), array(50))
    assert len(fake.allocations) == before + 1


def test_an_array_without_elements_is_made(cp):
    def f(x):
        # pragma 0=>simd
        y = x[x > 100]
        return y

    both(f, lambda: (array(12),))


def test_tensorlib(cp):
    appy.tensorlib = cp
    try:
        x = appy.zeros(5)
        assert isinstance(x, fake.ndarray)
        assert isinstance(appy.empty((2, 3), dtype="float32"), fake.ndarray)
        assert isinstance(appy.empty_like(x), fake.ndarray)
        assert isinstance(appy.copy(x), fake.ndarray)

        def f(x):
            # pragma 0=>parallel
            y = appy.ones(5) + x
            return y

        both(f, lambda: (array(5),))
    finally:
        del appy.tensorlib


def test_streams():
    """What a launch finds is the library's current stream; see tests/cpp/runtime_device_arrays_test.cpp."""
    compiled = jit(axpy)
    runs = compiled.stats()["runs"]
    with fake.stream(77):
        compiled(1.0, array(5), array(5))
    assert compiled.stats()["runs"] == runs + 1


# Elements of CuPy's arrays are arrays that share the memory.


def swap(a):
    # pragma sequential for
    for i in range(2):
        a[i], a[i + 2] = a[i + 2], a[i]


def swap_by_name(a):
    # pragma sequential for
    for i in range(2):
        t = a[i]
        a[i] = a[i + 2]
        a[i + 2] = t


def element_in_place(a, b):
    # pragma sequential for
    for i in range(2):
        t = a[i]
        t += 1
        b[i] = t


def second_name(a, b):
    # pragma sequential for
    for i in range(2):
        s = a[i] * 2
        t = s
        s += 1
        b[i] = t


def carried_name(a, b):
    # pragma sequential for
    for _ in range(1):
        s = a[0] * 2
        p = s
        for i in range(2):
            s += 1
            b[i] = s - p
            p = s


def least(a, b):
    # pragma sequential for
    for i in range(2):
        m = min(a[i], 50.0)
        a[i] = 0
        b[i] = m


def narrow_sum(a, b):
    # pragma sequential for
    for i in range(2):
        s = np.float32(1) * a[i].astype(np.float32)
        s += b[i]
        a[i] = s


@pytest.mark.parametrize(
    "f", [swap, swap_by_name, element_in_place, second_name, carried_name, least, narrow_sum], ids=lambda f: f.__name__
)
def test_where_an_element_is_no_value_the_region_is_refused(f):
    args = (array(4),) if f.__code__.co_argcount == 1 else (array(4), array(4))
    with pytest.raises(appy.CompileError, match="element|0-d array"):
        jit(f)(*args)


@pytest.mark.parametrize(
    "f", [swap, swap_by_name, element_in_place, second_name, carried_name], ids=lambda f: f.__name__
)
def test_complex_elements_are_no_values_either(f):
    args = [array(4, dtype="complex128") for _ in range(f.__code__.co_argcount)]
    with pytest.raises(appy.CompileError, match="element|0-d array"):
        jit(f)(*args)


def test_parts_of_complex_elements_share_their_memory():
    def f(a, b):
        # pragma sequential for
        for i in range(2):
            t = a[i].real
            a[i] = 0
            b[i] = t

    with pytest.raises(appy.CompileError, match="element"):
        jit(f)(array(4, dtype="complex128"), array(4, dtype="complex128"))


def test_parts_of_complex_arrays_are_views():
    def f(z):
        # pragma 0=>parallel
        part = z[1:, ::2].imag
        # pragma 0=>parallel
        other = z.T.real
        # pragma 0=>parallel
        z[:, :] += 1 + 1j
        return part, other

    both(f, lambda: (array(5, 6, dtype="complex128"),))


def test_updates_of_complex_elements():
    def f(a, b):
        # pragma sequential for
        for i in range(3):
            t = a[i] * 2
            b[i] = t.conj()
            a[i] += t + b[i]

    both(f, lambda: (array(4, dtype="complex128"), array(4, dtype="complex128")))


def test_updates_of_elements_are_no_such_case():
    def f(a, b):
        # pragma sequential for
        for i in range(3):
            t = a[i]
            b[i] = t * 2
            a[i] += t + b[i]
            a[i] -= 1

    both(f, lambda: (array(4), array(4)))


def test_numpy_scalars_that_are_left():
    def f(x, s):
        # pragma parallel for simd
        for i in range(x.shape[0]):
            s += x[i]
        return s

    with pytest.raises(appy.CompileError, match="a NumPy scalar"):
        jit(f)(array(5), np.float64(1))
    with pytest.raises(appy.CompileError, match="a NumPy scalar"):
        jit(f)(array(5, dtype="complex128"), np.complex128(1))


def test_variables_that_nothing_reads_are_not_made():
    def f(x, y):
        # pragma parallel for simd
        for i in range(x.shape[0]):
            t = x[i] * 2
            y[i] = t

    before = len(fake.allocations)
    jit(f)(array(5), array(5))
    assert len(fake.allocations) == before


# Backends


def test_the_host_does_not_touch_device_memory():
    def f(x):
        # pragma 0=>parallel
        x[:] += 2

    appy.config(emulated=False)
    with pytest.raises(appy.CompileError, match="in the memory of a device"):
        jit(f)(array(5))


@pytest.fixture
def no_device():
    if appy.devices():
        pytest.skip("this process has found a device")


@pytest.mark.usefixtures("no_device")
@pytest.mark.parametrize("name", ["cuda", "triton"])
def test_a_gpu_is_asked_for(name):
    compiled = jit(axpy, backend=name)
    with pytest.raises(appy.CompileError, match="no GPU"):
        compiled(1.0, np.ones(5), np.ones(5))


@pytest.mark.usefixtures("no_device")
def test_arrays_on_a_device_want_a_gpu():
    with pytest.raises(appy.CompileError, match="no GPU"):
        jit(axpy, backend="auto")(1.0, array(5), array(5))


# __cuda_array_interface__ and DLPack


class Elements:
    """What plain Python does with the array that is wrapped."""

    array: np.ndarray

    def __getitem__(self, index):
        return self.array[index]

    def __setitem__(self, index, value):
        self.array[index] = value

    def __len__(self):
        return len(self.array)

    shape = property(lambda self: self.array.shape)


class Interface(Elements):
    def __init__(self, array, stream=None, read_only=False):
        self.array, self.stream, self.read_only = array, stream, read_only
        self.reads = 0

    @property
    def __cuda_array_interface__(self):
        self.reads += 1
        own = self.array.__array_interface__
        return {
            "shape": own["shape"],
            "typestr": own["typestr"],
            "data": (own["data"][0], self.read_only),
            "strides": own["strides"],
            "version": 3,
            "stream": self.stream,
        }


def test_interface():
    x, y = np.arange(20.0)[::2], np.ones(10)
    compiled = jit(axpy)
    compiled(2.0, Interface(x, stream=5), Interface(y))
    np.testing.assert_array_equal(y, 1 + 2 * x)
    hits = compiled.stats()["cache_hits"]
    compiled(2.0, Interface(x, stream=6), Interface(y))
    assert compiled.stats()["cache_hits"] == hits + 1
    assert isinstance(jit(total)(Interface(x)), np.float64)


def test_a_read_only_interface_is_not_written():
    with pytest.raises(appy.CompileError, match="the array y is read-only"):
        jit(axpy)(2.0, Interface(np.ones(5)), Interface(np.ones(5), read_only=True))
    compiled = jit(axpy, strict=False)
    compiled(2.0, Interface(np.ones(5)), Interface(np.ones(5)))
    declined = compiled.stats()["declined"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", appy.AppyWarning)
        compiled(2.0, Interface(np.ones(5)), Interface(np.ones(5), read_only=True))
    assert compiled.stats()["declined"] == declined + 1


def test_new_arrays_beside_an_interface_are_refused():
    def f(x):
        # pragma 0=>parallel
        y = x[:] + 1
        return y

    with pytest.raises(appy.CompileError, match="a new array beside one with __cuda_array_interface__"):
        jit(f)(Interface(np.ones(5)))


class Exported(Elements):
    """A producer of DLPack version 1 whose CUDA device is the host's memory."""

    def __init__(self, array, kind=2, read_only=False):
        self.array, self.kind, self.read_only = array, kind, read_only
        self.streams = []

    def __dlpack_device__(self):
        return (self.kind, 0)

    def __dlpack__(self, *, stream=None, max_version=None):
        self.streams.append(stream)
        capsule = self.array.__dlpack__(max_version=max_version)
        get = ctypes.pythonapi.PyCapsule_GetPointer
        get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        pointer = get(capsule, b"dltensor_versioned")
        # version, context, deleter, flags; then the tensor: data, device type
        ctypes.c_int32.from_address(pointer + 32 + 8).value = self.kind
        ctypes.c_uint64.from_address(pointer + 24).value = int(self.read_only)
        return capsule


def test_dlpack():
    x, y = np.arange(20.0)[::2], np.ones(10)
    compiled = jit(axpy)
    source = Exported(x)
    for _ in range(3):
        compiled(2.0, source, Exported(y))
    np.testing.assert_array_equal(y, 1 + 6 * x)
    assert set(source.streams) == {1}
    before = sys.getrefcount(x)
    compiled(2.0, source, Exported(y))
    assert sys.getrefcount(x) == before
    with pytest.raises(appy.CompileError, match="read-only"):
        jit(axpy)(2.0, Exported(x), Exported(y, read_only=True))
    with pytest.raises(appy.CompileError, match="in memory of the host"):
        jit(axpy)(2.0, Exported(x, kind=1), Exported(y, kind=1))


def test_lowered_graphs_show_the_arrays():
    lowered = appy.lower(jit(axpy, strict=False), 2.0, array(5), array(5))
    assert dict(lowered.parameters())["x"] == "f64[1] c"


def test_synchronize(cp):
    before = len(fake.synchronized)
    appy.synchronize()
    assert len(fake.synchronized) == before + 1
    del sys.modules["cupy"]
    try:
        appy.synchronize()
    finally:
        sys.modules["cupy"] = cp
    assert len(fake.synchronized) == before + 1


def test_sync_is_an_option():
    assert appy.config(sync=True)["sync"] is True
    assert appy.config(sync=False)["sync"] is False


def test_the_fake_is_a_module():
    assert isinstance(sys.modules["cupy"], types.ModuleType)
