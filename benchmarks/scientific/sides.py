"""The sides of the suite on the CPU. `SIDES[name](folder).versions(kernel)` gives what makes each version that the side has.

A side takes arguments to where it computes (`given`), brings results back (`host`), and waits for what it has started
(`wait`). One that is `functional` returns what others write into their arguments, before what others return.

Each version is of a kind. `written`: the definition, statement by statement, as NPBench has it for the side.
`rewritten`: restructured by hand for the side. `library`: a call that is the kernel, or most of it.
"""

from __future__ import annotations

import ast
import hashlib
import importlib
import importlib.util
import inspect
import os
import re
import subprocess
import sys
import time
import types
import warnings
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from pathlib import Path

import numpy as np

from scientific import reference

KINDS = ("written", "rewritten", "library")


def rebound(module, made=lambda function: function, **names) -> dict[str, Callable]:
    """A module's functions with other objects for some of the names that they use, and passed through `made`."""
    scope = {**vars(module), **names}
    functions = {key: f for key, f in vars(module).items() if isinstance(f, types.FunctionType)}
    scope.update({key: made(types.FunctionType(f.__code__, scope, key)) for key, f in functions.items()})
    return {key: scope[key] for key in functions}


class Plain:
    """On NumPy arrays."""

    functional = False
    kinds = {"default": "written"}  # of versions that are neither rewritten nor called library
    module = ""  # that holds its versions, as functions of the kernels' names; `<kernel>_<version>` are further ones
    compiled_before = 0.0  # seconds that compiling the latest version took in an earlier run

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def about(self) -> dict[str, str]:
        return {}

    def versions(self, name: str) -> dict[str, Callable[[], Callable | None]]:
        return {key: partial(self.compiled, function) for key, function in self.found(name).items()}

    def kind(self, version: str) -> str:
        return "library" if version.startswith("library") else self.kinds.get(version, "rewritten")

    def found(self, name: str) -> dict[str, Callable]:
        """The versions in the side's module."""
        module = importlib.import_module(f"scientific.{self.module}")
        found = {}
        for attribute, function in vars(module).items():
            if attribute == name:
                found["default"] = function
            elif attribute.startswith(f"{name}_") and callable(function):
                found[attribute.removeprefix(f"{name}_")] = function
        return found

    def compiled(self, function: Callable) -> Callable | None:
        return function

    def given(self, arguments: tuple) -> tuple:
        return arguments

    def host(self, array):
        return array

    def copy(self, array):
        return array.copy()

    def refill(self, array, content) -> None:
        array[...] = content

    def wait(self, result) -> None:
        pass

    def forget(self) -> None:
        pass


class NumPy(Plain):
    """The definition, and other forms of it."""

    module = "numpy_versions"

    def found(self, name):
        return {"default": getattr(reference, name), **super().found(name)}


class Library(Plain):
    """Calls of BLAS, LAPACK and SciPy that are the whole kernel."""

    module = "library_versions"
    kinds = {"default": "library"}


class Appy(Plain):
    """Both models."""

    kinds = dict.fromkeys(("arrays", "loops"), "own")

    def versions(self, name):
        import appy

        made = {}
        for model in ("arrays", "loops"):
            module = importlib.import_module(f"scientific.appy_{model}")
            options = getattr(module, "OPTIONS", {}).get(name, {})
            made[model] = partial(appy.jit(strict=True, **options), getattr(module, name))
        return made


class Numba(Plain):
    """The definition in the three ways in which NPBench compiles it, and loops as one writes them for Numba."""

    module = "numba_versions"
    kinds = dict.fromkeys(("serial", "parallel", "prange"), "written")

    def __init__(self, folder):
        super().__init__(folder)
        from numba.core.errors import NumbaPerformanceWarning

        warnings.simplefilter("ignore", NumbaPerformanceWarning)  # of products of slices that are not contiguous

    def versions(self, name):
        import numba

        from scientific import numba_statements

        serial, parallel = numba.njit(fastmath=True), numba.njit(fastmath=True, parallel=True)
        text = f"{name}_parallel" if hasattr(numba_statements, f"{name}_parallel") else name
        made = {
            "serial": rebound(numba_statements, serial, prange=range)[name],
            "parallel": rebound(numba_statements, parallel, prange=range)[text],
        }
        if "prange" in getattr(numba_statements, name).__code__.co_names:
            made["prange"] = rebound(numba_statements, parallel)[text]
        loops = {"loops" if key == "default" else key: function for key, function in self.found(name).items()}
        return {key: partial(self.compiled, function) for key, function in (made | loops).items()}


