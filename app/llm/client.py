"""Asks an OpenAI-compatible server, such as vLLM, llama.cpp or Ollama, for chat completions."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Sequence
from time import monotonic
from typing import TYPE_CHECKING, Any

from cachetools import LRUCache

from app.errors import InvalidFields
from app.llm.prompts import Message, PromptTemplate, load_template
from app.runtime.metrics import Metrics
from app.settings import Settings, SettingsError
from model.languages import AUTO

if TYPE_CHECKING:
    import httpx

MAX_ANSWER_BYTES = 1 << 20
"""A longer answer is no translation of a sentence, and is not read to its end."""
CONNECT_TIMEOUT_S = 2.0
MAX_FAILURES, PAUSE_S = 5, 10.0
"""After so many failures in a row the server is left alone for so long: each would cost a sentence the whole limit."""
CLOCK_TOLERANCE_S = 0.05
"""A request that is cancelled so shortly before its limit was cancelled by it."""
MAX_ANSWERS = 10_000
"""Answers that are kept, each for the same question; a sentence has some hundred bytes."""
_log = logging.getLogger(__name__)


class NoAnswer(Exception):
    """The model gave no answer; the message completes "the large model ..."."""


class LargeModel:
    """A large language model, asked over HTTP at one address and nowhere else."""

    def __init__(self, settings: Settings, metrics: Metrics, transport: httpx.AsyncBaseTransport | None = None) -> None:
        """`settings.llm` is set. Raises SettingsError."""
        import httpx  # here, since it takes a tenth of a second, and most services have no large model

        assert settings.llm is not None
        self.name, self.pairs = settings.llm_model, frozenset(settings.llm_pairs)
        self.limit_s, self.parallel = settings.llm_timeout_ms / 1000, settings.llm_parallel
        try:
            self.template: PromptTemplate = load_template(settings.llm_template)
            key = settings.llm_key_file.read_text(encoding="utf-8").strip() if settings.llm_key_file else ""
        except ValueError as error:
            raise SettingsError(f"INTERLINEAR_LLM_TEMPLATE: {error}") from None
        except OSError as error:
            raise SettingsError(f"INTERLINEAR_LLM_KEY_FILE: {error.filename}: {error.strerror}") from None
        self._url = settings.llm.rstrip("/") + "/chat/completions"
        self._http = httpx.AsyncClient(
            headers={"Authorization": f"Bearer {key}"} if key else {},
            timeout=httpx.Timeout(None, connect=CONNECT_TIMEOUT_S),
            limits=httpx.Limits(max_connections=self.parallel, max_keepalive_connections=self.parallel),
            follow_redirects=False,
            trust_env=False,  # no proxy: texts go to this address alone
            transport=transport,
        )
        self._http_error = httpx.HTTPError
        self._slots = asyncio.Semaphore(self.parallel)
        self._failures, self._paused_until = 0, 0.0
        self._answers: LRUCache[str, str] = LRUCache(MAX_ANSWERS)
        self._metrics = metrics

    def serves(self, source: str, target: str) -> bool:
        """Whether sentences of this pair may be sent."""
        return not self.pairs or f"{source}-{target}" in self.pairs

    async def complete(self, messages: Sequence[Message], max_tokens: int, until: float) -> str:
        """The model's answer; the caller stops waiting for it at `until`. Raises NoAnswer."""
        if (known := self._answers.get(_key(messages))) is not None:
            self._metrics.llm_requests.labels("cached").inc()
            return known
        if monotonic() < self._paused_until:
            self._metrics.llm_requests.labels("paused").inc()
            raise NoAnswer("does not answer at present")
        async with self._slots:
            start = monotonic()
            try:
                answer = await self._post(messages, max_tokens)
            except (NoAnswer, self._http_error) as error:
                self._count("failed", start, is_failure=True)
                reason = f"cannot be asked: {str(error) or type(error).__name__}"
                raise error if isinstance(error, NoAnswer) else NoAnswer(reason) from None
            except asyncio.CancelledError:  # the time is up, or nobody waits any more
                is_late = monotonic() >= until - CLOCK_TOLERANCE_S
                self._count("late" if is_late else "cancelled", start, is_failure=is_late)
                raise
            self._count("answered", start, is_failure=False)
        return answer

    def keep(self, messages: Sequence[Message], answer: str) -> None:
        """Keeps an answer that was fit to use for the next time that the same is asked."""
        self._answers[_key(messages)] = answer

    async def close(self) -> None:
        await self._http.aclose()

    def _count(self, outcome: str, start: float, is_failure: bool) -> None:
        self._metrics.llm_requests.labels(outcome).inc()
        self._metrics.llm_seconds.observe(monotonic() - start)
        if outcome != "cancelled":
            self._failures = self._failures + 1 if is_failure else 0
        if self._failures >= MAX_FAILURES:
            _log.warning("the large model failed %d times in a row; not asked for %.0f s", MAX_FAILURES, PAUSE_S)
            self._failures, self._paused_until = 0, monotonic() + PAUSE_S

    async def _post(self, messages: Sequence[Message], max_tokens: int) -> str:
        """Raises NoAnswer and httpx.HTTPError."""
        body = {"model": self.name, "messages": messages, "temperature": 0, "max_tokens": max_tokens, "stream": False}
        async with self._http.stream("POST", self._url, json=body) as response:
            content = bytearray()
            async for part in response.aiter_bytes():
                content += part
                if len(content) > MAX_ANSWER_BYTES:
                    raise NoAnswer(f"sent more than {MAX_ANSWER_BYTES} bytes")
        if response.status_code != 200:
            raise NoAnswer(f"answered with status {response.status_code}")
        try:
            return _text_of(json.loads(content))
        except (ValueError, LookupError, TypeError, RecursionError):
            raise NoAnswer("sent no chat completion") from None


def _text_of(completion: Any) -> str:
    """Raises NoAnswer, LookupError and TypeError."""
    choice = completion["choices"][0]
    text, reason = choice["message"]["content"], choice.get("finish_reason")
    if choice["message"].get("refusal") or reason == "content_filter":
        raise NoAnswer("refused")
    if reason == "length":
        raise NoAnswer("was stopped before its answer ended")
    if not isinstance(text, str):
        raise NoAnswer("sent no text")
    return text.strip()


def _key(messages: Sequence[Message]) -> str:
    return json.dumps(messages, ensure_ascii=False)


def check_wish(large_model: LargeModel | None, engine: str | None, source: str, target: str) -> None:
    """Raises InvalidFields if the large model is wanted and cannot be had for this pair."""
    if engine != "llm":
        return
    if large_model is None:
        raise InvalidFields.at("#/engine", "this service has no large model: see INTERLINEAR_LLM")
    if source != AUTO and not large_model.serves(source, target):  # a detected language is looked at later
        raise InvalidFields.at("#/engine", f"the large model is not used for {source}-{target}")
