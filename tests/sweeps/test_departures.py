"""Where settings depart from the paper's: by name, and by every key there is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import get_args

import pytest
import yaml
from pydantic import BaseModel

from smoothsweep.core.attacks.registry import ATTACKS
from smoothsweep.core.judges.table import JUDGES
from smoothsweep.core.priors.kinds import PRIORS
from smoothsweep.sweeps.base import set_dotted
from smoothsweep.sweeps.expand import expand
from smoothsweep.sweeps.load import load_sweep
from smoothsweep.sweeps.paper_tables import (
    TABLES,
    datasets_of,
    departures,
    free_keys,
    official,
    paper_rows,
    published_settings,
)
from smoothsweep.sweeps.parts import DATA_MODELS, attack_model
from smoothsweep.sweeps.schema import InversionSweep
from tests.core.data.examples import example
from tests.core.priors.examples import example as prior_example

NEGATIVE = {"kind": "label_smoothing", "alpha": -0.05}


def raw(**changes):
    """The official FaceScrub cell of Table 2 under negative smoothing, as a sweep file would give it; changes by dotted
    key, with __ for the dots."""
    given = {
        "name": "t",
        "protocol": "paper",
        "seeds": [42],
        "data": {"kind": "facescrub", "path": "facescrub"},
        "recipe": {"architecture": "resnet152", "defense": dict(NEGATIVE)},
        "prior": {"kind": "folder", "path": "ffhq"},
        "attack": {"pool": {"crop": 800}},
        "judges": {
            "evaluator": {"architecture": "inception_v3", "lr_milestones": [0.8]},
            "embedder": {"name": "facenet"},
            "fidelity": {},
            "knowledge": {},
        },
    }
    for key, value in changes.items():
        set_dotted(given, key.replace("__", "."), value, where="test")
    return given


def cell(given):
    return InversionSweep.model_validate(given)


def departed(given, table="2"):
    return departures(cell(given), "facescrub", table)


ROOT = Path(__file__).resolve().parents[2]
SWEEPS = sorted((ROOT / "sweeps").glob("table*.yaml"))
KNOWN = {"table8": ("judges.evaluator.pretrained false (paper: true)",)}  # whose weights to begin with are not public


@pytest.mark.parametrize("path", SWEEPS, ids=lambda path: path.stem)
def test_the_shipped_sweeps_are_the_official_settings(path):
    """Two independent writings of the same: the sweep files, and the settings collected from paper and code."""
    loaded = load_sweep(path)
    for one in expand(loaded):
        dataset, table = loaded.sweep.paper.dataset_of(one.settings.data), loaded.sweep.paper.table
        assert departures(one.settings, dataset, table) == KNOWN.get(path.stem, ())


def test_the_official_settings_are_those_of_the_published_code():
    """By hand, from configs/ and train_model.py of LukasStruppek/Plug-and-Play-Attacks at 3087a4f."""
    facescrub, celeba = published_settings("facescrub", "2"), published_settings("celeba", "2")
    apart = ("data.classes", "attack.pool.size", "attack.steps", "judges.evaluator.lr_milestones")
    assert [facescrub[key] for key in apart] == [530, 2000, 50, [0.8]]
    assert [celeba[key] for key in apart] == [1000, 5000, 70, [0.75, 0.9]]
    schedule = official(cell(raw()), "facescrub", "2")["recipe.defense.schedule"]
    assert schedule == {"kind": "reference", "scaled": False}
    mid = official(cell(raw(recipe__defense={"kind": "mid", "beta": 0.005})), "facescrub", "1")
    assert mid["attack.readout"] == "noisy" and mid["recipe.defense.schedule"] == {"kind": "constant"}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (
            {"recipe__defense": NEGATIVE | {"schedule": {"kind": "constant"}}},
            ["recipe.defense.schedule constant (paper: reference scaled false)"],
        ),
        (
            {"protocol": "clean"},
            [
                "protocol clean (paper: paper)",
                "recipe.defense.schedule ramp start 0.5 end 0.75 (paper: reference scaled false)",
            ],
        ),
        ({"recipe__weight_decay": 1e-4}, ["recipe.weight_decay 0.0001 (paper: 0)"]),
        ({"attack__pool__truncation_psi": 0.7}, ["attack.pool.truncation_psi 0.7 (paper: 0.5)"]),
        ({"recipe__precision": "bf16"}, ["recipe.precision bf16 (paper: fp32)"]),
        ({"prior": {"kind": "shipped"}}, ["prior.kind shipped (paper: StyleGAN2 of FFHQ, 1024 pixels)"]),
        ({"judges__evaluator": None, "judges__knowledge": None}, []),
        ({"recipe__betas": [0.9, 0.999], "attack__clip": False, "data__classes": 530}, []),
    ],
)
def test_what_was_silent_is_named(changes, expected):
    assert sorted(departed(raw(**changes))) == sorted(expected)


@pytest.mark.parametrize("part", ["recipe", "judges.evaluator"])
def test_parts_brought_in_are_said_to_be_uncompared(part):
    lines = departures(with_part(cell(raw()), part), "facescrub", "2")
    assert lines == (f"{part} imported (its training is not compared with the paper's)",)


def test_a_stop_rule_is_a_departure_but_in_the_table_that_has_one():
    rule = {"recipe__stop_at_test_acc": {"trial": {"recipe.defense.alpha": 0.0}}}
    assert any("stop_at_test_acc" in line for line in departed(raw(**rule)))
    assert departed(raw(**rule), "9") == departed(raw(), "9") == ()


def test_another_target_of_a_stage_is_a_departure_but_in_the_tables_that_swap_it():
    swapped = {"attack__sampling_target": {"trial": {"recipe.defense.alpha": 0.0}}}
    assert any(line.startswith("attack.sampling_target") for line in departed(raw(**swapped)))
    assert departed(raw(**swapped), "6") == departed(raw(), "6")
    selected = {"attack__selection_target": {"trial": {"recipe.defense.alpha": 0.0}}}
    assert any(line.startswith("attack.selection_target") for line in departed(raw(**selected), "6"))
    assert departed(raw(**selected), "7") == departed(raw(), "7") == ()


def with_part(settings, part):
    """The settings with a classifier brought in at that place, unread."""
    from smoothsweep.sweeps.imported import ImportedClassifier

    brought = ImportedClassifier.model_construct(imported="folder")
    if part == "recipe":
        return settings.model_copy(update={"recipe": brought})
    return settings.model_copy(update={"judges": settings.judges.model_copy(update={"evaluator": brought})})


def models_in(annotation):
    """The settings classes that a field may hold, through unions, annotations and optional parts."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for one in get_args(annotation) for model in models_in(one)]


