"""Warnings, each said once, at the line of the user's file that they speak of."""

from __future__ import annotations

import warnings

from ._errors import AppyWarning, CompileError

_said: set[tuple[str, str, int]] = set()


def warn(message: str, file: str, line: int, kind: str = "fallback") -> None:
    """Called by the compiler too; ``kind`` is fallback, remark or notice, and all are said in the same way."""
    row = (message, file, line)
    if row in _said:
        return
    _said.add(row)
    warnings.warn_explicit(message, AppyWarning, file or "appy", line or 1)


def warn_fallback(file: str, line: int, name: str, reason: str, strict: bool = False) -> None:
    """A statement stays in the interpreter: a warning, or a `CompileError` of strict functions."""
    message = f"{file}, line {line}: a statement of {name} runs in the interpreter: {reason}"
    if strict:
        raise CompileError(message)
    warn(message, file, line)
