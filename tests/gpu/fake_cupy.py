"""CuPy without a GPU: a module of its name whose arrays are NumPy arrays behind CuPy's interface.

``install()`` puts it into ``sys.modules``, where appy finds it as it finds CuPy. Its "device pointers" are the host's,
so that the backends of the CPU can run on them after ``appy.config(emulated=True)``.
"""

from __future__ import annotations

import contextlib
import sys
import types
from typing import Any

import numpy as np

OPERATORS = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "truediv": np.true_divide,
    "floordiv": np.floor_divide,
    "mod": np.remainder,
    "pow": np.power,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "lshift": np.left_shift,
    "rshift": np.right_shift,
    "matmul": np.matmul,
}
COMPARISONS = {
    "lt": np.less,
    "le": np.less_equal,
    "eq": np.equal,
    "ne": np.not_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}
UFUNCS = """absolute add arctan arctan2 cbrt ceil copysign cos cosh divide exp exp2 expm1 floor floor_divide fmax fmin
    greater hypot isfinite isinf isnan less log log10 log1p log2 logical_and logical_not logical_or maximum minimum
    multiply negative not_equal power reciprocal remainder rint sign sin sinh sqrt square subtract tan tanh
    trunc""".split()
FUNCTIONS = """all amax amin any argmax argmin clip count_nonzero cumsum dot max mean min outer prod sum transpose
    where""".split()
CREATION = "arange array empty eye full ones zeros".split()
METHODS = "all any argmax argmin astype conj copy cumsum dot max mean min prod reshape std sum var".split()

current_device = 0
current_stream = {0: 0, 1: 0}
allocations: list[Any] = []


class MemoryPointer:
    def __init__(self, array: np.ndarray, device: int) -> None:
        # CuPy allocates nothing for an array without elements.
        self.ptr = array.__array_interface__["data"][0] if array.size else 0
        self.device_id = device


def host(value: Any) -> Any:
    """What NumPy gets for it; CuPy takes no arrays of NumPy's."""
    if isinstance(value, ndarray):
        return value._array
    if isinstance(value, tuple | list):
        return type(value)(host(item) for item in value)
    if isinstance(value, np.ndarray):
        raise TypeError(f"Unsupported type {type(value)}")
    return value


class ndarray:
    __array_priority__ = 100

    def __init__(self, array: Any, device: int | None = None) -> None:
        self._array = array if isinstance(array, np.ndarray) else np.asarray(array)
        self._device = current_device if device is None else device

    data = property(lambda self: MemoryPointer(self._array, self._device))
    shape = property(lambda self: self._array.shape)
    strides = property(lambda self: self._array.strides)
    dtype = property(lambda self: self._array.dtype)
    ndim = property(lambda self: self._array.ndim)
    size = property(lambda self: self._array.size)
    flags = property(lambda self: self._array.flags)
    device = property(lambda self: types.SimpleNamespace(id=self._device))
    real = property(lambda self: ndarray(self._array.real, self._device))
    imag = property(lambda self: ndarray(self._array.imag, self._device))
    T = property(lambda self: ndarray(self._array.T, self._device))
    base = property(lambda self: self._array.base)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        interface = dict(self._array.__array_interface__, version=3, stream=None)
        return interface | {"strides": self._array.strides}

    def get(self) -> np.ndarray:
        return self._array.copy()

    def item(self) -> Any:
        return self._array.item()

    def __getitem__(self, index: Any) -> ndarray:
        index = host(index)
        if isinstance(index, np.ndarray):
            return ndarray(self._array[index], self._device)
        index = index if isinstance(index, tuple) else (index,)
        whole = index if Ellipsis in [i for i in index if not isinstance(i, np.ndarray)] else (*index, Ellipsis)
        return ndarray(self._array[whole], self._device)

    def __setitem__(self, index: Any, value: Any) -> None:
        self._array[host(index)] = host(value)

    def __len__(self) -> int:
        return len(self._array)

    def __iter__(self) -> Any:
        return (self[i] for i in range(len(self)))

    __hash__ = None

    def __neg__(self) -> ndarray:
        return ndarray(np.asarray(-self._array), self._device)

    def __pos__(self) -> ndarray:
        return ndarray(np.asarray(+self._array), self._device)

    def __invert__(self) -> ndarray:
        return ndarray(np.asarray(~self._array), self._device)

    def __abs__(self) -> ndarray:
        return ndarray(np.asarray(abs(self._array)), self._device)

    def __bool__(self) -> bool:
        return bool(self._array)

    def __float__(self) -> float:
        return float(self._array)

    def __int__(self) -> int:
        return int(self._array)

    def __index__(self) -> int:
        return self._array.__index__()

    def __repr__(self) -> str:
        return repr(self._array)

    def transpose(self, *axes: Any) -> ndarray:
        return ndarray(self._array.transpose(*axes), self._device)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        out = tuple(host(o) for o in kwargs.pop("out", ()))
        result = getattr(ufunc, method)(*(host(i) for i in inputs), **kwargs, **({"out": out} if out else {}))
        return wrap(result, self._device)

    def __array_function__(self, function: Any, _types: Any, args: Any, kwargs: Any) -> Any:
        return getattr(sys.modules["cupy"], function.__name__)(*args, **kwargs)


