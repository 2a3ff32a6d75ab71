"""Every mistake of a sweep file is one line that names the key it stands under, as the file has it."""

import copy
import json

import pytest
from tiny import searchable, tiny_sweep

from smoothsweep.core.errors import InputError
from smoothsweep.core.priors.kinds import PRIORS
from smoothsweep.sweeps.expand import check
from smoothsweep.sweeps.parts import PublishedData
from smoothsweep.sweeps.schema import InversionSweep
from tests.core.priors.examples import example

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


def test_keys_of_another_kind_are_not_proposed():
    """`train_per_class` belongs to drawn people; a labelled set has no such key, nor one that is close."""
    said = mistake(plain(data={"kind": "labelled", "path": "faces.parquet", "train_per_clas": 3}))
    assert said.startswith("data.train_per_clas: ") and "'train_per_class'" not in said


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


def test_the_paper_names_its_data():
    own = InversionSweep.model_validate(plain(paper={"table": "1", "dataset": "celeba"}))
    assert own.paper.dataset_of(own.data) == "celeba"
    published = InversionSweep.model_validate(plain(paper={"table": 1}, data={"kind": "facescrub", "path": "x"}))
    assert published.paper.dataset_of(published.data) == "facescrub" and published.paper.table == "1"
    dogs = plain(paper={"table": "1"}, data={"kind": "stanford_dogs", "path": "x"})
    assert mistake(dogs) == "data.kind: expected one of facescrub, celeba for table 1, got stanford_dogs"
