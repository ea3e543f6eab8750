"""Finds the pragmas of a code object: comments from `tokenize`, each attached to the statement that follows it.

Only the top-level statement around a function is parsed where that suffices: its text is guessed, and the guess holds if
it compiles to the very code object. Otherwise the whole file is parsed.

The source is believed only where it provably belongs to the code object: the file's statement is compiled again and
compared, as a whole or, where an import hook transformed the code, instruction by instruction for the pragma's own
statement.
"""

from __future__ import annotations

import ast
import dis
import io
import linecache
import os
import re
import tokenize
import warnings
from types import CodeType
from typing import Any, NamedTuple

from . import _C
from ._captures import Capture, Hindrance, captures_in, hindrances_in
from ._chunks import imports_of, statement_around
from ._errors import AppyWarning, PragmaError
from ._mapping import StatementText, text_of

# `# pragma: no cover` and its kin belong to other tools.
_CANDIDATE = re.compile(r"^[ \t]*#[ \t]?pragma(?![:\w])", re.MULTILINE)
_COMMENT = re.compile(r"#[ \t]?pragma(?![:\w])[ \t]*(.*)$")
_FUTURE_FLAGS = 0x1FF0000
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_BLOCKS = ("body", "handlers", "orelse", "finalbody", "cases")  # fields that hold statements, in source order


class PlacedPragma(NamedTuple):
    """A pragma and the statement it speaks of.

    Lines count from 1 and columns, in UTF-8 bytes, from 0. ``kind`` is ``"loop"``, ``"atomic"`` or ``"tensor"``;
    ``iter_line`` and ``iter_column`` are the position of a ``for`` statement's iterable, which CPython gives to its
    FOR_ITER instruction. ``body_end`` is the last line of a loop's body, before its ``else``. ``items`` are the
    dimensions that a tensor pragma names, ``statement`` what there is for them to name.
    """

    kind: str
    text: str
    line: int
    end_line: int
    iter_line: int
    iter_column: int
    pragma_line: int
    body_end: int
    items: tuple[str, ...] = ()
    statement: StatementText | None = None


class _Comment:
    """Pragma comments in a row, and the position of the token that follows them."""

    __slots__ = ("columns", "lines", "next_column", "next_line", "texts")

    def __init__(self) -> None:
        self.lines: list[int] = []
        self.columns: list[int] = []
        self.texts: list[str] = []
        self.next_line = 0
        self.next_column = -1

    def add(self, line: int, column: int, comment: re.Match[str]) -> None:
        self.lines.append(line)
        self.columns.append(column + comment.start(1))
        self.texts.append(comment.group(1).rstrip())


class _Misplaced(NamedTuple):
    line: int
    message: str


_Scope = tuple[str, int]  # qualified name and first line


class _Source:
    """Parsed text: for each scope its pragmas, its faults, and the top-level statement that holds it."""

    def __init__(self, filename: str, text: str, tree: ast.Module) -> None:
        self.filename = filename
        self.text = text
        self.tree = tree
        self.pragmas: dict[_Scope, list[PlacedPragma]] = {}
        self.faults: dict[_Scope, list[PragmaError | _Misplaced]] = {}
        self.top: dict[_Scope, ast.stmt] = {}
        self.codes: dict[tuple[int, int], dict[_Scope, list[CodeType]]] = {}
        self.import_statements: list[ast.stmt] | None = None
        self.annotated: set[ast.stmt] = set()
        self.scopes: dict[_Scope, ast.AST] = {("<module>", 1): tree}

    def scope_codes(self, key: _Scope, flags: int) -> list[CodeType]:
        """The code objects of that name and first line, compiled from this text under these future flags."""
        top = self.top.get(key)
        cached = self.codes.get((id(top), flags))
        if cached is None:
            # Imports come along: methods of a name that the module imports are compiled differently.
            body = self.tree.body if top is None else [*self.imports(), top]
            module = ast.Module(body=body, type_ignores=[])
            code = compile(module, self.filename, "exec", flags=flags, dont_inherit=True)
            cached = {}
            _collect_codes(code, cached)
            self.codes[(id(top), flags)] = cached
        return cached.get(key, [])

    def captures(self, key: _Scope) -> list[Capture]:
        """What may run as one in the scope of that name and first line."""
        scope: Any = self.scopes.get(key)
        return list(captures_in(scope.body, self.annotated)) if scope is not None else []

    def imports(self) -> list[ast.stmt]:
        """The import statements in the module's own scope, up to those in the branches of its statements."""
        if self.import_statements is None:
            self.import_statements = []
            waiting: list[ast.AST] = [*reversed(self.tree.body)]
            while waiting:
                node = waiting.pop()
                if isinstance(node, ast.Import | ast.ImportFrom):
                    self.import_statements.append(node)
                elif isinstance(node, ast.If | ast.Try | ast.With | ast.ExceptHandler):
                    waiting.extend(ast.iter_child_nodes(node))
        return self.import_statements


