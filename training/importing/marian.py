"""Models of Marian: Firefox's students (`.bin`) and OPUS-MT's (`.npz`), a file, a folder or a zip of files.

`training.export.marian` is the inverse. File names are as read in mozilla/firefox-translations-models and in the
releases that Hugging Face's converter expects. Tried on models that Marian itself wrote; never on a published file.
"""

from __future__ import annotations

import gzip
import re
import shutil
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import sentencepiece

from model.directions import Directions, TargetPrefixes
from model.hypothesis import MAX_BEAM_SIZE, Decoding, Limits
from model.languages import TWO_LETTERS, is_language_code
from model.normalisation import Punctuation
from training.importing.errors import ImportFault
from training.importing.marian_files import is_marian_bin, read_marian_file
from training.importing.marian_network import (
    EPSILON,
    VocabularySizes,
    assemble,
    embedding_rows,
)
from training.importing.model import MAX_SENTENCE, ImportedModel
from training.importing.model_files import (
    MAX_TEXT_BYTES,
    Value,
    check_unicode,
    opened_zip,
    read_content,
    read_json,
    read_text,
    read_yaml,
    zip_names,
)
from training.importing.options import PositionsOf
from training.importing.vocabulary import PADDING, Specials, Vocabulary, build_vocabulary
from training.importing.weights import disk_folder

DECODER = "decoder.yml"
ZERO_START = "<zero>"
"""The start token, with an embedding of zeros, of models that start from zeros."""
_TARGET_SYMBOL = re.compile(r">>([A-Za-z]{2,8}(?:_[A-Za-z0-9]{1,8})*)<<")
"""Names the target language by ISO 639-3, in models that have several."""
_EXPANSION = 8
"""Maximum size of an unpacked file, as a multiple of the packed one's."""
_OUR_EPSILON = 1e-5
_MODEL = re.compile(r".*\.(npz|bin)(\.gz)?")
_NO_MODEL = re.compile(r"(lex|shortlist|optimizer|.*\.s2t|pytorch_model)\b.*|.*optimizer\.npz")
_TEXTS = re.compile(
    r"(.*\.(spm|yml|yaml|vocab)(\.gz)?)|metadata\.json|LICEN[CS]E.*|README.*|preprocess\.sh|(source|target)\.bpe", re.I
)


def is_marian(path: Path) -> bool:
    """Whether `path` has the form of this family."""
    if path.is_dir():
        return any(_is_model(file) for file in path.iterdir() if file.is_file())
    if path.suffix == ".zip" and zipfile.is_zipfile(path):
        return any(PurePosixPath(name).suffix == ".npz" for name in zip_names(path))
    return _is_model(path)


def read_marian(path: Path, source: str, target: str, positions: PositionsOf) -> ImportedModel:
    """Reads the model at `path`, which translates `source` into `target`. Raises ImportFault."""
    with TemporaryDirectory(prefix="interlinear-", dir=disk_folder()) as place:
        if path.is_dir():
            return _read_folder(path, None, Path(place), source, target, positions)
        if path.suffix == ".zip":
            unpacked = Path(place, "zip")
            _unpack_zip(path, unpacked)
            return _read_folder(unpacked, None, Path(place), source, target, positions)
        return _read_folder(path.parent, path, Path(place), source, target, positions)


def _is_model(file: Path) -> bool:
    """By name, and the first bytes of a .bin: other programs have files of this name."""
    if not _MODEL.fullmatch(file.name) or _NO_MODEL.fullmatch(file.name):
        return False
    if ".npz" in file.suffixes:
        return True
    try:
        with gzip.open(file) if file.suffix == ".gz" else open(file, "rb") as content:
            return is_marian_bin(content.read(16))
    except (OSError, EOFError, zlib.error):
        return False


