"""A translated document for review as a page: source and translation side by side, what to check first at the top."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from html import escape
from pathlib import Path

from app.formats.units import Code, Reviewed, Unit, split_codes
from app.formats.xml_parts import clean
from app.markup.passage import replaced

_STYLE = Path(__file__).with_name("review.css").read_text("utf-8").strip()


def write_html(
    name: str,
    languages: tuple[str, str],
    units: Sequence[Unit],
    reviewed: Sequence[Reviewed],
    model: str,
    doubtful: float,
) -> bytes:
    """The page, which needs no other file. First the texts with a quality under `doubtful` or a warning, the lowest
    first; then the others in the document's order. `name`: of the document."""
    rows = list(zip(units, reviewed, strict=True))
    checked = [bool(found.warnings) or (found.quality is not None and found.quality < doubtful) for _, found in rows]
    first = [row for row, to_check in zip(rows, checked, strict=True) if to_check]
    first.sort(key=lambda row: 1.0 if row[1].quality is None else row[1].quality)
    rest = [row for row, to_check in zip(rows, checked, strict=True) if not to_check]
    title = escape(clean(name))
    source, target = map(escape, languages)
    lines = [
        "<!DOCTYPE html>",
        f'<html lang="en"><meta charset="utf-8"><title>{title}</title>',
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{_STYLE}</style>',
        f"<h1>{title}</h1>",
        f"<p>{source} → {target}, {escape(model)}: {len(rows):,} texts, {len(first):,} to check first.</p>",
        f"<table><thead><tr><th>Text<th>{source}<th>{target}</thead><tbody>",
        *(_row(unit, found, languages, "check") for unit, found in first),
        *(_row(unit, found, languages, "") for unit, found in rest),
        "</tbody></table></html>",
    ]
    return ("\n".join(lines) + "\n").encode()


def _row(unit: Unit, found: Reviewed, languages: tuple[str, str], kind: str) -> str:
    facts = escape(clean(str(unit.location)))
    if found.quality is not None:
        facts += f"<small><b>Quality {found.quality:.2f}</b></small>"
    facts += "".join(f"<small><b>{escape(clean(warning))}</b></small>" for warning in found.warnings)
    source, target = (f'<td lang="{escape(language)}" dir="auto">' for language in languages)
    attribute = f' class="{kind}"' if kind else ""
    return (
        f"<tr{attribute}><td>{facts}"
        f"{source}{_shown(unit.source, unit.codes)}"
        f"{target}{_underlined(found.target, found.words, unit.codes)}"
    )


def _underlined(text: str, words: Sequence[tuple[int, int]], codes: Sequence[Code]) -> str:
    shown = partial(_shown, codes=codes)
    return replaced(text, ((start, end, f"<u>{shown(text[start:end])}</u>") for start, end in words), shown)


def _shown(text: str, codes: Sequence[Code]) -> str:
    parts = list[str]()
    for part in split_codes(text, codes):
        if isinstance(part, str):
            parts.append(escape(clean(part)))
            continue
        code = codes[part]
        name = clean(code.text) or {"open": f"{code.pair + 1}⟨", "close": f"⟩{code.pair + 1}"}.get(code.kind, "·")
        parts.append(f'<code title="{escape(clean(code.raw))}">{escape(name)}</code>')
    return "".join(parts)
