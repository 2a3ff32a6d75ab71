"""The sweep of an audit: attacks by access, its file, what is trained beside the model."""

import pytest

from smoothsweep.core.attacks.registry import ATTACKS
from smoothsweep.core.attacks.shared.base import ACCESS_LEVELS
from smoothsweep.orchestrator.commands.audit.sweep_file import audit_trainings, portfolio
from smoothsweep.orchestrator.planning.trial import trials_of
from smoothsweep.orchestrator.result.axes import sweep_axes
from smoothsweep.sweeps.load import load_sweep
from tests.foreign_classifier import SIDE
from tests.orchestrator.commands.owned_model import RENDERED, sweep_of


@pytest.mark.parametrize("access", ["labels", "scores", "gradients"])
def test_an_attacker_has_the_attacks_of_their_level_and_below_and_always_a_control(access):
    first, every = portfolio(access), portfolio(access, "whole")
    level = ACCESS_LEVELS.index(access)
    for tree in (first, every):
        kinds = [ATTACKS[settings["kind"]] for settings in tree]
        assert any(kind.control for kind in kinds) and not all(kind.control for kind in kinds)
        assert max(ACCESS_LEVELS.index(kind.access) for kind in kinds) == level
    assert all(settings in every for settings in first)


def test_the_written_sweep_file_is_one_that_run_takes(imported, owned, tmp_path):
    file = sweep_of(imported, owned, tmp_path, reach="whole")
    loaded = load_sweep(file)
    assert loaded.sweep.classes == (0, 2, 5) and "&id" not in file.read_text()


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
    """The first answer of an independent judge does not wait for a training that it does not need."""
    found = load_sweep(sweep_of(imported, owned, tmp_path, independent=independent, reach=reach)).sweep.judges
    assert {name for name in ("embedder", "general", "evaluator") if getattr(found, name) is not None} == judges


def test_rendered_faces_need_no_public_images_of_the_user(imported, owned, tmp_path):
    loaded = load_sweep(sweep_of(imported, owned, tmp_path, public=None, independent=RENDERED))
    assert loaded.sweep.public.kind == "synthetic" and loaded.sweep.public.size == loaded.sweep.data.size


def test_what_is_trained_beside_the_model_are_trials_of_the_same_sweep(imported, owned, tmp_path):
    """Its file is one that `run` takes; the reference is its baseline, and everybody meets the same attacks."""
    trainings = audit_trainings("resnet18", image_size=SIDE, transform_input=False, fix=True)
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
    assert names == ["imported model", *(one.label for one in trainings)] and trainings[0].label == "plain training"
    assert axis.bare and axis.defense
