"""bfloat16 tensors as inputs and outputs of regions, compared with torch: on the CPU, the evaluator and the emulated device."""

from __future__ import annotations

import contextlib
import os

import pytest
from tensors import both, function, on_device

import appy

torch = pytest.importorskip("torch")


@pytest.fixture(params=["cpu", "eval", "cuda", pytest.param("device", marks=pytest.mark.gpu)])
def backend(request):
    if request.param == "cuda":
        if os.environ.get("APPY_TEST_KERNELS") != "1":
            pytest.skip("wants a process of its own")
        request.getfixturevalue("emulated")
    with on_device() if request.param == "device" else contextlib.nullcontext(request.param) as name:
        yield name


COPY = """
def f(x, y):
    #pragma parallel for simd
    for i in range(x.shape[0]):
        y[i] = x[i]
"""


def copied(x, dtype, backend):
    y = torch.zeros(x.shape, dtype=dtype)
    appy.jit(strict=True, backend=backend)(function(COPY))(x, y)
    return y


def assert_bits(mine, theirs):
    """Equal to the bit, but for those of NaN."""
    assert torch.equal(mine.isnan(), theirs.isnan())
    mine, theirs = (t[~t.isnan()].view(torch.uint16) for t in (mine, theirs))
    assert torch.equal(mine, theirs)


def every_half():
    return torch.arange(1 << 16, dtype=torch.int32).to(torch.uint16).view(torch.bfloat16)


def test_every_value_becomes_a_float(backend):
    x = every_half()
    torch.testing.assert_close(copied(x, torch.float32, backend), x.float(), rtol=0, atol=0, equal_nan=True)
    assert_bits(copied(x, torch.bfloat16, backend), x)


def test_floats_are_rounded_to_the_nearest(backend):
    """Ties to even, denormal numbers, overflow to infinity."""
    high = torch.arange(1 << 16, dtype=torch.int32) << 16
    rest = torch.tensor([0x0001, 0x7FFF, 0x8000, 0x8001, 0xFFFF], dtype=torch.int32)
    sample = high if backend != "eval" else high[::7]
    x = (sample[:, None] | rest).flatten().view(torch.float32)
    assert_bits(copied(x, torch.bfloat16, backend), x.to(torch.bfloat16))


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int8", "int32", "int64", "float16", "float64"])
def test_conversions(dtype, backend):
    generator = torch.Generator().manual_seed(3)
    x = torch.rand(3000, generator=generator, dtype=torch.float64, device="cpu") * 200
    x = x.to(torch.get_default_device()) - (0 if dtype == "uint8" else 100)
    x = (x * 1e3 if dtype in ("int32", "int64", "float64") else x).to(getattr(torch, dtype))
    y = copied(x, torch.bfloat16, backend)
    assert_bits(y, x.to(torch.bfloat16))
    assert torch.equal(copied(y, x.dtype, backend), y.to(x.dtype))


def randoms(n, seed=0):
    values = torch.randn(n, generator=torch.Generator().manual_seed(seed), device="cpu")
    return values.to(torch.bfloat16).to(torch.get_default_device())


EXPRESSIONS = ["x * y + x", "(x - y) / (y * y + 1)", "x * 0.1", "x / 3", "abs(x) ** 2", "-x", "x + 1"]


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_each_operation_is_rounded_once(expression, backend):
    """To the bit, and no product is contracted with a sum."""
    array = function(f"def f(x, y, out):\n    #pragma 0=>parallel\n    out[:] = {expression}\n")
    expression = expression.replace("x", "x[i]").replace("y", "y[i]")
    loop = function(
        f"def f(x, y, out):\n    #pragma parallel for simd\n    for i in range(len(x)):\n        out[i] = {expression}\n"
    )
    for f in (array, loop):
        want, got = torch.zeros(999, dtype=torch.bfloat16), torch.zeros(999, dtype=torch.bfloat16)
        f(randoms(999), randoms(999, 1), want)
        appy.jit(strict=True, backend=backend)(f)(randoms(999), randoms(999, 1), got)
        assert_bits(got, want)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("expression", ["x + 0.1", "x - 0.1", "0.1 - x", "x + 70000", "x - 3"])