def leaves_of(model, prefix=""):
    """(dotted key, settings class that holds the field, name) of every field, each class at each place."""
    for name, field in model.model_fields.items():
        annotation = [field.annotation, *field.metadata]
        inner = [found for one in annotation for found in models_in(one)]
        if name == "defense":
            inner = []  # an annotation that hides its classes; its fields have a test of their own
        if name == "attack":
            inner = [attack_model("ppa")]  # the paper's
        for found in inner:
            yield from leaves_of(found, f"{prefix}{name}.")
        if not inner:
            yield f"{prefix}{name}", model.__name__, name


PAPERS_PRIOR = "folder"
VARIANTS = {  # settings class -> what a file holds to have it
    "SyntheticData": {"data": {"kind": "synthetic"}, "attack__candidates": 200},
    "LabelledData": {"data": {"kind": "labelled", "path": "mine"}},
    **{
        name: {
            "prior": {"kind": kind, **changes.get("prior", {})},
            **({"public": {"kind": "synthetic"}} if row.needs_public else {}),
        }
        for kind, row in PRIORS.items()
        if kind != PAPERS_PRIOR
        for name, (changes, *_) in prior_example(kind).SWEPT.items()
    },
    "SyntheticPublic": {"prior": {"kind": "eigenfaces"}, "public": {"kind": "synthetic"}},
    "UnlabelledPublic": {"prior": {"kind": "eigenfaces"}, "public": {"kind": "unlabelled", "path": "p"}},
    "PublishedPublic": {"prior": {"kind": "eigenfaces"}, "public": {"kind": "celeba64", "path": "p"}},
    **{model.__name__: {"data": {"kind": kind, **example(kind).EXAMPLE}} for kind, model in DATA_MODELS.items()},
    "Averaging": {"attack__average": {"views": 4, "noise": 0.05}},
    "Restarts": {"attack__restarts": {"count": 2}},
    "TemperatureScaling": {"attack__loss": "cross_entropy", "attack__temperature": {"mean_confidence": 0.4}},
}
OTHER_KIND = {
    **{model.__name__: "data.kind" for model in DATA_MODELS.values()},
    "SyntheticData": "data.kind",
    "LabelledData": "data.kind",
    **{name: "prior.kind" for kind in PRIORS if kind != PAPERS_PRIOR for name in prior_example(kind).SWEPT},
    "SyntheticPublic": "prior.kind",
    "UnlabelledPublic": "prior.kind",
    "PublishedPublic": "prior.kind",
}
"""Classes of another kind than the paper's: that line is there whatever the rest of the part says."""

