"""Every mistake of a sweep file is one line that names the key it stands under, as the file has it."""

import copy
import json
from pathlib import Path

import pytest
import yaml

from smoothsweep.core.errors import InputError
from smoothsweep.core.priors.kinds import PRIORS
from smoothsweep.orchestrator.cli import main
from smoothsweep.sweeps.base import MAX_TRIALS, set_dotted
from smoothsweep.sweeps.expand import check
from smoothsweep.sweeps.parts import CLASSES, PublishedData
from smoothsweep.sweeps.schema import InversionSweep
from tests.core.priors.examples import example
from tests.tiny import searchable, tiny_sweep

KINDS = PublishedData.model_fields["kind"].annotation.__args__
SEARCH = {
    "strategy": "random",
    "recipes": 2,
    "objectives": {"attack_acc1": "min", "test_acc": "max"},
    "space": {"recipe.lr": {"low": 0.1, "high": 0.2, "log": True}, "recipe.epochs": {"choices": [1, 2]}},
    "constraints": {"test_acc": {"at_least": 0.5}},
}
EVALUATOR = {"evaluator": {"architecture": "vgg_small", "pretrained": False, "image_size": 32}}


def plain(**changes):
    """A sweep that is right, without one object in two places."""
    return json.loads(json.dumps(tiny_sweep(grid={}, baseline={}, **changes)))


def everything():
    raw = plain(classes=[0, 1], min_test_acc=0.2, resources={"attack_rows": 3})
    raw["recipe"] |= {
        "stop_at_test_acc": 0.5,
        "lr_milestones": [0.5],
        "augmentation": {"crop_scale": [0.5, 1.0]},
        "defense": {"kind": "label_smoothing", "alpha": 0.1, "schedule": {"kind": "ramp", "start": 0.1}},
    }
    raw["judges"]["fidelity"] = {"neighbours": 1}
    return raw


SWEEPS = {
    "everything": everything(),
    "search": searchable("s", SEARCH, judges=EVALUATOR, budget={"device_hours": 1.0}, reaudit={"seeds": [7]}),
    **{f"data {kind}": plain(data={"kind": kind, "path": "x"}) for kind in KINDS},
    "own": plain(data={"kind": "labelled", "path": "x"}, public={"kind": "unlabelled", "path": "y"}),
    **{
        f"prior {kind}": plain(
            prior={"kind": kind, **example(kind).EXAMPLE}, **({} if row.needs_public else {"public": None})
        )
        for kind, row in PRIORS.items()
    },
    "eyes": plain(
        prior={"kind": "random_face", "path": "x", "resolution": 64, "crop": example("random_face").EYES}, public=None
    ),
}
WRONG = (None, {"q": 1}, "nonsense", True, -1.5, [], ["x"])


def places(value, path=()):
    for key in value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield (*path, key)
        yield from places(value[key], (*path, key))


def places_of(name):
    """The places of a sweep of this table; of those that differ in their sources alone, the sources'."""
    of_all = name in ("everything", "search")
    return [path for path in places(SWEEPS[name]) if of_all or path[0] in ("data", "public", "prior")]


def with_value(raw, path, value):
    changed = copy.deepcopy(raw)
    holder = changed
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = value
    return changed


def mistake(raw):
    try:
        check(raw, "file.yaml")
    except InputError as error:
        said = str(error)
        assert said.startswith("file.yaml: ") and " expected " in said and "\n" not in said
        return said.removeprefix("file.yaml: ")
    return None


@pytest.mark.parametrize("name", SWEEPS)
def test_a_wrong_value_is_named_by_its_own_key(name):
    raw, named = SWEEPS[name], 0
    assert mistake(raw) is None
    for path in places_of(name):
        for wrong in WRONG:
            said = mistake(with_value(raw, path, wrong))
            if said is None or (path[0] == "search" and path[-1] in ("test_acc", "attack_acc1")):
                continue
            key, own = said.split(": ")[0], ".".join(map(str, path))
            asked = path == ("judges", "evaluator") and key.startswith("search.objectives")  # what needs it is named
            below = ("q", "0", "kind", "path", "trial", "looks", *(_keys_of(raw, path) or ()))
            inside = key in {f"{own}.{one}" for one in below}
            assert key == own or own.startswith(f"{key}.") or inside or asked, (own, wrong, said)
            named += key == own or inside
    assert named > 10


def _keys_of(raw, path):
    """Of a mapping within the sweep; none of anything else."""
    for key in path:
        raw = raw[key]
    return raw if isinstance(raw, dict) else None


FREE = ("grid", "baseline", "search.space", "search.objectives", "search.constraints")  # their keys are the user's


@pytest.mark.parametrize("name", SWEEPS)
def test_an_unknown_key_is_named_by_where_it_stands_and_no_kind_is_part_of_it(name):
    raw = SWEEPS[name]
    for path in [(), *places_of(name)]:
        if _keys_of(raw, path) is None or ".".join(map(str, path)) in FREE:
            continue
        said, own = mistake(with_value(raw, (*path, "unheard_of"), 1)), ".".join((*path, "unheard_of"))
        assert said.startswith((f"{own}: expected one of the keys ", f"{own}: expected a known key")), said


NAMED = [
    path for path in places(SWEEPS["everything"]) if isinstance(path[-1], str) and path[-2:] != ("defense", "kind")
]


@pytest.mark.parametrize("place", NAMED, ids=str)
def test_a_key_with_a_letter_too_many_is_told_which_one_was_meant(place):
    said = mistake(with_value(SWEEPS["everything"], (*place[:-1], f"{place[-1]}x"), 1))  # nothing else is wrong
    assert f"did you mean {place[-1]!r}?" in said