def _unpack_zip(package: Path, place: Path) -> None:
    """The files of a zip that are needed, in one folder: those at its top, or in a folder at its top."""
    place.mkdir()
    budget = _EXPANSION * package.stat().st_size + MAX_TEXT_BYTES
    try:
        with opened_zip(package) as archive:
            for entry in archive.infolist():
                parts = PurePosixPath(entry.filename).parts
                name = parts[-1] if parts else ""
                if len(parts) > 2 or ".." in parts or not (_MODEL.fullmatch(name) or _TEXTS.fullmatch(name)):
                    continue
                budget -= entry.file_size
                if budget < 0 or Path(place, name).exists():
                    raise ImportFault(f"has {name} twice, or one that takes much more than the zip's size")
                with archive.open(entry) as packed, open(Path(place, name), "wb") as file:
                    shutil.copyfileobj(packed, file)  # never more than `file_size`
    except ImportFault as error:
        raise ImportFault(f"{package}: {error}") from None


class _Files:
    """The files of a model's folder, by name without .gz; those in .gz are unpacked into another folder when read."""

    def __init__(self, folder: Path, place: Path) -> None:
        self._folder, self._place = folder, place
        self._files = {file.name.removesuffix(".gz"): file for file in sorted(folder.iterdir()) if file.is_file()}

    def names(self, pattern: str) -> list[str]:
        return [name for name in self._files if re.fullmatch(pattern, name, re.I)]

    def __contains__(self, name: str) -> bool:
        return name in self._files

    def path(self, name: str) -> Path:
        """Raises ImportFault."""
        file = self._files[name]
        if file.suffix != ".gz":
            return file
        unpacked, most = self._place / name, _EXPANSION * file.stat().st_size + (1 << 20)
        try:
            with gzip.open(file) as packed, open(unpacked, "wb") as out:
                while chunk := packed.read(1 << 20):
                    most -= out.write(chunk)
                    if most < 0:
                        raise ImportFault(f"{file} takes more than {_EXPANSION} times its size")
        except (OSError, EOFError, zlib.error) as error:
            raise ImportFault(f"{file} is a damaged gzip file: {error}") from None
        return unpacked

    def content(self, name: str) -> bytes:
        return read_content(self.path(name))

    def text(self, name: str) -> str:
        return read_text(self.path(name))


class Side(NamedTuple):
    """The vocabulary of one side as stored: the tokens in order, and the SentencePiece model that splits its text."""

    tokens: list[str]
    pieces: bytes


def _read_folder(
    folder: Path, model: Path | None, place: Path, source: str, target: str, positions: PositionsOf
) -> ImportedModel:
    files = _Files(folder, place)
    try:
        decoder = _decoder_settings(files)
        decoding = _decoding(decoder)
    except ImportFault as error:
        raise ImportFault(f"{folder}: {error}") from None
    name = model.name.removesuffix(".gz") if model else _model_name(folder, files, decoder)
    weights_path = files.path(name)
    metadata, preprocess = _metadata(files, source, target), _optional_text(files, "preprocess.sh")
    if files.names(r"(source|target)\.bpe") or "apply_bpe" in preprocess:
        raise ImportFault(f"{folder}: its text is split by BPE (source.bpe), which is not supported")
    try:
        parsed = read_marian_file(weights_path)
        options = read_yaml(parsed.options)
        sides = _sides(files, decoder)
        rows = embedding_rows(parsed.arrays)
        is_guided = name.endswith(".bin") or _says_guided(files, name, options)
        vocabularies = build_sides(sides, rows, (source, target), Specials("<unk>", ZERO_START, "</s>", ZERO_START))
        directions = directions_of(vocabularies[0], source, target)
        config, weights = assemble(options, parsed.arrays, sizes_of(vocabularies), positions, is_guided)
    except ImportFault as error:
        raise ImportFault(f"{folder / name}: {error}") from None
    punctuation: Punctuation | None = "moses" if "normalize-punctuation" in preprocess else None
    remarks = [f"Its layer normalisation adds {EPSILON} to the variance; here it adds {_OUR_EPSILON}."]
    if positions == "huggingface":
        remarks.append("Its positions are those of Hugging Face's and CTranslate2's copies, not Marian's own.")
    if is_guided:
        remarks.append("Alignment is taken from one head, which was trained for it according to its files.")
    remarks += vocabulary_remarks(vocabularies, [len(side.tokens) for side in sides])
    return ImportedModel(
        family="Marian",
        config=config,
        weights=weights,
        vocabulary=vocabularies[0],
        directions=directions,
        target_vocabulary=vocabularies[1] if len(vocabularies) > 1 else None,
        limits=Limits(MAX_SENTENCE, MAX_SENTENCE),
        remarks=remarks,
        metadata=metadata,
        decoding=decoding,
        punctuation=punctuation,
    )


