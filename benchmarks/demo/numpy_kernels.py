"""What a NumPy and SciPy user writes for the kernels of kernels.py. Same signatures, same results."""

import numpy as np
from scipy import sparse


def refine(coarse, fine):
    h, w = coarse.shape
    y = np.arange(fine.shape[0]) * ((h - 1) / (fine.shape[0] - 1))
    x = np.arange(fine.shape[1]) * ((w - 1) / (fine.shape[1] - 1))
    y0, x0 = np.minimum(y.astype(int), h - 2), np.minimum(x.astype(int), w - 2)
    fx = x - x0
    columns = coarse[:, x0] + fx * (coarse[:, x0 + 1] - coarse[:, x0])
    fine[:] = columns[y0] + (y - y0)[:, None] * (columns[y0 + 1] - columns[y0])


def _gradient(z, dx, dy):
    return (z[1:-1, 2:] - z[1:-1, :-2]) / (2 * dx), (z[2:, 1:-1] - z[:-2, 1:-1]) / (2 * dy)


def slope(z, dx, dy, out):
    gx, gy = _gradient(z, dx, dy)
    out[1:-1, 1:-1] = np.arctan(np.sqrt(gx * gx + gy * gy))


def hillshade(z, dx, dy, azimuth, altitude, out):
    gx, gy = _gradient(z, dx, dy)
    lx, ly = np.sin(azimuth) * np.cos(altitude), np.cos(azimuth) * np.cos(altitude)
    shade = (np.sin(altitude) - gx * lx - gy * ly) / np.sqrt(1.0 + gx * gx + gy * gy)
    out[1:-1, 1:-1] = np.maximum(0.0, shade)


def smooth(z, buffer, steps):
    for _step in range(steps):
        for a, b in ((z, buffer), (buffer, z)):
            b[1:-1, 1:-1] = 0.2 * (a[1:-1, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:] + a[:-2, 1:-1] + a[2:, 1:-1])


def unsharp(photo, blurred, out, amount):
    p = photo.astype(float)
    blurred[:, 2:-2] = (p[:, :-4] + p[:, 4:] + 4.0 * (p[:, 1:-3] + p[:, 3:-1]) + 6.0 * p[:, 2:-2]) / 16.0
    b = blurred[:, 2:-2]
    blur = (b[:-4] + b[4:] + 4.0 * (b[1:-3] + b[3:-1]) + 6.0 * b[2:-2]) / 16.0
    centre = photo[2:-2, 2:-2]
    sharp = centre + np.float32(amount) * (centre - blur)
    out[2:-2, 2:-2] = np.clip(sharp + np.float32(0.5), 0.0, 255.0).astype(np.uint8)


def spmv(ptr, idx, val, x, y):
    matrix = sparse.csr_matrix((val, idx, ptr), shape=(len(y), len(x)))
    y[:] = matrix @ x


def pagerank(ptr, idx, val, leaks, rank, buffer, damping, steps):
    n = len(rank)
    matrix = sparse.csr_matrix((val, idx, ptr), shape=(n, n))
    for _step in range(steps):
        lost = rank[leaks].sum()
        buffer[:] = (1.0 - damping + damping * lost) / n + damping * (matrix @ rank)
        rank[:] = buffer
