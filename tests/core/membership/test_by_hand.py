"""Scores of membership attacks a second time: by hand with scipy, and beside public implementations.

`tests/golden/membership.npz` was computed by running them on the same logits. LeakPro
(leakpro/attacks/mia_attacks/lira.py, commit c47752f): `lira_online` and `lira_offline` with variance "carlini", `phi`.
ML Privacy Meter (modules/mia/attacks/rmia.py, commit e384af8): `rmia_offline`, of images 10 to 23 among the population
0 to 9, a = 0.3. logits: [target and 8 shadow models, 24 images, 5 classes].
"""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from smoothsweep.core.errors import InputError
from smoothsweep.core.membership.base import Evidence, MembershipAttack, log_odds, log_probability, margins
from smoothsweep.core.membership.registry import dominated
from tests.core.membership.made import make_membership_attack

IMAGES, VIEWS = 9, 2
LABELS = np.array([0, 2, 1, 0, 2, 2, 1, 0, 5])  # of class 5 there is one image


def evidence(models, uneven=0):
    """Half of the models with each image, drawn for each image alone; of some images so many fewer or more."""
    draw = np.random.default_rng(models)
    inside = np.zeros((models, IMAGES), bool)
    for image in range(IMAGES):
        inside[draw.permutation(models)[: models // 2 + uneven * (image % 3 - 1)], image] = True
    return Evidence(
        labels=LABELS,
        phi=draw.normal(1, 2, (VIEWS, IMAGES)),
        margin=draw.normal(size=IMAGES),
        shadow_phi=draw.normal(size=(models, VIEWS, IMAGES)) * draw.uniform(0.5, 3, (1, VIEWS, IMAGES)),
        inside=inside,
        right_over_views=draw.random((7, IMAGES)) < 0.5,
        right_over_noise=draw.random((5, IMAGES)) < 0.5,
        losses=draw.exponential(size=(6, IMAGES)),
    )


def sides(given, image, view):
    own = given.shadow_phi[:, view, image]
    return own[given.inside[:, image]], own[~given.inside[:, image]]


def pooled(given, view, inner):
    """The standard deviation of all answers of one side to one view."""
    return given.shadow_phi[:, view][given.inside if inner else ~given.inside].std()


@pytest.mark.parametrize(("models", "uneven"), [(62, 0), (64, 0), (64, 5)])
def test_lira_has_one_variance_for_all_images_below_32_models_on_a_side(models, uneven):
    """Each side of each image by itself, where models with it are not as many as models without it."""
    given = evidence(models, uneven)
    online, offline = np.zeros(IMAGES), np.zeros(IMAGES)
    for image in range(IMAGES):
        for view in range(VIEWS):
            told = given.phi[view, image]
            for inner, side in zip((True, False), sides(given, image, view), strict=True):
                spread = side.std() if len(side) >= 32 else pooled(given, view, inner)
                online[image] += (1 if inner else -1) * stats.norm(side.mean(), spread).logpdf(told)
                offline[image] -= 0 if inner else stats.norm(side.mean(), spread).logsf(told)
    assert make_membership_attack("lira").scores(given) == pytest.approx(online)
    assert make_membership_attack("lira_offline").scores(given) == pytest.approx(offline)


@pytest.mark.parametrize(("strength", "weight", "uneven"), [(4.0, 0.1, 0), (2.0, 3.0, 0), (4.0, 0.1, 4)])
def test_bavaria_is_the_ratio_of_two_predictives_of_a_normal_inverse_gamma(strength, weight, uneven):
    given = evidence(12, uneven)
    student, normal = np.zeros(IMAGES), np.zeros(IMAGES)
    for view in range(VIEWS):
        both = [[sides(given, image, view)[side] for image in range(IMAGES)] for side in (0, 1)]
        for sign, answers in zip((1, -1), both, strict=True):
            centre = np.mean([one.mean() for one in answers])
            within = sum(((one - one.mean()) ** 2).sum() for one in answers) / sum(len(one) - 1 for one in answers)
            for image, one in enumerate(answers):
                kappa, a = weight + len(one), (strength + len(one)) / 2
                mean = (weight * centre + one.sum()) / kappa
                b = strength * within / 2 + ((one - one.mean()) ** 2).sum() / 2
                b += weight * len(one) * (one.mean() - centre) ** 2 / (2 * kappa)
                told = given.phi[view, image]
                spread = np.sqrt(b * (kappa + 1) / (a * kappa))
                student[image] += sign * stats.t(2 * a, mean, spread).logpdf(told)
                normal[image] += sign * stats.norm(mean, np.sqrt(b / (a - 1))).logpdf(told)
    options = {"strength": strength, "weight": weight}
    assert make_membership_attack("bavaria_t", **options).scores(given) == pytest.approx(student)
    assert make_membership_attack("bavaria_n", **options).scores(given) == pytest.approx(normal)


@pytest.mark.parametrize(("gamma", "a", "uneven"), [(1.0, 0.3, 0), (2.0, 0.3, 0), (0.5, 0.6, 0), (0.7, 0.2, 2)])
def test_rmia_counts_the_other_images_whose_ratio_is_exceeded(gamma, a, uneven):
    given = evidence(8, uneven)
    p = 1 / (1 + np.exp(-given.shadow_phi[:, 0]))
    target = 1 / (1 + np.exp(-given.phi[0]))
    inner, outer = (
        np.array([p[given.inside[:, image] == side, image].mean() for image in range(IMAGES)]) for side in (True, False)
    )
    for name, options, expected in (
        ("rmia", {"gamma": gamma}, (inner + outer) / 2),
        ("rmia_offline", {"gamma": gamma, "a": a}, ((1 + a) * outer + 1 - a) / 2),
    ):
        ratio = target / expected
        counts = [np.mean([ratio[x] / ratio[z] >= gamma for z in range(IMAGES) if z != x]) for x in range(IMAGES)]
        assert make_membership_attack(name, **options).scores(given) == pytest.approx(counts)


def test_thresholds_and_labels():
    given = evidence(8)
    assert np.array_equal(make_membership_attack("margin").scores(given), given.margin)
    assert np.array_equal(make_membership_attack("loss").scores(given), given.phi[0])
    for name, scores in (("margin_per_class", given.margin), ("loss_per_class", given.phi[0])):
        expected = np.zeros(IMAGES)
        for label in (0, 1, 2):
            expected[label == LABELS] = stats.zscore(scores[label == LABELS])
        assert make_membership_attack(name).scores(given) == pytest.approx(expected)
    assert make_membership_attack("loss_trace").scores(given) == pytest.approx(stats.iqr(given.losses, axis=0))
    for name, flags in (("label_views", given.right_over_views), ("label_distance", given.right_over_noise)):
        assert make_membership_attack(name).scores(given) == pytest.approx(flags.sum(axis=0) / len(flags))


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_a_score_that_is_not_finite_is_one_line(wrong):
    class Fixed(MembershipAttack):
        def score(self, evidence):
            return evidence.margin

    scores = np.array([0.0, wrong, 1.0])
    with pytest.raises(InputError, match="expected finite scores"):
        Fixed().scores(Evidence(labels=LABELS[:3], margin=scores))
    scores[1] = 0.5
    assert np.array_equal(Fixed().scores(Evidence(labels=LABELS[:3], margin=scores)), scores)


@pytest.mark.parametrize("kind", [np.float32, np.float64, np.int64, list])
def test_log_odds_and_margins_are_worked_out_in_double_precision(kind):
    """Of whatever numbers: small differences decide at few false positives. The logits are not written to."""
    logits = np.random.default_rng(6).integers(-9, 9, (2, 4, 5)) * (1 if kind in (np.int64, list) else 0.3)
    given = logits.tolist() if kind is list else logits.astype(kind)
    before, labels = np.array(given), np.array([3, 0, 4, 1])
    exact = before.astype(np.float64)
    rows = np.arange(4)
    p = np.exp(exact - np.logaddexp.reduce(exact, axis=-1, keepdims=True))[:, rows, labels]
    others = np.where(np.eye(5, dtype=bool)[labels], -np.inf, exact).max(axis=-1)
    phi, margin = log_odds(given, labels), margins(given, labels.tolist())
    assert phi.dtype == margin.dtype == np.float64 and np.array_equal(np.array(given), before)
    assert phi == pytest.approx(np.log(p) - np.log1p(-p), rel=1e-11, abs=1e-11)
    assert np.array_equal(margin, exact[:, rows, labels] - others)


def test_two_models_on_each_side_of_every_image_are_the_least():
    given = evidence(4)
    assert np.isfinite(make_membership_attack("lira").scores(given)).all()
    inside = given.inside.copy()
    inside[np.flatnonzero(inside[:, 5])[0], 5] = False
    for flags in (inside, ~inside):
        with pytest.raises(InputError, match=r"judges\.membership\.shadows: .*got one with 1"):
            make_membership_attack("lira").scores(replace(given, inside=flags))


GOLDEN = Path(__file__).parents[2] / "golden" / "membership.npz"


@pytest.fixture(scope="module")
def golden():
    return dict(np.load(GOLDEN))


@pytest.fixture(scope="module")
def published(golden):
    phi = log_odds(golden["logits"], golden["labels"])
    return Evidence(labels=golden["labels"], phi=phi[:1], shadow_phi=phi[1:, None], inside=golden["inside"])


def test_log_odds_are_those_of_leakpro(golden, published):
    assert published.phi[0] == pytest.approx(golden["phi"], abs=1e-6)


def test_lira_is_that_of_leakpro(golden, published):
    assert make_membership_attack("lira").scores(published) == pytest.approx(golden["lira_online"], abs=1e-6)
    tail = make_membership_attack("lira_offline").scores(published)  # -log P(Z > phi); theirs is log P(Z < phi)
    assert np.log1p(-np.exp(-tail)) == pytest.approx(golden["lira_offline"], abs=1e-6)


def test_rmia_is_that_of_privacy_meter(golden, published):
    """Its population is out of all models, of which it takes the half with the largest probabilities."""
    attack, p = make_membership_attack("rmia_offline", a=0.3), np.exp(log_probability(published.shadow_phi[:, 0]))
    ratio = log_probability(published.phi[0]) - np.log(attack.expected(published))
    largest = np.sort(p[:, :10], axis=0)[4:].mean(axis=0)
    population = log_probability(published.phi[0, :10]) - np.log((1.3 * largest + 0.7) / 2)
    found = dominated(ratio[10:], population, gamma=1.0)
    assert found == pytest.approx(golden["rmia_offline"], abs=1e-6) and len(set(found)) > 3
