"""Models of CTranslate2: folders with `model.bin`, and Argos Translate's packages (`.argosmodel`), zips of them.

`training.export.ctranslate2` is the inverse. The format is as read in CTranslate2's specifications and Argos' sources,
and tried on models that CTranslate2 itself wrote; never on a published file.
"""

from __future__ import annotations

import math
import mmap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from model.config import Activation, ModelConfig, Sharing
from model.hypothesis import Decoding, Limits
from model.positions import sinusoidal_positions
from training.importing.ctranslate2_files import (
    CONFIG,
    METADATA,
    MODEL,
    find_sentence_pieces,
    read_tokens,
    unpacked,
)
from training.importing.ctranslate2_network import Network, same_in_both, settings_in_variables
from training.importing.errors import ImportFault
from training.importing.model import MAX_POSITIONS, MAX_SENTENCE, ImportedModel, output_bias
from training.importing.model_bin import read_model_bin
from training.importing.model_files import read_json_object
from training.importing.registries.offer import language_tag
from training.importing.vocabulary import Specials, Vocabulary, build_vocabularies, build_vocabulary
from training.importing.weights import WeightsOnDisk

REVISIONS = (3, 7)
"""The first and last readable ones."""
_ONCE = ("num_heads", "pre_norm", "activation", "embeddings_merge", "alignment_layer", "alignment_heads")
"""Variables that revisions before 5 have once, and later ones for each stack."""
ZERO_START = "<zero>"
"""The start token, with an embedding of zeros, of models that start from zeros."""
EPSILON = 1e-5
"""Of our layer normalisation."""
ARGOS_DECODING = Decoding(beam_size=4, length_penalty=0.2, replace_unknowns=True)
"""How Argos Translate decodes its packages (argostranslate/translate.py)."""
_ACTIVATIONS: dict[int, Activation] = {0: "relu", 2: "swish"}
_ACTIVATION_NAMES = ("ReLU", "GELU (tanh)", "swish", "GELU", "GELU (sigmoid)", "tanh", "sigmoid")


def read_ctranslate2(path: Path, source: str, target: str) -> ImportedModel:
    """Reads the model at `path`, which translates `source` into `target`. Raises ImportFault."""
    if path.is_dir():
        return _read_folder(path, source, target)
    with unpacked(path) as folder:
        try:
            return _read_folder(folder, source, target)
        except ImportFault as error:  # the temporary folder says nothing to the user
            raise ImportFault(str(error).replace(str(folder), str(path))) from None


def _read_folder(folder: Path, source: str, target: str) -> ImportedModel:
    base = folder if (folder / MODEL).is_file() else folder / "model"
    if (folder / "bpe.model").exists():
        raise ImportFault(f"{folder}: its text is split by bpe.model, which is not supported")
    try:
        metadata = read_json_object(folder / METADATA) if (folder / METADATA).exists() else {}
        settings = read_json_object(base / CONFIG) if (base / CONFIG).exists() else {}
        _check_languages(metadata, source, target)
        if any("quantization" in key and value for key, value in settings.items()):
            raise ImportFault("quantisation such as AWQ is not supported")
        tokens = read_tokens(base)
    except ImportFault as error:
        raise ImportFault(f"{folder}: {error}") from None
    if not (base / MODEL).stat().st_size:
        raise ImportFault(f"{base / MODEL} is empty")
    with open(base / MODEL, "rb") as file:
        content = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    try:
        parsed = read_model_bin(content)
        if parsed.spec != "TransformerSpec":
            raise ImportFault(f"has a {parsed.spec!r}: only encoder-decoder Transformers are supported")
        if not REVISIONS[0] <= parsed.revision <= REVISIONS[1]:
            wanted = f"{REVISIONS[0]} to {REVISIONS[1]}"
            raise ImportFault(f"has revision {parsed.revision} of its specification, not {wanted}")
        network = Network(dict(parsed.variables))
        if parsed.revision < 5:
            network.give_to_both_stacks(*_ONCE)
        if parsed.version < 6:
            settings |= settings_in_variables(network)
        pieces = find_sentence_pieces(folder, base)
        return _assembled(network, tokens, pieces, settings, metadata, (source, target))
    except ImportFault as error:
        raise ImportFault(f"{base / MODEL}: {error}") from None


