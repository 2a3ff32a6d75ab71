"""The figures of a search: where lines run, what their colours mean, and when there is nothing to draw."""

import re

import numpy as np
import pytest

from smoothsweep.orchestrator.page.figures import searched
from smoothsweep.orchestrator.result.searches import coordinates_words
from tests.made_searches import OBJECTIVES, proposed, view

LEAK = OBJECTIVES[1]


def recipes(leaks):
    """A ramp at every second recipe, which alone has a start."""
    made = []
    for number, leak in enumerate(leaks):
        settings = {"alpha": -number / 10, "kind": "ramp", "start": 0.5 + number / 100}
        settings = settings if number % 2 else {"alpha": settings["alpha"], "kind": "constant"}
        values = {name: f"{value}" for name, value in settings.items()}
        made.append(proposed(number, 0.9 - number / 100, leak, settings=settings, values=values))
    return made


def lines_of(canvas):
    """The lines through the parameters: heights at every axis, and colour."""
    axes = canvas.figure.axes[0]
    found = [(np.asarray(one.get_ydata(), float), one.get_color()) for one in axes.lines]
    return [(heights, colour) for heights, colour in found if len(heights) == 5]  # three parameters, two objectives


def test_lines_run_through_the_values_and_the_best_fifth_is_blue():
    leaks = [0.7, 0.6, 0.5, 0.4, 0.3, 0.2]
    drawn = lines_of(searched.coordinates(view(*recipes(leaks)), LEAK))
    assert len(drawn) == len(leaks)
    by_leak = {round(float(heights[-1]), 6): (heights, colour) for heights, colour in drawn}
    best, worst = by_leak[0.0], by_leak[1.0]
    assert best[1] == searched.RAMP[0] and worst[1] == searched.RAMP[-1]
    assert best[0][0] == pytest.approx(0.0), "alpha -0.5 is the lowest"
    assert worst[0][2] == searched.ABSENT and best[0][2] == pytest.approx(1.0), "a constant schedule has no start"
    assert worst[0][-2] == pytest.approx(1.0), "the recipe that leaks most is the most accurate"


def test_what_was_not_measured_in_full_is_left_out_and_few_recipes_draw_nothing():
    many = recipes([0.7, 0.6, 0.5, 0.4])
    cheap = proposed(9, 0.9, 0.1, rung=0, recipe=None)
    failed = proposed(10, None, None, status="failed")
    assert len(lines_of(searched.coordinates(view(*many, cheap, failed), LEAK))) == 4
    assert "4\u00a0recipes attacked in full" in coordinates_words(view(*many, cheap), LEAK)
    assert searched.coordinates(view(*many[:2]), LEAK) is None
    assert searched.importance(view(*many)) is None


def test_every_axis_of_percentages_has_its_unit():
    svg = str(searched.coordinates(view(*recipes([0.7, 0.6, 0.5, 0.4])), LEAK).svg())
    text = re.sub(r"<title>.*?</title>", "", svg, flags=re.DOTALL)
    assert "accuracy, %" in text and "judge, %" in text
