"""Loops around annotated statements that run until something holds: `while`, `break`, `return`, `else`."""

from __future__ import annotations

import math

import numpy as np
from capture_programs import Program, programs_in

PROGRAMS: dict[str, Program] = {}
program = programs_in(PROGRAMS)


def edges(rng, n=18, m=35):
    a = np.zeros((n, m))
    a[0] = 1.0
    a[:, -1] = rng.random(n)
    return a, a.copy()


@program(lambda rng: (*edges(rng), 1e-2, 500))
def relax(a, b, tol, most):
    steps = 0
    err = 1.0
    while err > tol and steps < most:
        # pragma parallel for
        for i in range(1, a.shape[0] - 1):
            # pragma simd
            for j in range(1, a.shape[1] - 1):
                b[i, j] = 0.25 * (a[i - 1, j] + a[i + 1, j] + a[i, j - 1] + a[i, j + 1])
        err = 0.0
        # pragma parallel for
        for i in range(1, a.shape[0] - 1):
            # pragma simd
            for j in range(1, a.shape[1] - 1):
                err = max(err, abs(b[i, j] - a[i, j]))
        a[:, :] = b
        steps += 1
    return steps, err


@program(lambda rng: (*edges(rng), 1e-2, 500))
def relax_arrays(a, b, tol, most):
    for t in range(most):
        # pragma 1:-1=>parallel
        b[1:-1, 1:-1] = 0.25 * (a[:-2, 1:-1] + a[2:, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:])
        err = np.max(np.abs(b - a))
        a[:, :] = b
        if err < tol:
            break
    return t, err, type(t)


@program(lambda rng: (*edges(rng), 1e-2, 3))
def relax_that_gives_up(a, b, tol, most):
    for t in range(most):
        # pragma 1:-1=>parallel
        b[1:-1, 1:-1] = 0.25 * (a[:-2, 1:-1] + a[2:, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:])
        err = np.max(np.abs(b - a))
        a[:, :] = b
        if err < tol:
            break
    else:
        t = -1
        # pragma 0=>parallel
        a[0] = 7.0
    return t, err


@program(lambda rng: (*edges(rng), 0.3, 50))
def else_that_does_not_run(a, b, tol, most):
    said = "before"
    while most > 0:
        # pragma 1:-1=>parallel
        b[1:-1, 1:-1] = 0.25 * (a[:-2, 1:-1] + a[2:, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:])
        err = np.max(np.abs(b - a))
        a[:, :] = b
        most -= 1
        if err < tol:
            break
    else:
        said = "never"
    return most, err, said


@program(lambda rng: ((x := rng.random((30, 30))) @ x.T + 30 * np.eye(30), rng.random(30), *np.zeros((4, 30)), 1e-6))
def conjugate_gradients(a, b, x, r, p, q, tol):
    n = len(b)
    rr = 0.0
    # pragma parallel for simd
    for i in range(n):
        v = b[i] + 0.0
        r[i] = v
        p[i] = v
        rr += v * v
    k = 0
    while math.sqrt(rr) > tol:
        pq = 0.0
        # pragma parallel for
        for i in range(n):
            s = 0.0
            # pragma simd
            for j in range(n):
                s += a[i, j] * p[j]
            q[i] = s
        # pragma parallel for simd
        for i in range(n):
            pq += p[i] * q[i]
        alpha = rr / pq
        old = rr
        rr = 0.0
        # pragma parallel for simd
        for i in range(n):
            x[i] += alpha * p[i]
            v = r[i] - alpha * q[i]
            r[i] = v
            rr += v * v
        beta = rr / old
        # pragma parallel for simd
        for i in range(n):
            p[i] = r[i] + beta * p[i]
        k += 1
    # pragma parallel for simd
    for i in range(n):  # what is left of them is rounding
        r[i], p[i], q[i] = 0.0, 0.0, 0.0
    return k


@program(lambda rng: (rng.random((20, 20)) + np.eye(20), rng.random(20), 1e-4, 200))
def power_iteration(a, x, tol, most):
    before = 0.0
    steps = 0
    while True:
        # pragma 0=>parallel
        y = a @ x
        norm = math.sqrt(np.dot(y, y))
        # pragma 0=>parallel
        x[:] = y / norm
        steps += 1
        if abs(norm - before) < tol or steps == most:
            break
        before = norm
    return norm, steps


