"""The paper's tables as data, the rows that cells of sweeps find in them, and where settings depart from the paper's:
by name, and by every key there is."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import get_args

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from smoothsweep.core.attacks.registry import ATTACKS
from smoothsweep.core.errors import InputError
from smoothsweep.core.judges.table import JUDGES
from smoothsweep.core.priors.kinds import PRIORS
from smoothsweep.orchestrator.planning.trial import Trial
from smoothsweep.orchestrator.stages.graph import data_stage, judging_model_stage
from smoothsweep.orchestrator.stages.stage import files_may_be_absent, with_ancestors
from smoothsweep.sweeps.base import set_dotted
from smoothsweep.sweeps.expand import expand
from smoothsweep.sweeps.imported import ImportedClassifier
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
    standing,
)
from smoothsweep.sweeps.parts import DATA_MODELS, PublishedData, attack_model
from smoothsweep.sweeps.schema import InversionSweep, PaperTable
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


def test_what_fits_nothing_or_too_much_is_said():
    with pytest.raises(InputError, match=r"paper table: expected one of 1, 2, .* got '14'"):
        paper_rows("14")
    with pytest.raises(InputError, match=r"table 2: expected axes among dataset, .* got 'seed'"):
        matching({"seed": 1}, "2")
    with pytest.raises(InputError, match="got rows 1, 2, 3: name defense"):
        matching({"dataset": "facescrub", "samples_per_class": 10}, "4")
    with pytest.raises(InputError, match="dataset: expected one of facescrub, celeba, got 'imagenette'"):
        printed_rows("2", "imagenette")
    assert datasets_of("12") == ("imagenette",)


@given(st.sampled_from([n for n in numbers() if not n.metric.endswith(CHANGE)]))
def test_every_printed_row_is_found_by_its_own_axes(number):
    assert matching(number.axes, number.table).numbers[number.metric] == number


def row_of(settings, table):
    found = matching(recipe_axes(settings, "facescrub", table), table)
    return None if found is None else found.first.row


def changed(table, cell, **changes):
    settings = expand(load_sweep(SWEEPS / f"table{table}.yaml"))[cell].settings
    raw = settings.model_dump(mode="python")
    return InversionSweep.model_validate(raw | {"attack": raw["attack"] | changes})


@pytest.mark.parametrize(
    "other",
    [
        {"recipe.defense.alpha": 0.1, "recipe.architecture": "resnet50"},
        {"recipe.defense": {"kind": "mid", "beta": 0.005}},
        {"recipe.defense.alpha": 0.1, "data.samples_per_class": 10},
        {"recipe.defense.alpha": 0.2},
    ],
)
def test_a_target_that_the_table_does_not_have_finds_no_row(other):
    assert row_of(changed("5", 0, sampling_target={"trial": other}), "5") is None


@pytest.mark.parametrize(
    "variant", [{"lr": 0.05, "loss": "cross_entropy"}, {"loss": "logit"}, {"feature_weight": 1.0}, {"lr": 0.01}]
)
def test_a_variant_that_the_table_does_not_have_finds_no_row(variant):
    assert row_of(changed("10", 0, **variant), "10") is None


def test_a_sweep_at_reduced_counts_keeps_its_rows_and_says_so():
    few = changed("10", 0, pool={"size": 24, "crop": 50}, candidates=8, selected=4)
    assert row_of(few, "10") == 1
    assert "attack.pool.size 24 (paper: 2000)" in departures(few, "facescrub", "10")
    more = changed("10", 1, lr=0.005)
    assert row_of(more, "10") == 2 and departures(more, "facescrub", "10") == ()


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


def test_tables_of_one_data_set_share_its_evaluation_model():
    """It is the paper's: one for each data set, at 224 pixels; Table 8 has its own, at 64."""
    models = {}
    with files_may_be_absent():
        for file in SWEEPS.glob("table*.yaml"):
            for settings in (cell.settings for cell in expand(load_sweep(file))):
                if (evaluator := settings.judges.evaluator) is not None:
                    data = data_stage(settings, evaluator.image_size, for_judges=True)
                    stage = judging_model_stage(evaluator, data, settings.protocol)
                    models.setdefault(settings.data.kind, set()).add(stage.fingerprint)
    assert {kind: len(found) for kind, found in models.items()} == {"facescrub": 1, "celeba": 1, "celeba64": 1}


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


@pytest.mark.parametrize(
    ("defense", "row"),
    [({"kind": "label_smoothing", "alpha": -0.05}, 2), ({"kind": "mid", "beta": 0.005}, 4), (None, None)],
)
def test_imported_targets_are_placed_by_what_their_card_says(defense, row):
    target = SimpleNamespace(architecture="resnet152", stated_defense=defense)
    data = SimpleNamespace(samples_per_class=None)
    settings = SimpleNamespace(recipe=target, data=data, attack=SimpleNamespace(kind="ppa"))
    axes = recipe_axes(settings, "facescrub", "3")
    assert (axes and matching(axes, "3").first.row) == row


