"""The two-dimensional example's page."""

import dataclasses
import xml.etree.ElementTree as ElementTree

import numpy as np
import pandas as pd

from smoothsweep.orchestrator.page.figures.toy import background, hue, mark_of, nearest_point, toy_panel
from smoothsweep.orchestrator.page.render import render_toy
from smoothsweep.orchestrator.reading.numbers.format import significant
from smoothsweep.orchestrator.reading.toy import toy_answer

SVG = "{http://www.w3.org/2000/svg}"


def test_the_page_shows_panels_numbers_and_the_papers(toy_data):
    page = render_toy(toy_data)
    assert page.count('class="panels"') == 2 and page.count("data:image/png;base64,") == 6
    for panel in toy_data.figures[0].panels:
        assert f"{panel.steps:,}" in page and significant(panel.distance) in page
    assert "3.23" in page and "0.65" in page and "the paper&#39;s" in page
    assert "<script>alert(1)" not in page and "&lt;script&gt;" in page
    assert "https://" not in page


def test_the_answer_names_the_nearest_and_the_farthest_end(toy_data):
    near, far, caveat = toy_answer(toy_data)
    distances = {panel.alpha: panel.distance for panel in toy_data.figures[0].panels}
    assert f"alpha 0.05 the attack ends {significant(distances[0.05])}" in near
    assert f"ends {significant(distances[-0.05])} away" in far and "not evidence" in caveat
    assert toy_answer(dataclasses.replace(toy_data, figures=())) == ("Nothing has been computed yet.",)


def test_the_background_has_north_up_and_is_white_where_unsure(toy_data):
    panel = toy_data.figures[0].panels[2]
    image = background(toy_data, panel)
    assert image.shape == (100, 100, 3) and image.dtype == np.uint8
    top, bottom_left = image[2, 50].astype(int), image[95, 5].astype(int)
    assert top[0] > top[2] + 40  # orange pentagons live in the north
    assert bottom_left[2] > bottom_left[0] + 40  # blue squares in the south-west
    unsure = dataclasses.replace(panel, confidence=np.full((4, 4), 1 / 3), predicted=None)
    assert (background(toy_data, unsure) == 255).all()


def test_the_panel_draws_every_point_the_thinned_path_and_the_gap(toy_data):
    panel = toy_data.figures[0].panels[1]
    canvas = toy_panel(toy_data, panel)
    lines = canvas.figure.axes[0].lines
    assert sum(len(line.get_xdata()) for line in lines[:3]) == 90
    path = next(line for line in lines if line.get_gid() == "path").get_xydata()
    assert len(path) == 400 and path[-1][1] > path[0][1]  # north is up
    tree = ElementTree.fromstring(canvas.svg_file())
    assert tree.get("aria-label") == canvas.title and len(list(tree.iter(f"{SVG}image"))) == 1
    gap = np.linalg.norm(nearest_point(toy_data, panel) - panel.path[-1])
    assert np.isclose(gap, panel.distance)


def test_colours_and_shapes_follow_the_names():
    assert hue(0, "green circles") == hue(1, "green circles") != hue(0, "blue squares")
    assert [mark_of(0, name) for name in ("green circles", "blue squares", "orange pentagons")] == ["o", "s", "p"]
    assert len({(hue(i, f"class {i}"), mark_of(i, f"class {i}")) for i in range(6)}) == 6


def test_an_attack_that_left_all_bounds_is_shown_as_such(toy_data):
    panel = toy_data.figures[0].panels[0]
    wild = np.concatenate([panel.path[:5], [[1e30, -1e30], [np.inf, np.nan]]])
    lost = dataclasses.replace(panel, path=wild, distance=None)
    figures = (dataclasses.replace(toy_data.figures[0], panels=(lost, *toy_data.figures[0].panels[1:])),)
    page = render_toy(dataclasses.replace(toy_data, figures=figures))
    assert "the path left all bounds" in page
    drawn = [line.get_xydata() for line in toy_panel(toy_data, lost).figure.axes[0].lines]
    assert all(np.isfinite(points).all() and np.abs(points).max() < 1e4 for points in drawn)
    outside = dataclasses.replace(panel, path=np.array([[0.0, 0.0], [20.0, 0.0]]), distance=13.0)
    figures = (dataclasses.replace(toy_data.figures[0], panels=(outside,)),)
    assert "outside the picture" in render_toy(dataclasses.replace(toy_data, figures=figures))
    nowhere = dataclasses.replace(toy_data.figures[0], panels=(lost,))
    assert "left all bounds" in toy_answer(dataclasses.replace(toy_data, figures=(nowhere,)))[0]


def test_failed_trials_are_listed(toy_data):
    rows = [{"trial": "t1", "seed": 42, "status": "failed", "failure": "diverged at step 3", "alpha": -5.0}]
    page = render_toy(dataclasses.replace(toy_data, results=pd.DataFrame(rows)))
    assert "diverged at step 3" in page and "alpha \u22125" in page
