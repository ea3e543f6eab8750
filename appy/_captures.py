"""Statements that run as one: neighbours of annotated statements, and the loops around them.

A region on a device is a launch, and a scalar that one computes and the next reads is waited for. So what follows each
other in a block is one region too, with the assignments between, and so is a loop that holds nothing else. On the CPU
such a loop is one region where that lets it go over its arrays fewer times.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple


class Capture(NamedTuple):
    """A ``loop`` over ``range``, or a ``run`` of statements, the first of which begins at `line`, the last at `last_line`.

    A loop `repeats` if nothing that it assigns to is subscripted by its variable: it goes over the same elements again and
    again. Columns count UTF-8 bytes. `iter_line` and `iter_column` are the position of a loop's iterable; a run has its first
    statement's.
    """

    kind: str
    line: int
    last_line: int
    end_line: int
    iter_line: int
    iter_column: int
    repeats: bool = False


def captures_in(body: list[ast.stmt], annotated: set[ast.stmt]) -> Iterator[Capture]:
    """Those in the statements of one scope, outer ones before what they hold."""
    run: list[ast.stmt] = []  # from the first to the last statement that is more than an assignment
    waiting: list[ast.stmt] = []
    for statement in [*body, None]:
        if statement is not None and (statement in annotated or _is_loop(statement, annotated)):
            run += [*waiting, statement]
            waiting = []
        elif statement is not None and run and _assigns_names(statement):
            waiting.append(statement)
        else:
            yield from _run(run, annotated)
            run, waiting = [], []
            if statement is not None:
                yield from _inside(statement, annotated)


def _run(run: list[ast.stmt], annotated: set[ast.stmt]) -> Iterator[Capture]:
    if len(run) > 1:
        first, last = run[0], run[-1]
        yield Capture("run", first.lineno, last.lineno, last.end_lineno or 0, first.lineno, first.col_offset)
    for statement in run:
        if isinstance(statement, ast.For) and statement not in annotated:
            at = statement.iter
            lines = (statement.lineno, statement.lineno, statement.end_lineno or 0)
            yield Capture("loop", *lines, at.lineno, at.col_offset, _repeats(statement))
        yield from _inside(statement, annotated)


def _inside(statement: ast.stmt, annotated: set[ast.stmt]) -> Iterator[Capture]:
    if statement in annotated or isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return
    for name in ("body", "orelse", "finalbody"):
        yield from captures_in(getattr(statement, name, []), annotated)
    for part in [*getattr(statement, "handlers", []), *getattr(statement, "cases", [])]:
        yield from captures_in(part.body, annotated)


def _repeats(loop: ast.For) -> bool:
    subscripts = (
        node.slice for node in ast.walk(loop) if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store)
    )
    return isinstance(loop.target, ast.Name) and not any(
        isinstance(node, ast.Name) and node.id == loop.target.id for part in subscripts for node in ast.walk(part)
    )


def _assigns_names(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Assign):
        return all(_is_name(target) for target in statement.targets)
    if isinstance(statement, ast.AugAssign | ast.AnnAssign):
        return isinstance(statement.target, ast.Name) and statement.value is not None
    return isinstance(statement, ast.Pass)


def _is_name(target: ast.expr) -> bool:
    if isinstance(target, ast.Tuple | ast.List):
        return all(_is_name(e) for e in target.elts)
    return isinstance(target, ast.Name)


def _is_loop(statement: ast.stmt, annotated: set[ast.stmt]) -> bool:
    """A loop whose iterations are counted before it starts, around annotated statements and nothing that could only be
    done by the interpreter."""
    return (
        _is_counted(statement)
        and any(node in annotated for node in ast.walk(statement))
        and all(_is_plain(inner, annotated) for inner in statement.body)  # type: ignore[attr-defined]
    )


def _is_counted(statement: ast.stmt) -> bool:
    if not isinstance(statement, ast.For) or statement.orelse or not isinstance(statement.target, ast.Name):
        return False
    call = statement.iter
    return isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "range"


def _is_plain(statement: ast.stmt, annotated: set[ast.stmt]) -> bool:
    if statement in annotated or isinstance(statement, ast.Assign | ast.AugAssign | ast.Pass | ast.Continue):
        return True
    if isinstance(statement, ast.AnnAssign):
        return statement.value is not None
    if isinstance(statement, ast.If):
        return all(_is_plain(inner, annotated) for inner in [*statement.body, *statement.orelse])
    return _is_counted(statement) and all(_is_plain(inner, annotated) for inner in statement.body)  # type: ignore[attr-defined]
