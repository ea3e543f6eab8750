"""Python threads, fork and multiprocessing, interpreter shutdown, subinterpreters."""

import json

import pytest

COMMON = """
import json, os, sys, threading, time
import numpy as np
import appy

@appy.jit(strict=True)
def fill(x, y, a):
    n = len(x)
    #pragma parallel for simd
    for i in range(n):
        y[i] = x[i] * a + i
    return n

@appy.jit(strict=True)
def long_parallel(x, n):
    #pragma parallel for
    for i in range(len(x)):
        s = 0.0
        #pragma simd
        for j in range(n):
            s += j * 0.5 + i
        x[i] = s

@appy.jit(strict=True)
def long_sequential(x, n):
    s = 0
    #pragma sequential for
    for i in range(n):
        x[i % 8] += 1.0
        s = i
    return s

def right(size, a):
    x, y = np.arange(float(size)), np.empty(size)
    return fill(x, y, a) == size and bool((y == np.arange(float(size)) * a + np.arange(size)).all())
"""


def output(result):
    return json.loads(result.stdout.splitlines()[-1])


@pytest.mark.parametrize("warm", [True, False])
def test_many_threads_call_one_function(python, warm):
    program = f"""
if {warm}: right(10, 1.0)
failures, start = [], threading.Barrier(8)
def work(k):
    start.wait()
    for size in (0, 1, 3, 1000, 5000, 100_003) * 10:
        if not right(size + k, float(k)):
            failures.append((k, size))
threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
[t.start() for t in threads]; [t.join() for t in threads]
print(json.dumps([failures, fill.stats()["runs"]]))
"""
    failures, runs = output(python(COMMON + program, APPY_NUM_THREADS="3"))
    assert failures == [] and runs >= 480


def test_threads_compile_different_types_at_once(python):
    program = """
failures, start = [], threading.Barrier(6)
types = [np.float64, np.float32, np.int64, np.int32, np.uint8, np.int16]
def work(dtype):
    start.wait()
    for _ in range(20):
        x, y = np.ones(1000, dtype), np.zeros(1000)
        fill(x, y, 2)
        if not (y == 2 + np.arange(1000)).all():
            failures.append(str(dtype))
threads = [threading.Thread(target=work, args=(t,)) for t in types]
[t.start() for t in threads]; [t.join() for t in threads]
print(json.dumps([failures, fill.stats()["compiled"] >= 6]))
"""
    assert output(python(COMMON + program, APPY_NUM_THREADS="2")) == [[], True]


@pytest.mark.parametrize(
    "call", ["long_parallel(np.zeros(2), 1_000_000_000)", "long_sequential(np.zeros(8), 400_000_000)"]
)
def test_other_threads_go_on_during_a_long_region(python, call):
    program = f"""
ticks, stop = [], threading.Event()
def tick():
    while not stop.is_set():
        ticks.append(time.perf_counter())
        time.sleep(0.001)
thread = threading.Thread(target=tick)
long_parallel(np.zeros(2), 10); long_sequential(np.zeros(8), 10)
thread.start()
start = time.perf_counter()
{call}
end = time.perf_counter()
stop.set(); thread.join()
inside = [start, *(t for t in ticks if start < t < end), end]
print(json.dumps([end - start, len(inside), max(b - a for a, b in zip(inside, inside[1:]))]))
"""
    elapsed, count, gap = output(python(COMMON + program, APPY_NUM_THREADS="1"))
    assert elapsed > 0.02 and count > 5 and gap < max(0.1, elapsed / 2)


def test_fork_with_the_pool_alive(python):
    program = """
assert right(200_000, 2.0)
children = []
for k in range(4):
    pid = os.fork()
    if pid == 0:
        os._exit(0 if right(200_000, float(k)) and right(50, 1.0) else 1)
    children.append(pid)
codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children]
print(json.dumps([codes, right(200_000, 3.0)]))
"""
    assert output(python(COMMON + program, APPY_NUM_THREADS="3")) == [[0, 0, 0, 0], True]


