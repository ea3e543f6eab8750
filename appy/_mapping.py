"""Which dimensions of an array statement the items of its pragma name: by the text of slices, and by ``dim_info``.

What texts cannot tell, positions and extents, is found when the statement is traced (csrc/trace/tensor_mapping.cpp).
"""

from __future__ import annotations

import ast
import functools
import sys
from collections.abc import Iterator, Mapping
from typing import NamedTuple

DimInfo = Mapping[str, tuple[str, ...]]
_COLUMNS = sys.version_info >= (3, 12)  # x[a:b] is one instruction, with the position of the subscript


class SliceText(NamedTuple):
    """A slice in a statement, or a whole array (``line`` 0), and where the instruction that makes it stands. Of
    ``rank`` dimensions of ``array``, where that is a variable, it is number ``axis``; from the end where negative."""

    line: int
    end_line: int
    column: int
    end_column: int
    array: str
    axis: int | None
    text: str


class StatementText(NamedTuple):
    slices: tuple[SliceText, ...]
    targets: tuple[str, ...]


def text_of(statement: ast.stmt) -> StatementText:
    """The slices and the whole arrays of a statement, the target's first."""
    targets, rest = _parts(statement)
    found: list[SliceText] = []
    for node in [*targets, *rest]:
        found.extend(_slices(node))
    names = [n for target in targets for n in [_base(target)] if n]
    return StatementText(tuple(found), tuple(dict.fromkeys(names)))


def _parts(statement: ast.stmt) -> tuple[list[ast.expr], list[ast.expr]]:
    if isinstance(statement, ast.Assign):
        targets = [
            e
            for target in statement.targets
            for e in (target.elts if isinstance(target, ast.Tuple | ast.List) else [target])
        ]
        return targets, [statement.value]
    if isinstance(statement, ast.AugAssign):
        return [statement.target], [statement.value]
    if isinstance(statement, ast.AnnAssign):
        return [statement.target], [statement.value] if statement.value is not None else []
    if isinstance(statement, ast.Expr):
        return [], [statement.value]
    return [], []


def _base(node: ast.expr) -> str:
    while isinstance(node, ast.Subscript | ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _slices(node: ast.AST) -> Iterator[SliceText]:
    if isinstance(node, ast.Name):
        yield SliceText(0, 0, -1, -1, node.id, None, "")
        return
    if not isinstance(node, ast.Subscript):
        for child in ast.iter_child_nodes(node):
            yield from _slices(child)
        return
    array = node.value.id if isinstance(node.value, ast.Name) else ""
    items = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    ellipsis = next((k for k, e in enumerate(items) if isinstance(e, ast.Constant) and e.value is ...), len(items))
    axes = [e for e in items if not (isinstance(e, ast.Constant) and e.value in (None, ...))]
    for item in items:
        if not isinstance(item, ast.Slice):
            yield from _slices(item)
            continue
        number = next(k for k, e in enumerate(axes) if e is item)
        axis = number if items.index(item) < ellipsis else number - len(axes)
        at: ast.expr = node if _COLUMNS and item is node.slice and item.step is None else item
        yield SliceText(
            at.lineno, at.end_lineno or 0, at.col_offset, at.end_col_offset or 0, array, axis, ast.unparse(item)
        )
    if array:
        yield SliceText(0, 0, -1, -1, array, None, "")
    else:
        yield from _slices(node.value)


def rows_of(statement: StatementText, items: tuple[str, ...], dim_info: DimInfo) -> tuple[object, ...]:
    """What the compiler is told: each slice with the items that name it, the names of extents, the targets."""
    slices: list[tuple[object, ...]] = []
    for s in statement.slices:
        names = dim_info.get(s.array, ())
        if s.line:
            axis = s.axis if s.axis is None or s.axis >= 0 else s.axis + len(names)
            name = names[axis] if axis is not None and 0 <= axis < len(names) else None
            found = tuple(k for k, item in enumerate(items) if _names(item, s.text, name))
            slices.append((*s[:4], s.array, -1 if axis is None else axis, s.text, found))
            continue
        for axis, name in enumerate(names):
            row = (
                0,
                0,
                -1,
                -1,
                s.array,
                axis,
                f":{name}",
                tuple(k for k, i in enumerate(items) if _names(i, ":", name)),
            )
            if row not in slices:
                slices.append(row)
    extents = {name: (name, array, axis) for array, names in dim_info.items() for axis, name in enumerate(names)}
    return tuple(slices), tuple(extents.values()), statement.targets


def _names(item: str, text: str, name: str | None) -> bool:
    """Does the item name a dimension that is sliced so, and that ``dim_info`` calls ``name``?"""
    if name is not None and item == name:
        return True
    wanted = _canonical(item, name)
    return wanted is not None and wanted == _canonical(text, name)


@functools.lru_cache(1024)
def _canonical(text: str, name: str | None) -> str | None:
    """The syntax tree of a slice as text: a lower bound 0 left out, bounds from the end written with the extent's
    name. None for what is no slice."""
    try:
        subscript = ast.parse(f"_[{text}]", mode="eval").body
    except SyntaxError:
        return None
    if not isinstance(subscript, ast.Subscript) or not isinstance(subscript.slice, ast.Slice):
        return None
    lower, upper, step = subscript.slice.lower, subscript.slice.upper, subscript.slice.step
    if name is not None:
        lower, upper = _from_start(lower, name), _from_start(upper, name)
        if upper is None:
            upper = ast.Name(name)
    if isinstance(lower, ast.Constant) and lower.value == 0:
        lower = None
    if isinstance(step, ast.Constant) and step.value == 1:
        step = None
    return ast.unparse(ast.Slice(lower, upper, step))


def _from_start(bound: ast.expr | None, name: str) -> ast.expr | None:
    """-1 as ``N - 1``."""
    negative = isinstance(bound, ast.UnaryOp) and isinstance(bound.op, ast.USub)
    if not negative or not isinstance(bound.operand, ast.Constant):  # type: ignore[union-attr]
        return bound
    return ast.BinOp(ast.Name(name), ast.Sub(), bound.operand)  # type: ignore[union-attr]
