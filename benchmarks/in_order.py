"""Loops in the program's order, for `everyday.py`: searches, tables of optima, sorts, small matrices, neighbours in grids."""

from __future__ import annotations

import numpy as np


def knapsack(weights, values, best):
    # pragma sequential for
    for i in range(len(weights)):
        for c in range(len(best) - 1, weights[i] - 1, -1):
            more = best[c - weights[i]] + values[i]
            if more > best[c]:
                best[c] = more


def common_subsequence(a, b, longest):
    # pragma sequential for
    for i in range(len(a)):
        for j in range(len(b)):
            if a[i] == b[j]:
                longest[i + 1, j + 1] = longest[i, j] + 1
            else:
                longest[i + 1, j + 1] = max(longest[i, j + 1], longest[i + 1, j])


def edit_distance(a, b, cost):
    # pragma sequential for
    for i in range(1, len(a) + 1):
        for j in range(1, len(b) + 1):
            differs = 0 if a[i - 1] == b[j - 1] else 1
            cost[i, j] = min(cost[i - 1, j] + 1, cost[i, j - 1] + 1, cost[i - 1, j - 1] + differs)


def binary_searches(table, keys, found):
    # pragma sequential for
    for q in range(len(keys)):
        low = 0
        high = len(table)
        while low < high:
            middle = (low + high) // 2
            if table[middle] < keys[q]:
                low = middle + 1
            else:
                high = middle
        found[q] = low


def first_of_rows(a, found):
    n = 0
    # pragma sequential for
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            if a[i, j] > 0.9:
                found[n] = j
                n += 1
                break
    return n


def insertion_sort(a):
    # pragma sequential for
    for i in range(1, len(a)):
        value = a[i]
        j = i
        for k in range(i, 0, -1):
            if a[k - 1] <= value:
                break
            a[k] = a[k - 1]
            j = k - 1
        a[j] = value


def bubble_sort(a):
    n = len(a)
    # pragma sequential for
    for i in range(n):
        for j in range(n - 1 - i):
            if a[j] > a[j + 1]:
                larger = a[j]
                a[j] = a[j + 1]
                a[j + 1] = larger


def sieve(prime):
    n = len(prime)
    # pragma sequential for
    for i in range(2, n):
        if prime[i]:
            for j in range(i * i, n, i):
                prime[j] = False


def products_of_3x3(a, b, c):
    # pragma sequential for
    for t in range(a.shape[0]):
        for i in range(3):
            for j in range(3):
                s = 0.0
                for k in range(3):
                    s += a[t, i, k] * b[t, k, j]
                c[t, i, j] = s


def pulls(places, speeds, step):
    n = len(places)
    # pragma sequential for
    for i in range(n):
        for j in range(n):
            if i != j:
                squares = 0.0
                for k in range(3):
                    apart = places[j, k] - places[i, k]
                    squares += apart * apart
                force = step / (squares * np.sqrt(squares))
                for k in range(3):
                    speeds[i, k] += (places[j, k] - places[i, k]) * force


def live_neighbours(cells, count):
    # pragma sequential for
    for i in range(1, cells.shape[0] - 1):
        for j in range(1, cells.shape[1] - 1):
            n = 0
            for di in range(-1, 2):
                for dj in range(-1, 2):
                    if cells[i + di, j + dj] > 0:
                        n += 1
            count[i, j] = n


def labels(picture, label):
    n = 0
    # pragma sequential for
    for i in range(1, picture.shape[0]):
        for j in range(1, picture.shape[1]):
            if picture[i, j]:
                up = label[i - 1, j]
                left = label[i, j - 1]
                if up > 0:
                    label[i, j] = up
                elif left > 0:
                    label[i, j] = left
                else:
                    n += 1
                    label[i, j] = n
    return n


def heat_steps(old, new, steps):
    # pragma sequential for
    for _step in range(steps):
        for i in range(1, old.shape[0] - 1):
            for j in range(1, old.shape[1] - 1):
                new[i, j] = old[i, j] + 0.1 * (
                    old[i - 1, j] + old[i + 1, j] + old[i, j - 1] + old[i, j + 1] - 4 * old[i, j]
                )
        for i in range(1, old.shape[0] - 1):
            for j in range(1, old.shape[1] - 1):
                old[i, j] = new[i, j]


def levels(picture, lifted):
    low = high = int(picture[0, 0])
    total = 0
    # pragma sequential for
    for i in range(picture.shape[0]):
        for j in range(picture.shape[1]):
            low = min(low, int(picture[i, j]))
            high = max(high, int(picture[i, j]))
            total += int(picture[i, j])
            lifted[i, j] = picture[i, j] // 2 + 64 if picture[i, j] < 128 else picture[i, j]
    return low, high, total


def normalized(rows, out):
    # pragma parallel for
    for i in range(rows.shape[0]):
        total = 0.0
        for j in range(rows.shape[1]):
            total += rows[i, j]
        for j in range(rows.shape[1]):
            out[i, j] = rows[i, j] / total


def mixed(a, b, out):
    # pragma parallel for
    for i in range(len(out)):
        out[i] = max(a[i] * 0.75 + b[i] * 0.25, 0.5)


def eliminated(a):
    n = a.shape[0]
    # pragma sequential for
    for k in range(n):
        for i in range(k + 1, n):
            a[i, k] /= a[k, k]
            for j in range(k + 1, n):
                a[i, j] -= a[i, k] * a[k, j]


def lifted(a, least, out):
    # pragma parallel for
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            if a[i, j] > least:
                out[i, j] = a[i, j] - least
