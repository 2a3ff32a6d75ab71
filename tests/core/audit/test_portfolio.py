"""Which attacks an audit tries, whom it attacks, and who judges: against lists written by hand."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smoothsweep.core.attacks.registry import make_attack
from smoothsweep.core.audit.portfolio import (
    AUGMENTATION,
    EVALUATOR_TRAINING,
    evaluator_of,
    portfolio,
    spread_classes,
)
from smoothsweep.core.declared import build
from smoothsweep.core.models.recipe import TrainingRecipe

PPA, CE, LOGIT = ("ppa", None), ("ppa", "cross_entropy"), ("ppa", "logit")
CMA, RLB, BREP, SELECTION, RANDOM = (
    ("cma_es", None),
    ("rlb_mi", None),
    ("brep_mi", None),
    ("selection_only", None),
    ("random_latents", None),
)
TRIED = {  # access, whole, adapted
    ("gradients", False, False): [PPA, CE, CMA, SELECTION, RANDOM],
    ("gradients", False, True): [PPA, CE, LOGIT, CMA, SELECTION, RANDOM],
    ("gradients", True, False): [PPA, CE, LOGIT, CMA, RLB, BREP, SELECTION, RANDOM],
    ("scores", False, False): [CMA, SELECTION, RANDOM],
    ("scores", False, True): [CMA, SELECTION, RANDOM],
    ("scores", True, True): [CMA, RLB, BREP, SELECTION, RANDOM],
    ("labels", False, False): [BREP, RANDOM],
    ("labels", True, True): [BREP, RANDOM],
}


@pytest.mark.parametrize(("access", "whole", "adapted"), TRIED)
def test_what_is_tried_in_which_order(access, whole, adapted):
    found = portfolio(access, whole=whole, adapted=adapted)
    assert [(one["kind"], one.get("loss")) for one in found] == TRIED[access, whole, adapted]


def test_all_settings_are_ones_that_the_attacks_take():
    for settings in portfolio("gradients", whole=True):
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
