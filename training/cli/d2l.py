"""The command `d2l`: the translation exercise of a textbook, "Dive into Deep Learning" (Zhang et al. 2023, section
11.7).

    python -m training d2l

Uses words rather than pieces, and makes no bundle: `prepare`, `train` and the service use nothing from this module.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import torch
import typer
from torch import Tensor

from model.config import ModelConfig, named_architecture
from model.decoding import greedy_decode
from model.hypothesis import Limits
from model.transformer import Transformer
from training.command_line import command_from_options
from training.compute import pick_device, use_threads
from training.corpora.corpus import read_pairs
from training.corpora.text_file import CorpusError
from training.data.batches import Batch
from training.data.options import require
from training.optim.trainer import Recipe, Trainer
from training.options import DEVICE, Option

SPECIAL = ("<pad>", "<bos>", "<eos>", "<unk>")
"""Ids 0 to 3."""
PAD, BOS, EOS, UNKNOWN = range(4)
MIN_OCCURRENCES = 2
STEPS = 10
"""Length of every sequence in words, including `<eos>`."""
BATCH = 64
LEARNING_RATE = 0.005
EPOCHS = 200
QUESTIONS = {
    "go .": "va !",
    "i lost .": "j'ai perdu .",
    "he's calm .": "il est calme .",
    "i'm home .": "je suis chez moi .",
}
"""The textbook's questions, and the answers that it compares with."""
FILE = Path("d2l-first-600.tsv")
ORIGIN = (
    "the first 600 lines of fra.txt in the book's fra-eng.zip, "
    "http://d2l-data.s3-accelerate.amazonaws.com/fra-eng.zip "
    "(pairs from Tatoeba by way of manythings.org/anki, whose own fra-eng.zip is newer and has other lines)"
)
RECIPE = f"unzip fra-eng.zip, then: find . -name fra.txt | xargs head -n 600 | cut -f 1,2 > {FILE}"

Sentence = list[str]


def words(text: str) -> Sentence:
    """Lower case, split at spaces; a comma, full stop, exclamation or question mark is a separate word."""
    plain = re.sub(r"[\u202f\u2009\xa0]", " ", text).lower()
    return re.sub(r"(?<! )(?=[,.!?])", " ", plain).split()


class Vocabulary:
    """The words that occur at least twice in `sentences`, most frequent first."""

    def __init__(self, sentences: Iterable[Sentence]) -> None:
        counts = Counter(word for sentence in sentences for word in sentence)
        self.words = [*SPECIAL, *(word for word, count in counts.most_common() if count >= MIN_OCCURRENCES)]
        self._ids = {word: id for id, word in enumerate(self.words)}

    def __len__(self) -> int:
        return len(self.words)

    def encode(self, sentence: Sentence) -> list[int]:
        return [self._ids.get(word, UNKNOWN) for word in sentence]

    def decode(self, ids: Sequence[int]) -> str:
        """The words up to `<eos>`, joined by spaces."""
        ended = ids[: ids.index(EOS)] if EOS in ids else ids
        return " ".join(self.words[id] for id in ended)

    def table(self, sentences: Iterable[Sentence]) -> Tensor:
        """Ids with `<eos>`, truncated or padded to STEPS: [sentences, STEPS]."""
        rows = ([*self.encode(sentence), EOS][:STEPS] for sentence in sentences)
        return torch.tensor([row + [PAD] * (STEPS - len(row)) for row in rows])


@dataclass(frozen=True)
class D2LOptions:
    pairs: Annotated[Path, Option(metavar="FILE")] = FILE
    """English, tab, French, one pair per line, UTF-8: {ORIGIN}."""
    epochs: int = EPOCHS
    """Passes over the file."""
    seed: int = 1
    """Seed for weights, dropout and the order of the lines."""
    device: Annotated[str, DEVICE] = "auto"

    def __post_init__(self) -> None:
        require(self.epochs >= 1, f"--epochs must be at least 1, not {self.epochs}")


@dataclass(frozen=True)
class Learned:
    model: Transformer
    source: Vocabulary
    target: Vocabulary

    def translate(self, sentence: str) -> str:
        """The greedy translation of words joined by spaces, fewer than STEPS of them."""
        ids = self.source.encode(sentence.split())
        limits = Limits(max_source=STEPS - 1, max_target=STEPS - 1)
        (hypothesis,) = greedy_decode(self.model, [ids], limits)
        return self.target.decode(hypothesis.tokens)


