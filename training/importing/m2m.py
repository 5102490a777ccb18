"""M2M-100 and NLLB-200 as Hugging Face folders: one model, many directions, safetensors only.

Read in transformers' models/m2m_100 and models/nllb, and tried on random models that transformers wrote; never on a
published file. The source begins with the token of its language, and the target with that of its own, after the start
token `</s>`. Text is split by SentencePiece, whose ids fairseq shifted by one to make room for `<pad>`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import sentencepiece
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from model.config import Activation, ModelConfig
from model.directions import Directions, TargetPrefixes
from model.hypothesis import MAX_BEAM_SIZE, MAX_LENGTH_PENALTY, Decoding, Limits
from model.languages import TWO_LETTERS, is_language_code
from training.importing.errors import ImportFault
from training.importing.model import MAX_LAYERS, MAX_POSITIONS, MAX_SENTENCE, ImportedModel, output_bias
from training.importing.model_files import read_content, read_json_object
from training.importing.vocabulary import Specials, Vocabulary, build_vocabulary
from training.importing.weights import WeightsOnDisk, arranged, value_fault

CONFIG, PIECES, VOCABULARY = "config.json", "sentencepiece.bpe.model", "vocab.json"
MODEL_TYPE = "m2m_100"
BEGIN, PADDING, END, UNKNOWN = SPECIALS = ("<s>", "<pad>", "</s>", "<unk>")
NLLB_LICENCE = "CC-BY-NC-4.0 (it states none, and Meta publishes NLLB-200 under this one)"
FIRST_POSITION = 2
"""The row of the table of positions that the first token has: fairseq's padding has the rows before."""
_ACTIVATIONS: dict[str, Activation] = {"relu": "relu", "swish": "swish", "silu": "swish"}
_LANGUAGE = re.compile(r"__([a-z]{2,3})__|([a-z]{3})_([A-Z][a-z]{3})")
"""A language's token: M2M-100's, or NLLB's, which has ISO 639-3 and the script."""
_M2M_LANGUAGES = [
    "af", "am", "ar", "ast", "az", "ba", "be", "bg", "bn", "br", "bs", "ca", "ceb", "cs", "cy", "da", "de", "el",
    "en", "es", "et", "fa", "ff", "fi", "fr", "fy", "ga", "gd", "gl", "gu", "ha", "he", "hi", "hr", "ht", "hu", "hy",
    "id", "ig", "ilo", "is", "it", "ja", "jv", "ka", "kk", "km", "kn", "ko", "lb", "lg", "ln", "lo", "lt", "lv", "mg",
    "mk", "ml", "mn", "mr", "ms", "my", "ne", "nl", "no", "ns", "oc", "or", "pa", "pl", "ps", "pt", "ro", "ru", "sd",
    "si", "sk", "sl", "so", "sq", "sr", "ss", "su", "sv", "sw", "ta", "th", "tl", "tn", "tr", "uk", "ur", "uz", "vi",
    "wo", "xh", "yi", "yo", "zh", "zu",
]  # fmt: skip
"""Languages of M2M-100 in the order of their tokens, for folders that do not list them."""
_CHINESE = {"zho_Hans": "zh", "zho_Hant": "zh-Hant"}


def is_m2m(path: Path) -> bool:
    """Whether `path` is a folder of this family."""
    if not (path / CONFIG).is_file():
        return False
    try:
        return bool(read_json_object(path / CONFIG).get("model_type") == MODEL_TYPE)
    except ImportFault:
        return False


def read_m2m(path: Path, source: str, target: str) -> ImportedModel:
    """Reads the model at `path`, which has `source` and `target` among its languages. Raises ImportFault."""
    try:
        settings = read_json_object(path / CONFIG)
    except ImportFault as error:
        raise ImportFault(f"{path}: {error}") from None
    for name, wanted in (("scale_embedding", True), ("tie_word_embeddings", True)):
        if settings.get(name, True) is not wanted:
            raise ImportFault(f"{path}: has {name} {settings[name]!r}, which is not supported")
    activation = settings.get("activation_function", "relu")
    if not isinstance(activation, str) or activation not in _ACTIVATIONS:
        raise ImportFault(f"{path}: uses the activation {activation!r}, which is not supported")
    try:
        return _read_model(path, settings, _ACTIVATIONS[activation], source, target)
    except SafetensorError as error:
        raise _damage(path, error) from None
    except (ImportFault, ValueError) as error:
        raise ImportFault(f"{path}: {error}") from None


