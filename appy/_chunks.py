"""Guesses the text of one top-level statement without parsing the whole file. Whoever uses a guess has to prove it."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from types import CodeType

# Lines that cannot start a top-level statement, unless they stand in a string.
_CONTINUES = re.compile(r"[\s#)\]}]|(?:elif|else|except|finally)\b")
_DEFINES = re.compile(r"(?:async|def|class)\b")
_IMPORT = re.compile(r"^(?:import|from)[ \t](?:[^\n(\\]|\\\n)*(?:\([^)]*\))?", re.MULTILINE)


def statement_around(lines: Sequence[str], code: CodeType) -> tuple[int, int] | None:
    """The lines ``[start, end)``, counting from 0, of the top-level statement that seems to hold a function."""
    start = code.co_firstlineno - 1
    last = max((line for _, _, line in code.co_lines() if line is not None), default=start + 1)
    if not start < last <= len(lines):
        return None
    while start >= 0 and _CONTINUES.match(lines[start]):
        start -= 1
    if start < 0:
        return None
    end = start + 1
    decorated = lines[start].startswith("@")
    while end < len(lines) and (decorated or _CONTINUES.match(lines[end])):
        decorated = decorated and not _DEFINES.match(lines[end])
        end += 1
    return (start, end) if last <= end else None


def imports_of(text: str) -> list[ast.stmt] | None:
    """The import statements that start in the first column, or None where something only looks like one."""
    try:
        tree = ast.parse("\n".join(found.group() for found in _IMPORT.finditer(text)))
    except SyntaxError:
        return None
    return [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
