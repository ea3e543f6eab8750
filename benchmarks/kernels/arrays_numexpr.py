"""The element-wise kernels of arrays.py in NumExpr."""

import numexpr


def vector_add(a, b, c):
    numexpr.evaluate("a + b", out=c)


def chain(a, b, c, out):
    numexpr.evaluate("a * b + c - a / 3 + b * 2", out=out)


def exponential(x, y):
    numexpr.evaluate("exp(x)", out=y)
