"""Request and response of /attention."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from app.api.schemas.fields import Body, Indices, Language, SourceLanguage, Text
from app.translation.attention import Kind


class AttentionRequest(Body):
    """A sentence to translate, and which attention weights to return."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"text": "Hello.", "source": "en", "target": "fr"},
                {"text": "Hello.", "source": "en", "target": "fr", "target_text": "Bonjour.", "kinds": ["cross"]},
                {"text": "Hello.", "source": "en", "target": "fr", "layers": [0], "heads": [0, 1], "as": "bertviz"},
                {"text": "Hello.", "source": "en", "target": "fr", "kinds": ["cross"], "as": "svg"},
            ]
        }
    )

    text: Text = Field(description="One sentence, within the model's token limit; it is not split")
    source: SourceLanguage = Field(description="The language of the text")
    target: Language = Field(description="The language to translate into")
    target_text: Text | None = Field(None, description="Force this translation; null uses the model's own")
    kinds: list[Kind] = Field(
        ["encoder", "decoder", "cross"],
        min_length=1,
        max_length=3,
        description="Which attention to return: encoder self-attention, decoder self-attention, cross-attention",
    )
    layers: Indices | None = Field(None, description="null: all; the first is 0")
    heads: Indices | None = Field(None, description="null: all; the first is 0")
    form: Literal["json", "bertviz", "svg"] = Field(
        "json",
        alias="as",
        description="`json`: an AttentionResponse; `bertviz`: a list of AttentionView, the attention format of "
        "BertViz; `svg`: a picture",
    )


class Token(BaseModel):
    """A token and the code points [start, end) that it covers; `</s>`, the last, covers none."""

    piece: str = Field(examples=["▁Hello"], description="The vocabulary's spelling; `▁` is a space")
    start: int = Field(examples=[0], description="Its first code point")
    end: int = Field(examples=[5], description="The code point after its last")


class AttentionResponse(BaseModel):
    """The attention weights of the decoding pass that produced the tokens.

    Rows of `decoder` and `cross` are the target tokens as they were generated. The decoder's keys are the same tokens
    shifted right by one, `start` first, so it is square and lower triangular. A model of several directions also reads
    and generates tokens that name the languages: they are among both tokens, with empty spans, but aligned to none. A
    model whose decoder is recurrent has no decoder self-attention: its `decoder` is an empty list.
    """

    translation: str = Field(examples=["Bonjour."], description="The model's raw output: repetitions are not cut")
    source_tokens: list[Token] = Field(description="Spans refer to the text sent")
    target_tokens: list[Token] = Field(description="Spans refer to the translation")
    attention: dict[Kind, list[list[list[list[float]]]]] = Field(
        description="[layer][head][query][key], by kind; `decoder` is empty if the model's decoder is recurrent"
    )
    alignment: list[tuple[int, int]] = Field(
        description="[source index, target index]: for each target token the source token that it translates, by "
        "the model's alignment head; the end symbol's, if it translates none. A model without one: the token with the "
        "highest cross-attention, averaged over all layers and heads, or of the head that it was trained to align with"
    )
    start: str = Field(
        examples=["<s>"], description="The token that the decoder starts from; `<s>` if it starts from zeros"
    )
    model: str = Field(examples=["en-fr@0123456789ab"], description="The bundle, and the checksum of its weights")


class AttentionView(BaseModel):
    """One kind of attention in BertViz's format: an entry of the list `attention` of its page's `params`."""

    name: Literal["Encoder", "Decoder", "Cross"] = Field(description="What BertViz calls this kind")
    attn: list[list[list[list[float]]]] = Field(description="[layer][head][query][key]")
    left_text: list[str] = Field(examples=[["▁Bonjour", ".", "</s>"]], description="The queries: tokens that attend")
    right_text: list[str] = Field(examples=[["▁Hello", ".", "</s>"]], description="The keys: tokens attended to")
