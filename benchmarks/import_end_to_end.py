"""From a registry on loopback to translations: download, import, serve, all three APIs and the page.

    python -m benchmarks.import_end_to_end --screenshot page.png

The model is the shipped English-French bundle, converted to CTranslate2 and packed as Argos Translate packs its own.
Exits with 1 unless every answer is that of the shipped bundle.
"""

from __future__ import annotations

import argparse
import functools
import http.server
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import zipfile
from pathlib import Path

import httpx

from training.export.ctranslate2 import ConvertOptions, convert_bundle

ROOT = Path(__file__).resolve().parent.parent
SHIPPED = ROOT / "bundles" / "en-fr"
SENTENCES = ["Good morning.", "The museum is open on Sundays.", "I lost my keys yesterday."]
READY_S = 120


def pack(folder: Path) -> None:
    """Writes index.json and a package into `folder`."""
    convert_bundle(ConvertOptions(SHIPPED, folder / "ct2"), say=lambda _: None)
    facts = {"from_code": "en", "to_code": "fr", "package_version": "1.0", "type": "translate"}
    with zipfile.ZipFile(folder / "translate-en_fr-1_0.argosmodel", "w") as archive:
        archive.writestr("translate-en_fr-1_0/metadata.json", json.dumps(facts))
        for file in (folder / "ct2").iterdir():
            inner = "" if file.name == "sentencepiece.model" else "model/"
            archive.write(file, f"translate-en_fr-1_0/{inner}{file.name}")
    (folder / "index.json").write_text(json.dumps([{**facts, "links": ["translate-en_fr-1_0.argosmodel"]}]))


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def serve(bundle: Path, environment: dict[str, str]) -> tuple[subprocess.Popen[bytes], str]:
    """The service of one bundle, once it is ready, and its address."""
    port = free_port()
    settings = {**environment, "INTERLINEAR_BUNDLES": str(bundle), "INTERLINEAR_PORT": str(port)}
    process = subprocess.Popen([sys.executable, "-m", "app", "serve"], env=settings, stderr=subprocess.DEVNULL)
    url, until = f"http://127.0.0.1:{port}", time.monotonic() + READY_S
    while time.monotonic() < until and process.poll() is None:
        try:
            if httpx.get(f"{url}/ready").is_success:
                return process, url
        except httpx.HTTPError:
            pass
        time.sleep(0.1)
    process.terminate()
    raise SystemExit(f"{bundle} is not served within {READY_S} s")


def translate(url: str) -> dict[str, list[str]]:
    """The translations of SENTENCES by each API."""
    native = httpx.post(f"{url}/translate", json={"text": SENTENCES, "source": "en", "target": "fr"}, timeout=60)
    libre = httpx.post(
        f"{url}/libretranslate/translate", json={"q": SENTENCES, "source": "en", "target": "fr"}, timeout=60
    )
    deepl = httpx.post(
        f"{url}/deepl/v2/translate", json={"text": SENTENCES, "source_lang": "EN", "target_lang": "FR"}, timeout=60
    )
    return {
        "own": [each["text"] for each in native.raise_for_status().json()["translations"]],
        "LibreTranslate": libre.raise_for_status().json()["translatedText"],
        "DeepL": [each["text"] for each in deepl.raise_for_status().json()["translations"]],
    }


def look_at_page(url: str, screenshot: Path) -> str:
    """What the page translates, which is also photographed."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"]
        )
        page = browser.new_page(locale="en-GB", viewport={"width": 1200, "height": 900})
        page.goto(url)
        page.locator("textarea").first.fill(" ".join(SENTENCES))
        page.wait_for_timeout(4000)
        page.screenshot(path=screenshot, full_page=True)
        text = page.locator("main").inner_text()
        browser.close()
        return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--screenshot", type=Path, help="where to write a picture of the page")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        (folder / "www").mkdir()
        pack(folder / "www")
        handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=folder / "www")
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        environment = {**os.environ, "XDG_CACHE_HOME": str(folder / "cache"), "PYTHONPATH": str(ROOT)}
        index = f"http://127.0.0.1:{server.server_port}/index.json"
        out = folder / "imported"
        command = [sys.executable, "-m", "training", "import", "argos:en-fr", "--registry", index, "--out", str(out)]
        subprocess.run(command, env=environment, check=True)
        answers = {}
        for name, bundle in (("shipped", SHIPPED), ("imported", out)):
            process, url = serve(bundle, environment)
            try:
                answers[name] = translate(url)
                if name == "imported" and arguments.screenshot:
                    shown = look_at_page(url, arguments.screenshot)
                    answers[name]["page"] = answers["shipped"]["page"] = answers["shipped"]["own"]
                    if not all(text in shown for text in answers["shipped"]["own"]):
                        answers[name]["page"] = [shown]
            finally:
                process.terminate()
                process.wait()
        for api, texts in answers["imported"].items():
            is_same = texts == answers["shipped"][api]
            print(f"{api}: {'as the shipped bundle' if is_same else 'DIFFERS'}: {texts}")
        if answers["imported"] != answers["shipped"]:
            raise SystemExit(1)


if __name__ == "__main__":
    main()
