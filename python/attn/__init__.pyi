# SPDX-License-Identifier: Apache-2.0
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, TypeAlias

_Array: TypeAlias = Any
"""NumPy arrays, torch tensors, or anything with the buffer protocol or DLPack."""
_Align: TypeAlias = Literal["top-left", "bottom-right"]
_Copy: TypeAlias = bool | None
_Text: TypeAlias = str | Sequence[int]
_Messages: TypeAlias = str | Sequence[tuple[str, str] | Mapping[str, str]]
_Part: TypeAlias = Literal["encoder", "decoder", "cross"]

__all__: list[str]
__version__: str

def sdpa(q: _Array, k: _Array, v: _Array, *, mask: _Array | None = None, bias: _Array | None = None, causal: bool | _Align | None = None,
         align: _Align | None = None, scale: float | None = None, softcap: float = 0, window: tuple[int, int] | None = None,
         offset: int | _Array | None = None, kv_len: _Array | Sequence[int] | None = None, q_len: _Array | Sequence[int] | None = None,
         alibi: bool | _Array | Sequence[float] | None = None, sinks: _Array | Sequence[float] | None = None, dropout: float = 0,
         seed: int = 0, out: _Array | None = None, return_lse: bool = False, return_weights: bool = False, stages: Iterable[str] = (),
         copy: _Copy = False) -> Any: ...
def scaled_dot_product_attention(query: _Array, key: _Array, value: _Array, attn_mask: _Array | None = None, dropout_p: float = 0.0,
                                 is_causal: bool = False, scale: float | None = None, enable_gqa: bool = False) -> Any: ...
def varlen(q: _Array, k: _Array, v: _Array, cu_seqlens_q: _Array | Sequence[int], cu_seqlens_k: _Array | Sequence[int] | None = None, *,
           causal: bool | _Align | None = None, align: _Align | None = None, scale: float | None = None, softcap: float = 0,
           window: tuple[int, int] | None = None, offset: int | _Array | None = None, alibi: bool | _Array | None = None,
           sinks: _Array | None = None, dropout: float = 0, seed: int = 0, out: _Array | None = None, return_lse: bool = False) -> Any: ...
def rope(x: _Array, *, theta: float = 10000.0, rotary_dim: int = 0, interleaved: bool = False, scaling: Mapping[str, Any] | None = None,
         offset: int = 0, positions: _Array | Sequence[int] | None = None, cos: _Array | None = None, sin: _Array | None = None,
         out: _Array | None = None) -> Any: ...
def rms_norm(x: _Array, weight: _Array | None = None, *, bias: _Array | None = None, eps: float = 1e-5, plus_one: bool = False,
             out: _Array | None = None) -> Any: ...
def explain(q: _Array, k: _Array, v: _Array, *, tokens: Sequence[str] | None = None, key_tokens: Sequence[str] | None = None,
            lang: Literal["en", "ko"] = "en", **options: Any) -> Explanation: ...
def diagnose(q: _Array, k: _Array, v: _Array, got: _Array, *, got_weights: _Array | None = None, rtol: float | None = None,
             atol: float | None = None, lang: Literal["en", "ko"] = "en", **options: Any) -> Diagnosis: ...
def show_config(mode: Literal["stdout", "dicts"] = "stdout") -> dict[str, Any] | None: ...
def load_model(path: str | os.PathLike[str], *, float64: bool = False) -> Model: ...
def set_num_threads(n: int) -> None: ...
def get_num_threads() -> int: ...

class MultiHeadAttention:
    heads: int
    kv_heads: int
    dtype: Literal["float32", "float64"]
    def __init__(self, w_q: _Array | None = None, w_k: _Array | None = None, w_v: _Array | None = None, w_o: _Array | None = None, *, heads: int,
                 kv_heads: int | None = None, w_qkv: _Array | None = None, b_q: _Array | None = None, b_k: _Array | None = None,
                 b_v: _Array | None = None, b_qkv: _Array | None = None, b_o: _Array | None = None,
                 order: Literal["in_out", "out_in"] = "in_out", float64: bool = False) -> None: ...
    @classmethod
    def from_torch(cls, source: Any, heads: int | None = None, *, float64: bool = False) -> MultiHeadAttention: ...
    def __call__(self, x: _Array, memory: _Array | None = None, memory_v: _Array | None = None, *, mask: _Array | None = None,
                 bias: _Array | None = None, causal: bool | _Align | None = None, align: _Align | None = None, scale: float | None = None,
                 softcap: float = 0, window: tuple[int, int] | None = None, offset: int | _Array | None = None,
                 kv_len: _Array | Sequence[int] | None = None, q_len: _Array | Sequence[int] | None = None,
                 alibi: bool | _Array | None = None, sinks: _Array | None = None, dropout: float = 0, seed: int = 0,
                 out: _Array | None = None, return_lse: bool = False, return_weights: bool = False, stages: Iterable[str] = (),
                 copy: _Copy = False) -> Any: ...

