"""Complex tensors of torch as inputs and outputs of regions, compared with torch."""

from __future__ import annotations

import contextlib

import pytest
from tensors import ELEMENTS, WHOLE, both, function, on_device, tensor

import appy

torch = pytest.importorskip("torch")

COMPLEX = ["complex64", "complex128"]
ALL = [*COMPLEX, "bool", "int32", "int64", "uint8", "float32", "float64"]


@pytest.fixture(autouse=True, params=["cpu", "eval", pytest.param("device", marks=pytest.mark.gpu)])
def backend(request):
    with on_device() if request.param == "device" else contextlib.nullcontext(request.param) as name:
        yield name


def pairs():
    """Pairs of dtypes of which one is complex."""
    return [(a, b) for a in ALL for b in ALL if "complex" in a + b]


@pytest.mark.parametrize("op", ["+", "-", "*", "/", "==", "!="])
def test_types_of_operators(op, backend):
    forms = [ELEMENTS.format(f"x[i] {op} y[i]"), WHOLE.format(f"x {op} y"), WHOLE.format(f"x {op} y[0]")]
    forms.append(WHOLE.format(f"x[0] {op} y"))
    for f in map(function, forms):
        for a, b in pairs():
            both(f, lambda a=a, b=b: (tensor(4, dtype=a), tensor(4, dtype=b), zeros(4)), backend)


def zeros(*shape, dtype="complex128"):
    return torch.zeros(shape, dtype=getattr(torch, dtype))


@pytest.mark.parametrize("op", ["+", "-", "*", "/", "=="])
@pytest.mark.parametrize("number", ["3", "2.5", "True", "2j", "(1.5 - 2j)"])
def test_python_numbers_do_not_promote(op, number, backend):
    forms = [ELEMENTS.format(f"x[i] {op} {number}"), ELEMENTS.format(f"{number} {op} x[i]")]
    for f in map(function, [*forms, WHOLE.format(f"x {op} {number}"), WHOLE.format(f"{number} {op} x")]):
        for a in COMPLEX if "j" not in number else ALL:
            refused = op == "-" and "True" in number
            both(f, lambda a=a: (tensor(4, dtype=a), tensor(4, dtype=a), zeros(4)), backend, refused)


@pytest.mark.parametrize("op", ["+=", "-=", "*=", "/="])
def test_in_place(op, backend):
    f = function(f"def f(x, y):\n    #pragma 0=>parallel\n    x[:] {op} y\n")
    g = function(f"def f(x, y):\n    #pragma 0=>parallel\n    x {op} y[0]\n")
    h = function(f"def f(x, y):\n    #pragma parallel for\n    for i in range(len(x)):\n        x[i] {op} y[i]\n")
    for a, b in pairs():
        make = lambda a=a, b=b: (tensor(4, dtype=a), tensor(4, dtype=b))
        both(f, make, backend)
        both(g, make, backend)
        if "complex" in a:  # torch drops the imaginary part of an element that is stored, with a warning
            # An element keeps its dtype in place, which is refused.
            both(h, make, backend, refused=a == "complex64" and b in ("complex128", "float64"))


UNARY = """abs angle conj_physical exp log sqrt square neg isnan isinf isfinite reciprocal""".split()


@pytest.mark.parametrize("name", UNARY)
def test_functions_of_one(name, backend):
    for source in (f"torch.{name}(x)", f"x.{name}()", f"torch.{name}(x[0]) + x", f"torch.{name}(x * 2 + y)"):
        f = function(WHOLE.format(source))
        for a in COMPLEX:
            both(f, lambda a=a: (tensor(4, dtype=a, low=-1, high=2), tensor(4, dtype=a), None), backend)


@pytest.mark.parametrize("source", ["x < y", "x % y", "x // y", "torch.maximum(x, y)", "torch.floor(x)", "x.max()"])
def test_what_complex_numbers_have_not(source, backend):
    f = function(WHOLE.format(source))
    both(f, lambda: (tensor(4, dtype="complex64"), tensor(4, dtype="complex64"), None), backend)