class Pythran(Plain):
    """The NumPy definition, and Numba's loops with OpenMP's comments, compiled ahead of time."""

    flags = ("-O3", "-march=native", "-ffast-math", "-fopenmp", "-DUSE_XSIMD")
    kinds = {"statements": "written"}

    def versions(self, name):
        return {form: partial(self.built, name, form) for form in ("statements", "loops")}

    def text(self, name: str, form: str) -> str:
        if form == "statements":
            from scientific import pythran_statements

            module = pythran_statements if hasattr(pythran_statements, name) else reference
            return "import numpy as np\n\n" + text_with_helpers(inspect.getsource(module), name)
        source = (Path(__file__).parent / "numba_versions.py").read_text()
        loops = "import math\nimport numpy as np\n\n" + text_with_helpers(source, name)
        return re.sub(r"^( *)(for .*)prange\(", r"\1#omp parallel for\n\1\2range(", loops, flags=re.MULTILINE)

    def built(self, name: str, form: str):
        from scientific.kernels import KERNELS

        types = ", ".join(pythran_type(value) for value in KERNELS[name].arguments("tiny"))
        text = f"#pythran export {name}({types})\n{self.text(name, form)}"
        key = hashlib.sha256(f"{text} {self.flags} {sys.version} {version('pythran')}".encode()).hexdigest()[:16]
        stem = f"pythran_{name}_{form}_{key}"
        source, library, took = (cache() / f"{stem}{suffix}" for suffix in (".py", ".so", ".seconds"))
        if not took.exists():
            source.write_text(text)
            command = [sys.executable, "-m", "pythran.run", str(source), "-o", str(library), *self.flags]
            _, self.compiled_before = once(partial(subprocess.run, command, capture_output=True), took)
        else:
            self.compiled_before = float(took.read_text())
        if not library.exists():
            return None
        spec = importlib.util.spec_from_file_location(stem, library)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return getattr(module, name)


def cache() -> Path:
    """Where ahead-of-time compilers' results are kept, with the seconds that they took."""
    folder = Path(os.environ.get("APPY_BENCHMARK_CACHE") or Path.home() / ".cache" / "appy-benchmarks")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def once(call: Callable, took: Path) -> tuple:
    """Its result, and the seconds that it took in an earlier run: 0 in this one. `took` keeps them."""
    start = time.perf_counter()
    result = call()
    if took.exists():
        return result, float(took.read_text())
    took.write_text(str(time.perf_counter() - start))
    return result, 0.0


def text_with_helpers(source: str, name: str) -> str:
    """A function's text, after those of the functions that it calls, without decorators."""
    nodes = {node.name: node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)}
    called = [n.id for n in ast.walk(nodes[name]) if isinstance(n, ast.Name) and n.id in nodes]
    return "\n\n\n".join(ast.get_source_segment(source, nodes[n]) for n in dict.fromkeys([*called, name])) + "\n"


def pythran_type(value) -> str:
    if isinstance(value, np.ndarray):
        return f"{value.dtype}[{','.join(':' * value.ndim)}]"
    return "int" if isinstance(value, int) else "float64"


class Dace(Plain):
    """Programs as DaCe's documentation writes them, optimised by its `auto_optimize`."""

    module = "dace_versions"

    def versions(self, name):
        return {version: partial(self.built, program, name) for version, program in self.found(name).items()}

    def given(self, arguments):
        """Its programs take no views."""
        return tuple(a.copy() if isinstance(a, np.ndarray) and a.base is not None else a for a in arguments)

    def built(self, program, name):
        import dace
        from dace.dtypes import DeviceType
        from dace.transformation.auto.auto_optimize import auto_optimize

        dace.Config.set("compiler", "use_cache", value=True)
        graph = auto_optimize(program.to_sdfg(simplify=True), DeviceType.CPU)
        key = hashlib.sha256(f"{inspect.getsource(program.f)} {sys.version} {dace.__version__}".encode()).hexdigest()[
            :16
        ]
        folder = cache() / f"dace_{name}_{key}"
        graph.build_folder = str(folder)
        compiled, self.compiled_before = once(graph.compile, folder.with_suffix(".seconds"))
        taken = set(program.f.__code__.co_varnames[: program.f.__code__.co_argcount])
        order = [n if n in taken else None for n in inspect.signature(getattr(reference, name)).parameters]
        extents = importlib.import_module(f"scientific.{self.module}").EXTENTS[name]
        free = {str(symbol) for symbol in graph.free_symbols}

        sizes = {}

        def call(*arguments):
            now = {key: value for key, value in extents(*arguments).items() if key in free}
            if sizes and sizes != now:
                compiled.finalize()  # its temporaries have the sizes of the first call
            sizes.update(now)
            return compiled(**{key: value for key, value in zip(order, arguments) if key}, **now)

        return call


class Jax(Plain):
    """Functions of arrays; 64-bit floats are switched on."""

    functional = True
    module = "jax_versions"
    kinds = {"default": "written", "diagonal": "written"}

    def __init__(self, folder):
        super().__init__(folder)
        import jax

        jax.config.update("jax_enable_x64", True)
        self.jax = jax

    def about(self):
        return {"jax_backend": self.jax.default_backend()}

    def given(self, arguments):
        return tuple(self.jax.device_put(a) if isinstance(a, np.ndarray) else a for a in arguments)

    def host(self, array):
        return np.asarray(array)

    def wait(self, result):
        if result is not None:
            self.jax.block_until_ready(result)


SIDES = {
    "appy": Appy, "numpy": NumPy, "library": Library, "numba": Numba, "pythran": Pythran, "dace": Dace, "jax": Jax,
}  # fmt: skip
ON = {
    "cpu": ("appy", "numpy", "numba", "pythran", "dace", "jax", "library"),
    "cuda": ("appy", "cupy", "jax", "torch", "triton", "library"),
}
NEEDS = {("cpu", "library"): "scipy", ("cuda", "library"): "cupy"}  # the package, where it is not the side's name


def installed(side: str, device: str) -> bool:
    return side == "appy" or importlib.util.find_spec(NEEDS.get((device, side), side)) is not None


def create(side: str, device: str, folder: Path) -> Plain:
    if device == "cpu":
        return SIDES[side](folder)
    from scientific import device_sides

    return device_sides.SIDES[side](folder)
