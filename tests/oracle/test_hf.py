# SPDX-License-Identifier: Apache-2.0
"""attn_implementation="attn" against "eager" on small models with random weights: outputs, weights and generated tokens; and each trap of
transformers' attention interface. Runs with transformers 4.57 and 5."""
import contextlib
import types
import unittest
import warnings

import torch
import transformers
from transformers.masking_utils import causal_mask_function

import attn.hf

SMALL = dict(vocab_size=99, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, max_position_embeddings=64)
GROUPED = dict(SMALL, num_key_value_heads=2, head_dim=8, pad_token_id=0, bos_token_id=1, eos_token_id=98)
SEED = 20261
MAJOR = int(transformers.__version__.split(".")[0])


def config(name, **options):
    return getattr(transformers, name + "Config")(**options)


def models():
    """{name: (class, config)}; decoders but for bert and marian. BERT of transformers 4 knows eager and sdpa alone."""
    sliding = dict(GROUPED, sliding_window=4)
    rope = {"rope_theta": 10000.0}
    bert = {"bert": (transformers.BertModel, config("Bert", **SMALL))} if MAJOR > 4 else {}
    return {
        **bert,
        "gpt2": (transformers.GPT2LMHeadModel, config("GPT2", vocab_size=99, n_embd=32, n_layer=2, n_head=4, n_positions=64, bos_token_id=1,
                                                      eos_token_id=98, pad_token_id=0)),
        "llama": (transformers.LlamaForCausalLM, config("Llama", **GROUPED)),
        "qwen2": (transformers.Qwen2ForCausalLM, config("Qwen2", **{**sliding, "use_sliding_window": True, "max_window_layers": 1})),
        "gemma2": (transformers.Gemma2ForCausalLM, config("Gemma2", **sliding, query_pre_attn_scalar=8, attn_logit_softcapping=3.0)),
        "gemma3": (transformers.Gemma3ForCausalLM, config("Gemma3Text", **sliding, query_pre_attn_scalar=8,
                                                          layer_types=["sliding_attention", "full_attention"])),
        "gpt_oss": (transformers.GptOssForCausalLM, config("GptOss", **{**sliding, "num_local_experts": 2, "num_experts_per_tok": 1,
                                                           "layer_types": ["sliding_attention", "full_attention"],
                                                           "rope_parameters" if MAJOR > 4 else
                                                           "rope_scaling": {**rope, "rope_type": "default"}})),
        "marian": (transformers.MarianMTModel, config("Marian", vocab_size=99, d_model=32, encoder_layers=2, decoder_layers=2,
                                                      encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=48,
                                                      decoder_ffn_dim=48, max_position_embeddings=64, pad_token_id=0, eos_token_id=98,
                                                      decoder_start_token_id=0, forced_eos_token_id=None)),
    }


DECODERS = ("gpt2", "llama", "qwen2", "gemma2", "gemma3", "gpt_oss")


def build(name, implementation, dtype=torch.float32):
    kind, settings = models()[name]
    torch.manual_seed(SEED)
    settings._attn_implementation = implementation
    model = kind(settings)
    for index, p in enumerate(model.parameters()):  # far from symmetric, so that a wrong mask shows
        torch.nn.init.normal_(p, 0.02 * (index % 3), 0.3)
    model.eval().requires_grad_(False)
    return model.to(dtype)


def ids(batch=2, length=9):
    torch.manual_seed(SEED + 1)
    return torch.randint(3, 97, (batch, length))


def padded(side, batch=2, length=9):
    mask = torch.ones(batch, length, dtype=torch.long)
    if side == "left":
        mask[1, :3] = 0
    elif side == "right":
        mask[1, -3:] = 0
    return mask


