# SPDX-License-Identifier: Apache-2.0
"""Random calls against PyTorch where it has the options: scaled_dot_product_attention and nn.MultiheadAttention.

Each call is compared with PyTorch in float64 on the same numbers, within a bound of what the library's arithmetic and the rounding of
the output may add, and with PyTorch's default path in the same dtype, whose own rounding is allowed for. $ATTN_SEED repeats a run.
"""
import collections
import os
import pathlib
import sys
import unittest

import numpy as np
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "python"))
import attnlib  # noqa: E402

SDPA_CALLS, MHA_CALLS = 500, 100
SEED = int(os.environ.get("ATTN_SEED") or int.from_bytes(os.urandom(4), "little"))
TORCH = {"f32": torch.float32, "f64": torch.float64, "f16": torch.float16, "bf16": torch.bfloat16}
ROUNDING = {"f32": 2.0 ** -24, "f64": 2.0 ** -53, "f16": 2.0 ** -11, "bf16": 2.0 ** -8}  # of one result, relative
COUNT = collections.Counter()


def array(t):
    """The NumPy view of a tensor, bf16 with the library's tag."""
    return t.view(torch.int16).numpy().view("<u2").view(attnlib.BF16) if t.dtype == torch.bfloat16 else t.numpy()


def wide(t):
    return t.double() if t is not None and t.is_floating_point() else t


class Oracle(unittest.TestCase):
    def near(self, got, expected, bound, rounding):
        """|got - expected| <= bound + rounding * |expected|."""
        got, expected = attnlib.as_f64(got), expected.double().numpy()
        self.assertEqual(got.shape, expected.shape)
        over = np.abs(got - expected) - bound - rounding * np.abs(expected)
        self.assertFalse(np.any(~(over <= 0)), "off by %.3g more than the bound %.3g" % (np.nanmax(over, initial=0), bound))


class Calls:
    """A source of random arguments."""

    def __init__(self, call):
        self.random = np.random.default_rng([SEED, call])

    def integer(self, low, high):
        return int(self.random.integers(low, high + 1))

    def pick(self, *choices):
        return choices[self.integer(0, len(choices) - 1)]

    def tensor(self, *shape, dtype=torch.float32):
        """Standard normal, rounded to dtype, in one of several memory orders."""
        stored = torch.from_numpy(self.random.standard_normal(shape)).to(dtype)
        if len(shape) >= 3 and self.pick(True, False):
            return stored.transpose(-2, -3).contiguous().transpose(-2, -3)
        return stored

    def sizes_1(self, *shape):
        """The shape with some leading axes set to 1."""
        return [self.pick(n, 1) for n in shape[:-1]] + [shape[-1]]

    def bools(self, *shape, share=0.7):
        return torch.from_numpy(self.random.random(shape) < share)


class Sdpa(Oracle):
    def test_random_calls(self):
        with attnlib.Context() as ctx:
            for call in range(SDPA_CALLS):
                with self.subTest(call=call):
                    self.check(ctx, Calls(call))

    def check(self, ctx, c):
        dtype, group, kv_heads = c.pick(*TORCH), c.pick(1, 1, 2, 3), c.integer(1, 3)
        lead = c.pick((c.integer(1, 3),), (c.integer(1, 3),), ())
        rows, keys, d, d_v = c.integer(1, 70), c.integer(1, 150), c.integer(1, 80), c.integer(1, 80)
        q = c.tensor(*lead, kv_heads * group, rows, d, dtype=TORCH[dtype])
        k = c.tensor(*lead, kv_heads, keys, d, dtype=TORCH[dtype])
        v = c.tensor(*lead, kv_heads, keys, d_v, dtype=TORCH[dtype])
        scale, kind = c.pick(None, 0.3, 0.0, -0.2, 1.0), c.pick("none", "causal", "bool", "float")
        mask = self.mask(c, kind, q, keys)
        COUNT["sdpa %s %s" % (dtype, kind)] += 1

        options = {"scale": scale, "causal": kind == "causal", "align": "top_left", "mask": None if mask is None else array(mask)}
        got = attnlib.sdpa(ctx, array(q), array(k), array(v), want=(), **options)["out"]
        call = {"scale": scale, "is_causal": kind == "causal", "enable_gqa": True}
        with sdpa_kernel(SDPBackend.MATH):
            exact = scaled_dot_product_attention(wide(q), wide(k), wide(v), attn_mask=wide(mask), **call)
        bound = self.bound(q, k, v, scale, mask, "f64" if dtype == "f64" else "f32")
        self.near(got, exact, bound, ROUNDING[dtype])
        if kind == "causal" and scale is not None and scale <= 0:
            return  # PyTorch's default path multiplies its hidden -inf by the scale, 0 or negative, and gives NaN
        same = scaled_dot_product_attention(q, k, v, attn_mask=mask, **call)
        self.near(got, same, bound + 8 * ROUNDING[dtype] * v.double().abs().max().item(), 8 * ROUNDING[dtype])

    def mask(self, c, kind, q, keys):
        """A mask that spreads; its dtype is q's when additive. Some rows see no key."""
        if kind not in ("bool", "float"):
            return None
        see = c.bools(*c.pick((q.shape[-2], keys), c.sizes_1(*q.shape[:-1], keys)))
        if kind == "bool":
            return see
        return c.tensor(*see.shape, dtype=q.dtype).masked_fill(~see, -torch.inf)

    def bound(self, q, k, v, scale, mask, compute):
        """Of the output's error before it is rounded: a score that is off by `off` moves a weight by 2 off of itself; then the sums."""
        unit, (rows_k, d) = ROUNDING[compute], k.shape[-2:]
        group = q.shape[-3] // k.shape[-3]
        sizes = q.double().abs() @ k.double().abs().repeat_interleave(group, -3).transpose(-1, -2)
        largest = sizes.max().item() * abs(d ** -0.5 if scale is None else scale)
        finite = q.new_zeros(1) if mask is None or mask.dtype == torch.bool else mask[mask.isfinite()]
        added = finite.double().abs().max().item() if finite.numel() else 0
        off = unit * ((d + 3) * largest + 2 * (largest + added))
        return v.double().abs().max().item() * (2 * off + (2 * rows_k + 8) * unit)


