"""Counts of what is looked up, eight iterations at a time (the pass `unroll`): as in plain Python, also where an index
counts from the end, and where one fails."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import appy


def counted(labels: Any, bins: Any) -> None:
    # pragma parallel for
    for i in range(len(labels)):
        # pragma atomic
        bins[labels[i]] += 1


def weighed(labels: Any, bins: Any) -> None:
    """The loop's own variable counts, from a first label that is not the array's."""
    # pragma parallel for
    for i in range(2, len(labels) - 1):
        # pragma atomic
        bins[labels[i - 1]] += 3 * i + 1


def mixed(labels: Any, bins: Any) -> None:
    # pragma parallel for
    for i in range(len(labels)):
        # pragma atomic
        bins[labels[i]] ^= i


def of_rows(labels: Any, bins: Any) -> None:
    """The same loop for each row of an image."""
    rows = labels[: len(labels) // 5 * 5].reshape(-1, 5) if len(labels) < 200 else labels[:200].reshape(2, 100)
    # pragma parallel for
    for i in range(rows.shape[0]):
        for j in range(rows.shape[1]):
            # pragma atomic
            bins[rows[i, j]] += 1


def at_the_end(labels: Any, bins: Any) -> None:
    """Behind the last group there is no room for another one in 64 bits."""
    # pragma parallel for
    for i in range(2**63 - 43, 2**63 - 2):
        # pragma atomic
        bins[labels[i % 7]] += 1


PROGRAMS = [counted, weighed, mixed, of_rows]
COMPILED = {(p, t): appy.jit(strict=True, threads=t)(p) for p in PROGRAMS for t in (1, 2, 3)}


def ends(program: Callable[..., None], labels: Any, bins: Any) -> str:
    try:
        program(labels, bins)
    except IndexError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("dtype", ["i8", "i4", "u1", "i1"])
@pytest.mark.parametrize("length", [0, 1, 4, 7, 8, 9, 31, 64, 1003, 5000])
@pytest.mark.parametrize("program", PROGRAMS)
def test_counts(program: Callable[..., None], length: int, dtype: str, threads: int) -> None:
    rng = np.random.default_rng(length)
    for low in (0, 0 if dtype == "u1" else -100):
        labels = rng.integers(low, 100, length).astype(dtype)
        for element in ("i8", "i4"):
            plain, fast = np.zeros(100, element), np.zeros(100, element)
            program(labels, plain)
            COMPILED[program, threads](labels, fast)
            np.testing.assert_array_equal(fast, plain)


@settings(deadline=None, max_examples=150)
@given(
    st.sampled_from(PROGRAMS[:3]),
    st.sampled_from([1, 2, 3]),
    st.integers(1, 90),
    st.lists(st.tuples(st.integers(0, 89), st.sampled_from([10, 25, -11, -10, -1, 9])), max_size=3),
)
def test_the_first_label_that_fails_raises(
    program: Callable[..., None], threads: int, length: int, wrong: list[tuple[int, int]]
) -> None:
    """Earlier iterations are complete; with one thread no later one has begun."""
    labels = np.random.default_rng(length).integers(0, 10, length)
    for at, label in wrong:
        labels[at % length] = label
    plain, fast = np.zeros(10, np.int64), np.zeros(10, np.int64)
    expected = ends(program, labels, plain)
    assert ends(COMPILED[program, threads], labels, fast) == expected
    if threads == 1 or not expected:
        np.testing.assert_array_equal(fast, plain)
    elif program is not mixed:
        assert (fast >= plain).all()


@pytest.mark.parametrize("at", [64, 65, 66, 67, 70])
def test_the_note_names_the_iteration(at: int) -> None:
    labels = np.zeros(71, np.int64)
    labels[at] = 10
    with pytest.raises(IndexError) as failure:
        COMPILED[counted, 2](labels, np.zeros(10, np.int64))
    notes = "".join(getattr(failure.value, "__notes__", []))
    assert f"iteration {at}" in notes


@pytest.mark.parametrize("threads", [1, 2])
def test_at_the_end_of_64_bits(threads: int) -> None:
    labels = np.arange(7)
    plain, fast = np.zeros(10, np.int64), np.zeros(10, np.int64)
    at_the_end(labels, plain)
    appy.jit(strict=True, threads=threads)(at_the_end)(labels, fast)
    np.testing.assert_array_equal(fast, plain)


def test_the_pass_says_what_it_does() -> None:
    compiled = appy.jit(strict=True, threads=2)(counted)
    compiled(np.zeros(100, np.int64), np.zeros(10, np.int64))
    assert "eight iterations at a time" in str(appy.explain(compiled))
