"""What fails in kernels: checks, told at once or later; memory, launches, the device, the compiler. Ctrl-C."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

HEAD = """
import copy, gc, os, signal, sys, threading, time, warnings
sys.path.insert(0, {here!r})
import fake_cupy, numpy as np, appy
cp = fake_cupy.install()

@appy.jit
def gather(x, index, y):
    #pragma parallel for simd
    for i in range(index.shape[0]):
        y[i] = x[index[i]]

@appy.jit
def halves(x, n):
    #pragma parallel for
    for i in range(x.shape[0]):
        if x[i] == n:
            raise ValueError("not this one")
        x[i] = x[i] / 2

@appy.jit
def double(x):
    #pragma parallel for simd
    for i in range(x.shape[0]):
        x[i] = x[i] * 2

@appy.jit
def total(x):
    s = 0.0
    #pragma parallel for simd
    for i in range(x.shape[0]):
        s += x[i]
    return s

def array(values, device=0):
    return fake_cupy.ndarray(np.asarray(values), device)

def index(bad=None, where=57, n=100, device=0):
    values = np.arange(n) % 10
    if bad is not None:
        values[where] = bad
    return array(values, device)

x, y, good, bad = array(np.arange(10.0)), array(np.zeros(100)), index(), index(1234)

def error_of(function, *args):
    try:
        function(*args)
    except Exception as error:
        return error

def told(error):
    return " ".join([type(error).__name__ + ":", str(error), *getattr(error, "__notes__", [])])
