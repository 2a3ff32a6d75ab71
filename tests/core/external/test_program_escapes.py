"""What a program of torch from outside could try beside computing: it is refused before anything of it runs."""

import io
import json
import pickle
import zipfile

import pytest
import torch
from torch import nn

from smoothsweep.core.errors import InputError
from smoothsweep.core.external.kinds import kind_of_file
from smoothsweep.core.external.model import ExternalModel
from smoothsweep.core.external.opening import open_external
from smoothsweep.core.models.normalisation import USUAL
from tests.core.external.test_programs import pictures
from tests.made_programs import Shades, exported, torchscript

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def network():
    return Shades(torch.linspace(-1, 1, 4)).eval()


@pytest.fixture(scope="module")
def program(network, tmp_path_factory):
    return exported(network, tmp_path_factory.mktemp("exported") / "program.pt2")


def rewritten(path, out, change):
    """The archive with members changed: name -> bytes, None to drop it."""
    with zipfile.ZipFile(path) as source, zipfile.ZipFile(out, "w") as target:
        root = source.namelist()[0].partition("/")[0]
        members = {entry.filename.partition("/")[2]: source.read(entry) for entry in source.infolist()}
        for name, content in {**members, **change(members)}.items():
            if content is not None:
                target.writestr(f"{root}/{name}", content)
    return out


class Saving(nn.Module):
    def forward(self, images: torch.Tensor) -> torch.Tensor:
        torch.save(images, "stolen")
        return images.mean((2, 3))


class Reading(nn.Module):
    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return images.mean((2, 3)) + torch.from_file("secret", size=3)


class ReadingWhenLoaded(nn.Module):
    """TorchScript runs `__setstate__` while it loads."""

    def __init__(self) -> None:
        super().__init__()
        self.held = torch.zeros(3)

    @torch.jit.export
    def __getstate__(self) -> tuple[torch.Tensor, bool]:
        return self.held, self.training

    @torch.jit.export
    def __setstate__(self, state: tuple[torch.Tensor, bool]) -> None:
        self.held = torch.from_file("made", shared=True, size=3)
        self.training = state[1]

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return images.mean((2, 3)) + self.held


@pytest.mark.parametrize("network", [Saving(), Reading(), ReadingWhenLoaded()])
def test_a_script_that_reaches_files_is_refused_before_anything_of_it_runs(network, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = torchscript(network, tmp_path / "evil.pt")
    with pytest.raises(InputError, match="which is not listed as arithmetic"):
        open_external("torchscript", path, {}, CPU)
    assert [one.name for one in tmp_path.iterdir()] == ["evil.pt"]


def graph_with(change):
    def changed(members):
        graph = json.loads(members["models/model.json"])
        change(graph)
        return {"models/model.json": json.dumps(graph).encode()}

    return changed


def set_target(text):
    return graph_with(lambda graph: graph["graph_module"]["graph"]["nodes"][0].update(target=text))


def set_formula(graph):
    values = graph["graph_module"]["graph"]["tensor_values"]
    symbol = next(size["as_expr"] for one in values.values() for size in one["sizes"] if "as_expr" in size)
    symbol["expr_str"] = "__import__('os').system('true')"


def set_name(graph):
    graph["graph_module"]["graph"]["nodes"][0]["name"] = "x = __import__('os')"


def pickled(config, file):
    def changed(members):
        described = json.loads(members[config])
        described["config"]["evil"] = {"path_name": file, "is_param": False, "use_pickle": True, "tensor_meta": None}
        return {config: json.dumps(described).encode(), f"{config.rpartition('/')[0]}/{file}": b""}

    return changed


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (set_target("torch.hub.load"), "of torch.ops.aten that are listed as arithmetic, got torch.hub.load"),
        (set_target("torch.ops.aten.from_file.default"), "expected operations of torch.ops.aten"),
        (set_target("#anything"), "expected operations of torch.ops.aten"),
        (graph_with(set_formula), "expected a size as a plain formula"),
        (graph_with(set_name), "expected a name"),
        (pickled("data/weights/model_weights_config.json", "weight_0"), "expected raw numbers, got something pickled"),
        (pickled("data/constants/model_constants_config.json", "custom_obj_0"), "got something pickled"),
        (lambda members: {"models/model.json": b"[]"}, "expected an object in JSON, got list"),
        (lambda members: {"archive_version": None}, "got an archive without archive_version"),
    ],
)
def test_an_exported_program_of_more_than_arithmetic_is_refused(program, tmp_path, change, line):
    path = rewritten(program, tmp_path / "evil.pt2", change)
    with pytest.raises(InputError, match=line):
        open_external("torch_export", path, {}, CPU)


class Bomb:
    def __reduce__(self):
        return exec, ("raise SystemExit('unpickled')",)


def test_sample_inputs_and_guards_of_an_exported_program_are_never_read(program, network, tmp_path):
    def change(members):
        samples = io.BytesIO()
        torch.save(Bomb(), samples)
        graph = graph_with(lambda graph: graph.update(guards_code=["raise SystemExit('run')"]))(members)
        bombs = {"data/sample_inputs/model.pt": samples.getvalue(), "data/weights/model.pt": pickle.dumps(Bomb())}
        return {**bombs, **graph}

    path = rewritten(program, tmp_path / "evil.pt2", change)
    images = pictures(3)
    outside = ExternalModel(
        open_external("torch_export", path, {}, CPU),
        answers="logits",
        access="gradients",
        num_classes=4,
        normalisation=USUAL["inputs in [-1, 1]"],
        where="here",
    )
    torch.testing.assert_close(outside(images), network(images))


def test_what_is_no_program_is_one_line(tmp_path):
    path = tmp_path / "noise.pt"
    path.write_bytes(b"PK\x03\x04 nothing")
    assert kind_of_file(path) is None
    for kind in ("torchscript", "torch_export"):
        with pytest.raises(InputError, match="expected a"):
            open_external(kind, path, {}, CPU)
    torch.save({"a": torch.zeros(1)}, tmp_path / "weights.pth")
    assert kind_of_file(tmp_path / "weights.pth") is None
