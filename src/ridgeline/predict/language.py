"""Language models by their published shape: what a token multiplies, reads and keeps."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from ridgeline.errors import RidgelineError, did_you_mean
from ridgeline.predict.work import Work

CACHE_BYTES = 2.0
"""Of one element of keys and values, kept in 16 bits."""
SLICE_TOKENS = 512
"""Of a prompt that runs at once, llama.cpp's default."""
LONGEST_CONTEXT = 10_000_000
LARGEST_BATCH = 1_000_000


@dataclass(frozen=True, slots=True)
class Weights:
    """How weights are stored: bits of one, with its share of scales, and what multiplies them."""

    name: str
    bits: float
    peaks: tuple[str, ...]
    meaning: str
    embedding_bits: float | None = None
    """Where the table of tokens is kept otherwise."""

    @property
    def packed(self) -> bool:
        """Whether weights are unpacked into 16 bits before they are multiplied."""
        return self.bits < 16 and self.name != "fp8"


_WEIGHTS = (
    Weights("fp32", 32, ("fp32",), "fp32"),
    Weights("fp16", 16, ("fp16", "bf16"), "fp16"),
    Weights("bf16", 16, ("bf16", "fp16"), "bf16"),
    Weights("fp8", 8, ("fp8",), "fp8, multiplied in fp8"),
    Weights("int8", 8, ("bf16", "fp16"), "int8, one scale a row, multiplied in 16 bits", 16),
    Weights("int4", 4.5, ("fp16", "bf16"), "int4, a 16-bit scale for 32, multiplied in 16 bits"),
    Weights("int4-g32", 5, ("bf16", "fp16"), "int4, scale and offset for 32 weights", 16),
    # 4.58 GiB of 8.03e9 weights, as llama.cpp prints of Llama 3 8B.
    Weights("q4_k_m", 4.9, ("fp16", "bf16"), "llama.cpp's mixture of 4 and 6 bits"),
)
WEIGHTS = {row.name: row for row in _WEIGHTS}


def weights_of(name: str) -> Weights:
    """The storage called so. Raises RidgelineError with the near ones."""
    if name not in WEIGHTS:
        raise RidgelineError(
            f"there is no storage of weights '{name}'",
            where="--precision",
            fix=did_you_mean(name, WEIGHTS),
        )
    return WEIGHTS[name]


@dataclass(frozen=True, slots=True)
class LanguageModel:
    """Sizes in elements. `ffn` is that of one expert; `ffn_matrices` 3 where a gate multiplies."""

    name: str
    title: str
    source: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head: int
    ffn: int
    vocab: int
    ffn_matrices: int = 3
    experts: int = 1
    experts_used: int = 1
    tied: bool = False

    @property
    def attention_parameters(self) -> int:
        """Of one layer: queries, keys, values and the product after them."""
        return self.hidden * self.head * (2 * self.heads + 2 * self.kv_heads)

    @property
    def parameters(self) -> int:
        """All that are stored in products and the table of tokens; norms and biases are not."""
        ffn = self.ffn_matrices * self.hidden * self.ffn * self.experts
        router = self.hidden * self.experts if self.experts > 1 else 0
        tables = self.vocab * self.hidden * (1 if self.tied else 2)
        return self.layers * (self.attention_parameters + ffn + router) + tables

    def read_parameters(self, tokens: int) -> float:
        """Those that `tokens` tokens at once multiply, each counted once; the head among them.

        Of a mixture, as many experts as `tokens` draws of `experts_used` hit on average.
        """
        missed = (1 - self.experts_used / self.experts) ** tokens
        experts = self.experts * (1 - missed)
        ffn = self.ffn_matrices * self.hidden * self.ffn * experts
        layer = self.attention_parameters + ffn + (self.hidden * self.experts * (self.experts > 1))
        return self.layers * layer + self.vocab * self.hidden

    @property
    def macs_per_token(self) -> int:
        """Of products with weights, without the head."""
        ffn = self.ffn_matrices * self.hidden * self.ffn * self.experts_used
        return self.layers * (self.attention_parameters + ffn)

    def attention_macs(self, queries: int, context: int) -> int:
        """Of scores and their sums, for `queries` tokens that see `context` each."""
        return 2 * self.layers * self.heads * self.head * queries * context

    @property
    def cache_bytes_per_token(self) -> float:
        return 2 * self.layers * self.kv_heads * self.head * CACHE_BYTES

    def stored_bytes(self, weights: Weights) -> float:
        table = self.vocab * self.hidden
        other = weights.embedding_bits or weights.bits
        return ((self.parameters - table) * weights.bits + table * other) / 8