def test_sums_with_a_number(expression, dtype, backend):
    """torch rounds the number before on the host, but not on devices."""
    f = function(f"def f(x):\n    #pragma 0=>parallel\n    z = {expression}\n    return z\n")
    if backend in ("cuda", "auto"):
        both(f, lambda: (randoms(100).to(getattr(torch, dtype)),), backend)
        return
    x = every_half().view(getattr(torch, dtype))[:: 1 if backend == "cpu" else 13].clone()
    assert_bits(appy.jit(strict=True, backend=backend)(f)(x), f(x))


def test_the_sign_of_nan(backend):
    f = function("def f(x):\n    #pragma 0=>parallel\n    z = torch.sign(x)\n    return z\n")
    for dtype in (torch.bfloat16, torch.float32, torch.float64):
        both(
            f,
            lambda dtype=dtype: (torch.tensor([-2.0, -0.0, 0.0, 3.0, float("nan"), float("inf")], dtype=dtype),),
            backend,
        )


def test_in_place(backend):
    for statement in ("x += y", "x *= 0.1", "x /= y", "x -= 1"):
        f = function(f"def f(x, y):\n    #pragma 0=>parallel\n    {statement}\n")
        both(f, lambda: (randoms(100), randoms(100, 1)), backend)


def test_types_of_mixed_operands(backend):
    f = function("def f(x, y):\n    #pragma 0=>parallel\n    z = x * y\n    return z\n")
    for other in (torch.float16, torch.float32, torch.float64, torch.int32, torch.bool, torch.complex64):
        both(f, lambda dtype=other: (randoms(50), torch.ones(50, dtype=dtype)), backend)
        # What a complex element makes of halves differs between versions of torch.
        one = lambda dtype=other: (randoms(50), torch.ones((), dtype=dtype))
        both(f, one, backend, refused=other.is_complex)


SUM = """
def f(x):
    s = 0.0
    #pragma parallel for simd
    for i in range(x.shape[0]):
        s += x[i]
    return s
"""


def test_sums_are_accumulated_in_float32(backend):
    x = torch.full((3000,), 1.25, dtype=torch.bfloat16)
    for f in (function(SUM), function("def f(x):\n    #pragma 0=>parallel\n    s = x.sum()\n    return s\n")):
        got = appy.jit(strict=True, backend=backend)(f)(x)
        assert got.dtype == torch.bfloat16 and got.shape == () and got.item() == 3744  # 3750, rounded


def test_a_sum_of_halves_is_a_reduction(recwarn):
    """The Python number that it starts from does not keep it in order."""
    for dtype in (torch.float16, torch.bfloat16):
        appy.jit(strict=True, backend="cpu")(function(SUM))(torch.ones(100, dtype=dtype))
    assert not [w for w in recwarn if "runs in order" in str(w.message)]


@pytest.mark.parametrize("name", ["mean", "prod", "amax", "argmin", "std", "cumsum", "cumprod"])
def test_reductions(name, backend):
    f = function(f"def f(x):\n    #pragma 0=>parallel\n    z = x.{name}(dim=1)\n    return z\n")
    make = lambda: (randoms(24).abs().reshape(4, 6) + 0.5,)
    both(f, make, backend)


def test_products(backend):
    f = function("def f(x, y):\n    #pragma :M=>parallel :N=>simd\n    z = x @ y\n    return z\n")
    both(f, lambda: (randoms(12 * 7).reshape(12, 7), randoms(7 * 9, 1).reshape(7, 9)), backend)


@pytest.mark.parametrize("op", ["+=", "-=", "*="])
def test_atomics(op, backend):
    f = function(
        f"""
def f(h, at, v):
    #pragma parallel for
    for i in range(at.shape[0]):
        #pragma atomic
        h[at[i]] {op} v[i]
"""
    )
    both(
        f,
        lambda: (torch.ones(4, dtype=torch.bfloat16), torch.arange(80) % 3, torch.ones(80, dtype=torch.bfloat16)),
        backend,
    )


def test_methods(backend):
    for source in ("x.to(torch.bfloat16)", "x.float().bfloat16()", "torch.zeros_like(x, dtype=torch.bfloat16)"):
        f = function(f"def f(x):\n    #pragma 0=>parallel\n    z = {source}\n    return z\n")
        both(f, lambda: (torch.arange(20.0),), backend)
