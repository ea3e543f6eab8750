"""Kernels of the parity programs compile with NVIDIA's own compiler to machine code for devices that are not here.

One dtype of each program, and a sample of the others, for sm_90; samples for sm_80 and sm_100.
``APPY_NVRTC_ALL=1`` compiles all for all, which takes longer than the limit of a test: ``--timeout 0``.
"""

from __future__ import annotations

import concurrent.futures
import multiprocessing
import os
import re

import kernels

BATCH = 25


def file_of(batch: list[str], delays: bool = False) -> str:
    """One source: the headers are read once. Kernels have namespaces of their own, but no names."""
    text = ("#define APPY_DELAYS 7ull\n" if delays else "") + '#include "appy_product.h"\n#include "appy_update.h"\n'
    for number, kernel in enumerate(batch):
        kernel = re.sub(r'#include "appy_(device|product|update).h"\n', "", kernel).replace(
            " kernel(", f" kernel_{number}("
        )
        # Other shapes are other instances of the headers' templates.
        lanes = (32, 1, 256, 8)[number % 4]
        kernel = re.sub(r"kLanes = \d+", f"kLanes = {lanes}", kernel)
        text += f"namespace n{number} {{\n{kernel}}}  // n{number}\n"
    return text


def compile_batch(job: tuple[list[str], int]) -> tuple[int, str]:
    """How many kernels are in the machine code, or what went wrong."""
    from appy import _C

    batch, capability = job
    options = ["--std=c++17", "--fmad=false", "--extra-device-vectorization"]
    try:
        # Some with the delays that look for missing barriers.
        text = file_of(batch, delays=capability == 80)
        made = _C.gpu_compile("kernels.cu", text, capability, _C.gpu_headers(), options)
    except Exception as error:  # it travels to another process as text
        return 0, str(error)[:2000]
    if made["ptx"] or made["architecture"] != capability:
        return 0, f"made for {made['architecture']} instead of {capability}"
    return sum(f".text.kernel_{k}\0".encode() in made["code"] for k in range(len(batch))), made["log"]


def sample(texts: dict[str, tuple[int, str]]) -> list[tuple[str, int]]:
    chosen = []
    for number, (text, (dtype, _)) in enumerate(texts.items()):
        everything = os.environ.get("APPY_NVRTC_ALL") == "1"
        if everything or dtype == 0 or number % 12 == 0:
            chosen.append((text, 90))
        if everything or number % 20 == 0:
            chosen.append((text, 80))
        if everything or number % 20 == 10:
            chosen.append((text, 100))
    return chosen


def test_own_kernels_compile(monkeypatch):
    from appy import _C

    for name in ("APPY_LIBCUDA", "APPY_LIBNVRTC"):
        monkeypatch.delenv(name, raising=False)
    for text in _C.gpu_own_kernels():
        for capability in (80, 90, 100):
            made = _C.gpu_compile("own.cu", text, capability, [], [])
            assert not made["ptx"] and not made["log"] and made["architecture"] == capability


def test_every_kernel_compiles(monkeypatch):
    texts = kernels.texts()
    assert len(texts) > 1000
    for name in ("APPY_LIBCUDA", "APPY_LIBNVRTC"):
        monkeypatch.delenv(name, raising=False)
    chosen = sample(texts)
    jobs = []
    for capability in (80, 90, 100):
        mine = [text for text, wanted in chosen if wanted == capability]
        jobs += [(mine[k : k + BATCH], capability) for k in range(0, len(mine), BATCH)]
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(min(os.cpu_count() or 1, 8), mp_context=context) as pool:
        for (batch, capability), (compiled, log) in zip(jobs, pool.map(compile_batch, jobs)):
            names = {texts[text][1] for text in batch}
            assert compiled == len(batch), f"sm_{capability}: {log}\n{sorted(names)}"