def _model_name(folder: Path, files: _Files, decoder: dict[str, Value]) -> str:
    names = [name for name in files.names(_MODEL.pattern) if not _NO_MODEL.fullmatch(name)]
    models = decoder.get("models", [])
    listed = [PurePosixPath(model).name for model in ([models] if isinstance(models, str) else models)]
    if len(listed) == 1 and listed[0] in names:
        return listed[0]
    if len(names) != 1:
        raise ImportFault(f"{folder}: has {len(names)} models ({', '.join(names[:3])}): name the file of one")
    return names[0]


def _decoder_settings(files: _Files) -> dict[str, Value]:
    """What decoder.yml says. Raises ImportFault, which names it."""
    if DECODER not in files:
        return {}
    text = files.text(DECODER)
    try:
        return read_yaml(text)
    except ImportFault as error:
        raise ImportFault(f"{DECODER}: {error}") from None


def _decoding(decoder: dict[str, Value]) -> Decoding:
    """Its publisher's beam and length penalty, searched as Marian does. Raises ImportFault, which names the setting."""
    beam, penalty = decoder.get("beam-size"), _shown(decoder.get("normalize", "1"))
    if not (beam is None or (isinstance(beam, str) and re.fullmatch("[1-9][0-9]{0,6}", beam))):
        raise ImportFault(f"{DECODER} has beam-size: {_shown(beam)}, which is not a number of hypotheses")
    try:
        return Decoding(min(int(str(beam)), MAX_BEAM_SIZE) if beam else None, float(penalty), narrowing=True)
    except ValueError as error:
        raise ImportFault(f"{DECODER} has normalize: {penalty}, which is not supported: {error}") from None


def _shown(value: Value) -> str:
    return value if isinstance(value, str) else f"[{', '.join(value)}]"


def _optional_text(files: _Files, name: str) -> str:
    return files.text(name) if name in files else ""


def _metadata(files: _Files, source: str, target: str) -> dict[str, Any]:
    """What the model says of itself: its licence, and what Mozilla's metadata.json has."""
    said: dict[str, Any] = {}
    for name in files.names(r"LICEN[CS]E.*"):
        text = files.content(name).decode(errors="replace")
        if re.search(r"Attribution 4\.0|CC[- ]BY[- ]4\.0", text):
            said["license"] = "CC-BY-4.0"
        elif "Mozilla Public License" in text:
            said["license"] = "MPL-2.0"
    if "metadata.json" not in files:
        return said
    facts = read_json(files.path("metadata.json"))
    if isinstance(facts, dict):
        theirs = facts.get("sourceLanguage", source), facts.get("targetLanguage", target)
        if theirs != (source, target):
            raise ImportFault(
                f"metadata.json says that it translates {theirs[0]} to {theirs[1]}, not {source} to {target}"
            )
        said["architecture"] = facts.get("architecture")
    return said


def _says_guided(files: _Files, name: str, options: dict[str, Value]) -> bool:
    """Whether the model was trained with guided alignment: its own options do not say."""
    return (
        "align" in name
        or options.get("guided-alignment", "none") != "none"
        or any("transformer-align" in files.content(file).decode(errors="replace") for file in files.names("README.*"))
    )