def learn(options: D2LOptions, say: Callable[[str], None] = print) -> Learned:
    """Trains on every line of `options.pairs`. Equal options give equal weights on a CPU. Raises CorpusError."""
    pairs, _ = read_pairs(options.pairs, "en", "fr")
    sources, targets = [words(pair.source) for pair in pairs], [words(pair.target) for pair in pairs]
    source, target = Vocabulary(sources), Vocabulary(targets)
    src, tgt = source.table(sources), target.table(targets)  # [lines, STEPS]
    recipe = Recipe(
        steps=options.epochs * math.ceil(len(src) / BATCH), label_smoothing=0.0, precision="float32", seed=options.seed
    )
    device = pick_device(options.device)
    config = _config(len(source), len(target))
    use_threads(None, config)
    trainer = Trainer(config, recipe, device)
    # The textbook's betas, not the paper's; on a GPU the trainer leaves the check for non-finite gradients to the
    # optimiser.
    trainer.optimizer = torch.optim.Adam(trainer.model.parameters(), fused=device.type == "cuda")
    random = torch.Generator().manual_seed(options.seed)
    say(f"{len(src)} lines; {len(source)} and {len(target)} words; {trainer.model.parameter_count():,} parameters")
    for epoch in range(1, options.epochs + 1):
        nats = 0.0
        order = torch.randperm(len(src), generator=random)
        for start in range(0, len(src), BATCH):
            rows = order[start : start + BATCH]
            nats += trainer.step([_batch(src[rows], tgt[rows])], LEARNING_RATE).item()
        if epoch % 20 == 0 or epoch == options.epochs:
            say(f"epoch {epoch:3}: training loss {nats / int((tgt != PAD).sum()):.3f}")
    return Learned(trainer.model.eval(), source, target)


def _config(source_words: int, target_words: int) -> ModelConfig:
    """The textbook's architecture, except that embeddings start sqrt(d_model) times smaller, and the output has no
    bias."""
    return named_architecture(
        "d2l",
        source_vocab_size=source_words,
        target_vocab_size=target_words,
        norm="post",
        share_embeddings="none",
        attention_bias=False,
        attention_dropout=0.1,
        max_positions=STEPS,
    )


def _batch(src: Tensor, tgt: Tensor) -> Batch:
    """src and tgt [batch, STEPS]; the decoder's input is `<bos>` and all of the target but its last word."""
    begun = torch.cat([torch.full_like(tgt[:, :1], BOS), tgt[:, :-1]], dim=1)  # [batch, STEPS]
    return Batch(src, begun, tgt, int((tgt != PAD).sum()))


def bleu(prediction: str, reference: str, k: int) -> float:
    """The textbook's BLEU of one sentence, words joined by spaces (section 10.7.6), from 0 to 1.

    exp(min(0, 1 - len_label / len_pred)) * product over n = 1..k of p_n^(1 / 2^n), where p_n is the share of the
    prediction's n-grams that match one of the reference's, each of which matches once. The product stops at the
    prediction's length; an empty prediction has 0. It is not comparable with sacreBLEU.
    """
    predicted, label = prediction.split(), reference.split()
    if not predicted:
        return 0.0
    score = math.exp(min(0.0, 1 - len(label) / len(predicted)))
    for n in range(1, min(k, len(predicted)) + 1):
        grams, wanted = _ngrams(predicted, n), _ngrams(label, n)
        score *= ((grams & wanted).total() / grams.total()) ** (0.5**n)
    return score


def _ngrams(sentence: Sentence, n: int) -> Counter[tuple[str, ...]]:
    return Counter(tuple(sentence[start : start + n]) for start in range(len(sentence) - n + 1))


@command_from_options
def d2l(options: D2LOptions) -> None:
    """Redo the exercise of the textbook "Dive into Deep Learning".

    interlinear d2l

    It memorises 600 sentence pairs.

    It shows that model, loss and decoder can learn sentence pairs at all. It translates four sentences; those that are
    among the pairs must come back word for word, with a BLEU of 1.000.

    It does not show how well the model translates: it was trained on these sentences, nothing is held out, and any
    other sentence gets an arbitrary translation. Its BLEU (words and pairs of words, one sentence, one reference) is
    the textbook's and not comparable with any other. To train a model that translates, see `train`.
    """
    if not options.pairs.exists():
        raise CorpusError(options.pairs, f"no such file. It is {ORIGIN}; to make it: {RECIPE}")
    learned = learn(options, typer.echo)
    for question, reference in QUESTIONS.items():
        answer = learned.translate(question)
        typer.echo(f"{question} => {answer}, bleu {bleu(answer, reference, k=2):.3f}")