def languages_of(path: Path) -> list[str]:
    """The languages of the model at `path`. Reads no weights. Raises ImportFault."""
    return list(_language_tokens(path))


def licence_of(path: Path) -> tuple[str | None, str]:
    """The licence that the model at `path` states, if it does, and that of all known models of its kind, or "". Reads
    no weights. Raises ImportFault."""
    return _licences(path, read_json_object(path / CONFIG), _language_tokens(path).values())


def _language_tokens(path: Path) -> dict[str, str]:
    try:
        return read_tokens(path, _Tensors(path).rows)[1]
    except SafetensorError as error:
        raise _damage(path, error) from None
    except (ImportFault, ValueError) as error:
        raise ImportFault(f"{path}: {error}") from None


def _damage(path: Path, error: SafetensorError) -> ImportFault:
    return ImportFault(f"{path}: damaged safetensors: {str(error).splitlines()[0]}")


def _read_model(
    path: Path, settings: Mapping[str, Any], activation: Activation, source: str, target: str
) -> ImportedModel:
    tensors = _Tensors(path)
    if len(shape := tensors.shape(tensors.table)) != 2:
        raise ImportFault(f"has {tensors.table} of shape {shape}")
    rows, width = shape
    tokens, languages = read_tokens(path, rows)
    for code in (source, target):
        if code not in languages:
            raise ImportFault(f"does not translate {code}; it has {', '.join(sorted(languages))}")
    pieces = read_content(path / PIECES)
    known = set(sentence_pieces(pieces)) - set(SPECIALS)
    controls = [token for token in tokens if token not in known and token not in (UNKNOWN, *SPECIALS)]
    vocabulary = build_vocabulary(pieces, tokens, (), Specials(UNKNOWN, BEGIN, END, END), controls=controls)
    depths = {stack: _number(settings, f"{stack}_layers", MAX_LAYERS) for stack in ("encoder", "decoder")}
    heads = {_number(settings, f"{stack}_attention_heads", width) for stack in depths}
    if len(heads) > 1:
        raise ImportFault("has another number of heads in the encoder than in the decoder, which is not supported")
    positions = min(MAX_POSITIONS, _number(settings, "max_position_embeddings", 1 << 20))
    config = ModelConfig(
        source_vocab_size=vocabulary.size,
        target_vocab_size=vocabulary.size,
        d_model=width,
        num_heads=heads.pop(),
        d_ff=tensors.shape("model.encoder.layers.0.fc1.weight")[0],
        encoder_layers=depths["encoder"],
        decoder_layers=depths["decoder"],
        norm="pre",
        positions="learned",
        max_positions=positions,
        share_embeddings="all",
        attention_bias=True,
        activation=activation,
        output_bias=True,
        pad_id=vocabulary.pad_id,
        bos_id=vocabulary.ids[END],
        eos_id=vocabulary.ids[END],
    )
    never = [id for token, id in vocabulary.ids.items() if token not in known and token != END]
    weights = WeightsOnDisk()
    for side in ("source", "target"):
        weights[f"{side}_embedding.positions"] = positions_table(positions, width)
    weights["output.bias"] = output_bias(None, vocabulary, never)
    _put_weights(tensors, config, vocabulary, weights)
    sources = {code: (vocabulary.ids[token],) for code, token in languages.items()}
    longest = min(MAX_SENTENCE, positions - 1)
    licence, presumed = _licences(path, settings, languages.values())
    return ImportedModel(
        "M2M-100 or NLLB-200",
        config,
        weights,
        vocabulary,
        Limits(longest, longest),
        ["A character that its vocabulary lacks is unknown to it. The symbol for unknown text is never generated."],
        {"license": licence},
        Directions(sources, {code: TargetPrefixes(target_prefix=ids) for code, ids in sources.items()}),
        decoding=_decoding(path),
        presumed_licence=presumed,
    )


