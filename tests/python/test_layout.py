# SPDX-License-Identifier: Apache-2.0
"""The structs and constants of attnlib.py and modellib.py are those that the C compiler sees. $ATTN_LAYOUT names the program that
prints them."""
import os
import subprocess
import unittest

import attnlib
import modellib


def python_side():
    lines = {}
    for name, struct in {**attnlib.STRUCTS, **modellib.STRUCTS}.items():
        lines[name] = attnlib.ctypes.sizeof(struct)
        for field, *_ in struct._fields_:
            lines["%s.%s" % (name, field)] = getattr(struct, field).offset
    for prefix, table in (("", attnlib.STATUS), ("", attnlib.DTYPES), ("", attnlib.FLAGS), ("MHA_", attnlib.MHA_FLAGS),
                          ("ALIGN_", attnlib.ALIGN), ("HIDDEN_", attnlib.HIDDEN)):
        lines.update({"ATTN_" + prefix + name.upper(): value for name, value in table.items()})
    lines.update({"ATTN_" + name: value for name, value in modellib.CONSTANTS.items()})
    lines["ATTN_MAX_DIMS"] = attnlib.MAX_DIMS
    return lines


class Layout(unittest.TestCase):
    def test_equal_to_the_compilers(self):
        text = subprocess.run([os.environ["ATTN_LAYOUT"]], check=True, capture_output=True, text=True).stdout
        compiler = {name: int(value) for name, value in (line.split() for line in text.splitlines())}
        self.maxDiff = None
        self.assertEqual(python_side(), compiler)
        print("%d sizes, offsets and constants equal" % len(compiler))


if __name__ == "__main__":
    unittest.main()
