"""Loops that fail in the middle, for test_failures.py: in a module of their own, since pytest rewrites its tests' code.

Each reports its scalars through ``state``.
"""

import math


def sequential_gather(index, x, out, state):
    s = 0.0
    try:
        # pragma sequential for
        for i in range(len(index)):
            out[i] = x[index[i]] * 2
            s += out[i]
            index[i] = 0
    finally:
        state.update(i=i, s=s)


def sequential_store(index, out, state):
    try:
        # pragma sequential for
        for i in range(len(index)):
            out[i] = 1
            out[index[i]] = out[i] + i
    finally:
        state.update(i=i)


def sequential_division(a, b, out, state):
    last = -1
    try:
        # pragma sequential for
        for i in range(len(out)):
            out[i] = 7
            last = int(a[i]) // int(b[i])
            out[i] = last
    finally:
        state.update(i=i, last=last)


def float_division(x, out, state):
    try:
        # pragma sequential for
        for i in range(len(x)):
            out[i] = 1.0
            out[i] = 1.0 / float(x[i])
    finally:
        state.update(i=i)


def domain(x, out, state):
    try:
        # pragma sequential for
        for i in range(len(x)):
            out[i] = 3.0
            out[i] = math.sqrt(x[i])
    finally:
        state.update(i=i)


def too_large_for_element(x, out, state):
    try:
        # pragma sequential for
        for i in range(len(x)):
            out[i] = 1
            out[i] = int(x[i])
    finally:
        state.update(i=i)


def overflow_declines(n, state):
    p = 1
    # pragma sequential for
    for i in range(1, n):
        p *= i
    state.update(p=p, i=i)


def overflow_after_stores(x, state):
    p = 1
    try:
        # pragma sequential for
        for i in range(1, len(x)):
            x[i] = x[i - 1] + 1
            p *= i
    finally:
        state.update(i=i)


def parallel_gather(index, x, out, state):
    s = 5.0
    try:
        # pragma parallel for simd
        for i in range(len(index)):
            out[i] = x[int(index[i])] * 2
            s += out[i]
    finally:
        state.update(s=s)


def parallel_count(labels, h, state):
    # pragma parallel for
    for i in range(len(labels)):
        # pragma atomic
        h[labels[i]] += 1


def parallel_scatter(at, x, out, state):
    # pragma parallel for
    for i in range(len(at)):
        out[at[i] - 3] = x[i]


def raising(x, state):
    # pragma sequential for
    for i in range(len(x)):
        if x[i] > 5:
            raise ValueError("too large")
        x[i] = -1


def asserting(x, state):
    # pragma sequential for
    for i in range(len(x)):
        assert x[i] < 5, "too large"
        x[i] = -1


def first_access(x, n, state):
    # pragma parallel for simd
    for i in range(n):
        x[i] = 1


def read_only(x, state):
    # pragma simd
    for i in range(len(x)):
        x[i] = 1
