import sys
from pathlib import Path
from types import FunctionType

import pytest

sys.path.insert(0, str(Path(__file__).parent))
ROOT = str(Path(__file__).parents[2])


@pytest.fixture(autouse=True)
def plain_functions():
    """enable() gives loaded functions other code, which disable() leaves there, switched off. Tests that run later
    compare with plain Python."""
    modules = [m for m in list(sys.modules.values()) if (getattr(m, "__file__", None) or "").startswith(ROOT)]
    functions = [f for m in modules for f in list(vars(m).values()) if isinstance(f, FunctionType)]
    before = [(f, f.__code__) for f in functions]
    yield
    for function, code in before:
        if function.__code__ is not code:
            function.__code__ = code
