"""Tools that speak DeepL's API, for tests/test_client_transcripts.py; written from their public sources."""

from __future__ import annotations

from client_transcripts import Tool

TOOLS: list[Tool] = []
