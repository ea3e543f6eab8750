"""Finds the statements of pragmas in bytecode, each copy of them."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence

from ._assemble import ENDS, Assembly, Instr, stack_depths
from ._captured_loops import entries_of
from ._captures import Capture
from ._entries import Entry, is_entered_once
from .pragmas import PlacedPragma

# Instructions that FOR_ITER jumps to when it is exhausted: none, END_FOR, or END_FOR and POP_TOP.
_LOOP_END = min(max(sys.version_info[1] - 11, 0), 2)
_RETURNS = ("RETURN_VALUE", "RETURN_CONST")
# What cannot stand in the iterable of a `for`, but may stand before it.
_NOT_IN_ITERABLE = frozenset(("PUSH_EXC_INFO", "RERAISE", "RAISE_VARARGS", "RESUME", "END_FOR", *_RETURNS))


class Region:
    """An outermost annotated statement, or a group of them, with the pragmas in it. Its first entry stands for the
    others. What is `captured` is a group for devices, and a loop that `repeats` one for the CPU as well."""

    def __init__(
        self,
        pragma: PlacedPragma,
        pragmas: list[PlacedPragma],
        group: bool = False,
        captured: bool = False,
        repeats: bool = False,
    ) -> None:
        self.pragma = pragma
        self.pragmas = pragmas
        self.group = group
        self.captured = captured
        self.repeats = repeats
        self.entries: list[Entry] = []


def outermost(pragmas: Sequence[PlacedPragma]) -> list[Region]:
    """The regions that these pragmas make, in source order. The `else` of a loop is no part of it."""
    own = [p for p in pragmas if p.kind != "atomic"]
    found: list[Region] = []
    for p in sorted(own, key=lambda p: (p.line, -p.end_line)):
        if not found or p.line > found[-1].pragma.body_end:
            found.append(Region(p, [q for q in pragmas if p.line <= q.line <= p.body_end]))
    return found


def locate(assembly: Assembly, pragmas: Sequence[PlacedPragma], captures: Sequence[Capture] = ()) -> list[Region]:
    """The regions of a code object, those that hold others before them. A copy of a statement whose instructions are
    not those of the first copy makes a region of its own. A region without entries is one that cannot be entered,
    though its loop is there."""
    regions = outermost(pragmas)
    if not regions:
        return []
    depths = stack_depths(assembly)
    out: list[Region] = []
    for region in regions:
        kinds: dict[object, Region] = {}
        for entry in _copies(assembly, region, depths):
            shape = None if entry is None else _shape(assembly, entry)
            if shape not in kinds:
                kinds[shape] = Region(region.pragma, region.pragmas)
                out.append(kinds[shape])
            if entry is not None:
                kinds[shape].entries.append(entry)
    groups = _groups(assembly, out)
    return [*_captured(assembly, depths, captures, out, groups), *groups, *out]


def _captured(
    assembly: Assembly,
    depths: dict[Instr, int],
    captures: Sequence[Capture],
    regions: list[Region],
    groups: list[Region],
) -> list[Region]:
    """Groups that are captured: loops around regions, and what follows each other."""
    out: list[Region] = []
    loops: list[Region] = []
    for capture in reversed(captures):  # inner ones first: a run may begin or end with a loop
        inside = [r for r in regions if capture.line <= r.pragma.line and r.pragma.end_line <= capture.end_line]
        first = inside[0].pragma if inside else None
        if first is None:
            continue
        place = first._replace(
            kind=capture.kind,
            line=capture.line,
            end_line=capture.end_line,
            iter_line=capture.iter_line,
            iter_column=capture.iter_column,
            body_end=capture.end_line,
            items=(),
            statement=None,
        )
        found = Region(place, [p for r in inside for p in r.pragmas], True, True, capture.repeats)
        if capture.kind == "loop":
            entries = _entries_of(assembly, capture, place, depths)
            loops.append(found)
        else:
            entries = _spanned(assembly, depths, capture, [*loops, *regions])
        found.entries += [e for e in entries if e is not None]
        alike = len({_shape(assembly, e) for e in found.entries}) == 1
        complete = len(found.entries) == len(entries) and all(r.entries for r in inside)
        spans = [(e.begin, e.end) for e in found.entries]
        known = any([(e.begin, e.end) for e in g.entries] == spans for g in groups)
        if alike and complete and not known:
            out.insert(0, found)
    return out


def _entries_of(
    assembly: Assembly, capture: Capture, place: PlacedPragma, depths: dict[Instr, int]
) -> list[Entry | None]:
    if capture.leaves:
        return entries_of(assembly, capture, depths)
    return [
        _entry(assembly, index, place, depths)
        for index, instr in enumerate(assembly.instrs)
        if instr.name == "FOR_ITER" and _is_loop_of(assembly.instrs, index, place)
    ]


def _spanned(assembly: Assembly, depths: dict[Instr, int], capture: Capture, units: list[Region]) -> list[Entry | None]:
    """From each copy of the first statement of a run to the copy of the last one that follows it."""
    firsts = [e for r in units if r.pragma.line == capture.line for e in r.entries]
    lasts = [e for r in units if r.pragma.line == capture.last_line for e in r.entries]
    place = {instr: at for at, instr in enumerate(assembly.instrs)}
    out: list[Entry | None] = []
    for first in firsts:
        ends = [place[e.end] for e in lasts if place[e.begin] > place[first.begin] and not e.exits]
        end = min(ends, default=-1)
        if first.exits or end < 0 or any(e.exits for e in lasts):
            return []
        out.append(_checked_entry(assembly, place[first.begin], end, depths, first.depth))
    return out


def _groups(assembly: Assembly, regions: list[Region]) -> list[Region]:
    """Runs of annotated statements that follow each other, array statements among them: compiled together they are
    fused. Where a group cannot be compiled its statements are regions of their own."""
    out: list[Region] = []
    run: list[Region] = []
    for region in [*regions, None]:
        if run and region is not None and _follows(assembly, run[-1], region):
            run.append(region)
            continue
        if len(run) > 1 and any(r.pragma.kind != "loop" for r in run):
            pragma = run[0].pragma._replace(end_line=run[-1].pragma.end_line)
            group = Region(pragma, [p for r in run for p in r.pragmas], True)
            for entries in zip(*(r.entries for r in run)):
                returns = any(e.returns for e in entries)
                group.entries.append(Entry(entries[0].begin, entries[-1].end, entries[0].depth, returns))
            out.append(group)
        run = [region] if region is not None else []
    return out


def _follows(assembly: Assembly, first: Region, second: Region) -> bool:
    """Each copy of the one statement is followed by a copy of the other, under the same exception handlers."""
    adjacent = len(first.entries) == len(second.entries) and all(
        a.end is b.begin and a.depth == b.depth and not a.exits and not b.exits
        for a, b in zip(first.entries, second.entries)
    )
    if not adjacent:
        return False
    place = {instr: at for at, instr in enumerate(assembly.instrs)}

    def handlers_of(instr: Instr) -> list[Instr]:
        ends = len(place)
        return [
            h.target
            for h in assembly.handlers
            if place[h.start] <= place[instr] < (ends if h.end is None else place[h.end])
        ]

    return all(handlers_of(a.begin) == handlers_of(b.begin) for a, b in zip(first.entries, second.entries))


def _copies(assembly: Assembly, region: Region, depths: dict[Instr, int]) -> Iterator[Entry | None]:
    """The copies of a statement; None for one that cannot be entered."""
    instrs = assembly.instrs
    if region.pragma.kind != "loop":
        for begin, end in _spans(instrs, region.pragma):
            yield _checked_entry(assembly, begin, end, depths, depths.get(instrs[begin]))
        return
    for index, instr in enumerate(instrs):
        if instr.name == "FOR_ITER" and _is_loop_of(instrs, index, region.pragma):
            yield _entry_of(assembly, index, region, depths)


def _spans(instrs: list[Instr], pragma: PlacedPragma) -> Iterator[tuple[int, int]]:
    """Where the instructions of an assignment or an expression statement stand: it ends with what stores its value."""
    start = (pragma.line, pragma.iter_column)

    def inside(instr: Instr) -> bool:
        line, _, column, _ = instr.position
        if line is None or not pragma.line <= line <= pragma.end_line or instr.name == "RESUME":
            return False
        return column is None or (line, column) >= start

    at = 0
    while at < len(instrs):
        if not inside(instrs[at]):
            at += 1
            continue
        end = at
        while end < len(instrs) and inside(instrs[end]):
            end += 1
        last = end
        while last > at and not instrs[last - 1].name.startswith(("STORE_", "POP_TOP")):
            last -= 1
        if last > at and last < len(instrs):
            yield at, last
        at = end


def _is_loop_of(instrs: list[Instr], index: int, pragma: PlacedPragma) -> bool:
    instr = instrs[index]
    line, end_line, column, _ = instr.position
    if line is None:
        return False
    if column is None:  # -X no_debug_ranges: the first loop of that line that has a body below, or is all on it
        if line not in (pragma.line, pragma.iter_line) or instr.target is None:
            return False
        stop = instrs.index(instr.target)
        return pragma.end_line == pragma.line or any((i.position[0] or 0) > line for i in instrs[index:stop])
    # From 3.13 on FOR_ITER has the position of the iterable, before that of the whole statement.
    if (line, column) == (pragma.iter_line, pragma.iter_column):
        return True
    return (line, end_line) == (pragma.line, pragma.end_line) and (line, column) < (
        pragma.iter_line,
        pragma.iter_column,
    )


def _entry_of(assembly: Assembly, index: int, region: Region, depths: dict[Instr, int]) -> Entry | None:
    pragma = region.pragma
    if pragma.body_end < pragma.end_line:
        entry = _entry_with_exits(assembly, index, pragma, depths)
        if entry is not None:
            return entry
    entry = _entry(assembly, index, pragma, depths)
    return entry if entry is not None else _entry_with_exits(assembly, index, pragma, depths)


def _entry(assembly: Assembly, index: int, pragma: PlacedPragma, depths: dict[Instr, int]) -> Entry | None:
    instrs = assembly.instrs
    for_iter = instrs[index]
    if index == 0 or instrs[index - 1].name != "GET_ITER" or for_iter.target is None or for_iter not in depths:
        return None
    begin = _begin(instrs, index, pragma)
    stop = instrs.index(for_iter.target, index)
    stop += _LOOP_END
    while stop + 1 < len(instrs) and instrs[stop].name == "NOP" and instrs[stop].position[0] == pragma.line:
        stop += 1  # 3.13 leaves one between the loop and what follows it, copies of which a `break` may run into
    end = _after_else(instrs, begin, index, stop, pragma)
    if end is None:
        return None
    return _checked_entry(assembly, begin, end, depths, depths[for_iter] - 1)


def _checked_entry(
    assembly: Assembly, begin: int, end: int, depths: dict[Instr, int], depth: int | None
) -> Entry | None:
    """The instructions as an entry, or None where they are no statement that control enters at its beginning only."""
    instrs = assembly.instrs
    if depth is None or depths.get(instrs[begin]) != depth or depths.get(instrs[end], depth) != depth:
        return None
    inside = instrs[begin:end]
    members = set(inside[1:])
    for instr in instrs[:begin] + instrs[end:]:
        if instr.target in members:
            return None
    for handler in assembly.handlers:
        if handler.target in members and not begin <= instrs.index(handler.start) < end:
            return None
    return Entry(instrs[begin], instrs[end], depth, any(i.name in _RETURNS for i in inside))


def _entry_with_exits(assembly: Assembly, index: int, pragma: PlacedPragma, depths: dict[Instr, int]) -> Entry | None:
    instrs = assembly.instrs
    for_iter = instrs[index]
    if index == 0 or instrs[index - 1].name != "GET_ITER" or for_iter.target is None or for_iter not in depths:
        return None
    begin = _begin(instrs, index, pragma)
    stop = instrs.index(for_iter.target, index) + _LOOP_END
    if stop >= len(instrs):
        return None
    end, depth = instrs[stop], depths[for_iter] - 1
    place = {instr: at for at, instr in enumerate(instrs)}
    members = set(instrs[begin : index + 1])
    exits: list[Instr] = []
    work = [instrs[index + 1]]
    while work:
        instr = work.pop()
        if instr in members or instr is end or instr in exits:
            continue
        line = instr.position[0]
        # Jumps that the compiler made have no line.
        inside = begin <= place[instr] < stop if line is None else pragma.line <= line <= pragma.body_end
        if not inside:
            exits.append(instr)
            continue
        members.add(instr)
        if instr.target is not None:
            work.append(instr.target)
        if instr.op not in ENDS:
            if place[instr] + 1 == len(instrs):
                return None
            work.append(instrs[place[instr] + 1])
    exits.sort(key=place.__getitem__)
    if any(depths.get(instr, depth) != depth for instr in (instrs[begin], end, *exits)) or not exits:
        return None
    if not is_entered_once(assembly, instrs[begin], members):
        return None
    returns = any(i.name in _RETURNS for i in members)
    return Entry(instrs[begin], end, depth, returns, tuple(exits), frozenset(members))


def _begin(instrs: list[Instr], index: int, pragma: PlacedPragma) -> int:
    """Index of the first instruction that evaluates the iterable of the FOR_ITER at `index`."""
    begin = index - 1
    root = instrs[max(begin - 1, 0)].position
    while begin > 0:
        before = instrs[begin - 1]
        line, end_line, column, _ = before.position
        if line is None or before.name in _NOT_IN_ITERABLE:
            break
        if column is None:
            if not pragma.line <= line <= pragma.end_line or before.name == "POP_TOP":
                break
        else:
            start = (line, column)
            last = (root[1] or pragma.end_line, root[3] or 0)
            if start < (pragma.iter_line, pragma.iter_column) or start >= last:
                break
        begin -= 1
    return begin


def _after_else(instrs: list[Instr], begin: int, index: int, stop: int, pragma: PlacedPragma) -> int | None:
    """Index of the first instruction after the statement, or None where it cannot be told.

    Without a `break` the `else` block is no part of the region: it follows it. With one, the `break` jumps over it.
    """
    if stop >= len(instrs):
        return None
    body_line = max((i.position[0] or 0 for i in instrs[index + 1 : stop]), default=pragma.line)
    line = instrs[stop].position[0]
    if line is None or not body_line < line <= pragma.end_line or instrs[stop].name == "RERAISE":
        return stop
    place = {instr: at for at, instr in enumerate(instrs)}
    leaving = {place[i.target] for i in instrs[index + 1 : stop] if i.target and not begin <= place[i.target] < stop}
    if not leaving:
        return stop
    if len(leaving) != 1:
        return None
    end = leaving.pop()
    if end <= stop:
        return None
    for instr in instrs[stop:end]:
        at = instr.position[0]
        if at is not None and not body_line < at <= pragma.end_line:
            return None
    return end


def _shape(assembly: Assembly, entry: Entry) -> object:
    """Equal for copies of a statement that do the same."""
    instrs = assembly.instrs
    if entry.members:
        inside = [i for i in instrs if i in entry.members]
        ways = {instr: at for at, instr in enumerate((*inside, entry.end, *entry.exits))}
        ways |= {instr: ways[exit] for instr, exit in entry.copies.items()}
        return tuple((i.op, i.arg if i.target is None else ways.get(i.target, -1)) for i in inside)
    first, last = instrs.index(entry.begin), instrs.index(entry.end)
    place = {instr: at for at, instr in enumerate(instrs[first:last])}
    return tuple(
        (i.op, i.arg) if i.target is None else (i.op, place.get(i.target, -1 if i.target is entry.end else -2))
        for i in instrs[first:last]
    )
