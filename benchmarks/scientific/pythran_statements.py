"""The definitions of which NPBench has another text for Pythran: no `keepdims`, and rows in place of an outer sum.

Pythran's quotients of float32 are float64, the definition's are not.
"""

import numpy as np


def floyd_warshall(path):
    for k in range(path.shape[0]):
        for i in range(path.shape[0]):
            path[i, :] = np.minimum(path[i, :], path[i, k] + path[k, :])


def softmax(x):
    highest = np.max(x, axis=-1)[:, :, :, np.newaxis]
    e = np.exp(x - highest)
    total = np.sum(e, axis=-1)[:, :, :, np.newaxis]
    return (e / total).astype(np.float32)