def _check_languages(metadata: dict[str, Any], source: str, target: str) -> None:
    if metadata.get("type", "translate") != "translate":
        raise ImportFault(f"a package of type {metadata['type']!r}, not a translation model")
    theirs = tuple(
        language_tag(str(metadata.get(key, given))) for key, given in (("from_code", source), ("to_code", target))
    )
    if theirs != (source, target):
        raise ImportFault(f"translates {theirs[0]} to {theirs[1]}, not {source} to {target}")
    if metadata.get("target_prefix"):
        raise ImportFault(f"needs the target prefix {metadata['target_prefix']!r}, which is not supported")


def _assembled(
    network: Network,
    tokens: tuple[list[str], list[str]],
    pieces: tuple[bytes, bytes],
    settings: dict[str, Any],
    metadata: dict[str, Any],
    languages: tuple[str, str],
) -> ImportedModel:
    """The imported model. Raises ImportFault."""
    decoding = ARGOS_DECODING if metadata else Decoding()
    zero_start = bool(network.flag("decoder/start_from_zero_embedding", 0))
    (vocabulary, target_vocabulary), ids = _vocabularies(tokens, pieces, settings, languages, zero_start)
    activation = int(same_in_both(network, "activation", 0))
    if activation not in _ACTIVATIONS:
        named = _ACTIVATION_NAMES[activation] if 0 <= activation < len(_ACTIVATION_NAMES) else f"number {activation}"
        raise ImportFault(f"uses the activation {named}, which is not supported")
    heads = int(same_in_both(network, "num_heads", 8))
    pre_norm = bool(same_in_both(network, "pre_norm", 1))
    network.drop("encoder/multi_query_attention", "decoder/alibi", "with_relative_position")
    network.drop("decoder/alibi_use_positive_positions", "decoder/scale_alibi")
    for stack in ("encoder", "decoder"):
        network.drop(f"{stack}/embeddings_merge", f"{stack}/alignment_layer", f"{stack}/alignment_heads")

    weights = WeightsOnDisk()
    width, sharing = _put_embeddings(network, tokens, (vocabulary, target_vocabulary), weights)
    bias = network.take_optional("decoder/projection/bias", (len(tokens[1]),))
    has_bias = bias is not None or -1 in target_vocabulary.rows or not target_vocabulary.has_bytes
    if has_bias:
        never = () if decoding.replace_unknowns else [ids["unknown"]]
        weights["output.bias"] = output_bias(bias, target_vocabulary, never)
    positions = _positions(network, width, weights)
    final_norms = [f"{stack}/layer_norm/gamma" in network for stack in ("encoder", "decoder")]
    if len(set(final_norms)) > 1:
        raise ImportFault("has a final layer normalisation in one stack only, which is not supported")
    if final_norms[0]:
        for stack in ("encoder", "decoder"):
            _norm(network, f"{stack}/layer_norm", f"{stack}_norm", width, weights)
    depths = {stack: network.depth(stack) for stack in ("encoder", "decoder")}
    inner = network.matrix_shape("encoder/layer_0/ffn/linear_0/weight")[0]
    has_attention_bias = "encoder/layer_0/self_attention/linear_0/bias" in network
    for stack, depth in depths.items():
        for number in range(depth):
            _layer(network, f"{stack}/layer_{number}", f"{stack}.{number}", width, inner, has_attention_bias, weights)
    network.check_empty()
    try:
        config = ModelConfig(
            source_vocab_size=vocabulary.size,
            target_vocab_size=target_vocabulary.size,
            d_model=width,
            num_heads=heads,
            d_ff=inner,
            encoder_layers=depths["encoder"],
            decoder_layers=depths["decoder"],
            norm="pre" if pre_norm else "post",
            final_norm=None if final_norms[0] == pre_norm else final_norms[0],
            positions="learned" if "source_embedding.positions" in weights else "sinusoidal",
            max_positions=positions,
            share_embeddings=sharing,
            attention_bias=has_attention_bias,
            activation=_ACTIVATIONS[activation],
            output_bias=has_bias,
            source_eos=bool(settings.get("add_source_eos", False)),
            pad_id=vocabulary.pad_id,
            bos_id=ids["start"],
            eos_id=ids["end"],
        )
    except ValueError as error:
        raise ImportFault(str(error)) from None
    longest = min(MAX_SENTENCE, positions - 1)
    return ImportedModel(
        "CTranslate2",
        config,
        weights,
        vocabulary,
        Limits(longest, longest),
        list(_remarks(settings, (vocabulary, target_vocabulary), decoding)),
        metadata,
        target_vocabulary=None if target_vocabulary is vocabulary else target_vocabulary,
        decoding=decoding,
    )


