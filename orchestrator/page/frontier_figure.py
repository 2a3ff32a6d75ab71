"""The accuracy-leak frontier in one picture."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pandas as pd

from orchestrator.page.colours import Colours
from orchestrator.page.markers import marker
from orchestrator.page.markup import Markup, join, tag
from orchestrator.page.scatter import whisker
from orchestrator.page.svg import (
    Labels,
    Scale,
    figure,
    label,
    line,
    padded,
    percent,
    plain,
    text_width,
    x_axis,
    y_axis,
)
from orchestrator.reading.defenses.families import family_index
from orchestrator.reading.findings.shown import MANY, hover
from orchestrator.reading.findings.sureness import share
from orchestrator.reading.numbers.decision import decide
from orchestrator.reading.numbers.format import is_null, number
from orchestrator.reading.numbers.metrics import spec_of
from orchestrator.reading.numbers.summary import Summary

WIDTH, HEIGHT = 1024.0, 460.0



@dataclass(frozen=True, kw_only=True)
class _Plot:
    summary: Summary
    colours: Colours
    rows: dict[str, int]
    x: Scale
    y: Scale

    def at(self, recipe: str) -> tuple[float, float]:
        values = self.values(recipe)
        return self.x(values["test_acc"]), self.y(values[self.summary.primary])

    def values(self, recipe: str) -> pd.Series:
        return self.summary.frame.loc[self.rows[recipe]]



def frontier_figure(summary: Summary, colours: Colours) -> Markup | None:
    """Test accuracy (x) against leak by the metric that decides (y), each recipe under its worst attack. None with
    fewer than two recipes to place."""
    evidence = summary.evidence
    if evidence is None or "test_acc" not in summary.measured:
        return None
    rows = {recipe: row for recipe, row in evidence.rows.items() if not is_null(summary.frame.loc[row, "test_acc"])}
    if len(rows) < 2:
        return None
    plot = _Plot(summary=summary, colours=colours, rows=rows, x=_across(summary, rows), y=_up(summary, rows))
    labels = Labels()
    prominent = _prominent(plot)
    for recipe in prominent:
        cx, cy = plot.at(recipe)
        labels.keep_clear(cx - 9, cy - 9, cx + 9, cy + 9)
    spec = spec_of(summary.primary)
    head = f"Leak: {spec.label}" + (", worst attack" if len(summary.attacks) > 1 else "")
    parts = [
        _area(plot),
        y_axis(plot.x, plot.y, percent if spec.unit == "percent" else plain),
        _floor(plot, labels),
        _stairs(plot),
        *(_point(plot, recipe, full=False) for recipe in rows if recipe not in prominent),
        *(_point(plot, recipe, full=True) for recipe in prominent),
        *(_name(plot, recipe, labels) for recipe in prominent),
        label(plot.x.start, 14, head, "strong"),
        x_axis(plot.x, plot.y, percent, "test accuracy, %"),
        label(plot.x.end - 4, 14, "better \u2198" if spec.better == "low" else "better \u2197", "soft small", "end"),
    ]
    return figure(WIDTH, HEIGHT, "The accuracy-leak frontier: test accuracy against leak of every recipe", *parts)



def _across(summary: Summary, rows: dict[str, int]) -> Scale:
    seen = summary.frame.loc[list(rows.values()), "test_acc"].tolist()
    if summary.min_test_acc is not None:
        seen.append(summary.min_test_acc)
    lo, hi = padded(seen, share=0.1, least=0.008)
    return Scale(lo=max(0.0, lo), hi=min(hi, 1.0 + 0.25 * (hi - lo)), start=50, end=WIDTH - 12)



def _up(summary: Summary, rows: dict[str, int]) -> Scale:
    spec, frame = spec_of(summary.primary), summary.frame.loc[list(rows.values())]
    means = frame[spec.key].tolist()
    if spec.unit != "percent":
        lo, hi = padded(means, least=1e-6)
        return Scale(lo=lo, hi=hi, start=HEIGHT - 48, end=30)
    top = max(*means, *frame[f"{spec.key}_high"].dropna().tolist())
    return Scale(lo=0.0, hi=min(1.0, max(0.05, 1.04 * top)), start=HEIGHT - 48, end=30)



def _prominent(plot: _Plot) -> list[str]:
    """The recipes with bars and a name: all of a few, else the frontier and the baseline."""
    if len(plot.rows) <= MANY:
        return list(plot.rows)
    front = decide(plot.summary).front
    return [recipe for recipe in plot.rows if recipe in front or recipe == plot.summary.baseline_recipe]



def _corners(plot: _Plot) -> list[tuple[float, float]]:
    """The frontier's steps in pixels, from the most accurate recipe down to the left."""
    spots = [plot.at(recipe) for recipe in decide(plot.summary).front if recipe in plot.rows]
    if not spots:
        return []
    high = plot.y.end if spec_of(plot.summary.primary).better == "low" else plot.y.start
    corners = [(spots[0][0], high)]
    for cx, cy in spots:
        corners += [(cx, corners[-1][1]), (cx, cy)]
    return [*corners, (plot.x.start, corners[-1][1])]



