"""Model configurations: invalid ones are refused, and JSON round-trips."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from model.config import ARCHITECTURES, LATER_FIELDS, ModelConfig, named_architecture

VOCABULARIES: dict[str, Any] = {"source_vocab_size": 100, "target_vocab_size": 100}

OUT_OF_RANGE: list[tuple[str, Any]] = [
    *[
        (name, value)
        for name in (
            *("source_vocab_size", "target_vocab_size", "d_model", "num_heads", "d_ff"),
            *("max_positions", "encoder_layers", "decoder_layers"),
        )
        for value in (0, -3)
    ],
    *[(name, value) for name in ("dropout", "attention_dropout") for value in (-0.1, 1.0, 2, float("nan"))],
    ("d_model", 255),
    ("num_heads", 3),
    ("norm", "before"),
    ("norm", ["pre"]),
    ("positions", "rotary"),
    ("share_embeddings", "encoder"),
    ("share_embeddings", True),
    ("activation", "gelu"),
    ("decoder", "lstm"),
    *[(name, value) for name in ("alignment_layer", "alignment_head") for value in (-1, 6)],
    *[("alignment_size", value) for value in (-1, 257)],
]
WRONG_TYPE: list[tuple[str, Any]] = [
    *[
        (field.name, value)
        for field in dataclasses.fields(ModelConfig)
        if str(field.type) == "int"
        for value in ("256", 256.0, None, True)
    ],
    *[(name, value) for name in ("dropout", "attention_dropout") for value in ("0.1", None, False)],
    ("final_norm", "yes"),
    ("attention_bias", 1),
    ("attention_bias", None),
    ("output_bias", 1),
    ("source_eos", None),
    ("zero_start", 1),
    *[(name, value) for name in ("alignment_layer", "alignment_head") for value in ("0", 0.0, True)],
]


@pytest.mark.parametrize(("name", "value"), OUT_OF_RANGE + WRONG_TYPE)
def test_a_bad_field_is_named(name: str, value: Any) -> None:
    others = {"alignment_layer": 0, "alignment_head": 0} if name.startswith("alignment") else {}
    with pytest.raises(ValueError, match=name) as error:
        ModelConfig.from_dict({**VOCABULARIES, **others, name: value})
    assert "\n" not in str(error.value)


def test_every_field_has_a_bad_value_tested() -> None:
    assert {field.name for field in dataclasses.fields(ModelConfig)} == {name for name, _ in OUT_OF_RANGE + WRONG_TYPE}


def test_odd_width_is_refused_with_sinusoidal_positions() -> None:
    with pytest.raises(ValueError, match="d_model must be even"):
        ModelConfig(**VOCABULARIES, d_model=15, num_heads=3)


def test_sharing_one_matrix_requires_one_vocabulary() -> None:
    with pytest.raises(ValueError, match=r"share_embeddings .* 100 and 90"):
        ModelConfig(100, 90, share_embeddings="all")
    for sharing in ("decoder", "none"):
        assert ModelConfig.from_dict({"source_vocab_size": 100, "target_vocab_size": 90, "share_embeddings": sharing})


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_json_round_trips_a_configuration(architecture: str) -> None:
    config = named_architecture(
        architecture,
        source_vocab_size=321,
        target_vocab_size=123,
        norm="residual_post",
        final_norm=False,
        positions="learned",
        max_positions=77,
        share_embeddings="decoder",
        attention_bias=False,
        dropout=0.25,
        attention_dropout=0.125,
        pad_id=5,
        bos_id=6,
        eos_id=7,
    )
    assert ModelConfig.from_dict(json.loads(json.dumps(config.to_dict()))) == config


def test_fields_of_later_versions_are_written_only_if_they_say_something() -> None:
    assert not LATER_FIELDS.keys() & ModelConfig(**VOCABULARIES).to_dict().keys()
    said = {"activation": "swish", "output_bias": True, "source_eos": False}
    said |= {"decoder": "ssru", "alignment_layer": 0, "alignment_head": 3, "zero_start": True}
    said |= {"alignment_size": 16}
    assert said.keys() == LATER_FIELDS.keys()
    config = ModelConfig.from_dict({**VOCABULARIES, **said})
    assert said.items() <= config.to_dict().items()
    assert ModelConfig.from_dict(config.to_dict()) == config


@pytest.mark.parametrize("name", ["alignment_layer", "alignment_head"])
def test_an_alignment_head_without_its_layer_is_refused_and_the_other_way_round(name: str) -> None:
    with pytest.raises(ValueError, match="must be given together"):
        ModelConfig.from_dict({**VOCABULARIES, name: 0})


def test_a_source_ends_in_the_end_symbol_if_the_model_says_so_or_nothing_else_is_there() -> None:
    with_end, without = (ModelConfig(**VOCABULARIES, source_eos=value, eos_id=7) for value in (True, False))
    assert [with_end.source_ids(source) for source in ([5, 6], [])] == [(5, 6, 7), (7,)]
    assert [without.source_ids(source) for source in ([5, 6], [])] == [(5, 6), (7,)]
    assert [config.source_ends(length) for config in (with_end, without) for length in (2, 0)] == [1, 1, 0, 1]


def test_unknown_and_missing_fields_are_named() -> None:
    with pytest.raises(ValueError, match="unknown architecture field heads, layers"):
        ModelConfig.from_dict({**VOCABULARIES, "layers": 2, "heads": 8})
    with pytest.raises(ValueError, match="target_vocab_size"):
        ModelConfig.from_dict({"source_vocab_size": 100})


def test_named_architectures_are_as_documented() -> None:
    shapes = {
        name: (c.encoder_layers, c.decoder_layers, c.d_model, c.num_heads, c.d_ff)
        for name in ARCHITECTURES
        for c in [named_architecture(name, **VOCABULARIES)]
    }
    assert shapes == {
        "toy": (2, 2, 128, 4, 256),
        "d2l": (2, 2, 32, 4, 64),
        "tiny": (4, 4, 128, 4, 256),
        "small": (6, 2, 256, 4, 1024),
        "base": (6, 6, 512, 8, 2048),
        "student": (6, 2, 256, 8, 1536),
    }
    decoders = {name: named_architecture(name, **VOCABULARIES).decoder for name in ARCHITECTURES}
    assert decoders == dict.fromkeys(ARCHITECTURES, "attention") | {"student": "ssru"}


def test_a_field_overrides_the_named_architecture() -> None:
    config = named_architecture("base", **VOCABULARIES, d_model=64)
    assert (config.d_model, config.head_dim, config.d_ff) == (64, 8, 2048)


def test_unknown_architecture_is_refused_with_the_list() -> None:
    with pytest.raises(ValueError, match="'huge'; there are toy, d2l, tiny, small, base, student"):
        named_architecture("huge", **VOCABULARIES)


def test_final_norm_defaults_to_what_the_placement_needs() -> None:
    def closed(norm: str, final_norm: bool | None) -> bool:
        return ModelConfig.from_dict({**VOCABULARIES, "norm": norm, "final_norm": final_norm}).has_final_norm

    assert [closed(norm, None) for norm in ("post", "pre", "residual_post")] == [False, True, True]
    for norm in ("post", "pre", "residual_post"):
        assert closed(norm, True)
        assert not closed(norm, False)


def test_configuration_is_immutable() -> None:
    config = ModelConfig(**VOCABULARIES)
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.d_model = 128  # type: ignore[misc]
