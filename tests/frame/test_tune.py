"""``tune=``: candidates are measured on real calls, the best is kept, and results never depend on it."""

from __future__ import annotations

import json
import threading
import types

import numpy as np
import pytest

import appy
from appy import _tune, _tune_store, _warn
from appy._rewrite import original_of


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("APPY_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache" / "tuned.json"


BLOCK = 64
OTHER = 32


def scaled(x, y, B=16):
    n = x.shape[0]
    # pragma parallel for
    for j in range(0, n, B):
        vj = appy.vidx(j, B, n)
        y[vj] = 2 * x[vj] + B * 0
    return B


def by_global(x, y):
    n = x.shape[0]
    # pragma parallel for
    for j in range(0, n, BLOCK):
        y[j : j + BLOCK] = 2 * x[j : j + BLOCK]
    return BLOCK


def hinted(x, y, B=16):
    n = x.shape[0]
    # pragma :n=>parallel,block(B)
    y[:n] = 2 * x[:n]


def arrays(n=1000):
    return np.arange(float(n)), np.zeros(n)


@pytest.mark.parametrize(("function", "name"), [(scaled, "B"), (by_global, "BLOCK")])
def test_candidates_take_turns_and_the_fastest_stays(function, name, cache):
    values = [8, 64, 512]
    tuned = appy.jit(tune={name: values}, strict=True)(function)
    seen = []
    for _ in range(len(values) * 3 + 4):
        x, y = arrays()
        seen.append(tuned(x, y))
        np.testing.assert_array_equal(y, 2 * x)
    assert seen[:9] == values * 3
    assert len(set(seen[9:])) == 1 and seen[9] in values
    assert list(tuned.stats()["tuned"].values()) == [{name: seen[9]}]
    assert tuned.stats()["runs"] == len(seen)
    assert {name: seen[9]} in json.loads(cache.read_text())["chosen"].values()
    assert function(*arrays()) == {"B": 16, "BLOCK": 64}[name] and BLOCK == 64  # uncompiled
    # Another process finds it.
    again = appy.jit(tune={name: values}, strict=True)(function)
    assert again(*arrays()) == seen[9]


def test_the_fastest_candidate_wins():
    tuned = appy.jit(tune={"B": [8, 64, 512]})(scaled)
    tuned(*arrays())
    (kind,) = tuned.__appy_tuner__.kinds.values()
    kind.times = [[0.1, 5.0, 6.0], [9.0, 2.0, 1.0], [0.5, 3.0, 3.0]]  # the first of each compiles
    tuned.__appy_tuner__._choose(kind, 0)
    assert tuned(*arrays()) == 64


def test_calls_of_another_kind_are_measured_by_themselves():
    tuned = appy.jit(tune={"B": [8, 64]})(scaled)
    for _ in range(6):
        tuned(*arrays())
    tuned(*(a.astype(np.float32) for a in arrays()))
    tuned(*arrays(100_000))
    kinds = tuned.stats()["tuned"]
    assert len(kinds) == 3 and sorted(v is None for v in kinds.values()) == [False, True, True]


def test_a_value_that_the_caller_gives_is_the_value():
    tuned = appy.jit(tune={"B": [8, 64]})(scaled)
    x, y = arrays()
    assert tuned(x, y, 24) == 24 and tuned(x, y, B=40) == 40
    np.testing.assert_array_equal(y, 2 * x)
    assert tuned.stats()["tuned"] == {}


def test_arguments_of_pragmas_are_tuned():
    tuned = appy.jit(tune=True, strict=True)(hinted)
    for _ in range(3 * 5 + 1):
        x, y = arrays()
        tuned(x, y)
        np.testing.assert_array_equal(y, 2 * x)
    assert list(tuned.stats()["tuned"].values())[0]["B"] in (4, 8, 16, 32, 64)


def steps(x, y, steps=64, B=16):
    n = x.shape[0]
    for _ in range(steps):
        # pragma parallel for
        for j in range(0, n, B):
            y[j : j + B] = y[j : j + B] + x[j : j + B]


def used_otherwise(x, y, B=16):
    # pragma parallel for
    for j in range(0, x.shape[0], B):
        y[j] = B


def original(function):
    """Without the regions that transparent mode has put in."""
    return types.FunctionType(original_of(function.__code__), function.__globals__, None, function.__defaults__)


def counted(x, y, B=16):
    count = 0
    # pragma parallel for reduction(+:count)
    for j in range(0, x.shape[0], B):
        count += 1
    y[0] = count


def maxima(x, y, B=16):
    # pragma parallel for
    for j in range(0, x.shape[0], B):
        y[j : j + B] = x[j : j + B].max()


def beyond(x, y, B=16):
    # pragma parallel for
    for j in range(0, 20, B):
        y[j : j + B] = x[j : j + B]


def named_dimension(x, y, n=1000):
    # pragma :n=>parallel
    y[:1000] = x[:1000]


def test_true_tunes_only_what_cannot_change_the_result():
    assert _tune._harmless(original(hinted)) == ["B"]
    for function in (steps, scaled, by_global, used_otherwise, counted, maxima, beyond, named_dimension):
        assert _tune._harmless(original(function)) == [], function
    tuned = appy.jit(tune=True)(used_otherwise)
    assert not hasattr(tuned, "__appy_tuner__")


@pytest.mark.parametrize("function", [steps, counted, maxima, beyond])
def test_true_does_not_change_the_size_of_blocks(function):
    tuned = appy.jit(tune=True)(function)
    memory = np.arange(1001.0)
    for _ in range(6):
        (x, y), (p, q) = arrays(), arrays()
        tuned(x, y)
        original(function)(p, q)
        np.testing.assert_array_equal(y, q)
    if function is steps:  # a block reads what the one before it wrote
        expected = memory.copy()
        original(steps)(expected[:-1], expected[1:], 1)
        for _ in range(6):
            overlapping = memory.copy()
            tuned(overlapping[:-1], overlapping[1:], 1)
            np.testing.assert_array_equal(overlapping, expected)


def helper(x):
    return x * OTHER


def calls_helper(x, y):
    # pragma parallel for
    for i in range(x.shape[0]):
        y[i] = helper(x[i]) / OTHER


@pytest.mark.parametrize(
    ("function", "name", "why"),
    [
        (calls_helper, "OTHER", "helper, which it calls, reads the global, too"),
        (scaled, "nothing", "no parameter with a default and no global"),
        (scaled, "x", "the parameter has no default"),
    ],
)
def test_what_cannot_be_tuned_is_a_warning(function, name, why):
    with pytest.warns(appy.AppyWarning, match=why):
        tuned = appy.jit(tune={name: [1, 2]})(function)
    x, y = arrays()
    tuned(x, y)


def test_the_option_is_checked():
    for option in ({"B": []}, {"B": 3}):
        with pytest.raises(ValueError, match=r"tune\['B'\] must be a list"):
            appy.jit(tune=option)
    with pytest.raises(TypeError, match="tune must be"):
        appy.jit(tune=7)


@pytest.mark.parametrize("text", ["{", "[]", '{"version": 1, "chosen": 3}', "\x00\x01", "[" * 100_000])
def test_a_damaged_file_is_a_warning_and_starts_anew(cache, text, monkeypatch):
    cache.parent.mkdir()
    cache.write_text(text)
    monkeypatch.setattr(_warn, "_said", set())
    tuned = appy.jit(tune={"B": [8, 64]})(scaled)
    with pytest.warns(appy.AppyWarning, match="is found anew"):
        tuned(*arrays())
    for _ in range(6):
        tuned(*arrays())
    assert json.loads(cache.read_text())["chosen"]


def test_another_version_and_other_values_are_not_used(cache):
    cache.parent.mkdir()
    cache.write_text(json.dumps({"version": 99, "chosen": {}}))
    _tune_store.save("k", {"B": 3})
    assert _tune_store.load("k") == {"B": 3} and _tune_store.load("other") is None
    assert [p.name for p in cache.parent.iterdir()] == ["tuned.json"]


def test_a_folder_that_cannot_be_written_costs_the_memory_only(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("APPY_CACHE_DIR", str(tmp_path / "file" / "below"))
    monkeypatch.setattr(_warn, "_said", set())
    tuned = appy.jit(tune={"B": [8, 64]})(scaled)
    with pytest.warns(appy.AppyWarning):
        for _ in range(8):
            x, y = arrays()
            tuned(x, y)
    np.testing.assert_array_equal(y, 2 * x)
    assert list(tuned.stats()["tuned"].values())[0] is not None


def test_threads_and_explain(capsys):
    tuned = appy.jit(tune={"B": [8, 64]})(scaled)

    def work():
        for _ in range(10):
            x, y = arrays()
            tuned(x, y)
            np.testing.assert_array_equal(y, 2 * x)

    workers = [threading.Thread(target=work) for _ in range(4)]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    text = str(appy.explain(tuned))
    assert "tuned for (float64[1]<1024,float64[1]<1024): B = " in text and "compiled in" in text


def with_type(x, y, kind, B=16):
    # pragma :=>parallel,block(B)
    y[:] = 2 * x[:]
    return kind


class Odd:
    dtype = np.dtype(float)

    def size(self):
        return 3


def test_arguments_may_be_of_any_type():
    tuned = appy.jit(tune={"B": [8, 64]})(with_type)
    for kind in (np.float64, np.float64(2), Odd(), np.zeros((2, 0)), np.ndarray, None):
        assert tuned(*arrays(), kind) is kind


def uncompiled(x, y, B=128):
    # pragma parallel for
    for j in range(0, x.shape[0], B):
        y[j : j + B] = x[j : j + B]
        y.flags.writeable = True
    return B


def test_uncompiled_every_name_has_its_own_value(monkeypatch):
    monkeypatch.setattr(_warn, "_said", set())
    tuned = appy.jit(tune={"B": [8, 64]})(uncompiled)
    with pytest.warns(appy.AppyWarning):
        tuned(*arrays())  # tells that it cannot be compiled
    assert [tuned(*arrays()) for _ in range(4)] == [128] * 4
    assert list(tuned.stats()["tuned"].values()) == [{"B": 128}]


def test_the_first_calls_of_a_kind_may_meet(monkeypatch):
    """Threads that ask the store at the same time measure for the same kind."""
    tuned = appy.jit(tune={"B": [8, 64]})(scaled)
    tuner = tuned.__appy_tuner__
    args = arrays()
    meet = threading.Barrier(2, timeout=10)
    monkeypatch.setattr(_tune_store, "load", lambda key: meet.wait() and None)
    found = []
    workers = [threading.Thread(target=lambda: found.append(tuner._kind(args, {}))) for _ in range(2)]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    assert found[0] is found[1] is tuner.kinds[found[0].text]


def test_disabled_has_the_value_of_the_program():
    tuned = appy.jit(tune={"B": [8, 64]})(scaled)
    appy.disable()
    try:
        assert tuned(*arrays()) == 16
    finally:
        appy._C.set_enabled(True)


def test_many_candidates_vary_one_name_at_a_time():
    rows = list(_tune._combinations({"a": tuple(range(20)), "b": tuple(range(20))}, {"a": 3, "b": 4}))
    assert rows[0] == {"a": 3, "b": 4} and len(rows) == 39
    assert len(list(_tune._combinations({"a": (1, 2), "b": (1, 2, 3)}, {"a": 1, "b": 1}))) == 6
