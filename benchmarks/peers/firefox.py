"""fxtranslate in a process of its own: Mozilla's engine for Firefox's models (https://pypi.org/project/fxtranslate).

Run by its path, in an environment that has it: `python firefox.py MODEL.bin VOCABULARY.spm`. Reads JSON lists of texts
from standard input, and answers each with [seconds of each text, translations]. It has no batches: one text a call, on
one core.
"""

import json
import sys
from pathlib import Path
from time import perf_counter

from fxtranslate import Translator


def main(model: str, vocabulary: str) -> None:
    pieces = Path(vocabulary).read_bytes()
    translator = Translator(Path(model).read_bytes(), pieces, pieces)
    print(json.dumps(translator.backend()), flush=True)
    for line in sys.stdin:
        seconds, translations = [], []
        for text in json.loads(line):
            began = perf_counter()
            translations.append(translator.translate(text))
            seconds.append(perf_counter() - began)
        print(json.dumps([seconds, translations]), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
