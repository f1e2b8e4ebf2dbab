"""MiniLM: the directions in which sentences point."""

from __future__ import annotations

import json
import re

import numpy as np

from published.catalogue import open_model
from published.fetch import fetch
from tasks.task import Array, Arrays, Measure, Task

LENGTH = 32
SENTENCES = (
    "A man is playing a guitar on stage.", "Someone performs music with a guitar.",
    "The cat sleeps on the warm windowsill.", "A cat is napping by the sunny window.",
    "How do I reset my password?", "I forgot my login, how can I change it?",
    "The stock market fell sharply on Monday.", "Shares dropped steeply at the start of the week.",
    "Quantum computers use superposition.", "She baked a chocolate cake for the party.",
    "The train to Madrid leaves at noon.", "Photosynthesis turns light into sugar.",
    "Heavy rain flooded several streets downtown.", "The committee approved the new budget.",
    "He repaired the old bicycle in the garage.", "Vaccines train the immune system.",
    "The museum opens at ten on weekdays.", "Our accelerator multiplies matrices quickly.",
    "A fox crossed the snowy field at dawn.", "Please send the signed contract by Friday.",
    "The recipe needs two eggs and some flour.", "Volcanoes shaped the islands' landscape.",
    "The goalkeeper saved a late penalty.", "Children built castles of sand on the beach.",
    "The library lends films and music too.", "Interest rates rose for the third time.",
    "An old lighthouse guards the rocky coast.", "Turn left after the second traffic light.",
    "The orchestra rehearsed the symphony twice.", "Honey never spoils if it is kept dry.",
)  # fmt: skip
CALIBRATION_SENTENCES = (
    "The river froze early this winter.", "What time does the pharmacy close?",
    "Engineers tested the bridge under load.", "My neighbour grows tomatoes on her balcony.",
    "The senator answered questions for an hour.", "Bees communicate by dancing.",
    "I would like a table for two, please.", "The spacecraft entered orbit around Mars.",
    "Two students shared the first prize.", "Fresh bread smells wonderful in the morning.",
    "The printer is out of paper again.", "A storm delayed all flights to Oslo.",
    "Glass is made by melting sand.", "The novel was translated into nine languages.",
    "Inflation slowed for the second month.", "Her brother collects antique maps.",
)  # fmt: skip

# The pairs at the start say the same; each following pair does not.
_PARAPHRASES, _UNRELATED = 4, 4


def sentences() -> Task:
    vocabulary = json.loads(fetch("minilm_l6.tokenizer.json").read_text())["model"]["vocab"]
    shown = _tokens(SENTENCES, vocabulary)

    def score(floating: Arrays, int8: Arrays) -> list[Measure]:
        mask = shown["attention_mask"]
        exact, found = (_pooled(o["last_hidden_state"], mask) for o in (floating, int8))
        cosines = (exact * found).sum(1)
        lowest, mean = float(cosines.min()), float(cosines.mean())
        apart = [_separation(directions) for directions in (exact, found)]
        return [
            Measure("cosine with float, mean", 1.0, mean, "at least 0.98", mean >= 0.98),
            Measure("cosine with float, lowest", 1.0, lowest, "at least 0.98", lowest >= 0.98),
            Measure(
                "least paraphrase less greatest unrelated pair", *apart, "above 0", apart[1] > 0
            ),
        ]

    return Task(
        "minilm_l6_fp32",
        f"{len(SENTENCES)} sentences",
        open_model("minilm_l6_fp32"),
        _tokens(CALIBRATION_SENTENCES, vocabulary),
        shown,
        score,
        dict.fromkeys(shown, (1, LENGTH)),
    )


def _pooled(states: Array, mask: Array) -> Array:
    """[sentences, 384] of length 1: the mean of the words' states."""
    weight = mask[..., None].astype(np.float64)
    mean = (states * weight).sum(1) / weight.sum(1)
    return mean / np.linalg.norm(mean, axis=1, keepdims=True)


def _separation(directions: Array) -> float:
    pairs = [float(directions[2 * i] @ directions[2 * i + 1]) for i in range(8)]
    return min(pairs[:_PARAPHRASES]) - max(pairs[_PARAPHRASES : _PARAPHRASES + _UNRELATED])


def _tokens(texts: tuple[str, ...], vocabulary: dict[str, int]) -> dict[str, Array]:
    """[texts, 32] int64 inputs of BERT for plain English."""
    ids = np.full((len(texts), LENGTH), vocabulary["[PAD]"], np.int64)
    for row, text in enumerate(texts):
        words = re.findall(r"\w+|[^\w\s]", text.lower())
        pieces = [piece for word in words for piece in _pieces(word, vocabulary)]
        tokens = ["[CLS]", *pieces, "[SEP]"]
        ids[row, : len(tokens)] = [vocabulary[t] for t in tokens]
    mask = (ids != vocabulary["[PAD]"]).astype(np.int64)
    return {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}


def _pieces(word: str, vocabulary: dict[str, int]) -> list[str]:
    """A word's longest known beginnings, one after the other (WordPiece)."""
    pieces: list[str] = []
    while word:
        prefix = "##" if pieces else ""
        end = next((e for e in range(len(word), 0, -1) if prefix + word[:e] in vocabulary), 0)
        if not end:
            return ["[UNK]"]
        pieces.append(prefix + word[:end])
        word = word[end:]
    return pieces
