"""torch's tensors in the host's memory as inputs and outputs of regions, compared with torch."""

from __future__ import annotations

import importlib

import pytest
from tensors import ELEMENTS, WHOLE, both, function, tensor

import appy

torch = pytest.importorskip("torch")

HALVES = ["float16", "bfloat16"]
ALL = ["bool", "int8", "int32", "int64", "uint8", *HALVES, "float32", "float64"]


@pytest.fixture(autouse=True, params=["cpu", "eval"])
def backend(request):
    return request.param


def halves_floored(op, *types):
    """torch rounds in between there; such regions are refused."""
    return op in ("//", "//=", "floor_divide") and any(half in types for half in HALVES)


OPERATORS = ["+", "-", "*", "/", "//", "%", "<", "==", "&", "|", "^", ">="]


@pytest.mark.parametrize("op", OPERATORS)
def test_types_of_operators(op, backend):
    for a in ALL:
        elements = function(ELEMENTS.format(f"x[i] {op} y[i]"))
        mixed = function(WHOLE.format(f"x {op} y[0]"))
        whole = function(WHOLE.format(f"x {op} y"))
        for b in ALL:
            make = lambda a=a, b=b: (tensor(4, dtype=a), tensor(4, dtype=b), torch.zeros(4, dtype=torch.float64))
            refused = halves_floored(op, a, b)
            both(elements, make, backend, refused)
            both(whole, make, backend, refused)
            both(mixed, make, backend, refused)


@pytest.mark.parametrize("op", OPERATORS)
@pytest.mark.parametrize("number", ["3", "2.5", "True"])
def test_python_numbers_do_not_promote(op, number, backend):
    for source in (ELEMENTS.format(f"x[i] {op} {number}"), ELEMENTS.format(f"{number} {op} x[i]")):
        f = function(source)
        for a in ALL:
            make = lambda a=a: (*(tensor(4, dtype=a),) * 2, torch.zeros(4, dtype=torch.float64))
            both(f, make, backend, halves_floored(op, a))
    f = function(WHOLE.format(f"x {op} {number}"))
    for a in ALL:
        both(f, lambda a=a: (tensor(4, dtype=a),) * 3, backend, halves_floored(op, a))


@pytest.mark.parametrize("op", ["+=", "-=", "*=", "/=", "//=", "%="])
def test_in_place(op, backend):
    for a in ALL:
        f = function(f"def f(x, y):\n    #pragma 0=>parallel\n    x[:] {op} y\n")
        g = function(f"def f(x, y):\n    #pragma 0=>parallel\n    x {op} y[0]\n")
        for b in ALL:
            make = lambda a=a, b=b: (tensor(4, dtype=a), tensor(4, dtype=b))
            both(f, make, backend, halves_floored(op, a, b))
            both(g, make, backend, halves_floored(op, a, b))


UNARY = """abs acos asin atan ceil cos cosh deg2rad exp exp2 expm1 floor isfinite isnan log log10 log1p log2 logical_not
    neg rad2deg reciprocal round sign sin sinh sqrt square tan tanh trunc""".split()


@pytest.mark.parametrize("name", UNARY)
def test_functions_of_one(name, backend):
    for source in (f"torch.{name}(x)", f"x.{name}()", f"torch.{name}(x[0]) + x"):
        f = function(WHOLE.format(source))
        for a in ALL:
            make = lambda a=a: (tensor(4, dtype=a, low=0, high=2),) * 3
            both(f, make, backend, refused=a == "bool")


BINARY = """add arctan2 copysign div eq fmax floor_divide hypot logaddexp logical_and maximum min mul remainder
    sub""".split()


@pytest.mark.parametrize("name", BINARY)
def test_functions_of_two(name, backend):
    for a in ALL:
        f = function(WHOLE.format(f"torch.{name}(x, y)"))
        for b in ALL:
            make = lambda a=a, b=b: (tensor(4, dtype=a), tensor(4, dtype=b), None)
            both(f, make, backend, refused=a == b == "bool" or halves_floored(name, a, b))


