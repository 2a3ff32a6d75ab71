"""The two-dimensional example as a page: three models side by side, what the attack did, ours beside the paper's."""

from __future__ import annotations

import math

import numpy as np

from orchestrator.report import sections
from orchestrator.report.format import ABSENT, NBSP, count, minus
from orchestrator.report.markup import Markup, join, tag
from orchestrator.report.model import ToyData, ToyFigure, ToyPanel
from orchestrator.report.page import PROTOCOLS, facts_list, page, paragraphs, section
from orchestrator.report.sheets import data_uri
from orchestrator.report.svg import Scale, figure, label, line, plain, ticks

SIZE = 340.0
HUES = ("#3b6fb6", "#3f8f4f", "#e07b1a", "#8a4fa3", "#b33f62", "#5c6b73")
"""Blue squares, green circles, orange pentagons as in the paper, then whatever comes."""


def render_toy(data: ToyData) -> str:
    """The whole page."""
    body = (
        _header(data),
        tag(
            "main",
            _legend(data),
            *(_figure(shown, data) for shown in data.figures),
            section("Ours beside the paper's", "", _table(data), ident="table"),
            section("About this example", "", paragraphs(data.intro), facts_list(data.facts), ident="about"),
            _provenance(data),
        ),
        tag("footer", "Written by smoothsweep. This page is one file: it loads nothing and works offline."),
    )
    return page(data.title, "", *body)


def _header(data: ToyData) -> Markup:
    kicker = [
        tag("b", "smoothsweep"),
        "two-dimensional example",
        tag("abbr", f"protocol {data.protocol}", title=PROTOCOLS[data.protocol]),
    ]
    return tag(
        "header",
        tag("p", *(tag("span", part) for part in kicker), class_="kicker"),
        tag("h1", data.title),
        tag("p", "Where does an inversion end when the model was trained with smoothed labels?", class_="question"),
        tag("div", paragraphs(toy_answer(data)), class_="answer"),
    )


def toy_answer(data: ToyData) -> tuple[str, ...]:
    """What the first figure shows, in one or two sentences."""
    if not data.figures or not data.figures[0].panels:
        return ("Nothing has been computed yet.",)
    panels = sorted(data.figures[0].panels, key=lambda panel: panel.distance)
    near, far = panels[0], panels[-1]
    first = (
        f"With alpha {_alpha(near)} the attack ends {near.distance:.2f} from the nearest training point of its target "
        f"class, after {count(near.steps, 'step')}."
    )
    if near is far:
        return (first,)
    middle = "".join(
        f" With alpha {_alpha(panel)}: {panel.distance:.2f}, {count(panel.steps, 'step')}." for panel in panels[1:-1]
    )
    return (
        first,
        f"With alpha {_alpha(far)} it ends {far.distance:.2f} away, after {count(far.steps, 'step')}.{middle}",
        "One model and one start each: an illustration, not evidence.",
    )


def _alpha(panel: ToyPanel) -> str:
    return minus(f"{panel.alpha:g}")


def _legend(data: ToyData) -> Markup:
    classes = [
        tag("span", _swatch(index), f" {name}{' (target)' if index == data.target_class else ''}\u2003")
        for index, name in enumerate(data.class_names)
    ]
    marks = "Yellow: the attack's path, from the open ring to the filled one. Dashed: the way to the nearest "
    return tag(
        "div", tag("p", *classes), tag("p", marks, "training point. Strong colour: high confidence."), class_="soft"
    )


def _figure(shown: ToyFigure, data: ToyData) -> Markup:
    panels = [tag("figure", toy_panel(data, panel), tag("figcaption", _panel_caption(panel))) for panel in shown.panels]
    return section(shown.title, shown.caption, tag("div", *panels, class_="panels"))


def _panel_caption(panel: ToyPanel) -> Markup:
    named = f"alpha {_alpha(panel)}" + (f", {panel.label}" if panel.label else "")
    ours = f"{count(panel.steps, 'step')}, ends {panel.distance:.2f} from the training data."
    return join(tag("span", named, class_="big"), ours)


def _swatch(index: int) -> Markup:
    mark = _shape(index, 7, 7, 5)
    return tag("svg", mark, viewBox="0 0 14 14", width=14, height=14, aria_hidden="true")


def toy_panel(data: ToyData, panel: ToyPanel) -> Markup:
    """Confidence as background, training points, the attack's path, and the distance it ended at."""
    lo, hi = data.extent
    x, y = Scale(lo=lo, hi=hi, start=26, end=26 + SIZE), Scale(lo=lo, hi=hi, start=8 + SIZE, end=8)
    ground = tag(
        "image",
        href=data_uri(background(panel)),
        x=x.start,
        y=y.end,
        width=SIZE,
        height=SIZE,
        preserveAspectRatio="none",
        style="image-rendering:auto",
    )
    dots = [_shape(int(label_), x(px), y(py), 3.1) for (px, py), label_ in zip(data.points, data.labels, strict=True)]
    marks = [label(x(value), y.start + 17, plain(value), "soft small", "middle") for value in ticks(lo, hi, 4)]
    marks += [label(x.start - 5, y(value) + 4, plain(value), "soft small", "end") for value in ticks(lo, hi, 4)]
    inside = tag("svg", *dots, *_path(data, panel, x, y), x=0, y=0, width=x.end, height=y.start, overflow="hidden")
    title = f"alpha {_alpha(panel)}: {panel.steps} steps, distance {panel.distance:.2f}"
    return figure(x.end + 8, y.start + 26, title, tag("title", title), ground, inside, *marks)


