"""Every field of every class of the sweep file has an effect: changed, something at its far end changes.

`settings_cases` names for each class a sweep that has it, where it stands there, and another value for each
field, with what it needs beside it. A class or a field that is not in them fails the test; so does a value that is
refused. That a stage's key changes the artifact is the matter of tests/tasks/test_settings_travel.py.
"""

import copy
import json
from dataclasses import asdict
from typing import Any, get_args

import pytest

from smoothsweep.core.attacks.registry import ATTACKS
from smoothsweep.core.judges.table import measured
from smoothsweep.core.priors.settings import MobileStyleGANConfig
from smoothsweep.orchestrator.planning.trial import trials_of
from smoothsweep.sweeps.base import Model, dotted_value, set_dotted
from smoothsweep.sweeps.expand import NOT_OF_A_TRIAL, LoadedSweep, check
from smoothsweep.sweeps.parts import AnyAttack, attack_model, judge_model
from smoothsweep.sweeps.schema import SWEEPS
from smoothsweep.sweeps.training import LabelSmoothing
from tests.core.attacks.examples import REFUSED
from tests.orchestrator.far_ends import far_ends
from tests.orchestrator.settings_cases import CASES
from tests.planned_cases import NETWORK


def classes_of(annotation: Any) -> set[type[Model]]:
    """The classes of settings in an annotation, and those in their fields."""
    if isinstance(annotation, type) and issubclass(annotation, Model):
        found = {annotation}
        for field in annotation.model_fields.values():
            found |= classes_of(field.annotation) | set().union(*map(classes_of, field.metadata), set())
        return found
    return set().union(*(classes_of(part) for part in get_args(annotation)), set())


def all_classes() -> dict[str, type[Model]]:
    """Every class a sweep file can hold, by name. Defenses come by a reader of their own."""
    found = set().union(*map(classes_of, SWEEPS.values())) | classes_of(LabelSmoothing)
    found |= set().union(*(classes_of(attack_model(kind)) for kind in ATTACKS))  # which come by a reader, too
    found -= {judge_model(judge) for judge in measured().values()}  # which have a test of their own
    return {one.__name__: one for one in found - {AnyAttack}}  # the base of all attacks


@pytest.fixture(scope="session")
def files(tmp_path_factory):
    """Files and folders that the sweeps name; two of each, which differ."""
    folder = tmp_path_factory.mktemp("files")
    for which in "ab":
        (folder / which / "people").mkdir(parents=True)
        (folder / which / "people" / "list.txt").write_text(which)
        (folder / which / "weights.safetensors").write_text(which)
        (folder / which / "discriminator.safetensors").write_text(which)
        card = {"version": 1, "kind": "stylegan2", "config": NETWORK}
        (folder / which / "prior.json").write_text(json.dumps(card))
        for count, side in ((4, 64), (5, 128)):
            faces = asdict(MobileStyleGANConfig(channels=(8,) * count, z_dim=8, w_dim=8))
            (folder / which / str(side)).mkdir()
            (folder / which / str(side) / "weights.safetensors").write_text(which)
            card = {"version": 1, "kind": "mobilestylegan", "config": faces}
            (folder / which / str(side) / "prior.json").write_text(json.dumps(card))
        plain = {"resolution": 32, "z_dim": 4, "width": 2, "classes": 0}
        networks = {
            "gan/generator": ("plain_generator", plain),
            "gan/discriminator": ("critic", plain),
            "plg/generator": ("conditional_generator", {**plain, "classes": 4, "output": "unit"}),
        }
        for name, (kind, config) in networks.items():
            card = folder / which / f"{name}.network.json"
            card.parent.mkdir(exist_ok=True)
            card.write_text(json.dumps({"version": 1, "kind": kind, "config": config}))
            card.with_name("weights.safetensors").write_text(which)
        (folder / which / "faces.parquet").write_text(which)
        (folder / which / "others.parquet").write_text(f"others {which}")
        card = {
            "architecture": "resnet18" if which == "a" else "resnet34",
            "num_classes": 4,
            "image_size": 32,
            "transform_input": False,
            "data": None,
            "defense": None,
            "source": None,
        }
        (folder / which / "target.json").write_text(json.dumps(card))
    return folder