@pytest.mark.parametrize("name", ["sum", "mean", "prod"])
@pytest.mark.parametrize("arguments", ["", "dim=0", "1", "-1, keepdim=True", "axis=1"])
def test_reductions(name, arguments, backend):
    for source in (f"torch.{name}(x{', ' * bool(arguments)}{arguments})", f"x.{name}({arguments})"):
        f = function(WHOLE.format(source))
        for a in COMPLEX:
            both(f, lambda a=a: (tensor(3, 4, dtype=a), None, None), backend, refused=name == "prod" and arguments)


@pytest.mark.parametrize(
    ("source", "shapes"),
    [
        ("torch.cumsum(x, 0)", [(3, 4)]),
        ("x.cumsum(dim=1)", [(3, 4)]),
        ("torch.dot(x, y)", [(5,), (5,)]),
        ("torch.vdot(x, y)", [(5,), (5,)]),
        ("torch.mv(x, y)", [(4, 5), (5,)]),
        ("torch.mm(x, y)", [(4, 5), (5, 3)]),
        ("x @ y", [(4, 5), (5, 3)]),
        ("x.t() + 1", [(4, 5)]),
        ("x.T * 2", [(4, 5)]),
        ("x.transpose(0, 1) + 0", [(4, 5)]),
        ("torch.zeros_like(x) + 1", [(4, 5)]),
        ("torch.ones_like(x)", [(4, 5)]),
        ("torch.full_like(x, 2j)", [(4, 5)]),
        ("torch.zeros(4, 5, dtype=torch.complex64) + x", [(4, 5)]),
        ("torch.ones((4, 5), dtype=torch.complex128) + x", [(4, 5)]),
        ("x.clone()", [(4, 5)]),
        ("x[1:, None, ::2] + 1", [(4, 5)]),
        ("x.to(torch.complex128) / 3", [(4, 5)]),
        ("x * y.size(0) + x.dim() + x.numel()", [(4, 5), (5,)]),
        ("(x ** 2).sum(dim=1)", [(4, 5)]),
        ("x.real + y.imag", [(4,), (4,)]),
        ("torch.real(x) + torch.imag(y)", [(4,), (4,)]),
        ("torch.complex(x.imag, y.real)", [(4,), (4,)]),
        ("torch.complex(x.real, x.imag)", [(4,)]),
        ("torch.where(x.real > 4, x, y)", [(6,), (6,)]),
        ("torch.where(x.real > 4, x, 2.5)", [(6,)]),
        ("x.conj() * y", [(6,), (6,)]),
        ("(x.conj() * x).real", [(6,)]),
        ("torch.conj(x).T + 0", [(4, 5)]),
        ("abs(x)", [(6,)]),
        ("x.abs().sum()", [(6,)]),
    ],
)
def test_other_functions(source, shapes, backend):
    f = function(WHOLE.format(source))
    for a in COMPLEX:
        make = lambda a=a: (*(tensor(*s, dtype=a) for s in shapes), *[None] * (3 - len(shapes)))
        both(f, make, backend, refused=backend == "auto" and ("torch.zeros(" in source or "torch.ones(" in source))


def test_conversions_of_real_tensors(backend):
    for a in ("int64", "float32", "float64"):
        both(function(WHOLE.format("x.to(torch.complex64)")), lambda a=a: (tensor(4, dtype=a), None, None), backend)
        f = function(WHOLE.format("torch.zeros_like(x, dtype=torch.complex128) + x"))
        both(f, lambda a=a: (tensor(4, dtype=a), None, None), backend)


def test_methods_that_store(backend):
    for statement in (
        "x.fill_(2j)",
        "x.zero_()",
        "x.copy_(y)",
        "x.real[:] = 2",
        "x.imag[:] = y.real",
        "x[1:3] = y[:2]",
    ):
        f = function(f"def f(x, y):\n    #pragma 0=>parallel\n    {statement}\n")
        for a in COMPLEX:
            for b in COMPLEX:
                both(f, lambda a=a, b=b: (tensor(4, dtype=a), tensor(4, dtype=b)), backend)


