"""training.export.minisbd: the network splits texts into sentences, run here as MiniSBD runs it."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from training.export.minisbd import splitter_model
from training.protobuf import read_varint

Message = dict[int, list[Any]]


def parsed(message: bytes) -> Message:
    """The contents of each field, by its number."""
    fields: Message = defaultdict(list)
    at = 0
    while at < len(message):
        key, at = read_varint(message, at)
        value, at = read_varint(message, at)
        if key & 7 == 2:
            value, at = message[at : at + value], at + value  # type: ignore[assignment]
        fields[key >> 3].append(value)
    return fields


def tensor(content: bytes) -> tuple[str, Tensor]:
    fields = parsed(content)
    assert fields[2] == [1]  # float32
    values = torch.frombuffer(bytearray(fields[9][0]), dtype=torch.float32)
    return fields[8][0].decode(), values.reshape(fields[1])


def run(model: Message, units: Tensor, features: Tensor) -> Tensor:
    """The network's output, with PyTorch in ONNX Runtime's place."""
    graph = parsed(model[7][0])
    names = [[parsed(one)[1][0].decode() for one in graph[number]] for number in (11, 12)]
    assert names == [["units", "features"], ["output"]]
    values = dict(map(tensor, graph[5])) | {"units": units, "features": features}
    for node in map(parsed, graph[1]):
        given = [values[name.decode()] for name in node[1]]
        settings = {(one := parsed(content))[1][0].decode(): one[3] + one[8] for content in node[5]}
        match node[4][0].decode():
            case "Gather":
                found = given[0][given[1]]
            case "Concat":
                found = torch.cat(given, *settings["axis"])
            case "Transpose":
                found = given[0].permute(settings["perm"])
            case "Relu":
                found = given[0].relu()
            case "Conv":
                padded = functional.pad(given[0], settings.get("pads", (0, 0)))
                found = functional.conv1d(padded, given[1], given[2])
            case other:
                raise AssertionError(other)
        values[node[2][0].decode()] = found
    return values["output"]


def sentences(language: str, text: str) -> list[str]:
    """The sentences of a paragraph, as MiniSBD 0.9 finds them."""
    model = parsed(splitter_model(language))
    metadata = {(entry := parsed(one))[1][0].decode(): entry[2][0].decode() for one in model[14]}
    assert json.loads(metadata["config"])["feat_funcs"] == ["start_of_para"]
    ids = json.loads(metadata["vocab"])["_unit2id"]
    text = re.sub(r"\s+", " ", text)
    units = torch.tensor([[*(ids.get(character, ids["<UNK>"]) for character in text), ids["<PAD>"]]])
    features = torch.zeros(*units.shape, 1)
    features[0, 0] = 1
    classes = run(model, units, features)[0].argmax(-1).tolist()
    assert not any(found == 1 for found in classes)
    ends = [place + 1 for place, found in enumerate(classes[: len(text) - 1]) if found == 2]
    return [text[start:end].strip() for start, end in pairwise([0, *ends, len(text)])]


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("en", "Hello.|How are you?|I am well!|Thank you…|Good"),
        (
            "en",
            "Mr. Smith met Dr. Jones at 3.5 km.|J. R. Tolkien left.|See No. 5, i.e. the last.|I said No.|Then it was.",
        ),
        ("en", '“Really?”|He left.|(He did.)|"Yes!" he said.|"No."|Then [see below] he did.|¿Qué?|2 is next.|- Yes.'),
        ("en", "1. The first point.|In 1990.|Then e.g. the U.S. army and vs. others.|It was... well...|Done."),
        ("en", "approximately 3 p.m. on Monday\u00a0at noon.|Then"),
        ("fr", "Bonjour !|« Ça va ? »|Il a dit : « Oui. »|M. Dupont et Mme. Durand.|L'art.|Étienne est là.|À demain."),
        ("fr", "Le 3 janv. Paul vient.|C’est l’art. 5 du code."),
        ("de", "Am 3. Oktober kam Dr. Meier, z. B. gestern.|Im Jahr 1990.|„Ja.“|Dann ging er.|Am 21. Mai."),
        ("es", "¿Qué tal?|¡Bien!|El Sr. Pérez y la Sra. Gil."),
        ("zh-Hans", "你好。|你好吗？|“我很好。”|他说！？|2019年开始。"),
        ("ru", "Привет.|Как дела? хорошо. и всё"),
        ("ar", "مرحبا. |كيف حالك؟|أنا بخير!|شكرا"),
        ("xx", "A. b. c. D"),
    ],
)
def test_sentences_end_where_bars_are(language: str, text: str) -> None:
    plain = re.sub(r"\|", "" if language.startswith("zh") else " ", text)
    assert sentences(language, plain) == [re.sub(r"\s+", " ", sentence).strip() for sentence in text.split("|")]
