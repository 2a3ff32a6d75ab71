"""The figures of a report, as they are drawn."""

import re

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from smoothsweep.core.judges.columns import metric_of
from smoothsweep.core.metrics.intervals import exposures
from smoothsweep.orchestrator.page.drawing.colours import assign
from smoothsweep.orchestrator.page.figures.accuracy_leak import Panel, Point, _title_lines, plot
from smoothsweep.orchestrator.page.figures.curves.epochs import alpha_curves, training_curves
from smoothsweep.orchestrator.page.figures.labels import Labels, text_width
from smoothsweep.orchestrator.page.figures.of_sweep import Figures
from smoothsweep.orchestrator.page.figures.panels import Panels
from smoothsweep.orchestrator.page.figures.strips import exposure, judges
from smoothsweep.orchestrator.result.defenses import defense_groups
from smoothsweep.orchestrator.result.summary import summarise
from tests.orchestrator.page.drawn_figures import SVG, drawn, titles


def test_the_names_of_twelve_recipes_are_drawn_clear_of_each_other_and_of_all_dots():
    """As matplotlib draws them: the boxes of the texts themselves, not those that were planned."""
    words = ("ramp, schedule start 0.3, schedule end 0.4, back 0.9", "constant", "step, schedule at 0.6")
    points = [
        Point(
            recipe=f"r{n}",
            name=f"alpha \u2212{n / 10}, {words[n % 3]}",
            x=0.89 + 0.003 * (7 * n % 11),
            y=0.42 + 0.005 * (n % 4),
            colour="#444444",
            words="",
            x_ends=(0.7, 0.98),
            y_ends=(0.3, 0.6),
            chosen=n == 3,
        )
        for n in range(12)
    ]
    panel = Panel(title="Leak", spec=metric_of("embedder_acc1"), points=tuple(points), x=(0.88, 0.93), y=(0.0, 0.9))
    canvas = plot([panel], 700, 430)
    (axes,) = canvas.figure.axes
    shown = [text for text in axes.texts if text.get_weight() == "bold" and text.get_text() != "Leak"]
    assert {n for n in range(12) if any(f"\u2212{n / 10}," in text.get_text() for text in shown)} == set(range(12))
    boxes = [text.get_window_extent().extents for text in shown]
    dots = [axes.transData.transform((point.x, point.y)) for point in points]
    for number, (x0, y0, x1, y1) in enumerate(boxes):
        assert not any(x0 - 5 < x < x1 + 5 and y0 - 5 < y < y1 + 5 for x, y in dots)
        for other in boxes[:number]:
            both = (min(x1, other[2]) - max(x0, other[0]), min(y1, other[3]) - max(y0, other[1]))
            assert min(both) < 2.5, "texts may touch by their line gap, not lie on each other"


def test_the_panels_show_every_measured_cell_with_its_seeds(summary):
    panels = Panels(summary=summary, colours=assign(summary)).attacks()
    points = [point for panel in panels for point in panel.points]
    assert len(panels) == 4 and len(points) == 2 * 8  # judges x cells
    assert sum(point.hollow for point in points) == 4
    assert sum(len(point.seeds) for point in points) == 2 * 22  # for the seeds that are done
    told = titles(plot(panels, 500, 390, "all", across=2))
    assert any("alpha\u00a0\u22120.2" in t and "independent judge" in t and "n = 3" in t for t in told)
    assert len(told) == 16


def test_the_overview_is_one_plot_of_the_strongest_attack_beside_the_reconstructions(make_data):
    data = make_data()
    summary = summarise(data)
    overview = Figures(data=data, summary=summary, colours=assign(summary)).overview()
    (plotted,) = [axes for axes in overview.figure.axes if axes.get_xlabel()]
    assert "strongest attack" in " ".join(text.get_text() for text in plotted.texts)
    (sheet,) = [axes for axes in overview.figure.axes if axes.images]
    assert overview.width == 860 and sheet.get_position().x1 <= plotted.get_position().x0


@pytest.mark.parametrize("width", [460, 530, 560])
@given(attack=st.lists(st.text("aeimrstw,0.", min_size=1, max_size=12), max_size=20).map(" ".join))
@example(attack="sampling target alpha 0, selection target alpha 0")
@example(attack="pool size 500, lr 0.003, attack loss cross entropy")
@example(attack=60 * " w")
def test_a_title_stays_beside_its_corner_whatever_the_attack_is_called(width, attack):
    lines, size = _title_lines(f"Leak: independent judge \u00b7 {attack}", width)
    assert 1 <= len(lines) <= 2 and lines[0].startswith("Leak: independent")
    assert max(text_width(line, size) for line in lines) <= width - 110


def test_points_lie_where_the_numbers_say(summary):
    panel = Panels(summary=summary, colours=assign(summary)).attacks()[0]
    rows = summary.frame.iloc[:4]
    assert [point.x for point in panel.points] == list(rows["test_acc"])
    assert [point.y for point in panel.points] == list(rows["embedder_acc1"])
    axes = plot([panel], 500, 390).figure.axes[0]
    marks = {tuple(line.get_xydata()[0]) for line in axes.lines if len(line.get_xdata()) == 1}
    assert {(point.x, point.y) for point in panel.points} <= marks


