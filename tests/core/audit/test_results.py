"""The tables of an audit, from hits that are made up: several attacks and controls, seeds, people in no order."""

import numpy as np
import pytest
import torch

from smoothsweep.core.attacks.registry import make_attack
from smoothsweep.core.audit.attack_result import AttackResult
from smoothsweep.core.audit.attacking import InvertedClasses
from smoothsweep.core.audit.judging import Judge, Rate
from smoothsweep.core.audit.results import read_audit, verdict_of
from smoothsweep.core.audit.statistics import Tally
from smoothsweep.core.errors import InputError
from smoothsweep.core.metrics.intervals import exposures, rate_interval

CLASSES, EACH, SEEDS = (7, 0, 4, 2), 4, (11, 5, 8)
NAMES = tuple("abcdefgh")
LABELS = torch.tensor([at for at in CLASSES for _ in range(EACH)])
SHARES = {  # attack -> of each person's images, how many of four the judge takes for them, seed by seed
    "weak": [[1, 0, 0, 1], [0, 1, 0, 1], [1, 0, 1, 0]],
    "strong": [[4, 2, 3, 0], [4, 2, 2, 0], [4, 2, 4, 1]],
    "drawn": [[0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 0]],
    "chosen": [[1, 1, 0, 0], [1, 0, 1, 0], [0, 1, 0, 1]],
}
KINDS = {
    "weak": ("ppa", {"loss": "cross_entropy"}),
    "strong": ("ppa", {}),
    "drawn": ("random_latents", {}),
    "chosen": ("selection_only", {}),
}


def pictures(hits):
    """Images whose first value says whether the judge takes them for the person."""
    images = torch.zeros(len(hits), 3, 2, 2, dtype=torch.uint8)
    images[:, 0, 0, 0] = torch.as_tensor(hits, dtype=torch.uint8)
    return images


def reconstructions(name, at):
    hits = [rank < many for many in SHARES[name][at] for rank in range(EACH)]
    kind, settings = KINDS[name]
    return AttackResult(
        seed=SEEDS[at],
        inverted=InvertedClasses(
            attack=make_attack(kind, **settings),
            kind=kind,
            images=pictures(hits),
            labels=LABELS,
            scores=torch.arange(len(LABELS)) / 16 if name == "strong" else None,
            w=torch.zeros(len(LABELS), 2),
            queries=10.0 * (at + 1),
            seconds=float(at + 1),
        ),
    )


class Labels:
    """Where the judge looks for whom an image is meant to show."""

    now = LABELS


def judge(share=0.9, trials=50):
    def logits(images):
        right = images[:, 0, 0, 0] > 0
        wanted = torch.where(right, Labels.now, (Labels.now + 1) % len(NAMES))
        return torch.nn.functional.one_hot(wanted, len(NAMES)).float()

    return Judge(metric="embedder_acc1", names=NAMES, sensitivity=Rate(share=share, trials=trials), logits=logits)


@pytest.fixture(scope="module")
def audit():
    return read_audit([[reconstructions(name, at) for at in range(3)] for name in SHARES], judge(), 0.77)


def by_hand(name):
    return np.array(SHARES[name]) / EACH


def test_attacks_stand_strongest_first_and_controls_after_them(audit):
    assert list(audit.attacks["attack"].str.split().str[0]) == ["ppa", "ppa", "selection_only", "random_latents"]
    assert list(audit.attacks["control"]) == [False, False, False, True]
    means = [by_hand(name).mean() for name in ("strong", "weak", "chosen", "drawn")]
    assert list(audit.attacks["leak"]) == pytest.approx(means)
    assert list(audit.attacks["access"]) == ["gradients", "gradients", "scores", "none"]
    assert list(audit.attacks["seeds"]) == [3] * 4
    assert list(audit.attacks["queries"]) == [20.0] * 4 and list(audit.attacks["seconds"]) == [2.0] * 4


def test_intervals_and_the_leak_without_the_judges_error_are_of_its_own_attack(audit):
    order = np.argsort(CLASSES)
    for row, name in zip(audit.attacks.itertuples(), ("strong", "weak", "chosen", "drawn"), strict=True):
        shares = by_hand(name)[:, order]
        found = rate_interval(shares, images=shares.size * EACH)
        assert (row.low, row.high) == pytest.approx((found.low, found.high))


