"""Decorated functions in other processes, with appy and without."""

import copy
import os
import pickle
import subprocess
import sys
import textwrap

import pytest

import appy
from appy import _C
from appy._rewrite import regions_of

cloudpickle = pytest.importorskip("cloudpickle")


@appy.jit
def by_reference(n):
    s = 0
    # pragma sequential for
    for i in range(n):
        s += i
    return s


def make(k):
    @appy.jit
    def by_value(n):
        s = k
        # pragma sequential for
        for i in range(n):
            if i == 50:
                return -s
            s += i
        # pragma sequential for
        for i in range(n):
            s += 1
        return s

    return by_value


def load(data, tmp_path, with_appy):
    """Unpickles and calls in a fresh process."""
    (tmp_path / "data.pkl").write_bytes(data)
    script = tmp_path / "load.py"
    script.write_text(
        textwrap.dedent(f"""
        import pickle, sys
        if not {with_appy}:
            sys.modules["appy"] = None  # as good as not installed
        f = pickle.load(open({str(tmp_path / "data.pkl")!r}, "rb"))
        print(f(5), f(60), bool(sys.modules.get("appy")), len(f.stats()))
        if {with_appy}:
            import appy
            print(appy.stats()["regions"], f.stats()["regions"])
            import cloudpickle
            g = pickle.loads(cloudpickle.dumps(f))
            print(g(5), g.__code__ == f.__code__)
        """)
    )
    env = dict(os.environ)
    env["PYTHONPATH"] = os.pathsep.join(p for p in sys.path if p) if with_appy else ""
    return subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, env=env, cwd=tmp_path, timeout=60
    )


def test_by_reference():
    assert pickle.loads(pickle.dumps(by_reference)) is by_reference
    assert copy.copy(by_reference) is by_reference is copy.deepcopy(by_reference)


def test_regions():
    (region,) = regions_of(by_reference.__code__)
    assert pickle.loads(pickle.dumps(region)) is region
    assert copy.copy(region) is region is copy.deepcopy(region)
    assert hash(region) == hash(pickle.loads(pickle.dumps(region)))
    other, *_ = regions_of(make(1).__code__)
    assert region != other and region == region and region != 3


def test_by_value_in_this_process():
    f = make(2)
    g = cloudpickle.loads(cloudpickle.dumps(f))
    assert g(5) == f(5) == 17 and regions_of(g.__code__) == regions_of(f.__code__)
    assert isinstance(regions_of(g.__code__)[0], _C.Region)


def test_by_value_with_appy(tmp_path):
    result = load(cloudpickle.dumps(make(2)), tmp_path, True)
    lines = result.stdout.splitlines()
    assert lines[:1] == ["17 -1227 True 6"], result.stderr
    assert lines[2] == "17 True", result.stderr


def test_by_value_without_appy(tmp_path):
    result = load(cloudpickle.dumps(make(2)), tmp_path, False)
    assert result.stdout.splitlines() == ["17 -1227 False 0"], result.stderr
