"""Small programs that once went wrong: compiled under strict=True they do what plain Python does."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from compare import assert_same

import appy

CASES: list[tuple[Callable[..., Any], tuple, dict[str, Any]]] = []


def case(*args: Any, **options: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The function is called with copies of the arguments, plain and under ``jit(**options)``."""

    def register(function):
        CASES.append((function, args, options))
        return function

    return register


ZEROS = np.where(np.random.default_rng(1).random(333) < 0.5, 0.0, -0.0)


@case(np.append(-1.0, ZEROS), exact=True)
@case(np.append(-1.0, -ZEROS), exact=True)
@case(np.append(-1.0, ZEROS).astype(np.float16))
@case(np.append(-1.0, -ZEROS).astype(np.float16))
def sign_of_the_last_of_equal_zeros(x):
    high, last = x[0], -1
    # pragma parallel for simd
    for i in range(x.shape[0]):
        if x[i] >= high:
            high = x[i]
            last = i
    return np.signbit(high), last


@case(np.append(1.0, ZEROS), exact=True)
@case(np.append(1.0, ZEROS).astype(np.float32))
def sign_of_the_first_of_equal_zeros(x):
    low, first = x[0], 0
    # pragma simd
    for i in range(x.shape[0]):
        if x[i] < low:
            low = x[i]
            first = i
    return np.signbit(low), first


@case(np.arange(8.0), exact=True)
def range_of_constants_in_exact_mode(x):
    # pragma parallel for
    for i in range(8):
        x[i] += 1
    return i


@case(np.arange(8.0))
def item_of_a_zero_dimensional_array(x):
    # pragma sequential for
    for i in range(8):
        x[i] = np.where(x[i] > 3, x[i], -1.0)[()]
    return i


BIG = np.array([2**64 - 1, 3, 2**63, 2**53 + 1] * 4, np.uint64)


@case(np.arange(16.0), BIG, np.zeros(16))
def float_or_uint64_after_stores(x, z, out):
    # pragma sequential for
    for i in range(16):
        out[i] = i
        last = x[i] if i % 3 else z[i]
    return last


@case(BIG, np.int16(-3), np.zeros(16))
@case(BIG, np.uint8(3), np.zeros(16))
@case(BIG, -3, np.zeros(16))
@case(BIG, 3, np.zeros(16))
def product_of_uint64(z, p, out):
    first = p
    # pragma sequential for
    for i in range(16):
        out[i] = 1
        last = first if i % 5 == 0 else z[i]
        if i % 4 != 2:
            p = z[i] if p < 0 else z[i] * 3
    return p, last


@case(np.arange(16) + 2**62, np.arange(16, dtype=np.float32))
def int64_or_float32(z, x):
    # pragma sequential for
    for i in range(16):
        x[i] += 1
        last = z[i] if i % 5 == 0 else x[i]
        y = last * 2
    return last, y


@case(np.arange(16, dtype=np.float32), 0.0)
@case(np.arange(16, dtype=np.float32), 0.1)
@case(np.arange(16, dtype=np.float32), 2**24 + 1)
@case(np.arange(0, dtype=np.float32), 0.1)
@case(np.full(16, 0.1, np.float32), 0)
def float32_sum_from_a_python_number(x, s):
    # pragma parallel for simd
    for i in range(len(x)):
        if x[i] != 3:
            s += x[i]
    return s


@case(np.arange(16.0))
def int_that_float64_does_not_hold(x):
    # pragma sequential for
    for i in range(len(x)):
        last = min(x[i] * 1e300 if i < 9 else 9e18, 9007199254740993)
    return last


@case(np.arange(16, dtype=np.float32), True)
@case(np.arange(16, dtype=np.float32), False)
def float32_sum_that_is_reset(x, round_trip):
    s = 0.0
    seen = []
    # pragma sequential for
    for i in range(len(x)):
        s += x[i] * x[i]
        if i % 4 == 3:
            s = float(s) * 0.1 if round_trip else 0.25
    return s, seen


def clauses_that_are_ignored(x, n):
    s = t = 0.0
    m = 3
    # pragma parallel for le(n + 1) num_threads(2) schedule(static, unknown) shared(absent, x) private(t)
    # pragma reduction(prod: s) reduction(max: m) block(n // 0)
    for i in range(len(x)):
        s += x[i] + t
        t = x[i]
        m = max(m, i)
    return s, m


