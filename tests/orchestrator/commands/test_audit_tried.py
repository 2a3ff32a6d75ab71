"""What an audit tries, whom it attacks, who judges, how long it takes and what it may ask an endpoint."""

import json
from collections import Counter
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smoothsweep.core.attacks.registry import ATTACKS
from smoothsweep.core.attacks.shared.base import ACCESS_LEVELS
from smoothsweep.core.data.sources import Counted, count_labelled
from smoothsweep.core.errors import InputError
from smoothsweep.core.external.base import Budget
from smoothsweep.core.models.recipe import TrainingRecipe
from smoothsweep.core.models.weight_files import WEIGHT_FILES
from smoothsweep.orchestrator.commands.audit.auditing import (
    FIRST,
    Allowance,
    Work,
    allowance_of,
    chosen,
    forecast,
    steps_of,
    timed_training,
)
from smoothsweep.orchestrator.commands.audit.request import AuditRequest
from smoothsweep.orchestrator.commands.audit.subject import judge_of, judges_of
from smoothsweep.orchestrator.commands.audit.sweep_file import (
    AUGMENTATION,
    FIXES,
    PLAIN,
    audit_trainings,
    label_of,
    portfolio,
    shadow_sweep,
    spread_classes,
)
from smoothsweep.orchestrator.planning.trial import trials_of
from smoothsweep.orchestrator.result.rows import sweep_axes
from smoothsweep.orchestrator.scheduling.execute import execute_with_inputs
from smoothsweep.orchestrator.store.opening import open_store
from smoothsweep.sweeps.imported import ImportedClassifier
from smoothsweep.sweeps.load import load_sweep, read_yaml
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


# Who judges


@pytest.fixture
def weights(tmp_path, monkeypatch):
    """A folder with the files of two embedders, and an empty one where files are staged."""
    monkeypatch.setenv("SMOOTHSWEEP_WEIGHTS", str(tmp_path / "staged"))
    (tmp_path / "staged").mkdir()
    for name in ("mobilefacenet_a", "mobilefacenet_b", "ir50", "swag_vit_b_16"):
        (tmp_path / f"{name}.safetensors").touch()
    return tmp_path


A, B, IR50 = (f"{name}=PLACE/{name}.safetensors" for name in ("mobilefacenet_a", "mobilefacenet_b", "ir50"))
GENERAL = "swag_vit_b_16=PLACE/swag_vit_b_16.safetensors"


def second(place, *options, gallery=None):
    """The second judge of an audit with these options `--judge`."""
    options = [option.replace("PLACE", str(place)) for option in options]
    first, found = judges_of(AuditRequest(judge=options or None, data=None, gallery=gallery))
    assert first == judge_of(options[0] if options else None)
    return found.get("embedder", {}).get("name")


@pytest.mark.parametrize(
    ("options", "found"),
    [((A,), "mobilefacenet_b"), ((B,), "mobilefacenet_a"), ((A, IR50), "ir50"), (("synthetic",), None), ((), None)],
)
def test_the_second_is_the_one_that_is_named_or_whose_weights_lie_beside_the_first_s(weights, options, found):
    assert second(weights, *options) == found and second(weights, GENERAL) is None
    assert second(weights, *options, gallery=weights) == (found if len(options) == 2 else None), "it may be under audit"


def test_a_staged_one_is_taken_where_none_lies_beside(weights):
    for name in ("mobilefacenet_b", "ir50"):
        (weights / f"{name}.safetensors").unlink()
    assert second(weights, A) is None
    (weights / "staged" / WEIGHT_FILES["facenet"].file_name).touch()
    assert second(weights, A) == "facenet"


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ((A, A), "--judge: expected two different embedders, got mobilefacenet_a twice"),
        ((GENERAL, A), "--judge: expected two embedders of faces where it is said"),
        ((A, A, A), "--judge: expected it once or twice, got it 3 times"),
    ],
)
def test_a_wrong_second_is_refused(weights, options, line):
    with pytest.raises(InputError, match=line):
        second(weights, *options)


# Efforts and their time


def test_a_training_is_forecast_from_a_few_of_its_steps(imported, owned, tmp_path):
    """Per epoch and image; what is in the store costs nothing."""
    card, costs = ImportedClassifier(imported=str(imported)).checked, []
    store = open_store(str(tmp_path / "store"))
    store.open_for_writing()
    for epochs in (10, 1000):
        trainings = audit_trainings(AuditRequest(reference="resnet_small", epochs=epochs), card)
        tree = read_yaml(sweep_of(imported, owned, tmp_path, trainings=trainings).read_text(), "audit")
        stages = {
            stage.name: stage for trial in trials_of(load_sweep(tmp_path / "audit.yaml")) for stage in trial.stages
        }
        execute_with_inputs(store, stages["data"])
        costs.append(forecast(tree, store))
    assert 0 < costs[0][0] < costs[1][0] and costs[0][1] == costs[1][1] > 0
    tree["judges"]["membership"] = {"trained_on_data": True}
    few, many = (forecast(shadow_sweep(tree, trainings[0], count), store)[0] for count in (4, 8))
    assert many - few == pytest.approx(few - costs[1][0], rel=0.5) and few > costs[1][0]
    recipe = TrainingRecipe(architecture="resnet_small", epochs=4, batch_size=4, image_size=32)
    seconds = [timed_training(recipe, images=n, classes=2, side=16) for n in (8, 800)]
    assert 0 < seconds[0] < seconds[1]


