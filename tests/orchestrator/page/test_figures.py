"""The figures of a report, as they are drawn."""

import re
import xml.etree.ElementTree as ElementTree
import zlib

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from smoothsweep.core.metrics.intervals import exposures
from smoothsweep.orchestrator.page.figures import charts
from smoothsweep.orchestrator.page.figures.accuracy_leak import plot, title_lines
from smoothsweep.orchestrator.page.figures.canvas import Canvas, Labels, assign, fold, text_width
from smoothsweep.orchestrator.page.figures.of_sweep import Figures
from smoothsweep.orchestrator.page.render import part
from smoothsweep.orchestrator.result.data import FeatureView, Importance
from smoothsweep.orchestrator.result.summary import summarise
from smoothsweep.orchestrator.result.sweep_result import result_of
from tests.made_searches import view

SVG = "{http://www.w3.org/2000/svg}"
NAMES = ("alpha\u00a0\u22120.2", "alpha\u00a00", "alpha\u00a00.1")


def drawn(canvas):
    """As its reader gets it, with a colour for every text: what has none is black on a dark screen, too."""
    tree = ElementTree.fromstring(canvas.file("a.svg"))
    assert all("fill" in text.get("style") for text in tree.iter(f"{SVG}text"))
    return tree


def titles(canvas):
    return [title.text for title in drawn(canvas).iter(f"{SVG}title")]


def figures_of(data, result=None):
    return Figures(data=data, result=result or result_of(data, summarise(data)))


@pytest.mark.parametrize("name", ["a.pdf", "a.svg", "a.png", "a.b.pdf"])
def test_a_file_is_what_its_name_says_and_the_same_bytes_again(name):
    def content():
        canvas = Canvas(200, 100, "A \x1btitle")
        canvas.axes((20, 10, 190, 90), x="accuracy \N{MINUS SIGN}0.8").plot([0, 1], [0, 1])
        return canvas.file(name)

    made = content()
    assert made.startswith({"pdf": b"%PDF-", "svg": b"<?xml", "png": b"\x89PNG"}[name[-3:]]) and made == content()
    if name == "a.pdf":
        assert b"CreationDate" not in made and b"Producer" not in made and b"Creator" not in made
        start = made.index(b"stream\n") + 7
        assert b" Tf" in zlib.decompress(made[start : made.index(b"endstream", start)]), "text is text"


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
        labels.boxes.append((PANEL[0], y - 1, PANEL[2], y + 1))
    placed = [
        labels.place(x, y, width, 14 * lines, PANEL) for (x, y), (_, width, lines) in zip(spots, points, strict=True)
    ]
    assert sum(spot is not None for spot in placed) == len(labels.names) >= 9, "there is room for most"
    for number, box in enumerate(labels.names):
        assert PANEL[0] <= box[0] and box[2] <= PANEL[2] and PANEL[1] <= box[1] and box[3] <= PANEL[3]
        assert not any(overlap(box, other) for other in labels.names[:number])
        assert not any(overlap(box, (x - 8, y - 8, x + 8, y + 8)) for x, y in spots)


def test_the_panels_show_every_measured_cell_with_its_seeds_where_the_numbers_say(make_data, summary, result):
    panels = figures_of(make_data(), result).panels.attacks()
    points = [point for panel in panels for point in panel.dots]
    assert len(panels) == 4 and len(points) == 2 * 8  # judges x cells
    assert sum(point.hollow for point in points) == 4
    assert sum(len(point.seeds) for point in points) == 2 * 22  # for the seeds that are done
    canvas = plot(panels, 500, 390, "all", across=2)
    told = titles(canvas)
    assert any(NAMES[0] in t and "independent judge" in t and "n = 3" in t for t in told) and len(told) == 16
    rows = summary.frame.iloc[:4]
    assert [(p.x, p.y) for p in panels[0].dots] == [*zip(rows["test_acc"], rows["embedder_acc1"], strict=True)]
    marks = {tuple(line.get_xydata()[0]) for line in canvas.figure.axes[0].lines if len(line.get_xdata()) == 1}
    assert {(point.x, point.y) for point in panels[0].dots} <= marks


