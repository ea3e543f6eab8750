"""Regions at the top level of modules: their names are globals, read and assigned by LOAD_NAME and STORE_NAME."""

import builtins
import importlib
import subprocess
import sys
import warnings
from types import ModuleType

import numpy as np
import pytest

import appy
from appy import _C
from appy._rewrite import regions_of
from appy._transparent import rewrite_module

SCRIPTS = {
    "arrays": """
import numpy as np
n = 3000
x = np.arange(n) * 0.5
y = np.empty(n)
s = 0.0
#pragma parallel for simd
for i in range(n):
    y[i] = 2.0 * x[i] + 1.0
    s += x[i]
m = x[0]
#pragma simd
for j in range(n):
    m = max(m, y[j])
""",
    "types": """
import numpy as np
n = 5
x = np.arange(n, dtype=np.float32)
a = 0
b = 0
c = True
#pragma sequential for
for i in range(n):
    a += 1
    if i == 3:
        b = x[i]
    c = x[i] > 1
    d = i * 2.5
    e = i
""",
    "nothing is assigned in an empty loop": """
n = 0
#pragma sequential for
for i in range(n):
    t = i * 2
""",
    "assigned on some paths": """
n = 10
#pragma sequential for
for i in range(n):
    if i == 20:
        never = i
    if i == 2:
        once = i
""",
    "read after it was assigned in an earlier iteration": """
n = 10
total = 0
#pragma sequential for
for i in range(n):
    if i > 0:
        total += before * i
    before = i
""",
    "helpers read what the region assigns": """
n = 10
k = 1
def scaled(v):
    return v * k + n
s = 0
#pragma sequential for
for i in range(n):
    k = i
    s += scaled(i)
""",
    "names of builtins": """
n = 10
sum = 0
max = -1
#pragma sequential for
for id in range(n):
    sum += id
    if id > 4:
        max = id
    len = id
""",
    "a builtin before it is shadowed": """
n = 1
#pragma sequential for
for i in range(n):
    abs = abs(-5 - i)
""",
    "break and else": """
n = 10
#pragma sequential for
for i in range(n):
    if i * i > 30:
        found = i
        break
else:
    found = None
#pragma sequential for
for j in range(n):
    if j > n:
        break
else:
    j = -1
""",
    "places": """
n = 6
out = []
for k in range(3):
    s = 0
    # pragma sequential for
    for i in range(n):
        s += i * k
    out.append(s)
if n > 3:
    try:
        # pragma sequential for
        for i in range(n):
            s += i
    finally:
        out.append(s)
while s > 0:
    # pragma sequential for
    for i in range(n):
        s -= i
""",
    "comprehensions": """
n = 6
k = 100
v = "kept"
a = [v * 2 for v in range(3)]
b = {v: [w + v for w in range(v)] for v in range(4)}
f = [lambda: v for v in range(2)][0]
c = f()
s = 0
#pragma sequential for
for i in range(n):
    s += i
d = [s + v for v in range(2)]
e = [locals()["v"] for v in range(1)] if k < 0 else sorted(key for key in globals() if key == "v")
del f
""",
    "comprehensions over classes and lambdas": """
n = 4
class C:
    w = [q * 2 for q in range(3)]
    def m(self):
        return [q + z for q in range(2) for z in self.w]
fs = [(lambda u=u: u * n) for u in range(3)]
r = [g() for g in fs] + C().m()
r0 = r[-1]
s = 0
#pragma sequential for
for i in range(n):
    s += r0
del C, fs
""",
    "a global statement at the top": """
global s
s = 0
n = 5
#pragma sequential for
for i in range(n):
    s += i
""",
    "big integers": """
n = 80
p = 1
#pragma sequential for
for i in range(n):
    p *= 2
""",
    "two names of one array": """
import numpy as np
x = np.arange(10.0)
y = x[1:]
z = x
n = 9
#pragma simd
for i in range(n):
    y[i] = x[i] + z[i]
""",
}

FAILING = {
    "a name that is not bound": """
n = 5
#pragma sequential for
for i in range(n):
    if i == 3:
        n = missing
""",
    "a name that is not bound yet": """
import numpy as np
n = 5
s = 0
x = np.zeros(n)
#pragma sequential for
for i in range(n):
    x[i] = i
    s += i
    if i == 3:
        s = later
    if i > 3:
        later = i
""",
    "an index": """
import numpy as np
x = np.arange(5.0)
idx = np.array([0, 1, 9, 2])
s = 0.0
#pragma sequential for
for i in range(4):
    s += x[idx[i]]
    x[i] = -1.0
""",
    "a raise": """
n = 5
#pragma sequential for
for i in range(n):
    k = i * i
    if k > 5:
        raise ValueError("too large")
""",
    "a division in a helper": """
def f(v):
    return 10 // (3 - v)
s = 0
#pragma sequential for
for i in range(6):
    s += f(i)
""",
}