class _File:
    """One version of one file with pragmas: as a whole, and in parts, a top-level statement each."""

    def __init__(self, filename: str, text: str) -> None:
        self.filename = filename
        self.text = text
        self._whole: _Source | None = None
        self._lines: list[str] = []
        self._imports: list[ast.stmt] | None = None
        self._parts: dict[int, _Source | None] = {}

    def whole(self) -> _Source:
        if self._whole is None:
            tree = ast.parse(self.text, self.filename)
            self._whole = _Source(self.filename, self.text, tree)
            _Placer(self._whole, _comments(self.text, tree)).run()
        return self._whole

    def source_for(self, code: CodeType, key: _Scope) -> _Source | None:
        """What holds ``code``: a part of the file that provably does, or the whole; None where there is no pragma."""
        if self._whole is not None or code.co_name == "<module>":
            return self.whole()
        if not self._lines:
            self._lines = io.StringIO(self.text).readlines()  # as CPython counts lines
            self._imports = imports_of(self.text)
        place = statement_around(self._lines, code)
        if place is None or self._imports is None:
            return self.whole()
        start, end = place
        if start not in self._parts:
            self._parts[start] = self._part(start, end)
        part = self._parts[start]
        if part is None:
            return None
        try:
            proven = code in part.scope_codes(key, code.co_flags & _FUTURE_FLAGS)
        except (SyntaxError, ValueError):
            proven = False
        return part if proven else self.whole()

    def _part(self, start: int, end: int) -> _Source | None:
        text = "".join(self._lines[start:end])
        if not _CANDIDATE.search(text):
            return None
        text = "\n" * start + text
        try:
            tree = ast.parse(text, self.filename)
        except SyntaxError:
            tree = ast.Module(body=[], type_ignores=[])  # proves nothing
        part = _Source(self.filename, text, tree)
        part.import_statements = self._imports
        # A comment before the next top-level statement is that one's.
        ours = [c for c in _comments(text, tree) if c.next_line <= end or end == len(self._lines)]
        _Placer(part, ours).run()
        return part


_MOST_FILES = 256  # every cell of a notebook is one
_sources: dict[str, tuple[object, _File | None]] = {}
_warned: set[tuple[str, int, str]] = set()


class SourceMissing(Exception):
    """The source text of a code object cannot be had, or is not the text it was compiled from."""


def pragmas_of(code: CodeType, *, warn_only: bool = False) -> list[PlacedPragma]:
    """The pragmas in the body of ``code`` itself (not of functions nested in it), in source order.

    A pragma that cannot be read raises `PragmaError`, or is a warning with ``warn_only``. Raises `SourceMissing` where
    there is no source, or where it has changed since ``code`` was compiled.
    """
    file = _file_of(code)
    key = _scope_of(code)
    source = file.source_for(code, key) if file is not None else None
    if source is None:
        return []
    for fault in source.faults.get(key, ()):
        if isinstance(fault, PragmaError) and not warn_only:
            raise fault
        _warn_once(source.filename, fault)
    placed = source.pragmas.get(key, [])
    if not placed:
        return []
    candidates = source.scope_codes(key, code.co_flags & _FUTURE_FLAGS)
    if code in candidates:
        return placed
    believed = [p for p in placed if any(_same_statement(p, code, c) for c in candidates)]
    if len(believed) != len(placed):
        raise SourceMissing(
            f"{source.filename} does not match the code of {code.co_qualname} (line {code.co_firstlineno}): "
            "it was changed after it was imported; reload the module"
        )
    return believed