class KVCache:
    capacity: int
    def __init__(self, *, kv_heads: int, capacity: int, head_dim: int, value_dim: int | None = None, batch: int = 1,
                 dtype: Any = "float32") -> None: ...
    def __len__(self) -> int: ...
    def append(self, k: _Array, v: _Array) -> None: ...
    def truncate(self, length: int) -> None: ...
    def attend(self, q: _Array, *, mask: _Array | None = None, bias: _Array | None = None, scale: float | None = None, softcap: float = 0,
               window: tuple[int, int] | None = None, kv_len: _Array | None = None, q_len: _Array | None = None,
               alibi: bool | _Array | None = None, sinks: _Array | None = None, dropout: float = 0, seed: int = 0,
               out: _Array | None = None, return_lse: bool = False, return_weights: bool = False, stages: Iterable[str] = ()) -> Any: ...
    def arrays(self) -> tuple[Any, Any]: ...

class Row:
    scores: Any
    scaled: Any
    capped: Any
    masked: Any
    weights: Any
    output: Any
    hidden: list[tuple[str, ...]]
    lse: float
    row_max: float
    entropy: float
    scale: float
    position: int
    kv_head: int
    visible: int

class Explanation:
    output: Any
    stages: dict[str, Any]
    def cell(self, b: int = 0, h: int = 0, i: int = 0) -> Row: ...
    def html(self, lang: Literal["en", "ko"] | None = None) -> str: ...
    def save(self, path: str | os.PathLike[str], lang: Literal["en", "ko"] | None = None) -> None: ...

class Diagnosis:
    equal: bool
    report: dict[str, Any]
    text: str
    def __bool__(self) -> bool: ...

class Tokenizer:
    max_length: int
    def __len__(self) -> int: ...
    def encode(self, text: str, pair: str | None = None, *, special: bool = True, target: bool = False) -> list[int]: ...
    def decode(self, ids: Iterable[int], *, skip_special: bool = True) -> str: ...
    def tokens(self, ids: Iterable[int]) -> list[str | None]: ...
    def chat(self, messages: _Messages, *, date: str | None = None) -> str: ...

class Attentions:
    tokens: list[str | None] | None
    target_tokens: list[str | None] | None
    encoder: list[Any]
    decoder: list[Any]
    cross: list[Any]
    hidden: list[Any]
    target_hidden: list[Any]
    def html(self, part: _Part | None = None, lang: Literal["en", "ko"] = "en") -> str: ...
    def save(self, path: str | os.PathLike[str], part: _Part | None = None, lang: Literal["en", "ko"] = "en") -> None: ...

class Model:
    info: dict[str, Any]
    @property
    def tokenizer(self) -> Tokenizer: ...
    def encode(self, texts: _Text | Sequence[_Text], *, pooling: str | None = None, normalize: bool = False, prompt: str | None = None,
               prompt_name: str | None = None) -> Any: ...
    def logits(self, text: _Text, target: _Text | None = None) -> Any: ...
    def hidden_states(self, text: _Text) -> list[Any]: ...
    def attentions(self, text: _Text, pair: str | None = None, target: _Text | None = None) -> Attentions: ...
    def translate(self, texts: _Text | Sequence[_Text], *, beams: int | None = None, max_tokens: int | None = None,
                  length_penalty: float | None = None, early_stopping: bool | Literal["never"] | None = None) -> Any: ...
    def stream(self, prompt: _Text, max_new_tokens: int = 128, *, temperature: float = 0, top_k: int = 0, top_p: float = 0,
               min_p: float = 0, repetition_penalty: float = 0, seed: int = 0) -> Iterator[int]: ...
    def generate(self, prompt: _Text | Sequence[_Text], max_new_tokens: int = 128, *, temperature: float = 0, top_k: int = 0, top_p: float = 0,
                 min_p: float = 0, repetition_penalty: float = 0, seed: int | Sequence[int] = 0) -> Any: ...
    def chat(self, messages: _Messages, max_new_tokens: int = 128, *, system: str | None = None, date: str | None = None,
             temperature: float = 0, top_k: int = 0, top_p: float = 0, min_p: float = 0, repetition_penalty: float = 0,
             seed: int = 0) -> str: ...
