"""appy as a framework of NPBench's runner: copied into npbench/infrastructure/, see README.md.

The kernels are those of this repository's benchmarks/scientific/, both models of each; APPY_BENCHMARKS says where that is
when this file is not in it.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from npbench.infrastructure import Benchmark, Framework

KERNELS = Path(os.environ.get("APPY_BENCHMARKS") or Path(__file__).resolve().parent.parent)


class AppyJitFramework(Framework):
    """Compiles both versions of a benchmark under `strict`, so that none is timed in the interpreter unseen."""

    def version(self) -> str:
        import appy

        return appy.__version__

    @property
    def on_device(self) -> bool:
        return self.info["arch"] == "gpu"

    def imports(self) -> dict[str, Any]:
        if not self.on_device:
            return {}
        import cupy

        import appy

        appy.tensorlib = cupy
        return {"cupy": cupy}

    def copy_func(self) -> Callable:
        if not self.on_device:
            return super().copy_func()
        import cupy

        return cupy.array

    def copy_back_func(self) -> Callable:
        if not self.on_device:
            return super().copy_back_func()
        import cupy

        return cupy.asnumpy

    def impl_files(self, bench: Benchmark) -> Sequence[tuple[Path, str]]:
        return [(KERNELS / "scientific" / f"appy_{model}.py", model) for model in ("arrays", "loops")]

    def implementations(self, bench: Benchmark) -> Sequence[tuple[Callable, str]]:
        import appy

        if str(KERNELS) not in sys.path:
            sys.path.append(str(KERNELS))
        found = []
        for model in ("arrays", "loops"):
            module = importlib.import_module(f"scientific.appy_{model}")
            function = getattr(module, bench.info["module_name"], None)
            if function is not None:
                options = getattr(module, "OPTIONS", {}).get(bench.info["module_name"], {})
                found.append((appy.jit(strict=True, **options)(function), model))
        if not found:
            raise ValueError(f"there is no version of {bench.info['module_name']} for appy")
        return found

    def setup_str(self, bench: Benchmark, impl: Callable | None = None) -> str:
        return self.synchronised(super().setup_str(bench, impl))

    def exec_str(self, bench: Benchmark, impl: Callable | None = None) -> str:
        return self.synchronised(super().exec_str(bench, impl))

    def synchronised(self, statement: str) -> str:
        """The statement, and on a device the wait for what it started."""
        return f"{statement}; cupy.cuda.get_current_stream().synchronize()" if self.on_device else statement
