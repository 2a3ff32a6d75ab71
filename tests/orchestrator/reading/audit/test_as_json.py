"""audit.json value by value: three recipes, two attacks and a control, numbers that are all different."""

import json

import numpy as np
import pytest

from smoothsweep.core.metrics.hiding import HidingVerdict
from smoothsweep.core.metrics.reduction import Bounded
from smoothsweep.orchestrator.reading.audit.as_json import audit_json
from smoothsweep.orchestrator.reading.audit.result import Audit, Person, Reached, Trained
from smoothsweep.orchestrator.reading.numbers.estimates import NOTHING, Comparison


def reached(number, attack="ppa", control=False, access="gradients", queries=100.0, known=True):
    low, high = (number / 100, number / 10) if known else (np.nan, np.nan)
    return Reached(attack=attack, access=access, control=control, leak=number / 50, low=low, high=high, seeds=number,
                   queries=queries, seconds=number * 2.0, row=number)  # fmt: skip


def gap(number, verdict="lower"):
    return Comparison(difference=-number / 10, low=-number / 5, high=-number / 50, n=3, verdict=verdict, p=0.01)


def bounded(value):
    return Bounded(value=value, low=value - 0.05, high=value + 0.05, p=0.2)


HIDING = HidingVerdict(
    word="hides", claimed=0.4, removed=bounded(0.11), hidden=bounded(0.29), strongest="rlb", strongest_baseline="ppa",
    published="ppa", published_baseline="ppa", seeds_needed=None,
)  # fmt: skip


@pytest.fixture
def found():
    attacks = (reached(40), reached(30, "brep", access="labels", queries=None, known=False),
               reached(5, "random", True, "none"), reached(4, "chosen", True, "scores"))  # fmt: skip
    beside = (
        Trained(recipe="mine", role="model", test_acc=0.9, reached=reached(40), leak=gap(1), accuracy=gap(2, "")),
        Trained(recipe="plain", role="reference", test_acc=0.8, reached=reached(41), training_s=3.0, attacking_s=4.0,
                planned_s=5.0),
        Trained(recipe="alpha -0.2", role="fix", test_acc=0.7, reached=reached(42, known=False), leak=gap(3),
                accuracy=gap(4, "cannot tell"), training_s=6.0, attacking_s=7.0, planned_s=8.0, hiding=HIDING),
    )  # fmt: skip
    people = (Person(name="Zoe", label=7, share=0.75), Person(name="Ann", label=3, share=0.5))
    audit = Audit(judge="embedder_acc1", ceiling=0.95, reached=attacks, beyond=gap(5, "higher"), people=people,
                  test_acc=0.91, chance=0.05, classes=20, beside=beside, architecture="resnet18",
                  epochs=40)  # fmt: skip
    return json.loads(json.dumps(audit_json(audit, {"name": "m"})))


def attack_json(number, attack, access, control, queries, known=True):
    low, high = (number / 100, number / 10) if known else (None, None)
    return {"attack": attack, "access": access, "control": control, "leak": number / 50, "low": low, "high": high,
            "seeds": number, "queries_per_person": queries, "device_seconds_per_person": number * 2.0}  # fmt: skip


def gap_json(number, verdict):
    return {"difference": -number / 10, "low": -number / 5, "high": -number / 50, "verdict": verdict}


def test_every_attack_and_control_as_they_were_found(found):
    assert found["attacks"] == [
        attack_json(40, "ppa", "gradients", False, 100.0), attack_json(30, "brep", "labels", False, None, known=False),
        attack_json(5, "random", "none", True, 100.0), attack_json(4, "chosen", "scores", True, 100.0),
    ]  # fmt: skip
    assert found["by_access"] == {"labels": "brep", "gradients": "ppa"}
    assert found["beyond_control"] == gap_json(5, "higher")
    assert found["people"] == [{"person": "Zoe", "label": 7, "share": 0.75}, {"person": "Ann", "label": 3,
    "share": 0.5}]
    assert {key: found[key] for key in ("test_acc", "classes", "chance", "judge", "model", "version")} == {
        "test_acc": 0.91, "classes": 20, "chance": 0.05, "model": {"name": "m"}, "version": 1,
        "judge": {"metric": "embedder_acc1", "real_photographs": 0.95},
    }  # fmt: skip


NO_GAP = dict.fromkeys(("difference", "low", "high", "verdict"))


def test_everything_that_was_trained_beside_as_it_was_found(found):
    nothing = dict.fromkeys(("recipe", "architecture", "epochs"))
    trained = {"architecture": "resnet18", "epochs": 40}
    common = {"attack": "ppa", "leak": 0.8, "low": 0.4, "high": 4.0, "seeds": 40}
    assert found["beside"] == [
        {"role": "model", **nothing, "test_acc": 0.9, **common, "leak_beside_reference": gap_json(1, "lower"),
         "test_acc_beside_reference": gap_json(2, None), "removed_or_hidden": None,
         "device_seconds": {"planned": None, "training": None, "attacking": None}},
        {"role": "reference", "recipe": "plain", **trained, "test_acc": 0.8, **common, "leak": 0.82, "low": 0.41,
         "high": 4.1, "seeds": 41, "leak_beside_reference": NO_GAP, "test_acc_beside_reference": NO_GAP,
         "removed_or_hidden": None, "device_seconds": {"planned": 5.0, "training": 3.0, "attacking": 4.0}},
        {"role": "fix", "recipe": "alpha -0.2", **trained, "test_acc": 0.7, **common, "leak": 0.84, "low": None,
         "high": None, "seeds": 42, "leak_beside_reference": gap_json(3, "lower"),
         "test_acc_beside_reference": gap_json(4, "cannot tell"),
         "removed_or_hidden": {"verdict": "hides", "removed": 0.11, "removed_low": pytest.approx(0.06),
                               "removed_high": pytest.approx(0.16)},
         "device_seconds": {"planned": 8.0, "training": 6.0, "attacking": 7.0}},
    ]  # fmt: skip


def test_zero_has_no_sign_and_what_is_not_known_is_null():
    zero = Comparison(difference=-0.0, low=-0.0, high=0.0, n=2, verdict="cannot tell")
    audit = Audit(judge="embedder_acc1", ceiling=None, reached=(reached(1),), beyond=zero, people=(), test_acc=0.9,
                  chance=0.5, classes=2)  # fmt: skip
    assert json.dumps(audit_json(audit, {})["beyond_control"]) == json.dumps(
        {"difference": 0.0, "low": 0.0, "high": 0.0, "verdict": "cannot tell"}
    )
    assert NOTHING.verdict == "" and audit_json(audit, {})["judge"]["real_photographs"] is None