def _vocabularies(
    tokens: tuple[list[str], list[str]],
    pieces: tuple[bytes, bytes],
    settings: dict[str, Any],
    languages: tuple[str, str],
    zero_start: bool,
) -> tuple[tuple[Vocabulary, Vocabulary], dict[str, int]]:
    """The vocabularies of source and target, one object if they are the same, and the ids of the target's unknown, end
    and start tokens."""
    special = {}
    for role, default in (("unk", "<unk>"), ("bos", "<s>"), ("eos", "</s>"), ("decoder_start", "<s>")):
        token = settings.get(f"{role}_token", default)
        if not isinstance(token, str) or (token not in tokens[1] and role != "bos"):
            raise ImportFault(f"has {role}_token {token!r}, which the vocabulary does not have")
        if not _is_unicode(token):  # the begin token need not be in the vocabulary
            raise ImportFault(f"has {role}_token {token!r}, which is not Unicode")
        special[role] = token
    if settings.get("add_source_bos"):
        raise ImportFault("adds a start token to the source, which is not supported")
    if zero_start:
        special["decoder_start"] = ZERO_START
    if settings.get("add_source_eos") and special["eos"] not in tokens[0]:
        raise ImportFault(f"adds {special['eos']!r} to the source, which the source's vocabulary does not have")
    specials = Specials(*special.values())
    if tokens[0] is tokens[1]:
        one = build_vocabulary(pieces[0], tokens[0], languages, specials)
        vocabularies = one, one
    else:
        source, target = zip(pieces, tokens, strict=True)
        vocabularies = build_vocabularies(source, target, languages, specials)
    names = vocabularies[1].ids
    ids = {"unknown": names[special["unk"]], "end": names[special["eos"]], "start": names[special["decoder_start"]]}
    return vocabularies, ids


def _embedding_factor(network: Network, stack: str, width: int) -> float:
    """What an embedding matrix is to be multiplied by, for our scale, sqrt(width)."""
    ours = math.sqrt(width)
    name = f"{stack}/scale_embeddings"
    is_flag = network.dtype(name) in (None, "int8")
    value = network.flag(name, 1)
    theirs = (ours if value else 1.0) if is_flag else value
    return 1.0 if math.isclose(theirs, ours, rel_tol=1e-6) else theirs / ours


def _put_embeddings(
    network: Network,
    tokens: tuple[list[str], list[str]],
    vocabularies: tuple[Vocabulary, Vocabulary],
    weights: WeightsOnDisk,
) -> tuple[int, Sharing]:
    """Puts the embeddings and the output into `weights`. Returns their width."""
    names = {"source": "encoder/embeddings_0/weight", "target": "decoder/embeddings/weight"}
    if names["source"] not in network:
        names["source"] = "encoder/embeddings/weight"
    width = network.matrix_shape(names["target"])[1]
    sides = (
        ("source_embedding.tokens.weight", names["source"], "encoder", tokens[0], vocabularies[0]),
        ("target_embedding.tokens.weight", names["target"], "decoder", tokens[1], vocabularies[1]),
        ("output.weight", "decoder/projection/weight", None, tokens[1], vocabularies[1]),
    )
    for ours, name, stack, known, vocabulary in sides:
        factor = 1.0 if stack is None else _embedding_factor(network, stack, width)
        rows = network.take_rows(name, (len(known), width), vocabulary.rows, factor)
        weights.put(ours, (vocabulary.size, width), rows)
    source, target, output = (weights[ours] for ours, *_ in sides)
    sharing = _sharing(source, target, output)
    if sharing != "none":
        del weights["output.weight"]
    if sharing == "all":
        del weights["target_embedding.tokens.weight"]
    return width, sharing


def _sharing(source: Tensor, target: Tensor, output: Tensor) -> Sharing:
    if not torch.equal(target, output):
        return "none"
    return "all" if torch.equal(source, target) else "decoder"