def test_loops(backend):
    f = function(
        """
def f(a, x, y):
    #pragma parallel for simd
    for i in range(x.shape[0]):
        if x[i].real > 3:
            y[i] += a * x[i] / 2
    s = 0j
    #pragma parallel for simd
    for i in range(len(x)):
        s += x[i].conj() * y[i]
    return s
"""
    )
    for a in COMPLEX:
        for number in (1.5, 2j):
            make = lambda a=a, z=number: (z, tensor(100, dtype=a), tensor(100, dtype=a))
            result = both(f, make, backend)
            assert result.shape == () and result.dtype == getattr(torch, a)


def test_atomics(backend):
    f = function(
        """
def f(h, at, v):
    #pragma parallel for
    for i in range(at.shape[0]):
        #pragma atomic
        h[at[i]] += v[i]
"""
    )
    for a in COMPLEX:
        both(f, lambda a=a: (zeros(3, dtype=a), torch.arange(200) % 3, tensor(200, dtype=a)), backend)


def test_what_is_left_of_an_empty_sum(backend):
    f = function(
        "def f(x):\n    s = 0j\n    #pragma simd\n    for i in range(len(x)):\n        s += x[i]\n    return s\n"
    )
    assert isinstance(both(f, lambda: (tensor(0, dtype="complex64"),), backend), complex)
    assert both(f, lambda: (tensor(1, dtype="complex64"),), backend).dtype == torch.complex64


ELEMENT_CASES = {
    "swap": "    for i in range(2):\n        a[i], a[i + 2] = a[i + 2], a[i]\n",
    "after a store": "    for i in range(2):\n        t = a[i]\n        a[i] = 0\n        a[i + 2] = t\n",
    "part after a store": "    for i in range(2):\n        t = a[i].imag\n        a[i] = 0\n        a[i + 2] = t\n",
    "conjugate after a store": "    for i in range(2):\n        t = a[i].conj()\n        a[i] = 0\n        a[i + 2] = t\n",
    "in place": "    for i in range(2):\n        t = a[i]\n        t += 1\n        a[i + 2] = t\n",
    "second name": "    for i in range(2):\n        s = a[i] * 2\n        t = s\n        s += 1\n        a[i + 2] = t\n",
    "name of a conjugate": "    for i in range(2):\n        t = a.conj()\n        a[i] = 0\n        a[i + 2] = t[i]\n",
    "name of a transposed conjugate": "    for i in range(1):\n        t = a[:, None].conj().T\n        a[1] = t[0, 0]\n",
}


@pytest.mark.parametrize("body", ELEMENT_CASES.values(), ids=ELEMENT_CASES)
def test_what_shares_memory_is_no_value(body, backend):
    f = function("def f(a):\n    #pragma sequential for\n" + body)
    with pytest.raises(appy.CompileError):
        appy.jit(strict=True, backend=backend)(f)(tensor(4, dtype="complex64"))


def test_elements_that_are_copied(backend):
    f = function(
        """
def f(a):
    #pragma sequential for
    for i in range(2):
        t = a[i] + 0
        a[i] = a[i + 2]
        a[i + 2] = t
"""
    )
    both(f, lambda: (tensor(4, dtype="complex64"),), backend)


def test_a_helper_sees_its_argument_as_it_was(backend):
    """Arguments are computed before the call."""
    f = function(
        """
def helper(a, t):
    a[0] = 5
    return t[0]

def f(a, out):
    #pragma sequential for
    for i in range(1):
        out[i] = helper(a, a * 2)
"""
    )
    both(f, lambda: (tensor(4, dtype="complex64"), zeros(1)), backend)


def test_strided_tensors(backend):
    f = function(WHOLE.format("x * y + 1"))
    both(f, lambda: (tensor(8, dtype="complex64")[::2], tensor(4, 3, dtype="complex128")[:, 1], None), backend)
    both(f, lambda: (tensor(4, 3, dtype="complex64").T, tensor(3, 4, dtype="complex64"), None), backend)


def test_names_for_parts_are_views(backend):
    f = function(
        """
def f(x):
    #pragma 0=>parallel
    re = x[1:, ::2].real
    #pragma 0=>parallel
    im = x.T.imag
    #pragma 0=>parallel
    x[:, :] += 1 + 1j
    return re, im
"""
    )
    both(f, lambda: (tensor(3, 4, dtype="complex64"),), backend)
