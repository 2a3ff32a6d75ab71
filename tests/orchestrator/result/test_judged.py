"""A leak beside chance, control, reach and ceiling: the numbers are the table's, and the sentences follow from them."""

import pandas as pd
import pytest
from scipy import stats

from smoothsweep.orchestrator.result.data import Axis, ReportData
from smoothsweep.orchestrator.result.standing import FIRST, standing_lines, standings
from smoothsweep.orchestrator.result.summary import summarise

PEOPLE = 20
CHECKS = {
    "embedder_real_acc": 0.98,
    "verified_far1_real": 0.96,
    "embedder_reach": 0.9,
    "verified_far1_reach": 0.58,
    "reach_images": 50.0,
    "gallery_rank_real": 1.0,
}
ATTACK = {"embedder_acc1": 0.3, "verified_far1": 0.04, "verified_far01": 0.01, "gallery_rank": 90.0}
CONTROL = {"embedder_acc1": 0.06, "verified_far1": 0.0, "verified_far01": 0.0, "gallery_rank": 240.0}


def summary(attack=ATTACK, checks=CHECKS):
    rows = [
        {
            "trial": f"{name}-{seed}",
            "seed": seed,
            "status": "done",
            "attack_settings": name,
            "attack_access": access,
            "attack_control": control,
            "attack_published": True,
            "test_acc": 0.8,
            **values,
            **checks,
        }
        for name, access, control, values in (("ppa", "gradients", False, attack), ("random", "none", True, CONTROL))
        for seed in (1, 2)
    ]
    axes = (Axis(key="attack_settings", role="attack", bare=True),)
    return summarise(ReportData(title="t", results=pd.DataFrame(rows), axes=axes))


def found(**given):
    return {one.metric: one for one in standings(summary(**given), 0, 1, PEOPLE)}


def test_every_judge_stands_beside_chance_control_reach_and_ceiling():
    rows = found()
    assert list(rows) == ["embedder_acc1", "verified_far1", "verified_far01", "gallery_rank"]
    values = {metric: [number.value for number in one.numbers.values()] for metric, one in rows.items()}
    assert values == {
        "embedder_acc1": [0.3, 1 / PEOPLE, 0.06, 0.9, 0.98],
        "verified_far1": [0.04, 0.01, 0.0, 0.58, 0.96],
        "verified_far01": [0.01, 0.001, 0.0, None, None],
        "gallery_rank": [90.0, 251.0, 240.0, None, 1.0],
    }
    assert rows["embedder_acc1"].words == "matched among 20 (independent judge)"
    assert rows["verified_far01"].value_text("reach") == ""
    assert rows["verified_far1"].value_text("chance").startswith("1")


def test_the_reach_has_wilsons_interval_over_its_photographs():
    reach = found()[FIRST].reach
    expected = stats.binomtest(29, 50).proportion_ci(0.95, "wilson")
    assert (reach.low, reach.high) == pytest.approx((expected.low, expected.high))


def test_without_verification_nothing_is_recognised():
    bare = found(attack={"embedder_acc1": 0.3}, checks={"embedder_real_acc": 0.98})
    assert list(bare) == ["embedder_acc1"] and standing_lines(tuple(bare.values())) == ()