@pytest.mark.parametrize("kind", get_args(PublishedData.model_fields["kind"].annotation))
def test_a_published_set_has_the_papers_name(kind):
    """CelebA at 64 pixels is CelebA."""
    data = PublishedData(kind=kind, path="somewhere")
    assert PaperTable(table="2").dataset_of(data) == {"celeba64": "celeba"}.get(kind, kind)
    assert PaperTable(table="2", dataset="facescrub").dataset_of(data) == "facescrub"


FILE = SWEEPS / "table8.yaml"
LOMMAS = ("gmi", "ked", "lomma_gmi", "lomma_ked")  # what its code evaluated


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


@pytest.mark.parametrize(
    ("attack", "key", "value", "line"),
    [
        ("gmi", "attack.gan.epochs", 120, "attack.gan.epochs 120 (paper: 280)"),
        ("lomma_gmi", "attack.form", "L_aug", "attack.form L_aug (paper: ours)"),
        ("plg_mi", "attack.top_n", 20, "attack.top_n 20 (paper: 30)"),
        (
            "plg_mi",
            "classes",
            list(range(1, 301)),
            "classes [1, 2, 3, ..., 300 values] (paper: [0, 1, 2, ..., 300 values])",
        ),
        ("rlb_mi", "classes", "all", "classes all (paper: [654, 114, 25, ..., 100 values])"),
        ("brep_mi", "attack.generator", "prior", "attack.generator prior (paper: general_gan)"),
        ("brep_mi", "attack.inside", 0.5, "attack.inside 0.5 (paper: 0.75)"),
        ("gmi", "recipe.lr_milestones", [0.5, 0.75], "recipe.lr_milestones [0.5, 0.75] (paper: [])"),
        ("gmi", "public", {"kind": "synthetic"}, "public.kind synthetic (paper: celeba64)"),
        (
            "gmi",
            "judges.evaluator.architecture",
            "resnet18",
            "judges.evaluator.architecture resnet18 (paper: ir50_112)",
        ),
    ],
)
def test_every_departure_is_named(cells, attack, key, value, line):
    raw = next(c.settings for c in cells if c.settings.attack.kind == attack).model_dump(mode="json")
    if key == "attack.generator":
        raw["prior"] = {"kind": "eigenfaces"}
        raw["attack"].pop("gan")
    set_dotted(raw, key, value, where="test")
    changed = type(cells[0].settings).model_validate(raw)
    assert line in departures(changed, "celeba", "8")


def test_what_the_other_reports_count_otherwise_is_said(cells):
    for cell in cells:
        stands, attack = standing(cell.settings, "celeba", "8"), cell.settings.attack.kind
        lomma = attack in LOMMAS
        own = {"attack_acc1_std": "attack_acc1_std_batches"}
        lommas = {**own, "attack_acc5": "attack_acc5_last", "fid": "fid_lomma"}
        assert stands.columns == (lommas if lomma else {**own, "fid": "fid_plg"} if attack == "plg_mi" else {})
        assert stands.columns.keys().isdisjoint(stands.incomparable)
        assert ("labels below 300" in stands.incomparable.get("dist_knn", "")) == lomma
        assert ("dist_knn" in stands.incomparable) == (attack != "plg_mi")
        assert "attack_acc1" not in stands.incomparable and "attack_acc5" not in stands.incomparable


def test_the_nearest_neighbour_distance_is_compared_where_the_same_people_are_counted(cells):
    raw = cells[0].settings.model_dump(mode="json")
    for classes, protocol, compared in ((500, "paper", True), (499, "paper", False), (500, "clean", False)):
        changed = raw | {"classes": list(range(classes)), "protocol": protocol}
        stands = standing(type(cells[0].settings).model_validate(changed), "celeba", "8")
        assert ("dist_knn" not in stands.incomparable) == compared


def test_what_is_trained_once_is_one_stage(loaded, cells):
    """Without any data, as `smoothsweep plan` sees it; also with half of the sweep under the other protocol."""
    clean = load_sweep(FILE, ["protocol=clean", "paper=null"])
    with files_may_be_absent() as absent:
        both = [Trial(cell=cell, seed=seed) for seed in loaded.sweep.seeds for cell in (*cells, *expand(clean))]
        stages = with_ancestors([stage for trial in both for stage in trial.stages])
    assert absent.keys() == {"data.path", "public.path"}
    counts = Counter(stage.name for stage in stages)
    once = sorted(s.config["settings"]["epochs"] for s in stages if s.name == "general_gan")
    assert once == [120, 280]  # LOMMA's and the black boxes', and GMI's own
    assert counts["public"] == 1 and counts["target"] == 2 * 22  # 7 recipes x 3 seeds, and the evaluator
    for part in ("specific_gan", "students", "public_features", "plg_labels", "plg_gan", "starts"):
        assert counts[part] == 2 * 21, part
    assert "prior" not in counts


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
    held = json.loads((SWEEPS / "paper" / "settings.json").read_text(encoding="utf-8"))
    for listed in (held["free"], *held["free_in_table"].values()):
        assert all(reason for reason in listed.values())
        for key in listed:
            stem = key.removesuffix(".*")
            assert stem in known or any(part == stem or part.startswith(f"{stem}.") for part in parts), key


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
