# SPDX-License-Identifier: Apache-2.0
"""Layers of libattn_model against PyTorch's in f64: nn.TransformerEncoderLayer and DecoderLayer, pre- and post-norm, with padding; and a
Llama layer (RoPE on halves, grouped heads, RMSNorm, SwiGLU) written with torch.nn.functional."""
import pathlib
import sys
import unittest

import numpy as np
import torch
import torch.nn.functional as F

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "python"))
import attnlib  # noqa: E402
from modellib import Layer, Rope, mha_desc, mlp_desc, norm_opts  # noqa: E402

WIDTH, HEADS, HIDDEN = 24, 4, 60
CLOSE = {"rtol": 1e-12, "atol": 1e-12}  # f64: a few hundred roundings of either side


def sharpened(layer):
    """Random weights at their usual scale make attention near uniform, which hides mistakes: query and key weights are enlarged."""
    with torch.no_grad():
        for p in layer.parameters():
            p.copy_(torch.randn_like(p) * (0.5 if p.ndim > 1 else 1))
        for name, p in layer.named_parameters():
            if name.endswith("in_proj_weight"):
                p[:2 * WIDTH] *= 2
    return layer.eval()


def mha_of(attention):
    return mha_desc(HEADS, w_qkv=attention.in_proj_weight.detach().numpy().T, b_qkv=attention.in_proj_bias.detach().numpy(),
                    w_o=attention.out_proj.weight.detach().numpy().T, b_o=attention.out_proj.bias.detach().numpy())


def cross_of(attention):
    w, b = attention.in_proj_weight.detach().numpy(), attention.in_proj_bias.detach().numpy()
    parts = {"w_" + name: w[i * WIDTH:(i + 1) * WIDTH].T for i, name in enumerate("qkv")}
    parts.update({"b_" + name: b[i * WIDTH:(i + 1) * WIDTH] for i, name in enumerate("qkv")})
    return mha_desc(HEADS, w_o=attention.out_proj.weight.detach().numpy().T, b_o=attention.out_proj.bias.detach().numpy(), **parts)


def norm_of(norm):
    return norm_opts(norm.weight.detach().numpy(), norm.bias.detach().numpy(), eps=norm.eps)


def mlp_of(layer, activation):
    return mlp_desc(activation, w_up=layer.linear1.weight.detach().numpy().T, b_up=layer.linear1.bias.detach().numpy(),
                    w_down=layer.linear2.weight.detach().numpy().T, b_down=layer.linear2.bias.detach().numpy())


class TorchLayers(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(1)
        torch.set_default_dtype(torch.float64)
        self.ctx = attnlib.Context()
        self.addCleanup(self.ctx.__exit__)

    def test_encoder(self):
        for pre in (True, False):
            for name, activation in (("relu", "RELU"), ("gelu", "GELU")):
                with self.subTest(pre=pre, activation=name):
                    t = sharpened(torch.nn.TransformerEncoderLayer(WIDTH, HEADS, HIDDEN, 0, name, batch_first=True, norm_first=pre))
                    x, length = torch.randn(3, 7, WIDTH), np.array([7, 4, 1])
                    padded = torch.arange(7)[None] >= torch.tensor(length)[:, None]
                    want = t(x, src_key_padding_mask=padded).detach().numpy()
                    with Layer(self.ctx, mha_of(t.self_attn), norm_of(t.norm1), mlp=mlp_of(t, activation), mlp_norm=norm_of(t.norm2),
                               post_norm=not pre) as layer:
                        got = layer.run(self.ctx, x.numpy(), kv_len=length)["out"]
                    for b, n in enumerate(length):
                        np.testing.assert_allclose(got[b, :n], want[b, :n], **CLOSE)

    def test_decoder(self):
        for pre in (True, False):
            with self.subTest(pre=pre):
                t = sharpened(torch.nn.TransformerDecoderLayer(WIDTH, HEADS, HIDDEN, 0, batch_first=True, norm_first=pre))
                x, memory = torch.randn(2, 6, WIDTH), torch.randn(2, 9, WIDTH)
                mask = torch.nn.Transformer.generate_square_subsequent_mask(6)
                want = t(x, memory, tgt_mask=mask, tgt_is_causal=True).detach().numpy()
                with Layer(self.ctx, mha_of(t.self_attn), norm_of(t.norm1), cross_of(t.multihead_attn), norm_of(t.norm2),
                           mlp_of(t, "RELU"), norm_of(t.norm3), post_norm=not pre, causal=True) as layer:
                    got = layer.run(self.ctx, x.numpy(), memory=memory.numpy())["out"]
                np.testing.assert_allclose(got, want, **CLOSE)

    def test_llama(self):
        heads, kv_heads, d = 6, 2, 8
        w = {"q": torch.randn(heads * d, WIDTH) * 0.6, "k": torch.randn(kv_heads * d, WIDTH) * 0.6, "v": torch.randn(kv_heads * d, WIDTH),
             "o": torch.randn(WIDTH, heads * d), "up": torch.randn(HIDDEN, WIDTH), "gate": torch.randn(HIDDEN, WIDTH),
             "down": torch.randn(WIDTH, HIDDEN), "n1": torch.randn(WIDTH), "n2": torch.randn(WIDTH)}
        x, positions = torch.randn(2, 10, WIDTH), torch.arange(10)[None] + torch.tensor([[0], [37]])
        want = llama_layer(x, w, heads, kv_heads, d, positions).numpy()
        a = {name: t.numpy() for name, t in w.items()}
        with Rope(self.ctx, head_dim=d, theta=500000.0) as rope, \
                Layer(self.ctx, mha_desc(heads, kv_heads, w_q=a["q"].T, w_k=a["k"].T, w_v=a["v"].T, w_o=a["o"].T),
                      norm_opts(a["n1"], eps=1e-6, rms=True), mlp=mlp_desc("SILU", w_up=a["up"].T, w_gate=a["gate"].T, w_down=a["down"].T),
                      mlp_norm=norm_opts(a["n2"], eps=1e-6, rms=True), rope=rope, causal=True) as layer:
            got = layer.run(self.ctx, x.numpy(), positions=positions.numpy())["out"]
        np.testing.assert_allclose(got, want, **CLOSE)


def rotated(x, positions, theta):
    """x [B,H,L,d]: as Llama's code in Hugging Face does, with the second half negated and swapped."""
    d = x.shape[-1]
    angle = positions[:, None, :, None] / theta ** (torch.arange(0, d, 2) / d)
    cos, sin = torch.cat([angle.cos()] * 2, -1), torch.cat([angle.sin()] * 2, -1)
    return x * cos + torch.cat([-x[..., d // 2:], x[..., :d // 2]], -1) * sin


def llama_layer(x, w, heads, kv_heads, d, positions):
    def split(rows, n):
        return rows.unflatten(-1, (n, d)).transpose(1, 2)
    h = F.rms_norm(x, (WIDTH,), w["n1"], 1e-6)
    q, k, v = split(h @ w["q"].T, heads), split(h @ w["k"].T, kv_heads), split(h @ w["v"].T, kv_heads)
    z = F.scaled_dot_product_attention(rotated(q, positions, 500000.0), rotated(k, positions, 500000.0), v, is_causal=True, enable_gqa=True)
    x = x + z.transpose(1, 2).flatten(2) @ w["o"].T
    h = F.rms_norm(x, (WIDTH,), w["n2"], 1e-6)
    return x + (F.silu(h @ w["gate"].T) * (h @ w["up"].T)) @ w["down"].T


if __name__ == "__main__":
    unittest.main()