"""


@pytest.fixture(scope="session")
def kernels(tmp_path_factory):
    return tmp_path_factory.mktemp("kernels")


@pytest.fixture
def script(python, tmp_path, kernels):
    """Runs Python text, behind HEAD, on the emulated device; what is compiled is kept for the other tests."""

    def run(text, cache=kernels, **variables):
        path = tmp_path / "program.py"
        path.write_text(HEAD.format(here=str(Path(__file__).parent)) + textwrap.dedent(text))
        return python("-B", str(path), **{"APPY_CACHE_DIR": str(cache)} | variables)

    return run


LATE = "in gather ({}/program.py:10), which device 0 ran after the call had returned"


def test_failure_is_raised_when_something_waits(script, tmp_path):
    out = script("gather(x, bad, y); print('returned'); print(told(error_of(appy.synchronize))); appy.synchronize()")
    where = f"at {tmp_path}/program.py, line 11, iteration 57, " + LATE.format(tmp_path)
    assert out == f"returned\nIndexError: index 1234 is out of bounds for axis 0 with size 10 {where}\n"


def test_failure_is_raised_by_the_next_region(script):
    script(
        """
        gather(x, bad, y)
        error = error_of(double, x)
        assert "index 1234 " in told(error) and "in gather (" in told(error), told(error)
        double(x)
        appy.synchronize()
        assert (x.get() == 2 * np.arange(10.0)).all()  # the first call did nothing
        gather(x, good, y)  # a kernel that has failed works again, and tells again
        appy.synchronize()
        assert (y.get() == 2.0 * (np.arange(100) % 10)).all()
        gather(x, index(77, 3), y)
        assert "index 77 " in told(error_of(double, x))
        """,
        APPY_EMULATOR_EAGER=1,
    )


def test_failure_is_raised_by_a_region_of_the_processor(script):
    script(
        """
        gather(x, bad, y)
        array = np.ones(5)
        assert "index 1234 " in told(error_of(double, array)) and (array == 1).all()
        double(array)
        assert (array == 2).all()
        """,
        APPY_EMULATOR_EAGER=1,
    )


def test_failure_is_raised_where_a_number_is_read(script):
    script(
        """
        gather(x, bad, y)
        assert "index 1234 " in told(error_of(total, x))
        assert total(x).item() == 45
        """
    )


def test_failure_is_raised_at_exit(script):
    out = script("sys.excepthook = lambda kind, error, trace: print(told(error)); gather(x, bad, y); print('end')")
    assert out.startswith("end\nIndexError: index 1234 is out of bounds for axis 0 with size 10 at ")
    assert "in gather (" in out


def test_exit_is_silent_where_nothing_failed(script):
    assert script("gather(x, good, y)") == ""
    assert script("pass") == ""


@pytest.mark.parametrize("how", ["strict", "sync", "try", "with"])
def test_failure_is_raised_at_the_end_of_the_region(script, how):
    script(
        f"""
        HOW = {how!r}
        if HOW == "sync":
            appy.config(sync=True)

        @appy.jit(strict=HOW == "strict")
        def plain(x, index, y):
            #pragma parallel for simd
            for i in range(index.shape[0]):
                y[i] = x[index[i]]

        @appy.jit
        def caught(x, index, y):
            try:
                #pragma parallel for simd
                for i in range(index.shape[0]):
                    y[i] = x[index[i]]
            except IndexError as error:
                raise error
            return "done"

        class Manager:
            def __enter__(self): pass
            def __exit__(self, kind, error, trace): pass

        @appy.jit
        def managed(x, index, y):
            with Manager():
                #pragma parallel for simd
                for i in range(index.shape[0]):
                    y[i] = x[index[i]]

        f = {{"try": caught, "with": managed}}.get(HOW, plain)
        f(x, good, y)
        for again in range(2):
            error = error_of(f, x, bad, y)
            assert told(error).startswith("IndexError: index 1234 is out of bounds for axis 0 with size 10 at "), told(error)
            assert told(error).endswith("iteration 57")
            trace = error.__traceback__
            while trace.tb_next:
                trace = trace.tb_next
            assert "y[i] = x[index[i]]" in open(__file__).read().splitlines()[trace.tb_lineno - 1]
        f(x, good, y)
        appy.synchronize()
        assert (y.get() == np.arange(100) % 10).all()
        """
    )


def test_sync_waits_for_regions_that_cannot_fail(script):
    script("double(x); assert (x.get() != 2 * np.arange(10.0)).any(); appy.synchronize()")
    script("appy.config(sync=True); double(x); assert (x.get() == 2 * np.arange(10.0)).all()")


def test_first_failure_is_raised_and_what_follows_it_forgotten(script):
    script(
        """
        gather(x, good, y), halves(x, -1.0)
        appy.synchronize()
        x = array(np.arange(10.0))
        later = index(500)
        gather(x, bad, y), gather(x, later, y), halves(x, 3.0)
        assert "index 1234 " in told(error_of(appy.synchronize))
        appy.synchronize()
        x = array(np.arange(10.0))
        halves(x, 7.0), gather(x, bad, y)
        assert told(error_of(appy.synchronize)).startswith("ValueError: not this one at ")
        appy.synchronize()
        """
    )


def test_failures_of_two_streams_are_both_raised(script):
    script(
        """
        gather(x, bad, y)
        with fake_cupy.stream(4096):
            other = index(4321)
            gather(x, other, y)
        assert "index 1234 " in told(error_of(appy.synchronize))
        assert "index 4321 " in told(error_of(double, x))
        appy.synchronize()
        """
    )


def test_failures_of_two_devices_are_both_raised(script):
    script(
        """
        there, other, z = array(np.arange(10.0), 1), index(4321, device=1), array(np.zeros(100), 1)
        gather(x, bad, y), gather(there, other, z)
        first, second = told(error_of(appy.synchronize)), told(error_of(appy.synchronize))
        assert "index 1234 " in first and "which device 0 ran" in first, first
        assert "index 4321 " in second and "which device 1 ran" in second, second
        appy.synchronize()
        """,
        APPY_EMULATOR_DEVICES=2,
    )


def test_failure_of_a_region_that_is_gone(script):
    script(
        """
        gather(x, bad, y)
        del gather
        gc.collect()
        error = error_of(appy.synchronize)
        assert "index 1234 " in told(error) and "in gather (" in told(error)
        appy.synchronize()
        """
    )


def test_forked_child_has_no_failures(script):
    script(
        """
        gather(x, bad, y)
        appy.config(sync=False)
        pid = os.fork()
        if not pid:
            a = np.ones(5)
            double(a)
            appy.synchronize()
            del gather
            gc.collect()
            os._exit(int(a[0]))
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 2
        assert "index 1234 " in told(error_of(appy.synchronize))
        """,
        APPY_EMULATOR_EAGER=1,
    )


def test_failure_with_numpy_arrays_is_the_interpreters(script):
    script(
        """
        @appy.jit(backend="cuda")
        def on_device(x, index, y):
            #pragma parallel for simd
            for i in range(index.shape[0]):
                y[i] = x[index[i]]

        x, y, bad = np.arange(10.0), np.zeros(100), index(1234).get()
        assert told(error_of(on_device, x, bad, y)).startswith("IndexError: index 1234 is out of bounds for axis 0")
        assert (y[:57] == np.arange(57) % 10).all() and not y[57:].any()
        on_device(x, bad % 10, y)
        assert y[57] == 4 and y[99] == 9
        """
    )


MOVED = """
@appy.jit(backend="cuda")
def moved(x, y):
    #pragma parallel for simd
    for i in range(x.shape[0]):
        y[i] = x[i] + 1