def test_people_are_those_of_the_strongest_attack_most_exposed_first(audit):
    shares = dict(zip(CLASSES, by_hand("strong").mean(axis=0), strict=True))
    found = exposures(by_hand("strong"), np.full(len(CLASSES), EACH))
    rates = dict(zip(CLASSES, found.rate, strict=True))
    order = sorted(CLASSES, key=lambda one: -rates[one])
    assert list(audit.people["rate"]) == pytest.approx(sorted(found.rate, reverse=True))
    assert list(audit.people["high"]) == pytest.approx([dict(zip(CLASSES, found.high, strict=True))[o] for o in order])
    assert list(audit.people["class"]) == order and list(audit.people["name"]) == [NAMES[one] for one in order]
    assert list(audit.people["share"]) == pytest.approx([shares[one] for one in order])
    assert (
        audit.reconstructions.seed == SEEDS[0]
        and audit.reconstructions.inverted.scores is not None
        and audit.seeds == SEEDS
    )


def test_beyond_is_the_strongest_attack_minus_the_best_control(audit):
    assert audit.beyond.difference == pytest.approx(by_hand("strong").mean() - by_hand("drawn").mean())
    order = np.argsort(CLASSES)
    of_each = {"classes": tuple(sorted(CLASSES)), "images": np.full(len(CLASSES), EACH)}
    tallies = [Tally(shares=by_hand(name)[:, order], **of_each) for name in ("strong", "drawn")]
    assert audit.beyond == tallies[0].beyond(tallies[1], among=3)
    assert audit.beyond != tallies[0].beyond(tallies[1], among=1), "two attacks were tried"
    assert (audit.judge, audit.real, audit.test_acc) == ("embedder_acc1", 0.9, 0.77)


def test_one_run_is_an_audit_whose_differences_cannot_be_told():
    found = read_audit([[reconstructions(name, 1)] for name in SHARES], judge(), 0.5)
    assert list(found.attacks["seeds"]) == [1] * 4
    assert list(found.attacks["leak"]) == pytest.approx(
        [np.mean(SHARES[name][1]) / EACH for name in ("strong", "weak", "chosen", "drawn")]
    )
    assert found.beyond.verdict == "inconclusive" and found.seeds == (SEEDS[1],)


def test_a_verdict_names_whom_the_judge_sees_and_refuses_strangers(audit):
    found = verdict_of(reconstructions("strong", 0), judge())
    assert found.leak == pytest.approx(9 / 16) and found.real == 0.9
    frame = found.images
    assert list(frame["class"]) == LABELS.tolist() and list(frame["name"]) == [NAMES[at] for at in LABELS.tolist()]
    assert list(frame["rank"]) == [0, 1, 2, 3] * 4
    assert list(frame["hit"]) == list(frame["predicted"] == frame["class"])
    shares = dict(zip(CLASSES, by_hand("strong")[0], strict=True))
    order = sorted(CLASSES, key=lambda one: (-shares[one], one))
    assert list(found.people["class"]) == order and list(found.people["share"]) == [shares[one] for one in order]
    assert list(found.people["name"]) == [NAMES[one] for one in order]
    few = Judge(metric="m", names=NAMES[:7], sensitivity=Rate(share=1, trials=1), logits=judge().logits)
    with pytest.raises(InputError, match="judge: expected classes below 7, which it knows, got 7"):
        verdict_of(reconstructions("strong", 0), few)


def test_reconstructions_are_sorted_by_class_and_rank_and_only_of_those_attacked():
    one = reconstructions("strong", 1)
    assert list(one.table["class"]) == LABELS.tolist() and list(one.table["rank"]) == [0, 1, 2, 3] * 4
    assert list(one.table["score"]) == pytest.approx((np.arange(16) / 16).tolist())
    assert reconstructions("weak", 1).table["score"].isna().all()
    assert one.images(4).shape == (4, 2, 2, 3) and len(one.pictures(4)) == 4
    assert (one.images(0)[:, 0, 0, 0] > 0).tolist() == [True, True, False, False]
    with pytest.raises(InputError, match="class: expected one that was attacked, got 1"):
        one.images(1)
