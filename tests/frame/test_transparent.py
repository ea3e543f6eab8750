"""enable(), the import hook, function watchers, the PEP 523 hook, python -m appy."""

import importlib
import subprocess
import sys
import textwrap

import pytest

import appy
from appy import _C
from appy._rewrite import regions_of

KERNEL = """
def kernel(n):
    s = 0
    #pragma sequential for
    for i in range(n):
        s += i
    return s

class Holder:
    values = [v for v in range(3)]
    def method(self, n):
        def inner():
            s = 0
            #pragma sequential for
            for i in range(n):
                s += i
            return s
        return inner()
"""


@pytest.fixture
def transparent():
    appy.enable()
    yield
    appy.disable()
    _C.set_enabled(True)


@pytest.fixture
def module(tmp_path, monkeypatch):
    (tmp_path / "annotated_kernels.py").write_text(KERNEL)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield "annotated_kernels"
    sys.modules.pop("annotated_kernels", None)


def run(*arguments, **environment):
    import os

    env = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p), **environment}
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, env=env, timeout=60)


def test_imports_after_enable(transparent, module):
    m = importlib.import_module(module)
    assert regions_of(m.kernel.__code__) and regions_of(m.Holder.method.__code__)
    assert m.kernel(5) == m.Holder().method(5) == 10 and m.Holder.values == [0, 1, 2]
    again = importlib.reload(m)
    assert regions_of(again.kernel.__code__) and again.kernel(5) == 10


def test_functions_that_exist(module):
    m = importlib.import_module(module)
    kernel, method = m.kernel, m.Holder.method
    assert not regions_of(kernel.__code__)
    appy.enable()
    try:
        assert regions_of(kernel.__code__) and regions_of(method.__code__)
        assert kernel(5) == 10 and m.Holder().method(5) == 10
    finally:
        appy.disable()
        _C.set_enabled(True)


def test_functions_that_running_code_defines():
    def before():
        def kernel(n):
            s = 0
            # pragma sequential for
            for i in range(n):
                s += i
            return s

        return kernel

    def running():
        appy.enable()
        try:

            def kernel(n, k=1):
                s = k - 1
                # pragma sequential for
                for i in range(n):
                    s += i + offset
                return s

            offset = 0
            result = kernel(5)
            return kernel, result, _C.hook_installed()
        finally:
            appy.disable()
            _C.set_enabled(True)

    kernel, result, _ = running()
    assert result == 10 and regions_of(kernel.__code__) and kernel(4) == 6
    assert not _C.hook_installed()
    assert before()(3) == 3


def test_hook_swaps_running_frames_and_functions():
    """The PEP 523 hook by itself, on every version: generators, closures, exceptions, recursion."""
    from appy._rewrite import rewrite

    def kernel(n):
        s = 0
        # pragma sequential for
        for i in range(n):
            s += i
        return s

    def generate(n):
        # pragma sequential for
        for i in range(n):
            n += 0
        yield n
        yield kernel(n)

    def fails(n):
        # pragma sequential for
        for i in range(n):
            n += 0
        raise KeyError(n)

    codes = {f.__code__: rewrite(f.__code__) for f in (kernel, generate, fails)}
    asked = []

    def decide(code):
        asked.append(code)
        return codes.get(code)

    _C.set_decider(decide)
    assert _C.install_hook(codes)
    try:
        assert kernel(5) == 10 and list(generate(4)) == [4, 6]
        with pytest.raises(KeyError):
            fails(2)
        assert kernel(5) == 10
    finally:
        assert _C.remove_hook()
        from appy import _transparent

        _C.set_decider(_transparent._decide)
    assert all(regions_of(f.__code__) for f in (kernel, generate, fails))
    assert sorted(c.co_name for c in asked) == ["fails", "generate", "kernel"]


