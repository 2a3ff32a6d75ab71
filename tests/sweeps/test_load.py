"""Sweep files: what is refused, in one line that names file, key, expected and got."""

import dataclasses
from pathlib import Path

import pytest
import yaml

from smoothsweep.core.errors import InputError
from smoothsweep.sweeps.axes import axis_names
from smoothsweep.sweeps.expand import expand
from smoothsweep.sweeps.load import load_sweep, shipped_sweeps
from smoothsweep.sweeps.loaded import check
from smoothsweep.sweeps.settings import set_dotted
from tests.tiny import tiny_sweep

GOOD = {
    "name": "t",
    "seeds": [1],
    "data": {"kind": "synthetic", "identities": 4},
    "public": {"kind": "synthetic", "identities": 50},
    "recipe": {"architecture": "resnet_small", "pretrained": False, "image_size": 32, "batch_size": 16},
    "prior": {"kind": "eigenfaces", "components": 8},
    "attack": {"pool": {"size": 20}, "candidates": 4, "selected": 2},
}


def write(tmp_path: Path, **changes) -> Path:
    path = tmp_path / "sweep.yaml"
    path.write_text("# What it shows.\n#\n# Hardware.\n" + yaml.safe_dump({**GOOD, **changes}, sort_keys=False))
    return path


def test_a_good_file_loads_with_its_opening_comment(tmp_path):
    loaded = load_sweep(write(tmp_path))
    assert loaded.sweep.recipe.epochs == 100
    assert loaded.intro == "What it shows.\n\nHardware."


def test_of_a_comment_the_hashes_alone_are_left_out(tmp_path):
    path = write(tmp_path)
    path.write_text("## X marks it.\n" + path.read_text())
    assert load_sweep(path).intro.startswith("X marks it.\nWhat it shows.")


@pytest.mark.parametrize(
    ("overrides", "key", "words"),
    [
        (
            ["recipe.epoch=3"],
            "recipe.epoch",
            "expected a known key, got the unknown key 'epoch'; did you mean 'epochs'?",
        ),
        (["recipe.defense.schedule=zigzag"], "recipe.defense.schedule", "expected a mapping of keys, got 'zigzag'"),
        (["recipe=fast"], "recipe", "expected a mapping of keys, got 'fast'"),
        (["name=../x"], "name", "expected a name of letters, digits, '.', '_' and '-', at most 64"),
        (["recipe.epochs=many"], "recipe.epochs", "expected a valid integer"),
        (["recipe.epochs=0"], "recipe.epochs", "a number of at least 1"),
        (["recipe.defense.alpha=1.5"], "recipe.defense.alpha", "expected a number in (-inf, 1], got 1.5"),
        (["recipe.architecture=resnet19"], "recipe.architecture", "expected one of 'resnet_small'"),
        (["recipe.defense.schedule={kind: ramp, start: 0.8, end: 0.4}"], "recipe.defense.schedule", "0.8"),
        (["recipe.defense.schedule={kind: ramp, at: 0.4}"], "recipe.defense.schedule", "at"),
        (["recipe.optimizer=sgd", "recipe.betas=[0.9, 0.99]"], "recipe", "betas: expected only with optimizer: adam"),
        (["recipe.lr_milestones=[0.9, 0.5]"], "recipe", "ascending fractions"),
        (["recipe.workers=20"], "recipe", "at least 2 images per worker"),
        (["attack.candidates=30"], "attack", "expected at most pool.size (20), got 30"),
        (["attack.selected=9"], "attack", "expected at most candidates (4), got 9"),
        (["attack.lr=.nan"], "attack.lr", "finite number"),
        (["public=null"], "", "public: expected the images to fit the eigenfaces prior on, got none"),
        (["judges.embedder.name=mobilefacenet_a"], "judges.embedder", "weights: expected the file"),
        (["judges.evaluator={architecture: resnet_small}"], "", "expected another than the target's"),
        (["data.kind=video"], "data", "expected one of 'synthetic', 'labelled', 'facescrub'"),
        (["attack.readout=mean"], "", "attack.readout: with defense label_smoothing expected none:"),
        (["recipe.transform_input=true"], "recipe", "transform_input: expected only with architecture: inception_v3"),
        (["judges.fidelity={neighbours: 5}"], "", "judges.fidelity.neighbours: expected fewer than"),
        (["judges.fidelity={sha256: " + "a" * 64 + "}"], "judges.fidelity", "sha256: expected only with weights"),
        (
            ["attack.reconstruction_size=32", "protocol=paper"],
            "",
            "attack.reconstruction_size: expected none under protocol paper",
        ),
        (["paper={table: 1}"], "", "paper.dataset: expected the paper's name of these synthetic data"),
        (["paper={table: 14}"], "paper.table", "expected one of"),
        (["seeds=[]"], "seeds", "expected at least 1 item, got []"),
        (["seeds={looks: [], first: 1, smallest: 0.05}"], "seeds.looks", "expected at least 1 item, got []"),
        (["seeds=[1, 1]"], "", "seeds: expected each once"),
        (["name=a/b"], "name", "expected a name of letters, digits"),
        (["experiment=dream"], "experiment", "expected one of inversion, toy, got 'dream'"),
    ],
)
def test_mistakes_are_one_line_with_file_key_expected_got(tmp_path, overrides, key, words):
    path = write(tmp_path)
    with pytest.raises(InputError) as caught:
        load_sweep(path, overrides)
    message = str(caught.value)
    assert message.startswith(f"{path}: {key}") and words in message
    assert "\n" not in message


