"""The main job: terrain and photograph of Matplotlib's sample data, refined to SIZE x SIZE, through every kernel.

usage: python terrain.py SIZE RESULT.npz           in the interpreter
       python -m appy terrain.py SIZE RESULT.npz   the same file, compiled
Times each kernel, and writes the times and every result. With --compare the same is done in NumPy and the largest
differences are written too; with --pictures the results are thinned to about 1024 x 1024.
"""

import os
import sys
import time

import kernels
import numpy as np

AZIMUTH, ALTITUDE, AMOUNT, DAMPING = 5.5, 0.7, 1.5, 0.85
SMOOTH_STEPS, RANK_STEPS = 5, 5


def sample_data():
    """The elevation model (344, 403) in metres with its cell sizes, and the photograph's luminance, uint8."""
    import matplotlib.cbook
    import matplotlib.image

    with matplotlib.cbook.get_sample_data("jacksboro_fault_dem.npz") as dem:
        z = dem["elevation"].astype(float)
        dy = 111200.0 * dem["dy"]
        dx = 111200.0 * dem["dx"] * np.cos(np.radians(dem["ymin"]))
    with matplotlib.cbook.get_sample_data("grace_hopper.jpg") as file:
        rgb = matplotlib.image.imread(file, format="jpg")
    luminance = np.round(rgb @ np.array([0.299, 0.587, 0.114]))
    return z, float(dx), float(dy), luminance


def clock(times, name, function, *args, repeat):
    """Calls once for its effect, then times ``repeat`` calls; keeps the first and the median in seconds."""
    start = time.perf_counter()
    function(*args)
    first = time.perf_counter() - start
    runs = []
    for _ in range(repeat):
        start = time.perf_counter()
        function(*args)
        runs.append(time.perf_counter() - start)
    times[name] = (first, float(np.median(runs)) if runs else first)


def run(size, module, repeat, graph_z=None):
    """Every kernel of ``module`` (this folder's kernels or numpy_kernels) once, plus ``repeat`` timed calls."""
    coarse, dx, dy, luminance = sample_data()
    dx *= coarse.shape[1] / size
    dy *= coarse.shape[0] / size
    times, results = {}, {}

    z = np.zeros((size, size))
    clock(times, "refine", module.refine, coarse, z, repeat=repeat)
    photo_f = np.zeros((size, size))
    module.refine(luminance, photo_f)
    photo = np.round(photo_f).astype(np.uint8)
    results["z"] = z.copy()

    steep = np.zeros_like(z)
    clock(times, "slope", module.slope, z, dx, dy, steep, repeat=repeat)
    shade = np.zeros_like(z)
    clock(times, "hillshade", module.hillshade, z, dx, dy, AZIMUTH, ALTITUDE, shade, repeat=repeat)
    results["slope"], results["hillshade"] = steep, shade

    smoothed, buffer = z.copy(), z.copy()
    clock(times, "smooth", module.smooth, smoothed, buffer, SMOOTH_STEPS, repeat=repeat)
    results["smooth"] = smoothed

    blurred, sharp = np.zeros((size, size), np.float32), photo.copy()
    clock(times, "unsharp", module.unsharp, photo, blurred, sharp, AMOUNT, repeat=repeat)
    results["photo"], results["unsharp"] = photo, sharp

    # The graph is made by the same loops from the same elevations for everybody: on plains one rounding decides which
    # way the water runs.
    z = z if graph_z is None else graph_z
    total = np.zeros_like(z)
    kernels.downhill(z, total)
    ptr = np.zeros(size * size + 1, np.int64)
    kernels.count_donors(z, ptr)
    kernels.prefix_sum(ptr)
    idx = np.zeros(ptr[-1], np.int64)
    val = np.zeros(ptr[-1])
    kernels.fill_donors(z, total, ptr, idx, val)

    rain = np.ones(size * size)
    water = np.zeros(size * size)
    clock(times, "spmv", module.spmv, ptr, idx, val, rain, water, repeat=repeat)
    results["spmv"] = water

    given = np.zeros(size * size)
    np.add.at(given, idx, val)
    leaks = given == 0
    rank = np.full(size * size, 1.0 / (size * size))
    spare = np.zeros_like(rank)
    clock(times, "pagerank", module.pagerank, ptr, idx, val, leaks, rank, spare, DAMPING, RANK_STEPS, repeat=repeat)
    results["pagerank"] = rank
    return times, results


def main():
    size, path = int(sys.argv[1]), sys.argv[2]
    repeat = int(os.environ.get("DEMO_REPEAT", "0"))
    times, results = run(size, kernels, repeat)
    saved = {"time_" + name: seconds for name, seconds in times.items()}
    if "--compare" in sys.argv:
        import numpy_kernels

        numpy_times, numpy_results = run(size, numpy_kernels, repeat, results["z"])
        for name, seconds in numpy_times.items():
            saved["numpy_" + name] = seconds
            key = "z" if name == "refine" else name
            saved["difference_" + name] = np.max(np.abs(results[key].astype(float) - numpy_results[key]))
    if "--pictures" in sys.argv:
        step = max(1, size // 1024)
        results = {name: a.reshape(size, size)[::step, ::step] for name, a in results.items()}
    np.savez(path, **saved, **results)


if __name__ == "__main__":
    main()