class Models(unittest.TestCase):
    def pair(self, name):
        eager, ours = build(name, "eager"), build(name, "attn")
        self.assertEqual(ours.config._attn_implementation, "attn")
        return eager, ours

    def inputs(self, name, side):
        given = {"input_ids": ids(), "attention_mask": padded(side)}
        if name == "marian":
            given["decoder_input_ids"] = ids(length=5)
        return given

    def test_outputs(self):
        for name in models():
            eager, ours = self.pair(name)
            for side in ("none", "left", "right"):
                with self.subTest(model=name, padding=side):
                    given = self.inputs(name, side)
                    expected, got = eager(**given)[0], ours(**given)[0]
                    rows = given["attention_mask"].bool() if name != "marian" else ...  # rows of padding mean nothing
                    scale = expected[rows].abs().max()
                    torch.testing.assert_close(got[rows] / scale, expected[rows] / scale, rtol=0, atol=1e-5)

    def test_weights_when_asked(self):
        for name in models():
            with self.subTest(model=name):
                eager, ours = self.pair(name)
                given = self.inputs(name, "none")
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    expected = eager(**given, output_attentions=True)
                    # GPT-2 of transformers 4 does not tell its layers.
                    with attn.hf.attentions() if MAJOR == 4 and name == "gpt2" else contextlib.nullcontext():
                        got = ours(**given, output_attentions=True)
                for key in ("attentions", "decoder_attentions", "cross_attentions", "encoder_attentions"):
                    if key in expected and expected[key]:
                        self.assertEqual(len(got[key]), len(expected[key]))
                        for a, b in zip(got[key], expected[key]):
                            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)
                self.assertIsNone(dict(ours(**given)).get("attentions"))

    def test_generated_tokens(self):
        for name in DECODERS + ("marian",):
            eager, ours = self.pair(name)
            caches = ("dynamic", "static") if name not in ("marian", "gpt2") else ("dynamic",)
            for side in ("none", "left", "right"):
                for cache in caches:
                    with self.subTest(model=name, padding=side, cache=cache):
                        options = dict(input_ids=ids(), attention_mask=padded(side), max_new_tokens=8, do_sample=False)
                        if cache == "static":
                            options.update(cache_implementation="static", disable_compile=True)
                        self.assertEqual(ours.generate(**options).tolist(), eager.generate(**options).tolist())

    def test_a_prompt_in_chunks(self):
        """Rows that follow a cache: a mask of None would put them at the top left."""
        for name in DECODERS:
            with self.subTest(model=name):
                eager, ours = self.pair(name)
                whole = eager(ids()).logits
                first = ours(ids()[:, :4], use_cache=True)
                second = ours(ids()[:, 4:], past_key_values=first.past_key_values, use_cache=True)
                got = torch.cat([first.logits, second.logits], 1)
                torch.testing.assert_close(got / whole.abs().max(), whole / whole.abs().max(), rtol=0, atol=1e-5)

    def test_compiled(self):
        """In one graph; what is compiled for the CPU is a test of attn.torch."""
        eager, ours = self.pair("llama")
        given = {"input_ids": ids(), "attention_mask": padded("left")}
        expected = eager(**given).logits[given["attention_mask"].bool()]
        got = torch.compile(ours, backend="aot_eager", fullgraph=True)(**given).logits[given["attention_mask"].bool()]
        torch.testing.assert_close(got / expected.abs().max(), expected / expected.abs().max(), rtol=0, atol=1e-5)

    def test_bfloat16(self):
        eager, ours = build("gpt_oss", "eager"), build("gpt_oss", "attn", torch.bfloat16)
        self.assertEqual(ours(ids())[0].dtype, torch.bfloat16)

    def test_switched_later(self):
        model = build("llama", "eager")
        expected = model(ids()).logits
        model.set_attn_implementation("attn")
        got = model(ids()).logits
        torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-4)
        self.assertFalse(torch.equal(got, expected) and model.config._attn_implementation != "attn")