class Mha(Oracle):
    """Its layout: weights (out, in), packed or not; bool masks hide where they are true; weights (N,L,S) or (N,H,L,S)."""

    def test_random_calls(self):
        with attnlib.Context() as ctx:
            for call in range(MHA_CALLS):
                with self.subTest(call=call), torch.no_grad():
                    self.check(ctx, Calls(SDPA_CALLS + call))

    def check(self, ctx, c):
        dtype, heads, batch, rows = c.pick("f32", "f64"), c.integer(1, 4), c.integer(1, 3), c.integer(1, 20)
        width, keys, own = heads * c.integer(1, 12), c.integer(1, 30), c.pick("self", "cross", "widths")
        keys = rows if own == "self" else keys
        widths = {"kdim": c.integer(1, 40), "vdim": c.integer(1, 40)} if own == "widths" else {}
        torch.manual_seed(c.integer(0, 2 ** 31))
        module = torch.nn.MultiheadAttention(width, heads, bias=c.pick(True, False), batch_first=True, dtype=TORCH[dtype], **widths).eval()
        for parameter in module.parameters():
            parameter.data = c.tensor(*parameter.shape, dtype=TORCH[dtype]) * parameter.shape[-1] ** -0.5
        x = c.tensor(batch, rows, width, dtype=TORCH[dtype])
        memory = x if own == "self" else c.tensor(batch, keys, module.kdim, dtype=TORCH[dtype])
        memory_v = x if own == "self" else c.tensor(batch, keys, module.vdim, dtype=TORCH[dtype])
        masks, ours = self.masks(c, batch, heads, rows, keys, TORCH[dtype])
        average = c.pick(True, False)
        COUNT["mha %s %s, weights %s" % (dtype, own, "averaged" if average else "per head")] += 1

        out, weights = module(x, memory, memory_v, need_weights=True, average_attn_weights=average, **masks)
        with attnlib.MhaWeights(ctx, heads, **self.weights(module)) as w:
            got = attnlib.mha(ctx, w, array(x), *((None, None) if own == "self" else (array(memory), array(memory_v))),
                              want=("weights",), average=average, **ours)
        bound = 2e3 * ROUNDING[dtype]
        self.near(got["weights"], weights, bound, bound)
        self.near(got["out"], out, bound, bound)

    def weights(self, module):
        """The module's parameters as (in, out) views."""
        names = {"in_proj_weight": "w_qkv", "q_proj_weight": "w_q", "k_proj_weight": "w_k", "v_proj_weight": "w_v",
                 "in_proj_bias": "b_qkv", "out_proj.weight": "w_o", "out_proj.bias": "b_o"}
        found = {names[name]: array(value).T for name, value in module.state_dict().items()}
        if "w_q" in found and "b_qkv" in found:  # separate matrices, one bias
            found.update(zip(("b_q", "b_k", "b_v"), np.split(found.pop("b_qkv"), 3)))
        return found

    def masks(self, c, batch, heads, rows, keys, dtype):
        """(the module's masks, the library's). Every row sees key 0: a row with no key is NaN in the module."""
        masks, ours = {}, {}
        padding, kind = c.pick(True, False), c.pick("none", "2-D", "3-D", "float")
        hide = torch.zeros(batch, 1, 1, keys, dtype=torch.bool)
        if padding:
            hide = hide | c.bools(batch, 1, 1, keys, share=0.3)
            hide[..., 0] = False
            masks["key_padding_mask"] = hide[:, 0, 0]
        if kind in ("2-D", "3-D"):
            more = c.bools(*((rows, keys) if kind == "2-D" else (batch, heads, rows, keys)), share=0.3)
            more[..., 0] = False
            masks["attn_mask"] = more if kind == "2-D" else more.reshape(batch * heads, rows, keys)
            hide = hide | more
        if kind == "float":
            bias = c.tensor(rows, keys, dtype=dtype)
            masks["attn_mask"] = bias
            ours["bias"] = array(bias)
            masks["key_padding_mask"] = torch.zeros(batch, keys, dtype=dtype).masked_fill(hide[:, 0, 0], -torch.inf)
        ours.update(mask=array(hide), mask_drop=True)
        return masks, ours


def main():
    torch.set_num_threads(1)
    print("torch %s, ATTN_SEED=%d" % (torch.__version__, SEED))
    program = unittest.main(exit=False)
    for what, count in sorted(COUNT.items()):
        print("%5d  %s" % (count, what))
    print("%d calls" % sum(COUNT.values()))
    sys.exit(not program.result.wasSuccessful())


if __name__ == "__main__":
    main()