def test_marks_of_the_first_plot_are_links_that_the_keyboard_reaches(summary):
    canvas = plot([Panels(summary=summary, colours=assign(summary)).frontier()], 620, 370)
    links = list(drawn(canvas).iter(f"{SVG}a"))
    assert len(links) == len(summary.evidence.rows)
    for link in links:
        assert link.get("href").startswith("#row-") and link.get("data-recipe") in summary.recipes
        assert link.find(f"{SVG}title").text.startswith(link.get("data-recipe"))


def test_no_name_lies_on_a_curve(defense_data):
    summary = summarise(defense_data(only=("label_smoothing", "mid", "skip_removal")), resamples=50)
    (group,) = defense_groups(summary)
    for _, panel in Panels(summary=summary, colours=assign(summary)).families(group, "embedder_acc1"):
        (axes,) = plot([panel], 360, 320).figure.axes
        names = {point.name for point in panel.points}
        boxes = [text.get_window_extent().padded(-2) for text in axes.texts if text.get_text() in names]
        for curve in (line for line in axes.lines if line.get_gid() == "curve"):
            path = curve.get_path().transformed(curve.get_transform())
            assert boxes and not any(path.intersects_bbox(box, filled=False) for box in boxes)


def test_no_coordinate_is_lost(make_data):
    data = make_data()
    one = summarise(make_data(results=data.results[data.results["seed"] == 0]))
    for summary in (summarise(data), one):
        colours = assign(summary)
        panels = plot(Panels(summary=summary, colours=colours).attacks(), 500, 390, "all", across=2)
        for canvas in (panels, judges(summary, colours), exposure(summary, colours)):
            assert "nan" not in re.sub(r"<title>.*?</title>", "", canvas.svg(), flags=re.S).lower()


def test_figures_without_data_are_left_out(make_data):
    nothing = summarise(make_data(results=make_data().results.assign(status="missing")))
    colours = assign(nothing)
    panels = Panels(summary=nothing, colours=colours)
    assert panels.attacks() == [] and panels.frontier() is None
    assert judges(nothing, colours) is None and exposure(nothing, colours) is None
    assert alpha_curves({}, colours) is None and training_curves({}, colours) is None
    assert training_curves({"a": [{"epoch": 0}]}, colours) is None


def test_exposure_draws_each_class_once_and_counts_the_recognised(summary):
    canvas = exposure(summary, assign(summary))
    assert len(titles(canvas)) == 8 * 20
    row = summary.frame.index[(summary.frame["alpha"] == 0.1) & (summary.frame["attack_loss"] == "poincare")][0]
    classes = [s.by_class for s in summary.samples[row]["embedder_acc1"].values()]
    found = exposures(np.stack(classes))
    assert f"{int((found.rate > 0.5).sum())} of 20" in canvas.svg()
    surest = int(found.among_top.argmax())
    shown = [title for title in titles(canvas) if title.startswith(f"{classes[0].index[surest]}:")]
    assert len(shown) == 8 and all("among the five most exposed: " in title and "[" in title for title in shown)
    assert any(f"{100 * found.among_top[surest]:.0f}\u00a0%" in title for title in shown)


def overlap(a, b):
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


PANEL = (48.0, 30.0, 688.0, 386.0)
PIXELS = st.tuples(st.floats(PANEL[0], PANEL[2]), st.floats(PANEL[1], PANEL[3]))


@settings(max_examples=25, deadline=None)
@given(
    points=st.lists(st.tuples(PIXELS, st.floats(20, 290), st.integers(1, 2)), min_size=11, max_size=16),
    close=st.sampled_from([1.0, 0.1, 0.0]),
)
def test_no_name_lies_on_another_name_or_on_a_point(points, close):
    """close: how far apart the points are, down to all at one place."""
    middle = (300.0, 180.0)
    spots = [tuple(m + close * (at - m) for at, m in zip(spot, middle, strict=True)) for spot, _, _ in points]
    labels = Labels()
    for x, y in spots:
        labels.mark(x, y, 8)
        labels.keep_clear(PANEL[0], y - 1, PANEL[2], y + 1)
    placed = [
        labels.place(x, y, width, PANEL, lines=lines) for (x, y), (_, width, lines) in zip(spots, points, strict=True)
    ]
    assert sum(spot is not None for spot in placed) == len(labels.names) >= 9, "there is room for most"
    for number, box in enumerate(labels.names):
        assert PANEL[0] <= box[0] and box[2] <= PANEL[2] and PANEL[1] <= box[1] and box[3] <= PANEL[3]
        assert not any(overlap(box, other) for other in labels.names[:number])
        assert not any(overlap(box, (x - 8, y - 8, x + 8, y + 8)) for x, y in spots)
