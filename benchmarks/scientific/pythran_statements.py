"""The definitions that Pythran does not take as `reference.py` has them: it knows no `keepdims`, and `out` not on itself."""

import numpy as np


def floyd_warshall(path):
    for k in range(path.shape[0]):
        for i in range(path.shape[0]):
            path[i] = np.minimum(path[i], path[i, k] + path[k])


def softmax(x):
    e = np.exp(x - np.max(x, axis=-1)[:, :, :, np.newaxis])
    return e / np.sum(e, axis=-1)[:, :, :, np.newaxis]
