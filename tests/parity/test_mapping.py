"""What the items of tensor pragmas make of a statement's loops: order, threads, lanes, tiles; and what they say that is
ignored."""

from __future__ import annotations

import contextlib
import itertools
import linecache
import math
import re
import warnings

import numpy as np
import pytest
from machine import streams

import appy

numbers = itertools.count()


@contextlib.contextmanager
def quiet():
    """No warning of ours. To make them errors would leave the statements to the interpreter."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    assert [str(w.message) for w in caught if issubclass(w.category, appy.AppyWarning)] == []


def made(source: str, **options):
    """The function that the source defines, compiled and plain."""
    path = f"<mapping {next(numbers)}>"
    linecache.cache[path] = (len(source), None, source.splitlines(True), path)
    space = {"np": np, "appy": appy}
    exec(compile(source, path, "exec"), space)
    return appy.jit(strict=True, **options)(space["f"]), space["f"]


def statement(pragma: str, text: str, arguments: str = "A, B", names: str = "M, N = A.shape", **options):
    body = [names, f"# pragma {pragma}", text, "return locals()"]
    return made(f"def f({arguments}):\n" + "".join(f"    {line}\n" for line in body if line), **options)


def nest(function, *args) -> list[str]:
    """The loops of the first region: depth, permissions, bounds as text."""
    text = appy.lower(function, *args).text(optimised=True)
    out = []
    for line in text.splitlines():
        found = re.match(r"( *)(?:.* = )?for (.*?)(%\S+) = .* step (%\S+)(.*) \{", line)
        if found:
            words = [w for w in found[2].split() if w != "annotated"]
            if "threads(1)" in words:  # in any order, by one worker
                words = [w for w in words if w not in ("threads(1)", "parallel")]
            out.append(f"{(len(found[1]) - 2) // 2}: {' '.join(words)}".strip().removesuffix(":"))
    return out


def subscript_of_inner(function, *args) -> list[int]:
    """For each loop around the first store, outermost first, which dimension of the stored array it runs over; not for
    those over groups and strips of them."""
    before = appy.config()["disabled_passes"]
    appy.config(disabled_passes=["flatten"])
    try:
        text = appy.lower(function, *args).text(optimised=True)
    finally:
        appy.config(disabled_passes=before)
    store = re.search(r"store %\d+, %\w+\[(.*)\]", text)
    variables = re.findall(r"for .*?(%\d+) = ", text[: store.start()])
    row = store[1].split(", ")
    return [d for v in variables for d, r in enumerate(row) if re.search(rf"{re.escape(v)}\b", r)]


def matrices(m=13, n=19):
    rng = np.random.default_rng(0)
    return rng.random((m, n)), np.zeros((m, n))


def same(pair, *args, names=("A", "B", "y", "s", "C")):
    compiled, plain = pair
    copies = [[a.copy() if isinstance(a, np.ndarray) else a for a in args] for _ in range(2)]
    got, want = compiled(*copies[0]), plain(*copies[1])
    for name in names:
        if name in want:
            np.testing.assert_allclose(got[name], want[name], rtol=1e-12, atol=1e-12)
    assert compiled.stats()["runs"] >= 1 and compiled.stats()["declined"] == 0


COPY = "B[:M, :N] = A[:M, :N] * 2"


@pytest.mark.parametrize(
    ("pragma", "order", "loops"),
    [
        (":M=>parallel :N=>simd", [0, 1], ["0: parallel", "1: simd"]),
        (":M=>parallel", [0, 1], ["0: parallel", "1: simd"]),
        (":N=>simd", [0, 1], ["0: parallel", "1: simd"]),
        (":M=>parallel :N=>parallel", [0, 1], ["0: parallel", "1: parallel simd"]),
        (":N=>parallel :M=>simd", [1, 0], ["0: parallel", "1: simd"]),
        (":M=>simd :N=>parallel", [1, 0], ["0: parallel", "1: simd"]),
        (":M=>le(13) :N=>simd", [0, 1], ["0: le(13)", "1: simd"]),
        ("1=>simd 0=>parallel", [0, 1], ["0: parallel", "1: simd"]),
        ("0=>simd", [1, 0], ["0: parallel", "1: simd"]),
        ("1=>parallel,le(64)", [0, 1], ["0: parallel", "1: simd le(64)"]),
        (":M=>single_block :N=>single_block", [0, 1], ["0", "1: simd"]),
    ],
)
def test_order_threads_and_lanes(pragma, order, loops):
    pair = statement(pragma, COPY)
    assert subscript_of_inner(pair[0], *matrices()) == order
    assert nest(pair[0], *matrices()) == loops
    same(pair, *matrices())


@pytest.mark.parametrize(
    ("pragma", "order", "loops"),
    [
        (":N=>parallel :M=>le", [1, 0], ["0: parallel", "1"]),
        (":M=>parallel :N=>parallel", [0, 1], ["0: parallel", "1: parallel"]),
        (":M=>parallel :N=>simd", [0, 1], ["0: parallel", "1: simd"]),
        (":N=>block(4)", [0, 1], ["0: parallel", "1"]),
    ],
)
@pytest.mark.parametrize("name", ["auto_simd", "auto_block"])
def test_without_auto_simd_lanes_are_where_an_item_says_so(pragma, order, loops, name):
    pair = statement(pragma, COPY, **{name: False})
    assert subscript_of_inner(pair[0], *matrices()) == order
    assert nest(pair[0], *matrices()) == loops
    same(pair, *matrices())


@appy.jit(strict=True, auto_simd=False)
def rows(A, B):
    # pragma parallel for
    for i in range(A.shape[0]):
        B[i, :] = A[i, :] + 1
    # pragma 0=>parallel
    s = np.sum(A, axis=1)
    return s


def test_auto_simd_speaks_of_statements_without_a_pragma_and_of_reductions_too():
    A, B = matrices()
    assert not re.search(r"\bsimd\b", appy.lower(rows, A, B).text(optimised=True))
    np.testing.assert_allclose(rows(A, B), A.sum(axis=1))


THREE = "B[1:K-1, 1:M-1, 1:N-1] = A[:K-2, 1:M-1, 1:N-1] + A[2:K, 1:M-1, 2:N]"


@pytest.mark.parametrize(
    ("pragma", "order"),
    [
        ("1:M-1=>parallel 1:K-1=>parallel 1:N-1=>simd", [1, 0, 2]),
        ("1:M-1=>parallel 1:K-1=>parallel", [1, 0, 2]),
        ("1:K-1=>parallel 1:M-1=>parallel 1:N-1=>simd", [0, 1, 2]),
        ("1:N-1=>parallel 1:M-1=>simd", [0, 2, 1]),
        (":K-2=>simd", [1, 2, 0]),
        ("2:N=>parallel 1:M-1=>parallel 0:K-2=>simd", [2, 1, 0]),
        (" 1 : M - 1 => parallel , le(20)  1:K-1=>parallel ", [1, 0, 2]),
    ],
)
def test_items_name_dimensions_by_the_text_of_any_slice(pragma, order):
    pair = statement(pragma, THREE, names="K, M, N = A.shape")
    A = np.random.default_rng(0).random((7, 8, 9))
    with quiet():
        assert subscript_of_inner(pair[0], A, A.copy()) == order
        same(pair, A, A.copy())


@pytest.mark.parametrize(
    "bound",
    [
        "N - 2",
        "N-2",
        "-2+N",
        "N + k",
        "k + N",
        "0x7",
        "N*1-2",
        "True*N - 2",
        "wide - 2",
        "huge - over",
    ],
)
def test_a_bound_is_what_python_says_it_is(bound):
    names = "N, k, wide = A.shape[0], -2, np.int64(A.shape[0])\n    huge, over = 1 << 70, (1 << 70) - 7"
    pair = statement(f":{bound}=>simd", "B[:N - 2] = A[:N - 2] + 1", names=names)
    with quiet():
        same(pair, np.arange(9.0), np.arange(9.0))


def test_equal_texts_name_one_dimension_each():
    pair = statement(":N=>parallel :N=>simd", "B[:N, :N] = A[:N, :N].T + 1", names="N = A.shape[0]")
    A = np.arange(81, dtype=np.int16).reshape(9, 9)  # of larger elements several rows are read together
    assert subscript_of_inner(pair[0], A, A.copy()) == [0, 1]
    assert nest(pair[0], A, A.copy()) == ["0: parallel", "1: simd"]
    A = np.random.default_rng(0).random((9, 9))
    pair = statement(":N=>simd", "B[:N, :N] = A[:N, :N] + 1", names="N = A.shape[0]")
    assert subscript_of_inner(pair[0], A, A.copy()) == [1, 0]


def test_a_whole_array_is_named_by_its_extents():
    for pragma, order in ((":M=>simd", [1, 0]), ("M=>simd", [1, 0]), (":N=>simd", [0, 1]), ("0:M+0=>simd", [1, 0])):
        pair = statement(pragma, "B[:] = A + 1")
        assert subscript_of_inner(pair[0], *matrices()) == order
        same(pair, *matrices())
    # Equal extents: in order, reductions to what disappears.
    A = np.random.default_rng(0).random((9, 9))
    pair = statement(":M=>simd :N=>parallel", "B[:] = A + 1")
    assert subscript_of_inner(pair[0], A, A.copy()) == [1, 0]
    pair = statement(":M=>parallel :N=>reduce(sum)", "y = A @ x", "A, x")
    with quiet():
        same(pair, A, np.ones(9))


def test_matrix_and_vector():
    # Rows run together, as many as there are streams of memory or as `in_reg` says, and what is left of them one by one.
    groups = math.ceil(13 / streams())
    loops = {
        ":M=>parallel :N=>reduce(sum)": 2 * ["0: parallel", "1: simd"],
        ":N=>reduction(sum:y) :M=>parallel": 2 * ["0: parallel", "1: simd"],
        ":M=>le(13) :N=>reduce(sum)": [f"0: le({groups})", "1: simd", "0: le(13)", "1: simd"],
        ":M=>simd :N=>reduce(sum)": ["0: simd", "1"],
        ":M=>parallel,simd": ["0: parallel simd", "1"],
        ":M=>parallel,in_reg :N=>reduce(sum)": 2 * ["0: parallel", "1: simd"],
        ":M=>parallel,block(2),in_reg :N=>reduce(sum)": 2 * ["0: parallel", "1: simd"],
        ":M=>parallel :N=>reduce(sum),le(64)": 2 * ["0: parallel", "1: simd le(64)"],
    }
    for pragma, want in loops.items():
        pair = statement(pragma, "y[:M] = A[:M, :N] @ x[:N]", "A, x, y")
        args = matrices()[0], np.arange(19.0), np.zeros(13)
        with quiet():
            assert nest(pair[0], *args) == want, pragma
            same(pair, *args)


def test_in_reg_loads_a_vector_once_for_several_rows():
    pair = statement(":M=>parallel,in_reg :N=>reduce(sum)", "y[:M] = A[:M, :N] @ x[:N]", "A, x, y")
    args = matrices()[0], np.arange(19.0), np.zeros(13)
    text = appy.lower(pair[0], *args).text(optimised=True)
    main = text[text.index("for parallel") : text.rindex("for parallel")]
    assert main.count("load %A") == 4 and main.count("load %x") == 1 and main.count("store") == 4
    for m in range(10):
        same(pair, np.ones((m, 5)), np.arange(5.0), np.zeros(m))


def test_in_reg_keeps_sums_of_columns_in_registers():
    for pragma, text in ((":N=>parallel,in_reg :M=>reduce(sum)", "s[:N] = np.sum(A[:M, :N], axis=0)"),):
        pair = statement(pragma, text, "A, s")
        args = matrices()[0], np.zeros(19)
        assert nest(pair[0], *args) == ["0: parallel simd", "1"]
        assert "alloc" not in appy.lower(pair[0], *args).text(optimised=True)
        same(pair, *args)


def test_block_of_columns_of_a_product():
    pair = statement(
        ":M=>parallel :N=>simd,block(8) :K=>reduce(sum)",
        "C[:M, :N] = A[:M, :K] @ B[:K, :N]",
        "A, B, C",
        "(M, K), N = A.shape, B.shape[1]",
    )
    rng = np.random.default_rng(0)
    for m, k, n in ((5, 6, 7), (3, 4, 8), (2, 9, 33), (0, 3, 4), (3, 0, 4)):
        same(pair, rng.random((m, k)), rng.random((k, n)), np.zeros((m, n)))
    assert "const 8 : i64" in appy.lower(pair[0], rng.random((5, 6)), rng.random((6, 40)), np.zeros((5, 40))).text()


def test_tiles():
    pair = statement(":M=>parallel,block(4) :N=>block(8)", "B[:M, :N] = A[:N, :M].T + 1", names="N, M = A.shape")
    A = np.random.default_rng(0).random((19, 13))
    assert nest(pair[0], A, A.T.copy()) == ["0: parallel", "1", "2", "3: simd"]
    for n, m in itertools.product((0, 1, 4, 7, 8, 9, 17), repeat=2):
        same(pair, np.random.default_rng(1).random((n, m)), np.zeros((m, n)))
    # One loop over tiles right around its elements would be one loop: threads take so many iterations at a time.
    pair = statement(":M=>parallel,block(4)", COPY)
    text = appy.lower(pair[0], *matrices()).text(optimised=True)
    assert "for parallel annotated schedule(automatic, 4)" in text
    same(pair, *matrices())
    # Lanes that are divided between threads, inside a loop that is not: threads take columns.
    pair = statement(":N=>parallel :M=>le(13)", COPY)
    assert nest(pair[0], *matrices()) == ["0: parallel", "1: le(13)", "2: simd"]
    same(pair, *matrices())
    same(pair, *matrices(3, 2050))


@appy.jit(strict=True)
def agreeing(A, B, C):
    M, N = A.shape
    # pragma :N=>parallel :M=>simd
    t = A + 1
    # pragma :N=>parallel :M=>simd
    C[:] = t * 2


def test_neighbours_with_equal_items_are_one_nest():
    A, B = matrices()
    wider = np.zeros((A.shape[0], A.shape[1] + 1))[:, :-1]
    assert nest(agreeing, A, B, wider) == ["0: parallel", "1: simd"]
    C = B.copy()
    # Whole arrays are gone through as they lie in memory.
    assert nest(agreeing, A, B, C) == ["0: parallel simd"]
    for out in (wider, C):
        agreeing(A, B, out)
        np.testing.assert_array_equal(out, (A + 1) * 2)


@pytest.mark.parametrize(
    ("pragma", "message"),
    [
        (":K=>parallel", "`:K=>parallel` names no dimension of the statement and is ignored; its dimensions are 0 (`:M`) and 1 (`:N`)"),
        ("7=>simd", "`7=>simd` names no dimension"),
        ("2:M=>simd :N=>parallel", "`2:M=>simd` names no dimension"),
        (":M=>reduction(sum)", "`:M=>reduction(sum)` says `reduction(sum)`, which is ignored: the dimension stays in the result"),
        (":N=>block(N - 100)", "block(N - 100) is ignored: it is no positive integer at entry"),
        (":N=>le(nowhere)", "le(nowhere) is ignored"),
    ],
)  # fmt: skip
def test_items_that_say_nothing_true_are_one_warning(pragma, message):
    pair = statement(pragma, COPY)
    with pytest.warns(appy.AppyWarning, match=re.escape(message)) as caught:
        same(pair, *matrices())
        same(pair, *matrices(3, 4))
    ours = [w for w in caught if issubclass(w.category, appy.AppyWarning)]
    assert len(ours) == 1 and ours[0].filename.startswith("<mapping") and ours[0].lineno == 3


@pytest.mark.parametrize(
    ("text", "item", "message"),
    [
        ("s = np.max(A[:M, :N], axis=1)", ":N=>reduction(sum)", "the statement reduces with max"),
        ("s = np.sum(A[:M, :N], axis=1)", ":N=>reduction(max)", "the statement reduces with sum"),
        ("s = np.sum(A[:M, :N], axis=1)", ":N=>reduction(sum:t)", "names t, which the statement does not assign"),
        ("s = np.argmax(A[:M, :N], axis=1)", ":N=>reduction(min)", "the statement reduces with argmax"),
        ("s = np.sum(A[:M, :N])", ":N=>reduction(sum:s)", None),
        ("s = np.mean(A[:M, :N], axis=0)", ":M=>reduce(sum)", None),
        ("s = np.argmax(A[:M, :N], axis=1)", ":N=>reduction(max)", None),
        ("s = np.argmin(A[:M, :N])", ":N=>simd,reduction(argmin) :M=>reduction(argmin),parallel", None),
        ("s = np.all(A[:M, :N] > 0, axis=1)", ":N=>reduction(all)", None),
    ],
)
def test_reductions_are_compared_with_what_the_statement_does(text, item, message):
    pair = statement(item, text)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        same(pair, *matrices())
    said = [str(w.message) for w in caught if issubclass(w.category, appy.AppyWarning)]
    assert [message in s for s in said] == ([True] if message else []), said


HEAT = "B[1:-1, 1:-1, 1:-1] = A[2:, 1:-1, 1:-1] - 2.0 * A[1:-1, 1:-1, 1:-1] + A[:-2, 1:-1, 1:-1]"
HEAT_IN_FULL = "B[1:K-1, 1:M-1, 1:N-1] = A[2:K, 1:M-1, 1:N-1] - A[:K-2, 1:M-1, 1:N-1]"
DIMS = {"A": ("K", "M", "N"), "B": ("K", "M", "N")}


@pytest.mark.parametrize(
    ("pragma", "text", "order"),
    [
        ("1:M-1=>parallel 1:K-1=>parallel 1:N-1=>simd", HEAT, [1, 0, 2]),
        ("1:-1=>parallel 1:-1=>parallel 1:-1=>simd", HEAT, [0, 1, 2]),
        ("1:-1=>simd", HEAT_IN_FULL, [1, 2, 0]),
        ("M=>simd", HEAT, [0, 2, 1]),
        ("2:K=>simd", HEAT, [1, 2, 0]),
        (":M=>simd", "B[:] = A + 1", [0, 2, 1]),
        ("K=>simd :N=>parallel", "B[:] = A + 1", [1, 2, 0]),
        (":M=>simd", "B[...] = A[:, :]", [0, 2, 1]),
        (":N=>parallel :M=>simd", "B[0:4] = A[0:4]", [0, 2, 1]),
    ],
)
def test_dim_info_names_dimensions(pragma, text, order):
    names = "K, M, N = A.shape" if "M-1" in text else ""
    pair = statement(pragma, text, names=names, dim_info=DIMS)
    A = np.random.default_rng(0).random((7, 7, 7))
    with quiet():
        assert subscript_of_inner(pair[0], A, A.copy()) == order
        same(pair, A, A.copy())


def test_a_name_of_dim_info_is_an_extent_in_arguments():
    pair = statement("0=>parallel,block(M) 1=>le(N)", "B[:] = A + 1", names="", dim_info={"A": ["M", "N"]})
    text = appy.lower(pair[0], *matrices()).text(optimised=True)
    assert "schedule(automatic, 13)" in text and "le(19)" in text


@pytest.mark.parametrize(
    ("dim_info", "error"), [([], TypeError), ({"A": 3}, ValueError), ({"A": ("M", 2)}, ValueError), ({1: ("M",)}, ValueError)]
)  # fmt: skip
def test_dim_info_is_checked(dim_info, error):
    with pytest.raises(error, match="dim_info"):
        appy.jit(dim_info=dim_info)


@appy.jit(strict=True)
def by_label(out, data, labels):
    N, n = data.shape
    # pragma parallel for
    for i in range(N):
        k = labels[i]
        # pragma atomic :n=>le(128)
        out[k, :n] += data[i, :n]


def test_items_of_slice_atomics():
    rng = np.random.default_rng(0)
    data, labels = rng.random((50, 20)), rng.integers(0, 4, 50)
    out, want = np.zeros((4, 20)), np.zeros((4, 20))
    assert any("le(128)" in line for line in nest(by_label, out, data, labels))
    by_label(out, data, labels)
    np.add.at(want, labels, data)
    np.testing.assert_allclose(out, want)


MV = "y[:M] = appy.mv(A[:M, :N], x[:N])"
# Pragmas as the paper, the thesis and APPy's own examples and tests write them.
DIALECTS = [
    ("#pragma :M=>parallel :N=>reduce(sum)", MV, 2 * ["parallel", "simd"]),
    ("#pragma :M=>parallel :N=>reduction(sum:y)", MV, 2 * ["parallel", "simd"]),
    ("#pragma :M=>parallel", MV, 2 * ["parallel", "parallel simd"]),
    ("#pragma :M=>parallel,block(2) :N=>reduce(sum:y)", MV, ["parallel schedule(automatic, 2)", "simd"]),
    ("#pragma :M=>block(2), reduce(sum) :N=>block", "y[:N] = appy.sum(A[:M, :N], axis=0)", None),
    ("#pragma 1:M-1=>parallel 1:N-1=>parallel", "B[1:M-1, 1:N-1] = 0.2 * (A[1:M-1, 1:N-1] + A[1:M-1, :N-2])", ["parallel", "parallel simd"]),
    ("# pragma 1:M-1=>parallel 1:N-1=>parallel", "B[1:M-1, 1:N-1] = 0.2 * (A[1:M-1, 1:N-1] + A[1:M-1, :N-2])", ["parallel", "parallel simd"]),
    ("#pragma :N=>parallel,block(BN)", "x[:N] = x[:N] + x[:N]", ["parallel simd schedule(automatic, 4)"]),
    ("#pragma :N=>parallel,reduce(sum:s)", "s = appy.sum(x[:N])", ["parallel simd"]),
    ("#pragma :N=>reduce(sum:s)", "s = appy.sum(x[:N])", ["simd"]),
    ("#pragma :N=>reduce(max:s)", "s = appy.max(x[:N])", ["simd"]),
    ("#pragma :N=>block,reduce(max:s,+:t)", "s, t = np.max(x[:N]), np.sum(x[:N])", ["simd"]),
    ("#pragma :M=>parallel :N=>block(BN),simd", COPY, ["parallel", "simd"]),
    ("#pragma :M=>parallel :N=>single_block", COPY, ["parallel", "simd"]),
    ("#pragma :M=>parallel,in_reg :N=>block", COPY, ["parallel", "simd"]),
]  # fmt: skip


@pytest.mark.parametrize(("pragma", "text", "loops"), DIALECTS)
@pytest.mark.parametrize("option", [{}, {"auto_simd": True}, {"auto_block": True}])
def test_dialects(pragma, text, loops, option):
    source = f"def f(A, B, x, y, BN=4):\n    M, N = A.shape\n    {pragma}\n    {text}\n    return locals()\n"
    compiled, plain = made(source, **option)
    A, B = matrices(19, 19)
    args = A, B, np.arange(19.0), np.zeros(19)
    with quiet():
        if loops is not None:
            got = [re.sub(r"^\d+:? ?", "", line) for line in nest(compiled, *args)]
            assert got == loops
        same((compiled, plain), *args, names=("B", "x", "y", "s", "t"))
