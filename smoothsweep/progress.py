"""The progress bar of the library's functions."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from smoothsweep.core.text import printable

OnProgress = Callable[[float, str], None]
"""Called with the finished fraction in [0, 1] and a few words."""


@contextmanager
def progress_bar(shown: bool) -> Generator[OnProgress]:
    """A progress bar on stderr, or none."""
    if not shown:
        yield lambda fraction, words: None
        return
    text = TextColumn("{task.description}", markup=False)
    with Progress(text, BarColumn(), TimeElapsedColumn(), console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=1.0)
        yield lambda fraction, words: bar.update(task, completed=fraction, description=printable(words))
