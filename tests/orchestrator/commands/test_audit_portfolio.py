"""What an audit tries, whom it attacks, who judges, what is trained: against lists written by hand; its sweep file."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smoothsweep.orchestrator.commands.audit.request import AuditRequest
from smoothsweep.orchestrator.commands.audit.sweep_file import (
    AUGMENTATION,
    FIXES,
    PLAIN,
    audit_trainings,
    label_of,
    portfolio,
    spread_classes,
)
from smoothsweep.orchestrator.planning.trial import trials_of
from smoothsweep.orchestrator.result.rows import sweep_axes
from smoothsweep.sweeps.imported import ImportedClassifier
from smoothsweep.sweeps.load import load_sweep
from tests.foreign_classifier import SIDE
from tests.orchestrator.commands.owned_model import RENDERED, sweep_of

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


@given(st.integers(2, 400), st.integers(2, 60))
def test_people_are_spread_over_all_of_them(classes, most):
    found = spread_classes(classes, most)
    assert found == sorted(set(found)) and len(found) == min(classes, most)
    assert found[0] == 0 and found[-1] == classes - 1
    gaps = [b - a for a, b in pairwise(found)]
    assert not gaps or max(gaps) - min(gaps) <= 1


@pytest.mark.parametrize("fix", [True, False])
def test_what_is_trained_beside_the_model_is_the_reference_and_then_the_fixes_alike_but_for_the_defense(imported, fix):
    card = ImportedClassifier(imported=str(imported)).checked
    found = audit_trainings(AuditRequest(reference="resnet34", fix=fix, epochs=7), card)
    assert [one.pop("defense") for one in found] == [PLAIN, *map(dict, FIXES if fix else ())]
    known = {"architecture": "resnet34", "image_size": SIDE, "pretrained": False, "epochs": 7, "batch_size": 50}
    assert all(one == {**known, "augmentation": AUGMENTATION} for one in found)
    assert len({label_of({"defense": fix}) for fix in (PLAIN, *FIXES)}) == 4
    assert audit_trainings(AuditRequest(), card) == ()
    [own, *_] = audit_trainings(AuditRequest(fix=True), card)
    assert (own["architecture"], own["epochs"]) == ("resnet18", 40)


# The sweep file


@pytest.mark.parametrize(
    ("independent", "reach", "judges"),
    [
        ({}, "quick", {"evaluator"}),
        (RENDERED, "quick", {"embedder"}),
        (RENDERED, "adapted", {"embedder"}),
        (RENDERED, "whole", {"embedder", "evaluator"}),
        ({"general": {}}, "quick", {"general"}),
    ],
)
def test_an_evaluator_is_trained_where_nobody_else_judges_and_with_all_attacks(
    imported, owned, tmp_path, independent, reach, judges
):
    """The first answer of an independent judge does not wait for a training that it does not need, and of rendered
    faces no public images of the user."""
    given = {"public": None} if independent is RENDERED else {}
    sweep = load_sweep(sweep_of(imported, owned, tmp_path, independent=independent, reach=reach, **given)).sweep
    found = {name for name in ("embedder", "general", "evaluator") if getattr(sweep.judges, name) is not None}
    assert found == judges and sweep.classes == (0, 2, 5)
    assert (sweep.public.kind == "synthetic") == (independent is RENDERED) and sweep.public.size == sweep.data.size


def test_what_is_trained_beside_the_model_are_trials_of_the_same_sweep(imported, owned, tmp_path):
    """Its file is one that `run` takes; the reference is its baseline, and everybody meets the same attacks."""
    trainings = audit_trainings(AuditRequest(fix=True), ImportedClassifier(imported=str(imported)).checked)
    loaded = load_sweep(sweep_of(imported, owned, tmp_path, reach="adapted", trainings=trainings))
    trials = trials_of(loaded)
    recipes = [trial.settings.recipe for trial in trials]
    assert [getattr(recipe, "imported", None) is not None for recipe in recipes].count(True) == len(trials) // 5
    plain = [t for t in trials if t.cell.is_baseline]
    assert {t.settings.recipe.defense.final_alpha for t in plain} == {0.0} and len(plain) == len(trials) // 5
    attacks = {}
    for trial in trials:
        attacks.setdefault(trial.cell.axes["recipe_settings"], []).append(trial.cell.axes["attack_settings"])
    assert len({tuple(each) for each in attacks.values()}) == 1 and len(attacks) == 5
    axis = sweep_axes(loaded, trials)[0]
    names = list(dict.fromkeys(axis.values[t.cell.axes[axis.key]] for t in trials))
    assert names == ["imported model", *map(label_of, trainings)]
    assert axis.bare and axis.defense
