"""Equality in the sense of docs/language.md, rule 10."""

from __future__ import annotations

import cmath
import math

import numpy as np


def assert_same(got, want, *, ulps: float = 4, scale: float = 0.0, eps: float = 0.0, where: str = "result") -> None:
    """Types, shapes, dtypes and integers identical; floats within ``ulps`` of ``max(|want|, scale)``.

    ``eps``: an ulp, where it is not that of the type.
    """
    assert type(got) is type(want), f"{where}: type {type(got)} instead of {type(want)}"
    if isinstance(want, (tuple, list)):
        assert len(got) == len(want), where
        for k, (g, w) in enumerate(zip(got, want)):
            assert_same(g, w, ulps=ulps, scale=scale, eps=eps, where=f"{where}[{k}]")
    elif isinstance(want, dict):
        assert got.keys() == want.keys(), f"{where}: names {sorted(got)} instead of {sorted(want)}"
        for k in want:
            assert_same(got[k], want[k], ulps=ulps, scale=scale, eps=eps, where=f"{where}.{k}")
    elif isinstance(want, (np.ndarray, np.generic)):
        assert got.shape == want.shape and got.dtype == want.dtype, f"{where}: {got.dtype}{got.shape}"
        if want.dtype.kind not in "fc":
            np.testing.assert_array_equal(got, want, err_msg=where)
        else:
            ulp = max(np.finfo(want.dtype).eps, eps)
            with np.errstate(all="ignore"):
                size = np.maximum(np.abs(want), scale)
                same = (got == want) | (np.isnan(got) & np.isnan(want))
                close = np.abs(got - want) <= ulps * ulp * size
            bad = ~(same | (close & np.isfinite(want)))
            if np.any(bad):
                at = tuple(np.argwhere(np.atleast_1d(bad))[0])
                g, w = np.atleast_1d(got)[at], np.atleast_1d(want)[at]
                raise AssertionError(f"{where}: {np.count_nonzero(bad)} differ, first at {at}: {g!r} instead of {w!r}")
    elif isinstance(want, complex):
        size = max(abs(want), scale)
        same = got == want or (cmath.isnan(got) and cmath.isnan(want))
        assert same or abs(got - want) <= ulps * 2.3e-16 * size, f"{where}: {got!r} instead of {want!r}"
    elif isinstance(want, float):
        same = got == want or (math.isnan(got) and math.isnan(want))
        assert same or abs(got - want) <= ulps * max(2.3e-16, eps) * max(abs(want), scale), (
            f"{where}: {got!r} instead of {want!r}"
        )
    else:
        assert got == want, f"{where}: {got!r} instead of {want!r}"
