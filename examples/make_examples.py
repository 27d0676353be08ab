#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the files of this folder again, byte for byte. usage: make_examples.py FOLDER

  q.csv k.csv v.csv   two words with d_k = 4
  student.csv         "I am a student": four words, four numbers each
  arange_4x8.npy      0..31, to see how heads are split
  ten_words.npy       ten words of Transformer base, (10,512)
  base_weights.npz    its w_q w_k w_v w_o, (512,512) each. Every weight is +1/16 or -1/16, drawn with a fixed seed: random weights
                      show the same shapes as trained ones, and one bit each keeps the file small.
  wide_896.npy        four words, 896 wide: the width of a small model with 14 heads
"""
import pathlib
import sys

import numpy as np


def draw(seed, *shape):
    """Uniform in [0,1): SplitMix64, so that no NumPy version can change the files."""
    count = int(np.prod(shape))
    z = np.uint64(seed) + (np.arange(1, count + 1, dtype=np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return ((z >> np.uint64(11)).astype(np.float64) / 2**53).reshape(shape)


def words(seed, *shape):
    """Numbers in [-2,2) that f16 holds exactly."""
    return (np.floor(draw(seed, *shape) * 256) / 64 - 2).astype(np.float16)


def signs(seed):
    return np.where(draw(seed, 512, 512) < 0.5, -1, 1).astype(np.float16) / np.float16(16)


def write_csv(path, rows):
    path.write_text("".join(",".join(f"{x:g}" for x in row) + "\n" for row in rows))


def main():
    folder = pathlib.Path(sys.argv[1])
    write_csv(folder / "q.csv", [[1, 0, 1, 0], [0, 1, 0, 1]])
    write_csv(folder / "k.csv", [[1, 0, 1, 0], [1, 1, 1, 1]])
    write_csv(folder / "v.csv", [[10, 0], [0, 10]])
    write_csv(folder / "student.csv", [[1, 0, 0.5, 0], [0.5, 1, 0, 0], [0, 0.5, 0, 0], [1, 0, 1, 1]])
    np.save(folder / "arange_4x8.npy", np.arange(32, dtype=np.float32).reshape(4, 8))
    np.save(folder / "ten_words.npy", words(10, 10, 512))
    np.savez_compressed(folder / "base_weights.npz", w_q=signs(1), w_k=signs(2), w_v=signs(3), w_o=signs(4))
    np.save(folder / "wide_896.npy", words(11, 4, 896))


if __name__ == "__main__":
    main()
