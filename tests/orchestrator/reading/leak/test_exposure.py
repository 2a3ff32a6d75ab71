"""Who is exposed, of rates made up here: order, classes that all seeds have, and how many images each rate is of."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from smoothsweep.core.metrics.exposure import exposures
from smoothsweep.orchestrator.reading.leak.exposure import exposed
from smoothsweep.orchestrator.reading.numbers.estimates import Sample

METRIC = "embedder_acc1"
NAMES = list("abcdefgh")
RATES = np.linspace(0.0, 1.0, len(NAMES))


def sample(names=NAMES, images=10):
    rates = pd.Series(dict(zip(NAMES, RATES, strict=True)))[list(names)]
    counts = None if images is None else pd.Series(images, index=list(names))
    return Sample(value=float(rates.mean()), by_class=rates, counts=counts)


def summary(*samples):
    seeds = dict(enumerate(samples))
    return SimpleNamespace(samples=[{METRIC: seeds}], settings=SimpleNamespace(level=0.95))


def test_each_number_is_that_of_the_estimator_and_the_surest_come_first():
    found = exposed(summary(sample(), sample()), 0, METRIC)
    wanted = exposures(np.stack([RATES, RATES]), np.full((2, len(NAMES)), 10), level=0.95)
    assert [one.key for one in found][:3] == ["h", "g", "f"]
    for one in found:
        at = NAMES.index(one.key)
        assert (one.share, one.rate, one.low, one.high, one.among_top) == pytest.approx(
            (wanted.share[at], wanted.rate[at], wanted.low[at], wanted.high[at], wanted.among_top[at])
        )


def test_only_classes_of_every_seed_are_named():
    found = exposed(summary(sample(), sample("hgfedc")), 0, METRIC)
    assert sorted(one.key for one in found) == list("cdefgh")


def test_fewer_images_are_less_sure():
    many, one = (exposed(summary(sample(images=images), sample(images=images)), 0, METRIC)[0] for images in (200, None))
    assert many.key == one.key == "h" and many.high - many.low < one.high - one.low


def test_without_rates_by_class_nobody_is_named():
    assert exposed(summary(), 0, METRIC) == () == exposed(summary(Sample(value=0.4)), 0, METRIC)