def test_the_overview_is_one_plot_of_the_strongest_attack_beside_the_reconstructions(make_data):
    figures = figures_of(make_data())
    overview = figures.drawn["overview.png"]
    assert figures.drawn["overview.png"] is overview and set(figures.files()) >= set(figures.drawn)
    assert all(drawn(canvas) for canvas in figures.files().values() if canvas)
    (plotted,) = [axes for axes in overview.figure.axes if axes.get_xlabel()]
    assert "strongest attack" in plotted.get_title("left")
    (sheet,) = [axes for axes in overview.figure.axes if axes.images]
    assert overview.width == 860 and sheet.get_position().x1 <= plotted.get_position().x0


def test_a_name_is_folded_between_its_words():
    assert fold("smoothing\u00a0\u22120.2", 90, text_width, 3) == ["smoothing", "\u22120.2"]
    assert fold("", 100, text_width, 2) == [] and fold(50 * "w", 30, text_width, 1) == ["w\u2026"]


@pytest.mark.parametrize("width", [460, 530, 560])
@given(attack=st.lists(st.text("aeimrstw,0.", min_size=1, max_size=12), max_size=20).map(" ".join))
@example(attack="sampling target alpha 0, selection target alpha 0")
@example(attack=60 * " w")
def test_a_title_stays_beside_its_corner_whatever_the_attack_is_called(width, attack):
    lines = title_lines(f"Leak: independent judge \u00b7 {attack}", width)
    assert 1 <= len(lines) <= 2 and lines[0].startswith("Leak: independent")
    assert max(text_width(line, 11) for line in lines) <= width - 110


def test_no_name_as_it_is_drawn_lies_on_a_curve_another_name_or_a_dot(defense_data):
    figures = figures_of(defense_data(only=("label_smoothing", "mid", "skip_removal")))
    (group,), panels = figures.result.facts["settings"], figures.panels
    for panel in (panels.frontier(), *(one for _, one in panels.families(group))):
        (axes,) = plot([panel], 360, 320).figure.axes
        names = {dot.name for dot in panel.dots} - {""}
        boxes = [text.get_window_extent().padded(-2) for text in axes.texts if text.get_text() in names]
        assert len(boxes) == len(names)
        dots = [axes.transData.transform(panel.held(dot.x, dot.y)) for dot in panel.dots]
        for place, box in enumerate(boxes):
            assert not any(overlap(box.extents, other.extents) for other in boxes[:place])
            assert not any(box.padded(3).contains(*dot) for dot in dots)
        for curve in (line for line in axes.lines if line.get_gid() == "curve"):
            path = curve.get_path().transformed(curve.get_transform())
            assert not any(path.intersects_bbox(box, filled=False) for box in boxes)


def test_no_coordinate_is_lost_and_figures_without_data_are_left_out(make_data):
    data = make_data()
    for results in (data.results, data.results[data.results["seed"] == 0]):
        one = make_data(results=results)
        figures = figures_of(one)
        for name in ("accuracy-leak.svg", "judges.svg", "exposure.svg"):
            assert "nan" not in re.sub(r"<title>.*?</title>", "", figures.drawn[name].svg(), flags=re.S).lower()
    empty = make_data(
        results=data.results.assign(status="missing"), sheets=(), histories={"a": pd.DataFrame({"epoch": [0]})}
    )
    figures = figures_of(empty)
    assert [name for name, canvas in figures.files().items() if canvas] == [] and figures.frontier() is None


def test_exposure_draws_each_class_once_and_counts_the_recognised(summary, result):
    canvas = charts.exposure(result, assign(result))
    assert len(titles(canvas)) == 8 * 20
    row = summary.frame.index[(summary.frame["alpha"] == 0.1) & (summary.frame["attack_loss"] == "poincare")][0]
    classes = [s.by_class for s in summary.samples[row]["embedder_acc1"].values()]
    exposed = exposures(np.stack(classes))
    assert f"{int((exposed.rate > 0.5).sum())} of 20" in canvas.svg()
    surest = int(exposed.among_top.argmax())
    shown = [title for title in titles(canvas) if title.startswith(f"{classes[0].index[surest]}:")]
    assert len(shown) == 8 and all("among the five most exposed: " in title and "[" in title for title in shown)
    assert any(f"{100 * exposed.among_top[surest]:.0f}\u00a0%" in title for title in shown)


