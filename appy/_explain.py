"""``appy.explain(f)``: what became of each region of a function, and why."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from . import _C
from ._rewrite import regions_of

if TYPE_CHECKING:
    from ._captures import Hindrance


class Explanation:
    """The report as text (``str``, and what a prompt shows) and as data (``regions``, one dict each)."""

    def __init__(self, name: str, regions: list[dict[str, Any]]) -> None:
        self.name = name
        self.regions = regions
        self.tuned: dict[str, dict[str, Any] | None] = {}
        self.hindrances: list[Hindrance] = []

    def __str__(self) -> str:
        if not self.regions:
            return f"{self.name}: no region"
        lines = [line for region in self.regions if self._is_shown(region) for line in _region_lines(region)]
        for line, at, text in self.hindrances:
            where = "it is no `while` loop and none over `range`" if at == line else f"line {at}, `{text[:60]}`, is not"
            what = "" if at == line else " an annotated statement, an assignment, an `if` or a loop of those"
            lines.append(f"the loop at line {line} stays in the interpreter, which starts its regions: {where}{what}")
        for kind, values in self.tuned.items():
            what = ", ".join(f"{name} = {value}" for name, value in (values or {}).items())
            lines.append(f"tuned for ({kind}): {what or 'candidates are measured'}")
        return "\n".join(lines)

    def _is_shown(self, region: dict[str, Any]) -> bool:
        """Statements that only ever ran as part of a group have nothing of their own to tell."""
        stats = region["stats"]
        if region["specializations"] or stats["runs"] or stats["declined"]:
            return True
        if region["group"]:
            return False
        return not any(
            group is not region
            and group["stats"]["runs"]
            and group["line"] <= region["line"]
            and region["end_line"] <= group["end_line"]
            for group in self.regions
        )

    __repr__ = __str__


def explain(function: Callable[..., Any]) -> Explanation:
    """Reports on every region of a decorated or transparently compiled function, and prints the report.

    For each statement: whether it runs compiled and for which types, the loops with their vector width and threads, the
    passes that changed something, and for what stays in the interpreter the reason and the remedy; for a loop around
    annotated statements that is not one region with them, the statement that keeps it from that (`hindrances`).
    """
    from .pragmas import hindrances_of

    inner: Any = function
    tuner = getattr(inner, "__appy_tuner__", None)
    while hasattr(inner, "__wrapped__"):
        inner = inner.__wrapped__
        tuner = tuner or getattr(inner, "__appy_tuner__", None)
    code = getattr(getattr(inner, "__func__", inner), "__code__", None)
    if code is None:
        raise TypeError(f"appy.explain takes a function, not {type(function).__name__}")
    regions = list(regions_of(code)) if tuner is None else _used(tuner)
    reports = [_C.region_report(region) for region in regions]
    explanation = Explanation(code.co_qualname, [r for r in reports if r is not None])
    explanation.hindrances = hindrances_of(code) if regions else []
    if tuner is not None:
        explanation.tuned = tuner.chosen()
    print(explanation)
    return explanation


def _used(tuner: Any) -> list[Any]:
    """The regions of the variants that were chosen, or of all where none is yet."""
    best = {k.best for k in tuner.kinds.values() if k.best is not None}
    variants = [tuner.variants[k] for k in sorted(best)] or [tuner.base, *tuner.variants]
    return [region for variant in variants for region in regions_of(variant.__code__)]


def _region_lines(region: dict[str, Any]) -> list[str]:
    stats = region["stats"]
    lines = [
        f"{region['file']}, lines {region['line']}-{region['end_line']}, in {region['name']}:",
        f"  entered {stats['runs'] + stats['declined']} times, {stats['runs']} compiled",
    ]
    lines += _source_lines(region)
    if not region["specializations"]:
        lines.append("  not entered yet" if not stats["declined"] else "  not compiled")
    for one in region["specializations"]:
        lines += _specialization_lines(one)
    if region["last_decline"]:
        lines.append(f"  last left to the interpreter because {region['last_decline']}")
    return lines


def _source_lines(region: dict[str, Any]) -> list[str]:
    """The statement's source, each line marked with what the last specialization made of it."""
    import linecache

    if not region["specializations"]:
        return []
    last = region["specializations"][-1]
    out = []
    for number in range(region["line"], region["end_line"] + 1):
        text = linecache.getline(region["file"], number).rstrip()
        if last["compiled"]:
            mark = "+"
        else:
            mark = "!" if last["line"] == number else "-"
        out.append(f"  {mark} {number:4} {text}")
    return out


def _specialization_lines(one: dict[str, Any]) -> list[str]:
    kind = ", in order, for arrays that overlap" if one["sequential"] else ""
    lines = [f"  for {one['signature'] or 'no inputs'}{kind}:"]
    if one["compiled"]:
        parts = ", ".join(f"{part} {one[part + '_seconds'] * 1e3:.2f}" for part in ("trace", "passes", "backend"))
        lines.append(f"    compiled in {one['compile_seconds'] * 1e3:.2f} ms ({parts}), run {one['runs']} times")
        lines += [f"    {row}" for row in one["summary"].splitlines()]
        if one["arrays"]:
            lines.append(f"    {one['arrays']}")
        if one["passes"]:
            where = ", read from the cache" if one["passes_from_disk"] else ""
            lines.append(f"    changed by {', '.join(one['passes'])}{where}")
    else:
        where = f"{one['file']}, line {one['line']}: " if one["line"] else ""
        lines.append(f"    not compiled: {where}{one['reason']} [{one['abort']}]")
        if one["remedy"]:
            lines.append(f"    remedy: {one['remedy']}")
    for remark in one["remarks"]:
        lines.append(f"    {'warning' if remark['warning'] else 'remark'}, line {remark['line']}: {remark['text']}")
    return lines
