"""What users get wrong, and the exact words they get back."""

import importlib.util
import textwrap
import warnings

import numpy as np
import pytest

import appy


@pytest.fixture
def load(tmp_path):
    """Imports a module with this text; returns it, or raises as its import does. `load.path` is its file."""

    def run(text):
        run.path.write_text("import math\nimport numpy as np\nimport appy\n" + textwrap.dedent(text))
        spec = importlib.util.spec_from_file_location("subject", run.path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    run.path = tmp_path / "subject.py"
    return run


def warnings_of(function, *args):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            result = function(*args)
        except Exception as error:
            result = error
    rows = [(str(w.message), w.filename, w.lineno) for w in caught if issubclass(w.category, appy.AppyWarning)]
    return rows, result


CLAUSES = (
    "parallel, for, simd, sequential, atomic, shared, private, reduction, collapse, num_threads, schedule, block, le"
)


@pytest.mark.parametrize(
    "text, column, expected",
    [
        ("paralel for", 13, f"one of {CLAUSES}; found 'paralel'"),
        ("parallel for reduction(xor: s)", 36, "a reduction: sum + prod * max min argmax argmin any all & | ^"),
        ("parallel for collapse()", 35, "an integer"),
        ("simd schedule(weird)", 27, "static or dynamic"),
        ("parallel for private(a", 35, "')'"),
        ("parallel for le(n) nonsense", 32, f"one of {CLAUSES}; found 'nonsense'"),
        ("", 13, "a pragma: parallel for, simd, sequential for, atomic or `slice=>property`"),
        (
            "1:N=>foo",
            18,
            "a property: parallel, simd, reduction(op), le, single_block, block(n) or in_reg; found 'foo'",
        ),
    ],
)
def test_malformed_pragma(load, text, column, expected):
    source = f"""
        @appy.jit
        def f(n):
            #pragma {text}
            for i in range(n):
                n += i
            return n
        """
    with pytest.raises(appy.PragmaError) as caught:
        load(source)
    assert str(caught.value) == f"{load.path}, line 7, column {column}: cannot read `{text}`: expected {expected}"
    assert isinstance(caught.value, SyntaxError)


def test_malformed_pragma_that_is_not_decorated(load):
    text = "def f(n):\n    #pragma nonsense\n    for i in range(n):\n        n += i\n    return n\n"
    assert load(text).f(3) == 6


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize(
    "pragma, statement, message",
    [
        (
            "parallel for",
            "while n: n -= 1",
            "is a loop pragma and stands before a statement that is no `for` loop (While)",
        ),
        ("simd", "return n", "is a loop pragma and stands before a statement that is no `for` loop (Return)"),
        ("atomic", "n = 1", "says `atomic` and stands before a statement that updates no array element (Assign)"),
        (":N=>simd", "del n", "is a tensor pragma and stands before a statement that is no assignment (Delete)"),
        ("simd", "# the end", "is not followed by a statement"),
    ],
)
def test_misplaced_pragma(load, pragma, statement, message, strict):
    text = f"@appy.jit(strict={strict})\ndef f(n):\n    k = 1\n    #pragma {pragma}\n    {statement}\n"
    rows, module = warnings_of(load, text)
    path = str(load.path)
    assert rows == [(f"{path}, line 7: the pragma {message}; it has no effect", path, 7)]
    module.f(3)


LOOP = """
    @appy.jit(strict={strict})
    def f(x{more}):
        #pragma {pragma}
        for i in {over}:
            {body}
    """


def refusal(load, args, reason, *, pragma="simd", over="range(len(x))", body="x[i] = x[i] + 1", more="", line=8):
    """Refused with these words: strict raises, else one warning and what Python does. Returns that."""

    def source(strict):
        return LOOP.format(strict=strict, pragma=pragma, over=over, body=body, more=more)

    path = str(load.path)
    message = f"f: the statement at {path}:8 runs in the interpreter: {reason}".replace("FILE", path)
    strict = load(source(True)).f
    with pytest.raises(appy.CompileError) as caught:
        strict(*args)
    assert str(caught.value) == message
    with pytest.raises(appy.CompileError):
        strict(*args)
    load.path = load.path.with_name("relaxed.py")
    path, message = str(load.path), message.replace(path, str(load.path))
    relaxed = load(source(False)).f
    rows, result = warnings_of(relaxed, *args)
    assert rows == [(message, path, line)]
    again, _ = warnings_of(relaxed, *args)
    assert again == []
    assert relaxed.stats()["declined"] == 2 and relaxed.stats()["runs"] == 0
    return result


DTYPE = "the array x has a dtype or a layout without compiled form (FILE:8); use an array of bool, integers, floats or complex numbers; read a field of records by its name"


def test_wrong_rank(load):
    reason = "the subscript with 2 indices of an array of 1 dimensions is not supported (FILE:9); index with integers, slices with constant steps, None, ... or integer arrays"
    error = refusal(load, [np.zeros(3)], reason, body="x[i, 0] = 1.0", line=9)
    assert type(error) is IndexError
    assert str(error) == "too many indices for array: array is 1-dimensional, but 2 were indexed"


def test_zero_dimensional_array(load):
    reason = "the subscript with 1 indices of an array of 0 dimensions is not supported (FILE:9); index with integers, slices with constant steps, None, ... or integer arrays"
    error = refusal(load, [np.array(1.0), 2], reason, over="range(k)", more=", k", line=9)
    assert type(error) is IndexError and str(error).startswith("too many indices for array")


def test_object_array(load):
    x = np.array([1, 2.5, 10**30], object)
    assert refusal(load, [x], DTYPE) is None
    assert x.tolist() == [3, 4.5, 10**30 + 2]  # two calls


@pytest.mark.parametrize("x", [np.array(["a", "b"]), np.zeros(2, "datetime64[s]")], ids=str)
def test_other_arrays(load, x):
    refusal(load, [x], DTYPE)


def test_foreign_byte_order(load):
    reason = "the array x is not in the byte order of this machine (FILE:8); convert it first: `x = x.astype(x.dtype.newbyteorder('='))`"
    x = np.array([1, 2], ">i4")
    assert refusal(load, [x], reason) is None and x.tolist() == [3, 4]  # two calls


def test_a_list(load):
    reason = "the call of len(list) cannot be traced (FILE:8); use a function of math, numpy or builtins, or a plain Python function"
    x = [1, 2]
    assert refusal(load, [x], reason) is None and x == [3, 4]


def test_none_in_place_of_an_array(load):
    reason = "the subscript of a value of type NoneType is not supported (FILE:9); index with integers, slices with constant steps, None, ... or integer arrays"
    error = refusal(load, [None, 3], reason, over="range(k)", more=", k", line=9)
    assert type(error) is TypeError and str(error) == "'NoneType' object is not subscriptable"


def test_a_float_for_a_bound(load):
    reason = (
        "a value of type float cannot be used in compiled code (FILE:8); use NumPy arrays and Python or NumPy scalars"
    )
    error = refusal(load, [np.zeros(3), 2.0], reason, over="range(k)", more=", k")
    assert type(error) is TypeError and str(error) == "'float' object cannot be interpreted as an integer"


def test_a_bound_past_64_bits(load):
    reason = "the integer k does not fit 64 bits (FILE:8); use a smaller integer or a float"
    error = refusal(load, [np.zeros(3), 10**30], reason, over="range(k)", more=", k")
    assert type(error) is IndexError and str(error) == "index 3 is out of bounds for axis 0 with size 3"


def test_read_only_array(load):
    x = np.zeros(3)
    x.flags.writeable = False
    reason = "the array x is read-only and written (FILE:9); make a copy that can be written"
    error = refusal(load, [x], reason, line=9)
    assert type(error) is ValueError and str(error) == "assignment destination is read-only"
    assert (x == 0).all()


def test_an_iterable_that_is_no_range(load):
    reason = "a loop over something else than a range (FILE:8); loop over `range(...)` and subscript"
    assert refusal(load, [np.zeros(3), [1, 2]], reason, over="k", more=", k", body="x[i] = i") is None


def compiled_failure(load, args, **parts):
    """What compiled code raises; the same is raised, with the same arrays, by Python."""
    parts = {"pragma": "sequential for", "more": ", k", "over": "range(k)", **parts}
    module = load(LOOP.format(strict=True, **parts))
    copies = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
    with pytest.raises(Exception) as plain:
        load(textwrap.dedent(LOOP).format(strict=True, **parts).replace("@appy.jit(strict=True)\n", "\n")).f(*copies)
    with pytest.raises(Exception) as caught:
        module.f(*args)
    assert module.f.stats()["compiled"] == 1
    assert type(caught.value) is type(plain.value) and str(caught.value) == str(plain.value)
    for a, b in zip(args, copies):
        np.testing.assert_array_equal(a, b)
    return caught.value


@pytest.mark.parametrize("pragma", ["sequential for", "simd", "parallel for", "parallel for simd"])
def test_index_out_of_range(load, pragma):
    error = compiled_failure(load, [np.zeros(3), 5], body="x[i] = i + 1", pragma=pragma)
    assert type(error) is IndexError and str(error) == "index 3 is out of bounds for axis 0 with size 3"


def test_negative_index_out_of_range(load):
    error = compiled_failure(load, [np.zeros(3), 5], body="x[-i - 1] = i")
    assert str(error) == "index -4 is out of bounds for axis 0 with size 3"


def test_index_array_out_of_range(load):
    index = np.array([0, 2, 1, 7, 0])
    error = compiled_failure(load, [np.zeros(3), index], body="x[k[i]] += i + 1.0", over="range(len(k))")
    assert str(error) == "index 7 is out of bounds for axis 0 with size 3"


def test_int_that_does_not_fit_the_element(load):
    error = compiled_failure(load, [np.zeros(300, np.uint8), 300], body="x[i] = i")
    assert type(error) is OverflowError and str(error) == "Python integer 256 out of bounds for uint8"


@pytest.mark.parametrize(
    "body, message",
    [
        ("x[i] = 1 / (3 - i)", "division by zero"),
        ("x[i] = 1 // (3 - i)", None),
        ("x[i] = 1 % (3 - i)", None),
        ("x[i] = 1.5 // (3 - i)", None),
        ("x[i] = math.log(3 - i)", "math domain error"),
        ("x[i] = math.sqrt(3 - 2 * i)", "math domain error"),
        ("x[i] = i << (2 - i)", "negative shift count"),
        ("x[i] = 0.0 ** (2 - i)", None),
    ],
)
def test_arithmetic_that_fails(load, body, message):
    error = compiled_failure(load, [np.zeros(8), 8], body=body)
    assert type(error) in (ZeroDivisionError, ValueError)
    assert message is None or str(error) == message


def test_notes_name_line_and_iteration(load):
    error = compiled_failure(load, [np.zeros(8), 8], body="x[i] = 1 / (3 - i)")
    assert error.__notes__ == [f"at {load.path}, line 9, iteration 3"]


def test_int_overflow_before_anything_was_written(load):
    module = load(
        """
        @appy.jit(strict=True)
        def f(n):
            s = 1
            #pragma sequential for
            for i in range(n):
                s = s * 3
            return s
        """
    )
    assert module.f(30) == 3**30 and module.f(100) == 3**100
    assert module.f.stats()["runs"] == 1 and module.f.stats()["declined"] == 1


def test_int_overflow_after_stores(load):
    module = load(
        """
        @appy.jit(strict=True)
        def f(x, n):
            s = 1
            #pragma sequential for
            for i in range(n):
                s = s * 3
                x[i] = x[i - 1] + 1
            return s
        """
    )
    x = np.zeros(100)
    with pytest.raises(OverflowError) as caught:
        module.f(x, 100)
    where = f"{load.path}, line 10, iteration 39"
    assert str(caught.value) == (
        f"a Python int left 64 bits at {where}, after compiled code had stored results; use floats or NumPy integers, "
        "or move the statement out of the compiled region"
    )
    assert (x[:39] == np.arange(1, 40)).all() and (x[39:] == 0).all()


NO_SOURCE = "def f(x):\n    #pragma simd\n    for i in range(len(x)):\n        x[i] += 1\n"


def test_missing_source_warns_once_and_runs():
    space = {}
    exec(compile(NO_SOURCE, "<generated 1>", "exec"), space)
    reason = "the source of f (<generated 1>) is not available"
    message = f"<generated 1>, line 1: a statement of f runs in the interpreter: {reason}"
    rows, function = warnings_of(appy.jit, space["f"])
    assert rows == [(message, "<generated 1>", 1)]
    rows, function = warnings_of(appy.jit, space["f"])
    assert rows == []
    x = np.zeros(3)
    function(x)
    assert (x == 1).all() and function.stats()["regions"] == 0


def test_missing_source_of_a_strict_function():
    space = {}
    exec(compile(NO_SOURCE, "<generated 2>", "exec"), space)
    with pytest.raises(appy.CompileError) as caught:
        appy.jit(strict=True)(space["f"])
    reason = "the source of f (<generated 2>) is not available"
    assert str(caught.value) == f"<generated 2>, line 1: a statement of f runs in the interpreter: {reason}"


def test_a_file_that_changed_under_the_module(load):
    module = load("def f(x):\n    #pragma simd\n    for i in range(len(x)):\n        x[i] += 1\n")
    load.path.write_text(load.path.read_text().replace("+= 1", "+= 2"))
    rows, function = warnings_of(appy.jit, module.f)
    path = str(load.path)
    reason = f"{path} does not match the code of f (line 4): it was changed after it was imported; reload the module"
    assert rows == [(f"{path}, line 4: a statement of f runs in the interpreter: {reason}", path, 4)]
    x = np.zeros(3)
    function(x)
    assert (x == 1).all()


@pytest.mark.parametrize(
    "options, error, message",
    [
        ({"stric": True}, TypeError, "appy.jit has no option 'stric'; did you mean 'strict'?"),
        ({"thread": 2}, TypeError, "appy.jit has no option 'thread'; did you mean 'threads'?"),
        ({"threads": -1}, ValueError, "threads must be a number of threads, or 0 or None for all, not -1"),
        ({"threads": True}, ValueError, "threads must be a number of threads, or 0 or None for all, not True"),
        (
            {"backend": "gpu"},
            ValueError,
            "backend must be one of 'auto', 'cpu', 'cuda', 'triton', 'eval', not 'gpu'",
        ),
    ],
)
def test_bad_options(options, error, message):
    with pytest.raises(error) as caught:
        appy.jit(**options)
    assert str(caught.value) == message


@pytest.mark.parametrize("what", [3, "f", len, [], object()], ids=lambda v: type(v).__name__)
def test_things_that_are_no_function(what):
    with pytest.raises(TypeError) as caught:
        appy.jit(what)
    assert str(caught.value) == f"appy.jit takes a function, not {type(what).__name__}"


def test_bad_stages():
    with pytest.raises(ValueError) as caught:
        appy.config(dump="nonsense")
    assert str(caught.value) == "'nonsense' is no stage: bytecode, ir, passes, asm"
    with pytest.raises(TypeError) as caught:
        appy.config(dumb="ir")
    assert str(caught.value) == "appy.config has no option 'dumb'; did you mean 'dump'?"
