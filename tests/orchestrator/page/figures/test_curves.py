"""Curves over epochs and over steps."""

import pandas as pd

from smoothsweep.orchestrator.page.drawing.colours import assign
from smoothsweep.orchestrator.page.figures.curves.epochs import alpha_curves, training_curves
from smoothsweep.orchestrator.page.figures.curves.stability import gradient_curves
from tests.orchestrator.page.drawn_figures import SVG, drawn, titles


def test_curves_name_their_recipes(make_data, summary):
    data, colours = make_data(), assign(summary)
    canvas = alpha_curves(data.alpha_curves, colours)
    told = {"alpha\u00a0\u22120.2", "alpha\u00a00", "alpha\u00a00.1"}
    assert set(titles(canvas)) == told
    assert told <= {text.text for text in drawn(canvas).iter(f"{SVG}text")}
    lines = [line for line in canvas.figure.axes[0].lines if len(line.get_xdata()) == 40]
    assert len(lines) == 3 and {line.get_color() for line in lines} == {colours.of(name) for name in told}
    assert len(titles(training_curves(data.training_curves, colours))) == 9


def test_gradient_curves_show_the_band_and_leave_out_steps_without_a_value(summary):
    def rows(mean):
        found = [
            (loss, quantity, step, mean, mean - 0.1, mean + 0.1)
            for loss in ("poincare", "cross_entropy")
            for quantity in ("cosine", "zero", "saturated")
            for step in range(6)
        ]
        frame = pd.DataFrame(found, columns=["loss", "quantity", "step", "mean", "low", "high"])
        first = (frame["step"] == 0) & (frame["quantity"] == "cosine")
        return frame.assign(**{end: frame[end].mask(first) for end in ("mean", "low", "high")})

    recipes, colours = ("alpha\u00a00", "alpha\u00a00.1"), assign(summary)
    canvas = gradient_curves({name: rows(0.3 * n) for n, name in enumerate(recipes)}, colours)
    above = canvas.figure.axes[0]
    curves = [line for line in above.lines if len(line.get_xdata()) == 5]
    assert [line.get_color() for line in curves] == [colours.of(name) for name in recipes]
    assert list(curves[1].get_xdata()) == [2, 3, 4, 5, 6] and set(curves[1].get_ydata()) == {0.3}
    assert len(above.collections) == 2  # a band each
    assert set(recipes) <= {text.text for text in drawn(canvas).iter(f"{SVG}text")}
    assert "nan" not in canvas.svg().lower() and gradient_curves({}, colours) is None
