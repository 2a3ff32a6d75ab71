"""The paper's tables as data, the rows that cells of sweeps find in them, and where settings depart from the paper's:
by name, and by every key there is."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path
from typing import get_args

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from smoothsweep.core.attacks.registry import ATTACKS
from smoothsweep.core.judges.table import JUDGES
from smoothsweep.core.priors.kinds import PRIORS
from smoothsweep.sweeps.base import set_dotted
from smoothsweep.sweeps.expand import expand
from smoothsweep.sweeps.load import load_sweep
from smoothsweep.sweeps.paper_tables import (
    CHANGE,
    TABLES,
    datasets_of,
    departures,
    free_keys,
    matching,
    official,
    paper_rows,
    printed_rows,
    published_settings,
    recipe_axes,
)
from smoothsweep.sweeps.parts import DATA_MODELS, attack_model
from smoothsweep.sweeps.schema import InversionSweep
from tests.core.data.examples import example
from tests.core.priors.examples import example as prior_example

SWEEPS = Path(__file__).resolve().parents[2] / "sweeps"
BASE = {"dataset": "facescrub", "architecture": "resnet152", "samples_per_class": None, "attack": "ppa"}


def numbers(tables=TABLES):
    return [number for table in tables for number in paper_rows(table)]


def test_every_table_is_there_with_all_its_numbers_and_rows():
    printed = Counter(number.table for number in numbers())
    assert [printed[table] for table in TABLES] == [64, 220, 160, 264, 25, 25, 50, 371, 42, 49, 162, 15, 48]
    assert [len(printed_rows(table)) for table in TABLES] == [10, 22, 16, 24, 3, 3, 6, 49, 6, 7, 18, 9, 6]


def test_the_printed_digits_are_kept():
    row = matching(BASE | {"defense": "label_smoothing", "alpha": -0.05}, "2")
    digits = [0.9145, 0.1474, 0.1434, 0.076, 0.3094, 1.2320, 239.02, 59.38, 0.1645, 0.1573]
    assert list(row.numbers)[:3] == ["test_acc", "ece", "attack_acc1"]
    assert [number.value for number in row.numbers.values()] == pytest.approx(digits)
    assert [row.numbers[m].decimals for m in ("test_acc", "attack_acc1_std", "dist_face", "fid")] == [4, 3, 4, 2]
    assert row.numbers["test_acc"].half_unit == pytest.approx(0.00005)


@pytest.mark.parametrize(
    ("axes", "table", "row"),
    [
        ({"defense": "none"}, "2", 4),
        ({"defense": "label_smoothing", "alpha": 0}, "2", 4),
        ({"defense": "label_smoothing", "alpha": -0.2}, "2", None),
        ({"defense": "mid", "beta": 0.005, "alpha": 0.0}, "3", 4),
        ({"defense": "mid", "beta": 0.005, "alpha": -0.05}, "3", None),
        ({"defense": "bido", "lambda_input": 0.05, "lambda_label": 2.5, "alpha": None}, "1", 5),
        ({"defense": "bido", "lambda_input": 0.05, "lambda_label": 0.5, "dataset": "celeba"}, "1", 10),
        ({"defense": "bido", "lambda_input": 0.05, "lambda_label": 0.5}, "1", None),
        ({"defense": "label_smoothing", "alpha": 0.1, "samples_per_class": 40}, "4", 10),
        ({"defense": "label_smoothing", "alpha": 0.1}, "4", None),
        ({"defense": "label_smoothing", "alpha": 0.1, "samples_per_class": 10}, "2", None),
        ({"defense": "label_smoothing", "alpha": -0.05, "variant": "cross_entropy"}, "10", 5),
        ({"defense": "none", "selection_alpha": -0.05}, "7", 3),
        ({"defense": "none", "architecture": "resnet_small"}, "2", None),
    ],
)
def test_recipes_find_their_row(axes, table, row):
    found = matching(BASE | axes, table)
    assert (found and found.first.row) == row


@given(st.sampled_from([n for n in numbers() if not n.metric.endswith(CHANGE)]))
def test_every_printed_row_is_found_by_its_own_axes(number):
    assert matching(number.axes, number.table).numbers[number.metric] == number


def changed(table, cell, **changes):
    settings = expand(load_sweep(SWEEPS / f"table{table}.yaml"))[cell].settings
    raw = settings.model_dump(mode="python")
    return InversionSweep.model_validate(raw | {"attack": raw["attack"] | changes})


SHOWN_AGAIN = {"1": ("13",)}  # table -> those of the same targets: Table 13 asks people about three of Table 1's


def rows_filled(file):
    """(table, row) of every cell."""
    loaded = load_sweep(file)
    for cell in expand(loaded):
        paper, settings = loaded.sweep.paper, cell.settings
        for table in (paper.table, *SHOWN_AGAIN.get(paper.table, ())):
            row = matching(recipe_axes(settings, paper.dataset_of(settings.data), table), table)
            assert row is not None or table != paper.table, (file.name, cell.values)
            if row is not None:
                yield table, row.first.row


def test_no_printed_row_is_without_a_cell_and_no_cell_without_a_row():
    of_files = [list(rows_filled(file)) for file in SWEEPS.glob("table*.yaml")]
    assert all(len(set(pairs)) == len(pairs) for pairs in of_files), "a row has one cell of a sweep"
    filled = {pair for pairs in of_files for pair in pairs}
    printed = {(table, row.first.row) for table in TABLES for row in printed_rows(table)}
    assert len(printed) == 179 and sorted(printed - filled) == [] and filled <= printed


def sweep(**changes):
    fields = {
        "name": "t",
        "seeds": [1],
        "protocol": "paper",
        "data": {"kind": "facescrub", "path": "faces"},
        "prior": {"kind": "folder", "path": "ffhq"},
        "attack": {"pool": {"crop": 800}},
    }
    return InversionSweep.model_validate(fields | changes)


def test_the_schemas_defaults_are_the_papers_settings():
    assert departures(sweep(), "facescrub", "2") == ()
    celeba = departures(sweep(data={"kind": "celeba", "path": "faces"}), "celeba", "2")
    assert celeba == ("attack.pool.size 2000 (paper: 5000)", "attack.steps 50 (paper: 70)")


FILE = SWEEPS / "table8.yaml"


@pytest.fixture(scope="module")
def loaded():
    return load_sweep(FILE)


@pytest.fixture(scope="module")
def cells(loaded):
    return expand(loaded)


def test_each_attack_has_the_papers_number_of_classes_and_one_list_of_them(cells):
    printed = {number.attack: number.classes for number in paper_rows("8")}
    lists = {}
    for cell in cells:
        classes = cell.settings.classes
        lists.setdefault(cell.settings.attack.kind, set()).add(classes)
        assert printed[cell.settings.attack.kind] == (1000 if classes == "all" else len(classes))
    assert all(len(found) == 1 for found in lists.values())
    official = tuple(random.Random(42).sample(range(1000), 100))  # RLB-MI's main.py, lines 65-81
    assert lists["rlb_mi"] == {official} and lists["plg_mi"] == {tuple(range(300))}


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


OF_TABLES = sorted(SWEEPS.glob("table*.yaml"))
KNOWN = {"table8": ("judges.evaluator.pretrained false (paper: true)",)}  # whose weights to begin with are not public


@pytest.mark.parametrize("path", OF_TABLES, ids=lambda path: path.stem)
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
    held = json.loads((SWEEPS / "paper" / "settings.json").read_text(encoding="utf-8"))
    for listed in (held["free"], *held["free_in_table"].values()):
        assert all(reason for reason in listed.values())
        for key in listed:
            stem = key.removesuffix(".*")
            assert stem in known or any(part == stem or part.startswith(f"{stem}.") for part in parts), key
