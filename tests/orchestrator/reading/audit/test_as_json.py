"""audit.json value by value: three recipes, two attacks and a control, numbers that are all different."""

import json

import numpy as np
import pytest

from smoothsweep.core.metrics.hiding import HiddenLeak
from smoothsweep.core.metrics.leak_comparisons import LeakComparison
from smoothsweep.core.metrics.needed import Needed
from smoothsweep.core.metrics.reduction import Bounded
from smoothsweep.orchestrator.reading.audit.as_json import audit_json
from smoothsweep.orchestrator.reading.audit.result import Audit, Person, Reached, Trained
from smoothsweep.orchestrator.reading.numbers.estimates import NOTHING, Comparison


def reached(number, attack="ppa", control=False, access="gradients", queries=100.0, known=True):
    low, high = (number / 100, number / 10) if known else (np.nan, np.nan)
    return Reached(
        attack=attack,
        access=access,
        control=control,
        leak=number / 50,
        low=low,
        high=high,
        seeds=number,
        queries=queries,
        seconds=number * 2.0,
        row=number,
    )


def gap(number, verdict="lower"):
    return Comparison(difference=-number / 10, low=-number / 5, high=-number / 50, n=3, verdict=verdict, p=0.01)


def reduction(number, word="reduces", **changes):
    given = {
        "word": word,
        "reduction": number / 10,
        "low": number / 50,
        "high": number / 5,
        "p": 0.01,
        "comparisons": number + 5,
        "attack": "rlb",
        "attack_reference": "ppa",
        "seeds": number + 2,
        "classes": 20,
    }
    return LeakComparison(**given | changes)


HIDDEN = HiddenLeak(
    claimed=0.4, part=Bounded(value=0.29, low=0.24, high=0.34, p=0.2), published="ppa", published_baseline="ppa"
)


def person(name, label, share):
    return Person(
        key=str(label),
        name=name,
        label=label,
        share=share,
        rate=share + 0.01,
        low=share - 0.1,
        high=share + 0.1,
        among_top=share / 2,
    )


@pytest.fixture
def found():
    attacks = (
        reached(40),
        reached(30, "brep", access="labels", queries=None, known=False),
        reached(5, "random", True, "none"),
        reached(4, "chosen", True, "scores"),
    )
    beside = (
        Trained(recipe="mine", role="model", test_acc=0.9, reached=reached(40), leak=reduction(1), accuracy=gap(2, "")),
        Trained(
            recipe="plain",
            role="reference",
            test_acc=0.8,
            reached=reached(41),
            training_s=3.0,
            attacking_s=4.0,
            planned_s=5.0,
        ),
        Trained(
            recipe="alpha -0.2",
            role="fix",
            test_acc=0.7,
            reached=reached(42, known=False),
            leak=reduction(3, "hides", low=-0.06, hidden=HIDDEN),
            accuracy=gap(4, "inconclusive"),
            training_s=6.0,
            attacking_s=7.0,
            planned_s=8.0,
        ),
        Trained(
            recipe="alpha -0.1",
            role="fix",
            test_acc=0.7,
            reached=reached(42, known=False),
            leak=reduction(6, "inconclusive", low=-0.12, needed=Needed(seeds=9, classes=30, more_classes=True)),
            accuracy=gap(4, "inconclusive"),
            training_s=6.0,
            attacking_s=7.0,
            planned_s=8.0,
        ),
    )
    people = (person("Zoe", 7, 0.75), person("Ann", 3, 0.5))
    audit = Audit(
        judge="embedder_acc1",
        ceiling=0.95,
        reached=attacks,
        beyond=gap(5, "higher"),
        people=people,
        test_acc=0.91,
        chance=0.05,
        names=(),
        classes=20,
        beside=beside,
        architecture="resnet18",
        epochs=40,
    )
    return json.loads(json.dumps(audit_json(audit, {"name": "m"})))


def attack_json(number, attack, access, control, queries, known=True):
    low, high = (number / 100, number / 10) if known else (None, None)
    return {
        "attack": attack,
        "access": access,
        "control": control,
        "leak": number / 50,
        "low": low,
        "high": high,
        "seeds": number,
        "queries_per_person": queries,
        "device_seconds_per_person": number * 2.0,
    }


def gap_json(number, verdict):
    return {"difference": -number / 10, "low": -number / 5, "high": -number / 50, "verdict": verdict}


