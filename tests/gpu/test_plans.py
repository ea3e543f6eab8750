"""What a launch keeps from the one before: sizes, strides and scalars that change are seen."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import appy


def part(a, b, n, scale):
    total = 0
    # pragma parallel for
    for i in range(n):
        s = 0.0
        # pragma simd
        for j in range(a.shape[1]):
            s += scale * a[i, j]
        b[i] = s
        total += i
    last = n * 2
    return total, last


def scratch(a, b):
    # pragma parallel for
    for i in range(a.shape[0]):
        row = 2 * a[i, :]
        b[i, :] = row[::-1] + np.sum(row)


@pytest.mark.usefixtures("emulated")
@pytest.mark.parametrize("repeat", [1, 2])
def test_sizes_and_scalars_in_turn(repeat):
    compiled = appy.jit(strict=True, backend="cuda")(part)
    rng = np.random.default_rng(repeat)
    # More than are kept, again and again, in two orders.
    cases = [(rows, columns, n) for rows in (1, 5, 40) for columns in (0, 1, 33) for n in (0, rows - 1, rows)]
    for rows, columns, n in cases * repeat + cases[::-1]:
        a = rng.random((rows, columns))
        if rows % 2:
            a = np.asfortranarray(a)
        got, want = np.full(rows, -1.0), np.full(rows, -1.0)
        for scale in (1.5, -2.0):
            assert compiled(a, got, n, scale) == part(a, want, n, scale)
            np.testing.assert_allclose(got, want, rtol=1e-13)
    assert compiled.stats()["declined"] == 0


@pytest.mark.usefixtures("emulated")
def test_what_the_host_refuses_is_refused_with_first_sizes_and_others():
    compiled = appy.jit(strict=True, backend="cuda")(part)
    rng = np.random.default_rng(7)
    for rows, n in ((5, 9), (5, 5), (6, 9), (7, 7), (4, 5), (5, 9)):
        a, got, want = rng.random((rows, 3)), np.zeros(rows), np.zeros(rows)
        if n > rows:
            for function, b in ((compiled, got), (part, want)):
                with pytest.raises(IndexError):
                    function(a, b, n, 1.0)
        else:
            assert compiled(a, got, n, 1.0) == part(a, want, n, 1.0)
        np.testing.assert_allclose(got, want, rtol=1e-13)


@pytest.mark.usefixtures("emulated")
def test_arrays_of_workers_in_turn():
    compiled = appy.jit(strict=True, backend="cuda")(scratch)
    rng = np.random.default_rng(1)
    for _ in range(2):
        for rows, columns in [(3, 5), (70, 7), (2, 9000), (3, 5), (1, 1), (300, 40)]:
            a = rng.random((rows, columns))
            got, want = np.zeros_like(a), np.zeros_like(a)
            compiled(a, got)
            scratch(a, want)
            np.testing.assert_allclose(got, want, rtol=1e-12)
    assert compiled.stats()["declined"] == 0


CALLS = """
import os, sys
sys.path.insert(0, {folder!r})
import emulate, fake_cupy, numpy as np, appy
cupy = fake_cupy.install()
emulator = emulate.Emulator(os.environ["APPY_LIBCUDA"])

@appy.jit(strict=True)
def add(a, b, c):
    # pragma parallel for simd
    for i in range(c.shape[0]):
        c[i] = a[i] + b[i]

@appy.jit(strict=True)
def gather(a, k, c):
    # pragma parallel for simd
    for i in range(c.shape[0]):
        c[i] = a[k[i]]

def array(values):
    return fake_cupy.ndarray(np.asarray(values), 0)

a, b, c = array(np.arange(100.0)), array(np.ones(100)), array(np.zeros(100))
k = array(np.arange(100)[::-1].copy())

def calls(function, *arguments):
    emulator.reset()
    function(*arguments)
    names = ("cuMemHostAlloc", "cuMemAlloc_v2", "cuMemAllocAsync", "cuDeviceGetDefaultMemPool", "cuStreamQuery",
             "cuOccupancyMaxActiveBlocksPerMultiprocessor", "cuLaunchKernel")
    return {{name: emulator.calls(name) for name in names if emulator.calls(name)}}
"""


def program(tmp_path, more):
    path = tmp_path / "program.py"
    path.write_text(CALLS.format(folder=str(Path(__file__).parent)) + more)
    return str(path)


def test_what_a_launch_asks_of_the_driver(python, tmp_path):
    """A kernel that tells nothing needs no memory of ours, and nothing waits for it, strict or not."""
    text = """
