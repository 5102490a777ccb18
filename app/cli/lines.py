"""Translates standard input on the command line: writes one line for each line read, in order and as soon as possible.

Reading lines is in app.cli.line_reader, translating them in app.cli.offline_engine.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence

from app.cli.exit_codes import UNREADABLE
from app.cli.line_reader import Line, NotUTF8, read_lines
from app.cli.offline_engine import CommandError, Report, Session, Translate, split_windows
from app.formats import TextLocation
from app.translation.types import TranslatedText

Windows = asyncio.Queue[asyncio.Task[list[tuple[Line, TranslatedText]]] | CommandError | None]
"""The windows being translated, in the order of the lines; then how the input ended."""


async def translate_lines(
    read: Callable[[int], bytes],
    write: Callable[[Iterable[str]], None],
    session: Session,
    report: Report,
    advance: Callable[[int], None] = lambda size: None,
) -> None:
    """Writes one line for each line read, in order and as soon as it is translated. Raises CommandError,
    BrokenPipeError.

    `advance` is called with the number of bytes done.
    """
    windows: Windows = asyncio.Queue(session.max_windows)
    try:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(_feed(read, session.translate, windows, tasks))
            while window := await windows.get():
                if isinstance(window, CommandError):
                    raise window
                done = await window
                write(_written(line, translated) for line, translated in done)
                for line, translated in done:
                    report.add(TextLocation(line.number), translated)
                advance(sum(len(line.text.encode()) + len(line.end) for line, _ in done))
    except BaseExceptionGroup as group:
        raise group.exceptions[0] from None


async def _feed(read: Callable[[int], bytes], translate: Translate, windows: Windows, tasks: asyncio.TaskGroup) -> None:
    async def translated(window: Sequence[Line]) -> list[tuple[Line, TranslatedText]]:
        return list(zip(window, await translate([line.text for line in window]), strict=True))

    try:
        async for batch in read_lines(read):
            for window in split_windows(batch, lambda line: len(line.text)):
                await windows.put(tasks.create_task(translated(window)))
        await windows.put(None)
    except (OSError, NotUTF8) as error:
        await windows.put(CommandError(UNREADABLE, str(error)))


def _written(line: Line, done: TranslatedText) -> str:
    """The translation and the line's own ending; a line break in the translation, which the model may write as bytes,
    becomes a space."""
    return (line.text if done.text is None else done.text.replace("\n", " ")) + line.end
