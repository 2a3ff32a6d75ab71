"""Shrunk rates of people: held against drawn models, against the truth of simulated people, and against themselves."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special, stats

from smoothsweep.core.metrics.intervals import exposures


def drawn_posterior(hits, images, top, draws=400_000):
    """The same model by drawing mu, rho, tau and everybody's theta from their priors, weighted by the likelihood.

    Means, probabilities of a rank, and the distribution's value at given ends."""
    generator = np.random.default_rng(1)
    people = hits.shape[1]
    mu, rho, tau = (generator.beta(*shape, draws) for shape in ((1, 1), (1, 1), (1, 19)))
    size = (1 - rho) / rho
    theta = generator.beta((size * mu)[:, None] + 1e-300, (size * (1 - mu))[:, None] + 1e-300, (draws, people))
    theta = np.clip(theta, 1e-12, 1 - 1e-12)
    alike = ((1 - tau) / tau)[:, None]
    logs = np.zeros(draws)
    for row in hits:
        own = special.betaln(row + theta * alike, images - row + (1 - theta) * alike)
        logs += (own - special.betaln(theta * alike, (1 - theta) * alike)).sum(axis=1)
    weights = np.exp(logs - logs.max())
    weights /= weights.sum()
    ranks = (-theta).argsort(axis=1).argsort(axis=1)
    return weights @ theta, weights @ (ranks < top), lambda ends: weights @ (theta <= ends)


@pytest.mark.parametrize(
    ("hits", "images", "top"),
    [
        ([[4, 1, 0], [3, 2, 0]], [4, 4, 4], 1),
        ([[3, 2, 2, 0]], [3, 6, 3, 3], 2),
        ([[2, 0, 1], [0, 1, 1], [2, 0, 2]], [2, 2, 2], 2),
    ],
)
def test_rates_intervals_and_ranks_are_those_of_the_model(hits, images, top):
    hits, images = np.array(hits), np.array(images)
    found = exposures(hits / images, images, top=top)
    mean, among, reached = drawn_posterior(hits, images, top)
    assert found.rate == pytest.approx(mean, abs=0.01)
    assert found.among_top == pytest.approx(among, abs=0.03)
    ends = reached(found.low)[found.low > 1e-3]  # below, a rate is as good as 0
    assert len(ends) and ends == pytest.approx(0.025, abs=0.012)
    ends = reached(found.high)[found.high < 1 - 1e-3]
    assert len(ends) and ends == pytest.approx(0.975, abs=0.012)
    assert found.share == pytest.approx((hits / images).mean(axis=0))


@settings(deadline=None, max_examples=15)
@given(
    seeds=st.integers(1, 3),
    people=st.integers(1, 9),
    images=st.integers(1, 8),
    draw=st.integers(0, 999),
    rate=st.sampled_from([0.0, 0.1, 0.5, 1.0]),
)
def test_what_holds_of_any_people(seeds, people, images, draw, rate):
    generator = np.random.default_rng(draw)
    shares = generator.binomial(images, rate, (seeds, people)) / images
    found = exposures(shares, np.full(people, images))
    assert (found.low < found.rate).all() and (found.rate < found.high).all()
    assert found.among_top.sum() == pytest.approx(min(5, people), abs=1e-6)
    turned = generator.permutation(people)
    again = exposures(shares[generator.permutation(seeds)][:, turned], np.full(people, images))
    assert again.rate == pytest.approx(found.rate[turned]) and again.among_top == pytest.approx(found.among_top[turned])
    for one in range(people):  # alike in all that was seen: alike in all that is said
        same = (np.sort(shares, axis=0) == np.sort(shares[:, [one]], axis=0)).all(axis=0)
        assert np.ptp(found.rate[same]) < 1e-9 and np.ptp(found.among_top[same]) < 1e-6


def test_ranks_and_intervals_are_as_sure_as_they_say():
    """People whose logits are normal, with effects of their own under each seed: another model than the fitted one."""
    generator, held, said, true = np.random.default_rng(8), [], [], []
    nodes, masses = np.polynomial.hermite_e.hermegauss(40)
    for _ in range(40):
        person = generator.normal(0.3, 0.95, 18)
        chances = stats.logistic.cdf(person + generator.normal(0, 0.35, (3, 18)))
        rates = stats.logistic.cdf(person[:, None] + 0.35 * nodes) @ (masses / masses.sum())
        found = exposures(generator.binomial(4, chances) / 4, np.full(18, 4))
        held.append((found.low <= rates) & (rates <= found.high))
        said.append(found.among_top)
        true.append(rates >= np.sort(rates)[-5])
    said, true = np.concatenate(said), np.concatenate(true)
    assert np.mean(held) >= 0.95 - 2 * np.sqrt(0.05 * 0.95 / len(said)) - 0.005
    for low, high in ((0, 0.2), (0.2, 0.5), (0.5, 0.8), (0.8, 1)):
        there = (said >= low) & (said <= high)
        error = np.sqrt(said[there].mean() * (1 - said[there].mean()) / there.sum())
        assert there.sum() > 20 and abs(true[there].mean() - said[there].mean()) < 2.5 * error + 0.01


@pytest.mark.parametrize(
    ("shares", "options", "message"),
    [
        ([[0.5, 1.5]], {}, r"shares: expected numbers in \[0, 1\]"),
        ([[0.5, 0.5]], {"images": [4, 0]}, "images: expected at least one"),
        ([[0.5, 0.5]], {"top": 0}, "expected a top of at least 1"),
    ],
)
def test_impossible_input_is_refused(shares, options, message):
    with pytest.raises(ValueError, match=message):
        exposures(shares, **options)