@pytest.mark.parametrize(
    ("place", "given", "meant"),
    [
        ("attack.kind", "pppa", "ppa"),
        ("recipe.defense", {"kind": "dropuot"}, "dropout"),
        ("data.kind", "sinthetic", "synthetic"),
        ("prior.kind", "eigenface", "eigenfaces"),
        ("judges.embedder.name", "facenett", "facenet"),
        ("recipe.optimizer", "adm", "adam"),
    ],
)
def test_a_mistyped_kind_is_told_which_one_was_meant(place, given, meant):
    assert f"did you mean {meant!r}?" in mistake(with_value(plain(), place.split("."), given))


@pytest.mark.parametrize(
    "changes",
    [
        {"classes": [0, 3]},
        {"prior": {"kind": "eigenfaces", "components": 59}},
        {"judges": {"fidelity": {"neighbours": 1}}},
        {"data": {"kind": "synthetic", "identities": 4, "train_per_class": 8, "samples_per_class": 8}},
        {
            "data": {"kind": "synthetic", "identities": 1000},
            "judges": {"evaluator": {"architecture": "inception_v3", "pretrained": False}},
        },
        {"protocol": "clean", "attack": {**tiny_sweep()["attack"], "reconstruction_size": 16}},
        {"classes": [0], "attack": {**tiny_sweep()["attack"], "selected": 2}},
        {"reaudit": {"seeds": [5, 2]}},
    ],
)
def test_what_just_fits_is_taken(changes):
    assert mistake(plain(**changes)) is None


SCHEDULE = "recipe.defense.schedule."
RAMP = {f"{SCHEDULE}kind": ["ramp"]}
OPTUNA = {
    "strategy": "optuna",
    "recipes": 6,
    "space": {
        "recipe.defense.alpha": {"low": -0.5, "high": 0.3, "step": 0.1},
        f"{SCHEDULE}kind": {"choices": ["constant", "ramp"]},
        f"{SCHEDULE}start": {"low": 0.0, "high": 0.5, "step": 0.25, "when": RAMP},
        f"{SCHEDULE}end": {"low": 0.25, "high": 1.0, "step": 0.25, "above": f"{SCHEDULE}start", "when": RAMP},
    },
    "objectives": {"test_acc": "max", "embedder_acc1": "min"},
}
SMALL = {key: value for key, value in searchable("s", {}).items() if key not in ("search", "judges")}
SMALL |= {"seeds": [1], "attack": {"pool": {"size": 20}, "candidates": 4, "selected": 2}}
IDLE = {key: SMALL[key] for key in ("name", "seeds", "data", "recipe")} | {"attack": None}
CHANGED = {
    "tiny": tiny_sweep(),
    "plain": tiny_sweep(grid={}, baseline={}),
    "small": SMALL,
    "idle": IDLE,
    "search": searchable("s", OPTUNA),
}


def changed(sweep, changes):
    """A copy of one of the sweeps; keys of `grid`, `cells` and so on are those of a file, with their dots."""
    raw = yaml.safe_load(yaml.safe_dump(CHANGED[sweep]))
    for key, value in changes.items():
        set_dotted(raw, key, value, where="test")
    return raw


def refused(folder, capsys, raw, says, *overrides):
    path, store = folder / "s.yaml", folder / "store"
    path.write_text("# What it finds.\n" + yaml.safe_dump(raw, sort_keys=False))
    more = [word for override in overrides for word in ("--set", override)]
    assert main(["plan", str(path), "--store", str(store), *more]) == 2
    [line] = capsys.readouterr().err.strip().splitlines()
    assert says in line and (overrides or line.startswith(f"smoothsweep: {path}")) and not store.exists(), line


ROWS = yaml.safe_load(Path(__file__).with_name("refused.yaml").read_text())


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_a_mistake_is_one_line_and_nothing_is_written(tmp_path, capsys, row):
    (sweep, changes), *_ = row.items()
    refused(tmp_path, capsys, changed(sweep, changes), row["says"], *row.get("set", ()))


OF_A_TRIAL = {"data", "public", "recipe", "prior", "attack", "judges", "classes"}
"""What a cell may change; all else is of the whole sweep."""


@pytest.mark.parametrize("key", sorted(InversionSweep.model_fields.keys() - OF_A_TRIAL))
def test_a_key_of_the_whole_sweep_is_none_of_a_cell(tmp_path, capsys, key):
    line = "{}.{}: expected a key that a trial depends on"
    refused(tmp_path, capsys, changed("plain", {"grid": {key: [1, 2]}}), line.format("grid", key))
    refused(tmp_path, capsys, changed("plain", {"cells": [{key: 1}, {key: 2}]}), line.format("cells", key))


def test_a_grid_has_so_many_trials_at_most(tmp_path, capsys):
    grid = {"recipe.epochs": list(range(1, 500)), "attack.steps": list(range(1, 500))}
    refused(tmp_path, capsys, changed("plain", {"grid": grid}), f"expected at most {MAX_TRIALS} trials, got 249001")


@pytest.mark.parametrize("kind", CLASSES)
def test_a_published_set_has_so_many_classes(tmp_path, capsys, kind):
    raw = changed("plain", {"data": {"kind": kind, "path": "p"}, "classes": [0, CLASSES[kind]]})
    refused(tmp_path, capsys, raw, f"classes: expected labels below {CLASSES[kind]}, got {CLASSES[kind]}")
