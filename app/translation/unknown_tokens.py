"""The text of unknown tokens: what an imported model generates for characters that its vocabulary lacks."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from app.engine.sequence import Decoded
from model.bundle import Bundle
from model.tokenizer import MARK, SPACE, Piece


def has_unknowns(decoded: Decoded, bundle: Bundle) -> bool:
    """Whether `target_texts` copies text from the source."""
    return bundle.decoding.replace_unknowns and bundle.target_tokenizer.unknown_id in decoded.tokens


def target_texts(decoded: Decoded, bundle: Bundle, copies: Callable[[], Sequence[str]]) -> list[str]:
    """The text that each target token adds, including the space before it.

    If the bundle's defaults say so, an unknown token adds that of `copies`, one for each source token, to which it
    attends most, as CTranslate2's `replace_unknowns` does.
    """
    texts = bundle.target_tokenizer.token_texts(decoded.tokens)
    if has_unknowns(decoded, bundle):
        given, unknown = copies(), bundle.target_tokenizer.unknown_id
        for number, (token, aligned) in enumerate(zip(decoded.tokens, decoded.aligned, strict=True)):
            if token == unknown:
                texts[number] = given[aligned] if aligned < len(given) else ""
    return texts


def copied_text(piece: Piece, text: str) -> str:
    """What an unknown token that attends to `piece`, a source token of `text`, adds."""
    return SPACE * piece.piece.startswith(MARK) + text[piece.start : piece.end].strip()