@pytest.mark.parametrize("text", ["a: [1", "- 1\n- 2\n", "", "name: x\nname: y\n", "name: \t: {"])
def test_broken_yaml_is_one_line(tmp_path, text):
    path = tmp_path / "broken.yaml"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        load_sweep(path)
    assert str(path) in str(caught.value) and "\n" not in str(caught.value)


def test_a_shipped_sweep_is_found_by_its_name_from_anywhere(tmp_path, monkeypatch, repository):
    monkeypatch.chdir(tmp_path)
    names = list(shipped_sweeps())
    assert "quickstart" in names and names == sorted(path.stem for path in (repository / "sweeps").glob("*.yaml"))
    for name in ("quickstart", "quickstart.yaml"):
        loaded = load_sweep(Path(name), ["seeds=[7]"])
        assert loaded.sweep.seeds == (7,) and loaded.source == str(repository / "sweeps" / "quickstart.yaml")
    write(tmp_path, name="mine").rename(tmp_path / "quickstart")
    assert load_sweep(Path("quickstart")).sweep.name == "mine", "a file of that name comes first"


@pytest.mark.parametrize("override", ["recipe.epochs", "=3", "recipe.epochs=[1", "name.x=3"])
def test_bad_overrides_are_refused(tmp_path, override):
    with pytest.raises(InputError, match="--set"):
        load_sweep(write(tmp_path), [override])


def test_a_dotted_key_of_the_grid_is_set_as_a_whole(tmp_path):
    path = write(tmp_path, grid={"recipe.lr": [0.1, 0.2], "attack.steps": [3]}, baseline={"recipe.lr": 0.1})
    changed = load_sweep(path, ["grid.recipe.lr=[0.3, 0.4]", "baseline.recipe.lr=0.3", "grid.recipe.epochs=[1]"])
    assert changed.sweep.grid == {"recipe.lr": [0.3, 0.4], "attack.steps": [3], "recipe.epochs": [1]}
    assert changed.sweep.baseline == {"recipe.lr": 0.3}


def test_the_grid_multiplies_and_every_cell_is_checked(tmp_path):
    grid = {"recipe.defense.alpha": [0.1, -0.05], "attack.loss": ["poincare", "cross_entropy"]}
    cells = expand(load_sweep(write(tmp_path, grid=grid, baseline={"recipe.defense.alpha": 0.1})))
    assert [c.axes for c in cells][:2] == [
        {"alpha": 0.1, "attack_loss": "poincare"},
        {"alpha": 0.1, "attack_loss": "cross_entropy"},
    ]
    assert [c.is_baseline for c in cells] == [True, True, False, False]
    assert [c.settings.recipe.defense.final_alpha for c in cells] == [0.1, 0.1, -0.05, -0.05]
    bad = load_sweep(write(tmp_path, grid={"recipe.defense.alpha": [0.1, 2]}))
    with pytest.raises(InputError, match=r"with recipe.defense.alpha=2: recipe.defense.alpha: expected"):
        expand(bad)


@pytest.mark.parametrize(
    "changes",
    [
        {"grid": {"recipe.epochs": []}},
        {"grid": {"seeds": [[1]]}},
        {"grid": {"recipe.epochs": [1, 2]}, "baseline": {"recipe.epochs": 3}},
        {"baseline": {"recipe.epochs": 3}},
        {"grid": {"recipe.nothing": [1]}},
    ],
)
def test_grids_that_make_no_sense_are_refused(tmp_path, changes):
    loaded = load_sweep(write(tmp_path, **changes))
    with pytest.raises(InputError):
        expand(loaded)


def test_axis_names_are_short_and_unambiguous():
    names = axis_names(["recipe.lr", "attack.lr", "recipe.defense.alpha", "attack.loss"])
    assert names == {
        "recipe.lr": "recipe_lr",
        "attack.lr": "attack_lr",
        "recipe.defense.alpha": "alpha",
        "attack.loss": "attack_loss",
    }