def plain_value(value):
    return isinstance(value, int | float | str | tuple | list | dict | np.generic | np.ndarray | None.__class__)


def outcome(code, filename):
    module = ModuleType("__main__")
    module.__dict__["__builtins__"] = builtins
    error = None
    try:
        exec(code, module.__dict__)
    except Exception as e:
        error = e
    # The assembler leaves the positions as they are.
    failed = error and (type(error), str(error), [t.tb_lineno for t in _tracebacks(error)][1:2])
    names = {k: v for k, v in module.__dict__.items() if not k.startswith("__")}
    for value in names.values():
        if callable(value) and hasattr(value, "__code__"):
            assert value.__code__.co_filename in (filename, __file__)
    return {k: (type(v), v) for k, v in names.items() if plain_value(v)}, failed


def _tracebacks(error):
    at = error.__traceback__
    while at is not None:
        yield at
        at = at.tb_next


def assert_equal(got, want):
    assert got.keys() == want.keys()
    for name, (kind, value) in want.items():
        assert got[name][0] is kind, name
        if isinstance(value, np.ndarray):
            assert value.dtype == got[name][1].dtype
        np.testing.assert_equal(got[name][1], value, err_msg=name)


def both(tmp_path, source):
    path = tmp_path / "a_script.py"
    path.write_text(source)
    code = compile(source, str(path), "exec")
    want = outcome(code, str(path))
    from appy import _transparent

    _transparent._files.pop(str(path), None)
    rewritten = rewrite_module(compile(source, str(path), "exec"), str(path))
    assert regions_of(rewritten)
    before = appy.stats()
    got = outcome(rewritten, str(path))
    after = appy.stats()
    assert_equal(got[0], want[0])
    assert got[1] == want[1]
    return {name: after[name] - before[name] for name in ("regions", "compiled", "runs", "declined")}


@pytest.mark.parametrize("name", SCRIPTS)
def test_same_namespace(name, tmp_path):
    with warnings.catch_warnings():
        if name in ("a builtin before it is shadowed", "two names of one array"):
            warnings.simplefilter("ignore", appy.AppyWarning)
        else:
            warnings.simplefilter("error", appy.AppyWarning)
        counted = both(tmp_path, SCRIPTS[name])
    if name not in ("a builtin before it is shadowed", "big integers"):
        assert counted["runs"] and not counted["declined"]


@pytest.mark.parametrize("name", FAILING)
def test_same_failure(name, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore" if name == "a name that is not bound" else "error", appy.AppyWarning)
        counted = both(tmp_path, FAILING[name])
    if name != "a name that is not bound":
        assert counted["compiled"]  # a check that fails before anything is written declines


@pytest.mark.parametrize("name", [*SCRIPTS, *FAILING])
def test_same_when_declining(name, tmp_path):
    _C.set_enabled(False)
    try:
        both(tmp_path, {**SCRIPTS, **FAILING}[name])
    finally:
        _C.set_enabled(True)


def test_script_of_top_level_loops(tmp_path):
    """The whole way: python -m appy, against plain python."""
    path = tmp_path / "script.py"
    path.write_text(
        SCRIPTS["arrays"]
        + "print(repr(s), type(s), i, repr(m), y.tolist()[:5], [v for v in range(3)], 'v' in globals())\n"
        + "import sys\nif 'appy' in sys.modules:\n"
        + "    st = sys.modules['appy'].stats()\n    print(st['regions'], st['runs'], st['declined'], file=sys.stderr)\n"
    )
    plain = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, timeout=60)
    command = [sys.executable, "-W", "error::UserWarning", "-m", "appy", str(path)]
    compiled = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert compiled.stderr.split() == ["2", "2", "0"], compiled.stderr
    assert compiled.stdout == plain.stdout != ""