REFERENCE = ({"architecture": "resnet18", "epochs": 40},)
MINUTES = {"first": 1, "quick": 2, "standard": 4, "full": 8}


@pytest.mark.parametrize(
    ("given", "trainings", "effort"),
    [
        ({"effort": "quick"}, (), "quick"),
        ({"effort": "full"}, (), "full"),
        ({"minutes": 4.9}, (), "quick"),
        ({"minutes": 5}, (), "standard"),
        ({"minutes": 9}, (), "full"),
        ({}, (), "standard"),
        ({"fix": True, "effort": "quick"}, REFERENCE, "quick"),
        ({"fix": True, "minutes": 2}, REFERENCE, "first"),
        ({"seeds": 2, "minutes": 2}, (), "first"),
        ({"reference": "", "minutes": 8}, REFERENCE, "standard"),
        ({"reference": ""}, REFERENCE, "full"),
        ({"fix": True}, REFERENCE, "full"),
    ],
)
def test_after_the_first_answer_an_audit_makes_the_effort_that_was_asked_for_or_the_largest_that_fits(
    given, trainings, effort
):
    """A minute of it is over. Without either, one that fits into 5 minutes, or 20 with a reference."""
    request = AuditRequest(**given)
    steps = steps_of(trainings, seeds=request.seeds)
    found = chosen(steps, request, lambda step: 60 * MINUTES[step.effort], spent=60)
    assert found.effort == effort and found.seeds >= (request.seeds if effort != "first" else 1)
    assert chosen(steps, request, lambda step: 0.0).effort == given.get("effort", "full"), "what is done is shown"
    for before, after in pairwise(steps):
        assert after.seeds >= before.seeds and after.shadows > before.shadows


def work_of(owned, imported, folder, **given):
    model = ImportedClassifier(imported=str(imported))
    known = {"model": model.folder, "data": owned[1], "public": owned[2], "people": 3, "out": folder}
    people = given.pop("counted", None) or count_labelled(owned[1])
    return Work(
        request=AuditRequest(**known | given), model=model.folder, card=model.checked, people=people, started=0.0
    )


@pytest.mark.parametrize(
    ("told", "finished"),
    [
        ({"effort": "standard", "reached": [{"seeds": 3}]}, ("standard", 3)),
        ({"effort": "full", "reached": [{"seeds": 5}, {"seeds": 2}]}, ("full", 5)),
        ({"reached": []}, ("", 1)),
        ([], ("", 1)),
    ],
)
def test_a_later_run_begins_with_all_that_the_pages_show_unless_the_store_is_gone(
    owned, imported, tmp_path, told, finished
):
    (tmp_path / "audit.json").write_text(json.dumps(told))
    work = work_of(owned, imported, tmp_path, effort="quick")
    assert work.earlier() == ("", 1)
    (tmp_path / "store").mkdir()
    assert work.earlier() == finished


@pytest.mark.parametrize(
    ("access", "each", "trained"), [("gradients", 9, True), ("labels", 9, False), ("scores", 1, False)]
)
def test_shadow_models_grow_with_the_effort_and_are_left_out_where_they_say_nothing(
    owned, imported, tmp_path, access, each, trained
):
    """An attacker who sees labels compares no scores; a person with one image leaves no half to train on."""
    pictures = Counter({(label, split): each for label in range(6) for split in ("train", "test")[: 1 + (each > 1)]})
    given = {"counted": Counted(classes=6, pictures=pictures), "reference": "", "trained_on_data": True}
    work = work_of(owned, imported, tmp_path, access=access, **given)
    trees = [work.shadow_tree(step) for step in steps_of(work.trainings)]
    counts = [tree and tree["judges"]["membership"]["shadows"] for tree in trees]
    assert counts == ([None, 4, 8, 16] if trained else [None] * 4)


@pytest.mark.parametrize("access", ["labels", "scores", "gradients"])
def test_an_audit_shows_no_more_than_its_access_and_attacks_so_many_people(owned, imported, tmp_path, access):
    tree = work_of(owned, imported, tmp_path, access=access, people=4).tree(FIRST)
    tried = [ATTACKS[one["kind"]].access for one in tree["grid"]["attack"]]
    assert max(map(ACCESS_LEVELS.index, tried)) == ACCESS_LEVELS.index(access) and len(set(tried)) > 1
    assert tree["classes"] == [0, 2, 3, 5]


# Queries of an endpoint


SHOWN, MEMBERS, OTHERS = 14, 180, 120
"""Pictures for each image: itself, its mirror image, six shifted copies, six under noise; images of three people."""


def kinds(attacks):
    return [one["kind"] for one in attacks]


