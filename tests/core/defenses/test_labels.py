"""Short names for defenses: the ones people read, one per recipe, in step with the table of defenses."""

from dataclasses import MISSING, fields

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from smoothsweep.core.defenses.labels import PLAIN, recipe_words
from smoothsweep.core.defenses.registry import DEFENSES
from smoothsweep.orchestrator.result.format import ascii_text

LABELS = [
    ({"kind": "bido", "lambda_input": 0.05, "lambda_label": 0.5, "measure": "coco"}, "BiDO 0.05 / 0.5, COCO"),
    (
        {"kind": "label_smoothing", "alpha": -0.05, "schedule": {"kind": "linear", "start": 0.2}},
        "smoothing -0.05, linear start 0.2",
    ),
    (
        {"kind": "label_smoothing", "schedule": {"kind": "piecewise", "points": [[0.5, 0.0], [1.0, -0.1]]}},
        "smoothing -0.1, piecewise points 0.5 0 1 -0.1",
    ),
    ({"kind": "label_smoothing", "alpha": 0.0}, PLAIN),
    ({"kind": "dropout", "p": 0.5, "smoothing": {"alpha": -0.05}}, "dropout 0.5 + smoothing -0.05"),
    ({"kind": "somebody_elses", "a": 1, "b": 2}, "somebody elses, a 1, b 2"),
]


@pytest.mark.parametrize(("defense", "label"), LABELS)
def test_labels_are_the_words_people_use(defense, label):
    assert ascii_text(recipe_words(defense).label).replace("\u2212", "-") == label


def test_the_defaults_of_a_family_go_without_saying():
    told = {kind: defense.family for kind, defense in DEFENSES.items() if defense.family is not None}
    assert len(told) > 15 and len({family.name for family in told.values()}) == len(told)
    for kind, family in told.items():
        defaults = {field.name: field.default for field in fields(DEFENSES[kind])}
        needed = {name: 0.5 for name, default in defaults.items() if default is MISSING}
        assert dict(family.defaults).items() <= defaults.items()
        spelled = needed | {name: value for name, value in defaults.items() if name not in needed}
        assert recipe_words({"kind": kind, **spelled}) == recipe_words({"kind": kind, **needed})


def test_strength_grows_away_from_plain_training():
    def order(**defense):
        return recipe_words(defense).order

    assert order(kind="dropout", p=0.3) < order(kind="dropout", p=0.5)
    assert order(kind="skip_removal", scale=0.9) < order(kind="skip_removal", scale=0.2) < order(kind="skip_removal")
    assert order(kind="at_at", weight=0.01) < order(kind="at_at") < order(kind="at_at", weight=0.1)
    assert order(kind="random_erasing", p=0.5) < order(kind="random_erasing")
    assert order(kind="random_erasing") < order(kind="random_erasing", area=[0.4, 0.6])
    assert order(kind="freeze", layers=["stem"]) is None


SIMPLE = st.one_of(st.none(), st.booleans(), st.integers(-9, 9), st.floats(), st.text(max_size=3))
VALUES = st.one_of(
    SIMPLE,
    st.lists(SIMPLE, max_size=3),
    st.dictionaries(st.sampled_from(["kind", "alpha", "start", "points"]), SIMPLE, max_size=2),
)
OWN = {field.name for kind in DEFENSES.values() for field in fields(kind)}
NAMES = sorted(OWN | {"alpha", "schedule", "smoothing"})


@settings(suppress_health_check=[HealthCheck.too_slow])  # drawing is slow on a busy machine, the words are not
@given(st.sampled_from([*DEFENSES, "other", "none"]), st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=4))
def test_a_card_may_hold_anything(kind, parameters):
    words = recipe_words({"kind": kind, **parameters})
    assert words.label and words.strength and words.mark
