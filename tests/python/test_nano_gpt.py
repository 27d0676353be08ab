# SPDX-License-Identifier: Apache-2.0
"""Block 0 of a trained GPT (tests/data/nano-gpt): from the stored ln1 to yProj, every stage within 1e-6."""
import base64
import json
import pathlib
import unittest

import numpy as np

from attnlib import Context, MhaWeights, isa_levels, mha

DATA = pathlib.Path(__file__).resolve().parent.parent / "data" / "nano-gpt"
BLOCK = "transformer.h.0.attn."


def stored(name):
    """The arrays of one file by name."""
    entries = json.loads((DATA / ("gpt-nano-sort-%s.json" % name)).read_text(encoding="utf-8"))
    return {key: np.frombuffer(base64.b64decode(e["data"]), "<f4").reshape(e["shape"]) for key, e in entries.items() if "data" in e}


class NanoGpt(unittest.TestCase):
    def setUp(self):
        self.model, self.partials = stored("model"), stored("t0-partials")

    def run_block(self, dtype, level):
        """(what the library gives, by the names of the stored stages)"""
        layers = [self.model[BLOCK + name].astype(dtype) for name in ("c_attn.weight", "c_attn.bias", "c_proj.weight", "c_proj.bias")]
        with Context(isa=level) as ctx, \
                MhaWeights(ctx, 3, w_qkv=layers[0].T, b_qkv=layers[1], w_o=layers[2].T, b_o=layers[3]) as w:
            got = mha(ctx, w, self.partials["ln1"].astype(dtype), want=("q", "k", "v", "masked", "weights", "z"), causal=True)
        joined = got["z"].transpose(0, 2, 1, 3).reshape(3, 11, 48)
        return {"q": got["q"], "k": got["k"], "v": got["v"], "att": got["masked"], "attSm": got["weights"], "y": joined,
                "yProj": got["out"]}

    def test_every_stage(self):
        for level in (name for name, usable in isa_levels() if usable):
            for dtype in ("f4", "f8"):
                for stage, got in self.run_block(dtype, level).items():
                    with self.subTest(stage=stage, dtype=dtype, isa=level):
                        np.testing.assert_allclose(got, self.partials[stage], rtol=1e-6, atol=1e-6)
                        print("%s %s %s: largest difference %.1e" % (level, dtype, stage, self.difference(got, stage)))

    def difference(self, got, stage):
        finite = np.isfinite(self.partials[stage])
        return np.abs(got[finite] - self.partials[stage][finite].astype("f8")).max()


if __name__ == "__main__":
    unittest.main()