@pytest.fixture(scope="session")
def ends(tmp_path_factory):
    """The far ends of a sweep; of one that many fields are changed from they are looked for once."""
    known: dict[str, Any] = {}

    def find(raw):
        key = json.dumps(raw, sort_keys=True)
        if key not in known:
            known[key] = far_ends(raw, tmp_path_factory.mktemp("store"))
        return known[key]

    return find


def resolved(value: Any, files: Any) -> Any:
    """$a and $b are the folders of `files`."""
    if isinstance(value, str):
        return value.replace("$", f"{files}/", 1) if value.startswith("$") else value
    if isinstance(value, dict):
        return {key: resolved(one, files) for key, one in value.items()}
    return [resolved(one, files) for one in value] if isinstance(value, list) else value


def place(raw: dict[str, Any], where: str, key: str, value: Any) -> None:
    """Set `key` of what stands at `where`; '/a.b' is a key of the whole sweep."""
    if key.startswith("/"):
        return set_dotted(raw, key[1:], value, where="case")
    if where == "control":  # an attack beside Plug & Play, without which controls are refused
        raw["grid"]["attack"][1][key] = value
    elif "[" in where:  # a key with dots in it
        where, _, dotted = where.rstrip("]").partition("[")
        dotted_value(raw, where)[0][dotted][key] = value
    elif where.endswith(".0"):
        dotted_value(raw, where.removesuffix(".0"))[0][0][key] = value
    else:
        set_dotted(raw, f"{where}.{key}" if where else key, value, where="case")
    return None


ATTACKED = [[0, 1], [0, 1, 2]]


def is_axis(where: str) -> bool:
    """Whether what stands there may differ between the cells of a grid."""
    return where.split(".")[0] not in (*NOT_OF_A_TRIAL, "", "control") and not where.endswith(".0")


def alone(value: Any) -> bool:
    """Whether a field can have this value with nothing else changed."""
    return value != REFUSED and not isinstance(value, tuple)


@pytest.mark.parametrize(
    ("name", "field"),
    [(name, field) for name, (_, _, fields) in CASES.items() for field in fields if fields[field] != REFUSED],
)
def test_a_changed_field_changes_something(name, field, files, ends):
    make, where, fields = CASES[name]
    given, value, *elsewhere = fields[field] if isinstance(fields[field], tuple) else ({}, fields[field])
    where = elsewhere[0] if elsewhere else where
    raw = copy.deepcopy(make())
    for key, one in given.items():
        place(raw, where, key, copy.deepcopy(one))
    changed = copy.deepcopy(raw)
    place(changed, where, field, copy.deepcopy(value))
    before, after = ends(resolved(raw, files)), ends(resolved(changed, files))
    assert not isinstance(before, str), before
    assert not isinstance(after, str), after
    assert before != after


def planned(raw: dict[str, Any], **changes: Any) -> list[str]:
    """The trials of a sweep, each by the fingerprints of all its stages."""
    raw = {**raw, **changes}
    loaded = LoadedSweep(sweep=check(raw, "sweep"), raw=raw, intro="", source="sweep")
    return [trial.id for trial in trials_of(loaded)]


@pytest.mark.parametrize("name", [name for name, (_, where, _) in CASES.items() if is_axis(where)])
def test_values_side_by_side_are_those_of_sweeps_of_their_own(name, files):
    """What is remembered between the cells of one sweep is remembered of every setting: each value meets two others."""
    make, where, fields = CASES[name]
    raw = resolved(copy.deepcopy(make()), files) | {"grid": {}, "baseline": {}}
    before, there = dotted_value(raw, where)
    tried = [{**(before or {}), field: resolved(value, files)} for field, value in fields.items() if alone(value)]
    one_by_one = {}
    for value in [before, *tried] if there else tried:
        changed = copy.deepcopy(raw)
        set_dotted(changed, where, value, where="case")
        key = tuple(trial for of_class in ATTACKED for trial in planned(changed, classes=of_class))
        one_by_one.setdefault(key, value)  # two values of what decides nothing are the same work
    grid = {where: list(one_by_one.values()), "classes": ATTACKED}
    assert planned(raw, grid=grid) == [trial for trials in one_by_one for trial in trials]
    assert len(one_by_one) > 1 or len(tried) < 2


def test_every_field_of_every_class_is_in_the_table():
    classes = all_classes()
    assert set(CASES) == set(classes)
    for name, (_, _, fields) in CASES.items():
        assert set(fields) == set(classes[name].model_fields), name
