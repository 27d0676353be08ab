# SPDX-License-Identifier: Apache-2.0
"""Blocks of .gguf files against the gguf package: a quantised type's bits for random bytes, and files that its writer makes."""
import os
import pathlib
import subprocess
import tempfile
import unittest
import warnings

import gguf
import numpy as np
from gguf.constants import GGML_QUANT_SIZES

IO_COPY = os.environ["IO_COPY"]
KINDS = ["F32", "F16", "BF16", "F64", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K"]
FLOATS = {"F32": np.float32, "F16": np.float16, "F64": np.float64}


def reference(kind, raw):
    if kind in FLOATS:
        return raw.view(FLOATS[kind])
    with np.errstate(all="ignore"):
        return gguf.quants.dequantize(raw, gguf.GGMLQuantizationType[kind])


def same_but_nan_payloads(got, want):
    """The sign and payload of a NaN that arithmetic makes are the machine's affair."""
    nan = np.isnan(want)
    return np.array_equal(np.isnan(got), nan) and np.where(nan, 0, got).tobytes() == np.where(nan, 0, want).tobytes()


class Blocks(unittest.TestCase):
    def test_random_bytes(self):
        rng = np.random.default_rng(7)
        with tempfile.TemporaryDirectory() as folder:
            path, copy = pathlib.Path(folder, "in.gguf"), pathlib.Path(folder, "copy.npz")
            writer, wanted = gguf.GGUFWriter(path, "llama"), {}
            for kind in KINDS:
                elements, size = GGML_QUANT_SIZES[gguf.GGMLQuantizationType[kind]]
                raw = rng.integers(0, 256, (37, 4 * size), dtype=np.uint8)
                wanted[kind] = reference(kind, raw)
                writer.add_tensor(kind, raw, raw_dtype=gguf.GGMLQuantizationType[kind])
            writer.write_header_to_file()
            writer.write_kv_data_to_file()
            writer.write_tensors_to_file()
            writer.close()
            subprocess.run([IO_COPY, path, copy], check=True)
            with np.load(copy) as npz:
                for kind in KINDS:
                    with self.subTest(kind), warnings.catch_warnings():
                        got = npz[kind]
                        if kind == "BF16":
                            got = (got.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
                        self.assertEqual(got.shape, wanted[kind].shape)
                        self.assertTrue(same_but_nan_payloads(got, wanted[kind]), kind)


if __name__ == "__main__":
    unittest.main()
