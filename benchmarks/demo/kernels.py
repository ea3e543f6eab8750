"""Kernels on terrain, photographs and graphs: plain Python, whose pragmas are comments.

Nothing here imports appy. `python file.py` runs the loops in the interpreter, `python -m appy file.py` as machine code.
"""

import math


def refine(coarse, fine):
    """Bilinear interpolation of ``coarse`` (h, w) at the points of ``fine`` (H, W), corners on corners."""
    h, w = coarse.shape
    sy = (h - 1) / (fine.shape[0] - 1)
    sx = (w - 1) / (fine.shape[1] - 1)
    # pragma parallel for
    for i in range(fine.shape[0]):
        y = i * sy
        y0 = min(int(y), h - 2)
        fy = y - y0
        # pragma simd
        for j in range(fine.shape[1]):
            x = j * sx
            x0 = min(int(x), w - 2)
            fx = x - x0
            top = coarse[y0, x0] + fx * (coarse[y0, x0 + 1] - coarse[y0, x0])
            bottom = coarse[y0 + 1, x0] + fx * (coarse[y0 + 1, x0 + 1] - coarse[y0 + 1, x0])
            fine[i, j] = top + fy * (bottom - top)


def slope(z, dx, dy, out):
    """Steepness in radians of the elevation ``z`` (H, W), central differences; the border stays as it is."""
    # pragma parallel for
    for i in range(1, z.shape[0] - 1):
        # pragma simd
        for j in range(1, z.shape[1] - 1):
            gx = (z[i, j + 1] - z[i, j - 1]) / (2 * dx)
            gy = (z[i + 1, j] - z[i - 1, j]) / (2 * dy)
            out[i, j] = math.atan(math.sqrt(gx * gx + gy * gy))


def hillshade(z, dx, dy, azimuth, altitude, out):
    """Lambertian shading of ``z`` by a sun at these angles (radians)."""
    lx = math.sin(azimuth) * math.cos(altitude)
    ly = math.cos(azimuth) * math.cos(altitude)
    lz = math.sin(altitude)
    # pragma parallel for
    for i in range(1, z.shape[0] - 1):
        # pragma simd
        for j in range(1, z.shape[1] - 1):
            gx = (z[i, j + 1] - z[i, j - 1]) / (2 * dx)
            gy = (z[i + 1, j] - z[i - 1, j]) / (2 * dy)
            shade = (lz - gx * lx - gy * ly) / math.sqrt(1.0 + gx * gx + gy * gy)
            out[i, j] = max(0.0, shade)


def smooth(z, buffer, steps):
    """``steps`` pairs of five-point averaging sweeps, in place."""
    for _step in range(steps):
        # pragma parallel for
        for i in range(1, z.shape[0] - 1):
            # pragma simd
            for j in range(1, z.shape[1] - 1):
                buffer[i, j] = 0.2 * (z[i, j] + z[i, j - 1] + z[i, j + 1] + z[i - 1, j] + z[i + 1, j])
        # pragma parallel for
        for i in range(1, z.shape[0] - 1):
            # pragma simd
            for j in range(1, z.shape[1] - 1):
                across = buffer[i, j - 1] + buffer[i, j + 1]
                z[i, j] = 0.2 * (buffer[i, j] + across + buffer[i - 1, j] + buffer[i + 1, j])


def unsharp(photo, blurred, out, amount):
    """A five-tap binomial unsharp mask of ``photo`` (H, W, uint8) with a float32 row buffer ``blurred`` (H, W)."""
    h, w = photo.shape
    # pragma parallel for
    for i in range(h):
        # pragma simd
        for j in range(2, w - 2):
            side = float(photo[i, j - 2]) + float(photo[i, j + 2])
            near = float(photo[i, j - 1]) + float(photo[i, j + 1])
            blurred[i, j] = (side + 4.0 * near + 6.0 * float(photo[i, j])) / 16.0
    # pragma parallel for
    for i in range(2, h - 2):
        # pragma simd
        for j in range(2, w - 2):
            side = blurred[i - 2, j] + blurred[i + 2, j]
            near = blurred[i - 1, j] + blurred[i + 1, j]
            blur = (side + 4.0 * near + 6.0 * blurred[i, j]) / 16.0
            sharp = photo[i, j] + amount * (photo[i, j] - blur)
            out[i, j] = int(min(255.0, max(0.0, sharp + 0.5)))


def downhill(z, total):
    """Sum of the drops from each cell of ``z`` (H, W) to its lower neighbours, into ``total`` (H, W)."""
    h, w = z.shape
    # pragma parallel for
    for i in range(1, h - 1):
        # pragma simd
        for j in range(1, w - 1):
            s = 0.0
            for di in range(-1, 2):
                for dj in range(-1, 2):
                    s += max(0.0, z[i, j] - z[i + di, j + dj])
            total[i, j] = s


def count_donors(z, count):
    """How many higher neighbours drain into each cell: ``count`` (H*W + 1,) gets them shifted by one place."""
    h, w = z.shape
    # pragma parallel for
    for i in range(1, h - 1):
        # pragma simd
        for j in range(1, w - 1):
            c = 0
            for di in range(-1, 2):
                for dj in range(-1, 2):
                    inside = 0 < i + di < h - 1 and 0 < j + dj < w - 1
                    if inside and z[i + di, j + dj] > z[i, j]:
                        c += 1
            count[i * w + j + 1] = c


def prefix_sum(count):
    """Running sum in place."""
    # pragma sequential for
    for i in range(1, len(count)):
        count[i] += count[i - 1]


def fill_donors(z, total, ptr, idx, val):
    """CSR rows of the flow graph: row i holds the donors of cell i and the share of their water that it gets."""
    h, w = z.shape
    # pragma parallel for
    for i in range(1, h - 1):
        for j in range(1, w - 1):
            at = ptr[i * w + j]
            for di in range(-1, 2):
                for dj in range(-1, 2):
                    inside = 0 < i + di < h - 1 and 0 < j + dj < w - 1
                    if inside and z[i + di, j + dj] > z[i, j]:
                        idx[at] = (i + di) * w + j + dj
                        val[at] = (z[i + di, j + dj] - z[i, j]) / total[i + di, j + dj]
                        at += 1


def spmv(ptr, idx, val, x, y):
    """y = A x for the CSR matrix (ptr, idx, val)."""
    # pragma parallel for
    for i in range(len(y)):
        s = 0.0
        # pragma simd
        for k in range(ptr[i], ptr[i + 1]):
            s += val[k] * x[idx[k]]
        y[i] = s


def pagerank(ptr, idx, val, leaks, rank, buffer, damping, steps):
    """``steps`` power iterations; ``leaks`` marks the cells that pass nothing on (their rank is spread evenly)."""
    n = len(rank)
    for _step in range(steps):
        lost = 0.0
        # pragma parallel for simd reduction(+: lost)
        for i in range(n):
            if leaks[i]:
                lost += rank[i]
        base = (1.0 - damping + damping * lost) / n
        # pragma parallel for
        for i in range(n):
            s = 0.0
            # pragma simd
            for k in range(ptr[i], ptr[i + 1]):
                s += val[k] * rank[idx[k]]
            buffer[i] = base + damping * s
        # pragma parallel for simd
        for i in range(n):
            rank[i] = buffer[i]