def _area(plot: _Plot) -> Markup:
    corners = _corners(plot)
    if not corners:
        return Markup("")
    around = [*corners, (plot.x.start, corners[0][1])]
    return tag("polygon", points=" ".join(f"{x:.1f},{y:.1f}" for x, y in around), class_="covered")



def _stairs(plot: _Plot) -> Markup:
    corners = _corners(plot)[1:]
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in corners)
    return tag("polyline", points=points, class_="stairs") if corners else Markup("")



def _floor(plot: _Plot, labels: Labels) -> Markup:
    """The accuracy asked for, if any."""
    least = plot.summary.min_test_acc
    if least is None or not plot.x.inside(least):
        return Markup("")
    words = f"{number(spec_of('test_acc'), least)} asked for"
    labels.keep_clear(plot.x(least), plot.y.start - 20, plot.x(least) + text_width(words, 11.5) + 10, plot.y.start)
    return join(
        line(plot.x(least), plot.y.start, plot.x(least), plot.y.end, "asked"),
        label(plot.x(least) + 6, plot.y.start - 7, words, "soft small"),
    )



def _point(plot: _Plot, recipe: str, *, full: bool) -> Markup:
    """A recipe's mark; selecting it leads to its row. full: with its bars."""
    summary, values, (cx, cy) = plot.summary, plot.values(recipe), plot.at(recipe)
    metric, defended = summary.primary, summary.defenses.get(recipe)
    parts = [tag("title", _words(summary, recipe, values))]
    if full:
        for key, scale, upright in (("test_acc", plot.x, False), (metric, plot.y, True)):
            if not is_null(values[f"{key}_low"]):
                ends = values[f"{key}_low"], values[f"{key}_high"]
                bar = whisker(scale, ends, _placer(plot, cx, cy, upright=upright), upright=upright)
                parts.append(bar if upright else tag("g", bar, class_="thin"))
    shape = family_index(summary, defended.words.family) if defended and not defended.words.plain else 0
    parts.append(marker(shape, cx, cy, hollow=bool(values["is_baseline"]), size=1.0 if full else 0.7))
    if full and recipe == summary.evidence.recommended:
        parts.append(tag("circle", cx=cx, cy=cy, r=11, class_="chosen"))
    look = f"pt {plot.colours.css_class(recipe)}" + ("" if full else " pale")
    return tag("a", *parts, href=f"#row-{plot.rows[recipe]}", class_=look, data_recipe=recipe)



def _placer(plot: _Plot, cx: float, cy: float, *, upright: bool) -> Callable[[float], tuple[float, float]]:
    return (lambda value: (cx, plot.y(value))) if upright else (lambda value: (plot.x(value), cy))



def _words(summary: Summary, recipe: str, values: pd.Series) -> str:
    text = hover(values, summary.primary)
    shares = summary.evidence.recommendation.probability_best
    return text if not shares or recipe not in shares else f"{text}\nbest with probability {share(shares[recipe])}"



def _name(plot: _Plot, recipe: str, labels: Labels) -> Markup:
    shown = recipe if len(recipe) <= 34 else recipe[:33] + "\u2026"
    within = (plot.x.start, plot.y.end - 8, plot.x.end + 6, plot.y.start - 2)
    spot = labels.place(*plot.at(recipe), text_width(shown), within)
    leader = line(*plot.at(recipe), spot.x, spot.y - 4, "leader") if spot.leader else ""
    words = label(spot.x, spot.y, shown, "named halo", spot.anchor)
    return tag("g", leader, words, class_=plot.colours.css_class(recipe), data_recipe=recipe)