def test_fork_while_another_thread_is_in_a_region(python):
    program = """
right(1000, 1.0)
long_parallel(np.zeros(4), 10)
thread = threading.Thread(target=long_parallel, args=(np.zeros(4), 200_000_000))
thread.start()
time.sleep(0.05)
pid = os.fork()
if pid == 0:
    os._exit(0 if right(200_000, 5.0) else 1)
code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
thread.join()
print(json.dumps([code, right(200_000, 3.0)]))
"""
    assert output(python(COMMON + program, APPY_NUM_THREADS="3")) == [0, True]


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_multiprocessing(python, method):
    program = f"""
import multiprocessing

def task(k):
    return right(100_000 + k, float(k)), fill.stats()["runs"] > 0

if __name__ == "__main__":
    before = right(100_000, 1.0)
    with multiprocessing.get_context("{method}").Pool(2) as pool:
        results = pool.map(task, range(6))
        jitted = pool.starmap(fill, [(np.ones(10), np.zeros(10), 1.0)] * 2)
    print(json.dumps([before, results, jitted, right(100_000, 2.0)]))
"""
    before, results, jitted, after = output(python(COMMON + program, timeout=120, APPY_NUM_THREADS="2"))
    assert before and after and results == [[True, True]] * 6 and jitted == [10, 10]


def test_thread_pool_executor_with_exceptions(python):
    program = """
from concurrent.futures import ThreadPoolExecutor

@appy.jit(strict=True)
def gather(x, idx, y):
    #pragma parallel for
    for i in range(len(idx)):
        y[i] = x[idx[i]]

def work(k):
    idx = np.arange(1000)
    if k % 2:
        idx[500] = 10**6 + k
    y = np.zeros(1000)
    try:
        gather(np.arange(1000.0), idx, y)
        return bool((y == np.arange(1000)).all())
    except IndexError as error:
        return str(error)

with ThreadPoolExecutor(4) as pool:
    print(json.dumps(list(pool.map(work, range(40)))))
"""
    results = output(python(COMMON + program, APPY_NUM_THREADS="2"))
    expected = [f"index {10**6 + k} is out of bounds for axis 0 with size 1000" if k % 2 else True for k in range(40)]
    assert results == expected


def test_shutdown_while_a_daemon_thread_runs_a_region(python):
    program = """
long_parallel(np.zeros(4), 10)
threading.Thread(target=long_parallel, args=(np.zeros(4), 10**12), daemon=True).start()
threading.Thread(target=long_sequential, args=(np.zeros(8), 10**15), daemon=True).start()
time.sleep(0.2)
print(json.dumps("leaving"))
"""
    result = python(COMMON + program, APPY_NUM_THREADS="3")
    assert output(result) == "leaving" and result.stderr == ""


def test_regions_at_exit(python):
    program = """
import atexit
class Holder:
    def __del__(self):
        right(10, 1.0)
keep = Holder()
atexit.register(lambda: print(json.dumps(right(100_000, 1.0))))
right(100_000, 2.0)
"""
    result = python(COMMON + program, APPY_NUM_THREADS="3")
    assert output(result) is True and "Fatal" not in result.stderr


def test_subinterpreter(python):
    """NumPy and this extension may refuse to load there; the process and the main interpreter live on."""
    program = """
assert right(1000, 2.0)
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters
other = interpreters.create()
text = '''
try:
    import appy, numpy as np
    def f(x):
        #pragma simd
        for i in range(len(x)):
            x[i] += 1
    x = np.zeros(3)
    appy.jit(f)(x)
    assert (x == 1).all()
except ImportError:
    pass
'''
error = None
try:
    error = interpreters.run_string(other, text)
except Exception as e:
    error = repr(e)
interpreters.destroy(other)
print(json.dumps([error and str(error), right(1000, 3.0)]))
"""
    error, right = output(python(COMMON + program))
    assert right and error is None


def test_limits_on_threads(python):
    program = """
if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
print(json.dumps(right(300_000, 2.0)))
"""
    assert output(python(COMMON + program)) is True
    assert output(python(COMMON + "print(json.dumps(right(300_000, 2.0)))", OMP_NUM_THREADS="2")) is True
    for bad in ("0", "-3", "many", ""):
        assert output(python(COMMON + "print(json.dumps(right(300_000, 2.0)))", APPY_NUM_THREADS=bad)) is True


def test_dying_while_the_pool_works(python):
    program = """
long_parallel(np.zeros(4), 10)
threading.Thread(target=long_parallel, args=(np.zeros(4), 10**12), daemon=True).start()
time.sleep(0.1)
sys.stdout.flush()
os._exit(7)
"""
    assert python(COMMON + program, check=False, APPY_NUM_THREADS="3").returncode == 7