def test_choices(backend):
    for a in ALL:
        f = function(WHOLE.format("torch.where(x > 4, x, y)"))
        g = function(WHOLE.format("torch.where(x > 4, x, 2.5)"))
        for b in ALL:
            both(f, lambda a=a, b=b: (tensor(6, dtype=a), tensor(6, dtype=b), None), backend)
        both(g, lambda a=a: (tensor(6, dtype=a), None, None), backend)


REDUCTIONS = ["sum", "prod", "mean", "std", "var", "amax", "amin", "any", "all", "argmax", "argmin"]


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("arguments", ["", "dim=0", "1", "-1, keepdim=True", "axis=1", "dim=0, keepdims=True"])
def test_reductions(name, arguments, backend):
    for source in (f"torch.{name}(x{', ' * bool(arguments)}{arguments})", f"x.{name}({arguments})"):
        f = function(WHOLE.format(source))
        for a in ALL:
            refused = a in ("bool", "uint8") or (name == "std" and "1" in arguments)
            both(f, lambda a=a: (tensor(3, 4, dtype=a, low=0, high=2), None, None), backend, refused=refused)


def test_other_functions(backend):
    for source, shapes in (
        ("torch.std(x, 0, correction=0)", [(3, 4)]),
        ("torch.cumsum(x, 0)", [(3, 4)]),
        ("x.cumprod(1)", [(3, 4)]),
        ("torch.dot(x, y)", [(5,), (5,)]),
        ("torch.mv(x, y)", [(4, 5), (5,)]),
        ("torch.mm(x, y)", [(4, 5), (5, 3)]),
        ("x @ y", [(4, 5), (5, 3)]),
        ("x.max()", [(4, 5)]),
        ("x.t()", [(4, 5)]),
        ("x.T", [(4, 5)]),
        ("x.transpose(0, 1)", [(4, 5)]),
        ("torch.zeros_like(x) + 1", [(4, 5)]),
        ("torch.full_like(x, 2)", [(4, 5)]),
        ("torch.zeros(4, 5) + x", [(4, 5)]),
        ("torch.ones((4, 5), dtype=torch.int32) + x", [(4, 5)]),
        ("x.clone()", [(4, 5)]),
        ("x[1:, None, ::2]", [(4, 5)]),
        ("x.to(torch.float64) / 3", [(4, 5)]),
        ("x.double() + y.size(0) + x.dim() + x.numel()", [(4, 5), (5,)]),
        ("(x ** 2).sum(dim=1)", [(4, 5)]),
    ):
        f = function(WHOLE.format(source))
        for a in ("int32", "float32", "float64"):
            make = lambda a=a: (*(tensor(*s, dtype=a) for s in shapes), *[None] * (3 - len(shapes)))
            both(f, make, backend)


def test_a_product_of_two_types_is_torchs_error(backend):
    f = function(WHOLE.format("x @ y"))
    both(f, lambda: (tensor(4, 5), tensor(5, dtype="float64"), None), backend)


def test_loops(backend):
    f = function(
        """
def f(a, x, y):
    #pragma parallel for simd
    for i in range(x.shape[0]):
        if x[i] > 3:
            y[i] += a * x[i] / 2
    s = 0.0
    #pragma parallel for simd
    for i in range(len(x)):
        s += x[i] * y[i]
    return s
"""
    )
    for a in ("float32", "float64"):
        result = both(f, lambda a=a: (1.5, tensor(100, dtype=a), tensor(100, dtype=a)), backend)
        assert result.shape == () and result.dtype == getattr(torch, a)


def test_division_of_elements_by_zero(backend):
    f = function(
        """
def f(x, y):
    #pragma sequential for
    for i in range(x.shape[0]):
        x[i] = 6 // y[i]
"""
    )
    make = lambda: (torch.ones(3, dtype=torch.int32), torch.tensor([2, 0, 3], dtype=torch.int32))
    both(f, make, backend)
    x, y = make()
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        appy.jit(strict=True, backend=backend)(f)(x, y)
    assert x.tolist() == [3, 1, 1]


