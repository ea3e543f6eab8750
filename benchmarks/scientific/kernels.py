"""What there is to know of each kernel besides its code: sizes, what it writes, and the work that it cannot avoid.

The sizes are NPBench's; `tiny` is for tests. `bytes` counts each element that must come from memory, or go there, once,
as if everything between were kept in caches and registers; `flops` counts additions, multiplications, divisions,
comparisons and calls of elementary functions that the definition needs, one each.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from scientific.data import MAKERS

PRESETS = ("tiny", "S", "M", "L", "paper")


@dataclass(frozen=True)
class Kernel:
    name: str
    sizes: dict[str, dict[str, int]]  # by preset
    written: tuple[int, ...]  # positions of the arguments that it writes
    bytes: Callable[..., int]  # of the sizes
    flops: Callable[..., int]
    dtype: str = "float64"  # of the arithmetic
    only_reads: bool = False  # what it writes is small beside that
    uneven: bool = False  # its data is a fixed point of the kernel: results are compared on others

    def arguments(self, preset: str) -> tuple:
        return MAKERS[self.name](**self.sizes[preset])

    def compared_arguments(self, preset: str) -> tuple:
        """Arguments on which a version that does nothing is found out."""
        arguments = self.arguments(preset)
        if self.uneven:
            rng = np.random.default_rng(3)
            arguments = tuple(a + rng.random(a.shape) if isinstance(a, np.ndarray) else a for a in arguments)
        return arguments

    def work(self, preset: str) -> tuple[int, int]:
        """Bytes and flops."""
        return self.bytes(**self.sizes[preset]), self.flops(**self.sizes[preset])


KERNELS: dict[str, Kernel] = {}


def kernel(name, names, *sizes, written=(), bytes, flops, dtype="float64", only_reads=False, uneven=False):
    """Registers a kernel; `sizes` are those of the presets, in the order of `names`."""
    by_preset = {preset: dict(zip(names.split(), size)) for preset, size in zip(PRESETS, sizes)}
    KERNELS[name] = Kernel(name, by_preset, written, bytes, flops, dtype, only_reads, uneven)


kernel(
    "azimint_naive", "N npt", (300, 7), (400_000, 1000), (4_000_000, 1000), (40_000_000, 1000), (1_000_000, 1000),
    bytes=lambda N, npt: 16 * N + 8 * npt,
    flops=lambda N, npt: 2 * N * npt + N,
    only_reads=True,
)  # fmt: skip
kernel(
    "cholesky", "N", (21,), (100,), (300,), (900,), (2000,),
    written=(0,),
    bytes=lambda N: 8 * N * N,
    flops=lambda N: N**3 // 3,
)  # fmt: skip
kernel(
    "covariance", "M N", (19, 26), (500, 600), (1400, 1800), (3200, 4000), (1200, 1400),
    written=(2,),
    bytes=lambda M, N: 8 * (2 * N * M + M * M),
    flops=lambda M, N: M * M * N + 2 * N * M,
)  # fmt: skip
kernel(
    "fdtd_2d", "TMAX NX NY", (4, 20, 23), (20, 200, 220), (60, 400, 450), (150, 800, 900), (500, 1000, 1200),
    written=(1, 2, 3),
    bytes=lambda TMAX, NX, NY: 48 * NX * NY + 8 * TMAX,
    flops=lambda TMAX, NX, NY: 11 * TMAX * NX * NY,
)  # fmt: skip
kernel(
    "floyd_warshall", "N", (23,), (200,), (400,), (850,), (2800,),
    written=(0,),
    bytes=lambda N: 8 * N * N,
    flops=lambda N: 2 * N**3,
    dtype="int32",
)  # fmt: skip
kernel(
    "gemm", "NI NJ NK", (17, 19, 23), (1000, 1100, 1200), (2500, 2750, 3000), (7000, 7500, 8000), (2000, 2300, 2600),
    written=(2,),
    bytes=lambda NI, NJ, NK: 8 * (NI * NK + NK * NJ + 2 * NI * NJ),
    flops=lambda NI, NJ, NK: 2 * NI * NJ * NK + 3 * NI * NJ,
)  # fmt: skip
# The matrix is read a second time: x must be complete before w.
kernel(
    "gemver", "N", (37,), (1000,), (3000,), (10_000,), (8000,),
    written=(2, 7, 8),
    bytes=lambda N: 24 * N * N + 88 * N,
    flops=lambda N: 8 * N * N,
)  # fmt: skip
kernel(
    "gesummv", "N", (37,), (2000,), (4000,), (14_000,), (11_200,),
    bytes=lambda N: 16 * N * N + 16 * N,
    flops=lambda N: 4 * N * N,
    only_reads=True,
)  # fmt: skip
kernel(
    "go_fast", "N", (37,), (2000,), (6000,), (20_000,), (12_500,),
    bytes=lambda N: 16 * N * N,
    flops=lambda N: N * N + 2 * N,
)  # fmt: skip
kernel(
    "gramschmidt", "M N", (24, 21), (70, 60), (220, 180), (600, 500), (240, 200),
    written=(0,),
    bytes=lambda M, N: 8 * (3 * M * N + N * N),
    flops=lambda M, N: 2 * M * N * N,
)  # fmt: skip
kernel(
    "hdiff", "I J K", (9, 10, 7), (64, 64, 60), (128, 128, 160), (384, 384, 160), (256, 256, 160),
    written=(1,),
    bytes=lambda I, J, K: 8 * K * ((I + 4) * (J + 4) + 2 * I * J),
    flops=lambda I, J, K: K * (5 * (I + 2) * (J + 2) + 4 * (I + 1) * J + 4 * I * (J + 1) + 5 * I * J),
)  # fmt: skip
kernel(
    "heat_3d", "TSTEPS N", (4, 12), (25, 25), (50, 40), (100, 70), (500, 120),
    written=(1, 2),
    bytes=lambda TSTEPS, N: 24 * N**3,
    flops=lambda TSTEPS, N: 30 * (TSTEPS - 1) * (N - 2) ** 3,
    uneven=True,
)  # fmt: skip
kernel(
    "jacobi_1d", "TSTEPS N", (5, 90), (800, 3200), (3000, 12_000), (8500, 34_000), (4000, 32_000),
    written=(1, 2),
    bytes=lambda TSTEPS, N: 24 * N,
    flops=lambda TSTEPS, N: 6 * (TSTEPS - 1) * (N - 2),
)  # fmt: skip
kernel(
    "jacobi_2d", "TSTEPS N", (5, 30), (50, 150), (80, 350), (200, 700), (1000, 2800),
    written=(1, 2),
    bytes=lambda TSTEPS, N: 24 * N * N,
    flops=lambda TSTEPS, N: 10 * (TSTEPS - 1) * (N - 2) ** 2,
)  # fmt: skip
kernel(
    "softmax", "N H SM", (2, 3, 37), (16, 16, 128), (32, 8, 256), (64, 16, 448), (64, 16, 512),
    bytes=lambda N, H, SM: 8 * N * H * SM * SM,
    flops=lambda N, H, SM: 5 * N * H * SM * SM,
    dtype="float32",
)  # fmt: skip
kernel(
    "spmv", "M N nnz", (60, 50, 200), (4096, 4096, 8192), (32_768, 32_768, 65_536), (262_144, 262_144, 262_144),
    (131_072, 131_072, 262_144),
    bytes=lambda M, N, nnz: 12 * nnz + 4 * (M + 1) + 8 * N + 8 * M,
    flops=lambda M, N, nnz: 2 * nnz,
    only_reads=True,
)  # fmt: skip
kernel(
    "symm", "M N", (17, 22), (40, 50), (120, 150), (350, 550), (1000, 1200),
    written=(2,),
    bytes=lambda M, N: 8 * (3 * M * N + M * M // 2),
    flops=lambda M, N: 2 * M * M * N + 2 * M * N,
)  # fmt: skip
kernel(
    "syr2k", "M N", (12, 20), (35, 50), (110, 140), (350, 400), (1000, 1200),
    written=(2,),
    bytes=lambda M, N: 8 * (N * N + 2 * N * M),
    flops=lambda M, N: 2 * N * N * M,
)  # fmt: skip
kernel(
    "syrk", "M N", (12, 20), (50, 70), (150, 200), (500, 600), (1000, 1200),
    written=(2,),
    bytes=lambda M, N: 8 * (N * N + N * M),
    flops=lambda M, N: N * N * M,
)  # fmt: skip
kernel(
    "trisolv", "N", (37,), (2000,), (5000,), (14_000,), (16_000,),
    written=(1,),
    bytes=lambda N: 4 * N * N + 24 * N,
    flops=lambda N: N * N,
    only_reads=True,
)  # fmt: skip
kernel(
    "trmm", "M N", (20, 22), (65, 80), (200, 250), (600, 700), (1000, 1200),
    written=(2,),
    bytes=lambda M, N: 8 * (M * M // 2 + 2 * M * N),
    flops=lambda M, N: M * M * N + M * N,
)  # fmt: skip
