"""Membership attacks: on models that memorised, by hand, and the candidates they are shown."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from smoothsweep.core.citations import known_citations
from smoothsweep.core.data.synthetic import synthetic_faces
from smoothsweep.core.errors import InputError
from smoothsweep.core.membership.base import (
    Evidence,
    MembershipAttack,
    check_part,
    inside_part,
    log_odds,
    log_probability,
    margins,
)
from smoothsweep.core.membership.candidates import (
    COPY,
    copies,
    right_over_noise,
    right_over_views,
    scores_without_target,
    thumbnails,
)
from smoothsweep.core.membership.candidates import SIDE as THUMBNAIL
from smoothsweep.core.membership.measuring import (
    held_out_rate,
    is_chance,
    measure,
    over_persons,
    roc_auc,
    tpr_at,
)
from smoothsweep.core.membership.registry import MEMBERSHIP_ATTACKS, VERSION

IMAGES, PEOPLE, MODELS, CLASSES = 600, 12, 16, 12
LABELS = np.arange(IMAGES) % PEOPLE
MEMBER = np.arange(IMAGES) // PEOPLE % 2 == 0


def halves(draw):
    """Pairs of complementary halves of every class, [models, n]."""
    inside = np.zeros((MODELS, IMAGES), bool)
    for pair in range(0, MODELS, 2):
        for label in range(PEOPLE):
            own = draw.permutation(np.flatnonzero(label == LABELS))
            inside[pair, own[: len(own) // 2]] = True
        inside[pair + 1] = ~inside[pair]
    return inside


def answers(draw, inside, hard, memory, labels=LABELS):
    """Logits [2, n, C] of a model: what the image shows leads by how easy it is, its label by `memory` where seen."""
    logits = draw.normal(size=(2, IMAGES, CLASSES))
    logits[:, np.arange(IMAGES), LABELS] += 3 - hard
    logits[:, np.arange(IMAGES), labels] += memory * inside
    return logits


def evidence(memory, seed=0, noise=0.0):
    """Of a target and shadow models that remember by so much. noise: fraction of images with a wrong label."""
    draw = np.random.default_rng(seed)
    hard, inside, labels = draw.normal(size=IMAGES), halves(draw), LABELS.copy()
    wrong = draw.random(IMAGES) < noise
    labels[wrong] = (labels[wrong] + 1) % PEOPLE
    target = answers(draw, MEMBER, hard, memory, labels)
    shadows = np.stack([answers(draw, one, hard, memory, labels) for one in inside])
    views = margins(target[:1] + draw.normal(size=(20, IMAGES, CLASSES)) * 4, labels) > 0
    return Evidence(
        labels=labels,
        phi=log_odds(target, labels),
        margin=margins(target[0], labels),
        shadow_phi=log_odds(shadows, labels),
        inside=inside,
        right_over_views=views,
        right_over_noise=views[:10],
    )


@pytest.mark.parametrize("name", MEMBERSHIP_ATTACKS)
def test_a_model_that_memorised_half_of_the_images_is_told(name):
    scores = MEMBERSHIP_ATTACKS[name]().scores(evidence(memory=14))
    assert roc_auc(scores[MEMBER], scores[~MEMBER]) > 0.95


@pytest.mark.parametrize("name", MEMBERSHIP_ATTACKS)
def test_of_a_model_that_saw_none_nothing_is_told(name):
    scores = MEMBERSHIP_ATTACKS[name]().scores(evidence(memory=0, seed=3))
    members, others = scores[MEMBER], scores[~MEMBER]
    assert is_chance(roc_auc(members, others), len(members), len(others))
    _, low, high = over_persons(lambda inner, outer: tpr_at(inner, outer, 0.01), scores, MEMBER, LABELS, level=0.99)
    assert low <= 0.01 <= max(high, 0.01)


def test_shadow_models_find_mislabelled_images_that_were_memorised():
    """A wrong label is learnt by heart: without calibration by shadow models a hard member looks like no member."""
    given = evidence(memory=3, seed=5, noise=0.3)
    found = {name: MEMBERSHIP_ATTACKS[name]().scores(given) for name in ("loss", "lira", "rmia", "bavaria_t")}
    auc = {name: roc_auc(scores[MEMBER], scores[~MEMBER]) for name, scores in found.items()}
    assert all(auc[name] > auc["loss"] + 0.03 for name in ("lira", "rmia", "bavaria_t"))


@pytest.mark.parametrize("name", MEMBERSHIP_ATTACKS)
def test_missing_evidence_is_one_line(name):
    attack = MEMBERSHIP_ATTACKS[name]()
    with pytest.raises(InputError, match=f"expected {attack.needs[0]}.*got none") as refused:
        attack.scores(Evidence(labels=LABELS))
    assert "\n" not in str(refused.value) and set(attack.cites) <= set(known_citations())


SHOWN = {"right_over_views": 0, "right_over_noise": 0, "phi": 1, "margin": 1, "shadow_phi": 1, "inside": 1}
"""Part of the evidence -> who has it: anybody who gets labels, or who gets scores."""


def test_every_attack_says_what_it_is_called_what_it_sees_and_whose_it_is():
    """A page names attacks by their titles: two of one name would look the same."""
    titles = [kind.title for kind in MEMBERSHIP_ATTACKS.values()]
    assert all(isinstance(title, str) and len(title) > 5 for title in titles) and len(set(titles)) == len(titles)
    for kind in MEMBERSHIP_ATTACKS.values():
        shown = max(SHOWN[part] for part in kind.needs)
        assert ("labels", "scores")[shown] == kind.access and kind.cites
        assert kind().shadows == (not {"shadow_phi", "inside"}.isdisjoint(kind.needs))
        assert 1 <= kind.since <= VERSION


def test_every_number_of_the_measure_stands_on_its_attack():
    given = evidence(memory=2)
    asked = np.random.default_rng(0).random(IMAGES) < 0.5
    few = Evidence(
        labels=given.labels,
        phi=given.phi,
        margin=given.margin,
        right_over_views=given.right_over_views[:, asked],
        right_over_noise=given.right_over_noise[:, asked],
    )
    found = measure(few, MEMBER, queried=asked)
    numbers = found.metrics()
    there = {"phi", "margin", "right_over_views", "right_over_noise"}
    assert set(found.scores) == {name for name, kind in MEMBERSHIP_ATTACKS.items() if set(kind.needs) <= there}
    assert {"margin", "label_views"} <= set(found.scores) and "lira" not in found.scores
    assert numbers["membership_auc"] == roc_auc(given.margin[MEMBER], given.margin[~MEMBER])
    assert numbers["membership_lira_auc"] is None and numbers["membership_tpr_fpr01"] is None
    views = given.right_over_views[:, asked].mean(0)
    assert numbers["membership_auc_labels"] == roc_auc(views[MEMBER[asked]], views[~MEMBER[asked]])
    within = [
        roc_auc(given.margin[(c == LABELS) & MEMBER], given.margin[(c == LABELS) & ~MEMBER]) for c in range(PEOPLE)
    ]
    assert numbers["membership_auc_within"] == pytest.approx(np.mean(within))


SCORES = st.lists(st.integers(0, 6), min_size=1, max_size=12)


@given(SCORES, SCORES)
def test_auc_counts_pairs_and_half_of_the_ties(members, others):
    pairs = [(a > b) + (a == b) / 2 for a in members for b in others]
    assert roc_auc(members, others) == pytest.approx(np.mean(pairs))


@given(SCORES, st.lists(st.integers(0, 6), min_size=10, max_size=30), st.sampled_from([0.1, 0.25, 0.5]))
def test_the_rate_is_the_best_of_all_thresholds_that_keep_the_false_one(members, others, rate):
    inner, outer = np.array(members), np.array(others)
    allowed = [t for t in range(-1, 7) if (outer > t).mean() <= rate + 1e-9]
    assert tpr_at(members, others, rate) == pytest.approx(max((inner > t).mean() for t in allowed))


def test_stated_rates_hold_on_held_back_images_of_one_distribution():
    draw, labels = np.random.default_rng(4), np.repeat(np.arange(40), 25)
    assert held_out_rate(draw.normal(size=1000), labels, 0.05) == pytest.approx(0.05, abs=0.03)
    assert held_out_rate(draw.normal(size=30), labels[:30], 0.05) is None


def test_intervals_over_persons_know_that_images_of_a_person_are_alike():
    draw, labels = np.random.default_rng(5), np.repeat(np.arange(20), 30)
    member = np.tile(np.arange(30) < 15, 20)
    person = np.repeat(draw.normal(size=(20, 2)), 15, axis=1).ravel()  # each person's two kinds lie apart by chance
    alike = over_persons(roc_auc, person + 0.01 * draw.normal(size=600), member, labels)
    apart = over_persons(roc_auc, draw.normal(size=600), member, labels)
    (_, low, high), (_, least, most) = alike, apart
    assert low < 0.5 < high and high - low > 2 * (most - least)


SIDE, CLASSES_CANDIDATES, IMAGES_CANDIDATES = 16, 3, 270  # more than the 256 that are asked at once


class Asked:
    """A fixed linear network that keeps what it was shown."""

    def __init__(self, side=SIDE):
        draw = torch.Generator().manual_seed(0)
        self.weight = torch.randn(3 * side * side, CLASSES_CANDIDATES, generator=draw)
        self.shown, self.side = [], side

    def __call__(self, images):
        assert images.shape[1:] == (3, self.side, self.side)
        self.shown.append(images.clone())
        return images.flatten(1) @ self.weight

    def copies(self, count):
        """What it was shown of every image, [count, n, 3, S, S]."""
        return torch.cat(self.shown).reshape(count, -1, 3, self.side, self.side).numpy()

    def right(self, images, labels):
        return (images.reshape(len(images), -1) @ self.weight.numpy()).argmax(axis=1) == labels.numpy()


def pictures(count=IMAGES_CANDIDATES, side=SIDE):
    draw = torch.Generator().manual_seed(1)
    images = torch.rand(count, 3, side, side, generator=draw) * 1.6 - 0.8
    return images, torch.randint(CLASSES_CANDIDATES, (count,), generator=draw)


def asked(question, model, images, labels, seed=2, **given):
    draw = torch.Generator().manual_seed(seed)
    return question(model, images, labels, image_size=model.side, device="cpu", generator=draw, **given)


def moved(images, across, down):
    """An image seen through a window that has moved, its edge drawn out. By indices."""
    places = np.arange(images.shape[-1])
    rows, columns = (np.clip(places + by, 0, len(places) - 1) for by in (down, across))
    return images[..., rows[:, None], columns[None]]


@pytest.mark.parametrize(
    ("side", "farthest", "copies", "count"), [(SIDE, 2, 60, 4), (SIDE, 2, 2, IMAGES_CANDIDATES), (4, 1, 8, 4)]
)
def test_copies_are_shifted_alike_by_up_to_an_eighth_and_every_second_one_is_mirrored(side, farthest, copies, count):
    images, labels = pictures(count, side)
    model = Asked(side)
    found = asked(right_over_views, model, images, labels, copies=copies)
    steps = range(-farthest, farthest + 1)
    shifts = []
    for number, shown in enumerate(model.copies(copies)):
        plain = images.numpy()[..., ::-1] if number % 2 else images.numpy()
        shifts += [(a, d) for a in steps for d in steps if np.array_equal(moved(plain, a, d), shown)]
        assert len(shifts) == number + 1
        assert np.array_equal(found[number], model.right(shown, labels))
    if copies == 60:
        assert set(shifts) >= {(-2, d) for d in (-2, 2)} | {(2, d) for d in (-2, 2)} and 0 < found.mean() < 1


def test_noise_grows_by_a_factor_from_its_weakest_level_to_its_strongest():
    images, labels = torch.zeros(IMAGES_CANDIDATES, 3, SIDE, SIDE), pictures()[1]
    model = Asked()
    found = asked(right_over_noise, model, images, labels, levels=4)
    shown = model.copies(4)
    inside = shown[:, :, 0]  # a third of the values is enough
    assert [one.std() for one in inside[:3]] == pytest.approx(np.geomspace(0.02, 0.5, 4)[:3], rel=0.03)
    assert 0.4 < inside[3].std() < 0.5 and abs(inside).max() == 1  # cut where a picture ends
    assert abs(np.corrcoef(inside[0].ravel(), inside[1].ravel())[0, 1]) < 0.02
    assert abs(np.corrcoef(inside[0, 0].ravel(), inside[0, 1].ravel())[0, 1]) < 0.3
    assert all(np.array_equal(flags, model.right(one, labels)) for flags, one in zip(found, shown, strict=True))
    asked(right_over_noise, one := Asked(), images[:50], labels[:50], levels=1)
    assert one.copies(1).std() == pytest.approx(0.02, rel=0.03)


@pytest.fixture(scope="module")
def faces():
    return synthetic_faces(identities=20, per_identity=12, size=32, spread=0.4, seed=5, population="private")


@pytest.fixture(scope="module")
def member(faces):
    return np.random.default_rng(0).permutation(len(faces)) % 3 > 0


def shift(images, member):
    scores = scores_without_target(thumbnails(images), member)
    return roc_auc(scores[member], scores[~member])


def test_images_of_one_distribution_are_not_told_apart(faces, member):
    assert is_chance(shift(faces.images, member), member.sum(), (~member).sum())


@pytest.mark.parametrize("change", [lambda x: x + 12, lambda x: (x - 128) * 0.85 + 128], ids=["lighter", "paler"])
def test_test_images_of_another_camera_are_told_apart(faces, member, change):
    images = faces.images.clone()
    other = torch.from_numpy(~member)
    images[other] = change(images[other].float()).clamp(0, 255).to(torch.uint8)
    found = shift(images, member)
    assert found > 0.75 and not is_chance(found, member.sum(), (~member).sum())


def test_copies_are_of_the_same_class_and_differ_by_no_more_than_saving_does():
    """One pixel of 432 decides. Of class 2 there is no member, of class 3 no other image."""
    base = np.random.default_rng(4).uniform(0.2, 0.8, (3, 3 * THUMBNAIL * THUMBNAIL))
    small = base[[0, 1, 0, 1, 0, 1, 0, 2]]
    small[[2, 3], 17] += (COPY - 1e-9, COPY + 1e-9)
    small[4, 5] -= COPY - 1e-9
    labels = np.array([0, 0, 0, 0, 0, 1, 2, 3])
    member = np.array([True, True, False, False, False, False, False, True])
    assert copies(small, labels, member).tolist() == [False, False, True, False, True, False, False, False]
    assert pytest.approx(2 / 255) == COPY


@given(st.lists(st.integers(4, 15), min_size=1, max_size=5), st.integers(0, 9), st.integers(0, 5))
def test_every_image_is_in_one_of_two_halves_and_classes_are_balanced(counts, pair, seed):
    labels = np.repeat(np.arange(len(counts)), counts)
    one, other = (inside_part(labels, model=2 * pair + i, share=0.5, seed=seed) for i in (0, 1))
    assert (one ^ other).all()
    assert all(abs(2 * one[labels == label].sum() - count) <= 1 for label, count in enumerate(counts))


def test_the_order_is_drawn_anew_for_every_pair_class_and_seed():
    labels = np.repeat([0, 1], 20)
    parts = [inside_part(labels, model=0, share=0.5, seed=0), inside_part(labels, model=2, share=0.5, seed=0)]
    parts += [inside_part(labels, model=0, share=0.5, seed=1)]
    assert len({part.tobytes() for part in parts}) == 3 and (parts[0][:20] != parts[0][20:]).any()


@pytest.mark.parametrize(("counts", "share"), [((10, 3), 0.5), ((10, 10), 0.1), ((10, 10), 0.95)])
def test_fewer_than_two_images_of_a_class_are_refused_in_one_line(counts, share):
    with pytest.raises(InputError, match="at least 2 images of every class in a shadow model's part and outside it"):
        check_part(counts, share)


IMAGES_BY_HAND, VIEWS = 9, 2
LABELS_BY_HAND = np.array([0, 2, 1, 0, 2, 2, 1, 0, 5])  # of class 5 there is one image


def evidence_of_by_hand(models, uneven=0):
    """Half of the models with each image, drawn for each image alone; of some images so many fewer or more."""
    draw = np.random.default_rng(models)
    inside = np.zeros((models, IMAGES_BY_HAND), bool)
    for image in range(IMAGES_BY_HAND):
        inside[draw.permutation(models)[: models // 2 + uneven * (image % 3 - 1)], image] = True
    return Evidence(
        labels=LABELS_BY_HAND,
        phi=draw.normal(1, 2, (VIEWS, IMAGES_BY_HAND)),
        margin=draw.normal(size=IMAGES_BY_HAND),
        shadow_phi=draw.normal(size=(models, VIEWS, IMAGES_BY_HAND)) * draw.uniform(0.5, 3, (1, VIEWS, IMAGES_BY_HAND)),
        inside=inside,
        right_over_views=draw.random((7, IMAGES_BY_HAND)) < 0.5,
        right_over_noise=draw.random((5, IMAGES_BY_HAND)) < 0.5,
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
    given = evidence_of_by_hand(models, uneven)
    online, offline = np.zeros(IMAGES_BY_HAND), np.zeros(IMAGES_BY_HAND)
    for image in range(IMAGES_BY_HAND):
        for view in range(VIEWS):
            told = given.phi[view, image]
            for inner, side in zip((True, False), sides(given, image, view), strict=True):
                spread = side.std() if len(side) >= 32 else pooled(given, view, inner)
                online[image] += (1 if inner else -1) * stats.norm(side.mean(), spread).logpdf(told)
                offline[image] -= 0 if inner else stats.norm(side.mean(), spread).logsf(told)
    assert MEMBERSHIP_ATTACKS["lira"]().scores(given) == pytest.approx(online)
    assert MEMBERSHIP_ATTACKS["lira_offline"]().scores(given) == pytest.approx(offline)


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_a_score_that_is_not_finite_is_one_line(wrong):
    class Fixed(MembershipAttack):
        def score(self, evidence):
            return evidence.margin

    scores = np.array([0.0, wrong, 1.0])
    with pytest.raises(InputError, match="expected finite scores"):
        Fixed().scores(Evidence(labels=LABELS_BY_HAND[:3], margin=scores))
    scores[1] = 0.5
    assert np.array_equal(Fixed().scores(Evidence(labels=LABELS_BY_HAND[:3], margin=scores)), scores)


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
    given = evidence_of_by_hand(4)
    assert np.isfinite(MEMBERSHIP_ATTACKS["lira"]().scores(given)).all()
    inside = given.inside.copy()
    inside[np.flatnonzero(inside[:, 5])[0], 5] = False
    for flags in (inside, ~inside):
        with pytest.raises(InputError, match=r"judges\.membership\.shadows: .*got one with 1"):
            MEMBERSHIP_ATTACKS["lira"]().scores(replace(given, inside=flags))


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
    assert MEMBERSHIP_ATTACKS["lira"]().scores(published) == pytest.approx(golden["lira_online"], abs=1e-6)
    tail = MEMBERSHIP_ATTACKS["lira_offline"]().scores(published)  # -log P(Z > phi); theirs is log P(Z < phi)
    assert np.log1p(-np.exp(-tail)) == pytest.approx(golden["lira_offline"], abs=1e-6)


def test_rmia_is_that_of_privacy_meter(golden, published):
    """Its population is out of all models, of which it takes the half with the largest probabilities."""
    attack, p = MEMBERSHIP_ATTACKS["rmia_offline"](), np.exp(log_probability(published.shadow_phi[:, 0]))
    ratio = log_probability(published.phi[0]) - np.log(attack.expected(published))
    largest = np.sort(p[:, :10], axis=0)[4:].mean(axis=0)
    population = log_probability(published.phi[0, :10]) - np.log((1.3 * largest + 0.7) / 2)
    found = np.array([(population <= one).mean() for one in ratio[10:]])
    assert found == pytest.approx(golden["rmia_offline"], abs=1e-6) and len(set(found)) > 3