AXPY = "def f(a, x, y):\n    #pragma 0=>parallel\n    y[:] += a * x\n"


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: tensor(4).requires_grad_(), "requires gradients"),
        (lambda: tensor(4).to_sparse(), "no dense tensor|cannot be read"),
        (lambda: torch.zeros(4, dtype=torch.complex64).conj(), "conjugated lazily"),
        (lambda: torch.zeros(4, dtype=torch.complex32), "without compiled form"),
        (lambda: torch.zeros(4, dtype=torch.complex64).conj().imag, "negated lazily"),
    ],
    ids=["grad", "sparse", "conjugated", "complex32", "negative"],
)
def test_refused_tensors(make, why, backend):
    with pytest.raises(appy.CompileError, match=why):
        appy.jit(strict=True, backend=backend)(function(AXPY))(1.0, make(), tensor(4))


def test_numpy_beside_tensors_is_refused(backend):
    np = importlib.import_module("numpy")
    with pytest.raises(appy.CompileError, match="of torch in the host's memory"):
        appy.jit(strict=True, backend=backend)(function(AXPY))(1.0, tensor(4), np.ones(4))
    with pytest.raises(appy.CompileError, match="a number of NumPy's"):
        appy.jit(strict=True, backend=backend)(function(AXPY))(np.float32(1), tensor(4), tensor(4))
    with pytest.raises(appy.CompileError, match="a function of numpy"):
        appy.jit(strict=True, backend=backend)(function(WHOLE.format("np.exp(x)"), np=np))(tensor(4), None, None)


def test_steps_below_zero_are_torchs_error(backend):
    both(function(WHOLE.format("x[::-1]")), lambda: (tensor(4), None, None), backend)


def test_a_parameter_without_gradients(backend):
    p = torch.nn.Parameter(tensor(4), requires_grad=False)
    compiled = appy.jit(strict=True, backend=backend)(function(AXPY))
    y = torch.zeros(4)
    compiled(1.0, p, y)
    torch.testing.assert_close(y, p.data)


def test_guards_see_the_grad_flag(backend):
    compiled = appy.jit(backend=backend)(function(AXPY))
    x, y = tensor(4), torch.zeros(4)
    compiled(1.0, x, y)
    assert compiled.stats()["runs"] == 1
    with pytest.warns(appy.AppyWarning, match="requires gradients"):
        compiled(1.0, x.requires_grad_(), y)
    assert compiled.stats()["runs"] == 1


def test_another_default_dtype(backend):
    torch.set_default_dtype(torch.float64)
    try:
        with pytest.raises(appy.CompileError, match="default dtype"):
            appy.jit(strict=True, backend=backend)(function(AXPY))(1.0, tensor(4, dtype="int32"), tensor(4))
    finally:
        torch.set_default_dtype(torch.float32)


def test_views_are_torchs(backend):
    f = function(
        "def f(x):\n    #pragma sequential for\n    for i in range(3):\n        row = x[i, 1:]\n    return row\n"
    )
    x = tensor(3, 4)
    row = appy.jit(strict=True, backend=backend)(f)(x)
    row[0] = -1
    assert x[2, 1] == -1 and row.data_ptr() == x[2, 1:].data_ptr()


def test_new_tensors_keep_the_order(backend):
    f = function(
        "def f(x, y):\n"
        "    #pragma 0=>parallel 1=>simd\n    c = 2 * x + y\n"
        "    #pragma 0=>parallel 1=>simd\n    d = torch.zeros_like(x)\n"
        "    #pragma 0=>parallel 1=>simd\n    e = x - y[0]\n"
        "    return c, d, e\n"
    )
    for shape in ((5, 7), (40, 3)):
        for lay in (lambda t: t, lambda t: t.t().contiguous().t()):
            x, y = lay(tensor(*shape)), lay(tensor(*shape, low=2))
            for mine, theirs in zip(appy.jit(strict=True, backend=backend)(f)(x, y), f(x, y), strict=True):
                torch.testing.assert_close(mine, theirs)
                assert mine.stride() == theirs.stride()
