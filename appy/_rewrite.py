"""Rewrites code objects: before each region goes a call of its region object and a jump over the statement.

The answer False leaves the statement to the original bytecode, which follows; True jumps over it; a 1-tuple returns its
value from the function.
"""

from __future__ import annotations

import dis
import sys
import weakref
from types import CodeType
from typing import Any

from . import _C
from ._warn import warn_fallback

Options = tuple[tuple[str, Any], ...]  # of regions, sorted by name

# Options that the compiler is not told of: the rest of the package has followed them by then.
_OURS = ("dim_info", "globals", "tuned")

OPTIMIZED = 1  # CO_OPTIMIZED: the code of a function


class _CodeMap:
    """Code object, by identity, -> whatever was made of it; forgets a code object that has died."""

    def __init__(self) -> None:
        self._rows: dict[int, tuple[weakref.ref[CodeType], Any]] = {}

    def get(self, code: CodeType) -> Any:
        row = self._rows.get(id(code))
        return row[1] if row is not None and row[0]() is code else None

    def put(self, code: CodeType, value: Any) -> None:
        key = id(code)
        rows = self._rows

        def forget(dead: weakref.ref[CodeType]) -> None:
            row = rows.get(key)
            if row is not None and row[0] is dead:
                del rows[key]

        rows[key] = (weakref.ref(code, forget), value)


_rewritten = _CodeMap()  # original -> {options: rewritten}
# rewritten -> (a copy of the original, options). Copies, here and in the regions: code objects are not garbage
# collected, and a rewritten one that kept its original alive, which keeps the rewritten one, would stay for ever.
_originals = _CodeMap()
_regions: weakref.WeakValueDictionary[tuple[str, int], Any] = weakref.WeakValueDictionary()


def original_of(code: CodeType) -> CodeType:
    """The code object as it was compiled: itself, or a copy of what it was rewritten from."""
    known = _originals.get(code)
    return known[0] if known else code


def regions_of(code: CodeType) -> list[Any]:
    """The region objects in a rewritten code object and in the functions nested in it, without repetition."""
    found: list[Any] = []
    for const in code.co_consts:
        if isinstance(const, _C.Region):
            if const not in found:
                found.append(const)
        elif isinstance(const, CodeType):
            found.extend(r for r in regions_of(const) if r not in found)
    return found


def rewrite(code: CodeType, options: Options = (), *, warn_only: bool = False) -> CodeType:
    """``code`` with its regions entered, functions nested in it included; ``code`` itself where it has none.

    Raises `PragmaError` for a pragma that cannot be read, unless ``warn_only``, and `pragmas.SourceMissing`.
    """
    known = _originals.get(code)
    if known is not None:
        if known[1] == options:
            return code
        code = known[0]
    made: dict[Options, CodeType] | None = _rewritten.get(code)
    if made is not None and options in made:
        return made[options]
    from ._assemble import remade
    from .pragmas import pragmas_of

    pragmas = pragmas_of(code, warn_only=warn_only)
    nested = _rewrite_constants(code, options, warn_only)
    renamed = dict(dict(options).get("globals", ()))
    named = remade(code, co_names=tuple(renamed.get(n, n) for n in code.co_names)) if renamed else code
    result = _enter_regions(named, pragmas, nested, options) if pragmas else None
    if result is None:
        if nested is code.co_consts:
            return code
        result = remade(code, co_consts=nested)
    _originals.put(result, (remade(code), options))
    if made is None:
        made = {}
        _rewritten.put(code, made)
    made[options] = result
    return result


def rewrite_fresh(code: CodeType) -> CodeType:
    """Like `rewrite`, for a module or a class body that has just been compiled and did not run yet: its functions are
    exchanged in place. Says what is wrong in warnings."""
    from .pragmas import pragmas_of

    result = code
    pragmas = pragmas_of(code, warn_only=True)
    if pragmas and code.co_name == "<module>":
        result = _enter_regions(code, pragmas, code.co_consts, ()) or code
    elif pragmas:
        reason = "it stands in a class body; move it into a function"
        warn_fallback(code.co_filename, pragmas[0].line, code.co_qualname, reason, False)
    for index, const in enumerate(result.co_consts):
        if isinstance(const, CodeType):
            other = rewrite(const, warn_only=True) if const.co_flags & OPTIMIZED else rewrite_fresh(const)
            if other is not const:
                _C.replace_constant(result, index, other)
    return result


