"""A part made under Ray Train is the one made alone; Ray Train itself is replaced by one rank, here."""

import pytest
import torch
from safetensors.torch import load_file

from smoothsweep.tasks.context import TaskContext
from smoothsweep.tasks.parts import make_part
from tests.one_rank import Elsewhere, Killed, one_rank

SETTINGS = {
    "general_gan": {"width": 2, "epochs": 2, "batch_size": 6, "critic_steps": 2, "z_dim": 4},
    "students": {"architectures": ["resnet_small", "vgg_small"], "pretrained": False, "epochs": 2, "batch_size": 10},
}


@pytest.fixture(scope="module")
def stage(clean):
    """Part -> its configuration and inputs."""
    inputs = {"public": clean.folder("attack.prior.public"), "target": clean.folder("target")}

    def find(part, workers):
        config = {"part": part, "settings": SETTINGS[part], "image_size": 32, "protocol": "clean", "workers": workers}
        return config, inputs if part == "students" else {"public": inputs["public"]}

    return find


@pytest.fixture(scope="module")
def alone(stage, tmp_path_factory):
    """Part -> what one process makes: metrics and files."""
    return {part: made(*stage(part, 1), tmp_path_factory.mktemp("alone")) for part in SETTINGS}


def made(config, inputs, folder, **context):
    work, out = folder / "work", folder / "out"
    for place in (work, out):
        place.mkdir(exist_ok=True)
    metrics = make_part(config, inputs, out, TaskContext(work=work, **context))
    return metrics, {path.name: load_file(path) for path in sorted(out.glob("*.safetensors"))}


def same(one, other):
    (metrics, files), (expected, known) = one, other
    assert {**expected, "rows_halved": None} == {**metrics, "rows_halved": None} and files.keys() == known.keys()
    for name, tensors in files.items():
        assert all(torch.equal(value.nan_to_num(), known[name][key].nan_to_num()) for key, value in tensors.items())


@pytest.mark.parametrize("part", list(SETTINGS))
def test_a_rank_makes_the_same_part_also_after_it_was_lost(part, stage, alone, tmp_path, monkeypatch):
    config, inputs = stage(part, 2)
    with one_rank(monkeypatch, killed_after=3), pytest.raises(Killed):
        made(config, inputs, tmp_path)
    with one_rank(monkeypatch) as asked:
        together = made(config, inputs, tmp_path)
    same(together, alone[part])
    [trainer] = asked
    assert trainer.scaling.num_workers == 2 and trainer.torch.backend == "gloo" and trainer.reports


def test_a_rank_on_another_machine_is_brought_every_input(stage, alone, tmp_path, monkeypatch):
    shared = Elsewhere(tmp_path / "there")
    with one_rank(monkeypatch):
        together = made(*stage("students", 2), tmp_path, shared=shared)
    same(together, alone["students"])
    assert len(list((tmp_path / "there" / "inputs").iterdir())) == 2
