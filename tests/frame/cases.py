"""Functions whose regions stand in every kind of place. Each takes one int and returns or raises."""

from __future__ import annotations

import contextlib

CASES = []


def case(function):
    CASES.append(function)
    return function


@case
def plain(n):
    s = 0
    # pragma sequential for
    for i in range(n):
        s += i * i
    return s, locals().get("i", "unbound")


@case
def two_in_a_row(n):
    a = b = 0
    # pragma sequential for
    for i in range(n):
        a += i
    # pragma sequential for
    for j in range(n, 0, -1):
        b += j
    return a, b


@case
def nested(n):
    s = 0
    # pragma sequential for
    for i in range(n):
        # pragma simd
        for j in range(i):
            s += i * j
    return s


@case
def in_a_host_loop(n):
    seen = []
    for k in range(3):
        s = 0
        # pragma sequential for
        for i in range(n):
            s += i + k
        seen.append(s)
    return seen


@case
def in_a_while(n):
    k = s = 0
    while k < n:
        # pragma sequential for
        for i in range(k):
            s += i
        k += 1
    return s


@case
def with_break(n):
    # pragma sequential for
    for i in range(n):
        if i == 3:
            break
    return n


@case
def with_else(n):
    # pragma sequential for
    for i in range(n):
        if i == 3:
            found = i
            break
    else:
        found = -1
    return found


@case
def with_else_and_no_break(n):
    s = 0
    # pragma sequential for
    for i in range(n):
        s += i
    else:
        s = -s
    return s


@case
def with_else_in_a_host_loop(n):
    out = []
    for k in range(n):
        # pragma sequential for
        for i in range(n):
            if i == k:
                break
        else:
            out.append(k)
            continue
        out.append(-k)
    return out


@case
def break_in_a_host_loop(n):
    out = 0
    while True:
        # pragma sequential for
        for i in range(n):
            if i == 2:
                break
        out += 1
        if out > 3:
            break
    return out


@case
def returns(n):
    # pragma sequential for
    for i in range(n):
        if i * i > 10:
            return i
    return "none"


@case
def returns_in_a_host_loop(n):
    for k in range(3):
        # pragma sequential for
        for i in range(n):
            if i + k > 4:
                return i, k
    return "none"


@case
def in_try_finally(n):
    log = []
    s = 0
    try:
        # pragma sequential for
        for i in range(n):
            s += 1 // (i - 4)
    finally:
        log.append(s)
    return log


@case
def region_in_finally(n):
    s = 0
    try:
        s = 10 // n
    except ZeroDivisionError:
        s = -1
        raise
    finally:
        # pragma sequential for
        for i in range(4):
            s += i
    return s


@case
def region_in_finally_with_return(n):
    s = 0
    try:
        if n > 2:
            return s
        s = 1 // n
    finally:
        # pragma sequential for
        for i in range(n):
            s += i
        n = s
    return s


@case
def region_in_except(n):
    s = 0
    try:
        1 // (n - n)
    except ZeroDivisionError as error:
        # pragma sequential for
        for i in range(n):
            s += i
        s = (s, str(error))
    return s


@case
def raised_through(n):
    s = 0
    try:
        # pragma sequential for
        for i in range(n):
            s += 6 // (3 - i)
    except ZeroDivisionError:
        return "caught", s, i
    return s


@case
def in_with(n):
    s = 0
    with contextlib.suppress(ZeroDivisionError):
        # pragma sequential for
        for i in range(n):
            s += 6 // (3 - i)
        s += 1000
    return s


@case
def returns_in_with(n):
    with contextlib.suppress(ZeroDivisionError):
        # pragma sequential for
        for i in range(n):
            if i == 4:
                return i
    return None


@case
def cells(n):
    s = 0

    def read():
        return s

    # pragma sequential for
    for i in range(n):
        s += i
    return read()


@case
def nonlocal_in_nested(n):
    s = 0

    def add():
        nonlocal s
        # pragma sequential for
        for i in range(n):
            s += i

    add()
    add()
    return s


@case
def generator(n):
    def generate():
        s = 0
        for k in range(3):
            # pragma sequential for
            for i in range(n):
                s += i
            got = yield s
            s += got or 0
        return s

    it = generate()
    return [next(it), it.send(5), it.send(7)]


@case
def coroutine(n):
    async def wait():
        return 1

    async def run():
        s = 0
        # pragma sequential for
        for i in range(n):
            s += i
        s += await wait()
        # pragma sequential for
        for i in range(n):
            s += i
        return s

    try:
        run().send(None)
    except StopIteration as stop:
        return stop.value


@case
def varargs(n):
    def inner(*args, scale=2, **kw):
        s = 0
        # pragma sequential for
        for i in range(len(args)):
            s += args[i] * scale + kw["c"]
        return s

    return inner(*range(n), c=1), inner(1, 2, scale=5, c=0)


@case
def recursion(n):
    def inner(k):
        s = 0
        # pragma sequential for
        for i in range(k):
            s += i
        return s + (inner(k - 1) if k > 0 else 0)

    return inner(n)


@case
def method(n):
    class Counter:
        def __init__(self, start):
            self.value = start

        def add(self, k):
            v = self.value
            # pragma sequential for
            for i in range(k):
                v += i
            self.value = v
            return v

        @staticmethod
        def total(k):
            s = 0
            # pragma sequential for
            for i in range(k):
                s += i
            return s

        @classmethod
        def named(cls, k):
            s = 0
            # pragma sequential for
            for i in range(k):
                s += i
            return cls.__name__, s

    return Counter(1).add(n), Counter.total(n), Counter.named(n)


@case
def conditional_header(n):
    s = 0
    # pragma sequential for
    for i in range(n if n > 2 else 2):
        s += i
    return s


@case
def long_header(n):
    s = 0
    # pragma sequential for
    for i in range(
        0,
        n,
        1,
    ):
        s += i
    return s


@case
def last_statement(n):
    # pragma sequential for
    for i in range(n):
        n += i


@case
def on_one_line(n):
    s = 0
    # pragma sequential for
    for i in range(n):
        s += i  # noqa: E701
    return s


@case
def far_jumps(n):
    s = 0
    # pragma sequential for
    for i in range(n):
        s += (i + 1) * (i + 2) * (i + 3) * (i + 4) * (i + 5) * (i + 6) * (i + 7) * (i + 8) * (i + 9) * (i + 10)
        s += (i + 1) * (i + 2) * (i + 3) * (i + 4) * (i + 5) * (i + 6) * (i + 7) * (i + 8) * (i + 9) * (i + 10)
        s += (i + 1) * (i + 2) * (i + 3) * (i + 4) * (i + 5) * (i + 6) * (i + 7) * (i + 8) * (i + 9) * (i + 10)
        s += (i + 1) * (i + 2) * (i + 3) * (i + 4) * (i + 5) * (i + 6) * (i + 7) * (i + 8) * (i + 9) * (i + 10)
        s += (i + 1) * (i + 2) * (i + 3) * (i + 4) * (i + 5) * (i + 6) * (i + 7) * (i + 8) * (i + 9) * (i + 10)
        s += (i + 1) * (i + 2) * (i + 3) * (i + 4) * (i + 5) * (i + 6) * (i + 7) * (i + 8) * (i + 9) * (i + 10)
        s += (i + 1) * (i + 2) * (i + 3) * (i + 4) * (i + 5) * (i + 6) * (i + 7) * (i + 8) * (i + 9) * (i + 10)
    return s