def captures_of(code: CodeType) -> list[Capture]:
    """What may run as one, of a function that `pragmas_of` has found pragmas in. Nothing where the code was
    transformed."""
    file = _file_of(code)
    key = _scope_of(code)
    source = file.source_for(code, key) if file is not None else None
    if source is None or code not in source.scope_codes(key, code.co_flags & _FUTURE_FLAGS):
        return []
    return source.captures(key)


def hindrances_of(code: CodeType) -> list[Hindrance]:
    """What keeps loops around annotated statements from being one region, in a function with regions."""
    try:
        file = _file_of(code)
    except SourceMissing:
        return []
    key = _scope_of(code)
    source = file.whole() if file is not None else None
    scope: Any = source.scopes.get(key) if source is not None else None
    return list(hindrances_in(scope.body, source.annotated)) if source is not None and scope is not None else []


def _scope_of(code: CodeType) -> _Scope:
    return code.co_qualname, code.co_firstlineno if code.co_name != "<module>" else 1


def _file_of(code: CodeType) -> _File | None:
    """The file that holds ``code``, or None where it has no pragma."""
    filename = code.co_filename
    stamp, text = _read(filename)
    if text is None or (filename.startswith("<") and not _defines(text, code.co_name)):
        raise SourceMissing(f"the source of {code.co_qualname} ({filename}) is not available")
    cached = _sources.get(filename)
    if cached is not None and cached[0] == stamp:
        return cached[1]
    file = _File(filename, text) if _CANDIDATE.search(text) else None
    _sources[filename] = (stamp, file)
    if len(_sources) > _MOST_FILES:
        del _sources[next(iter(_sources))]
    return file


def _defines(text: str, name: str) -> bool:
    """Whether the text of a pseudo file can be the source of a function of that name: from CPython 3.13 on the text of
    ``python -c`` goes by the name that ``exec`` gives to its strings."""
    return name.startswith("<") or re.search(rf"\b(?:def|class)\s+{re.escape(name)}\b", text) is not None


def _read(filename: str) -> tuple[object, str | None]:
    try:
        stat = os.stat(filename)
        stamp: object = (stat.st_mtime_ns, stat.st_size)
        cached = _sources.get(filename)
        if cached is not None and cached[0] == stamp:
            return stamp, ""
        with open(filename, "rb") as raw:
            data = raw.read()
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        return stamp, io.TextIOWrapper(io.BytesIO(data), encoding, newline=None).read()
    except (OSError, SyntaxError, UnicodeDecodeError, ValueError):
        pass
    lines = linecache.getlines(filename)  # notebooks, doctests, zipped modules
    if not lines:
        return None, None
    text = "".join(lines)
    return hash(text), text


def _comments(text: str, tree: ast.Module) -> list[_Comment]:
    """Groups of pragma comments on lines of their own, each with the position of the token that follows.

    A line that looks like one is one between statements. Where it stands inside an expression, perhaps in a string,
    that stretch of the module is tokenized.
    """
    candidates = []
    line, at = 1, 0
    for found in _CANDIDATE.finditer(text):
        line += text.count("\n", at, found.start())
        at = found.start()
        candidates.append(line)
    lines = io.StringIO(text).readlines()  # as CPython counts lines
    ends = [0] + [node.end_lineno or 0 for node in tree.body] + [len(lines)]
    out: list[_Comment] = []
    for node, first, last in zip([*tree.body, None], ends, ends[1:]):
        inside = [line for line in candidates if first < line <= last]
        if not inside:
            continue
        if node is not None and _in_expression(node, inside):
            out += _tokenized_comments(lines[first:last], first)
        else:
            out += _line_comments(lines, inside)
    return out


