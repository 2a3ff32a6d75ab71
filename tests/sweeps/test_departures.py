"""No setting differs from the official one unseen: the shipped sweeps, what was silent once, parts brought in."""

from dataclasses import fields
from pathlib import Path

import pytest

from smoothsweep.sweeps.expand import expand
from smoothsweep.sweeps.load import load_sweep
from smoothsweep.sweeps.paper_settings import departures, free_keys, official, published_settings
from tests.sweeps.cell_of_table2 import NEGATIVE, cell, departed, raw

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
    code = {
        "attack.pool.truncation_psi": 0.5,
        "attack.pool.truncation_cutoff": 8,
        "attack.pool.seed": 42,
        "attack.pool.crop": 800,
        "attack.batch_size": 25,
        "attack.lr": 0.005,
        "attack.betas": [0.1, 0.1],
        "attack.candidates": 200,
        "attack.selected": 50,
        "attack.selection_repeats": 100,
        "attack.clip": False,
        "attack.discriminator_weight": 0.0,
        "attack.crop_scale": [0.9, 1.0],
        "attack.selection_crop_scale": [0.5, 0.9],
        "recipe.weight_decay": 0.0,
        "recipe.batch_size": 128,
        "recipe.lr": 0.001,
        "recipe.precision": "fp32",
        "judges.evaluator.image_size": 299,
        "judges.evaluator.epochs": 100,
        "judges.evaluator.weight_decay": 0.0,
        "judges.knowledge.epochs": 75,
        "judges.knowledge.batch_size": 32,
        "judges.knowledge.lr": 0.1,
        "judges.knowledge.momentum": 0.9,
        "judges.knowledge.weight_decay": 1e-4,
        "judges.knowledge.lr_min": 1e-4,
        "data.split_seed": 42,
        "protocol": "paper",
    }
    for settings in (facescrub, celeba):
        assert {key: settings[key] for key in code} == code
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


def test_every_parameter_of_the_papers_defenses_is_tried_above():
    """A new parameter of MID or BiDO must be stated or listed as free."""
    from smoothsweep.core.defenses.registry import DEFENSES

    for kind in ("mid", "bido"):
        stated = published_groups(kind)
        for name in (field.name for field in fields(DEFENSES[kind])):
            assert name in stated or free_keys("3")(f"recipe.defense.{name}"), (kind, name)


def published_groups(kind):
    needed = {"mid": {"beta": 0.005}, "bido": {"lambda_input": 0.05, "lambda_label": 2.5}}[kind]
    found = official(cell(raw(recipe__defense={"kind": kind, **needed})), "facescrub", "3")
    return {key.rpartition(".")[2] for key in found if key.startswith("recipe.defense.")}


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