def _positions(network: Network, width: int, weights: WeightsOnDisk) -> int:
    """The number of positions. Their tables go to `weights`, unless they are our sinusoids."""
    names = [f"{stack}/position_encodings/encodings" for stack in ("encoder", "decoder")]
    if any(name not in network for name in names):
        raise ImportFault("has no table of positions, which is not supported: convert the model with its table")
    count = min(MAX_POSITIONS, *(network.matrix_shape(name)[0] for name in names))
    precision = {"float16": torch.float16, "bfloat16": torch.bfloat16}.get(network.dtype(names[0]) or "", torch.float32)
    shape = network.matrix_shape(names[0])
    tables = [network.take(name, shape)[:count] for name in names]
    if tables[0].size(1) != width or count < 2:
        raise ImportFault(f"has positions of shape {tuple(tables[0].shape)}, which do not fit")
    # Ours at the precision of theirs, which was rounded on conversion.
    ours = torch.from_numpy(sinusoidal_positions(count, width + width % 2)[:, :width]).to(precision).float()
    if not all(torch.allclose(table, ours, rtol=0, atol=1e-6) for table in tables):
        for side, table in zip(("source", "target"), tables, strict=True):
            weights[f"{side}_embedding.positions"] = table
    return count


def _norm(network: Network, theirs: str, ours: str, width: int, weights: WeightsOnDisk) -> None:
    if f"{theirs}/beta" not in network:
        raise ImportFault(f"uses RMS normalisation ({theirs}), which is not supported")
    weights[f"{ours}.weight"] = network.take(f"{theirs}/gamma", (width,))
    weights[f"{ours}.bias"] = network.take(f"{theirs}/beta", (width,))


def _linear(network: Network, name: str, shape: tuple[int, int], has_bias: bool) -> tuple[Tensor, Tensor | None]:
    """The matrix, and a bias if the layer `has_bias`: zeros where this one has none."""
    bias = network.take_optional(f"{name}/bias", shape[:1])
    if bias is not None and not has_bias:
        raise ImportFault(f"has {name}/bias, and other attentions have none")
    return network.take(f"{name}/weight", shape), torch.zeros(shape[0]) if has_bias and bias is None else bias


def _layer(
    network: Network, theirs: str, ours: str, width: int, inner: int, has_bias: bool, weights: WeightsOnDisk
) -> None:
    def put(name: str, *parts: tuple[Tensor, Tensor | None]) -> None:
        weights[f"{ours}.{name}.weight"] = torch.cat([weight for weight, _ in parts])
        biases = [bias for _, bias in parts if bias is not None]
        if biases:
            weights[f"{ours}.{name}.bias"] = torch.cat(biases)

    # CTranslate2 joins the projections of one input: query, key and value, or key and value of the other side.
    attentions = {"self_attention": ("self", [3])}
    if ours.startswith("decoder"):
        attentions["attention"] = ("cross", [1, 2])
    for attention, (name, counts) in attentions.items():
        linear = f"{theirs}/{attention}/linear_"
        parts = [_linear(network, f"{linear}{n}", (count * width, width), has_bias) for n, count in enumerate(counts)]
        put(f"{name}_attention.query_key_value", *parts)
        put(f"{name}_attention.output", _linear(network, f"{linear}{len(counts)}", (width, width), has_bias))
        _norm(network, f"{theirs}/{attention}/layer_norm", f"{ours}.{name}_residual.norm", width, weights)
    put("feed_forward.inner", _linear(network, f"{theirs}/ffn/linear_0", (inner, width), True))
    put("feed_forward.outer", _linear(network, f"{theirs}/ffn/linear_1", (width, inner), True))
    _norm(network, f"{theirs}/ffn/layer_norm", f"{ours}.feed_residual.norm", width, weights)


def _remarks(
    settings: dict[str, Any], vocabularies: tuple[Vocabulary, Vocabulary], decoding: Decoding
) -> Iterator[str]:
    """What was dropped or approximated."""
    epsilon = settings.get("layer_norm_epsilon")
    if epsilon not in (None, EPSILON):
        yield f"Its layer normalisation adds {epsilon} to the variance; here it adds {EPSILON}."
    vocabulary, target = vocabularies
    if not (vocabulary.has_bytes and target.has_bytes):
        fate = "comes out as the source has it" if decoding.replace_unknowns else "is never generated"
        yield f"A character that its vocabulary lacks is unknown to it. The symbol for unknown text {fate}."
    if vocabulary.missing:
        yield f"Tokens that text never has, as its SentencePiece model has no such piece: {vocabulary.missing:,}."
    if vocabulary.surplus:
        yield f"{vocabulary.surplus:,} pieces of its SentencePiece model are not its tokens: text is split into others."
    if added := target.rows.count(-1):
        yield f"Symbols added to its vocabulary, which it was not trained with: {added}."


def _is_unicode(text: str) -> bool:
    """Whether it has no lone surrogate, which JSON can have, and UTF-8 cannot."""
    return not any("\ud800" <= char <= "\udfff" for char in text)