def _in_expression(node: ast.AST, lines: list[int]) -> bool:
    """Whether one of these lines stands inside an expression of this statement, past its first line."""
    blocks = [child for name in _BLOCKS for child in getattr(node, name, ())] if not isinstance(node, ast.expr) else []
    if blocks:
        for child in blocks:
            first, last = _span(child)
            inside = [line for line in lines if first < line <= last]
            if inside and _in_expression(child, inside):
                return True
        rest = [child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.stmt | ast.ExceptHandler)]
        return any(_in_expression(child, lines) for child in rest if not isinstance(child, ast.match_case))
    if hasattr(node, "lineno"):
        first, last = _span(node)
        return any(first < line <= last for line in lines)
    return any(_in_expression(child, lines) for child in ast.iter_child_nodes(node))


def _span(node: ast.AST) -> tuple[int, int]:
    if isinstance(node, ast.match_case):
        return node.pattern.lineno, node.body[-1].end_lineno or 0
    return node.lineno, node.end_lineno  # type: ignore[attr-defined]


def _line_comments(lines: list[str], candidates: list[int]) -> list[_Comment]:
    out: list[_Comment] = []
    for number in candidates:
        line = lines[number - 1]
        if not out or out[-1].next_line < number:
            comment = _Comment()
            out.append(comment)
            for at in range(number, len(lines)):
                stripped = lines[at].lstrip()
                if stripped and not stripped.startswith("#"):
                    comment.next_line, comment.next_column = at + 1, len(lines[at]) - len(stripped)
                    break
            else:
                comment.next_line = len(lines) + 1
        at = line.index("#")
        match = _COMMENT.match(line.rstrip("\n")[at:])
        if match:
            out[-1].add(number, at, match)
    return out


def _tokenized_comments(lines: list[str], base: int) -> list[_Comment]:
    out: list[_Comment] = []
    current: _Comment | None = None
    fresh = True  # nothing but white space before this token on its line
    skip = (tokenize.NL, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING)
    for token in tokenize.generate_tokens(iter(lines).__next__):
        if token.type == tokenize.COMMENT:
            match = _COMMENT.match(token.string) if fresh else None
            if match:
                if current is None:
                    current = _Comment()
                    out.append(current)
                current.add(base + token.start[0], token.start[1], match)
        elif token.type not in skip:
            if current is not None and token.type not in (tokenize.NEWLINE, tokenize.ENDMARKER):
                line = lines[token.start[0] - 1]
                current.next_line = base + token.start[0]
                current.next_column = len(line[: token.start[1]].encode())
                current = None
            elif token.type == tokenize.ENDMARKER:
                current = None
        fresh = token.type in (tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)
    return out


