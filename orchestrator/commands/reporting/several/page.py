"""The page, the figures and the text of a report of several sweeps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from smoothsweep.core.files import write_file
from smoothsweep.core.judges.columns import metric_of
from smoothsweep.core.plugins import with_plugin_name
from smoothsweep.orchestrator.commands.reporting.several.merging import Merged
from smoothsweep.orchestrator.commands.reporting.several.pairing import Pairing, attacks_of
from smoothsweep.orchestrator.commands.reporting.several.side import ComparedSweep
from smoothsweep.orchestrator.commands.reporting.several.tables import write_tables
from smoothsweep.orchestrator.page import content
from smoothsweep.orchestrator.page.render import fill
from smoothsweep.orchestrator.reading.findings.findings import find
from smoothsweep.orchestrator.reading.findings.tables import text_table
from smoothsweep.orchestrator.reading.leak.hiding import hiding_verdicts, verdict_text
from smoothsweep.orchestrator.reading.numbers.format import ascii_text, count, listing
from smoothsweep.orchestrator.reading.numbers.summary import Summary, summarise

SECTIONS = (
    "decision/defenses",
    "decision/recipes",
    "decision/attacks",
    "decision/hiding",
    "decision/pairs",
    "audit/judges",
    "audit/everything",
    "several/about",
)
"""The folding sections on the recipes that are compared."""


@dataclass(frozen=True, kw_only=True)
class Several:
    """Several sweeps beside one another.

    Attributes:
        sides: The sweeps in their order.
        pairings: Each further one beside the first.
        merged: The rows of the first and of those that may be compared with it, None where none may.
    """

    sides: Sequence[ComparedSweep]
    pairings: Sequence[Pairing]
    merged: Merged | None

    @property
    def title(self) -> str:
        """The names of the sweeps."""
        return listing(side.name for side in self.sides)

    @cached_property
    def summary(self) -> Summary | None:
        """The cells of what is compared."""
        return None if self.merged is None else summarise(self.merged.data)

    @property
    def unfinished(self) -> tuple[str, ...]:
        """A sentence for each sweep that is not finished."""
        return tuple(
            f"{side.name} is not finished: {count(side.unfinished, 'trial')} of {len(side.rows)} "
            f"{'is' if side.unfinished == 1 else 'are'} missing or failed."
            for side in self.sides
            if side.unfinished
        )

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is not finished, and which compared recipes lack something."""
        if self.merged is None or self.summary is None:
            return self.unfinished
        return (*self.unfinished, *find(self.merged.data, self.summary).incomplete)

    @property
    def conditions(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """(condition, its value in each sweep), in words."""
        lines = {
            "Private data": [_data(side) for side in self.sides],
            "Protocol": [side.standing.protocol for side in self.sides],
            "Deciding judge": [_judge(side) for side in self.sides],
            "Attacks": [listing(attack.label for attack in attacks_of(side).values()) or "none" for side in self.sides],
            "Training seeds": [listing(map(str, side.seeds)) or "none finished" for side in self.sides],
            "Baseline": [side.standing.baseline or "none" for side in self.sides],
            "Recipes": [str(len(side.summary.recipes)) for side in self.sides],
            "Read from": [side.source for side in self.sides],
        }
        return tuple((name, tuple(values)) for name, values in lines.items())

    @property
    def answer(self) -> str:
        """The answer on all compared recipes; where none are compared, that it is so."""
        if self.merged is None or self.summary is None:
            return "No recipes of different sweeps are compared here; each sweep has its own answer below."
        return find(self.merged.data, self.summary).answer[0]


def _data(side: ComparedSweep) -> str:
    settings = side.conditions.data[0].settings if len(side.conditions.data) == 1 else {}
    people = count(side.standing.people, "class", "classes") if side.standing.people else ""
    kind = str(settings.get("data.kind", "several"))
    return ", ".join(part for part in (with_plugin_name(kind, "data", kind), people) if part)


def _judge(side: ComparedSweep) -> str:
    return "none" if side.summary.primary is None else metric_of(side.summary.deciding).label


def page_of(several: Several, *, results_file: bool) -> str:
    """The whole page."""
    alone = [_alone(side) for side in several.sides]
    both = (
        {}
        if several.merged is None
        else content.everything(several.merged.data, several.summary or several.sides[0].summary)
    )
    rules = "".join(str(page["colour_rules"]) for page in (*alone, *([both] if both else [])))
    shared: dict[str, Any] = {**(both or alone[0]), "colour_rules": rules}
    context = {"several": several, "alone": alone, "is_merged": bool(both), "SEVERAL_SECTIONS": SECTIONS}
    return fill("several.html", **shared, **context, results_file=results_file, origin="")


def _alone(side: ComparedSweep) -> dict[str, Any]:
    """What the template shows of one sweep by itself."""
    return {
        **content.everything(side.data, side.summary),
        "side": side,
        "answer": find(side.data, side.summary).answer[0],
    }


def write_several(several: Several, out: Path) -> tuple[str, Path]:
    """Write the tables, figures and the page, which comes last; the text for a terminal, the
    page's path."""
    apart = several.sides if several.merged is None else _not_merged(several)
    write_tables(out, several.sides, apart, several.merged, several.summary)
    texts = [*several.unfinished, *(pairing.sentence for pairing in several.pairings)]
    if several.merged is not None and several.summary is not None:
        summary = several.summary
        figures = content.everything(several.merged.data, summary)["figures"]
        for name, canvas in {"frontier.svg": figures.frontier(), **figures.files()}.items():
            if canvas is not None:
                write_file(out / "figures" / name, canvas.file(name), parents=True)
        texts += [*several.merged.notes, "", *_tables(summary)]
    for side in apart:
        texts += ["", f"{side.name} by itself:", *_tables(side.summary)]
    page = out / "report.html"
    write_file(page, page_of(several, results_file=True))
    return "\n".join(ascii_text(text) if "\n" not in text else text for text in texts), page


def _not_merged(several: Several) -> list[ComparedSweep]:
    return [side for side, pairing in zip(several.sides[1:], several.pairings, strict=True) if not pairing.compared]


def _tables(summary: Summary) -> list[str]:
    texts = [text_table(summary)]
    if len(summary.attacks) > 1 and len(summary.recipes) > 1:
        texts += ["", verdict_text(summary, hiding_verdicts(summary))]
    return texts