def _licences(path: Path, settings: Mapping[str, Any], language_tokens: Iterable[str]) -> tuple[str | None, str]:
    """See `licence_of`."""
    stated = _licence(path)
    return stated, NLLB_LICENCE if stated is None and _is_nllb(settings, language_tokens) else ""


def _is_nllb(settings: Mapping[str, Any], language_tokens: Iterable[str]) -> bool:
    """By the tokens of its languages, which name their script, or by the name that transformers recorded."""
    by_script = any((match := _LANGUAGE.fullmatch(token)) and match[2] for token in language_tokens)
    return by_script or "nllb" in str(settings.get("_name_or_path", "")).lower()


def positions_table(count: int, width: int) -> Tensor:
    """The sinusoids of fairseq [count, width] from its row 2: [sines | cosines], of frequencies
    10000^(-i / (width/2 - 1))."""
    half = width // 2
    if half < 2:
        raise ImportFault(f"has a width of {width}")
    frequencies = torch.exp(torch.arange(half, dtype=torch.float32) * -(math.log(10_000) / (half - 1)))
    angles = torch.arange(FIRST_POSITION, FIRST_POSITION + count, dtype=torch.float32)[:, None] * frequencies
    table = torch.cat([angles.sin(), angles.cos()], dim=1)
    return torch.cat([table, table.new_zeros(count, 1)], dim=1) if width % 2 else table


def _number(settings: Mapping[str, Any], name: str, limit: int) -> int:
    value = settings.get(name)
    if type(value) is not int or not 1 <= value <= limit:
        raise ImportFault(f"has {name} {value!r}, which is not from 1 to {limit:,}")
    return value


def sentence_pieces(model: bytes) -> list[str]:
    """The pieces of a SentencePiece model, by id. Raises ImportFault."""
    try:
        processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    except RuntimeError as error:
        raise ImportFault(f"the SentencePiece model cannot be read: {str(error).splitlines()[0]}") from None
    return [processor.id_to_piece(id) for id in range(processor.get_piece_size())]


def read_tokens(path: Path, rows: int) -> tuple[list[str], dict[str, str]]:
    """The tokens of the model's `rows` rows, and each language's token by the tag of the language."""
    if (path / VOCABULARY).exists():
        ids = read_json_object(path / VOCABULARY)
        if not all(type(id) is int for id in ids.values()) or sorted(ids.values()) != list(range(len(ids))):
            raise ImportFault(f"{VOCABULARY} does not number its tokens from 0 on")
        tokens = sorted(ids, key=ids.__getitem__)
    else:
        pieces = sentence_pieces(read_content(path / PIECES))
        if set(pieces[:3]) != {BEGIN, END, UNKNOWN}:
            raise ImportFault(f"{PIECES} does not begin with {UNKNOWN}, {BEGIN} and {END}")
        tokens = [*SPECIALS, *pieces[3:]]
    if tuple(tokens[:4]) != SPECIALS:
        raise ImportFault(f"its vocabulary does not begin with {', '.join(SPECIALS)}")
    added = _added_tokens(path, len(tokens))
    if max(added, default=0) >= rows or len(tokens) > rows:
        raise ImportFault(f"has more tokens than its matrix has rows, {rows:,}")
    named = set(tokens) | set(added.values())
    for id in range(len(tokens), rows):
        tokens.append(added.get(id) or f"<unused-{id}>")
        if id not in added and tokens[id] in named:
            raise ImportFault(f"has a token called {tokens[id]}")
    if len(set(tokens)) != len(tokens):
        raise ImportFault("has a token twice")
    found: dict[str, str] = {}
    for token in added.values():
        if match := _LANGUAGE.fullmatch(token):
            tag = _tag(token, match, added.values())
            if is_language_code(tag) and tag not in found:
                found[tag] = token
    if len(found) < 2:
        raise ImportFault("has no tokens of languages: special_tokens_map.json or tokenizer_config.json must list them")
    return tokens, found