@program(
    lambda rng: (rng.random((60, 2)), rng.random((4, 2)), np.full(60, -1), np.zeros((4, 2)), np.zeros(4, np.int64))
)
def k_means(points, means, labels, sums, counts):
    rounds = 0
    changed = 1
    while changed > 0:
        changed = 0
        # pragma parallel for
        for i in range(len(points)):
            best = 0
            least = 1e300
            for k in range(len(means)):
                dx = points[i, 0] - means[k, 0]
                dy = points[i, 1] - means[k, 1]
                d = dx * dx + dy * dy
                if d < least:
                    least = d
                    best = k
            if labels[i] != best:
                changed += 1
            labels[i] = best
        # pragma parallel for
        for k in range(len(means)):
            s, t, n = 0.0, 0.0, 0
            # pragma simd
            for i in range(len(points)):
                if labels[i] == k:
                    s += points[i, 0]
                    t += points[i, 1]
                    n += 1
            if n > 0:
                means[k, 0] = s / n
                means[k, 1] = t / n
        rounds += 1
    return rounds, changed


@program(lambda rng: (rng.random(40), 9.0))
def leaves_in_the_first_step(x, limit):
    while True:
        s = 0.0
        # pragma parallel for simd
        for i in range(len(x)):
            s += x[i]
        if s > limit:
            break
        # pragma parallel for simd
        for i in range(len(x)):
            x[i] += 1.0
    return s


@program(lambda rng: (rng.random(40), 0.0))
def does_not_begin(x, s):
    while s > 1.0:
        # pragma parallel for simd
        for i in range(len(x)):
            x[i] *= 0.5
        s -= 1.0
    return s


@program(lambda rng: (rng.random(0), 5.0))
def of_no_elements(x, s):
    while s > 1.0:
        # pragma parallel for simd
        for i in range(len(x)):
            x[i] *= 0.5
            s += x[i]
        s -= 1.0
    return s


@program(lambda rng: (rng.random(1) + 40.0,))
def of_one_element(x):
    n = 0
    while x[0] > 1.0:
        # pragma parallel for simd
        for i in range(len(x)):
            x[i] *= 0.5
        n += 1
    return n


@program(lambda rng: (rng.random(90), 20))
def skips(x, most):
    """`continue` in a `while`, a loop inside that is left, one value that several conditions read."""
    n = 0
    while n < most:
        n += 1
        if n % 3 == 0:
            continue
        s = 0.0
        # pragma parallel for simd
        for i in range(len(x)):
            s += x[i]
        for k in range(4):
            # pragma parallel for simd
            for i in range(len(x)):
                x[i] = x[i] * 0.9 + 0.01
            if s < 20.0 + k:
                break
        if s < 10.0:
            break
    return n, k, s


@program(lambda rng: (rng.random(70), 0.1))
def returns(x, tol):
    for t in range(100):
        big = 0.0
        # pragma parallel for simd
        for i in range(len(x)):
            v = x[i] * 0.75
            x[i] = v
            big = max(big, v)
        if big < tol:
            return t
    return -1


@program(lambda rng: (rng.random(70), 0.1))
def returns_a_tuple(x, tol):
    t = 0
    while t < 100:
        big = 0.0
        # pragma parallel for simd
        for i in range(len(x)):
            v = x[i] * 0.75
            x[i] = v
            big = max(big, v)
        if big < tol:
            return t, big
        t += 1
    return "never", t


@program(lambda rng: (rng.random(70), 0.1))
def returns_nothing(x, tol):
    while True:
        big = 0.0
        # pragma parallel for simd
        for i in range(len(x)):
            v = x[i] * 0.75
            x[i] = v
            big = max(big, v)
        if big < tol:
            break


@program(lambda rng: (rng.random((3, 50)), [0.1, 0.01, 0.001]), launches=3)
def for_each(rows, tolerances):
    """A loop that cannot be captured around one that is."""
    found = []
    for x, tol in zip(rows, tolerances):
        n = 0
        s = 1.0
        while s > tol:
            s = 0.0
            # pragma parallel for simd
            for i in range(len(x)):
                v = x[i] * 0.5
                x[i] = v
                s = max(s, v)
            n += 1
        found.append(n)
    return found


@program(lambda rng: (rng.random(64), rng.random(64), 3.0))
def one_after_the_other(x, y, limit):
    """Two loops that run until something holds are one region with what is between them."""
    n = 0
    s = 0.0
    while s < limit:
        # pragma parallel for simd
        for i in range(len(x)):
            s += x[i]
        n += 1
    m = n * 2
    while m > 0:
        # pragma parallel for simd
        for i in range(len(x)):
            y[i] = 0.5 * y[i] + x[len(x) - 1 - i]
        m -= 1
    return n, m, s


