"""Finding pragmas and believing the source: appy/pragmas.py."""

from __future__ import annotations

import importlib.util
import linecache
import os
import subprocess
import sys
import textwrap
import warnings
from pathlib import Path

import pytest

import appy
from appy import AppyWarning, PragmaError
from appy._rewrite import original_of
from appy.pragmas import SourceMissing, pragmas_of

ROOT = str(Path(appy.__file__).parent.parent)


def load(tmp_path, text, name="subject"):
    path = tmp_path / f"{name}.py"
    path.write_text(textwrap.dedent(text))
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def found(code):
    code = original_of(code)  # other tests turn transparent mode on
    return [(p.kind, p.text, p.line, p.end_line) for p in pragmas_of(code)]


def test_attaches_to_the_statement_that_follows(tmp_path):
    m = load(
        tmp_path,
        """
        def f(x):
            #pragma parallel for
            # pragma simd

            # an ordinary comment
            for i in range(len(x)):
                # pragma atomic
                x[0] += i
                #pragma :n=>simd
                x[:] = 1
        """,
    )
    assert found(m.f.__code__) == [
        ("loop", "parallel for\nsimd", 7, 11),
        ("atomic", "atomic", 9, 9),
        ("tensor", ":n=>simd", 11, 11),
    ]
    loop = pragmas_of(m.f.__code__)[0]
    assert (loop.iter_line, loop.iter_column, loop.pragma_line) == (7, 13, 3)


def test_strings_and_other_tools_are_left_alone(tmp_path):
    m = load(
        tmp_path,
        '''
        def f(x):
            """
            # pragma parallel for
            """
            y = 1  # pragma simd
            # pragma: no cover
            for i in range(3):
                pass
            # pragma simd
            for i in range(3):
                pass
        ''',
    )
    assert [p[1] for p in found(m.f.__code__)] == ["simd"]


def test_columns_count_bytes(tmp_path):
    m = load(tmp_path, "def f(é):\n    # pragma simd\n    for ü in range(é): pass\n")
    (p,) = pragmas_of(m.f.__code__)
    assert p.iter_column == len("    for ü in ".encode())


def test_nested_scopes_keep_their_own(tmp_path):
    m = load(
        tmp_path,
        """
        class A:
            def g(self):
                def inner():
                    # pragma simd
                    for i in range(2): pass
                # pragma parallel for
                for i in range(3): pass
                return inner
        def make(n):
            def f():
                # pragma sequential for
                for i in range(n): pass
            return f
        """,
    )
    assert [p[1] for p in found(m.A.g.__code__)] == ["parallel for"]
    assert [p[1] for p in found(m.A().g().__code__)] == ["simd"]
    assert [p[1] for p in found(m.make(3).__code__)] == ["sequential for"]


def test_private_names_and_module_code(tmp_path):
    path = tmp_path / "m.py"
    text = "class A:\n  def __f(self, __x):\n    # pragma simd\n    for i in range(__x): pass\n# pragma simd\nfor i in range(2): pass\n"
    path.write_text(text)
    code = compile(text, str(path), "exec")
    assert [p[2] for p in found(code)] == [6]
    space = {}
    exec(code, space)
    assert [p[2] for p in found(space["A"]._A__f.__code__)] == [4]


