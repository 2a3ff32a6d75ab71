"""Programs in files: what they answer, of which form their images are, what depends on more than the picture, and the
wall behind which they run."""

import json
import os
import zipfile
from functools import cache

import onnx
import pytest
import torch
from torch import nn

from smoothsweep.core.errors import InputError
from smoothsweep.core.external.kinds import KINDS, kind_of_file
from smoothsweep.core.external.model import ExternalModel, try_external
from smoothsweep.core.models.inference import USUAL
from tests.made_onnx import as_onnx
from tests.made_programs import Deciding, Shades, Softmaxed, exported, torchscript

IGNORED = ("DeprecationWarning", "UserWarning", "torch.jit.TracerWarning")  # of torch's own, of formats in use
pytestmark = [pytest.mark.filterwarnings(f"ignore::{kind}") for kind in IGNORED]
CPU, OURS, CLASSES, SIDE = torch.device("cpu"), USUAL["inputs in [-1, 1]"], 4, 32


@pytest.fixture(scope="module")
def network():
    return Shades(torch.linspace(-1, 1, CLASSES)).eval()


def pictures(count, seed=0):
    shades = torch.linspace(-1, 1, count)[:, None, None, None]
    noise = torch.rand(count, 3, SIDE, SIDE, generator=torch.Generator().manual_seed(seed))
    return (shades + 0.2 * noise - 0.1).clamp(-1, 1)


@cache
def opened(path, access=None):
    """The file's program, in one process for all tests that ask it: each takes seconds to start."""
    return KINDS[kind_of_file(path)].open(path, {} if access is None else {"access": access}, CPU)


@pytest.fixture(scope="module", autouse=True)
def _ended():
    yield
    opened.cache_clear()


def found_of(path, answers="logits", **more):
    how = {"num_classes": CLASSES, "image_size": SIDE, "normalisation": OURS, "where": "here"}
    return try_external(opened(path), answers=answers, **{**how, **more})


def model_of(path, found, answers="logits", **more):
    """The program as a card has it."""
    card = {name: value for name, value in vars(found).items() if value is not None}
    made = KINDS[kind_of_file(path)].open(path, card, CPU)
    how = {"access": found.access, "num_classes": CLASSES, "normalisation": OURS, "where": "here"}
    return ExternalModel(made, answers=answers, **{**how, **more})


