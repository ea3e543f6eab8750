"""`break`, `else`, `return` and `continue` around annotated loops, in all places where a compiler may lay them out."""

import copy
import itertools
import textwrap
import warnings

import pytest

import appy

BODIES = {
    "break": "if i == t: break",
    "assign and break": "if i == t:\n    r = i\n    break",
    "two breaks": "if i == t: break\nif i > 7:\n    r = 7\n    break",
    "break in else": "if i != t: s += i\nelse: break",
    "continue": "if i < 2: continue\ns += i\nif s > t: break",
    "inner loop": "for j in range(i):\n    if j == t: break\nelse:\n    s += i\n    continue\nbreak",
    "return": "if i == t: return i * 1000 + s",
    "return and break": "if i == t: return i * 1000 + s\nif i == t + 1: break",
    "inner while": "k = i\nwhile k > 0:\n    k -= 1\n    if k == t: break\nelse:\n    s += 1\nif s > 5: break",
    "no break": "s += i",
}
ELSES = {
    "": "",
    "pass": "pass",
    "assign": "r = -1",
    "if": "if s > 3: r = -2\nelse: r = -3",
    "if and return": "if s > 3: return 'early'\nr = -5",
    "return": "return 'none', s",
    "raise": "raise KeyError(s)",
    "call": "r = sorted([s, 3])",
    "try": "try: r = 1 // (s - 3)\nexcept ZeroDivisionError: r = -9",
    "with": "with CM(): r = -6",
    "comprehension": "r = [s + v for v in range(2)]",
    "loop": "for q in range(3):\n    if q == 1: break\nelse: r = 9",
    "annotated loop": "#pragma sequential for\nfor q in range(3): r += q",
    "break of the host": "break",
}
PLACES = {
    "last": "{}",
    "before a return": "{}\nreturn r, s",
    "before more": "{}\nr = (r, s)\nreturn r",
    "in a loop": "for h in range(2):\n{1}\nreturn r, s",
    "in a while": "h = 0\nwhile h < 2:\n    h += 1\n{1}\nreturn r, s",
    "in an if": "if n > 1:\n{1}\nelse: r = 77\nreturn r, s",
    "in a with": "with CM():\n{1}\nreturn r, s",
    "in a try": "try:\n{1}\nexcept KeyError: r = 55\nreturn r, s",
    "with finally": "try:\n{1}\nfinally: s += 1\nreturn r, s",
    "before continue": "for h in range(3):\n{1}\n    continue\nreturn r, s",
    "before break": "for h in range(3):\n{1}\n    break\nreturn r, s",
    "twice": "{}\n{}\nreturn r, s",
}
HOST_LOOPS = ("in a loop", "in a while", "before continue", "before break")
# Where a return passes the end of a `with` or a `finally`, the value that is returned waits on the stack.
INTERPRETED = {("return", "in a with"), ("return and break", "in a with")}
INTERPRETED |= {("return", "with finally"), ("return and break", "with finally")}


class CM:
    def __enter__(self):
        pass

    def __exit__(self, *error):
        pass


def source_of(name, body, otherwise, place):
    loop = "#pragma sequential for\nfor i in range(n):\n" + textwrap.indent(BODIES[body], "    ")
    if otherwise:
        loop += "\nelse:\n" + textwrap.indent(ELSES[otherwise], "    ")
    text = PLACES[place].replace("{1}", textwrap.indent(loop, "    ")).replace("{}", loop)
    return f"def {name}(n, t):\n" + textwrap.indent("r = s = 0\n" + text, "    ") + "\n"


def cases_of():
    for otherwise, place in itertools.product(ELSES, PLACES):
        if otherwise != "break of the host" or place in HOST_LOOPS:
            yield otherwise, place


def outcome(function, n, t):
    try:
        return function(n, t)
    except Exception as error:
        return type(error), str(error)


@pytest.mark.parametrize("body", BODIES)
def test_same_outcome(body, tmp_path):
    cases = list(cases_of())
    path = tmp_path / "loops.py"
    path.write_text("\n".join(source_of(f"f{k}", body, *case) for k, case in enumerate(cases)))
    names = {"CM": CM}
    exec(compile(path.read_text(), str(path), "exec"), names)
    for k, (otherwise, place) in enumerate(cases):
        function = names[f"f{k}"]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", appy.AppyWarning)
            compiled = appy.jit(function)
            for n, t in [(0, 3), (1, 0), (6, 3), (6, 50), (12, 20), (12, 2)]:
                want, got = outcome(function, n, t), outcome(compiled, n, t)
                assert got == want, (otherwise, place, n, t)
        stats = compiled.stats()
        if (body, place) not in INTERPRETED:
            assert stats["compiled"] and stats["runs"] and not stats["declined"], (otherwise, place, stats)


def test_the_else_may_hold_what_cannot_be_compiled():
    @appy.jit(strict=True)
    def f(n, t):
        # pragma sequential for
        for i in range(n):
            if i == t:
                break
        else:
            print("no break")
        return i

    assert f(5, 3) == 3 and f(5, 9) == 4 and f.stats()["runs"] == 2


def test_a_break_that_ends_an_iteration_of_the_host():
    def plain(n):
        out = []
        for k in range(n):
            # pragma sequential for
            for i in range(n):
                if i * i > k:
                    break
            else:
                out.append(-k)
                if k > 6:
                    break
                continue
            out.append(i)
        return out

    f = appy.jit(strict=True)(copy.copy(plain))
    for n in (0, 1, 2, 5, 12):
        assert f(n) == plain(n)
    assert f.stats()["runs"]


def test_loops_that_follow_a_break():
    """The way out of one region is the way into the next one."""

    def plain(n, t):
        r = s = 0
        while True:
            # pragma sequential for
            for i in range(n):
                if i == t:
                    break
            else:
                r = -1
            # pragma sequential for
            for j in range(n):
                s += j
                if s > 1000:
                    break
            else:
                t += 1
                if t > n:
                    return r, s, t
                continue
            return i, j, r, s

    f = appy.jit(strict=True)(copy.copy(plain))
    for n, t in [(3, 1), (10, 2), (60, 7), (8, 50)]:
        assert f(n, t) == plain(n, t)
    assert f.stats()["runs"]
