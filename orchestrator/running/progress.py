"""What a person sees while a sweep runs: a live panel on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections import Counter
from typing import TextIO

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from smoothsweep.core.durations import duration
from smoothsweep.core.text import printable, shortened
from smoothsweep.core.uris import hidden
from smoothsweep.orchestrator.planning.state import SweepState
from smoothsweep.tasks.stage_names import stage_title

PLAIN_EVERY_S = 15.0


class Display:
    """Shows a SweepState: `update` often, `say` for a line that stays. Use as a context manager."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self.console = Console(file=stream or sys.stderr, highlight=False, soft_wrap=True)
        live = Live(console=self.console, refresh_per_second=4, transient=True)
        self._live = live if self.console.is_terminal else None
        self._printed_at = 0.0
        self._printed = ""

    def __enter__(self) -> Display:
        if self._live:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live:
            self._live.stop()

    def say(self, line: str) -> None:
        self.console.print(printable(hidden(line)), markup=False)

    def update(self, state: SweepState) -> None:
        if self._live:
            self._live.update(_panel(state))
            return
        now = time.monotonic()
        text = state.headline() + _running_text(state)
        if now - self._printed_at >= PLAIN_EVERY_S and text != self._printed:
            self._printed_at, self._printed = now, text
            self.console.print(printable(hidden(text)), markup=False)


def _panel(state: SweepState) -> Group:
    bar_width = 40
    filled = int(bar_width * state.done_stages / max(1, state.total_stages))
    bar = Text("━" * filled, style="green") + Text("━" * (bar_width - filled), style="grey37")
    table = Table.grid(padding=(0, 2))
    for entry in state.running[:12]:
        begun = f"{100 * entry['fraction']:3.0f} %" if entry["fraction"] else "  ..."
        fraction = "waits" if entry.get("waits") else begun
        since = duration(max(0.0, time.time() - entry["since"]))  # a clock may be set back meanwhile
        text = f"for {entry['waits']}" if entry.get("waits") else hidden(entry["text"])
        stage, text = Text(shortened(stage_title(entry["stage"])), style="cyan"), Text(shortened(text))
        table.add_row(stage, Text(shortened(entry["fingerprint"][:8])), fraction, since, text)
    if len(state.running) > 12:
        table.add_row(Text(f"and {len(state.running) - 12} more waiting or running"))
    return Group(Text(printable(state.headline())), bar, table)


def _running_text(state: SweepState) -> str:
    """What runs, and what waits for what, such as ` | running: target x2 | waiting for a free CPU core: attack`."""
    counts: dict[str, Counter[str]] = {"running": Counter()}
    for entry in state.running:
        doing = f"waiting for {entry['waits']}" if entry.get("waits") else "running"
        counts.setdefault(doing, Counter())[stage_title(entry["stage"])] += 1
    listed = {
        word: ", ".join(f"{name} x{count}" if count > 1 else name for name, count in names.items())
        for word, names in counts.items()
    }
    return "".join(f" | {word}: {names}" for word, names in listed.items() if names)
