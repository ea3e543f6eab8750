"""Arrays that processes of the suite share: as in the file, private once written, in huge pages where the system has them."""

import mmap
import os
import re
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent.parent.parent / "benchmarks"))

from scientific import pages  # noqa: E402

IN_MEMORY = Path("/dev/shm")


@pytest.mark.parametrize(
    "array",
    [
        np.arange(24.0).reshape(2, 3, 4),
        np.asfortranarray(np.arange(12, dtype="int32").reshape(3, 4)),
        np.arange(5000, dtype="float32"),
        np.zeros((0, 3)),
        np.float64(7.0) * np.ones(()),
    ],
    ids=lambda a: f"{a.dtype}{a.shape}",
)
def test_loads_what_was_saved(tmp_path, array):
    np.save(tmp_path / "a.npy", array)
    loaded = pages.load(tmp_path / "a.npy")
    assert (loaded.dtype, loaded.shape, loaded.strides) == (array.dtype, array.shape, array.strides)
    assert np.array_equal(loaded, array)


def test_what_is_written_stays_in_the_process(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros(3000))
    loaded = pages.load(tmp_path / "a.npy")
    loaded[:] = 1
    assert not np.load(tmp_path / "a.npy").any()
    assert not pages.load(tmp_path / "a.npy").any()


def mapped_as_huge(address):
    """Bytes in huge pages of the mapping at an address."""
    found = None
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if bounds := re.match(r"([0-9a-f]+)-([0-9a-f]+) ", line):
            found = int(bounds[1], 16) <= address < int(bounds[2], 16)
        elif found and line.startswith(("ShmemPmdMapped", "FilePmdMapped")) and not line.split()[1] == "0":
            return int(line.split()[1]) << 10
    return 0


def gathers_pages() -> bool:
    """Whether the system does so where it is asked for memory of this process, and files in memory are not excepted."""
    setting = Path("/sys/kernel/mm/transparent_hugepage/shmem_enabled")
    if not os.access(IN_MEMORY, os.W_OK) or not setting.exists() or "[deny]" in setting.read_text():
        return False
    with mmap.mmap(-1, 2 * pages.HUGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        memory.write(bytes(2 * pages.HUGE))
        try:
            memory.madvise(pages.MADV_COLLAPSE)
        except OSError:
            return False
    return True


@pytest.mark.skipif(not gathers_pages(), reason="the system gathers no pages")
def test_maps_gathered_pages_as_huge_ones():
    path = IN_MEMORY / f"appy-test-pages-{os.getpid()}.npy"
    try:
        np.save(path, np.ones(3 * pages.HUGE // 8))
        assert pages.gather(path)
        loaded = pages.load(path)
        assert loaded.sum() == loaded.size
        assert loaded.ctypes.data % 64 == 0
        assert mapped_as_huge(loaded.ctypes.data) >= 2 * pages.HUGE
    finally:
        path.unlink(missing_ok=True)


def test_unmaps_what_nobody_holds(tmp_path):
    np.save(tmp_path / "a.npy", np.ones(1000))
    part = pages.load(tmp_path / "a.npy")[10:]
    assert "a.npy" in Path("/proc/self/maps").read_text()
    assert part.sum() == 990
    del part
    assert "a.npy" not in Path("/proc/self/maps").read_text()


def test_names_a_file_that_is_not_there(tmp_path):
    assert not pages.gather(tmp_path / "none.npy")
    with pytest.raises(FileNotFoundError, match="none.npy"):
        pages.load(tmp_path / "none.npy")