def _sides(files: _Files, decoder: dict[str, Value]) -> list[Side]:
    """The vocabulary of both sides, or of each. Raises ImportFault."""
    spms = files.names(r".*\.spm")
    pairs = [r"(src|source)(vocab)?\b.*\.spm", r"(trg|tgt|target)(vocab)?\b.*\.spm"]
    found = [[name for name in spms if re.fullmatch(pattern, name, re.I)] for pattern in pairs]
    listed = _vocabulary_files(files, decoder)
    if listed and not listed[0].endswith(".spm"):
        if any(len(names) != 1 for names in found):
            if len(spms) != 1:
                raise ImportFault("has no source.spm and target.spm beside it")
            found = [spms, spms]
        tokens = [_read_tokens(files, name) for name in listed]
        pieces = [files.content(names[0]) for names in found]
        if len(tokens) == 1 and pieces[0] == pieces[1]:
            return [Side(tokens[0], pieces[0])]
        return [Side(tokens[min(n, len(tokens) - 1)], pieces[n]) for n in (0, 1)]
    if listed:
        contents = [files.content(name) for name in listed]
    elif all(len(names) == 1 for names in found):
        contents = [files.content(names[0]) for names in found]
    elif len(spms) == 1:
        contents = [files.content(spms[0])]
    else:
        raise ImportFault(f"has {len(spms)} SentencePiece models beside it, not one or two")
    if len(contents) == 2 and contents[0] == contents[1]:
        contents.pop()
    return [Side(_pieces_of(content), content) for content in contents]


def _vocabulary_files(files: _Files, decoder: dict[str, Value]) -> list[str]:
    """The names of the vocabularies, one or two: those that decoder.yml lists, or those with a usual name."""
    vocabularies = decoder.get("vocabs", [])
    if isinstance(vocabularies, list):
        names = list(dict.fromkeys(PurePosixPath(name).name for name in vocabularies))
        if 1 <= len(names) <= 2 and all(name in files for name in names):
            return names
    for patterns in ((r".*\bsrc\.vocab(\.yml)?", r".*\btrg\.vocab(\.yml)?"), (r".*vocab\.ya?ml",)):
        found = [files.names(pattern) for pattern in patterns]
        if all(len(names) == 1 for names in found):
            return [names[0] for names in found]
    return []


def _read_tokens(files: _Files, name: str) -> list[str]:
    """The tokens of a vocabulary in order: of YAML or JSON, token to id, or a line a token."""
    text = files.text(name)
    if not name.endswith((".yml", ".yaml", ".json")):
        tokens = [line.split("\t")[0] for line in text.removesuffix("\n").split("\n")]
        return checked_tokens(name, dict(zip(tokens, range(len(tokens)), strict=True)), len(tokens))
    try:
        return checked_tokens(name, read_yaml(text))
    except ImportFault as error:
        raise ImportFault(f"{name}: {error}") from None


def checked_tokens(name: str, ids: Any, count: int | None = None) -> list[str]:
    """The tokens in the order of their ids, which must be 0, 1, 2 and so on. Raises ImportFault."""
    if not isinstance(ids, dict) or not ids:
        raise ImportFault(f"{name} is not a mapping of tokens")
    tokens: list[str | None] = [None] * len(ids)
    for token, id in ids.items():
        digits = str(id)
        if type(id) not in (int, str) or not (digits.isascii() and digits.isdigit() and len(digits) < 10):
            raise ImportFault(f"{name} has {token!r} with the id {id!r}")
        if int(digits) >= len(tokens) or tokens[int(digits)] is not None:
            raise ImportFault(f"{name} has the id {digits}, which is over the number of its tokens or comes twice")
        tokens[int(digits)] = token
    if count not in (None, len(tokens)):
        raise ImportFault(f"{name} has a token twice")
    checked = [token for token in tokens if token]
    if len(checked) < len(tokens):
        raise ImportFault(f"{name} has an empty token")
    check_unicode(name, checked)
    return checked


def _pieces_of(content: bytes) -> list[str]:
    """The pieces of a SentencePiece model, which are the tokens themselves. Raises ImportFault."""
    if not content:
        raise ImportFault("the SentencePiece model is empty")
    try:
        processor = sentencepiece.SentencePieceProcessor(model_proto=content)
    except RuntimeError as error:
        raise ImportFault(f"the SentencePiece model cannot be read: {str(error).splitlines()[0]}") from None
    ids = processor.eos_id(), processor.unk_id()
    pieces = [processor.id_to_piece(id) for id in range(processor.get_piece_size())]
    if [pieces[id] if id >= 0 else "" for id in ids] != ["</s>", "<unk>"]:
        raise ImportFault("the SentencePiece model has no </s> and <unk>")
    if len(set(pieces)) != len(pieces):
        raise ImportFault("the SentencePiece model has a piece twice")
    return pieces