class Traps(unittest.TestCase):
    """Each way in which a plugged-in attention goes wrong without a word."""

    def call(self, rows, keys, mask=None, heads=4, kv_heads=2, module=None, **options):
        torch.manual_seed(SEED)
        q, k, v = torch.randn(2, heads, rows, 8), torch.randn(2, kv_heads, keys, 8), torch.randn(2, kv_heads, keys, 6)
        module = module or types.SimpleNamespace(is_causal=True)
        return (q, k, v), attn.hf.attention_forward(module, q, k, v, mask, **options)

    def test_both_interfaces_know_the_name(self):
        from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS
        from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
        self.assertIs(ALL_ATTENTION_FUNCTIONS["attn"], attn.hf.attention_forward)
        self.assertIs(ALL_MASK_ATTENTION_FUNCTIONS["attn"], attn.hf.mask_function)

    def test_the_layout_of_the_output(self):
        (q, k, v), (out, weights) = self.call(5, 5)
        self.assertEqual((out.shape, out.is_contiguous(), weights), ((2, 5, 4, 6), True, None))
        expected = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        torch.testing.assert_close(out, expected.transpose(1, 2), rtol=1e-5, atol=1e-5)

    def test_causal_by_the_module_unless_the_call_says(self):
        for module, said, causal in ((True, None, True), (False, None, False), (False, True, True), (True, False, False)):
            (q, k, v), (out, _) = self.call(5, 5, module=types.SimpleNamespace(is_causal=module), is_causal=said)
            expected = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=True)
            torch.testing.assert_close(out, expected.transpose(1, 2), rtol=1e-5, atol=1e-5)

    def test_one_row_sees_the_whole_cache(self):
        (q, k, v), (out, _) = self.call(1, 5)
        expected = torch.nn.functional.scaled_dot_product_attention(q, k, v, enable_gqa=True)
        torch.testing.assert_close(out, expected.transpose(1, 2), rtol=1e-5, atol=1e-5)

    def test_a_lost_mask_is_refused(self):
        with self.assertRaisesRegex(ValueError, "no mask for 3 queries and 5 keys"):
            self.call(3, 5)
        with self.assertRaisesRegex(ValueError, r"shape \(2, 5\)"):
            self.call(5, 5, mask=torch.ones(2, 5))

    def mask(self, rows, keys, given=None, first=0, **options):
        """What the registered mask function makes, called as this release of transformers calls it."""
        if MAJOR > 4:
            where = {"q_length": rows, "q_offset": first}
        else:
            where = {"cache_position": torch.arange(first, first + rows)}
        return attn.hf.mask_function(batch_size=2, kv_length=keys, attention_mask=given, mask_function=causal_mask_function, **where,
                                     **options)

    def test_a_mask_is_true_where_a_key_may_be_seen(self):
        mask = self.mask(4, 9, padded("left").bool(), first=5)
        self.assertEqual((mask.dtype, mask.shape), (torch.bool, (2, 1, 4, 9)))
        seen = torch.ones(4, 9, dtype=torch.bool).tril(5)
        self.assertEqual(mask[0, 0].tolist(), seen.tolist())
        self.assertEqual(mask[1, 0].tolist(), (seen & (torch.arange(9) >= 3)).tolist())

    def test_no_mask_only_where_positions_are_plain(self):
        self.assertIsNone(self.mask(5, 5, allow_is_causal_skip=True))
        self.assertIsNone(self.mask(1, 5, first=4, allow_is_causal_skip=True))
        for rows, keys, first in ((3, 8, 0), (3, 8, 5)):  # an empty static cache; rows behind a cache
            mask = self.mask(rows, keys, first=first, allow_is_causal_skip=True)
            self.assertEqual(mask[0, 0].tolist(), torch.ones(rows, keys, dtype=torch.bool).tril(first).tolist())

    def test_a_float_mask_is_added(self):
        """As eager attention's: the lowest float, not -inf."""
        hide = torch.rand(2, 1, 3, 5) < 0.4
        hide[..., 0] = False
        mask = torch.zeros(hide.shape).masked_fill(hide, torch.finfo(torch.float32).min)
        (q, k, v), (out, _) = self.call(3, 5, mask=mask)
        expected = torch.nn.functional.scaled_dot_product_attention(q, k, v, mask, enable_gqa=True)
        torch.testing.assert_close(out, expected.transpose(1, 2), rtol=1e-5, atol=1e-5)

    def test_a_mask_over_more_keys_than_there_are(self):
        mask = torch.rand(2, 1, 3, 9) < 0.7
        (q, k, v), (out, _) = self.call(3, 5, mask=mask)
        expected = torch.nn.functional.scaled_dot_product_attention(q, k, v, mask[..., :5], enable_gqa=True)
        torch.testing.assert_close(out, expected.transpose(1, 2), rtol=1e-5, atol=1e-5)

    def test_scale_and_what_pytorch_has_not(self):
        for options in ({"scaling": 0.3}, {"softcap": 1.5}, {"s_aux": torch.tensor([1.0, -1, 0, 3])},
                        {"position_bias": torch.randn(1, 4, 5, 5)}):
            (q, k, v), (out, weights) = self.call(5, 5, output_attentions=True, **options)
            names = {"scaling": "scale", "s_aux": "sinks", "position_bias": "bias"}
            expected, _, w = attn.torch.dense(q, k, v, causal=True, **{names.get(n, n): x for n, x in options.items()})
            torch.testing.assert_close(out, expected.transpose(1, 2), rtol=1e-5, atol=1e-5)
            torch.testing.assert_close(weights, w, rtol=1e-5, atol=1e-5)

    def test_head_mask_is_refused(self):
        with self.assertRaisesRegex(ValueError, "head_mask"):
            self.call(5, 5, head_mask=torch.ones(4))

    def test_training(self):
        attn.hf._said.clear()
        model = build("llama", "attn").train().requires_grad_(True)
        expected = build("llama", "eager").train().requires_grad_(True)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            for each in (model, expected, model):
                each.zero_grad()
                each(ids(), labels=ids()).loss.backward()
        self.assertEqual(len([w for w in said if "gradients are PyTorch's" in str(w.message)]), 1)
        for a, b in zip(model.parameters(), expected.parameters()):
            torch.testing.assert_close(a.grad, b.grad, rtol=1e-3, atol=1e-4 * b.grad.abs().max().item())

    def test_dropout_keeps_a_share(self):
        torch.manual_seed(SEED)
        attn.hf._said.clear()
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            for _ in range(2):
                _, (out, weights) = self.call(5, 5, dropout=0.5, output_attentions=True)
        self.assertEqual(len([w for w in said if "dropout is PyTorch's" in str(w.message)]), 1)
        _, (whole, _) = self.call(5, 5)
        self.assertFalse(torch.allclose(out, whole))


if __name__ == "__main__":
    print("transformers", transformers.__version__)
    unittest.main()