@program(lambda rng: (np.arange(64), 11))
def until_a_scalar_of_an_array(x, limit):
    while x[5] < limit:
        # pragma parallel for simd
        for i in range(len(x)):
            x[i] += 1
        x[5] -= i - 63
    return x[5], i


@program(lambda rng: (rng.random(16), 3.0), launches=None)
def divides_by_zero(x, z):
    s = 0.0
    while s >= 0.0:
        # pragma parallel for simd
        for i in range(len(x)):
            x[i] += 1.0
        s = 1.0 / z
        z -= 1.0
    return s


@program(lambda rng: (np.zeros(8), np.array([1, 5, 9, 2]), 0), launches=None)
def leaves_the_array(x, places, k):
    while True:
        # pragma parallel for simd
        for i in range(len(x)):
            x[i] += places[k]
        # pragma parallel for
        for n in range(1):
            x[places[k]] += 1.0
        k += 1


@program(lambda rng: (np.zeros(8), 1 << 61, 1 << 40), launches=None)
def grows_past_64_bits(x, n, step):
    while n > 0:
        # pragma parallel for simd
        for i in range(len(x)):
            x[i] += 1.0
        n *= step
        if x[0] > 3.0:
            break
    return n


@program(lambda rng: ((x := rng.random(300))[1:], x[:-1], 0.2, 20))
def overlapping(a, b, limit, most):
    s = 1.0
    while s > limit and most > 0:
        most -= 1
        # pragma parallel for simd
        for i in range(len(a)):
            a[i] = a[i] * 0.5
        s = 0.0
        # pragma parallel for simd
        for i in range(len(b)):
            s = max(s, b[i])
    return s, most


@program(lambda rng: (rng.random((12, 40)), np.zeros(12), 1e-6))
def bisection_of_rows(a, x, tol):
    """Loops of which each iteration of a parallel one has its own."""
    rounds = 0
    while rounds < 2:
        # pragma parallel for
        for i in range(len(x)):
            lo, hi = 0.0, 1.0
            while hi - lo > tol:
                mid = 0.5 * (lo + hi)
                s = 0.0
                for j in range(a.shape[1]):
                    s += a[i, j] * mid
                if s > 5.0 + rounds:
                    hi = mid
                else:
                    lo = mid
            x[i] += lo
        rounds += 1
    return rounds


@program(lambda rng: (rng.random(70), np.zeros(30), 0.05))
def history(x, told, tol):
    for t in range(len(told)):
        s = 0.0
        # pragma parallel for simd
        for i in range(len(x)):
            x[i] *= 0.75
            s += x[i]
        told[t] = s / len(x)
        if s < tol * len(x):
            break
    return t


@program(lambda rng: (rng.random(70), np.zeros(5), 0.05), launches=None)
def history_that_is_too_short(x, told, tol):
    t = 0
    s = 1.0
    try:
        while s > tol:
            s = 0.0
            # pragma parallel for simd
            for i in range(len(x)):
                v = x[i] * 0.75
                x[i] = v
                s += v
            told[t] = s
            t += 1
    except IndexError as error:
        return t, s, str(error)


@program(lambda rng: (rng.random(70), 4.0), launches=None)
def tells_where_it_failed(x, z):
    n, s = 0, 0.0
    try:
        while True:
            # pragma parallel for simd
            for i in range(len(x)):
                x[i] += s
            n += 1
            s = 1.0 / z
            z -= 1.0
    except ZeroDivisionError as error:
        return n, s, z, str(error)


@program(lambda rng: (rng.random(12), np.array([3, 1, 0, 2, 12, 5]), 0), launches=None)
def fails_in_a_parallel_loop(x, places, k):
    t = 0.0
    try:
        for n in range(6):
            t = 0.0
            # pragma parallel for simd
            for i in range(len(x)):
                t += x[i]
            k += 2
            # pragma parallel for
            for m in range(1):
                x[places[n]] = t
    except IndexError as error:
        return k, n, t, str(error)


@program(lambda rng: (rng.random((6, 20)), [0, 3, 9]), launches=None)
def fails_in_a_loop_inside(a, rows):
    done = -1
    n = 0
    try:
        for t in range(3):
            big = 0.0
            while big < 100.0:
                big = 0.0
                # pragma parallel for simd
                for j in range(a.shape[1]):
                    v = a[t, j] * 2.0
                    a[t, j] = v
                    big = max(big, v)
                n += 1
                if n > 17:
                    raise ValueError("enough")
            done = t
    except ValueError as error:
        return done, n, big, t, str(error)
