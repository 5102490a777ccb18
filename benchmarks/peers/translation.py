"""CTranslate2 as its users call it: text to pieces, a batch through `translate_batch`, pieces to text. No HTTP."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import ctranslate2
import sentencepiece


class Translation:
    """A converted bundle in int8, on one thread, greedy."""

    def __init__(self, folder: Path) -> None:
        self.pieces = sentencepiece.SentencePieceProcessor(model_file=str(folder / "sentencepiece.model"))
        self.translator = ctranslate2.Translator(
            str(folder), device="cpu", compute_type="int8", inter_threads=1, intra_threads=1
        )

    def translate(self, texts: Sequence[str]) -> list[dict[str, Any]]:
        """The answers to requests with these texts, one sentence each, decoded as one batch."""
        # The bundle's tokeniser puts a space before every text.
        sources = [self.pieces.encode(f" {text}", out_type=str) for text in texts]
        # Our limit for a sentence, of the longest in the batch: CTranslate2 has one for all.
        longest = 2 * max(map(len, sources)) + 16
        results = self.translator.translate_batch(
            sources, beam_size=1, max_decoding_length=longest, return_end_token=True
        )
        return [self._answer(source, result.hypotheses[0]) for source, result in zip(sources, results, strict=True)]

    def _answer(self, source: list[str], target: list[str]) -> dict[str, Any]:
        words = target[:-1] if target[-1:] == ["</s>"] else target
        text = self.pieces.decode(words).removeprefix(" ")
        return {
            "translations": [{"text": text}],
            "usage": {"source_tokens": len(source) + 1, "target_tokens": len(target)},
        }
