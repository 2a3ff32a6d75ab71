"""Training in memory: a recipe as a sweep file has it becomes the same training as a sweep's."""

import pytest
import torch

from smoothsweep.core.audit.training import build_defense, train_model
from smoothsweep.core.data.labelled import SplitImages
from smoothsweep.core.data.synthetic import synthetic_faces
from smoothsweep.core.defenses.registry import DEFENSES
from smoothsweep.core.errors import InputError
from smoothsweep.sweeps.training import Recipe
from smoothsweep.tasks.settings import smoothing_of_epoch
from smoothsweep.tasks.training import defense_from
from tests.defense_examples import EXAMPLES

EPOCHS, SIZE, PEOPLE = 20, 32, 4
SCHEDULES = (
    None,
    {"kind": "constant"},
    {"kind": "ramp", "start": 0.2, "end": 0.6},
    {"kind": "step", "at": 0.1, "back": 0.9},
    {"kind": "reference", "scaled": True},
)
TRAINING = {"epochs": 2, "batch_size": 16, "augmentation": None}


@pytest.fixture(scope="module")
def people():
    faces = synthetic_faces(identities=PEOPLE, per_identity=20, size=SIZE, spread=0.6, seed=5, population="private")
    return SplitImages(train=faces, test=faces, notes=())


def trained(people, defense, **options):
    given = {"architecture": "resnet_small", "training": TRAINING, "seed": 1, "device": "cpu", **options}
    return train_model(people, defense=defense, **given)


def resolved(defense):
    return Recipe.model_validate({"defense": defense}).defense.resolved("clean")


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("alpha", [-0.8, 0, 0.1])
def test_the_factor_of_every_epoch_is_that_of_a_sweep(schedule, alpha):
    settings = {"kind": "label_smoothing", "alpha": alpha, **({"schedule": schedule} if schedule else {})}
    mine, theirs = build_defense(settings).smoothing(EPOCHS), smoothing_of_epoch(resolved(settings), EPOCHS)
    assert [mine(epoch) for epoch in range(EPOCHS)] == [theirs(epoch) for epoch in range(EPOCHS)]


@pytest.mark.parametrize("kind", DEFENSES)
def test_every_defense_is_the_one_of_a_sweep_and_trains(kind, people):
    settings = {"kind": kind, **EXAMPLES[kind]}
    assert build_defense(settings).defense == defense_from({"defense": resolved(settings)})
    model = trained(people, settings)
    assert all(torch.isfinite(value).all() for value in model.classifier.state_dict().values())
    assert model.image_size == SIZE and model.reads.is_ours and not model.classifier.training


def test_a_seed_decides_the_weights_and_a_recipe_changes_them(people):
    def head(**options):
        return trained(people, options.pop("defense", {"kind": "label_smoothing"}), **options).classifier.head.weight

    assert torch.equal(head(), head()) and not torch.equal(head(), head(seed=2))
    early = {"kind": "label_smoothing", "alpha": -0.8, "schedule": {"kind": "constant"}}
    assert not torch.equal(head(), head(defense=early))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({}, "defense: expected its kind"),
        ({"kind": "magic"}, "defense: expected one of"),
        ({"kind": "label_smoothing", "beta": 1}, "expected alpha and schedule for its smoothing, got beta"),
        ({"kind": "label_smoothing", "alpha": 1.5}, "defense: alpha: expected a finite number of at most 1"),
        ({"kind": "label_smoothing", "alpha": "low"}, "defense: alpha: expected a finite number of at most 1"),
        ({"kind": "label_smoothing", "alpha": -1, "schedule": {"kind": "slow"}}, "schedule kind: expected one of"),
        ({"kind": "label_smoothing", "alpha": -1, "schedule": {"steep": 1}}, "schedule: does not read 'steep'"),
        ({"kind": "label_smoothing", "alpha": -1, "schedule": {"kind": "reference"}}, "reference"),
        ({"kind": "mid", "gamma": 1}, "defense mid: does not read 'gamma'"),
        ({"kind": "mixup", "smoothing": {"factor": 1}}, "got factor"),
    ],
)
def test_a_wrong_recipe_is_one_line(settings, words, people):
    with pytest.raises(InputError, match=words) as caught:
        trained(people, settings)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"architecture": "magic"}, "architecture"),
        ({"training": {"epochs": 0}}, "training epochs"),
        ({"training": {"speed": 1}}, "training: does not read 'speed'"),
    ],
)
def test_wrong_settings_of_the_training_are_one_line(options, words, people):
    with pytest.raises(InputError, match=words) as caught:
        trained(people, {"kind": "label_smoothing"}, **options)
    assert "\n" not in str(caught.value)
