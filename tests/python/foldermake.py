# SPDX-License-Identifier: Apache-2.0
"""Writes model folders as Hugging Face's libraries do: config.json and model.safetensors."""
import json
import pathlib


def write_folder(folder, config, tensors):
    folder = pathlib.Path(folder)
    (folder / "config.json").write_text(json.dumps(config))
    write_tensors(folder, tensors)
    return folder


def write_tensors(folder, tensors):
    header, at = {}, 0
    for name, t in tensors.items():
        header[name] = {"dtype": "F32", "shape": list(t.shape), "data_offsets": [at, at + t.nbytes]}
        at += t.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    (folder / "model.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + b"".join(t.tobytes() for t in tensors.values()))
