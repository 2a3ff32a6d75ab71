"""Sweeps that invert nothing: what they may say, and that Tables 11 and 12 are printed row by row."""

from pathlib import Path

import pytest

from smoothsweep.core.errors import InputError
from smoothsweep.orchestrator.planning.trial import Trial
from smoothsweep.sweeps.expand import expand
from smoothsweep.sweeps.load import load_sweep
from smoothsweep.sweeps.loaded import LoadedSweep, check
from smoothsweep.sweeps.paper_settings import departures

SWEEPS = Path(__file__).resolve().parents[2] / "sweeps"
BADNETS = {"kind": "badnets"}


def raw(**changes):
    given = {
        "name": "t",
        "seeds": [1],
        "data": {"kind": "synthetic", "identities": 4},
        "attack": None,
        "recipe": {"architecture": "resnet_small", "pretrained": False, "image_size": 32, "batch_size": 16},
    }
    return {**given, **changes}


def poisoned(**poison):
    return raw(recipe={**raw()["recipe"], "poison": {**BADNETS, **poison}})


@pytest.mark.parametrize(
    ("table", "change", "said"),
    [
        ("11", "judges.robustness.eps=0.1", "judges.robustness.eps 0.1 (paper: 0.0313"),
        ("11", "judges.robustness.steps=20", "judges.robustness.steps 20 (paper: 10)"),
        ("11", "judges.robustness.images=100", "judges.robustness.images 100 (paper: "),
        ("12", "grid={recipe.poison: [{kind: badnets, size: 5}]}", "recipe.poison.size 5 (paper: 9)"),
        ("12", "grid={recipe.poison: [{kind: blended, share: 0.2}]}", "recipe.poison.share 0.2 (paper: 0.1)"),
    ],
)
def test_another_attack_or_trigger_is_a_departure(table, change, said):
    beside = ["baseline={}"] if table == "12" else []
    loaded = load_sweep(SWEEPS / f"table{table}.yaml", [change, *beside])
    settings = expand(loaded)[0].settings
    (line,) = departures(settings, loaded.sweep.paper.dataset_of(settings.data), table)
    assert line.startswith(said)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (raw(prior={"kind": "shipped"}), "attack: expected one beside prior, got null, which inverts nothing"),
        (raw(judges={"embedder": {"name": "synthetic"}}), "attack: expected one beside judges.embedder, got null"),
        (raw(classes=[1]), "attack: expected one beside classes, got null"),
        (raw(min_test_acc=0.5), "attack: expected one beside min_test_acc, got null"),
        (poisoned(size=33), "recipe: poison.size: expected at most the image's 32 pixels, got 33"),
        (poisoned(target=4), "recipe.poison.target: expected a class below 4, got 4"),
        (poisoned(strength=0.1), "recipe.poison: strength: expected only with kind: blended, got kind: badnets"),
        (
            raw(recipe={**raw()["recipe"], "workers": 2, "poison": BADNETS}),
            "recipe: workers: expected 1 with poison, got 2",
        ),
    ],
)
def test_what_cannot_take_effect_is_refused_in_one_line(given, said):
    with pytest.raises(InputError) as error:
        check(given, "s.yaml")
    assert str(error.value).startswith(f"s.yaml: {said}") and "\n" not in str(error.value)


def test_imagenette_has_ten_classes_whether_the_file_says_so_or_not():
    with pytest.raises(InputError, match=r"recipe\.poison\.target: expected a class below 10, got 10"):
        load_sweep(SWEEPS / "table12.yaml", ["recipe.poison={kind: badnets, target: 10}", "grid={}", "baseline={}"])


def test_a_clean_target_is_shared_with_sweeps_that_know_of_no_poison():
    """The key's being there changes no fingerprint of what was trained before."""
    clean, planted = (Trial(cell=expand_one(given), seed=1) for given in (raw(), poisoned()))
    other = Trial(cell=expand_one(poisoned(seed=1)), seed=1)
    targets = [next(s for s in trial.stages if s.name == "target") for trial in (clean, planted, other)]
    assert "poison" not in targets[0].config and "poison" not in targets[1].config
    assert len({target.fingerprint for target in targets}) == 3


def expand_one(given):
    return expand(LoadedSweep(sweep=check(given, "s"), raw=given, intro="", source="s"))[0]