def test_every_attack_and_control_as_they_were_found(found):
    assert found["attacks"] == [
        attack_json(40, "ppa", "gradients", False, 100.0),
        attack_json(30, "brep", "labels", False, None, known=False),
        attack_json(5, "random", "none", True, 100.0),
        attack_json(4, "chosen", "scores", True, 100.0),
    ]
    assert found["by_access"] == {"labels": "brep", "gradients": "ppa"}
    assert found["beyond_control"] == gap_json(5, "higher")
    assert found["people"] == [
        {
            "person": name,
            "label": label,
            "share": share,
            "rate": share + 0.01,
            "low": share - 0.1,
            "high": share + 0.1,
            "among_five": share / 2,
            "control": None,
            "verified": None,
        }
        for name, label, share in (("Zoe", 7, 0.75), ("Ann", 3, 0.5))
    ]
    assert {key: found[key] for key in ("test_acc", "classes", "chance", "judge", "model", "version")} == {
        "test_acc": 0.91,
        "classes": 20,
        "chance": 0.05,
        "model": {"name": "m"},
        "version": 1,
        "judge": {"metric": "embedder_acc1", "name": None, "real_photographs": 0.95, "can_tell": True},
    }


def reduction_json(number, verdict="reduces", **changes):
    hidden = dict.fromkeys(("hidden", "hidden_low", "hidden_high", "seeds_needed", "classes_needed"))
    given = {
        "verdict": verdict,
        "reduction": number / 10,
        "low": number / 50,
        "high": number / 5,
        "comparisons": number + 5,
        "seeds": number + 2,
        "attack": "rlb",
        "attack_reference": "ppa",
    }
    return given | hidden | changes


NO_GAP = dict.fromkeys(("difference", "low", "high", "verdict"))


def test_everything_that_was_trained_beside_as_it_was_found(found):
    nothing = dict.fromkeys(("recipe", "architecture", "epochs"))
    trained = {"architecture": "resnet18", "epochs": 40}
    common = {"attack": "ppa", "leak": 0.8, "low": 0.4, "high": 4.0, "seeds": 40}
    assert found["beside"] == [
        {
            "role": "model",
            **nothing,
            "test_acc": 0.9,
            **common,
            "reduction": reduction_json(1),
            "test_acc_beside_reference": gap_json(2, None),
            "device_seconds": {"planned": None, "training": None, "attacking": None},
        },
        {
            "role": "reference",
            "recipe": "plain",
            **trained,
            "test_acc": 0.8,
            **common,
            "leak": 0.82,
            "low": 0.41,
            "high": 4.1,
            "seeds": 41,
            "reduction": None,
            "test_acc_beside_reference": NO_GAP,
            "device_seconds": {"planned": 5.0, "training": 3.0, "attacking": 4.0},
        },
        {
            "role": "fix",
            "recipe": "alpha -0.2",
            **trained,
            "test_acc": 0.7,
            **common,
            "leak": 0.84,
            "low": None,
            "high": None,
            "seeds": 42,
            "reduction": reduction_json(3, "hides", low=-0.06, hidden=0.29, hidden_low=0.24, hidden_high=0.34),
            "test_acc_beside_reference": gap_json(4, "inconclusive"),
            "device_seconds": {"planned": 8.0, "training": 6.0, "attacking": 7.0},
        },
        {
            "role": "fix",
            "recipe": "alpha -0.1",
            **trained,
            "test_acc": 0.7,
            **common,
            "leak": 0.84,
            "low": None,
            "high": None,
            "seeds": 42,
            "reduction": reduction_json(6, "inconclusive", low=-0.12, seeds_needed=9, classes_needed=30),
            "test_acc_beside_reference": gap_json(4, "inconclusive"),
            "device_seconds": {"planned": 8.0, "training": 6.0, "attacking": 7.0},
        },
    ]


def test_zero_has_no_sign_and_what_is_not_known_is_null():
    zero = Comparison(difference=-0.0, low=-0.0, high=0.0, n=2, verdict="inconclusive")
    audit = Audit(
        judge="embedder_acc1",
        ceiling=None,
        reached=(reached(1),),
        beyond=zero,
        people=(),
        test_acc=0.9,
        chance=0.5,
        names=(),
        classes=2,
    )
    assert json.dumps(audit_json(audit, {})["beyond_control"]) == json.dumps(
        {"difference": 0.0, "low": 0.0, "high": 0.0, "verdict": "inconclusive"}
    )
    assert NOTHING.verdict == "" and audit_json(audit, {})["judge"]["real_photographs"] is None