@case(np.array([3, 2, 1, 0, 5, 4]), np.zeros(6), 4)
@case(np.array([3, 2, 6, 0, 5, 4]), np.zeros(6), 4)
@case(np.array([3, -7, 1, 0, 5, 4]), np.zeros(6), 4)
def walk_that_starts_at_a_counter(after, x, n):
    start = 0
    # pragma sequential for
    for i in range(n):
        at = start
        for j in range(n):
            x[at] += 1.0
            at = int(after[at])
        start += 1
    return start, at


def either_number_after_stores(x, out, big):
    # pragma sequential for
    for i in range(len(x)):
        out[i] = i
        k = big + i
        last = k if i % 3 == 0 else x[i]
        more, half, same = last + 1, last * 0.5, last == big
    return last, more, half, same


def number_under_a_condition(x, out, big):
    last = 0.5
    # pragma simd
    for i in range(len(x)):
        out[i] = i
        if x[i] > 2:
            last = big - i
    return last


def int_that_becomes_a_float(x, out, big):
    s = big
    # pragma sequential for
    for i in range(len(x)):
        out[i] = s
        s = s + (x[i] if i == 13 else 1)
    return s


def clipped_to_ints(x, out, big):
    s = 1.5
    # pragma sequential for
    for i in range(len(x)):
        out[i] = i
        s = min(max(s, big - i), big + 3)
    return s