def build_sides(
    sides: Sequence[Side], rows: tuple[int, int], languages: Sequence[str], specials: Specials
) -> list[Vocabulary]:
    """The vocabularies for a bundle, of as many tokens on both sides, so that added symbols have the same ids.

    `rows`: of the embeddings, source and target. Raises ImportFault.
    """
    for n, side in enumerate(sides):
        if len(side.tokens) > rows[n]:
            raise ImportFault(f"has embeddings of {rows[n]:,} tokens, and a vocabulary of {len(side.tokens):,}")
        for token in (specials.unknown, specials.end):
            if token not in side.tokens:
                raise ImportFault(f"has no {token} in its vocabulary")
    if len(sides) == 1 and rows[0] != rows[1]:
        raise ImportFault(f"has embeddings of {rows[0]:,} and {rows[1]:,} tokens for one vocabulary")
    most = max(rows)
    if most > 2 * max(len(side.tokens) for side in sides) + 1000:
        raise ImportFault(f"has embeddings of {most:,} tokens, far more than its vocabulary")
    made = []
    for side in sides:
        fillers = [f"<row-{number}>" for number in range(len(side.tokens), most)]
        tokens = [*side.tokens, *fillers]
        if len(set(tokens)) < len(tokens):
            raise ImportFault("has a token such as <row-1> in its vocabulary")
        made.append(build_vocabulary(side.pieces, tokens, languages, specials))
    ends = {vocabulary.ids[specials.end] for vocabulary in made}
    if len(ends) > 1 or len({vocabulary.size for vocabulary in made}) > 1:
        raise ImportFault("has another </s> in the source's vocabulary than in the target's, which is not supported")
    return made


def directions_of(vocabulary: Vocabulary, source: str, target: str) -> Directions | None:
    """The targets of a model that reads a symbol such as >>fra<< before the text; None if its vocabulary has none.

    Raises ImportFault if it does not have `target`.
    """
    targets: dict[str, TargetPrefixes] = {}
    for token, id in vocabulary.ids.items():
        if symbol := _TARGET_SYMBOL.fullmatch(token):
            code = symbol[1].replace("_", "-")
            code = TWO_LETTERS.get(code, code)
            if is_language_code(code):
                targets.setdefault(code, TargetPrefixes(source_prefix=(id,)))
    if not targets:
        return None
    if target not in targets:
        raise ImportFault(f"does not translate into {target}, but into {', '.join(sorted(targets)[:20])}")
    return Directions({source: ()}, targets)


def sizes_of(vocabularies: Sequence[Vocabulary], start: str = ZERO_START) -> VocabularySizes:
    first, last = vocabularies[0], vocabularies[-1]
    ids = last.ids
    never = [ids["<unk>"], ids[PADDING], *(id for token, id in ids.items() if token.startswith("<row-"))]
    return VocabularySizes(first.size, last.size, first.pad_id, ids[start], ids["</s>"], never)


def vocabulary_remarks(vocabularies: Sequence[Vocabulary], known: Sequence[int]) -> Iterator[str]:
    """What was dropped or approximated."""
    for side, vocabulary, count in zip(("source", "target"), vocabularies, known, strict=False):
        whose = f"its {side} vocabulary" if len(vocabularies) > 1 else "its vocabulary"
        if not vocabulary.has_bytes and side == "source":
            yield f"A character that {whose} lacks is unknown to it. The symbol for unknown text is never generated."
        if vocabulary.surplus:
            yield f"Pieces of a SentencePiece model that {whose} lacks; text has others: {vocabulary.surplus:,}."
        if vocabulary.size > count and side == "source":
            yield f"Symbols added to {whose}, which it was not trained with: {vocabulary.size - count}."
