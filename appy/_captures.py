"""Statements that run as one: neighbours of annotated statements, and the loops around them.

A region on a device is a launch, and a scalar that one computes and the next reads is waited for. So what follows each
other in a block is one region too, with the assignments between, and so is a loop that holds nothing else. On the CPU
such a loop is one region where that lets it go over its arrays fewer times.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple


class Span(NamedTuple):
    """Of the source: lines and columns, which count UTF-8 bytes."""

    start: tuple[int, int]
    end: tuple[int, int]


class Capture(NamedTuple):
    """A `loop`, or a `run` of statements, the first of which begins at `line`, the last at `last_line`.

    A loop `repeats` if nothing that it assigns to is subscripted by its variable: it goes over the same elements again and
    again. `iter_line` and `iter_column` are the position of a loop's iterable; a run has its first statement's.
    One that `leaves` is more than a loop over `range` from its first to its last iteration; the statements of its own
    that return are `returns`.
    """

    kind: str
    line: int
    last_line: int
    end_line: int
    iter_line: int
    iter_column: int
    repeats: bool = False
    leaves: bool = False
    span: Span = Span((0, 0), (0, 0))
    returns: tuple[Span, ...] = ()


class Hindrance(NamedTuple):
    """Keeps the loop at `line` from being one region: the statement at line `at`, whose text begins with `text`."""

    line: int
    at: int
    text: str


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
        if isinstance(statement, ast.For | ast.While) and statement not in annotated:
            yield _loop(statement, annotated)
        yield from _inside(statement, annotated)


def _loop(loop: ast.For | ast.While, annotated: set[ast.stmt]) -> Capture:
    at = loop.iter if isinstance(loop, ast.For) else loop.test
    lines = (loop.lineno, loop.lineno, loop.end_lineno or 0)
    inside = list(_statements(loop, annotated))
    leaves = bool(loop.orelse) or any(isinstance(s, ast.While | ast.Break | ast.Return) for s in inside)
    returns = tuple(_span(s) for s in inside if isinstance(s, ast.Return))
    repeats = not leaves and isinstance(loop, ast.For) and _repeats(loop)
    return Capture("loop", *lines, at.lineno, at.col_offset, repeats, leaves, _span(loop), returns)


def _span(node: ast.stmt) -> Span:
    return Span((node.lineno, node.col_offset), (node.end_lineno or 0, node.end_col_offset or 0))


def _statements(statement: ast.stmt, annotated: set[ast.stmt]) -> Iterator[ast.stmt]:
    """It and those inside, but what is inside of annotated ones."""
    yield statement
    if statement not in annotated:
        for inner in [*getattr(statement, "body", []), *getattr(statement, "orelse", [])]:
            yield from _statements(inner, annotated)


def _inside(statement: ast.stmt, annotated: set[ast.stmt]) -> Iterator[Capture]:
    if statement in annotated or isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return
    for body in _bodies(statement):
        yield from captures_in(body, annotated)


def _bodies(statement: ast.stmt) -> list[list[ast.stmt]]:
    """The lists of statements that it holds."""
    parts = [*getattr(statement, "handlers", []), *getattr(statement, "cases", [])]
    own = [getattr(statement, name, []) for name in ("body", "orelse", "finalbody")]
    return [*own, *(part.body for part in parts)]


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
    """A loop around annotated statements and nothing that could only be done by the interpreter."""
    return (
        _is_compiled(statement)
        and any(node in annotated for node in ast.walk(statement))
        and all(_is_plain(inner, annotated) for inner in _blocks(statement))
    )


def _is_compiled(statement: ast.stmt) -> bool:
    """A `while` loop, or one over `range`."""
    if isinstance(statement, ast.While):
        return True
    if not isinstance(statement, ast.For) or not isinstance(statement.target, ast.Name):
        return False
    call = statement.iter
    return isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "range"


def _is_plain(statement: ast.stmt, annotated: set[ast.stmt]) -> bool:
    if statement in annotated or isinstance(statement, _PLAIN):
        return True
    if isinstance(statement, ast.AnnAssign):
        return statement.value is not None
    if isinstance(statement, ast.If) or _is_compiled(statement):
        return all(_is_plain(inner, annotated) for inner in _blocks(statement))
    return False


def hindrances_in(body: list[ast.stmt], annotated: set[ast.stmt]) -> Iterator[Hindrance]:
    """Of the loops around annotated statements in one scope, outer ones first."""
    for statement in body:
        if statement in annotated or isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        if isinstance(statement, ast.For | ast.AsyncFor | ast.While) and any(
            n in annotated for n in ast.walk(statement)
        ):
            found = _hindrance(statement, annotated)
            if found is not None:
                yield Hindrance(statement.lineno, found.lineno, ast.unparse(found).splitlines()[0])
        for inner in _bodies(statement):
            yield from hindrances_in(inner, annotated)


def _hindrance(loop: ast.stmt, annotated: set[ast.stmt]) -> ast.stmt | None:
    """What only the interpreter can do: the loop itself, or the innermost statement in it that comes first."""
    if not _is_compiled(loop) and not isinstance(loop, ast.If):
        return loop
    for inner in _blocks(loop):
        if not _is_plain(inner, annotated):
            return _hindrance(inner, annotated) if isinstance(inner, ast.If) or _is_compiled(inner) else inner
    return None


def _blocks(statement: ast.stmt) -> list[ast.stmt]:
    return [*statement.body, *statement.orelse]  # type: ignore[attr-defined]


_PLAIN = (ast.Assign, ast.AugAssign, ast.Pass, ast.Continue, ast.Break, ast.Return, ast.Raise, ast.Assert)
