# SPDX-License-Identifier: Apache-2.0
# Coefficients of Q in 2^f = 1 + f Q(f), 0 <= f < 1, for body_math.h. Chebyshev interpolation of (2^f - 1)/f in 60 digits (needs
# mpmath), which is within a small factor of the minimax error; then every coefficient is rounded to the type that it is used in.
# Prints the coefficients from the highest power down, and the relative error of the polynomial in exact arithmetic.
from mpmath import mp, mpf, cos, pi, log, matrix, lu_solve
import struct

mp.dps = 60


def quotient(f):
    return log(2) if f == 0 else (mpf(2) ** f - 1) / f


def round_to(x, kind):
    return mpf(struct.unpack(kind, struct.pack(kind, float(x)))[0])


def fit(degree, kind):
    n = degree + 1
    nodes = [(1 + cos(pi * (2 * i + 1) / (2 * n))) / 2 for i in range(n)]
    coefficients = lu_solve(matrix([[x**k for k in range(n)] for x in nodes]), matrix([quotient(x) for x in nodes]))
    return [round_to(c, kind) for c in coefficients]


def report(degree, kind, what):
    c = fit(degree, kind)
    points = [mpf(i) / 4000 for i in range(4001)]
    q_error = max(abs(sum(c[k] * x**k for k in range(len(c))) / quotient(x) - 1) for x in points)
    e_error = max(abs((1 + x * sum(c[k] * x**k for k in range(len(c)))) / mpf(2) ** x - 1) for x in points)
    print(what, "relative error of Q", mp.nstr(q_error, 3), "of 2^f", mp.nstr(e_error, 3))
    print("   ", ", ".join(float(x).hex() for x in reversed(c)))


report(6, "f", "f32 Q, degree 6:")
report(11, "d", "f64 Q, degree 11:")
report(12, "d", "f64 Q, degree 12:")
