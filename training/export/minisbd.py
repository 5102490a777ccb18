"""A sentence splitter by rules, as an ONNX network for MiniSBD, the splitter of Argos Translate and LibreTranslate.

The network reads a paragraph's characters and gives each a class, of which 2 ends a sentence. Its first convolution has
a channel for each rule; the second adds what speaks for an end and subtracts what speaks against it.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from model.languages import language_alone
from training.protobuf import encode_field

_ABBREVIATIONS = {
    "de": "Abs# Art# Aug Bd# bspw bzw ca Dez Dr evtl Feb Fr Hr inkl Jan Nov Nr Okt Prof Sept St Str vgl",
    "en": "approx Aug Capt Col Dec Dr Feb fig# Fig# Ft Gen Gov Hon Jan Jr Lt Mr Mrs Ms Mt No# Nov Oct pp# Prof Rep Rev"
    " Sen Sept Sgt Sr St vol# Vol# vs",
    "es": "Av Dr Dra Gral núm# pág# Prof Sr Sra Sres Srta Sta Sto Ud Uds",
    "fr": "art# av bd déc dép Dr env févr janv juill Mgr Mlle MM Mme Mmes nov oct Pr Prof sept St Ste",
    "it": "Avv Dott Dr Ing pag# Prof Sig Sigg",
    "nl": "ca dhr Dhr dr Dr mevr Mevr nr# Prof",
    "pt": "Av Dr Dra núm# pág# Prof Sr Sra",
}
"""Words whose full stop ends no sentence; with #, none before a number."""
_CLASSES = ("letter", "begin", "digit", "space", "dot", "stop", "close", "bracket", "guillemet", "full_stop")
"""`begin` may begin a sentence, `stop` ends one before a space, and `full_stop`, of Chinese and Japanese, without;
`close` and `bracket` belong to the sentence that one of these ended."""
_START = "start"
"""The first character of the paragraph; MiniSBD tells it in another input."""
_UNKNOWN = frozenset({"letter", "begin"})
"""Capitals, and letters of scripts without: MiniSBD's unknown symbol."""
_TOLD = [*range(0x20, 0x3100), *range(0xFF00, 0xFFF0)]
"""The range of characters that are not all `_UNKNOWN`."""
_FLOAT, _INT64 = 1, 7
"""ONNX's numbers for types."""


class _Rule(NamedTuple):
    """Finds a place by the classes that characters at offsets from it have, and those that they do not have."""

    has: Sequence[tuple[int, str]]
    lacks: Sequence[tuple[int, str]] = ()


_BEFORE_NEXT = [(1, "space"), (2, "begin")]
_ENDS = [
    _Rule([(0, "stop"), *_BEFORE_NEXT]),
    _Rule([(-1, "stop"), (0, "close"), *_BEFORE_NEXT]),
    _Rule([(-2, "stop"), (-1, "close"), (0, "close"), *_BEFORE_NEXT]),
    _Rule([(-2, "stop"), (-1, "space"), (0, "guillemet"), *_BEFORE_NEXT]),
    _Rule([(0, "full_stop")], [(1, "full_stop"), (1, "bracket"), (1, "stop")]),
    _Rule([(-1, "full_stop"), (0, "bracket")], [(1, "full_stop"), (1, "bracket"), (1, "stop")]),
]
_INITIAL = _Rule([(-1, "letter"), (0, "dot")], [(-2, "letter")])
_LIST_NUMBER = _Rule([(-1, _START), (-1, "digit"), (0, "dot")])
_ORDINALS = [
    _Rule([(-1, "digit"), (0, "dot")], [(-2, "digit")]),
    _Rule([(-2, "digit"), (-1, "digit"), (0, "dot")], [(-3, "digit")]),
]
"""German's "am 3. Oktober", but not "im Jahr 1990. Danach"."""


