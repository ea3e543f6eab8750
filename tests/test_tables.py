"""Tables are used and documented: no row of aborts.def, checks.def or ops.def that nobody raises or emits."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
CSRC = ROOT / "csrc"


def rows(table: str) -> list[str]:
    return re.findall(r"^X\((\w+)", (CSRC / table).read_text(), re.MULTILINE)


def sources(*folders: str) -> str:
    files = [p for folder in folders for p in (CSRC / folder).rglob("*") if p.suffix in {".cpp", ".h", ".c", ".def"}]
    return "\n".join(p.read_text() for p in files if p.name not in {"aborts.def", "checks.def", "ops.def"})


@pytest.mark.parametrize("row", rows("support/aborts.def"))
def test_every_abort_is_raised(row):
    assert re.search(rf"AbortId::{row}_\b", sources("")), f"nobody raises {row}"


@pytest.mark.parametrize("row", rows("support/aborts.def"))
def test_every_abort_has_message_and_remedy(row):
    text = (CSRC / "support/aborts.def").read_text()
    body = re.search(rf'^X\({row},\s*"((?:[^"\\]|\\.)*)"\s*,\s*"((?:[^"\\]|\\.)*)"\)', text, re.MULTILINE)
    assert body and body.group(1) and body.group(2)


@pytest.mark.parametrize("row", rows("ir/checks.def"))
def test_every_check_is_emitted(row):
    assert re.search(rf"CheckKind::{row}_\b", sources("trace", "passes") + (CSRC / "ir/sizes.cpp").read_text())


@pytest.mark.parametrize("row", rows("ir/ops.def"))
def test_every_op_is_documented_and_emitted(row):
    assert re.search(rf"`{row}`", (ROOT / "docs/ir.md").read_text()), f"{row} is missing in docs/ir.md"
    used = sources("trace", "passes", "ir")
    assert re.search(rf"\b{row}_?\b", used)


@pytest.mark.parametrize("row", sorted(set(rows("passes/passes.def"))))
def test_every_pass_has_a_file_and_goldens(row):
    assert list((CSRC / "passes").glob(f"{row}*.cpp"))
    assert list((ROOT / "tests/ir" / row).glob("*.ir"))


def table(page: str, heading: str) -> set[str]:
    """The first column of the table under a heading of a document."""
    section = re.split(r"^## ", (ROOT / "docs" / page).read_text(), flags=re.MULTILINE)
    (body,) = [part for part in section if part.startswith(heading)]
    return set(re.findall(r"^\| `(\w+)` \|", body, re.MULTILINE))


def test_environment_variables_are_documented():
    python = "\n".join(p.read_text() for p in (ROOT / "appy").glob("*.py"))
    used = set(re.findall(r'"(APPY_[A-Z_]+)"', sources("") + python))
    assert table("options.md", "Environment variables") == used


def test_configuration_is_documented():
    import appy

    assert table("options.md", "`appy.config`") == set(appy.config())


def test_build_options_are_documented():
    declared = set(re.findall(r"^option\((\w+)", (ROOT / "CMakeLists.txt").read_text(), re.MULTILINE))
    assert table("options.md", "Building") == declared


def test_decorator_options_are_documented():
    from appy._jit import _DEFAULTS

    section = (ROOT / "docs/language.md").read_text().split("## `@appy.jit`")[1].split("\n## ")[0]
    missing = [name for name in _DEFAULTS if f"`{name}`" not in section]
    assert not missing


def test_generated_tables_are_up_to_date():
    subprocess.run([sys.executable, ROOT / "scripts" / "gen_docs", "--check"], check=True)
