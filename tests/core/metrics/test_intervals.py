"""Intervals of shares and means; how well a judge recognises."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, special, stats

from smoothsweep.core.metrics.intervals import (
    check_judge,
    exposures,
    independent_rate_interval,
    rate_interval,
    seed_mean_interval,
)
from smoothsweep.core.metrics.metric import strangers_needed
from smoothsweep.core.metrics.recognition import (
    accept_threshold,
    accepted,
    all_scores,
    fit_class_means,
    fit_head,
    gallery_ranks,
    head_logits,
    template_scores,
)


def score_ends(rate, trials, quantile):
    """Wilson's interval by its definition: the rates from which `rate` is no more than `quantile` errors away."""

    def distance(true):
        return (rate - true) ** 2 - quantile**2 * true * (1 - true) / trials

    low = 0.0 if rate == 0 else optimize.brentq(distance, 1e-12, rate - 1e-9)
    high = 1.0 if rate == 1 else optimize.brentq(distance, rate + 1e-9, 1 - 1e-12)
    return low, high


def by_hand(table):
    """(trials, degrees of freedom) of a table [seeds, classes], from its analysis of variance, cell by cell."""
    seeds, classes = table.shape
    mean = table.mean()
    squares = {"seed": 0.0, "class": 0.0, "rest": 0.0}
    for s in range(seeds):
        for c in range(classes):
            row, column = table[s].mean(), table[:, c].mean()
            squares["seed"] += (row - mean) ** 2
            squares["class"] += (column - mean) ** 2
            squares["rest"] += (table[s, c] - row - column + mean) ** 2
    freedoms = {"seed": seeds - 1, "class": classes - 1, "rest": (seeds - 1) * (classes - 1)}
    means = {name: squares[name] / freedoms[name] for name in squares}
    terms = {"rest": means["rest"]}
    counted = [name for name in ("seed", "class") if means[name] > means["rest"]]
    if counted:
        terms = {name: means[name] for name in counted} | ({"rest": -means["rest"]} if len(counted) == 2 else {})
    total = sum(terms.values())
    freedom = total**2 / sum(terms[name] ** 2 / freedoms[name] for name in terms)
    return mean * (1 - mean) * seeds * classes / total, freedom


TABLES = {
    "both vary": [[0.2, 0.5, 1.0, 0.9], [0.4, 0.9, 1.0, 1.0], [0.1, 0.2, 0.7, 0.5]],
    "classes vary": [[0.0, 0.5, 1.0, 0.25], [0.0, 0.75, 1.0, 0.25], [0.25, 0.5, 0.75, 0.25]],
    "seeds vary": [[0.1, 0.2, 0.15, 0.1], [0.8, 0.7, 0.85, 0.8]],
    "neither": [[0.0, 1.0], [1.0, 0.0]],
}


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("level", [0.8, 0.95])
def test_the_ends_are_wilsons_with_the_effective_number_of_trials(name, level):
    table = np.array(TABLES[name])
    trials, freedom = by_hand(table)
    found = rate_interval(table, images=10**6, level=level)  # so many that their number limits nothing
    quantile = stats.t.ppf((1 + level) / 2, freedom)
    assert (found.low, found.high) == pytest.approx(score_ends(table.mean(), trials, quantile), abs=1e-9)
    assert found.mean == pytest.approx(table.mean())


@pytest.mark.parametrize(
    ("seeds", "classes", "images", "worth"),
    [
        (3, 24, 288, 288 / (1 + 11 * 0.25)),  # four images of each under each seed
        (1, 10, 10, 10.0),  # one image of each: nothing to correlate with
        (2, 5, 1000, 1000 / (1 + 199 * 0.25)),  # many images of five people: hardly more than four of each tell
    ],
)
@pytest.mark.parametrize("hit", [0.0, 1.0])
def test_all_or_none_has_the_width_of_as_many_images_as_the_classes_are_worth(seeds, classes, images, worth, hit):
    found = rate_interval(np.full((seeds, classes), hit), images=images)
    quantile = stats.t.ppf(0.975, classes - 1)
    assert (found.low, found.high) == pytest.approx(score_ends(hit, worth, quantile))
    assert (found.low, found.high)[int(hit)] == hit, "the end at the rate itself is exact"


