#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the files of examples/lessons again, byte for byte. usage: make_lessons.py FOLDER

  one_head.npz          w_q w_k w_v of head 0 of base_weights.npz, (512,64) each; its w_o (64,64) changes nothing
  wide_768.npy          four words, 768 wide: the width of BERT-base
  grouped_weights.npz   the shapes of Qwen2.5-0.5B: 896 wide, 14 query heads, 2 key and value heads. The weights copy: Q is X, K its
                        first 128 columns, V its last 128
  q.csv k.csv v.csv     four words, four numbers each; padding.csv hides the last word, front.csv the first
  NAME.npy              their attention, made by the function of that name below: right, or with a mistake
  x.csv small_layer.npz four words, 8 wide, and a layer with 2 heads of 4
  layer_NAME.npy        the words through that layer, with a mistake
"""
import pathlib
import sys

import numpy as np

from make_examples import draw, signs, words, write_csv

Q = np.array([[1, 0, 2, 0], [0, 1, 0, 1], [2, 1, 0, 0], [0, 0, 1, 2]])
K = np.array([[1, 2, 0, 1], [0, 1, 1, 0], [2, 0, 0, 1], [1, 1, 1, 1]])
V = np.array([[4, 0, 0, 1], [0, 3, 1, 0], [1, 0, 2, 0], [0, 1, 0, 5]])
PADDING, FRONT = np.array([[1, 1, 1, 0]]), np.array([[0, 1, 1, 1]])  # 1: may be seen


def softmax(x, axis=-1):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def right():
    return softmax(Q @ K.T / 2) @ V


def k_not_transposed():
    return softmax(Q @ K / 2) @ V


def softmax_over_columns():
    return softmax(Q @ K.T / 2, axis=0) @ V


def no_scale():
    return softmax(Q @ K.T) @ V


def scale_twice():
    return softmax((Q / 2) @ K.T / 2) @ V


def no_scale_and_columns():
    return softmax(Q @ K.T, axis=0) @ V


def mask_flipped():
    return softmax(np.where(PADDING, -np.inf, Q @ K.T / 2)) @ V


def mask_multiplied():
    return softmax(Q @ K.T / 2 * PADDING) @ V


def not_renormalised():
    return (softmax(Q @ K.T / 2) * PADDING) @ V


def causal_off_by_one():
    return softmax(Q @ K.T / 2 + np.triu(np.full((4, 4), -np.inf), k=2)) @ V


def causal_reversed():
    return softmax(np.where(np.triu(np.ones((4, 4))), Q @ K.T / 2, -np.inf)) @ V


def nan_row():
    with np.errstate(invalid="ignore"):
        return softmax(np.where(FRONT * np.tril(np.ones((4, 4))), Q @ K.T / 2, -np.inf)) @ V


X = np.floor(draw(20, 4, 8) * 4)
W_Q, W_K, W_V, W_O = (np.floor(draw(seed, 8, 8) * 5 - 2) / 4 for seed in (21, 22, 23, 24))


def split(y):
    return y.reshape(4, 2, 4).transpose(1, 0, 2)


def split_by_reshape_alone(y):
    return y.reshape(2, 4, 4)


def attend_and_join(q, k, v):
    return (softmax(q @ k.transpose(0, 2, 1) / 2) @ v).transpose(1, 0, 2).reshape(4, 8)


def layer_reshape_only():
    return attend_and_join(*(split_by_reshape_alone(X @ w) for w in (W_Q, W_K, W_V))) @ W_O


def layer_w_q_transposed():
    return attend_and_join(split(X @ W_Q.T), split(X @ W_K), split(X @ W_V)) @ W_O


def layer_without_w_o():
    return attend_and_join(split(X @ W_Q), split(X @ W_K), split(X @ W_V))


ANSWERS = (right, k_not_transposed, softmax_over_columns, no_scale, scale_twice, no_scale_and_columns, mask_flipped, mask_multiplied,
           not_renormalised, causal_off_by_one, causal_reversed, nan_row, layer_reshape_only, layer_w_q_transposed, layer_without_w_o)


def main():
    folder = pathlib.Path(sys.argv[1])
    for name, rows in (("q", Q), ("k", K), ("v", V), ("padding", PADDING), ("front", FRONT), ("x", X)):
        write_csv(folder / f"{name}.csv", rows)
    for answer in ANSWERS:
        np.save(folder / f"{answer.__name__}.npy", answer().astype(np.float32))
    np.savez_compressed(folder / "small_layer.npz", w_q=W_Q, w_k=W_K, w_v=W_V, w_o=W_O)
    head = {f"w_{name}": signs(seed)[:, :64] for seed, name in enumerate("qkv", 1)}
    np.savez_compressed(folder / "one_head.npz", **head, w_o=np.eye(64, dtype=np.float16))
    np.save(folder / "wide_768.npy", words(12, 4, 768))
    copy = np.eye(896, dtype=np.float16)
    np.savez_compressed(folder / "grouped_weights.npz", w_q=copy, w_k=copy[:, :128], w_v=copy[:, -128:], w_o=copy)


if __name__ == "__main__":
    main()
