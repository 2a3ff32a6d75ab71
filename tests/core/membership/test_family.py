"""Every membership attack of the table: what it finds where a model memorised images, and where it saw none."""

import numpy as np
import pytest

from smoothsweep.core.citations import known_citations
from smoothsweep.core.errors import InputError
from smoothsweep.core.membership.base import Evidence, log_odds, margins
from smoothsweep.core.membership.measuring import is_chance, measure, over_persons, roc_auc, tpr_at
from smoothsweep.core.membership.registry import MEMBERSHIP_ATTACKS, VERSION
from tests.core.membership.made import make_membership_attack

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
    epochs = np.linspace(0, 1, 9)[:, None]
    fallen = np.where(MEMBER, 3 * (1 - epochs) * (memory > 0), 0.0) + draw.normal(size=(9, IMAGES)) * 0.1
    return Evidence(
        labels=labels,
        phi=log_odds(target, labels),
        margin=margins(target[0], labels),
        shadow_phi=log_odds(shadows, labels),
        inside=inside,
        right_over_views=views,
        right_over_noise=views[:10],
        losses=3 + fallen,
    )


@pytest.mark.parametrize("name", MEMBERSHIP_ATTACKS)
def test_a_model_that_memorised_half_of_the_images_is_told(name):
    scores = make_membership_attack(name).scores(evidence(memory=14))
    assert roc_auc(scores[MEMBER], scores[~MEMBER]) > 0.95


@pytest.mark.parametrize("name", MEMBERSHIP_ATTACKS)
def test_of_a_model_that_saw_none_nothing_is_told(name):
    scores = make_membership_attack(name).scores(evidence(memory=0, seed=3))
    members, others = scores[MEMBER], scores[~MEMBER]
    assert is_chance(roc_auc(members, others), len(members), len(others))
    _, low, high = over_persons(lambda inner, outer: tpr_at(inner, outer, 0.01), scores, MEMBER, LABELS, level=0.99)
    assert low <= 0.01 <= max(high, 0.01)


def test_shadow_models_find_mislabelled_images_that_were_memorised():
    """A wrong label is learnt by heart: without calibration by shadow models a hard member looks like no member."""
    given = evidence(memory=3, seed=5, noise=0.3)
    found = {name: make_membership_attack(name).scores(given) for name in ("loss", "lira", "rmia", "bavaria_t")}
    auc = {name: roc_auc(scores[MEMBER], scores[~MEMBER]) for name, scores in found.items()}
    assert all(auc[name] > auc["loss"] + 0.03 for name in ("lira", "rmia", "bavaria_t"))


@pytest.mark.parametrize("name", MEMBERSHIP_ATTACKS)
def test_missing_evidence_is_one_line(name):
    attack = make_membership_attack(name)
    with pytest.raises(InputError, match=f"expected {attack.needs[0]}.*got none") as refused:
        attack.scores(Evidence(labels=LABELS))
    assert "\n" not in str(refused.value) and set(attack.cites) <= set(known_citations())


SHOWN = {
    "right_over_views": 0,
    "right_over_noise": 0,
    "phi": 1,
    "margin": 1,
    "shadow_phi": 1,
    "inside": 1,
    "losses": 2,
}
"""Part of the evidence -> who has it: anybody who gets labels, who gets scores, or the owner alone."""


def test_every_attack_says_what_it_is_called_what_it_sees_and_whose_it_is():
    """A page names attacks by their titles: two of one name would look the same."""
    titles = [kind.title for kind in MEMBERSHIP_ATTACKS.values()]
    assert all(isinstance(title, str) and len(title) > 5 for title in titles) and len(set(titles)) == len(titles)
    for kind in MEMBERSHIP_ATTACKS.values():
        shown = max(SHOWN[part] for part in kind.needs)
        assert ("labels", "scores", "training")[shown] == kind.access and kind.cites
        assert kind().shadows == (not {"shadow_phi", "inside"}.isdisjoint(kind.needs))
        assert 1 <= kind.since <= VERSION


def test_wrong_parameters_are_one_line():
    for kind, given in (("rmia", {"gamma": 0.0}), ("rmia_offline", {"a": 2.0}), ("lira", {"x": 1})):
        with pytest.raises(InputError, match="membership attack"):
            make_membership_attack(kind, **given)


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