def test_rates_without_classes_are_over_seeds_and_not_narrower_than_their_images_allow():
    values = np.array([0.90, 0.96, 0.93])
    spread = rate_interval(values, images=10**6)
    trials = 0.93 * 0.07 / (values.var(ddof=1) / 3)
    assert (spread.low, spread.high) == pytest.approx(score_ends(0.93, trials, stats.t.ppf(0.975, 2)), abs=1e-9)
    alike = rate_interval([1.0, 1.0, 1.0], images=200)
    assert (alike.low, alike.high) == pytest.approx(score_ends(1.0, 200, stats.norm.ppf(0.975)))
    few = rate_interval([0.93, 0.93, 0.931], images=100)
    assert (few.low, few.high) == pytest.approx(score_ends(few.mean, 100, stats.norm.ppf(0.975)))
    of_people = rate_interval([1.0, 1.0, 1.0], images=240, groups=20)
    assert of_people.low == pytest.approx(score_ends(1.0, 240 / (1 + 11 * 0.25), stats.norm.ppf(0.975))[0])


def test_what_tells_nothing_has_no_interval():
    for found in (rate_interval([1.0, 1.0]), rate_interval([0.7], images=500), rate_interval([[0.7]])):
        assert found.low is None and found.high is None


def test_one_seed_is_over_classes_alone():
    row = np.array([[0.25, 0.5, 1.0, 0.75, 0.5]])
    found = rate_interval(row, images=10**6)
    trials = row.mean() * (1 - row.mean()) / (row.var(ddof=1) / 5)
    assert (found.low, found.high) == pytest.approx(score_ends(row.mean(), trials, stats.t.ppf(0.975, 4)), abs=1e-9)


@given(
    seeds=st.integers(1, 4),
    classes=st.integers(1, 8),
    images=st.integers(1, 6),
    draw=st.integers(0, 9999),
    rate=st.sampled_from([0.0, 0.05, 0.5, 0.97, 1.0]),
    level=st.floats(0.5, 0.99),
)
def test_an_interval_holds_its_mean_within_0_and_1_has_a_width_and_mirrors(seeds, classes, images, draw, rate, level):
    table = np.random.default_rng(draw).binomial(images, rate, (seeds, classes)) / images
    found = rate_interval(table, images=table.size * images, level=level)
    turned = rate_interval(1 - table, images=table.size * images, level=level)
    if table.size == 1:
        assert found.low is None
        return
    assert 0 <= found.low <= found.mean + 1e-12 and found.mean <= found.high + 1e-12 and found.high <= 1
    assert found.high - found.low > 0.005
    assert (turned.low, turned.high) == pytest.approx((1 - found.high, 1 - found.low), abs=1e-9)
    wider = rate_interval(table, images=table.size * images, level=(1 + level) / 2)
    assert wider.low <= found.low + 1e-12 and wider.high >= found.high - 1e-12


@pytest.mark.parametrize("rate", [0.01, 0.5])
@pytest.mark.parametrize(("seeds", "classes"), [(1, 24), (2, 10), (5, 48)])
def test_covers_the_truth_as_often_as_it_says(rate, seeds, classes):
    """Yes-or-no images of people who differ (beta, outcomes of a person correlating by .2), four of each and seed."""
    generator, covered, draws = np.random.default_rng(int(100 * rate) + seeds), 0, 300
    for _ in range(draws):
        people = generator.beta(4 * rate, 4 * (1 - rate), classes)
        table = generator.binomial(4, people, (seeds, classes)) / 4
        found = rate_interval(table, images=table.size * 4)
        covered += found.low <= rate <= found.high
    assert covered / draws >= 0.95 - 2 * np.sqrt(0.05 * 0.95 / draws)


def test_independent_trials_are_wilsons():
    for hits, trials in ((4, 10), (0, 7), (7, 7), (150, 151)):
        known = stats.binomtest(hits, trials).proportion_ci(0.9, method="wilson")
        assert independent_rate_interval(hits, trials, level=0.9) == pytest.approx((known.low, known.high))


def test_students_interval_in_closed_form():
    interval = seed_mean_interval([1.0, 2.0, 3.0])
    assert interval.mean == 2.0
    half = 4.302652729696142 / 3**0.5
    assert (interval.low, interval.high) == pytest.approx((2 - half, 2 + half))
    assert seed_mean_interval([0.0, 0.1], bounds=(0, 1)).low == 0


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


