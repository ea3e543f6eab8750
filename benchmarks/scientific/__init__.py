"""Twenty-one kernels of scientific codes, after NPBench: `run.py --suite npbench`, see ../README.md."""