def _tag(token: str, match: re.Match[str], tokens: Any) -> str:
    """The language tag of a token; with its script where the model has several."""
    if match[1]:
        return match[1]
    if token in _CHINESE:
        return _CHINESE[token]
    code = TWO_LETTERS.get(match[2], match[2])
    rivals = [other for other in tokens if other.startswith(f"{match[2]}_") and _LANGUAGE.fullmatch(other)]
    return code if rivals[0] == token or len(rivals) == 1 else f"{code}-{match[3]}"


def _added_tokens(path: Path, first: int) -> dict[int, str]:
    """The tokens after those of SentencePiece, by id: as tokenizer.json or tokenizer_config.json number them, or else
    in the order of special_tokens_map.json from `first` on, `<mask>` last."""
    listed: list[str] = []
    for name in ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"):
        facts = read_json_object(path / name) if (path / name).exists() else {}
        found = {id: token for id, token in _numbered(facts) if id >= first}
        if any(map(_LANGUAGE.fullmatch, found.values())):
            return found
        for key in ("additional_special_tokens", "extra_special_tokens"):
            tokens = facts.get(key)
            if not listed and isinstance(tokens, list) and all(isinstance(token, str) for token in tokens):
                listed = [token for token in tokens if _LANGUAGE.fullmatch(token)]
    if not listed and (path / VOCABULARY).exists():
        listed = [f"__{code}__" for code in _M2M_LANGUAGES]
    is_nllb = not (path / VOCABULARY).exists()
    return dict(enumerate([*listed, *(["<mask>"] if is_nllb else [])], first))


def _numbered(facts: Mapping[str, Any]) -> Iterator[tuple[int, str]]:
    """The added tokens that a tokenizer's file numbers."""
    added, decoder = facts.get("added_tokens"), facts.get("added_tokens_decoder")
    entries = (
        [(entry.get("id"), entry) for entry in added if isinstance(entry, dict)] if isinstance(added, list) else []
    )
    if isinstance(decoder, dict):
        entries += [(int(id), entry) for id, entry in decoder.items() if id.isdecimal() and isinstance(entry, dict)]
    for id, entry in entries:
        if type(id) is int and isinstance(entry.get("content"), str):
            yield id, entry["content"]


def _licence(path: Path) -> str | None:
    """The licence in the front matter of README.md."""
    if not (path / "README.md").is_file():
        return None
    head = read_content(path / "README.md")[:20_000].decode(errors="replace")
    match = re.search(r"^license:[ \t]*[\"']?([\w.+ -]{1,60}?)[\"']?[ \t]*$", head, re.MULTILINE)
    return match[1] if match else None


def _decoding(path: Path) -> Decoding:
    """Its publisher's beam and length penalty."""
    settings = {**read_json_object(path / CONFIG)}
    if (path / "generation_config.json").exists():
        settings |= read_json_object(path / "generation_config.json")
    beam, penalty = settings.get("num_beams"), settings.get("length_penalty")
    return Decoding(
        beam_size=beam if type(beam) is int and 1 <= beam <= MAX_BEAM_SIZE else None,
        length_penalty=float(penalty)
        if isinstance(penalty, int | float) and 0 <= penalty <= MAX_LENGTH_PENALTY
        else 1.0,
    )