@pytest.mark.parametrize(
    ("real", "images", "chance", "more", "why"),
    [
        (1 / 6, 24, 1 / 6, {}, "chance"),  # six people, and an evaluator that names one of them
        (0.5, 24, 1 / 6, {}, "chance"),  # its interval begins at 31 %, where a fifth of the way from chance is at 33 %
        (0.5, 240, 1 / 6, {}, ""),
        (0.5, None, 1 / 6, {}, ""),  # of how many is not known
        (0.3, None, 1 / 6, {}, "chance"),
        (0.75, 16, 0.5, {}, "chance"),  # two people
        (1.0, 16, 0.5, {}, ""),
        (0.25, 3000, 1 / 530, {"targets": 0.95}, "targets"),
        (0.48, 3000, 1 / 530, {"targets": 0.95}, ""),
        (0.02, 500, 0.01, {}, "chance"),  # a recogniser that accepts hardly more people than strangers
        (0.6, 500, 0.01, {}, ""),
        (0.62, 100, 0.05, {"reach": (0.96, 50)}, "reach"),
        (0.62, 100, 0.05, {"reach": (0.66, 50)}, ""),
        (0.95, 100, None, {}, ""),
    ],
)
def test_a_judge_tells_a_leak_where_its_interval_clears_chance_by_far(real, images, chance, more, why):
    check = check_judge(real, images=images, chance=chance, **more)
    assert check.why == why and check.is_good == (not why and real >= 0.8)
    assert check.low == pytest.approx(
        real if images is None else score_ends(round(real * images) / images, images, stats.norm.ppf(0.975))[0]
    )
    assert not why or f"{100 * real:.1f}" in check.words