first, second = calls(add, a, b, c), calls(add, a, b, c)
assert first == second == {"cuLaunchKernel": 1}, (first, second)
appy.synchronize()
np.testing.assert_array_equal(c.get(), np.arange(100.0) + 1)
assert add.stats()["runs"] == 2
"""
    python(program(tmp_path, text), "")


def test_arrays_of_a_region_are_kept_for_the_next_launch(python, tmp_path):
    """The first use of a pool takes 9 ms. What is large is the pool's, and nobody else's while it is not used."""
    text = """
@appy.jit(strict=True)
def scratch(a, b):
    # pragma parallel for
    for i in range(a.shape[0]):
        row = 2 * a[i, :]
        b[i, :] = row[::-1] + np.sum(row)

def asked(rows, columns):
    x, y = array(np.random.default_rng(1).random((rows, columns))), array(np.zeros((rows, columns)))
    emulator.reset()
    scratch(x, y)
    appy.synchronize()
    np.testing.assert_allclose(y.get(), 2 * (x.get()[:, ::-1] + x.get().sum(axis=1, keepdims=True)))
    return [emulator.calls(name) for name in ("cuMemAlloc_v2", "cuMemAllocAsync", "cuMemFreeAsync")]

assert asked(3, 40000) == [1, 0, 0]
assert asked(3, 40000) == asked(3, 35000) == [0, 0, 0]  # no more is needed
assert asked(3, 45000) == [1, 0, 0]
assert asked(2, 2**20) == asked(2, 2**20) == [0, 1, 1]
assert asked(3, 45000) == [0, 0, 0]
"""
    python(program(tmp_path, text), "")


def test_strict_waits_for_what_may_fail(python, tmp_path):
    text = """
first, second = calls(gather, a, k, c), calls(gather, a, k, c)
assert first["cuMemHostAlloc"] > 0 and "cuMemHostAlloc" not in second and second["cuStreamQuery"] > 0, (first, second)
np.testing.assert_array_equal(c.get(), np.arange(100.0)[::-1])
"""
    python(program(tmp_path, text), "")


def test_threads_have_default_streams_of_their_own(python, tmp_path):
    """CU_STREAM_PER_THREAD, the handle 2, is another stream in each thread: kernels there share no memory."""
    text = """
import threading

def in_a_thread(handle):
    out = []
    with fake_cupy.stream(handle):
        first, second = calls(gather, a, k, c), calls(gather, a, k, c)
        thread = threading.Thread(target=lambda: out.append(calls(gather, a, k, c)))
        thread.start()
        thread.join()
    np.testing.assert_array_equal(c.get(), np.arange(100.0)[::-1])
    return ["cuMemAlloc_v2" in one for one in (first, second, *out)]