def fail(rules):
    os.environ["APPY_EMULATOR_FAIL"] = rules

x, y = np.arange(1000.0), np.zeros(1000)
"""


def test_device_without_memory(script):
    script(
        MOVED
        + textwrap.dedent("""
        for again in range(2):
            fail("cuMemAllocAsync:1,cuMemAllocAsync:2")
            error = error_of(moved, x, y)
            assert type(error) is appy.DeviceMemoryError and isinstance(error, MemoryError), error
            assert str(error).startswith(f"moved ({__file__}:58): the device is out of memory, "), error
            assert "free_all_blocks" in str(error) and not y.any()
            fail("")
            moved(x, y)
            assert (y == x + 1).all()
            y[:] = 0
        fail("cuMemHostAlloc:1")
        big = np.arange(2e6)
        error = error_of(moved, big, np.zeros(len(big)))
        assert type(error) is appy.DeviceMemoryError and "bytes of pinned memory" in str(error), error
        """)
    )


def test_launch_that_is_refused(script):
    script(
        MOVED
        + textwrap.dedent("""
        fail("cuLaunchKernel:1:701")
        error = error_of(moved, x, y)
        assert type(error) is appy.DeviceError and str(error).startswith(f"moved ({__file__}:58): kernel appy_moved with")
        assert not y.any()
        fail("")
        moved(x, y)
        assert (y == x + 1).all()
        z = array(x.copy())
        double(z)
        fail("cuLaunchKernel:1:701")
        assert str(error_of(double, z)).startswith("double (")
        double(z)
        appy.synchronize()
        assert (z.get() == 4 * x).all()
        """)
    )


@pytest.mark.parametrize("call", ["cuLaunchKernel", "cuStreamQuery"])
def test_lost_device(script, call):
    script(
        MOVED
        + textwrap.dedent(f"""
        moved(x, y)
        y[:] = 0
        fail("{call}:1:700")
        for again in range(2):
            error = error_of(moved, x, y)
            assert type(error) is appy.DeviceError, error
            assert str(error).startswith(f"moved ({{__file__}}:58): the device is lost to this process, "), error
            fail("")
        assert not y.any()
        assert type(error_of(appy.synchronize)) is appy.DeviceError
        sys.excepthook = lambda *error: os._exit(0)  # said at exit once more
        """)
    )


@pytest.mark.parametrize(
    "variables, what",
    [
        ({"APPY_LIBCUDA": "/nowhere/libcuda.so.1"}, "NVIDIA's driver was not found"),
        ({"APPY_LIBNVRTC": "/nowhere/libnvrtc.so.13"}, "NVRTC, NVIDIA's compiler for kernels, was not found"),
        ({"APPY_EMULATOR_CAPABILITY": 61}, "has compute capability 6.1; 7.0 is needed"),
        ({"APPY_EMULATOR_CAPABILITY": 70}, "does not compile for compute capability 7.0"),
        ({"APPY_EMULATOR_NVRTC": 13000, "APPY_EMULATOR_DRIVER": 12080}, "the driver is for CUDA 12.8"),
        ({"APPY_EMULATOR_DEVICES": 0}, "shows no device"),
    ],
)
def test_what_is_missing_refuses_the_region(script, tmp_path, variables, what):
    script(
        MOVED
        + textwrap.dedent(f"""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            moved(x, y)
            moved(x, y)
        assert (y == x + 1).all()
        (warning,) = caught
        text = str(warning.message)
        assert {what!r} in text and f"moved: the statement at {{__file__}}:58 runs in the interpreter" in text, text
        """)
        + textwrap.dedent(f"""
        @appy.jit(backend="cuda", strict=True)
        def strict(x, y):
            #pragma parallel for simd
            for i in range(x.shape[0]):
                y[i] = x[i] + 2

        error = error_of(strict, x, y)
        assert type(error) is appy.CompileError and {what!r} in str(error), error
        """),
        cache=tmp_path / "cache",
        **variables,
    )


@pytest.mark.parametrize("wait", ["total(x)", "appy.synchronize()", "appy.config(sync=True); double(x)"])
def test_control_c_ends_a_wait(script, wait):
    script(
        f"""
        total(x), double(x)
        appy.synchronize()
        os.environ["APPY_EMULATOR_BUSY"] = "60"

        def interrupt():
            global sent
            time.sleep(0.3)
            sent = time.monotonic()
            os.kill(os.getpid(), signal.SIGINT)

        counted = 0
        def count():
            global counted
            while True:
                counted += 1
                time.sleep(0.001)

        threading.Thread(target=interrupt).start()
        threading.Thread(target=count, daemon=True).start()
        double(x)
        try:
            {wait}
        except KeyboardInterrupt:
            late = time.monotonic() - sent
        assert late < 0.5, late  # 0.1 on a machine that does nothing else
        assert counted > 20  # the GIL is not held
        os.environ["APPY_EMULATOR_BUSY"] = "0"
        double(x)
        assert time.monotonic() - sent < 5
        os._exit(0)
        """
    )


STEPS = textwrap.dedent("""
    def plain(x, y, n):
        #pragma sequential for
        for t in range(n):
            #pragma parallel for simd
            for i in range(x.shape[0]):
                y[i] = x[x.shape[0] - 1 - i] + 1
            #pragma parallel for simd
            for i in range(x.shape[0]):
                x[i] = y[x.shape[0] - 1 - i] + 1

    steps, moved = appy.jit(copy.copy(plain)), appy.jit(plain, backend="cuda")

    @appy.jit
    def sums(x, n):
        for t in range(n):
            s = 0.0
            #pragma parallel for simd
            for i in range(x.shape[0]):
                s += x[i]
            #pragma parallel for simd
            for i in range(x.shape[0]):
                x[i] += 1
        return s

    def interrupted(function, *arguments):
        os.environ["APPY_EMULATOR_BUSY"] = "1"
        timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        start = time.monotonic()
        try:
            function(*arguments)
        except KeyboardInterrupt:
            assert time.monotonic() - start < 0.9
        else:
            raise AssertionError("no KeyboardInterrupt")
        os.environ["APPY_EMULATOR_BUSY"] = "0"
        timer.join()
    """)


@pytest.mark.parametrize("blocks", [1, 2, 4])
def test_control_c_ends_the_loop(script, blocks):
    script(
        STEPS
        + textwrap.dedent("""
        x, y = array(np.zeros(700)), array(np.zeros(700))
        appy.config(sync=True)
        steps(x, y, 1)
        assert (x.get() == 2).all()
        interrupted(steps, x, y, 1000)
        appy.synchronize()
        left, other = x.get(), y.get()
        # Between two of its statements: one is wholly done, the next one not begun.
        assert (left == left[0]).all() and (other == other[0]).all() and abs(left[0] - other[0]) == 1
        assert 2 <= left[0] < 100, left[0]
        steps(x, y, 100)
        assert (x.get() == left[0] + 200).all()

        # Also where its barriers are those of reductions; a number is waited for in any case.
        appy.config(sync=False)
        x = array(np.zeros(700))
        assert sums(x, 1) == 0
        interrupted(sums, x, 1000)
        appy.synchronize()
        left = x.get()
        assert (left == left[0]).all() and 1 <= left[0] < 100, left[0]
        assert sums(x, 100) == 700 * (left[0] + 99)

        # Arrays of the host are what they were.
        a, b = np.zeros(700), np.zeros(700)
        moved(a, b, 1)
        interrupted(moved, a, b, 1000)
        assert (a == 2).all() and (b == 1).all()
        moved(a, b, 100)
        assert (a == 202).all()
        """),
        APPY_CUDA_BLOCKS=blocks,
    )


@pytest.mark.parametrize("blocks", [1, 3])
def test_control_c_ends_what_never_ends(script, blocks):
    """Also where no number is wanted, and no statement reads what another thread wrote."""
    script(
        STEPS
        + textwrap.dedent("""
        @appy.jit
        def own_elements(x, go_on):
            while go_on:
                #pragma parallel for simd
                for i in range(x.shape[0]):
                    x[i] += 1

        @appy.jit
        def skips(x, y, n):
            while n > 0:
                if n == 2:
                    continue
                n -= 1
                #pragma parallel for simd
                for i in range(x.shape[0]):
                    y[i] = x[x.shape[0] - 1 - i] + 1

        @appy.jit
        def one_thread(x, go_on):
            while go_on:
                #pragma sequential for
                for i in range(1, x.shape[0]):
                    x[i] = x[i - 1] + x[i]
                while x[0] != 0:
                    #pragma sequential for
                    for i in range(1, x.shape[0]):
                        x[i] = x[i - 1] + 1

        z = array(np.ones(7))
        one_thread(z, False)
        interrupted(one_thread, z, True)
        appy.synchronize()
        assert z.get().tolist() == [1, 2, 3, 4, 5, 6, 7]
        x, y = array(np.zeros(700)), array(np.zeros(700))
        own_elements(x, False)
        skips(x, y, 1)
        assert (y.get() == 1).all() and (x.get() == 0).all()
        interrupted(own_elements, x, True)
        appy.synchronize()
        left = x.get()
        assert (left == left[0]).all() and 1 <= left[0], left
        interrupted(skips, x, y, 5)
        skips(x, y, 1)
        appy.synchronize()
        assert (y.get() == left + 1).all()
        """),
        APPY_CUDA_BLOCKS=blocks,
    )


def test_control_c_ends_no_loop_of_a_statement_that_is_done(script):
    script(
        STEPS
        + textwrap.dedent("""
        x, y = array(np.zeros(700)), array(np.zeros(700))
        steps(x, y, 1)
        appy.synchronize()
        os.environ["APPY_EMULATOR_BUSY"] = "1"
        steps(x, y, 1000)
        interrupted(appy.synchronize)
        steps(x, y, 1)
        appy.synchronize()
        assert (x.get() == 2004).all()
        """)
    )


def test_signal_handler_that_returns_does_not_end_a_wait(script):
    script(
        """
        total(x)
        os.environ["APPY_EMULATOR_BUSY"] = "1"
        seen = []
        signal.signal(signal.SIGALRM, lambda *_: seen.append(time.monotonic()))
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        start = time.monotonic()
        assert total(x).item() == 45
        assert time.monotonic() - start > 0.9 and len(seen) == 1 and seen[0] - start < 0.8
        """
    )


def test_explain_tells_of_kernels_and_transfers(script):
    text = MOVED + textwrap.dedent("""
        moved(x, y)
        explanation = appy.explain(moved)
        (one,) = explanation.regions[0]["specializations"]
        lines = one["summary"].splitlines()
        assert lines[0] == "CUDA, Emulated device (device 0)"
        assert lines[1].startswith("4 blocks of 256 threads, 1 lanes a worker, 32 registers a thread, "), lines[1]
        assert HOW in lines[1]
        assert lines[2] == "barriers: 0 of all threads, 0 of a worker's lanes"
        assert "transfer to the device: x, 8000 bytes" in lines and "transfer to the device: y, 8000 bytes" in lines
        assert lines[5] == "transfer from the device: y, 8000 bytes"
        z = array(x.copy())
        double(z)
        assert "transfer" not in str(appy.explain(double))
        """)
    script("HOW = 'compiled by NVRTC in '\n" + text.replace("+ 1", "+ 17"), APPY_EMULATOR_ORDER="forward")
    script("HOW = 'read from the cache in '\n" + text.replace("+ 1", "+ 17"))


def test_a_function_that_moves_finds_its_kernel(script, tmp_path):
    """Machine code carries the lines of the source, and depends on them, only where that is asked for."""
    text = """
        SOURCE = '''
        @appy.jit(strict=True)
        def moving(a):
            # pragma parallel for simd
            for i in range(a.shape[0]):
                a[i] = a[i] * 3 + 1
        '''
        how = []
        for lines in (0, 7):
            path = os.path.join(os.path.dirname(__file__), f"moving{lines}.py")
            with open(path, "w") as file:
                file.write("import appy" + "\\n" * lines + textwrap.dedent(SOURCE))
            module = importlib.machinery.SourceFileLoader("moving", path).load_module()
            module.moving(x)
            appy.synchronize()
            (one,) = appy.explain(module.moving).regions[0]["specializations"]
            how.append("compiled by NVRTC" in one["summary"])
        print(how)
        """
    text = "import importlib.machinery, textwrap\n" + textwrap.dedent(text)
    assert "[True, False]" in script(text, cache=tmp_path / "without")
    assert "[True, True]" in script(text, cache=tmp_path / "with", APPY_CUDA_LINES="1")