def test_malformed(tmp_path):
    m = load(tmp_path, "def f(n):\n    # pragma parallel for\n    # pragma simd le\n    for i in range(n): pass\n")
    with pytest.raises(PragmaError) as error:
        pragmas_of(m.f.__code__)
    assert str(error.value) == (
        f"{m.__spec__.origin}, line 3, column 21: cannot read `simd le`: expected '(' and the largest trip count "
        "after `le`"
    )
    with pytest.warns(AppyWarning, match=r"line 3, column 21: cannot read `simd le`"):
        assert pragmas_of(m.f.__code__, warn_only=True) == []


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (
            "# pragma simd\n    x = 1",
            "line 2: the pragma is a loop pragma and stands before a statement that is no `for`",
        ),
        (
            "# pragma atomic\n    x = 1",
            "line 2: the pragma says `atomic` and stands before a statement that updates no",
        ),
        (
            "# pragma :n=>simd\n    for i in x: pass",
            "line 2: the pragma is a tensor pragma and stands before a statement",
        ),
        ("x = 1\n    # pragma simd", "line 3: the pragma is not followed by a statement"),
    ],
)
def test_misplaced(tmp_path, text, what):
    m = load(tmp_path, f"def f(x):\n    {text}\n")
    with pytest.warns(AppyWarning, match=what):
        assert pragmas_of(m.f.__code__) == []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert pragmas_of(m.f.__code__) == []  # once


def test_stale_file(tmp_path):
    text = "def f(n):\n    # pragma simd\n    for i in range(n): pass\n"
    m = load(tmp_path, text)
    path = tmp_path / "subject.py"
    path.write_text(text.replace("range(n)", "range(n + 1)"))
    os.utime(path, ns=(1, 1))
    with pytest.raises(SourceMissing, match="was changed after it was imported"):
        pragmas_of(m.f.__code__)


def test_missing_source(tmp_path):
    space = {}
    exec(compile("def f(n):\n    # pragma simd\n    for i in range(n): pass\n", "<string>", "exec"), space)
    with pytest.raises(SourceMissing, match=r"the source of f \(<string>\) is not available"):
        pragmas_of(space["f"].__code__)


def test_linecache_sources():
    text = "def f(n):\n    # pragma simd\n    for i in range(n): pass\n"
    name = "<ipython-input-1-abc>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    space = {}
    exec(compile(text, name, "exec"), space)
    assert [p[2] for p in found(space["f"].__code__)] == [3]


def test_asserts_rewritten_by_pytest():
    def f(n):
        assert n > 0, "rewritten"
        # pragma simd
        for i in range(n):
            n += i
        assert n
        return n

    assert [p[1] for p in found(f.__code__)] == ["simd"]


def test_optimised_and_without_positions(tmp_path):
    path = tmp_path / "m.py"
    path.write_text(
        "from appy.pragmas import pragmas_of\n"
        "def f(n):\n    assert n\n    # pragma simd\n    for i in range(n):\n        pass\n"
        "print([(p.kind, p.line) for p in pragmas_of(f.__code__)])\n"
    )
    for flags in (["-O"], ["-OO"], ["-X", "no_debug_ranges"]):
        out = subprocess.run(
            [sys.executable, *flags, str(path)], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": ROOT}
        )
        assert out.stdout == "[('loop', 5)]\n", (flags, out)


def test_methods_of_imported_modules(tmp_path):
    """CPython compiles `math.exp(x)` differently where the module imports `math`."""
    m = load(
        tmp_path,
        """
        import math
        try:
            import cmath as c
        except ImportError:
            pass
        def f(x, r):
            # pragma simd
            for i in range(len(x)):
                r[i] = math.exp(x[i]) + c.phase(x[i])
        """,
    )
    assert len(pragmas_of(m.f.__code__)) == 1


STRINGS = '''
def f(n, text="""
    # pragma simd
    """, *, other=[
    # pragma parallel for
    1]):
    """
    # pragma simd
    """
    a = """
    # pragma simd
    """
    # pragma simd
    # a remark

    # pragma parallel for
    for i in range(n):
        if i:
            pass
            # pragma sequential for
        # pragma simd
        for j in range(f"""
            # pragma simd
            """
            # pragma simd
            is n):
            match j:
                # pragma atomic
                case 1:
                    # pragma atomic
                    text[
                        # pragma simd
                        i] += 1
                case _:
                    try:
                        # pragma simd
                        for k in range(n): pass
                    except (
                        # pragma simd
                        ValueError
                    ):
                        # pragma simd
                        for k in range(n): pass
    # pragma simd
'''


