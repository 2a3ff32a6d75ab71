"""How targets place their training images: two figures and a section, where the sweep asks for it."""

import numpy as np
import pandas as pd
import pytest

from smoothsweep.orchestrator.page.drawing.colours import assign
from smoothsweep.orchestrator.page.figures.features import KINDS
from smoothsweep.orchestrator.page.figures.of_sweep import Figures
from smoothsweep.orchestrator.page.render import part
from smoothsweep.orchestrator.result.data import FeatureView
from smoothsweep.orchestrator.result.summary import summarise

LABELS = ("alpha\u00a0\u22120.2", "alpha\u00a00", "alpha\u00a00.1")


def a_view(seed, points=60, spread=1.0):
    rng = np.random.default_rng(seed)
    label = np.arange(points) % 6
    places = 8 * np.stack([np.cos(label), np.sin(label)], 1) + spread * rng.normal(size=(points, 2))
    distances = {
        name: np.clip(rng.normal(centre, 0.05 * spread, points), 0, 1)
        for (name, _), centre in zip(KINDS, (0.3, 0.7, 0.1, 0.5), strict=True)
    }
    mapped = {
        "row": np.arange(points),
        "class": label,
        "tsne_x": places[:, 0],
        "tsne_y": places[:, 1],
        "pca_x": places[:, 1],
        "pca_y": places[:, 0],
    }
    return FeatureView(points=pd.DataFrame(mapped), distances=pd.DataFrame(distances).assign(**{"class": label}))


@pytest.fixture(scope="module")
def data(make_data):
    views = {name: a_view(seed, spread=1 + seed) for seed, name in enumerate(LABELS)}
    return make_data(features=views, sheets=())


def test_every_recipe_has_its_maps_its_distributions_and_their_medians(data):
    summary = summarise(data, resamples=50)
    figures = Figures(data=data, summary=summary, colours=assign(summary))
    maps, violins = figures.feature_maps(), figures.feature_violins()
    assert len(maps.figure.axes) == 2 * len(LABELS) and len(violins.figure.axes) == len(LABELS)
    for place, view in enumerate(data.features.values()):
        drawn = sum(len(line.get_xdata()) for line in maps.figure.axes[2 * place].lines)
        assert drawn == len(view.points)
        words = [text.get_text() for text in violins.figure.axes[place].texts]
        assert words == [f"{view.distances[name].median():.2f}" for name, _ in KINDS]
    page = part("features", data, summary)
    assert page.count("<figure>") == 2 and "t-SNE" in page and "an equal share" not in page


def test_a_sweep_that_does_not_ask_shows_nothing_of_it(make_data):
    data = make_data(sheets=())
    assert part("features", data, summarise(data, resamples=50)) == ""