def either_number_before_a_failure(x, out, big):
    s = 1.5
    # pragma sequential for
    for i in range(len(x)):
        s = big + i if x[i] > 3 else s
        out[i + i // 12 * 1000] = 1
    return s


def either_number_in_lanes(x, out, big):
    # pragma parallel for simd
    for i in range(len(x)):
        last = big + i if x[i] > 3 else x[i]
        out[i] = last + 1
    return last, i


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("big", [2**53 + 1, 2**62 + 1, -(2**60) - 1, 5])
@pytest.mark.parametrize(
    "function",
    [
        either_number_after_stores,
        number_under_a_condition,
        int_that_becomes_a_float,
        clipped_to_ints,
        either_number_before_a_failure,
        either_number_in_lanes,
    ],
)
def test_ints_beyond_a_float_stay_what_they_are(function, big, dtype):
    compiled = appy.jit(strict=True)(copy.copy(function))
    outcomes = []
    for f in (function, compiled):
        x, out = np.arange(16, dtype=dtype), np.zeros(16)
        try:
            result = f(x, out, big)
        except IndexError as e:
            result = str(e), sorted((k, v) for k, v in e.__traceback__.tb_next.tb_frame.f_locals.items() if k in "is")
        outcomes.append((repr(result), out.tolist()))
    assert outcomes[1] == outcomes[0]
    assert compiled.stats()["declined"] == 0


@case(np.arange(9) % 7 + 1)
@case((np.arange(9) % 7 + 1).astype(np.uint64))
@case((np.arange(9) % 7 - 3).astype(np.int8))
def a_bound_that_is_an_int_or_an_element(a):
    s, k = 0, 3
    # pragma sequential for
    for i in range(len(a)):
        m = 3 if i % 2 else a[i]
        for j in range(m):
            s += j * int(a[j])
        for j in range(m, 9):
            s -= j
        for j in range(9, k, -2):
            s += 5 * j
        k = a[i] if a[i] < 5 else 2
    return s, k, j, m


@case(np.arange(9) % 7 + 1)
def a_step_that_is_an_int_or_an_element(a):
    s = 0
    # pragma sequential for
    for i in range(len(a)):
        k = 3
        if i % 2:
            k = a[i]
        for j in range(0, 9, k):
            s += j * i
    return s, k


@case(np.arange(9) % 7 + 1, 40)
def a_bound_of_a_helper_that_is_an_int_or_an_element(a, n):
    def counted(k):
        return range(k, n)

    s = 0
    # pragma parallel for
    for i in range(len(a)):
        m = n - i if a[i] > 2 else a[i]
        for j in counted(m):
            s += j
    return s


@pytest.mark.parametrize(
    ("function", "args", "options"), CASES, ids=[f"{c[0].__name__}-{i}" for i, c in enumerate(CASES)]
)
def test_compiled_equals_python(function, args, options):
    outcomes = []
    for f in (function, appy.jit(strict=True, **options)(copy.copy(function))):
        mine = copy.deepcopy(args)
        with np.errstate(all="ignore"):
            try:
                result = f(*mine)
            except Exception as e:
                if isinstance(e, appy.CompileError):
                    raise
                result = (type(e), str(e))
        outcomes.append((result, list(mine)))
    assert_same(outcomes[1], outcomes[0], ulps=64, scale=1.0)


def test_clauses_that_contradict_the_body_warn():
    with pytest.warns(appy.AppyWarning) as caught:
        result = appy.jit(strict=True)(copy.copy(clauses_that_are_ignored))(np.ones(9), 3)
    assert_same(result, clauses_that_are_ignored(np.ones(9), 3))
    texts = [str(w.message) for w in caught]
    for words in (
        "schedule(unknown) is ignored: name 'unknown' is not defined",
        "block(n // 0) is ignored",
        "shared(absent) is ignored: there is no variable absent",
        "private(t) is ignored: t is read before it is assigned",
        "reduction(prod: s) is ignored: s is updated in another way",
    ):
        assert any(words in text for text in texts), (words, texts)
    assert not any(text.startswith(("reduction(max", "le(", "num_threads")) for text in texts), texts


def positive_sum(x, total, k):
    # pragma simd
    for i in range(x.shape[0]):
        if x[i] > 0:
            total[k] += x[i]


def sum_behind_continue(x, total, k):
    # pragma simd
    for i in range(x.shape[0]):
        if x[i] <= 0:
            continue
        total[0] += x[i]


def sum_where_marked(x, total, k):
    # pragma parallel for simd
    for i in range(x.shape[0]):
        if x[i] % 2 == 0:
            total[k] += x[i]


def sum_if_asked(x, total, k):
    # pragma parallel for simd
    for i in range(x.shape[0]):
        if k < 3:
            total[k] += x[i]


@pytest.mark.parametrize("function", [positive_sum, sum_behind_continue, sum_where_marked, sum_if_asked])
@pytest.mark.parametrize("k", [0, 2, -1, 3, -4])
@pytest.mark.parametrize("n", [0, 5, 1000])
@pytest.mark.filterwarnings("ignore::appy.AppyWarning")
def test_a_sum_in_an_element_under_a_condition(function, k, n):
    """An element out of bounds matters only where the condition holds."""
    compiled = appy.jit(strict=True)(function)
    for x in (np.arange(float(n)) % 7 - 3, np.full(n, -1.0)):
        got, want = np.zeros(3), np.zeros(3)
        errors = []
        for f, total in ((function, want), (compiled, got)):
            try:
                f(x, total, k)
            except IndexError as error:
                errors.append(str(error))
        assert len(errors) in (0, 2) and len(set(errors)) <= 1
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("function", [positive_sum, sum_where_marked])
def test_a_sum_in_an_element_under_a_condition_is_a_reduction(function, recwarn, capfd):
    compiled = appy.jit(strict=True)(function)
    compiled(np.ones(100), np.zeros(3), 1)
    appy.explain(compiled)
    assert "lanes" in capfd.readouterr().out
    assert not recwarn.list


def sums_of_rows(a, total, label):
    # pragma parallel for
    for i in range(a.shape[0]):
        # pragma simd
        for j in range(a.shape[1]):
            if a[i, j] > 0.5:
                total[i] += a[i, j]


def sums_by_label(a, total, label):
    # pragma parallel for
    for i in range(a.shape[0]):
        # pragma simd
        for j in range(a.shape[1]):
            if a[i, j] > 0.5:
                total[label[i]] += a[i, j]


def sums_by_new_label(a, total, label):
    # pragma parallel for
    for i in range(a.shape[0]):
        label[i] = a.shape[0] - 1 - i
        # pragma simd
        for j in range(a.shape[1]):
            total[label[i]] += a[i, j]


@pytest.mark.parametrize("function", [sums_of_rows, sums_by_label, sums_by_new_label])
@pytest.mark.filterwarnings("ignore::appy.AppyWarning")
def test_sums_of_lanes_in_an_element_by_row(function):
    """The lanes of a row add to one element, whose index is loaded in the loop."""
    a = np.round(np.random.default_rng(0).random((50, 70)), 2)
    label = np.random.default_rng(1).permutation(50)
    got, want = np.zeros(50), np.zeros(50)
    function(a, want, label)
    appy.jit(strict=True)(function)(a, got, label)
    np.testing.assert_allclose(got, want, rtol=1e-13)