def test_names_in_the_schema_are_those_of_the_core():
    from typing import get_args

    from smoothsweep.core.attacks.optimisation.losses import ATTACK_LOSSES
    from smoothsweep.core.attacks.ppa.config import LOSSES
    from smoothsweep.core.defenses.schedules import SCHEDULES
    from smoothsweep.core.judges.embedder import Embedder
    from smoothsweep.core.judges.general import General
    from smoothsweep.core.models.classifiers import ARCHITECTURES
    from smoothsweep.core.models.embedder_kinds import FACES, GENERAL
    from smoothsweep.core.priors.folder_settings import SHIPPED
    from smoothsweep.sweeps import attacker, attacks, defenses, judging, training

    assert set(get_args(training.Architecture)) == set(ARCHITECTURES)
    assert set(LOSSES) == set(ATTACK_LOSSES)
    for model, field, registry in (
        (defenses.Schedule, "kind", SCHEDULES),
        (attacks.schema_of("ppa"), "loss", ATTACK_LOSSES),
        (judging.schema_of(Embedder), "name", FACES),
        (judging.schema_of(General), "name", GENERAL),
        (attacker.MODELS["shipped"], "name", SHIPPED),
    ):
        assert set(get_args(model.model_fields[field].annotation)) == set(registry)


def test_defaults_are_the_papers_appendix():
    from smoothsweep.core.attacks.ppa.attack import PlugAndPlay
    from smoothsweep.core.attacks.ppa.config import CandidateConfig, OptimiseConfig, PoolConfig, SelectConfig
    from smoothsweep.core.models.recipe import TrainingRecipe
    from smoothsweep.sweeps.training import Recipe
    from smoothsweep.tasks.training import recipe_from

    assert recipe_from(Recipe().model_dump(mode="json", exclude_none=True)) == TrainingRecipe(
        architecture="resnet152", epochs=100, image_size=224
    )
    ours = PlugAndPlay()
    for stage in (CandidateConfig(), OptimiseConfig(steps=50), SelectConfig()):
        for field in dataclasses.fields(stage):
            assert getattr(ours, field.name) == getattr(stage, field.name), field.name
    pool = PoolConfig(size=2000, crop=None, image_size=224)
    assert PoolConfig(**dataclasses.asdict(ours.pool), image_size=224) == pool


def test_the_surrogates_defaults_are_the_official_ones():
    import torch

    from smoothsweep.core.data.augmentation import Augmentation
    from smoothsweep.core.judges.knowledge import Knowledge as Declared
    from smoothsweep.core.models.recipe import TrainingRecipe, learning_rate
    from smoothsweep.sweeps.judging import schema_of
    from smoothsweep.tasks.training import recipe_from

    Knowledge = schema_of(Declared)
    default = Knowledge()
    ours = recipe_from(default.model_dump(mode="json", exclude_none=True))
    assert ours == TrainingRecipe(
        architecture="resnet50",
        epochs=75,
        batch_size=32,
        optimizer="sgd",
        lr=0.1,
        momentum=0.9,
        weight_decay=1e-4,
        lr_schedule="cosine",
        lr_min=1e-4,
        image_size=224,
        precision="fp32",
        augmentation=Augmentation.none().replace(crop_scale=(0.8, 1.0), crop_ratio=(1.0, 1.0), flip=0.5),
    )
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.1)
    annealing = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=75, eta_min=1e-4)
    for epoch in range(75):
        assert learning_rate(ours, epoch) == pytest.approx(optimizer.param_groups[0]["lr"])
        optimizer.step()
        annealing.step()
    assert default.pretrained
    other = Knowledge(optimizer="adam", lr_schedule="multistep")
    assert (other.momentum, other.lr_min) == (None, None)


@pytest.mark.parametrize(
    "name", ["quickstart.yaml", "lfw.yaml", "toy.yaml", "attacks_small.yaml", "attacks_small_lfw.yaml"]
)
def test_shipped_sweeps_load_and_open_with_what_they_show(repository, name):
    loaded = load_sweep(repository / "sweeps" / name)
    assert expand(loaded)
    for word in ("Hardware", "Expect"):
        assert word in loaded.intro


def test_the_small_attacks_are_the_same_on_drawn_people_and_on_faces(repository):
    drawn, faces = (
        yaml.safe_load((repository / "sweeps" / f"attacks_small{end}.yaml").read_text()) for end in ("", "_lfw")
    )
    for key in ("seeds", "recipe", "prior", "attack", "grid", "baseline"):
        assert drawn[key] == faces[key]
    assert len(drawn["classes"]) == len(faces["classes"])
    assert drawn["judges"]["evaluator"] == faces["judges"]["evaluator"]


@pytest.mark.parametrize("key", ["recipe", "judges.evaluator"])
def test_a_network_of_at_most_a_thousand_classes_is_refused_where_it_stands(key):
    raw = tiny_sweep(**{"grid": {}, "baseline": {}})
    set_dotted(raw, "data.identities", 1001, where="test")
    for name, value in (("architecture", "inception_v3"), ("image_size", 299)):
        set_dotted(raw, f"{key}.{name}", value, where="test")
    with pytest.raises(InputError, match=rf"^s: {key}.architecture: expected at most 1000 classes with inception_v3"):
        check(raw, "s")
    set_dotted(raw, "data.identities", 1000, where="test")
    assert check(raw, "s")
