"""Scales, labels and the figures drawn with them."""

import re
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.page.colours import BASELINE, assign
from orchestrator.page.curves import alpha_curves, training_curves
from orchestrator.page.plots import exposure, judges, micro
from orchestrator.page.scatter import accuracy_leak, leak_panels
from orchestrator.page.svg import Labels, Scale, standalone, ticks
from orchestrator.reading import Axis, ReportData, summarise
from orchestrator.reading.numbers.metrics import spec_of

SVG = "{http://www.w3.org/2000/svg}"


def drawn(figure, colours):
    return ElementTree.fromstring(standalone(figure, colours.css()).encode())


@pytest.fixture(scope="module")
def summary(make_data):
    return summarise(make_data())


def test_ticks_are_round_and_inside():
    assert ticks(0, 1) == [0, 0.2, 0.4, 0.6, 0.8, 1.0]
    assert ticks(0.853, 0.886) == [0.86, 0.87, 0.88] or ticks(0.853, 0.886)[0] == 0.855
    assert ticks(3, 3) == [3]


@given(st.floats(-1e6, 1e6), st.floats(1e-4, 1e6), st.integers(2, 9))
def test_ticks_stay_inside_any_domain(lo, share, about):
    width = share * max(1.0, abs(lo))
    hi = lo + width
    found = ticks(lo, hi, about)
    assert all(lo - width * 1e-6 <= tick <= hi + width * 1e-6 for tick in found)
    assert len(found) <= 2 * about + 3


def test_a_scale_maps_ends_to_ends():
    x = Scale(lo=0, hi=10, start=50, end=0)
    assert (x(0), x(10), x(5)) == (50, 0, 25)
    assert x.clamp(12) == 10 and not x.inside(12)


def test_labels_do_not_cover_each_other():
    labels = Labels()
    for _ in range(6):
        labels.place(100, 100, 60, (0, 0, 300, 200))
    boxes = labels.boxes
    overlaps = [(a, b) for i, a in enumerate(boxes) for b in boxes[:i]
                if a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]]  # fmt: skip
    assert not overlaps


def test_the_scatter_shows_every_measured_cell_in_every_panel(summary):
    colours = assign(summary)
    tree = drawn(accuracy_leak(summary, colours), colours)
    means = [c for c in tree.iter(f"{SVG}circle") if c.get("class") in ("dot", "ring")]
    assert len(means) == 2 * 8  # judges x cells
    assert sum(c.get("class") == "ring" for c in means) == 4
    titles = [t.text for t in tree.iter(f"{SVG}title")]
    assert any("alpha\u00a0\u22120.2" in t and "independent judge" in t and "n = 3" in t for t in titles)
    # Small dots: a seed each, for the seeds that are done.
    assert sum(c.get("class") == "faint" for c in tree.iter(f"{SVG}circle")) == 2 * 22


def test_points_lie_where_the_numbers_say(summary):
    colours = assign(summary)
    tree = drawn(accuracy_leak(summary, colours), colours)
    first = [c for c in tree.iter(f"{SVG}circle") if c.get("class") in ("dot", "ring")][:4]
    rows = summary.frame.iloc[:4]
    xs, ys = [float(c.get("cx")) for c in first], [float(c.get("cy")) for c in first]
    assert np.corrcoef(xs, rows["test_acc"])[0, 1] > 0.999
    assert np.corrcoef(ys, rows["embedder_acc1"])[0, 1] < -0.999


def test_no_coordinate_is_lost(make_data):
    data = make_data()
    one = summarise(make_data(results=data.results[data.results["seed"] == 0]))
    for summary in (summarise(data), one):
        colours = assign(summary)
        for figure in (accuracy_leak(summary, colours), judges(summary, colours), exposure(summary, colours)):
            assert "nan" not in re.sub(r"<title>.*?</title>", "", figure, flags=re.S).lower()


def test_figures_without_data_are_left_out(make_data):
    nothing = summarise(make_data(results=make_data().results.assign(status="missing")))
    colours = assign(nothing)
    assert accuracy_leak(nothing, colours) is None and leak_panels(nothing, colours) == []
    assert judges(nothing, colours) is None and exposure(nothing, colours) is None
    assert alpha_curves({}, colours) is None and training_curves({}, colours) is None
    assert training_curves({"a": [{"epoch": 0}]}, colours) is None


def test_exposure_draws_each_class_once_and_counts_the_recognised(summary):
    colours = assign(summary)
    figure = exposure(summary, colours)
    dots = [c for c in drawn(figure, colours).iter(f"{SVG}circle")]
    assert len(dots) == 8 * 20
    row = summary.frame.index[(summary.frame["alpha"] == 0.1) & (summary.frame["attack_loss"] == "poincare")][0]
    classes = [s.by_class for s in summary.samples[row]["embedder_acc1"].values()]
    often = int((sum(classes) / len(classes) > 0.5).sum())
    assert f"{often} of 20" in figure


def test_judges_show_chance(summary):
    assert "chance 5.0" in judges(summary, assign(summary))


def test_curves_name_their_recipes(make_data, summary):
    data, colours = make_data(), assign(summary)
    tree = drawn(alpha_curves(data.alpha_curves, colours), colours)
    lines = [line for line in tree.iter(f"{SVG}polyline")]
    assert len(lines) == 3 and all(len(line.get("points").split()) == 40 for line in lines)
    words = [t.text for t in tree.iter(f"{SVG}text")]
    assert {"alpha\u00a0\u22120.2", "alpha\u00a00", "alpha\u00a00.1"} <= set(words)
    classes = {g.get("data-recipe"): g.get("class") for g in tree.iter(f"{SVG}g") if g.get("data-recipe")}
    assert "rx" not in " ".join(classes.values())
    assert len(list(drawn(training_curves(data.training_curves, colours), colours).iter(f"{SVG}polyline"))) == 9


def test_one_number_axis_gets_a_diverging_scale(summary):
    colours = assign(summary)
    assert colours.light["alpha\u00a00"] == BASELINE[0]
    red, blue = (
        [int(colours.light[name][i : i + 2], 16) for i in (1, 5)] for name in ("alpha\u00a00.1", "alpha\u00a0\u22120.2")
    )
    assert red[0] > red[1] and blue[0] < blue[1]
    assert colours.css_class("alpha 0") == colours.css_class("alpha\u00a00") != "rx"
    assert colours.css_class("something else") == "rx"


def test_other_recipes_get_distinct_colours(make_data):
    data = make_data()
    results = data.results.assign(defense=[f"d{i % 5}" for i in range(len(data.results))])
    axes = (Axis(key="defense"), Axis(key="alpha", role="attack"))
    summary = summarise(ReportData(title="t", results=results, axes=axes, baseline={"defense": "d0"}))
    colours = assign(summary)
    assert len(set(colours.light.values())) == 5 and colours.light["defense\u00a0d0"] == BASELINE[0]


def test_micro_bars_stay_in_their_cell():
    bar = micro(spec_of("test_acc"), 0.5, -1.0, 2.0, (0.0, 1.0))
    xs = [float(value) for value in re.findall(r'x[12]="([\d.]+)"', bar)]
    assert min(xs) >= 0 and max(xs) <= 96