TOGETHER = yaml.safe_load(Path(__file__).with_name("departures.yaml").read_text())
"""Key -> another value, and what that needs: where no rule gives one (`another`)."""

LEAVES = sorted(set(leaves_of(InversionSweep)))


def another(value):
    """A value of the same type that is not the one there."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, float):
        return value / 2 if value else 0.25
    if isinstance(value, list):
        return [another(value[0]), *value[1:]]
    raise AssertionError(f"no rule to change {value!r}: name a change in TOGETHER")


@pytest.mark.parametrize(("key", "owner"), [(key, owner) for key, owner, _ in LEAVES])
def test_a_changed_setting_is_a_departure_or_listed_as_free(key, owner):
    """Every field of every settings class. A new one fails here until the official settings state it, or list it as
    free with the reason."""
    if free_keys("2")(key):
        return
    if owner in OTHER_KIND:
        found = departed(raw(**VARIANTS[owner]))
        assert any(line.startswith(f"{OTHER_KIND[owner]} ") for line in found)
        return
    if owner in ("ImportedClassifier", "OtherTrial"):
        return  # below: a part brought in is a departure as a whole; the stop rule is one whatever it names
    if key in ("recipe.defense", "attack.kind"):
        return  # the one has tests of its own, the other knows a single value
    given = raw()
    if key in TOGETHER:
        changed = raw(**TOGETHER[key])
    elif owner in VARIANTS:  # the paper has none of it: every value is one
        changed = raw(**VARIANTS[owner])
    else:
        dumped = cell(given).model_dump(mode="json")
        if key.startswith("judges.") and dumped["judges"][name := key.split(".")[1]] is None:
            changed = raw(**{f"judges__{name}": dict(JUDGES[name].example)})  # the paper has none of this judge
            assert any(line.startswith(f"judges.{name}") for line in departed(changed)), departed(changed)
            return
        for part in key.split("."):
            dumped = dumped[part]
        changed = raw(**{key.replace(".", "__"): another(dumped)})
    assert any(line.startswith(f"{key} ") for line in departed(changed)), departed(changed)


def test_the_list_of_free_settings_names_what_there_is_and_why():
    """A reason for each; no name that no sweep file can hold; nothing both stated and free."""
    known = {key for key, *_ in LEAVES} | {"recipe.stop_at_test_acc", "public"}
    known |= {"attack.sampling_target", "attack.selection_target"}
    known |= {f"attack.{key}" for kind in ATTACKS for key, *_ in leaves_of(attack_model(kind))}
    known |= {
        f"recipe.defense.{name}"
        for name in ("kind", "alpha", "beta", "lambda_input", "lambda_label", "batches", "images_per_class")
    }
    parts = {key.rpartition(".")[0] for key in known} | {key for key in known}
    for table in TABLES:
        free = free_keys(table)
        for dataset in datasets_of(table):
            stated = {}
            for attack in {number.attack for number in paper_rows(table)}:
                stated |= published_settings(dataset, table, attack)
            exact = [key for key in stated if free(key) and table not in ("11", "12")]
            assert not exact, (table, exact)
            assert set(stated) <= known, set(stated) - known
    held = json.loads((ROOT / "sweeps" / "paper" / "settings.json").read_text(encoding="utf-8"))
    for listed in (held["free"], *held["free_in_table"].values()):
        assert all(reason for reason in listed.values())
        for key in listed:
            stem = key.removesuffix(".*")
            assert stem in known or any(part == stem or part.startswith(f"{stem}.") for part in parts), key