AWAITED = """
import appy
appy.enable()

def called(n):
    #pragma sequential for
    for i in range(n):
        n += i
    return n

def not_called(n):
    def inner():
        m = n
        #pragma sequential for
        for i in range(n):
            m += i
        return m
    return inner

class Holder:
    @staticmethod
    def method(n):
        #pragma sequential for
        for i in range(n):
            n += i
        return n

def without(n):
    return n + 1

installed.append(_C.hook_installed())
without(1)
installed.append(_C.hook_installed())
result = called(4)
installed.append(_C.hook_installed())

def later(n):
    #pragma sequential for
    for i in range(n):
        n += i
    return n
"""


def test_hook_is_taken_out_when_all_are_met(tmp_path, monkeypatch):
    """What running code defines, where there are no function watchers, as on 3.11."""
    path = tmp_path / "awaited.py"
    monkeypatch.setattr(_C, "watch_functions", lambda on: False)
    # A function defined after the last call that the hook sees keeps it in place; one defined before does not.
    for text, stays in ((AWAITED[: AWAITED.index("def later")], False), (AWAITED, True)):
        path.write_text(text)
        space = {"__name__": "awaited", "installed": [], "_C": _C}
        try:
            exec(compile(text, str(path), "exec"), space)
            assert space["result"] == 10 and space["installed"] == [True, True, stays]
            assert _C.hook_installed() is stays
            for function in (space["called"], space["not_called"], space["Holder"].method):
                assert regions_of(function.__code__)
            assert space["not_called"](4)() == 10
            if stays:
                assert space["later"](4) == 10 and regions_of(space["later"].__code__)
            assert not _C.hook_installed()
        finally:
            appy.disable()
            _C.set_enabled(True)


def test_disable_and_enabled():
    @appy.jit
    def f(n):
        # pragma sequential for
        for i in range(n):
            n += i
        return n

    assert appy.enabled()
    appy.disable()
    try:
        before = f.stats()
        assert not appy.enabled() and f(4) == 10 and f.stats() == before
    finally:
        _C.set_enabled(True)
    assert appy.enabled()


SCRIPT = """
import sys

def kernel(n):
    s = 0
    #pragma sequential for
    for i in range(n):
        s += i
    return s

if __name__ == "__main__":
    print(__name__, sys.argv[1:], kernel(5), __file__ == sys.argv[0])
    appy = sys.modules.get("appy")
    print(appy is not None and appy.stats()["regions"])
"""


def test_script(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    result = run("-m", "appy", str(script), "a", "-b")
    assert result.stdout.splitlines() == ["__main__ ['a', '-b'] 10 True", "1"], result.stderr
    off = run("-m", "appy", str(script), APPY_DISABLE="1")
    assert off.stdout.splitlines() == ["__main__ [] 10 True", "0"], off.stderr
    plain = run(str(script))
    assert plain.stdout.splitlines() == ["__main__ [] 10 True", "False"], plain.stderr


def test_module_and_its_imports(tmp_path):
    package = tmp_path / "annotated_package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "kernels.py").write_text(KERNEL)
    (package / "__main__.py").write_text(
        "from .kernels import kernel\nimport sys, appy\nprint(kernel(5), appy.stats()['regions'], sys.argv[1:])\n"
    )
    import os

    path = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])
    result = run("-m", "appy", "-m", "annotated_package", "x", PYTHONPATH=path)
    assert result.stdout.split() == ["10", "2", "['x']"], result.stderr


@pytest.mark.parametrize(
    "arguments, message",
    [
        ([], "usage"),
        (["--nope", "x.py"], "unknown option --nope"),
        (["missing_script.py"], "can't open file 'missing_script.py'"),
        (["-m", "no_such_module_at_all"], "no module named no_such_module_at_all"),
    ],
)
def test_bad_command_lines(arguments, message):
    result = run("-m", "appy", *arguments)
    assert result.returncode != 0 and message in result.stderr


def test_bad_pragma_is_a_warning_in_transparent_mode(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent("""
        def f(n):
            #pragma paralel for
            for i in range(n):
                n += i
            return n
        print(f(4))
        """)
    )
    result = run("-m", "appy", str(script))
    assert result.stdout == "10\n" and "AppyWarning" in result.stderr and "line 3" in result.stderr