def test_curves_name_their_recipes(make_data, result):
    data, colours = make_data(), assign(result)
    canvas = charts.alpha_curves(data.histories, colours, NAMES)
    assert set(titles(canvas)) == set(NAMES) <= {text.text for text in drawn(canvas).iter(f"{SVG}text")}
    lines = [line for line in canvas.figure.axes[0].lines if len(line.get_xdata()) == 40]
    assert len(lines) == 3 and {line.get_color() for line in lines} == {colours.of(name) for name in NAMES}
    assert len(titles(charts.training_curves(data.histories, colours, NAMES))) == 9


def test_gradient_curves_show_the_band_and_leave_out_steps_without_a_value(result):
    def rows(mean):
        steps = [
            (loss, quantity, step, mean, mean - 0.1, mean + 0.1)
            for loss in ("poincare", "cross_entropy")
            for quantity in ("cosine", "zero", "saturated")
            for step in range(6)
        ]
        frame = pd.DataFrame(steps, columns=["loss", "quantity", "step", "mean", "low", "high"])
        first = (frame["step"] == 0) & (frame["quantity"] == "cosine")
        return frame.assign(**{end: frame[end].mask(first) for end in ("mean", "low", "high")})

    colours = assign(result)
    canvas = charts.gradient_curves({name: rows(0.3 * n) for n, name in enumerate(NAMES[1:])}, colours)
    above = canvas.figure.axes[0]
    lines = [line for line in above.lines if len(line.get_xdata()) == 5]
    assert [line.get_color() for line in lines] == [colours.of(name) for name in NAMES[1:]]
    assert list(lines[1].get_xdata()) == [2, 3, 4, 5, 6] and set(lines[1].get_ydata()) == {0.3}
    assert len(above.collections) == 2  # a band each
    assert set(NAMES[1:]) <= {text.text for text in drawn(canvas).iter(f"{SVG}text")}
    assert "nan" not in canvas.svg().lower() and charts.gradient_curves({}, colours) is None


def test_the_importance_of_parameters_is_a_bar_each():
    shares = (Importance(objective="test_acc", recipes=6, shares=(("alpha", 0.75), ("kind", 0.25))),)
    bars = drawn(charts.importance(view(importances=shares)))
    assert {"75 %", "25 %", "alpha", "kind"} <= {text.text for text in bars.iter(f"{SVG}text")}
    assert charts.importance(view()) is None


def a_view(seed, points=60, spread=1.0):
    rng = np.random.default_rng(seed)
    label = np.arange(points) % 6
    places = 8 * np.stack([np.cos(label), np.sin(label)], 1) + spread * rng.normal(size=(points, 2))
    distances = {
        name: np.clip(rng.normal(centre, 0.05 * spread, points), 0, 1)
        for name, centre in zip(charts.KINDS, (0.3, 0.7, 0.1, 0.5), strict=True)
    }
    mapped = {f"{way}_{axis}": places[:, place] for way in ("tsne", "pca") for place, axis in enumerate("xy")}
    labelled = {"row": np.arange(points), "class": label}
    return FeatureView(points=pd.DataFrame(labelled | mapped), distances=pd.DataFrame(distances | {"class": label}))


def test_every_recipe_has_its_feature_maps_its_distributions_and_their_medians(make_data):
    data = make_data(features={name: a_view(seed, spread=1 + seed) for seed, name in enumerate(NAMES)}, sheets=())
    figures = figures_of(data)
    maps, violins = figures.drawn["features-maps.png"].figure.axes, figures.drawn["features-distances.png"].figure.axes
    assert len(maps) == 2 * len(NAMES) and len(violins) == len(NAMES)
    for place, one in enumerate(data.features.values()):
        assert len(maps[2 * place].collections[0].get_offsets()) == len(one.points)
        words = [text.get_text() for text in violins[place].texts]
        assert words == [*(f"{one.distances[name].median():.2f}" for name in charts.KINDS), NAMES[place]]
    many = charts.feature_maps({"a": a_view(0, points=5000)}, assign(figures.result)).svg()
    assert many.count("<image ") == 2 and len(many) < 400_000, "one picture each, however many points"
    page = part("features", data, figures.result)
    assert page.count("<figure>") == 2 and "t-SNE" in page
    assert part("features", make_data(sheets=()), figures.result) == ""
