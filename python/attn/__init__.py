# SPDX-License-Identifier: Apache-2.0
"""Exact attention on CPUs that you can see.

    attn.sdpa(q, k, v, ...)             scaled dot-product attention, with every option and by-product
    attn.scaled_dot_product_attention   the same by PyTorch's signature
    attn.varlen                         packed sequences
    attn.MultiHeadAttention             attention with its projections
    attn.KVCache                        keys and values of a growing sequence
    attn.rope, attn.rms_norm            rotary positions; RMSNorm
    attn.explain, attn.diagnose         every number of a call, as a page; what is wrong with an output
    attn.load_model                     a pretrained model from its folder or .gguf: encode, generate, chat, translate, attentions
    attn.show_config                    version, kernels, threads
    attn.torch, attn.hf, attn.onnx      for PyTorch, Hugging Face models and ONNX nodes; import them by name

Arrays are NumPy's, torch's, or anything with the buffer protocol or DLPack; they are read in place.
"""
from ._attentions import Attentions
from ._attn import VERSION as __version__
from ._config import show_config
from ._context import get_num_threads, set_num_threads
from ._explain import Diagnosis, Explanation, Row, diagnose, explain
from ._layers import rms_norm, rope
from ._mha import KVCache, MultiHeadAttention
from ._model import Model, load_model
from ._sdpa import scaled_dot_product_attention, sdpa, varlen
from ._text import Tokenizer

__all__ = ["Attentions", "Diagnosis", "Explanation", "KVCache", "Model", "MultiHeadAttention", "Row", "Tokenizer", "__version__",
           "diagnose", "explain", "get_num_threads", "load_model", "rms_norm", "rope", "scaled_dot_product_attention", "sdpa",
           "set_num_threads", "show_config", "varlen"]