class _Placer:
    """Walks the tree once and files every pragma under the scope whose code holds its statement."""

    def __init__(self, source: _Source, comments: list[_Comment]) -> None:
        self.source = source
        self.by_position = {(c.next_line, c.next_column): c for c in comments}
        self.unplaced = {id(c): c for c in comments}
        self.spans: list[tuple[int, int, tuple[str, int]]] = []  # first line, column, scope

    def run(self) -> None:
        for node in self.source.tree.body:
            self.visit(node, "", ("<module>", 1), node)
        for comment in self.unplaced.values():
            key = self._scope_before(comment)
            self._fault(key, _Misplaced(comment.lines[0], "is not followed by a statement"))

    def visit(self, node: ast.AST, prefix: str, key: _Scope, top: ast.stmt) -> None:
        if isinstance(node, ast.stmt):
            comment = self.by_position.get((node.lineno, node.col_offset))
            if comment is not None and id(comment) in self.unplaced:
                del self.unplaced[id(comment)]
                self.place(comment, node, key)
            if isinstance(node, _SCOPES):
                first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
                qualname = prefix + node.name
                key = (qualname, first)
                prefix = qualname + ("." if isinstance(node, ast.ClassDef) else ".<locals>.")
                self.source.top[key] = top
                self.source.scopes[key] = node
                self.spans.append((first, node.col_offset, key))
        for name in _BLOCKS:
            for child in getattr(node, name, ()):
                self.visit(child, prefix, key, top)

    def place(self, comment: _Comment, node: ast.stmt, key: tuple[str, int]) -> None:
        text = "\n".join(comment.texts)
        try:
            parsed = _C.parse_pragma(text)
        except _C.PragmaSyntaxError as error:
            column, expected = error.args
            self._fault(key, self._syntax_fault(comment, text, column, expected))
            return
        kind, items = parsed["kind"], parsed["items"]
        misplaced = _misplaced(kind, node)
        if misplaced:
            self._fault(key, _Misplaced(comment.lines[0], misplaced))
            return
        it = node.iter if isinstance(node, ast.For) else node
        end = node.end_lineno or node.lineno
        body_end = (node.body[-1].end_lineno or end) if isinstance(node, ast.For) else end
        placed = PlacedPragma(kind, text, node.lineno, end, it.lineno, it.col_offset, comment.lines[0], body_end)
        if items:
            placed = placed._replace(items=items, statement=text_of(node))
        if kind != "atomic":
            self.source.annotated.add(node)
        self.source.pragmas.setdefault(key, []).append(placed)

    def _syntax_fault(self, comment: _Comment, text: str, column: int, expected: str) -> PragmaError:
        row = text.count("\n", 0, column)
        column -= text.rfind("\n", 0, column) + 1
        line, at = comment.lines[row], comment.columns[row] + column
        return PragmaError(
            f"{self.source.filename}, line {line}, column {at + 1}: cannot read `{comment.texts[row]}`: expected {expected}"
        )

    def _fault(self, key: _Scope, fault: PragmaError | _Misplaced) -> None:
        self.source.faults.setdefault(key, []).append(fault)

    def _scope_before(self, comment: _Comment) -> tuple[str, int]:
        """The scope that a comment is indented into."""
        column = comment.columns[0] - len("#pragma ")
        inside = [span for span in self.spans if span[0] <= comment.lines[0] and span[1] < column]
        return max(inside)[2] if inside else ("<module>", 1)


def _misplaced(kind: str, node: ast.stmt) -> str:
    """Why a pragma of this kind cannot stand before this statement, or an empty string."""
    what = type(node).__name__
    if kind == "loop" and not isinstance(node, ast.For):
        return f"is a loop pragma and stands before a statement that is no `for` loop ({what})"
    if kind == "atomic" and not (isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Subscript)):
        return f"says `atomic` and stands before a statement that updates no array element ({what})"
    if kind == "tensor" and not isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign | ast.Expr):
        return f"is a tensor pragma and stands before a statement that is no assignment ({what})"
    return ""


def _warn_once(filename: str, fault: PragmaError | _Misplaced) -> None:
    if isinstance(fault, _Misplaced):
        line, message = fault.line, f"{filename}, line {fault.line}: the pragma {fault.message}; it has no effect"
    else:
        line, message = 0, str(fault)
    if (filename, line, message) in _warned:
        return
    _warned.add((filename, line, message))
    warnings.warn_explicit(message, AppyWarning, filename, line or 1)


def _collect_codes(code: CodeType, into: dict[_Scope, list[CodeType]]) -> None:
    into.setdefault(_scope_of(code), []).append(code)
    for const in code.co_consts:
        if isinstance(const, CodeType):
            _collect_codes(const, into)


def _same_statement(pragma: PlacedPragma, code: CodeType, candidate: CodeType) -> bool:
    """True if the instructions of the pragma's statement are the same in both, whatever happened around them."""
    ours = _statement_instructions(pragma, code)
    return bool(ours) and ours == _statement_instructions(pragma, candidate)


def _statement_instructions(pragma: PlacedPragma, code: CodeType) -> list[tuple[object, ...]]:
    out: list[tuple[object, ...]] = []
    base: int | None = None
    for ins in dis.get_instructions(code):
        line = ins.positions.lineno if ins.positions else None
        if line is None or not pragma.line <= line <= pragma.end_line:
            continue
        if base is None:
            base = ins.offset
        if ins.opcode in dis.hasjrel or ins.opcode in dis.hasjabs:
            arg: object = ins.argval - base
        elif ins.opcode in dis.hasconst:
            arg = (type(ins.argval).__name__, repr(ins.argval))
        else:
            arg = ins.argval if ins.argval is not None else ins.arg
        out.append((ins.opname, arg))
    return out
