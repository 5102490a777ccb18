"""Tiny models of each family, as their own programs write them, and the command that imports them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from imported_models import opennmt_spec, opennmt_tokens, save_spec, unigram_pieces
from m2m_models import nllb_folder
from marian_models import as_bin, marian_pieces, marian_transformer, piece_count
from shared_fixtures import FEW_TOKENS, SENTENCES
from typer.testing import CliRunner

from model.hypothesis import Limits
from tests.training.importing.test_huggingface_marian import write_folder
from training.__main__ import cli
from training.export.marian import marian_arrays

Make = Callable[[Path], None]


def ctranslate2(folder: Path) -> None:
    """No end mark after the source, an output bias."""
    model = unigram_pieces()
    save_spec(opennmt_spec(opennmt_tokens(model)), folder, model)


def ctranslate2_of_two_vocabularies(folder: Path) -> None:
    model = unigram_pieces()
    first, *others = opennmt_tokens(model)
    save_spec(opennmt_spec([first, *reversed(others)], source_tokens=[first, *others]), folder, model)


def firefox(folder: Path) -> None:
    """SSRU, Marian's positions, the start a vector of zeros."""
    folder.mkdir()
    model = marian_pieces()
    (folder / "vocab.spm").write_bytes(model)
    arrays = marian_arrays(marian_transformer(piece_count(model), decoder="ssru"))
    (folder / "model.enfr.bin").write_bytes(as_bin(arrays))


def opus(folder: Path) -> None:
    """Swish, one vocabulary of two SentencePiece models, a beam of 6, Moses' punctuation."""
    write_folder(
        folder, target=lambda: marian_pieces(sentences=[*SENTENCES, "Another sentence, which makes another model."])
    )


def nllb(folder: Path) -> None:
    """Several directions; prefixes on both sides; the unknown symbol excluded."""
    nllb_folder(folder, licence="mit")


def limit_translations(patch: pytest.MonkeyPatch) -> None:
    """Imported models translate into few tokens: these models end few sentences."""
    few = partial(Limits, ratio=FEW_TOKENS.ratio, margin=FEW_TOKENS.margin)
    for family in ("ctranslate2", "huggingface_marian", "m2m", "marian"):
        patch.setattr(f"training.importing.{family}.Limits", few)


FAMILIES: tuple[Make, ...] = (ctranslate2, ctranslate2_of_two_vocabularies, firefox, opus, nllb)


def import_model(make: Make, *options: str, out: str = "bundles/imported") -> str:
    """Makes the model in the folder `model`, unless it is there, and imports it. Returns what `import` printed."""
    if not Path("model").exists():
        make(Path("model"))
    arguments = ["model", "--source", "en", "--target", "fr", "--out", out, "--threads", "1", *options]
    result = CliRunner().invoke(cli, ["import", *arguments])
    assert result.exit_code == 0, result.output
    return result.stdout