def _rewrite_constants(code: CodeType, options: Options, warn_only: bool) -> tuple[Any, ...]:
    consts = code.co_consts
    changed = [
        rewrite(const, options, warn_only=warn_only) if isinstance(const, CodeType) else const for const in consts
    ]
    if all(new is old for new, old in zip(changed, consts)):
        return consts
    return tuple(changed)


def _enter_regions(code: CodeType, pragmas: list[Any], consts: tuple[Any, ...], options: Options) -> CodeType | None:
    from ._assemble import disassemble, remade
    from ._exits import mark
    from ._regions import locate
    from .pragmas import captures_of

    assembly = disassemble(code)
    captures = captures_of(code)
    if dict(options).get("backend", "auto") not in ("auto", "cuda"):
        captures = [c for c in captures if c.repeats]
    key = None
    inserted: dict[Any, list[Any]] = {}
    made: list[tuple[Any, Any, Options]] = []
    rows_of = _Rows(options)
    stack = code.co_stacksize
    new_consts = list(consts)
    for index, found in enumerate(locate(assembly, pragmas, captures)):
        if not found.entries:
            reason = "its bytecode has a form that cannot be entered"
            warn_fallback(
                code.co_filename, found.pragma.line, code.co_qualname, reason, bool(dict(options).get("strict"))
            )
            continue
        if key is None:
            key = _key(code, pragmas, options)
        own = options
        if found.group:
            own = (*((k, v) for k, v in options if k != "strict"), ("group", True))
        if found.captured:
            own = (*own, ("captured", True), ("repeats", found.repeats))
        region = _regions.get((key, index))
        if region is None:
            region = _make_region(key, index, remade(code), assembly, found, rows_of(found.pragmas), own)
            _regions[key, index] = region
        made.append((region, found, own))
        at = len(new_consts)
        new_consts.append(region)
        for entry in found.entries:
            true, marks = 0, []
            if entry.returns or entry.exits:
                true = _constant(new_consts, True)
                marks = [_constant(new_consts, mark(k)) for k in range(len(entry.exits))]
            inserted.setdefault(entry.begin, []).extend(call_region(entry, at, true, marks))
            stack = max(stack, entry.depth + (3 if entry.returns or entry.exits else 2))
    if not inserted:
        return None
    rewritten = assembly.assemble(inserted, tuple(new_consts), stack)
    for region, found, own in made:
        # Offsets in the rewritten code, which is what gets pickled.
        entry = found.entries[0]
        after = inserted.get(entry.end, [entry.end])[0]
        rows = rows_of(found.pragmas)
        recipe = _recipe(region.key, entry.begin.new_offset, after.new_offset, rows, _compiled_options(own))
        # A region with exits is traced in a code object that no pickle holds: it stays in the interpreter there.
        _C.set_recipe(region, "bool" if entry.exits else recipe)
    return rewritten


def _constant(consts: list[Any], value: Any) -> int:
    """Index of this very object among the constants; it is added where it is none."""
    at = next((n for n, c in enumerate(consts) if c is value), len(consts))
    consts[at:] = consts[at:] or [value]
    return at