def _path(data: ToyData, panel: ToyPanel, x: Scale, y: Scale) -> list[Markup]:
    points = [(x(px), y(py)) for px, py in _thinned(panel.path)]
    nearest = nearest_point(data, panel)
    (sx, sy), (ex, ey) = points[0], points[-1]
    parts = [
        tag(
            "polyline",
            points=" ".join(f"{px:.1f},{py:.1f}" for px, py in points),
            fill="none",
            stroke=colour,
            stroke_width=width,
            stroke_linejoin="round",
        )
        for colour, width in (("#1d1d1b", 5), ("#ffd60a", 2.8))
    ]
    if nearest is not None:
        gap = line(ex, ey, x(nearest[0]), y(nearest[1]), "gap")
        parts.append(tag("g", gap, stroke="#1d1d1b", stroke_width=1.6, stroke_dasharray="4 3"))
    parts.append(tag("circle", cx=sx, cy=sy, r=5.5, fill="#fff", stroke="#1d1d1b", stroke_width=2))
    parts.append(tag("circle", cx=ex, cy=ey, r=5.5, fill="#ffd60a", stroke="#1d1d1b", stroke_width=2))
    return parts


def nearest_point(data: ToyData, panel: ToyPanel) -> np.ndarray | None:
    """The training point of the target class nearest to the path's end."""
    mine = data.points[data.labels == data.target_class]
    if not len(mine):
        return None
    return mine[np.linalg.norm(mine - panel.path[-1], axis=1).argmin()]


def _thinned(path: np.ndarray, most: int = 400) -> np.ndarray:
    """At most `most` points of a path, both ends among them."""
    keep = np.unique(np.linspace(0, len(path) - 1, min(len(path), most)).round().astype(int))
    return path[keep]


def background(panel: ToyPanel) -> np.ndarray:
    """uint8 [R, R, 3], north up: white where the model is unsure, the class's colour (or grey) where it is certain."""
    share = np.clip((panel.confidence - 1 / 3) / (2 / 3), 0, 1)[..., None]
    if panel.predicted is None:
        colour = np.array([70.0, 90.0, 120.0])
    else:
        colour = np.array([_rgb(HUES[int(c) % len(HUES)]) for c in panel.predicted.ravel()], dtype=float)
        colour = colour.reshape(*panel.predicted.shape, 3)
    shaded = 255 + (colour - 255) * share * 0.55
    return np.ascontiguousarray(shaded.round().astype(np.uint8)[::-1])


def _rgb(colour: str) -> tuple[int, int, int]:
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)


def _shape(index: int, x: float, y: float, radius: float) -> Markup:
    """Squares, circles, pentagons, then circles again: told apart without colour."""
    style = {"fill": HUES[index % len(HUES)], "stroke": "#1d1d1b", "stroke_width": 0.7}
    if index % 3 == 1:
        return tag("circle", cx=float(x), cy=float(y), r=radius, **style)
    sides = 4 if index % 3 == 0 else 5
    turn = math.pi / 4 if sides == 4 else -math.pi / 2
    reach = radius * (1.3 if sides == 4 else 1.2)
    corners = [
        (x + reach * math.cos(turn + 2 * math.pi * k / sides), y + reach * math.sin(turn + 2 * math.pi * k / sides))
        for k in range(sides)
    ]
    return tag("polygon", points=" ".join(f"{cx:.1f},{cy:.1f}" for cx, cy in corners), **style)


def _table(data: ToyData) -> Markup:
    heads = ["", "alpha", "steps", "steps, the paper's", "distance", "distance, the paper's"]
    rows = []
    for shown in data.figures:
        for panel in shown.panels:
            paper = [
                ABSENT if panel.paper_steps is None else f"{panel.paper_steps:,}",
                ABSENT if panel.paper_distance is None else f"{panel.paper_distance:.2f}",
            ]
            rows.append(
                tag(
                    "tr",
                    tag("th", shown.title, scope="row"),
                    tag("td", _alpha(panel)),
                    tag("td", f"{panel.steps:,}", class_="ours"),
                    tag("td", paper[0], class_="theirs"),
                    tag("td", f"{panel.distance:.2f}", class_="ours"),
                    tag("td", paper[1], class_="theirs"),
                )
            )
    head = tag("thead", tag("tr", *(tag("th", name, scope="col") for name in heads)))
    return tag("div", tag("table", head, tag("tbody", *rows), class_="paper"), class_="scroll") if rows else Markup("")


def _provenance(data: ToyData) -> Markup:
    if data.results is None:
        return Markup("")
    axes = ()
    return section(
        "Where every number comes from",
        f"{count(len(data.results), 'trial')}{NBSP}",
        sections.provenance(data.results, axes, data.links),
    )