def clusters(classes: int, per_class: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Features [N, 8] around one axis per class, of varying length."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(classes).repeat_interleave(per_class)
    noise = 0.15 * torch.randn(len(labels), 8, generator=generator)
    length = 1 + 4 * torch.rand(len(labels), 1, generator=generator)
    return (torch.eye(8)[labels] + noise) * length, labels


@pytest.mark.parametrize("classes", [2, 5])
def test_a_fitted_head_recognises_new_images(classes):
    head = fit_head(*clusters(classes, 20, seed=0), seed=0)
    features, labels = clusters(classes, 20, seed=1)
    logits = head_logits(head, features)
    assert logits.shape == (20 * classes, classes)
    assert (logits.argmax(1) == labels).all()
    assert head.weight.dtype == head.bias.dtype == torch.float32


def test_the_fit_satisfies_the_optimality_condition():
    """At the optimum of the penalised likelihood W = C * (onehot - p)^T x, and the biases are balanced."""
    features, labels = clusters(4, 15, seed=2)
    head = fit_head(features, labels, seed=0, inverse_penalty=3.0)
    unit = torch.nn.functional.normalize(features)
    residual = torch.nn.functional.one_hot(labels).float() - head_logits(head, features).softmax(1)
    torch.testing.assert_close(head.weight, 3.0 * residual.T @ unit, rtol=0, atol=1e-3)
    torch.testing.assert_close(residual.sum(0), torch.zeros(4), rtol=0, atol=1e-3)


def test_the_fit_of_two_classes_satisfies_the_optimality_condition_of_the_log_odds():
    """At the optimum w = C * (y - p)^T x, of the row that the two oppose each other by: one minus the other."""
    features, labels = clusters(2, 15, seed=2)
    head = fit_head(features, labels, seed=0, inverse_penalty=3.0)
    unit, logits = torch.nn.functional.normalize(features), head_logits(head, features)
    residual = labels.float() - logits.softmax(1)[:, 1]
    torch.testing.assert_close(head.weight[1] - head.weight[0], 3.0 * residual @ unit, rtol=0, atol=1e-3)
    torch.testing.assert_close(residual.sum(), torch.tensor(0.0), rtol=0, atol=1e-3)
    assert torch.equal(logits.sum(1).abs() < 1e-5, torch.ones(30, dtype=torch.bool))


@settings(deadline=None, max_examples=15)
@given(seed=st.integers(0, 99), scale=st.floats(0.01, 100))
def test_the_length_of_features_does_not_matter(seed, scale):
    features, labels = clusters(3, 5, seed)
    means = fit_class_means(features, labels)
    torch.testing.assert_close(fit_class_means(scale * features, labels).weight, means.weight)
    torch.testing.assert_close(head_logits(means, scale * features), head_logits(means, features))


def test_class_means_in_closed_form():
    features = torch.tensor([[2.0, 0.0], [0.0, 3.0], [-1.0, 0.0]])
    head = fit_class_means(features, torch.tensor([0, 0, 1]))
    root = 0.5**0.5
    torch.testing.assert_close(head.weight, torch.tensor([[root, root], [-1.0, 0.0]]))
    assert head.bias.tolist() == [0, 0]
    cosines = head_logits(head, torch.tensor([[5.0, 0.0], [-3.0, 0.0]]))
    torch.testing.assert_close(cosines, torch.tensor([[root, -1.0], [-root, 1.0]]))


few_values = st.lists(st.integers(-3, 3), min_size=1, max_size=80)  # many ties
rates = st.floats(0.001, 0.6)


def scores_of(values):
    return torch.tensor(values, dtype=torch.float64) / 10


@pytest.mark.parametrize(
    ("count", "rate", "let_in"), [(100, 0.01, 1), (1000, 0.001, 1), (99, 0.01, 0), (300, 0.01, 3), (50, 0.1, 5)]
)
def test_of_distinct_scores_as_many_pass_as_the_rate_allows(count, rate, let_in):
    scores = torch.randperm(count, generator=torch.Generator().manual_seed(0)).double() / count
    threshold = accept_threshold(scores, rate)
    assert int(accepted(scores, threshold).sum()) == let_in
    assert threshold == (count - 1 - let_in) / count  # the largest score that is not let in


def test_equal_scores_are_accepted_together_or_not_at_all():
    scores = scores_of([5] * 3 + [1] * 97)
    assert not accepted(scores, accept_threshold(scores, 0.02)).any()  # two would be allowed, three are equal
    assert int(accepted(scores, accept_threshold(scores, 0.03)).sum()) == 3


@given(few_values, rates)
def test_the_rate_on_the_calibration_scores_is_never_above_the_nominal_one(values, rate):
    scores = scores_of(values)
    threshold = accept_threshold(scores, rate)
    assert accepted(scores, threshold).double().mean() <= rate + 1e-9
    lower = scores[scores < threshold]
    if len(lower):  # and it is the smallest score that keeps it
        assert accepted(scores, float(lower.max())).double().mean() > rate - 1e-9


def test_fifty_strangers_make_a_threshold_of_one_percent_and_five_hundred_one_of_a_tenth():
    assert (strangers_needed(0.01), strangers_needed(0.001)) == (50, 500)


def test_scores_are_cosines_with_the_own_template_and_with_all():
    templates = torch.eye(2)
    features = torch.tensor([[3.0, 4.0], [0.0, -2.0]])
    labels = torch.tensor([1, 0])
    assert torch.allclose(all_scores(features, templates), torch.tensor([[0.6, 0.8], [0.0, -1.0]]).double())
    assert torch.allclose(template_scores(features, templates, labels), torch.tensor([0.8, 0.0]).double())


def angles(*degrees):
    turned = np.deg2rad(np.array(degrees, dtype=float))
    return torch.tensor(np.stack([np.cos(turned), np.sin(turned)], axis=1))


def test_the_rank_is_the_median_over_the_photographs_and_a_tie_counts_half():
    strangers = angles(10, 20, 30, 40)
    own, labels = angles(5, 25, 60), torch.zeros(3, dtype=torch.int64)
    assert gallery_ranks(angles(0), torch.tensor([0]), own, labels, strangers).tolist() == [251]
    tied = gallery_ranks(angles(0), torch.tensor([0]), angles(10), torch.zeros(1, dtype=torch.int64), strangers)
    assert tied.tolist() == [1 + 500 * 0.5 / 4]


@given(st.integers(0, 2**31), st.integers(1, 30))
def test_ranks_agree_with_a_count_one_by_one(seed, people):
    random = torch.Generator().manual_seed(seed)
    draw = lambda count: torch.randn(count, 3, generator=random)  # noqa: E731
    features, own, strangers = draw(4), draw(people), draw(7)
    labels, own_labels = torch.tensor([2, 0, 2, 0]), torch.arange(people) % 2 * 2  # photographs of two, in turn
    if people == 1:
        labels = torch.zeros(4, dtype=torch.int64)
    found = gallery_ranks(features, labels, own, own_labels, strangers)
    cosine = torch.nn.functional.cosine_similarity
    for row, feature in enumerate(features.double()):
        nearer = [
            float((cosine(feature[None], strangers.double()) > cosine(feature, photo, dim=0)).sum())
            for photo in own.double()[own_labels == labels[row]]
        ]
        assert found[row] == 1 + 500 * sorted(nearer)[(len(nearer) - 1) // 2] / 7