def wrap(result: Any, device: int | None = None) -> Any:
    if isinstance(result, tuple):
        return tuple(wrap(item, device) for item in result)
    if isinstance(result, np.ndarray | np.generic):
        return ndarray(np.asarray(result), device)
    return result


def _operator(ufunc: Any, reflected: bool = False) -> Any:
    def operate(self: ndarray, other: Any) -> Any:
        a, b = (host(other), self._array) if reflected else (self._array, host(other))
        return wrap(ufunc(a, b), self._device)

    return operate


def _in_place(ufunc: Any) -> Any:
    def operate(self: ndarray, other: Any) -> ndarray:
        ufunc(self._array, host(other), out=self._array, casting="same_kind")
        return self

    return operate


for _name, _ufunc in OPERATORS.items():
    setattr(ndarray, f"__{_name}__", _operator(_ufunc))
    setattr(ndarray, f"__r{_name}__", _operator(_ufunc, reflected=True))
    setattr(ndarray, f"__i{_name}__", _in_place(_ufunc))
for _name, _ufunc in COMPARISONS.items():
    setattr(ndarray, f"__{_name}__", _operator(_ufunc))


def _method(name: str) -> Any:
    def call(self: ndarray, *args: Any, **kwargs: Any) -> Any:
        return wrap(getattr(self._array, name)(*host(args), **kwargs), self._device)

    return call


for _name in METHODS:
    setattr(ndarray, _name, _method(_name))


def _function(name: str, made: bool) -> Any:
    numpy_function = getattr(np, name)

    def call(*args: Any, **kwargs: Any) -> Any:
        device = next((a._device for a in args if isinstance(a, ndarray)), current_device)
        if name == "array":
            result = np.array(*args, **kwargs)
        else:
            result = numpy_function(*host(args), **{k: host(v) for k, v in kwargs.items()})
        result = wrap(result, device)
        if made:
            allocations.append(result)
        return result

    call.__name__ = call.__qualname__ = name
    call.__module__ = "cupy"
    return call


def _like(name: str) -> Any:
    def call(a: ndarray, *args: Any, **kwargs: Any) -> ndarray:
        return ndarray(getattr(np, name)(a._array, *args, **kwargs), a._device)

    call.__name__ = call.__qualname__ = name
    call.__module__ = "cupy"
    return call


class Device:
    def __init__(self, number: int | None = None) -> None:
        self.id = current_device if number is None else number
        self.before: list[int] = []

    def __enter__(self) -> Device:
        global current_device
        self.before.append(current_device)
        current_device = self.id
        return self

    def __exit__(self, *_error: Any) -> None:
        global current_device
        current_device = self.before.pop()

    def synchronize(self) -> None:
        synchronized.append(self.id)


synchronized: list[int] = []


def get_current_stream(device_id: int = -1) -> Any:
    return types.SimpleNamespace(ptr=current_stream[current_device if device_id < 0 else device_id])


def build() -> types.ModuleType:
    module = types.ModuleType("cupy")
    ndarray.__module__ = "cupy"
    module.ndarray = ndarray
    for name in UFUNCS + FUNCTIONS + CREATION:
        setattr(module, name, _function(name, name in CREATION))
    for name in ("empty_like", "zeros_like", "ones_like", "full_like", "copy"):
        setattr(module, name, _like(name))
    module.asarray = module.array
    module.asnumpy = ndarray.get
    module.abs = module.absolute
    for name in (
        "bool_",
        "int8",
        "int32",
        "int64",
        "uint8",
        "float16",
        "float32",
        "float64",
        "complex128",
        "pi",
        "inf",
    ):
        setattr(module, name, getattr(np, name))
    module.cuda = types.SimpleNamespace(Device=Device, get_current_stream=get_current_stream)
    return module


@contextlib.contextmanager
def stream(handle: int, device: int = 0) -> Any:
    """The stream is the current one of the device."""
    before, current_stream[device] = current_stream[device], handle
    try:
        yield
    finally:
        current_stream[device] = before


module = build()


def install() -> types.ModuleType:
    sys.modules["cupy"] = module
    return module
