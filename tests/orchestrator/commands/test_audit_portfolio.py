"""Which attacks an audit tries, whom it attacks, who judges, what is trained: against lists written by hand."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smoothsweep.core.attacks.registry import make_attack
from smoothsweep.core.declared import build
from smoothsweep.core.defenses.labels import recipe_words
from smoothsweep.core.models.recipe import TrainingRecipe
from smoothsweep.orchestrator.commands.audit.sweep_file import (
    AUGMENTATION,
    EVALUATOR_TRAINING,
    FIXES,
    audit_trainings,
    evaluator_of,
    portfolio,
    spread_classes,
)

PPA, CE, LOGIT = ("ppa", None), ("ppa", "cross_entropy"), ("ppa", "logit")
CMA, RLB, BREP, SELECTION, RANDOM = (
    ("cma_es", None),
    ("rlb_mi", None),
    ("brep_mi", None),
    ("selection_only", None),
    ("random_latents", None),
)
TRIED = {
    ("gradients", "quick"): [PPA, CE, CMA, SELECTION, RANDOM],
    ("gradients", "adapted"): [PPA, CE, LOGIT, CMA, SELECTION, RANDOM],
    ("gradients", "whole"): [PPA, CE, LOGIT, CMA, RLB, BREP, SELECTION, RANDOM],
    ("scores", "quick"): [CMA, SELECTION, RANDOM],
    ("scores", "adapted"): [CMA, SELECTION, RANDOM],
    ("scores", "whole"): [CMA, RLB, BREP, SELECTION, RANDOM],
    ("labels", "quick"): [BREP, RANDOM],
    ("labels", "whole"): [BREP, RANDOM],
}


@pytest.mark.parametrize(("access", "reach"), TRIED)
def test_what_is_tried_in_which_order(access, reach):
    found = portfolio(access, reach)
    assert [(one["kind"], one.get("loss")) for one in found] == TRIED[access, reach]


def test_all_settings_are_ones_that_the_attacks_take():
    for settings in portfolio("gradients", "whole"):
        make_attack(settings["kind"], **{name: value for name, value in settings.items() if name != "kind"})
    settings = {"architecture": "vgg_small", "image_size": 32, **EVALUATOR_TRAINING}
    recipe = build(TrainingRecipe, settings, what="x", prefix="x ")
    assert recipe.epochs == 60 and EVALUATOR_TRAINING["augmentation"] is AUGMENTATION


@given(st.integers(2, 400), st.integers(2, 60))
def test_people_are_spread_over_all_of_them(classes, most):
    found = spread_classes(classes, most)
    assert found == sorted(set(found)) and len(found) == min(classes, most)
    assert found[0] == 0 and found[-1] == classes - 1
    gaps = [b - a for a, b in pairwise(found)]
    assert not gaps or max(gaps) - min(gaps) <= 1


@pytest.mark.parametrize(
    ("given_", "judge"),
    [
        ((), "vgg_small"),
        ((None, "resnet18"), "vgg_small"),
        (("vgg_small",), "resnet_small"),
        (("resnet_small", "vgg_small"), "resnet18"),
    ],
)
def test_the_judge_is_no_network_that_it_judges(given_, judge):
    assert evaluator_of(*given_) == judge


def made(**said):
    return audit_trainings("resnet18", **{"image_size": 64, "transform_input": False, "fix": True, **said})


def test_the_first_is_the_reference_and_no_fix_is():
    found = made()
    assert [one.is_reference for one in found] == [True, False, False, False]
    assert found[0].settings["defense"] == {"kind": "label_smoothing", "alpha": 0.0}
    assert [one.settings["defense"] for one in found[1:]] == [dict(fix) for fix in FIXES]
    assert [one.is_reference for one in made(fix=False)] == [True]


def test_labels_are_those_of_the_defenses_and_differ():
    found = made()
    assert [one.label for one in found] == [recipe_words(one.settings["defense"]).label for one in found]
    assert len({one.label for one in found}) == 4


@pytest.mark.parametrize("fix", [True, False])
def test_all_are_trained_alike_but_for_the_defense(fix):
    found = made(fix=fix, epochs=7, image_size=96)
    for one in found:
        settings = dict(one.settings)
        settings.pop("defense")
        augmentation = settings.pop("augmentation")
        assert settings == {
            "architecture": "resnet18",
            "image_size": 96,
            "pretrained": False,
            "epochs": 7,
            "batch_size": 50,
        }
        assert augmentation == found[0].settings["augmentation"] and augmentation