def call_region(entry: Any, region: int, true: int, marks: list[int]) -> list[Any]:
    """The instructions that enter a region: `region`, `true` and `marks` are indices of constants."""
    from ._assemble import Instr

    position = entry.begin.position
    out: list[Any] = []

    def add(name: str, arg: int = 0, target: Any = None, direct: bool = False) -> Any:
        instr = Instr(dis.opmap[name], arg, position)
        instr.target, instr.direct = target, direct
        out.append(instr)
        return instr

    version = sys.version_info[:2]
    if version < (3, 13):
        add("PUSH_NULL")
    add("LOAD_CONST", region)
    if version >= (3, 13):
        add("PUSH_NULL")
    if version < (3, 12):
        add("PRECALL", 0)
    add("CALL", 0)
    jump_if_true = "POP_JUMP_FORWARD_IF_TRUE" if version < (3, 12) else "POP_JUMP_IF_TRUE"
    if not entry.returns and not entry.exits:
        if version >= (3, 13):
            add("TO_BOOL")
        add(jump_if_true, target=entry.end)
        return out
    add("COPY", 1)
    add("LOAD_CONST", true)
    add("IS_OP", 0)
    to_done = add(jump_if_true)
    add("COPY", 1)
    add("UNARY_NOT") if version < (3, 13) else (add("TO_BOOL"), add("UNARY_NOT"))
    to_original = add(jump_if_true)
    add("UNPACK_SEQUENCE", 1)
    to_exits = []
    for const in marks:
        add("COPY", 1)
        add("LOAD_CONST", const)
        add("IS_OP", 0)
        to_exits.append(add(jump_if_true))
    for _ in range(entry.depth):
        add("SWAP", 2)
        add("POP_TOP")
    add("RETURN_VALUE")
    for to_exit, exit in zip(to_exits, entry.exits):
        to_exit.target, to_exit.direct = add("POP_TOP"), True
        add("JUMP_BACKWARD" if exit.offset < entry.begin.offset else "JUMP_FORWARD", target=exit)
    to_done.target = add("POP_TOP")
    add("JUMP_FORWARD", target=entry.end)
    to_original.target = add("POP_TOP")
    to_done.direct = to_original.direct = True
    return out


def _key(code: CodeType, pragmas: list[Any], options: Options) -> str:
    import _imp  # hashlib takes 20 ms to import
    import marshal

    data = marshal.dumps(code, 2) + repr((code.co_filename, pragmas, options)).encode()
    return (_imp.source_hash(1, data) + _imp.source_hash(2, data)).hex()


def _recipe(key: tuple[str, int], begin: int, end: int, rows: list[tuple[Any, ...]], options: Options) -> str:
    """An expression for `eval`: the region where appy can be imported, else `bool`, which called without arguments says
    False as a region that declines."""
    arguments = repr((*key, begin, end, rows, options))
    return (
        f"(__import__('appy._pickled', fromlist=['region']).region{arguments}"
        " if __import__('importlib.util', fromlist=['find_spec']).find_spec('appy') else bool)"
    )


def _compiled_options(options: Options) -> Options:
    return tuple((name, value) for name, value in options if name not in _OURS)


class _Rows:
    """What the compiler is told of pragmas. Of each once: regions that hold others have theirs, too."""

    def __init__(self, options: Options) -> None:
        self._dim_info = dict(dict(options).get("dim_info", ()))
        self._known: dict[int, tuple[Any, ...]] = {}

    def __call__(self, pragmas: list[Any]) -> list[tuple[Any, ...]]:
        return [self._known.get(p.pragma_line) or self._known.setdefault(p.pragma_line, self._row(p)) for p in pragmas]

    def _row(self, p: Any) -> tuple[Any, ...]:
        from ._mapping import rows_of

        row: tuple[Any, ...] = (p.text, p.line, p.end_line, p.iter_line, p.iter_column, p.pragma_line)
        return row + rows_of(p.statement, p.items, self._dim_info) if p.items else row


def _make_region(
    key: str, index: int, code: CodeType, assembly: Any, found: Any, rows: list[Any], options: Options
) -> Any:
    entry = found.entries[0]
    begin, end = entry.begin.offset, entry.end.offset
    if entry.exits:
        from ._exits import traced_code

        code, begin, end = traced_code(code, assembly, entry)
    return _C.make_region(
        key,
        index,
        code,
        begin,
        end,
        rows,
        dict(_compiled_options(options)),
        code.co_qualname,
        code.co_filename,
        found.pragma.line,
        found.pragma.end_line,
        None,
    )