assert in_a_thread(2) == [True, False, True]
assert in_a_thread(0) == [True, False, False]
"""
    python(program(tmp_path, text), "")


def histogram(data, radius, edges, means):
    # pragma parallel for
    for i in range(means.shape[0]):
        inside = np.logical_and(edges[i] <= radius, radius < edges[i + 1])
        means[i] = data[inside].mean()


@pytest.mark.usefixtures("emulated")
@pytest.mark.parametrize(("bins", "points", "threads"), [(5, 40, 256), (5, 1500, 1024), (40, 1500, 512), (5, 600, 512)])
def test_few_long_sums_have_large_blocks(bins, points, threads):
    compiled = appy.jit(strict=True, backend="cuda")(histogram)
    rng = np.random.default_rng(points)
    data, radius, edges = rng.random(points), rng.random(points), np.linspace(0, 1, bins + 1)
    radius[:bins] = edges[:-1]  # none is empty
    got, want = np.zeros(bins), np.zeros(bins)
    compiled(data, radius, edges, got)
    histogram(data, radius, edges, want)
    np.testing.assert_allclose(got, want, rtol=1e-13)
    assert f"blocks of {threads} threads" in str(appy.explain(compiled))


def of_columns(a, found, at):
    # pragma 0=>parallel
    found[0, :] = np.mean(a, axis=0)
    # pragma 0=>parallel
    found[1, :] = np.std(a, axis=0)
    # pragma 0=>parallel
    found[2, :] = np.max(a, axis=0)
    # pragma 0=>parallel
    at[:] = np.argmin(a, axis=0)


@pytest.mark.usefixtures("emulated")
def test_threads_share_the_sums_of_columns(capfd):
    """As a loop over columns around a `simd` loop: one thread for a column would leave most of them idle."""
    compiled = appy.jit(strict=True, backend="cuda", dump="asm")(of_columns)
    for shape in ((700, 37), (9, 70), (2, 5)):
        a = np.random.default_rng(shape[0]).random(shape)
        a[-1] = a[0]  # of equal ones the first
        got, want = np.zeros((3, shape[1])), np.zeros((3, shape[1]))
        at, expected = np.zeros(shape[1], np.int64), np.zeros(shape[1], np.int64)
        compiled(a, got, at)
        of_columns(a, want, expected)
        np.testing.assert_allclose(got, want, rtol=1e-13, atol=1e-15)
        np.testing.assert_array_equal(at, expected)
    assert capfd.readouterr().err.count("= reduce_columns<") == 5  # two for the deviation


def recurrences(a, b):
    # pragma parallel for
    for i in range(a.shape[0]):
        s = 0.0
        for j in range(1, a.shape[1] - 1):
            s = 0.5 * s + a[i, j - 1] * a[i, j] - a[i, j + 1] + a[i, a.shape[1] - 1 - j]
            b[i, j] = s


@pytest.mark.usefixtures("emulated")
def test_elements_along_the_innermost_loop():
    compiled = appy.jit(strict=True, backend="cuda")(recurrences)
    rng = np.random.default_rng(3)
    whole = rng.random((40, 60))
    for rows, columns in [(5, 7), (33, 1), (1, 2), (40, 30)]:
        part = whole[:rows, :columns]
        for a in (
            part.copy(),
            part,
            np.asfortranarray(part),
            part[::-1, ::-1],
            whole[:rows, ::2][:, : min(columns, 30)],
        ):
            got, want = np.zeros_like(a), np.zeros_like(a)
            compiled(a, got)
            recurrences(a, want)
            np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-13)


def in_turn(x, y, steps):
    # pragma sequential for
    for t in range(steps):
        # pragma parallel for
        for i in range(x.shape[0]):
            # pragma simd
            for j in range(x.shape[1]):
                v = y[i, j]
                for k in range(3):
                    v = v * 0.5 + k
                x[i, j] = v
        if t % 2 == 0:
            # pragma parallel for
            for i in range(x.shape[0]):
                # pragma simd
                for j in range(x.shape[1]):
                    x[i, j] = x[i, j] * 0.5 + 1


@pytest.mark.usefixtures("emulated")
@pytest.mark.parametrize("order", ["forward", "reverse"])
def test_nests_without_a_barrier_between_have_the_same_threads(order, monkeypatch):
    monkeypatch.setenv("APPY_CUDA_SHAPE", "unroll=4")
    monkeypatch.setenv("APPY_EMULATOR_ORDER", order)
    compiled = appy.jit(strict=True, backend="cuda")(in_turn)
    x, y = np.random.default_rng(1).random((2, 40, 70))
    got, want = x.copy(), x.copy()
    compiled(got, y, 6)
    in_turn(want, y, 6)
    np.testing.assert_allclose(got, want, rtol=1e-13)


def second_differences(a, b, c):
    # pragma parallel for
    for i in range(2, a.shape[0] - 2):
        # pragma parallel for
        for j in range(2, a.shape[1] - 2):
            # pragma simd
            for k in range(a.shape[2]):
                b[i, j, k] = (
                    c[i, j, k] * (a[i - 2, j, k] + a[i + 2, j, k] - a[i, j - 2, k] - a[i, j + 2, k]) + a[i, j, k]
                )


@pytest.mark.usefixtures("emulated")
@pytest.mark.parametrize("shape", [(9, 10, 11), (5, 5, 70), (7, 23, 3), (4, 9, 9), (6, 5, 1)])
@pytest.mark.parametrize("unroll", [1, 3, 4])
def test_rows_of_several_dimensions(shape, unroll, monkeypatch):
    monkeypatch.setenv("APPY_CUDA_SHAPE", f"unroll={unroll}")
    compiled = appy.jit(strict=True, backend="cuda")(second_differences)
    a, c, b = np.random.default_rng(1).random((3, *shape))
    got, want = b.copy(), b.copy()
    compiled(a, got, c)
    second_differences(a, want, c)
    np.testing.assert_allclose(got, want, rtol=1e-12)


def doubled(a, out):
    # pragma 0=>parallel 1=>simd
    out[...] = a + a


@pytest.mark.usefixtures("emulated")
def test_threads_that_wait_for_nobody_have_four_elements_each():
    compiled = appy.jit(strict=True, backend="cuda")(doubled)
    a = np.random.default_rng(0).random((600, 1003))
    out = np.zeros_like(a)
    compiled(a, out)
    np.testing.assert_array_equal(out, a + a)
    # As many as rows of whole vectors of threads have.
    assert f"{600 * 1024 // (4 * 128)} blocks of 128 threads" in str(appy.explain(compiled))