def splitter_model(language: str) -> bytes:
    """The model for texts in `language`, for a package's folder `minisbd`."""
    words = _ABBREVIATIONS.get(language_alone(language), "").split()
    exceptions = [_INITIAL, _LIST_NUMBER, *(_ORDINALS if language_alone(language) == "de" else ()), *map(_after, words)]
    letters = sorted(set("".join(words)) - {"#"})
    columns = [*_CLASSES, *letters, _START]
    signatures: dict[frozenset[str], int] = {_UNKNOWN: 1}  # 0 is padding
    ids = {"<PAD>": 0, "<UNK>": 1}
    for character in map(chr, _TOLD):
        signature = _classes(character) | ({character} & set(letters))
        if signature != _UNKNOWN:
            ids[character] = signatures.setdefault(signature, len(signatures) + 1)
    table = np.zeros((len(signatures) + 1, len(columns) - 1), np.float32)
    for signature, id in signatures.items():
        table[id, [columns.index(name) for name in signature]] = 1

    rules = [*_ENDS, *exceptions]
    offsets = [offset for rule in rules for offset, _ in (*rule.has, *rule.lacks)]
    before, after = -min(offsets), max(offsets)
    found = np.zeros((len(rules), len(columns), before + 1 + after), np.float32)
    for number, rule in enumerate(rules):
        for weight, places in ((1, rule.has), (-1, rule.lacks)):
            for offset, name in places:
                found[number, columns.index(name), before + offset] = weight
    bias = np.array([1 - len(rule.has) for rule in rules], np.float32)  # 1 where all is as it should be, else at most 0
    scores = np.zeros((3, len(rules), 1), np.float32)
    scores[2, :, 0] = [1] * len(_ENDS) + [-9] * len(exceptions)
    constants = np.array([0.5, -1, 0], np.float32)  # class 1, the end of a token, is never needed
    nodes = [
        _node("Gather", ["table", "units"], "embedded"),
        _node("Concat", ["embedded", "features"], "characters", axis=2),
        _node("Transpose", ["characters"], "channels", perm=[0, 2, 1]),
        _node("Conv", ["channels", "rules", "bias"], "matches", pads=[before, after]),
        _node("Relu", ["matches"], "found"),
        _node("Conv", ["found", "scores", "constants"], "classes"),
        _node("Transpose", ["classes"], "output", perm=[0, 2, 1]),
    ]
    tensors = {"table": table, "rules": found, "bias": bias, "scores": scores, "constants": constants}
    graph = b"".join(
        [
            *(encode_field(1, node) for node in nodes),
            encode_field(2, "splitter"),
            *(encode_field(5, _tensor(name, values)) for name, values in tensors.items()),
            encode_field(11, _input("units", _INT64)),
            encode_field(11, _input("features", _FLOAT)),
            encode_field(12, _input("output", _FLOAT)),
        ]
    )
    vocabulary = {"lang": language, "idx": 0, "cutoff": 0, "lower": False, "_unit2id": ids, "_id2unit": list(ids)}
    settings = {"feat_funcs": ["start_of_para"], "batch_size": 32}
    metadata = {"lang_code": language, "config": json.dumps(settings), "vocab": json.dumps(vocabulary)}
    properties = (encode_field(1, name) + encode_field(2, value) for name, value in metadata.items())
    return b"".join(
        [
            encode_field(1, 7),  # the version of the format
            encode_field(7, graph),
            encode_field(8, encode_field(2, 13)),  # that of the operators
            *(encode_field(14, entry) for entry in properties),
        ]
    )


def _after(word: str) -> _Rule:
    """The rule for an abbreviation."""
    plain = word.removesuffix("#")
    letters = [(place - len(plain), letter) for place, letter in enumerate(plain)]
    number = [(1, "space"), (2, "digit")] if plain != word else []
    return _Rule([*letters, (0, "dot"), *number], [(-len(plain) - 1, "letter")])


def _classes(character: str) -> frozenset[str]:
    return frozenset(_class_names(character))


def _class_names(character: str) -> Iterator[str]:
    kind = unicodedata.category(character)
    if character in ".!?…؟۔।":
        yield "stop"
        if character == ".":
            yield "dot"
    elif character in "。！？":
        yield "full_stop"
    elif character.isspace():
        yield "space"
    elif character.isnumeric():
        yield from ("digit", "begin")
    elif character.islower():
        yield "letter"
    elif kind[0] not in "PS":
        yield from _UNKNOWN
    else:
        if kind in ("Pe", "Pf") or character in "\"'“":  # “ closes in German
            yield "close"
            if character not in "'“":
                yield "bracket"
        if kind in ("Ps", "Pi", "Pd") or character in "\"'¿¡":
            yield "begin"
        if character == "»":
            yield "guillemet"


def _node(operator: str, inputs: Sequence[str], output: str, **attributes: int | list[int]) -> bytes:
    node = [*(encode_field(1, name) for name in inputs), encode_field(2, output), encode_field(4, operator)]
    for name, value in attributes.items():
        kind, number, values = (7, 8, value) if isinstance(value, list) else (2, 3, [value])
        content = b"".join(encode_field(number, one) for one in values)
        node.append(encode_field(5, encode_field(1, name) + content + encode_field(20, kind)))
    return b"".join(node)


def _tensor(name: str, values: NDArray[np.float32]) -> bytes:
    sizes = b"".join(encode_field(1, size) for size in values.shape)
    return sizes + encode_field(2, _FLOAT) + encode_field(8, name) + encode_field(9, values.tobytes())


def _input(name: str, dtype: int) -> bytes:
    return encode_field(1, name) + encode_field(2, encode_field(1, encode_field(1, dtype)))
