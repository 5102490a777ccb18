"""LitServe's dynamic batching around CTranslate2.

python -m benchmarks.peers.batched MODEL PORT MAX_BATCH_SIZE BATCH_TIMEOUT_S
"""

# LitServe reads the annotations of `decode_request`: they must not be strings.
import sys
from pathlib import Path
from typing import Any

import litserve
from fastapi import Request

from benchmarks.peers.translation import Translation


class Batched(litserve.LitAPI):
    """Batches the requests that arrive within the timeout, up to the maximum batch size."""

    def __init__(self, folder: Path, max_batch_size: int, batch_timeout_s: float) -> None:
        super().__init__(max_batch_size=max_batch_size, batch_timeout=batch_timeout_s, api_path="/translate")
        self.folder = folder

    def setup(self, device: str) -> None:
        self.translation = Translation(self.folder)

    def decode_request(self, request: Request) -> str:
        fields: Any = request  # LitServe has parsed the body by now
        text: str = fields["text"]
        return text

    def batch(self, inputs: list[str]) -> list[str]:
        return inputs

    def predict(self, texts: list[str]) -> list[dict[str, Any]]:
        return self.translation.translate(texts)

    def unbatch(self, output: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return output

    def encode_response(self, output: dict[str, Any]) -> dict[str, Any]:
        return output


if __name__ == "__main__":
    folder, port, size, timeout_s = sys.argv[1:]
    api = Batched(Path(folder), int(size), float(timeout_s))
    server = litserve.LitServer(api, accelerator="cpu", devices=1, workers_per_device=1, timeout=False)
    server.run(host="127.0.0.1", port=int(port), num_api_servers=1, log_level="warning", generate_client_file=False)
