"""Every key of a sweep file that is mistyped is answered with the right one, wherever it stands."""

import copy

import pytest
import yaml

from smoothsweep.core.errors import InputError
from smoothsweep.sweeps.load import load_sweep
from smoothsweep.sweeps.loaded import check
from tests.tiny import tiny_sweep, write_tiny

FREE = ("grid", "baseline")  # their keys are dotted ones


def places(tree, before=()):
    """Where every key of the settings stands."""
    for key, value in tree.items():
        if key not in FREE or before:
            yield (*before, key)
        if isinstance(value, dict) and (key not in FREE or before):
            yield from places(value, (*before, key))


SETTINGS = tiny_sweep(
    resources={"classes_per_task": 2},
    min_test_acc=0.5,
    accuracy_margin=0.02,
    reaudit={"seeds": [9], "recipes": 2},
    recipe={**tiny_sweep()["recipe"], "defense": {"alpha": 0.1, "schedule": {"kind": "ramp", "start": 0.2}}},
)


@pytest.mark.parametrize("place", [pytest.param(place, id=".".join(place)) for place in places(SETTINGS)])
def test_a_key_with_a_letter_too_many_is_told_which_one_was_meant(place):
    settings = copy.deepcopy(SETTINGS)
    node = settings
    for part in place[:-1]:
        node = node[part]
    node[f"{place[-1]}x"] = node[place[-1]]  # beside the right one, so that nothing else is wrong
    with pytest.raises(InputError) as refused:
        check(settings, "file")
    assert f"did you mean {place[-1]!r}?" in str(refused.value)


@pytest.mark.parametrize(
    ("override", "meant"),
    [
        ("attack.kind=pppa", "ppa"),
        ("recipe.defense.kind=dropuot", "dropout"),
        ("data.kind=sinthetic", "synthetic"),
        ("prior.kind=eigenface", "eigenfaces"),
        ("protocol=papr", "paper"),
        ("judges.embedder.name=facenett", "facenet"),
        ("recipe.optimizer=adm", "adam"),
        ("public.kind=unlabeled", "unlabelled"),
    ],
)
def test_a_mistyped_kind_is_told_which_one_was_meant(tmp_path, override, meant):
    path = write_tiny(tmp_path, grid={"recipe.epochs": [1, 2]}, baseline={})
    with pytest.raises(InputError) as refused:
        load_sweep(path, [override])
    assert f"did you mean {meant!r}?" in str(refused.value)


def test_keys_of_another_kind_are_not_proposed(tmp_path):
    """`train_per_class` belongs to drawn people; a labelled set has no such key, nor one that is close."""
    path = write_tiny(tmp_path)
    raw = yaml.safe_load(path.read_text())
    raw["data"] = {"kind": "labelled", "path": "faces.parquet", "train_per_clas": 3}
    with pytest.raises(InputError) as refused:
        check(raw, "file")
    said = str(refused.value)
    assert "data.train_per_clas: expected a known key, got " in said and "'train_per_class'" not in said


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("recipe.epoch", "expected a known key, got the unknown key 'epoch'; did you mean 'epochs'?"),
        ("attack.pool.zzz", "expected one of the keys crop, seed, size, truncation_cutoff, truncation_psi, got the "),
    ],
)
def test_an_unknown_key_is_told_the_near_one_or_all_that_there_are(tmp_path, key, words):
    with pytest.raises(InputError) as refused:
        load_sweep(write_tiny(tmp_path), [f"{key}=3"])
    assert f"{key}: {words}" in str(refused.value) and "got 3" not in str(refused.value)