def agrees(path, network, found, **more):
    """It answers as the network, each picture alone and among others, with gradients as far as they are given."""
    model, images = model_of(path, found, **more), pictures(5).requires_grad_(True)
    answer, wanted = model(images), network(images)
    torch.testing.assert_close(answer, wanted, rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(model(images[3:4]), answer[3:4], rtol=1e-4, atol=1e-4)
    if found.access == "gradients":
        (got,), (right,) = (torch.autograd.grad(one[:, 1].sum(), images) for one in (answer, wanted))
        torch.testing.assert_close(got, right, rtol=1e-2, atol=1e-5)


ENDS = {"logits": lambda network: network, "probabilities": Softmaxed, "labels": Deciding}


@pytest.mark.parametrize("answers", ENDS)
@pytest.mark.parametrize("make", [torchscript, exported])
def test_a_program_gives_what_its_answers_are(network, tmp_path, make, answers):
    path = make(ENDS[answers](network), tmp_path / "program.pt")
    found = found_of(path, answers)
    assert (found.access, found.rows) == ("labels" if answers == "labels" else "gradients", None)
    model = model_of(path, found, answers)
    assert torch.equal(model(pictures(9)).argmax(1), network(pictures(9)).argmax(1))


class Formed(nn.Module):
    """The network behind images of another form."""

    def __init__(self, network: nn.Module, form: str) -> None:
        super().__init__()
        self.network, self.form = network, form

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        if "nhwc" in self.form:
            images = images.permute(0, 3, 1, 2)
        wanted = 1 if "grey" in self.form else 3
        if images.shape[1] != wanted:
            raise ValueError("another number of channels")
        return self.network(images.expand(-1, 3, -1, -1))


class Luminance(nn.Module):
    """What a network of grey pictures answers to coloured ones."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.network((images * torch.tensor([0.299, 0.587, 0.114])[:, None, None]).sum(1, keepdim=True))


def shaped_export(network, form, path):
    shape = (2, SIDE, SIDE, 1 if "grey" in form else 3)
    example = torch.zeros(shape if "nhwc" in form else (2, shape[3], SIDE, SIDE))
    dynamic = ({0: torch.export.Dim("rows", min=1, max=64)},)
    torch.export.save(torch.export.export(network, (example,), dynamic_shapes=dynamic), path)
    return path


@pytest.mark.parametrize("form", ["nhwc", "grey nchw", "grey nhwc"])
@pytest.mark.parametrize("kind", ["torchscript", "torch_export"])
def test_images_of_another_form_are_arranged_and_the_card_says_so(network, tmp_path, kind, form):
    """Of torch.export the file says the form; of TorchScript it is tried."""
    formed = Formed(network, form).eval()
    path = tmp_path / "formed.pt"
    torchscript(formed, path) if kind == "torchscript" else shaped_export(formed, form, path)
    found = found_of(path)
    assert (found.layout, found.access, found.rows) == (form, "gradients", None)
    agrees(path, Luminance(network) if "grey" in form else network, found)


def test_a_graph_of_grey_pictures_last_channel_first_is_read_from_its_shape(network, tmp_path):
    path = as_onnx(network, tmp_path / "model.onnx")
    model = onnx.load(path)
    for place, value in zip((1, 2, 3), (SIDE, SIDE, 1), strict=True):
        model.graph.input[0].type.tensor_type.shape.dim[place].dim_value = value
    onnx.save(model, path)
    found = found_of(path)
    assert found.layout == "grey nhwc" and opened(path).side == SIDE
    agrees(path, Luminance(network), found)


@pytest.mark.parametrize("kind", ["torchscript", "frozen", "torch_export"])
def test_a_program_of_bfloat16_is_given_such_numbers(tmp_path, kind):
    torch.manual_seed(0)
    low = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, CLASSES))
    low, path = low.bfloat16().eval(), tmp_path / "low.pt"
    if kind == "torch_export":
        torch.export.save(torch.export.export(low, (torch.zeros(2, 3, SIDE, SIDE, dtype=torch.bfloat16),)), path)
    else:
        script = torch.jit.trace(low, torch.zeros(2, 3, SIDE, SIDE, dtype=torch.bfloat16))
        (torch.jit.freeze(script) if kind == "frozen" else script).save(path)
    found = found_of(path)
    assert found.dtype == "bfloat16" and found.access == "gradients"
    with torch.no_grad():
        wanted = low(pictures(4).bfloat16()).float()
        torch.testing.assert_close(model_of(path, found)(pictures(4)), wanted, rtol=0.05, atol=0.05)


class Baked(nn.Module):
    """A network that was traced with so many images."""

    def __init__(self, network: nn.Module, rows: int) -> None:
        super().__init__()
        self.network, self.rows = network, rows

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.network(images.reshape(self.rows, 3, 32, 32))


@pytest.mark.parametrize("rows", [1, 7])
def test_a_baked_batch_size_is_found_and_asked_for(network, tmp_path, rows):
    """Seven is on no list, but the program's own error says it."""
    path = torchscript(Baked(network, rows).eval(), tmp_path / "baked.pt")
    found = found_of(path)
    assert found.rows == rows
    agrees(path, network, found)


def test_a_batch_size_and_a_side_that_the_file_says(network, tmp_path):
    for path in (exported(network, tmp_path / "a.pt2", rows=2), as_onnx(network, tmp_path / "a.onnx", rows=2)):
        found = found_of(path)
        assert found.rows == 2
        agrees(path, network, found)
        with pytest.raises(InputError, match="--image-size: expected 32, which here takes, got 64"):
            found_of(path, image_size=64)


class More(nn.Module):
    """A network with further outputs: those at `places` are nobody."""

    def __init__(self, network: nn.Module, places: list[int], end: str) -> None:
        super().__init__()
        self.network, self.end = network, end
        order = [place for place in range(CLASSES + len(places)) if place not in places]
        self.register_buffer("into", torch.eye(CLASSES + len(places))[order])
        self.register_buffer("more", torch.eye(CLASSES + len(places))[places].sum(0))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        answer = self.network(images) @ self.into + self.more
        if self.end == "labels":
            return answer.argmax(1)
        return answer.softmax(1) if self.end == "probabilities" else answer


@pytest.mark.parametrize("places", [[4], [2, 0]])
@pytest.mark.parametrize("answers", ["logits", "probabilities"])
def test_outputs_that_are_nobody_are_left_out(network, tmp_path, answers, places):
    path = torchscript(More(network, places, answers).eval(), tmp_path / "more.pt")
    with pytest.raises(InputError, match="nobody are named by --leave-out"):
        found_of(path, answers)
    found = found_of(path, answers, leave_out=places)
    model = model_of(path, found, answers, leave_out=places)
    torch.testing.assert_close(model(pictures(5)).softmax(1), network(pictures(5)).softmax(1), rtol=1e-3, atol=1e-4)


def test_a_label_that_is_nobody_accepts_no_one(network, tmp_path):
    path = torchscript(More(network, [0], "labels").eval(), tmp_path / "more.pt")
    model = model_of(path, found_of(path, "labels", leave_out=[0]), "labels", leave_out=[0])
    logits = model(pictures(9))
    named = torch.where(logits.amax(1) >= model.opened.accepts, logits.argmax(1), -1)
    true = More(network, [0], "labels")(pictures(9)) - 1
    assert torch.equal(named, true) and {-1} < set(true.tolist())


@pytest.mark.parametrize("end", ["column", "flat"])
@pytest.mark.parametrize("answers", ["logits", "probabilities"])
def test_a_single_number_is_the_second_of_two_classes(tmp_path, answers, end):
    class One(nn.Module):
        def forward(self, images: torch.Tensor) -> torch.Tensor:
            return 8 * images.mean((1, 2, 3))

    class Ended(nn.Module):
        def __init__(self, sigmoid: bool, flat: bool) -> None:
            super().__init__()
            self.inner, self.sigmoid, self.flat = One(), sigmoid, flat

        def forward(self, images: torch.Tensor) -> torch.Tensor:
            answer = self.inner(images)
            answer = answer.sigmoid() if self.sigmoid else answer
            return answer if self.flat else answer[:, None]

    path = torchscript(Ended(answers == "probabilities", end == "flat"), tmp_path / "one.pt")
    found = found_of(path, answers, num_classes=2)
    logits = model_of(path, found, answers, num_classes=2)(pictures(5))
    torch.testing.assert_close(logits[:, 1] - logits[:, 0], One()(pictures(5)), rtol=1e-3, atol=1e-3)


class Trained(nn.Module):
    """A network with a layer that is different in training."""

    def __init__(self, layer: nn.Module, flat: bool = False) -> None:
        super().__init__()
        self.stem, self.layer, self.head, self.flat = nn.Conv2d(3, 4, 3, 4), layer, nn.Linear(4, CLASSES), flat

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        maps = self.stem(images)
        if self.flat:
            return self.head(self.layer(maps.mean((2, 3))))
        return self.head(self.layer(maps).mean((2, 3)))


LAYERS = {
    "batch_norm": (lambda: Trained(nn.BatchNorm2d(4)), "depend on the other images of a batch"),
    "batch_norm_of_features": (lambda: Trained(nn.BatchNorm1d(4), flat=True), "depend on the other images of a batch"),
    "dropout": (lambda: Trained(nn.Dropout(0.3)), "another the second time"),
}


def saved(network, kind, path):
    example, rows = torch.zeros(4, 3, SIDE, SIDE), {0: torch.export.Dim("rows", min=2, max=64)}
    if kind == "torchscript":
        torch.jit.trace(network, example, check_trace=False).save(path)
    elif kind == "torch_export":
        torch.export.save(torch.export.export(network, (example,), dynamic_shapes=(rows,)), path)
    else:
        names, mode = ["x"], torch.onnx.TrainingMode
        how = {"input_names": names, "dynamic_axes": {"x": {0: "n"}}, "dynamo": False, "opset_version": 17}
        training = mode.TRAINING if network.training else mode.EVAL
        torch.onnx.export(network, (example,), path, training=training, do_constant_folding=False, **how)
    return path


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("kind", ["torchscript", "torch_export", "onnx"])
def test_a_program_exported_in_training_mode_is_refused_and_in_evaluation_mode_taken(tmp_path, kind, layer):
    torch.manual_seed(0)
    make, line = LAYERS[layer]
    suffix = "onnx" if kind == "onnx" else "pt"
    network = make()
    path = saved(network.train(), kind, tmp_path / f"training.{suffix}")
    if (kind, layer) == ("onnx", "dropout"):  # onnxruntime takes it out: the answers are those of evaluation
        return agrees(path, network.eval(), found_of(path))
    with pytest.raises(InputError, match=line):
        found_of(path)
    assert found_of(saved(network.eval(), kind, tmp_path / f"evaluation.{suffix}")).rows is None


def test_a_defense_that_draws_noise_on_purpose_says_so(network, tmp_path):
    class Noisy(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.network = network

        def forward(self, images: torch.Tensor) -> torch.Tensor:
            answer = self.network(images)
            return answer + torch.randn_like(answer)

    path = torchscript(Noisy(), tmp_path / "noisy.pt")
    with pytest.raises(InputError, match="--random-answers"):
        found_of(path)
    assert found_of(path, random=True).access == "gradients"


FORWARD = """
def forward(self, images: Tensor) -> Tensor:
    BODY
    return images.mean((2, 3))
"""
ATTEMPTS = {
    "write": ("torch.save(images, '{marker}')", None),  # which says nothing of a file that it cannot open
    "make_by_mapping": ("images = images + torch.from_file('{marker}', True, 4).sum()", "got: "),
    "read": ("images = images + torch.from_file('{secret}', False, 4).sum()", "got: "),
    "memory": ("images = images + torch.zeros([1024, 1024, 1024, 8]).sum()", "got: no memory left"),
    "for_ever": ("while bool(images.sum() < 1e30):\n        images = images * 1.0", "within 2 s"),
}


@pytest.mark.parametrize("attempt", ATTEMPTS)
def test_a_script_that_does_more_than_compute_has_done_nothing(tmp_path, monkeypatch, attempt):
    """torch itself lets a script write and map files, as is tried here first; the isolated process does not."""
    code, line = ATTEMPTS[attempt]
    marker, secret, path = tmp_path / "marker", tmp_path / "secret", tmp_path / "program.pt"
    secret.write_bytes(b"x" * 16)
    holder = torch.jit.script(type("Holder", (nn.Module,), {})())
    holder.define(FORWARD.replace("BODY", code.format(marker=marker, secret=secret)))
    holder.save(path)
    if attempt in ("write", "make_by_mapping", "read"):
        torch.jit.load(path)(torch.zeros(1, 3, 4, 4))
        assert marker.exists() == (attempt != "read")
        marker.unlink(missing_ok=True)
    if attempt == "for_ever":
        monkeypatch.setenv("SMOOTHSWEEP_PROGRAM_SECONDS", "2")
    monkeypatch.setenv("SMOOTHSWEEP_PROGRAM_GIB", "2")
    program = KINDS["torchscript"].open(path, {"access": "scores"}, CPU).answer
    if line is None:
        program(torch.zeros(1, 3, 4, 4))
    else:
        with pytest.raises(InputError, match=line) as refused:
            program(torch.zeros(1, 3, 4, 4))
        assert "\n" not in str(refused.value)
    assert not marker.exists() and secret.read_bytes() == b"x" * 16


def changed(path, out, name, change):
    """The archive with one member changed."""
    with zipfile.ZipFile(path) as source, zipfile.ZipFile(out, "w") as target:
        for entry in source.infolist():
            content = source.read(entry)
            target.writestr(entry.filename, change(content) if entry.filename.endswith(name) else content)
    return out


class Evil:
    """Makes a folder when it is unpickled."""

    def __init__(self, place):
        self.place = place

    def __reduce__(self):
        return (os.mkdir, (str(self.place),))


def test_what_an_exported_program_would_have_python_do_is_not_done(network, tmp_path):
    """A formula that is code runs in the process, which may not; what is pickled is read by a list of names."""
    good, marker = exported(network, tmp_path / "good.pt2"), tmp_path / "marker"

    def with_code(content):
        tree = json.loads(content)
        code = f"__import__('os').mkdir('{marker}')"
        text = json.dumps(tree).replace('"expr_str": "', f'"expr_str": "{code} or ')
        assert code in text
        return text.encode()

    def pickled(content):
        torch.save(Evil(marker), tmp_path / "evil")
        return (tmp_path / "evil").read_bytes()

    def as_pickle(content):
        return content.replace(b'"use_pickle": false', b'"use_pickle": true')

    formula = changed(good, tmp_path / "formula.pt2", "models/model.json", with_code)
    weights = changed(good, tmp_path / "weights.pt2", "model_weights_config.json", as_pickle)
    weights = changed(weights, tmp_path / "pickled.pt2", "weight_0", pickled)
    samples = changed(good, tmp_path / "samples.pt2", "sample_inputs/model.pt", pickled)
    for path in (formula, weights, samples):
        with pytest.raises(InputError) as refused:
            KINDS["torch_export"].open(path, {}, CPU)
        assert str(refused.value).startswith(f"{path}: expected a program of torch.export, got: ")
        assert "\n" not in str(refused.value) and not marker.exists()


def test_weights_in_another_file_are_named_with_what_to_do(network, tmp_path):
    path = as_onnx(network, tmp_path / "model.onnx")
    model = onnx.load(path)
    onnx.save(model, path, save_as_external_data=True, location="beside.data", size_threshold=0)
    assert (tmp_path / "beside.data").is_file()
    with pytest.raises(InputError, match=r"weights that lie in beside\.data: write one file") as refused:
        KINDS["onnx"].open(path, {}, CPU)
    assert "\n" not in str(refused.value)


def test_several_inputs_or_outputs_are_one_line(network, tmp_path):
    class Two(nn.Module):
        def forward(self, images: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return images.mean((2, 3)), images

    with pytest.raises(InputError, match=r"one input of images .* and one output, got 1 inputs.* and 2 outputs"):
        KINDS["torch_export"].open(exported(Two(), tmp_path / "two.pt2"), {}, CPU)
    path = torchscript(Two(), tmp_path / "two.pt")
    with pytest.raises(InputError, match="expected one tensor, got tuple"):
        found_of(path)
