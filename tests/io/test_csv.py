# SPDX-License-Identifier: Apache-2.0
"""Tables that people type, and what is said about wrong ones."""
import unittest

import numpy as np

from support import FileTest


class Tables(FileTest):
    def table(self, text, suffix=".csv"):
        return self.array(self.path("in" + suffix, text if isinstance(text, bytes) else text.encode()))

    def test_accepted(self):
        want = np.array([[1, -2.5], [3e2, .5]])
        for text in ("1,-2.5\n3e2,.5\n", "1,-2.5\n3e2,.5", "1;-2.5\n3e2;.5\n", "1\t-2.5\n3e2\t.5\n", "1 -2.5\n3e2   .5\n",
                     " 1 , -2.5 \r\n+3E+2,\t0.5\r\n", "\ufeff1,-2.5\n300,0.5",
                     "# a comment, with commas\n\n1,-2.5 # here\n\n  \n3e2,5e-1\n#",
                     "  1   -2.5  \n 300. 00.50 \n", "1, -2.5\n3e2,.5"):
            for suffix in (".csv", ".txt", ".CSV"):
                with self.subTest(text=text, suffix=suffix):
                    got = self.table(text, suffix)
                    self.assertEqual(got.dtype, np.float64)
                    self.assertTrue(np.array_equal(got, want), got)

    def test_not_finite(self):
        got = self.table("inf,-inf,nan,NaN,Infinity,-INF,+inf")
        self.assertTrue(np.array_equal(got[0], [np.inf, -np.inf, np.nan, np.nan, np.inf, -np.inf, np.inf], equal_nan=True))

    def test_correctly_rounded(self):
        words = ["0.1", "1.7976931348623157e308", "5e-324", "2.2250738585072011e-308", "9007199254740993", "1e-400", "0." + "0" * 300 + "1"]
        self.assertEqual(self.table(",".join(words)).ravel().tolist(), [float(word) for word in words])

    def test_one_number_and_one_column(self):
        self.assertEqual(self.table("7").shape, (1, 1))
        self.assertEqual(self.table("7\n8\n9\n").shape, (3, 1))

    def test_a_million_columns(self):
        self.assertEqual(self.table(",".join(["1"] * 1000000)).shape, (1, 1000000))

    def test_refused(self):
        for text, says in (("", "the file is empty"), ("\n\n# only a comment\n", "holds no number"),
                           ("1,2\n3\n", "line 2 has 1 cell, line 1 has 2"),
                           ("1,2\n\n# x\n3,4,5\n", "line 4 has 3 cells"), ("1,,2\n", "line 1, column 2: an empty cell"),
                           ("1,2,\n", "line 1, column 3: an empty cell"), (",1\n", "line 1, column 1: an empty cell"),
                           ("1\t\t2\n", "column 2: an empty cell"), ("a,b\n1,2\n", "line 1, column 1: 'a' is no number"),
                           ("1,2\n3,four\n", "line 2, column 2: 'four' is no number"), ("1,5;2,5\n", "column 1: '1,5' is no number"),
                           ("0x10\n", "'0x10' is no number"), ("nan(1)\n", "no number"), ("1e\n", "no number"), (".\n", "no number"),
                           ("--1\n", "no number"), ("1_000\n", "no number"), ("1e999\n", "beyond the range of f64"),
                           ("1 2\r3 4\n", "no number"),
                           ("1" * 2000, "a cell of 2000 characters"), ("1,\"2\"\n", "no number"), ("1\0,2\n", "no number"),
                           (b"\xff\xfe1\0,\0", "'??1' is no number"), (b"1,\x1b[31m\n", "'?[31m' is no number")):
            with self.subTest(text=text[:40]):
                content = text if isinstance(text, bytes) else text.encode()
                self.refuse_bytes(".csv", content, says=says)

    def test_malformed_at_the_end_of_a_large_file(self):
        self.refuse_bytes(".csv", b"1,1\n" * 12000000 + b"1,x\n", says="line 12000001, column 2")


if __name__ == "__main__":
    unittest.main()
