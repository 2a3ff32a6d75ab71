"""Numbers through another process: the same ones, bit by bit, forward and backward."""

import warnings

import pytest
import torch
import torchvision
from torch import nn

from smoothsweep.core.errors import InputError
from smoothsweep.core.external.programs import TorchExport, TorchScript
from smoothsweep.core.isolation import worker as wire

CPU, SIDE = torch.device("cpu"), 48


@pytest.fixture(scope="module")
def network():
    torch.manual_seed(3)
    network = torchvision.models.resnet18(num_classes=11).eval().requires_grad_(False)
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean.normal_(0, 0.1)
            module.running_var.uniform_(0.5, 1.5)
    return network


@pytest.fixture(scope="module")
def opened(network, tmp_path_factory):
    """kind -> a function that opens it here, and the program in its own process."""
    root = tmp_path_factory.mktemp("programs")
    with warnings.catch_warnings(action="ignore"):
        torch.jit.script(network).save(root / "script.pt")
        example = (torch.zeros(2, 3, SIDE, SIDE),)
        torch.export.save(
            torch.export.export(network, example, dynamic_shapes=({0: torch.export.Dim("n", min=1, max=4096)},)),
            root / "exported.pt2",
        )

    def here(kind):
        with warnings.catch_warnings(action="ignore"):
            if kind == "torchscript":
                script = torch.jit.load(root / "script.pt").eval()
                for parameter in script.parameters():
                    parameter.requires_grad_(False)
                return script
            return torch.export.load(root / "exported.pt2").module(check_guards=False).requires_grad_(False)

    there = {
        "torchscript": TorchScript.open(root / "script.pt", {}, CPU).answer,
        "torch_export": TorchExport.open(root / "exported.pt2", {}, CPU).answer,
    }
    return {kind: (here, program) for kind, program in there.items()}


def pictures(rows, seed, layout=torch.contiguous_format):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(rows, 3, SIDE, SIDE, generator=generator).to(memory_format=layout)


LOSSES = {
    "expanded": lambda answer: answer.sum(),
    "dense": lambda answer: answer.square().sum(),
    "column": lambda answer: answer[:, 3].exp().sum(),
    "transposed": lambda answer: (answer.T.contiguous() * torch.arange(answer.numel()).reshape(answer.T.shape)).sum(),
    "classes": lambda answer: nn.functional.cross_entropy(answer, torch.arange(len(answer)) % 11),
}


@pytest.mark.parametrize("kind", ["torchscript", "torch_export"])
def test_answers_and_gradients_are_the_same_to_the_bit(opened, kind):
    """Over calls in a row, as an attack makes them: TorchScript optimises a program after its first ones."""
    make, there = opened[kind]
    here, seed = make(kind), 0
    for rows in (1, 5, 5, 2):
        for loss in LOSSES.values():
            for layout in (torch.contiguous_format, torch.channels_last):
                seed += 1
                images = [pictures(rows, seed, layout).requires_grad_(True) for _ in range(2)]
                answers = [ask(one) for ask, one in zip((here, there), images, strict=True)]
                assert torch.equal(*answers) and answers[0].stride() == answers[1].stride()
                gradients = [
                    torch.autograd.grad(loss(answer), one)[0] for answer, one in zip(answers, images, strict=True)
                ]
                assert torch.equal(*gradients) and gradients[0].abs().sum() > 0


def test_precision_threads_and_grad_mode_are_those_of_the_place_that_asks(opened):
    make, there = opened["torchscript"]
    here, images = make("torchscript"), pictures(4, 99)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        low = [ask(images) for ask in (here, there)]
    assert low[0].dtype == torch.bfloat16 and torch.equal(*low)
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        assert torch.equal(here(images), there(images))
    finally:
        torch.set_num_threads(before)
    with torch.no_grad():
        assert not there(images.clone().requires_grad_(True)).requires_grad
    assert not there(images).requires_grad and there(images.clone().requires_grad_(True)).requires_grad
    with torch.inference_mode():
        assert torch.equal(there(images), here(images))


