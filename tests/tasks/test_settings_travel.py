"""Every key of every stage's configuration reaches its artifact: changed, it changes the artifact or is refused.

Here those of trainings; those of attacks and of data have files of their own. The tables hold a tiny alternative for
each key, with the combination in which the key has an effect. That no key is missing is checked against the models of
the sweep file.
"""

import shutil
from dataclasses import fields

import pytest

from smoothsweep.core.defenses.registry import DEFENSES
from smoothsweep.core.judges.knowledge import Knowledge
from smoothsweep.sweeps.attacks import MODELS, schema_of
from smoothsweep.sweeps.data import LabelledData, PublishedPublic, SyntheticData, SyntheticPublic, UnlabelledPublic
from smoothsweep.sweeps.judging import schema_of as judge_schema
from smoothsweep.sweeps.training import Augmentation, Poison, Recipe
from tests.core.defenses.examples import example, told
from tests.tasks.settings_tables import (
    ATTACK,
    AUGMENTATION,
    BREP_MI,
    EIGENFACES,
    IF_GMI,
    LABELLED,
    POISON,
    POOL,
    PRIVATE,
    PUBLIC,
    RANDOM_LATENTS,
    RLB_MI,
    STARTS,
    TARGET,
    TRAINING,
    UNLABELLED,
)
from tests.tasks.travelling import PLAIN, outcome, training

OF_ITS_GENERATOR = {"generator", "gan"}  # black_box/test_own_generator.py


@pytest.mark.parametrize("key", TARGET)
def test_of_a_target(key, private, travels):
    given, change = TARGET[key]
    base = {**training(defense=PLAIN, workers=1), **given}
    travels("target", base, {**base, **change}, {"data": private})


@pytest.mark.parametrize("key", AUGMENTATION)
def test_of_an_augmentation(key, private, travels):
    base = training(defense=PLAIN, workers=1, epochs=1)
    changed = {**base, "augmentation": {**base["augmentation"], key: AUGMENTATION[key]}}
    travels("target", base, changed, {"data": private})


@pytest.mark.parametrize(("kind", "field"), [(kind, field) for kind in DEFENSES for field in example(kind).TRAVEL])
def test_of_a_defense(kind, field, private, travels):
    given, value = example(kind).TRAVEL[field]
    parameters = {**told(kind, "NEEDED", {}), **given}
    plain = {**PLAIN, "alpha": told(kind, "ALPHA", 0.0)}
    base, changed = (
        training(defense={**plain, "kind": kind, "parameters": chosen}, workers=1, batch_size=8)
        for chosen in (parameters, {**parameters, field: value})
    )
    travels("target", base, changed, {"data": private})


def test_every_field_of_every_defense_is_in_its_table():
    found = {kind: {field.name for field in fields(defense)} for kind, defense in DEFENSES.items()}
    assert found == {kind: set(example(kind).TRAVEL) for kind in DEFENSES}


@pytest.mark.parametrize("key", TRAINING)
def test_of_a_surrogate(key, clean, travels):
    given, change = TRAINING[key]
    base = {**training(), **given}
    travels("knowledge", base, {**base, **change}, clean.inputs("knowledge"))


@pytest.mark.parametrize("key", POISON)
def test_of_a_poison(key, private, travels):
    base = {"poison": {"kind": "badnets", "share": 0.3, "target": 1}, "image_size": 32, "seeds": [0, 1]}
    given, value = POISON[key]
    changed = {"seeds": value} if key == "seeds" else {"poison": {**base["poison"], **given, key: value}}
    base = {**base, "poison": {**base["poison"], **given}}
    travels("poison", base, {**base, **changed}, {"data": private})


def test_a_reference_ends_a_training_as_a_number_does(private, tmp_path):
    goal = 0.01
    shutil.copytree(private, tmp_path / "other")
    (tmp_path / "other/manifest.json").write_text(f'{{"config": {{}}, "metrics": {{"test_acc": {goal}}}}}')
    base = training(defense=PLAIN, workers=1)
    by_number = outcome("target", {**base, "stop_at_test_acc": goal}, {"data": private}, tmp_path / "number")
    inputs = {"data": private, "reference": tmp_path / "other"}
    assert outcome("target", base, inputs, tmp_path / "reference") == by_number


@pytest.mark.parametrize(
    ("model", "table", "elsewhere"),
    [
        # workers: a group under Ray Train (tests/tasks/test_stopping_together.py); checkpoint_every: a hint
        # poison: of its own stage, below
        (Recipe, TARGET, {"augmentation", "workers", "checkpoint_every", "poison"}),
        (Poison, POISON, {"placed", "seed"}),  # placed: tests/core/analysis/test_backdoors.py; seed: among `seeds`
        (judge_schema(Knowledge), TRAINING, {"augmentation", "checkpoint_every"}),
        (Augmentation, AUGMENTATION, set()),
        (schema_of("ppa").model_fields["pool"].annotation, POOL, set()),
        # reconstruction_size: of the stage of reconstructions; the others: tests/tasks/test_other_targets.py
        (
            schema_of("ppa"),
            ATTACK,
            {"kind", "reconstruction_size", "sampling_target", "selection_target", "feature_weight"},
        ),
        (schema_of("if_gmi"), IF_GMI, {"kind", "reconstruction_size"}),
        (schema_of("selection_only"), ATTACK, {"kind", "reconstruction_size"}),
        (schema_of("random_latents"), RANDOM_LATENTS, {"kind", "reconstruction_size", "readout"}),  # which it refuses
        # logarithm: where probabilities underflow (black_box/test_rlb_mi.py); starts: of its part's stage
        (schema_of("rlb_mi"), RLB_MI, {"kind", "reconstruction_size", "logarithm", *OF_ITS_GENERATOR}),
        (schema_of("brep_mi"), BREP_MI, {"kind", "reconstruction_size", "starts", *OF_ITS_GENERATOR}),
        (schema_of("brep_mi").model_fields["starts"].annotation, STARTS, set()),
        (SyntheticData, PRIVATE, {"kind"}),
        (LabelledData, LABELLED, {"kind", "path"}),
        (SyntheticPublic, PUBLIC, {"kind"}),
        (UnlabelledPublic, UNLABELLED, {"kind", "path"}),
        (PublishedPublic, {}, {"kind", "path", "size"}),  # size: tests/core/data/test_celeba64.py
        (MODELS["eigenfaces"], EIGENFACES, {"kind"}),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_every_field_of_the_sweep_file_is_in_its_table(model, table, elsewhere):
    assert set(model.model_fields) - elsewhere <= set(table)


@pytest.mark.parametrize(
    ("stage", "table"), [("target", TARGET), ("attack", ATTACK), ("attack.pool", POOL), ("knowledge", TRAINING)]
)
def test_every_key_of_a_stage_is_in_its_table(stage, table, pipeline):
    constant = {"kind", "augmentation", "workers", "part", "settings"}
    constant |= {"protocol"}  # the surrogate's says how it is cut off
    assert set(pipeline.stage(stage).config) - constant <= set(table)
