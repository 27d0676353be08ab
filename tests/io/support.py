# SPDX-License-Identifier: Apache-2.0
"""What the file tests share: running io_copy, and files made by hand. The environment names IO_COPY, and SANITIZED for sanitizer builds."""
import json
import os
import pathlib
import resource
import shutil
import struct
import subprocess
import tempfile
import unittest

import numpy as np

IO_COPY = os.environ["IO_COPY"]
SANITIZED = os.environ.get("SANITIZED") == "1"
CASES = pathlib.Path(__file__).resolve().parent.parent / "cases"
MEMORY = 256 << 20
SECONDS = 120 if SANITIZED else 30  # for one call, on a busy machine


def limit_memory():
    """256 MB of address space; AddressSanitizer needs terabytes of it and limits single allocations instead."""
    if not SANITIZED:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


def run(*arguments, preexec=limit_memory, **options):
    limits = "max_allocation_size_mb=256:allocator_may_return_null=1"
    environment = {**os.environ, **{name: f"{os.environ.get(name, '')}:{limits}" for name in ("ASAN_OPTIONS", "TSAN_OPTIONS")}}
    return subprocess.run([IO_COPY, *map(str, arguments)], capture_output=True, timeout=SECONDS, preexec_fn=preexec, env=environment,
                          check=False, **options)


def npy(header, data=b"", version=1, length=None):
    """A .npy of any header text, also wrong ones."""
    text = header if isinstance(header, bytes) else header.encode()
    length = len(text) if length is None else length
    return b"\x93NUMPY" + bytes([version, 0]) + (struct.pack("<H", length) if version == 1 else struct.pack("<I", length)) + text + data


def safetensors(header, data=b"", length=None):
    """A .safetensors of any header: text, or a dictionary."""
    text = header if isinstance(header, bytes) else header.encode() if isinstance(header, str) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def widen(array):
    """bf16 (<V2) as f32; anything else as it is."""
    if array.dtype.kind != "V":
        return array
    return (np.ascontiguousarray(array).view(np.uint16).astype(np.uint32) << 16).view(np.float32).reshape(array.shape)


class FileTest(unittest.TestCase):
    """A temporary folder for each test."""

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="attn-io-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def path(self, name, content=None):
        path = self.folder / name
        if content is not None:
            path.write_bytes(content)
        return path

    def accept(self, *arguments, **options):
        done = run(*arguments, **options)
        self.assertEqual((done.returncode, done.stderr), (0, b""), arguments)
        return done.stdout

    def refuse(self, *arguments, says=None, status=None, **options):
        """Exit code 2 and one sentence that names the file."""
        done = run(*arguments, **options)
        # A sanitizer's warning about an allocation that it refuses is not ours.
        sentence = "".join(line for line in done.stderr.decode().splitlines(True) if not (SANITIZED and line.startswith("==")))
        self.assertEqual(done.returncode, 2, f"{arguments}: {sentence or 'accepted'}")
        self.assertRegex(sentence, r"^\d+ [^\n]+\n\Z", arguments)
        if status is not None:
            self.assertEqual(int(sentence.split()[0]), status, sentence)
        if says is not None:
            self.assertIn(says, sentence)
        return sentence

    def refuse_bytes(self, suffix, content, says=None, status=6 + 1):
        path = self.path("hostile" + suffix, content)
        sentence = self.refuse(path, self.path("out.npz"), says=says, status=status)
        self.assertIn("hostile" + suffix, sentence)
        self.assertEqual(sorted(p.name for p in self.folder.iterdir()), ["hostile" + suffix], "something was left behind")

    def arrays(self, path):
        """What io_copy reads from path, by way of a .npz that NumPy reads."""
        self.accept(path, self.folder / "copy.npz")
        with np.load(self.folder / "copy.npz") as npz:
            return {name: npz[name] for name in npz.files}

    def array(self, path):
        self.accept(path, self.folder / "copy.npy")
        return np.load(self.folder / "copy.npy")