def test_imported_module(tmp_path, monkeypatch):
    (tmp_path / "top_level_loops.py").write_text(SCRIPTS["arrays"])
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    plain = importlib.import_module("top_level_loops")
    del sys.modules["top_level_loops"]
    appy.enable()
    try:
        before = appy.stats()["runs"]
        compiled = importlib.import_module("top_level_loops")
        assert appy.stats()["runs"] == before + 2
        compiled.n = 7
        importlib.reload(compiled)
        assert compiled.s == plain.s and type(compiled.s) is type(plain.s) and compiled.i == plain.i
        np.testing.assert_array_equal(compiled.y, plain.y)
    finally:
        appy.disable()
        _C.set_enabled(True)
        sys.modules.pop("top_level_loops", None)


def test_exec_with_other_namespaces(tmp_path):
    """One code object in the namespace of a module, with locals of its own, and in a dict that computes its items."""
    source = "n = n\ns = 0\n#pragma sequential for\nfor i in range(n):\n    s += i\n    t = s\n"
    path = tmp_path / "executed.py"
    path.write_text(source)
    code = rewrite_module(compile(source, str(path), "exec"), str(path))
    (region,) = regions_of(code)

    def counted():
        stats = _C.region_stats(region)
        return stats["runs"], stats["declined"]

    names = {"n": 5}
    exec(code, names)
    assert (names["s"], names["t"], names["i"]) == (10, 10, 4) and counted() == (1, 0)

    inner, outer = {}, {"n": 6, "s": "outer", "t": "outer"}
    with pytest.warns(appy.AppyWarning, match="namespace that is no module's"):
        exec(code, outer, inner)
    assert inner == {"n": 6, "s": 15, "t": 15, "i": 5} and outer["s"] == outer["t"] == "outer" and "i" not in outer
    assert counted() == (1, 1)

    class Names(dict):
        def __missing__(self, name):
            if name == "n":
                return 4
            raise KeyError(name)

    odd = Names()
    exec(code, {}, odd)
    assert odd["s"] == 6 and counted() == (1, 2)

    class Loud(dict):
        """Globals of a dict's subclass: STORE_NAME calls its methods."""

        def __setitem__(self, name, value):
            dict.__setitem__(self, name, ("loud", value))

        def __getitem__(self, name):
            value = dict.__getitem__(self, name)
            return value[1] if isinstance(value, tuple) else value

    loud = Loud(n=3)
    exec(code, loud)
    plain = Loud(n=3)
    exec(compile(source, str(path), "exec"), plain)
    assert dict.items(loud) == dict.items(plain) and counted() == (1, 3)

    exec(code, names)
    assert names["s"] == 10 and counted() == (2, 3)


def test_another_module_reads_what_the_region_assigns(tmp_path):
    """An attribute of the very module whose globals the region assigns is not read ahead."""
    source = "n = 5\ns = k = 0\n#pragma sequential for\nfor i in range(n):\n    k = i\n    s += me.k\n"
    path = tmp_path / "reads_itself.py"
    path.write_text(source)
    code = rewrite_module(compile(source, str(path), "exec"), str(path))
    me = ModuleType("me")
    me.me = me
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", appy.AppyWarning)
        exec(code, me.__dict__)
    assert me.s == 10


def test_class_body_says_that_it_stays(tmp_path):
    source = "class C:\n    s = 0\n    #pragma sequential for\n    for i in range(4):\n        s += i\n"
    path = tmp_path / "a_class.py"
    path.write_text(source)
    with pytest.warns(appy.AppyWarning, match="class body"):
        code = rewrite_module(compile(source, str(path), "exec"), str(path))
    names = {"__name__": "m"}
    exec(code, names)
    assert names["C"].s == 6 and names["C"].i == 3


def test_hidden_variables_stay_hidden(tmp_path):
    """Variables of comprehensions are no names of the module, whatever asks for its locals meanwhile."""
    source = (
        "import sys\nv = 'kept'\n#pragma sequential for\nfor i in range(3):\n    s = i\n"
        "seen = [sorted(k for k in (sys._getframe().f_locals) if k in 'uv') for u in range(1)]\n"
        "shown = [v for v in range(2)]\n"
    )
    path = tmp_path / "hidden.py"
    path.write_text(source)
    names = {"__name__": "m"}
    exec(rewrite_module(compile(source, str(path), "exec"), str(path)), names)
    plain = {"__name__": "m"}
    exec(compile(source, str(path), "exec"), plain)
    assert {k: names[k] for k in ("v", "seen", "shown", "s")} == {k: plain[k] for k in ("v", "seen", "shown", "s")}
    assert names["v"] == "kept"
