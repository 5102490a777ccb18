"""Exit codes of the command line, for scripts."""

from __future__ import annotations

import signal

OK, CANNOT_SERVE, WRONG_USAGE, SOME_FAILED, UNREADABLE = 0, 1, 2, 3, 4
INTERRUPTED, BROKEN_PIPE = 128 + signal.SIGINT, 128 + signal.SIGPIPE
EXIT_CODES = """0    success
1    cannot serve: no bundle, a wrong setting, no worker
2    wrong usage, or a language pair that is not served
3    some texts could not be translated; they are named, and copied unchanged
4    input is unreadable or not UTF-8, or output already exists or cannot be written
130  interrupted
141  the output was closed early (broken pipe)"""
