"""LibreTranslate with a bundle as its only package, in the fields of our API.

PYTHON -m benchmarks.peers.libretranslate MODEL SOURCE TARGET PORT BEAM_SIZE

PYTHON is that of an environment of its own: LibreTranslate pins versions that are not ours. Its model that splits texts
into sentences is a download; texts are split after full stops instead, for which it has less to do.
"""

from __future__ import annotations

import io
import json
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import sentencepiece


def install(model: Path, source: str, target: str, folder: Path) -> None:
    """Lays `model` out in `folder` as a package of Argos Translate."""
    package = folder / f"translate-{source}_{target}-1_0"
    package.mkdir(parents=True)
    facts = {"from_code": source, "to_code": target, "package_version": "1.0", "type": "translate"}
    facts |= {"from_name": source, "to_name": target}
    (package / "metadata.json").write_text(json.dumps(facts))
    (package / "sentencepiece.model").symlink_to(model.resolve() / "sentencepiece.model")
    (package / "model").symlink_to(model.resolve())


def in_our_fields(app: Callable[..., Iterable[bytes]], pieces: Any) -> Callable[..., Iterable[bytes]]:
    """`app`, asked and answering as our service is. Tokens are counted as those of the text that it returns."""

    def adapted(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        body = json.loads(environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"])))
        body["q"] = body.pop("text")
        sent = json.dumps(body).encode()
        environ |= {"wsgi.input": io.BytesIO(sent), "CONTENT_LENGTH": str(len(sent))}
        statuses: list[str] = []
        answer = b"".join(app(environ, lambda status, *_: statuses.append(status)))
        status = statuses[-1]
        if status.startswith("200"):
            text = json.loads(answer)["translatedText"]
            usage = {"target_tokens": len(pieces.encode(text)) + 1}
            answer = json.dumps({"translations": [{"text": text}], "usage": usage}).encode()
        start_response(status, [("Content-Type", "application/json"), ("Content-Length", str(len(answer)))])
        return [answer]

    return adapted


def main() -> None:
    model, source, target, port, beam_size = sys.argv[1:]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for pair in ((source, target), (target, source)):  # with fewer than two packages it looks for some to download
            install(Path(model), *pair, folder / "packages")
        os.environ |= {"ARGOS_PACKAGES_DIR": str(folder / "packages"), "XDG_DATA_HOME": str(folder / "data")}
        os.environ |= {"ARGOS_BEAM_SIZE": beam_size, "ARGOS_COMPUTE_TYPE": "int8"}
        import waitress
        from argostranslate.sbd import MiniSBDSentencizer
        from libretranslate.app import create_app
        from libretranslate.main import get_args

        # The bundle's tokeniser puts a space before every text.
        MiniSBDSentencizer.split_sentences = lambda self, text: [f" {each}" for each in re.split(r"(?<=[.!?]) ", text)]
        sys.argv = ["libretranslate", "--disable-web-ui"]
        options = get_args()
        pieces = sentencepiece.SentencePieceProcessor(model_file=str(Path(model) / "sentencepiece.model"))
        waitress.serve(in_our_fields(create_app(options), pieces), port=int(port), threads=options.threads)


if __name__ == "__main__":
    main()
