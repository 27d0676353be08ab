# SPDX-License-Identifier: Apache-2.0
# Coefficients of G in (1 + 2 z) e^(z^2) erfc(z) = G(t), t = (z - 4)/(z + 4), z >= 0, for body_activate.h (the substitution of Shepherd and
# Laframboise 1981, "Chebyshev approximation of (1+2x)exp(x^2)erfc x in 0 <= x < infinity"). Chebyshev interpolation in 60 digits (needs
# mpmath), every coefficient rounded to the type that it is used in. Prints them from the highest power down, and the greatest relative
# error; body_activate.h has the even and the odd powers apart.
from mpmath import mp, mpf, cos, pi, erfc, exp, sqrt, matrix, lu_solve
import struct

mp.dps = 60


def target(t):
    if t == 1:
        return 2 / sqrt(pi)
    z = 4 * (1 + t) / (1 - t)
    if z > 1e4:
        return (1 + 2 * z) / (z * sqrt(pi)) * (1 - 1 / (2 * z * z) + 3 / (4 * z**4) - 15 / (8 * z**6) + 105 / (16 * z**8))
    return (1 + 2 * z) * exp(z * z) * erfc(z)


def round_to(x, kind):
    return mpf(struct.unpack(kind, struct.pack(kind, float(x)))[0])


def report(degree, kind, what):
    n = degree + 1
    nodes = [cos(pi * (2 * i + 1) / (2 * n)) for i in range(n)]
    solved = lu_solve(matrix([[x**k for k in range(n)] for x in nodes]), matrix([target(x) for x in nodes]))
    c = [round_to(x, kind) for x in solved]
    points = [mpf(i) / 500 - 1 for i in range(1001)]
    error = max(abs(sum(c[k] * x**k for k in range(n)) / target(x) - 1) for x in points)
    print(what, "relative error", mp.nstr(error, 3), "sum of magnitudes", mp.nstr(sum(abs(x) for x in c), 3))
    print("   ", ", ".join(float(x).hex() for x in reversed(c)))


report(13, "f", "f32, degree 13:")
report(22, "d", "f64, degree 22:")