@pytest.mark.parametrize(
    ("queries", "kept"),
    [
        (None, ["cma_es", "rlb_mi", "brep_mi", "selection_only", "random_latents"]),
        (1099, ["random_latents"]),
        (1100, ["selection_only", "random_latents"]),  # 500 pictures and their mirrors, beside 100 for reading
        (21_099, ["selection_only", "random_latents"]),
        (21_100, ["cma_es", "selection_only", "random_latents"]),  # 1,000 for each of 20 people, from the same pool
        (181_099, ["cma_es", "selection_only", "random_latents"]),
        (181_100, ["cma_es", "rlb_mi", "selection_only", "random_latents"]),  # 8,000 for each
        (10**6, ["cma_es", "rlb_mi", "brep_mi", "selection_only", "random_latents"]),
    ],
)
def test_attacks_that_do_not_fit_are_left_out_and_named_with_what_they_need(queries, kept):
    allowance, every = Allowance(queries=queries, reading=100, per_second=5, people=20), portfolio("scores", "whole")
    assert kinds(allowance.fitting(every)) == kept
    said = allowance.left_out(every)
    assert len(said) == 5 - len(kept) and all(line.startswith("Not tried: ") for line in said)
    assert all(f"at 5 a second; --queries {queries} does not allow it" in line for line in said)
    if "rlb_mi" not in kept:
        assert "RLB-MI, which may ask 160,000 queries for 20 people (8,000 a person)" in " ".join(said)
    assert allowance.covers(allowance.fitting(every), seeds=1)
    assert allowance.covers(every, seeds=9) == (queries is None)


def test_what_attacks_may_ask_is_for_every_seed_anew_and_what_they_share_counts_once():
    allowance, every = Allowance(queries=10**7, reading=100, per_second=5, people=20), portfolio("scores", "whole")
    asked = [1000 * 20 + 1000, 8000 * 20, 406_280, 1000, 0]
    assert [allowance.queries_of([one]) for one in every] == asked
    alone = replace(allowance, people=1)
    assert [alone.queries_of([one]) for one in every[:4]] == [2000, 8000, 30_042, 1000]
    assert allowance.queries_of([{"kind": "ppa"}]) == 0
    together = sum(asked) - 1000  # the pool of the search and of selection is one
    for seeds in (1, 3):
        whole = 100 + seeds * together
        assert [replace(allowance, queries=whole - less).covers(every, seeds=seeds) for less in (0, 1)] == [True, False]
        assert allowance.queries_of(every, seeds=seeds) == seeds * together


def split(root, train, test):
    """People's images in folders train and test; in one folder alone where there are none for testing."""
    for part, count in (("train", train), ("test", test)):
        for person in ("ann", "bob", "cem"):
            folder = root / part / person if test else root / person
            folder.mkdir(parents=True, exist_ok=True)
            for at in range(count):
                (folder / f"{at:03}.png").write_bytes(b"")
    return root


def asking(data, budget, *, access, people=3):
    agreed, known = Budget(queries=budget, per_second=10.0), {"access": access, "scores": access != "labels"}
    return allowance_of(agreed, count_labelled(data), attacked=people, membership=True, **known)


@pytest.mark.parametrize(
    ("access", "budget", "drawn", "fits"),
    [
        # 8 to find out what it gives, the test images twice; of scores 1,000 for selection; then 2 or 0 of each image
        ("scores", 8 + 240 + 1000 + SHOWN * (MEMBERS + OTHERS), None, True),
        ("scores", 8 + 240 + 1000 + SHOWN * (MEMBERS + OTHERS) - 1, MEMBERS - 1, True),
        ("scores", 8 + 240 + 1000 + 2 * (MEMBERS + OTHERS) + 12 * (50 + 50), 50, True),
        ("scores", 8 + 240 + 1000 + 2 * (MEMBERS + OTHERS) + 12 * (20 + 20), 20, True),
        ("scores", 8 + 240 + 1000 + 2 * (MEMBERS + OTHERS) + 12 * (20 + 20) - 1, None, False),
        ("labels", 8 + 240 + 12 * (MEMBERS + OTHERS), None, True),
        ("labels", 8 + 240 + 12 * (30 + 30) + 23, 30, True),
        ("labels", 8 + 240 + 12 * 40 - 1, None, False),
    ],
)
def test_membership_takes_no_more_than_the_budget_leaves(tmp_path, access, budget, drawn, fits):
    found = asking(split(tmp_path, MEMBERS // 3, OTHERS // 3), budget, access=access)
    assert found.reading + found.measuring + found.queries_of(found.fitting(portfolio(access))) <= budget
    if not fits:
        [line] = found.unmeasured
        per = SHOWN if access == "scores" else SHOWN - 2
        assert found.membership is None and found.measuring == 0
        assert f"may ask {per * (MEMBERS + OTHERS):,} queries" in line and f"--queries {budget} does not" in line
        return
    assert found.membership == {"trained_on_data": True, **({"images": drawn} if drawn else {})}
    few = [min(count, drawn or count) for count in (MEMBERS, OTHERS)]
    assert found.measuring == 12 * sum(few) + (2 * (MEMBERS + OTHERS) if access == "scores" else 0)
    assert not found.unmeasured