def decode(model: LanguageModel, weights: Weights, batch: int, context: int) -> Work:
    """One token of each of `batch` texts that are `context` tokens long."""
    _check(batch, context)
    macs = batch * (model.macs_per_token + model.vocab * model.hidden)
    macs += batch * model.attention_macs(1, context)
    # What a token looks up of the table is one row; a tied table is read whole as the head.
    cache_bytes = batch * context * model.cache_bytes_per_token
    return Work(
        name=f"{model.name}, one token",
        per="token",
        items=batch,
        layers=model.layers,
        operations=2.0 * macs,
        weight_bytes=model.read_parameters(batch) * weights.bits / 8,
        cache_bytes=cache_bytes,
        vector_bytes=batch * model.layers * model.hidden * 2.0,
        stored_bytes=model.stored_bytes(weights) + cache_bytes,
        peaks=weights.peaks,
        unpacked=model.read_parameters(batch) if weights.packed else 0.0,
    )


def prefill(model: LanguageModel, weights: Weights, batch: int, tokens: int) -> Work:
    """The prompts of `batch` texts, `tokens` each; the head runs on the last token only."""
    _check(batch, tokens)
    macs = batch * tokens * model.macs_per_token + batch * model.vocab * model.hidden
    macs += batch * model.attention_macs(tokens, (tokens + 1) // 2)
    # Weights are unpacked into 16 bits, two bytes written and read, for each slice of the prompt.
    slices = -(-batch * tokens // SLICE_TOKENS)
    read = slices * model.read_parameters(min(SLICE_TOKENS, batch * tokens))
    cache_bytes = batch * tokens * model.cache_bytes_per_token
    return Work(
        name=f"{model.name}, prompt of {tokens:,}",
        per="token",
        items=batch * tokens,
        layers=model.layers,
        operations=2.0 * macs,
        weight_bytes=read * weights.bits / 8,
        cache_bytes=cache_bytes,
        vector_bytes=batch * tokens * model.layers * model.hidden * 2.0,
        stored_bytes=model.stored_bytes(weights) + cache_bytes,
        peaks=weights.peaks,
        unpacked=read if weights.packed else 0.0,
        expanded_bytes=4.0 * read if weights.packed else 0.0,
    )


def _check(batch: int, tokens: int) -> None:
    if not 1 <= batch <= LARGEST_BATCH:
        raise RidgelineError(
            f"is {batch}", where="--batch", fix=f"Give a whole number from 1 to {LARGEST_BATCH:,}"
        )
    if not 1 <= tokens <= LONGEST_CONTEXT:
        raise RidgelineError(
            f"is {tokens}",
            where="--context",
            fix=f"Give a whole number of tokens from 1 to {LONGEST_CONTEXT:,}",
        )


@cache
def language_models() -> dict[str, LanguageModel]:
    """Those that `data/language_models.toml` names, by name."""
    path = resources.files("ridgeline.predict") / "data" / "language_models.toml"
    data: dict[str, dict[str, Any]] = tomllib.loads(path.read_text(encoding="utf-8"))
    return {name: LanguageModel(name=name, **table) for name, table in data.items()}


def language_model(name: str) -> LanguageModel:
    """The model called so, in any case. Raises RidgelineError with the near names."""
    found = language_models().get(name.lower())
    if found is None:
        raise RidgelineError(
            f"there is no language model '{name}'",
            where="model",
            fix=did_you_mean(name.lower(), language_models()),
        )
    return found