def test_a_graph_is_kept_as_long_as_it_can_be_asked_for(opened):
    make, there = opened["torchscript"]
    here = make("torchscript")
    images = [pictures(2, 5).requires_grad_(True) for _ in range(2)]
    answers = [ask(one) for ask, one in zip((here, there), images, strict=True)]
    for keep in (True, True, False):
        first, second = (
            torch.autograd.grad(answer.square().sum(), one, retain_graph=keep)[0]
            for answer, one in zip(answers, images, strict=True)
        )
        assert torch.equal(first, second)
    for answer, one in zip(answers, images, strict=True):
        with pytest.raises(RuntimeError, match="backward through the graph a second time"):
            torch.autograd.grad(answer.square().sum(), one)


def test_second_derivatives_are_refused_in_words(opened):
    _, there = opened["torchscript"]
    images = pictures(2, 9).requires_grad_(True)
    [gradient] = torch.autograd.grad(there(images).square().sum(), images, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        gradient.sum().backward()


def test_images_of_another_form_are_one_line_and_the_next_ones_are_answered(opened):
    for _, there in opened.values():
        with pytest.raises(InputError, match=r"expected answers to images \[2, 5, 48, 48\], got: "):
            there(torch.zeros(2, 5, SIDE, SIDE))
        assert there(pictures(2, 1)).shape == (2, 11)


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.randn(3, 4),
        lambda: torch.randn(3, 4).T,
        lambda: torch.randn(1, 4).expand(3, 4),
        lambda: torch.randn(()),
        lambda: torch.randn(()).expand(2, 3),
        lambda: torch.randn(0, 3),
        lambda: torch.randn(6, 8)[::2, 1:],
        lambda: torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last),
        lambda: torch.arange(5),
        lambda: torch.ones(2) > 0,
        lambda: torch.randn(4).bfloat16(),
        lambda: torch.randn(2, 1, 3)[:, :1].expand(2, 5, 3),
        lambda: torch.randn(3, 1, 1)[::2],
    ],
)
def test_a_tensor_arrives_as_it_was_sent(make):
    import socket

    ours, theirs = socket.socketpair()
    torch.manual_seed(0)
    tensor = make()
    wire.send(ours, {"a": 1}, tensor)
    header, got = wire.receive(theirs)
    assert header == {"a": 1} and torch.equal(got, tensor) and got.dtype == tensor.dtype
    if tensor.numel() and (tensor.is_contiguous() or 0 in tensor.stride() or tensor.stride() == (1, 4)):
        assert got.stride() == tensor.stride()


@pytest.mark.parametrize(
    "described",
    [
        {},
        3,
        {"dtype": "object", "size": [1], "stride": [1]},
        {"dtype": "float32", "size": [-1], "stride": [1]},
        {"dtype": "float32", "size": [2, 2], "stride": [1]},
        {"dtype": "float32", "size": [2], "stride": [10**9]},
        {"dtype": "float32", "size": [10**9] * 5, "stride": [1] * 5},
        {"dtype": "float32", "size": [1.5], "stride": [1]},
        {"dtype": "float32", "size": [1] * 9, "stride": [1] * 9},
        {"dtype": ["float32"], "size": [1], "stride": [1]},
        {"dtype": "float32", "size": [2], "stride": [0]},
        {"dtype": "float32", "size": [10**12], "stride": [1]},
        {"dtype": "float32", "size": [2], "stride": [1], "expanded": [3, 3]},
        {"dtype": "float32", "size": [2], "stride": [1], "expanded": [3]},
        {"dtype": "float32", "size": [1], "stride": [1], "expanded": [10**9]},
    ],
)
def test_what_describes_no_tensor_is_refused_before_memory_is_taken(described):
    import json
    import socket
    import struct

    ours, theirs = socket.socketpair()
    text = json.dumps({"tensor": described}).encode()
    ours.sendall(struct.pack("<I", len(text)) + text + b"\0" * 64)
    with pytest.raises(wire.WireError):
        wire.receive(theirs, most_bytes=2**20)
