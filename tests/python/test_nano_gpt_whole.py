# SPDX-License-Identifier: Apache-2.0
"""A trained GPT (tests/data/nano-gpt) from token ids to probabilities by libattn_model: every stored intermediate within
2e-6 + 2e-6 |x| in f64, and within 1e-5 of the greatest number of its stage in f32. The cache gives the bits of the whole, row by row."""
import ctypes
import unittest

import numpy as np

import modellib
from attnlib import Context, KvCache, _pointer, isa_levels
from modellib import Layer, embed, linear, mha_desc, mlp_desc, norm, norm_opts
from test_nano_gpt import stored

BLOCKS, HEADS = 3, 3
# The library's name and the file's of what block 0 computes on its way.
STAGES = {"self_norm": "ln1", "q": "q", "k": "k", "v": "v", "self_out": "yProj", "self_sum": "attnResid", "mlp_norm": "ln2",
          "mlp_up": "fc", "mlp_hidden": "gelu", "mlp_out": "mlp", "mlp_sum": "mlpResid"}


def rows_of(heads):
    """[B,H,L,d] -> [B,L,H*d]"""
    return heads.transpose(0, 2, 1, 3).reshape(heads.shape[0], heads.shape[2], -1)


class Gpt:
    """The model's weights in one dtype, and its layers."""

    def __init__(self, ctx, model, dtype):
        self.ctx = ctx
        self.model = {name.replace("transformer.", ""): a.astype(dtype) for name, a in model.items()}
        self.layers = [self.layer("h.%d." % i) for i in range(BLOCKS)]

    def norm_of(self, name):
        return norm_opts(self.model[name + ".weight"], self.model[name + ".bias"], eps=1e-5)

    def layer(self, block):
        w = {name[len(block):]: a for name, a in self.model.items() if name.startswith(block)}
        mha = mha_desc(HEADS, w_qkv=w["attn.c_attn.weight"].T, b_qkv=w["attn.c_attn.bias"], w_o=w["attn.c_proj.weight"].T,
                       b_o=w["attn.c_proj.bias"])
        mlp = mlp_desc("GELU_TANH", w_up=w["mlp.c_fc.weight"].T, b_up=w["mlp.c_fc.bias"], w_down=w["mlp.c_proj.weight"].T,
                       b_down=w["mlp.c_proj.bias"])
        return Layer(self.ctx, mha, self.norm_of(block + "ln_1"), mlp=mlp, mlp_norm=self.norm_of(block + "ln_2"), causal=True)

    def embed(self, ids):
        return embed(self.ctx, ids, self.model["wte.weight"], self.model["wpe.weight"])

    def head(self, x):
        """(ln_f, logits, probabilities)"""
        ln_f = norm(self.ctx, x, weight=self.model["ln_f.weight"], bias=self.model["ln_f.bias"], eps=1e-5)
        logits = linear(self.ctx, ln_f, self.model["lm_head.weight"].T)
        return {"ln_f": ln_f, "lm_head": logits, "probs": modellib.softmax(self.ctx, logits)}

    def destroy(self):
        for layer in self.layers:
            layer.__exit__()


class NanoGptWhole(unittest.TestCase):
    def setUp(self):
        self.model, self.partials = stored("model"), stored("t0-partials")
        self.ids = self.partials["idx"].astype("i4")

    def everything(self, gpt):
        """{the file's name: what the library computes}"""
        ctx, shapes = gpt.ctx, {ours: self.partials[theirs].shape for ours, theirs in STAGES.items()}
        shapes["heads"] = self.partials["q"].shape
        zeros = np.zeros_like(gpt.model["wte.weight"])
        places = np.arange(self.ids.shape[1], dtype="i4")[None]
        got = {"tok_emb": embed(ctx, self.ids, gpt.model["wte.weight"]), "pos_emb": embed(ctx, places, gpt.model["wpe.weight"])}
        got["x"] = x = gpt.embed(self.ids)
        np.testing.assert_array_equal(x, embed(ctx, self.ids, gpt.model["wte.weight"], gpt.model["wpe.weight"], places + 0 * self.ids,
                                               zeros, 0 * self.ids))
        first = gpt.layers[0].run(ctx, x, stages=shapes, attention=("masked", "weights"))
        got.update({theirs: first[ours] for ours, theirs in STAGES.items()})
        got.update(att=first["masked"], attSm=first["weights"], y=rows_of(first["heads"]),
                   qkv=np.concatenate([rows_of(first[name]) for name in ("q", "k", "v")], axis=-1))
        for i, layer in enumerate(gpt.layers):
            got["block%d" % i] = x = layer.run(ctx, x)["out"]
        got.update(gpt.head(x))
        return got

    def test_every_intermediate(self):
        for level in (name for name, usable in isa_levels() if usable):
            for dtype in ("f8", "f4"):
                with Context(isa=level) as ctx:
                    gpt = Gpt(ctx, self.model, dtype)
                    got = self.everything(gpt)
                    gpt.destroy()
                self.assertEqual(set(got), set(self.partials) - {"idx"})
                for stage, right in self.partials.items():
                    if stage != "idx":
                        with self.subTest(stage=stage, dtype=dtype, isa=level):
                            self.assertEqual(got[stage].dtype, np.dtype(dtype))
                            self.near(got[stage], right.astype("f8"), dtype)

    def near(self, got, right, dtype):
        finite = np.isfinite(right)
        np.testing.assert_array_equal(got[~finite], right[~finite])
        size = np.abs(right[finite])
        bound = 2e-6 + 2e-6 * size if dtype == "f8" else 1e-5 * size.max()
        share = (np.abs(got[finite] - right[finite]) / bound).max()
        self.assertLessEqual(share, 1)
        print("%.2f of the bound" % share)

    def test_token_by_token(self):
        """A batch of 3, cached: each row alone has the bits of the whole."""
        with Context() as ctx:
            gpt = Gpt(ctx, self.model, "f4")
            whole = x = gpt.embed(self.ids)
            for layer in gpt.layers:
                whole = layer.run(ctx, whole)["out"]
            caches = [KvCache(ctx, HEADS, self.ids.shape[1], 16, batch=3) for _ in gpt.layers]
            for i in range(self.ids.shape[1]):
                row = np.ascontiguousarray(x[:, i:i + 1])
                for layer, cache in zip(gpt.layers, caches):
                    row = self.run_cached(ctx, layer, cache, row)
                np.testing.assert_array_equal(row, whole[:, i:i + 1])
            for cache in caches:
                cache.__exit__()
            gpt.destroy()

    def run_cached(self, ctx, layer, cache, row):
        out, opts = modellib.empty(row.shape, "f32"), modellib.LayerOpts(kv=cache.handle)
        ctx.check(modellib.M.attn_layer_run(ctx.handle, _pointer(out), layer.handle, _pointer(row), ctypes.byref(opts)))
        return out


if __name__ == "__main__":
    unittest.main()
