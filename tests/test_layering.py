"""Folders of csrc/ have ranks and include only themselves and lower ranks; what is version- or library-specific stays
in its folder; files stay readable; the documents name what exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
RANKS = {
    "support": 0,
    "pycompat": 1,
    "ir": 1,
    "pragma": 1,
    "bytecode": 2,
    "passes": 2,
    "runtime": 2,
    "trace": 3,
    "cpu": 3,
    "gpu": 3,
    "": 4,  # the driver: jit.cpp and its helpers
    "frame": 5,
}
SOURCES = sorted(p for p in (ROOT / "csrc").rglob("*") if p.suffix in {".h", ".cpp", ".c", ".def"})
INCLUDE = re.compile(r'^\s*#\s*include\s+["<]([^">]+)[">]', re.MULTILINE)


def folder_of(path: Path) -> str:
    parts = path.relative_to(ROOT / "csrc").parts
    return parts[0] if len(parts) > 1 else ""


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(ROOT)))
def test_source_file(path):
    text = path.read_text()
    folder = folder_of(path)
    rank = 6 if path.name == "module.cpp" else RANKS[folder]
    for included in INCLUDE.findall(text):
        other = included.split("/")[0] if "/" in included else ""
        if other in RANKS and (other or (ROOT / "csrc" / included).exists()):
            lower = RANKS[other] < rank or other == folder
            assert lower, f"{path.name} (rank {rank}) includes {included} (rank {RANKS[other]})"
        if included.startswith("asmjit"):
            assert folder == "cpu", "only csrc/cpu includes asmjit"
        if "pycore_" in included or "internal/" in included:
            assert folder == "pycompat", "only csrc/pycompat includes CPython's internals"
        if included.startswith("pybind11"):
            assert path.name == "module.cpp", "pybind11 is for module.cpp"
    if folder != "pycompat":
        assert "PY_VERSION_HEX" not in text and "Py_BUILD_CORE" not in text, "CPython versions belong to csrc/pycompat"
    assert text.count("\n") <= 800, "past 800 lines a file is two files"


def test_files_of_tests_have_names_of_their_own():
    """Modules outside of packages are one name space."""
    names = [path.name for path in (ROOT / "tests").rglob("test_*.py")]
    assert sorted(names) == sorted(set(names))


def test_documents_name_what_exists():
    missing = []
    for document in [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "benchmarks").glob("*.md")]:
        text = document.read_text()
        for target in re.findall(r"\]\(([^)#:]+)\)", text):
            if not (document.parent / target).exists():
                missing.append((document.name, target))
        for target in re.findall(r"`((?:csrc|appy|tests|benchmarks|docs|scripts)/[\w/.-]+)`", text):
            if not (ROOT / target).exists():
                missing.append((document.name, target))
    assert not missing