@pytest.mark.parametrize("forced", [False, True])
def test_what_looks_like_a_pragma(tmp_path, monkeypatch, forced):
    """Strings and comments inside expressions; found by lines and by tokens alike."""
    from appy import pragmas

    if forced:
        monkeypatch.setattr(pragmas, "_in_expression", lambda node, lines: True)
    source = pragmas._File("strings.py", STRINGS).whole()
    placed = {key[0]: [(p.text, p.line, p.pragma_line) for p in rows] for key, rows in source.pragmas.items()}
    expected = [
        ("simd\nparallel for", 17, 13),
        ("sequential for\nsimd", 22, 20),
        ("atomic", 31, 30),
        ("simd", 37, 36),
        ("simd", 43, 42),
    ]
    assert placed["f"] == expected


def test_future_flags(tmp_path):
    m = load(
        tmp_path,
        "from __future__ import annotations\ndef f(n: int) -> int:\n    # pragma simd\n    for i in range(n): pass\n",
    )
    assert len(pragmas_of(m.f.__code__)) == 1


PARTS = """
import numpy as np
from math import (
    sqrt,  # a comment
)

text = '''
    # pragma simd
'''

@(lambda f: f)
@(
    lambda f: f
)
def decorated(x, n):
    # pragma simd
    for i in range(n):
        x[i] = np.sqrt(x[i])

class Holder:
    def method(self, n):
        def inner():
            # pragma parallel for
            for i in range(n):
                sqrt(i)
            # pragma simd
        return inner
    # pragma simd

try:
    def branch(n):
        # pragma simd
        for i in range(n): pass
except ValueError:
    pass
else:
    def other(n):
        # pragma sequential for
        for i in range(n): pass
# pragma simd
for i in range(2): pass

def text_in_first_column(n):
    s = '''
text
'''
    # pragma simd
    for i in range(n): s += s

def trailing(n):
    # pragma simd
    for i in range(n): pass
    # pragma simd
"""


def codes_in(code):
    yield code
    for const in code.co_consts:
        if hasattr(const, "co_consts"):
            yield from codes_in(const)


def both_ways(text, filename):
    """Pragmas and faults of each function, from parts of the file and from the whole; and how often it took the whole."""
    from appy import pragmas

    whole, fallbacks = pragmas._File(filename, text), 0
    whole.whole()
    for code in list(codes_in(compile(text, filename, "exec", dont_inherit=True)))[1:]:
        key = (code.co_qualname, code.co_firstlineno)
        part = pragmas._File(filename, text)
        source = part.source_for(code, key)
        fallbacks += part._whole is not None
        expected = whole.source_for(code, key)
        if source is None:
            assert not expected.pragmas.get(key) and not expected.faults.get(key)
            continue
        assert source.pragmas.get(key) == expected.pragmas.get(key), key
        assert list(map(str, source.faults.get(key, ()))) == list(map(str, expected.faults.get(key, ()))), key
    return fallbacks


def test_parts_of_a_file():
    assert both_ways(PARTS, "parts.py") == 1  # text in the first column


def test_parts_of_our_own_files():
    from pathlib import Path

    from appy import pragmas

    files = [p for p in Path(__file__).parent.parent.rglob("*.py") if pragmas._CANDIDATE.search(p.read_text())]
    assert len(files) > 5
    for path in files:
        both_ways(path.read_text(), str(path))


def test_a_guess_that_does_not_hold(tmp_path):
    """The part is another function's text: the whole file decides, and here it says that the file has changed."""
    path = tmp_path / "changed.py"
    path.write_text("import os\n\ndef f(n):\n    # pragma simd\n    for i in range(n): n += 1\n")
    space = {}
    exec(compile(path.read_text(), str(path), "exec"), space)
    path.write_text("import os\n\ndef f(n):\n    # pragma simd\n    for i in range(n): n += 2\n")
    with pytest.raises(SourceMissing):
        pragmas_of(space["f"].__code__)