class _Tensors:
    """The tensors of a folder's safetensors, of which only what is asked for is read."""

    SHARED = ("model.shared.weight", "model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight")
    OUTPUT = "lm_head.weight"
    IGNORED = re.compile(r"model\.(encoder|decoder)\.embed_positions\.weights?")

    def __init__(self, path: Path) -> None:
        self._path = path
        self._files: dict[str, Any] = {}
        files = sorted(path.glob("model*.safetensors"))
        if not files:
            pickle = next((file.name for file in path.glob("*.bin")), None)
            raise ImportFault(
                f"has only {pickle}, a pickle, which is not read since it may run code: it needs model.safetensors"
                if pickle
                else "has no model.safetensors"
            )
        for file in files:
            content = safe_open(file, framework="pt")
            for name in content.keys():  # type: ignore[no-untyped-call]  # noqa: SIM118 - no mapping
                if name in self._files:
                    raise ImportFault(f"has {name} in two files")
                self._files[name] = content
        tables = [name for name in (*self.SHARED, self.OUTPUT) if name in self]
        if not tables:
            raise ImportFault("has no model.shared.weight")
        self.table, *self._copies = tables

    def __contains__(self, name: str) -> bool:
        return name in self._files

    @property
    def rows(self) -> int:
        """Rows of the embedding matrix."""
        return (*self.shape(self.table), 0)[0]

    def shape(self, name: str) -> tuple[int, ...]:
        if name not in self:
            raise ImportFault(f"has no {name}")
        return tuple(self._files[name].get_slice(name).get_shape())

    def take(self, name: str) -> Tensor:
        """The values as they are stored. Raises ImportFault for those that weights cannot have."""
        tensor: Tensor = self._files[name].get_tensor(name)
        if not tensor.is_floating_point():
            raise ImportFault(f"has {name} as {tensor.dtype}, which is not supported")
        if fault := value_fault(tensor):
            raise ImportFault(f"has {name} with {fault}")
        return tensor

    def check(self, shapes: Mapping[str, tuple[int, ...]]) -> None:
        """Raises ImportFault unless the model has tensors of just these shapes, and one table of embeddings."""
        for name, shape in shapes.items():
            if self.shape(name) != shape:
                raise ImportFault(f"has {name} of shape {self.shape(name)}, not {shape}")
        left = self._files.keys() - shapes.keys() - {*self.SHARED, self.OUTPUT}
        for name in sorted(left):
            if not self.IGNORED.fullmatch(name):
                raise ImportFault(f"has {name}, which is not supported")
        for other in self._copies:
            if not torch.equal(self._files[self.table].get_tensor(self.table), self._files[other].get_tensor(other)):
                raise ImportFault(f"has {other} unlike {self.table}, which is not supported")


def _put_weights(tensors: _Tensors, config: ModelConfig, vocabulary: Vocabulary, weights: WeightsOnDisk) -> None:
    """Puts all that the files have into `weights`, by our names. Raises ImportFault."""
    parts: dict[str, list[str]] = {}
    shapes: dict[str, tuple[int, ...]] = {}
    width, inner = config.d_model, config.d_ff

    def add(ours: str, theirs: Sequence[str], outputs: int, inputs: int | None = None) -> None:
        for kind, shape in (("weight", (outputs, inputs) if inputs else (outputs,)), ("bias", (outputs,))):
            parts[f"{ours}.{kind}"] = [f"{name}.{kind}" for name in theirs]
            shapes.update({f"{name}.{kind}": shape for name in theirs})

    for stack, depth in (("encoder", config.encoder_layers), ("decoder", config.decoder_layers)):
        add(f"{stack}_norm", [f"model.{stack}.layer_norm"], width)
        for number in range(depth):
            ours, theirs = f"{stack}.{number}", f"model.{stack}.layers.{number}"
            attentions = {"self": "self_attn", **({"cross": "encoder_attn"} if stack == "decoder" else {})}
            for kind, name in attentions.items():
                inputs = [f"{theirs}.{name}.{part}_proj" for part in "qkv"]
                add(f"{ours}.{kind}_attention.query_key_value", inputs, width, width)
                add(f"{ours}.{kind}_attention.output", [f"{theirs}.{name}.out_proj"], width, width)
                add(f"{ours}.{kind}_residual.norm", [f"{theirs}.{name}_layer_norm"], width)
            add(f"{ours}.feed_forward.inner", [f"{theirs}.fc1"], inner, width)
            add(f"{ours}.feed_forward.outer", [f"{theirs}.fc2"], width, inner)
            add(f"{ours}.feed_residual.norm", [f"{theirs}.final_layer_norm"], width)
    tensors.check(shapes)
    table = tensors.take(tensors.table)
    weights.put("source_embedding.tokens.weight", (vocabulary.size, width), arranged(table, vocabulary.rows))
    for ours, names in parts.items():
        rows = sum(shapes[name][0] for name in names)
        weights.put(ours, (rows, *shapes[names[0]][1:]), map(tensors.take, names))
