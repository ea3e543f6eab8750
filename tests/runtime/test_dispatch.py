"""What happens between the call of a region and its machine code: guards, the cache, overlap, refusals, threads."""

from __future__ import annotations

import gc
import itertools
import os
import signal
import sys
import threading
import time
import warnings

import numpy as np
import pytest

import appy
from appy._rewrite import original_of


def axpy(x, y, a):
    # pragma parallel for simd
    for i in range(len(x)):
        y[i] += a * x[i]
    return i


def smear(x, y):
    # pragma simd
    for i in range(len(x)):
        y[i] = x[i] + 1


def fresh(function, **options):
    """A compiled copy with a cache of its own."""
    code = original_of(function.__code__).replace(co_name=function.__name__)  # tests of enable() may have rewritten it
    copy = type(function)(code, function.__globals__, function.__name__, function.__defaults__, function.__closure__)
    return appy.jit(**{"strict": True, **options})(copy)


def test_a_new_size_of_the_same_types_does_not_compile_again():
    f = fresh(axpy)
    for n in (3, 4, 100, 1000):
        f(np.ones(n), np.zeros(n), 2.0)
    stats = f.stats()
    assert (stats["compiled"], stats["runs"], stats["cache_hits"]) == (1, 4, 3)


def test_each_combination_of_types_is_compiled_once():
    f = fresh(axpy)
    for _ in range(3):
        for dtype in ("f4", "f8", "i4"):
            y = np.zeros(5, dtype)
            f(np.ones(5, dtype), y, 2)
            assert y.tolist() == [2] * 5
    stats = f.stats()
    assert (stats["compiled"], stats["runs"], stats["cache_hits"]) == (3, 9, 6)


def count_up(x, a, b, c, d):
    # pragma simd
    for i in range(len(x)):
        x[i] = a + b - c + d


def test_ranges_of_ints_do_not_use_up_the_versions():
    f = fresh(count_up)
    values = (3, -3, 1 << 40)
    for a, b, c, d in itertools.product(values, repeat=4):
        x = np.zeros(3, np.int64)
        f(x, a, b, c, d)
        assert x.tolist() == [a + b - c + d] * 3
    stats = f.stats()
    assert (stats["runs"], stats["declined"]) == (81, 0)
    assert stats["compiled"] == 9  # eight with ranges, one for any int


@pytest.mark.parametrize(
    ("take_x", "take_y"),
    [
        (np.s_[:-1], np.s_[1:]),
        (np.s_[1:], np.s_[:-1]),
        (np.s_[::2], np.s_[1::2]),
        (np.s_[:20], np.s_[20:]),
        (np.s_[::-1], np.s_[:]),
        (np.s_[:], np.s_[:]),
        (np.s_[::3], np.s_[:14]),
    ],
)
def test_overlapping_views_mean_what_python_means(take_x, take_y):
    base, expected = np.arange(40.0), np.arange(40.0)
    f = fresh(smear)
    f(np.zeros(8), np.zeros(8))
    f(base[take_x], base[take_y])
    smear(expected[take_x], expected[take_y])
    assert base.tolist() == expected.tolist()
    assert f.stats()["runs"] == 2
    # The version without overlap is still the one for arrays that do not.
    compiled = f.stats()["compiled"]
    f(np.zeros(8), np.zeros(8))
    assert f.stats()["compiled"] == compiled


def test_an_array_that_overlaps_itself():
    x = np.ones(9)
    windows, expected = np.lib.stride_tricks.as_strided(np.zeros(10), (9,), (0,)), 0.0
    fresh(axpy)(x, windows, 1.0)
    for _ in range(9):
        expected += 1.0
    assert windows[0] == expected


def test_a_refused_combination_is_remembered_and_others_still_compile():
    f = fresh(smear, strict=False)
    before = f.stats()  # regions of equal code share their counters
    objects = np.zeros(3, object)
    with pytest.warns(appy.AppyWarning, match="test_dispatch.py") as caught:
        f(objects, objects)
        f(objects, objects)
    assert len(caught) == 1
    assert f.stats()["declined"] == before["declined"] + 2
    f(np.zeros(3), np.zeros(3))
    assert f.stats()["runs"] == before["runs"] + 1


def test_strict_raises_each_time():
    f = fresh(smear)
    for _ in range(2):
        with pytest.raises(appy.CompileError, match="smear"):
            f(np.zeros(3, object), np.zeros(3, object))


def test_a_changed_global_is_noticed():
    space = {"np": np, "scale": 2}
    source = "def f(x):\n    # pragma simd\n    for i in range(len(x)):\n        x[i] = helper(x[i])\n    return x\n"
    import linecache

    linecache.cache["<changed global>"] = (len(source), None, source.splitlines(True), "<changed global>")
    exec(compile(source, "<changed global>", "exec"), space)
    exec("def helper(v): return v * scale", space)
    f = appy.jit(strict=True)(space["f"])
    assert f(np.ones(2)).tolist() == [2, 2]
    space["scale"] = 3
    assert f(np.ones(2)).tolist() == [3, 3]
    exec("def helper(v): return v - scale", space)
    assert f(np.ones(2)).tolist() == [-2, -2]
    assert f.stats()["declined"] == 0


def test_errstate_and_warnings_as_errors_decline():
    f = fresh(axpy)
    args = np.ones(3), np.zeros(3), 1.0
    with np.errstate(over="raise"):
        f(*args)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        f(*args)
    assert (f.stats()["runs"], f.stats()["declined"]) == (0, 2)
    with np.errstate(all="ignore"):
        f(*args)
    assert f.stats()["runs"] == 1


def test_references_are_neither_lost_nor_kept():
    f = fresh(axpy)
    x, y = np.ones(2000), np.zeros(2000)
    f(x, y, 1.0)
    before = sys.getrefcount(x), sys.getrefcount(y)
    for _ in range(50):
        f(x, y, 1.0)
        with pytest.raises(IndexError):
            f(x, y[:5], 1.0)
    gc.collect()
    assert (sys.getrefcount(x), sys.getrefcount(y)) == before


def test_one_region_entered_by_many_threads():
    f = fresh(axpy)
    wrong = []

    def work(seed):
        random = np.random.default_rng(seed)
        for k in range(100):
            x = np.arange(random.integers(1, 5000)).astype(["f8", "f4"][k % 2])[:: 1 + k % 3]
            y = np.zeros_like(x)
            if f(x, y, 2.0) != len(x) - 1 or not np.array_equal(y, 2 * x):
                wrong.append((seed, k))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert f.stats()["runs"] == 600


def spin(x):
    n = 0
    # pragma simd
    for i in range(1):
        while x[i] == 0:
            n += 1
    return n


@pytest.mark.skipif(appy.config()["backend"] == "eval", reason="the evaluator does not poll")
def test_ctrl_c_ends_an_endless_loop():
    f = fresh(spin)
    sent = []

    def interrupt():
        time.sleep(0.3)
        sent.append(time.perf_counter())
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        f(np.zeros(1))
    answered = time.perf_counter() - sent[0]
    thread.join()
    assert answered < 0.1
