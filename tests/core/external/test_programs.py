"""Programs of torch: the network's own answers come back, below and with gradients."""

from functools import cache

import pytest
import torch
from torch import nn

from smoothsweep.core.attacks.shared.execution import Execution, PreparedTarget
from smoothsweep.core.attacks.shared.view import GradientView, LabelView, ScoreView, view_of
from smoothsweep.core.devices import ExecutionConfig
from smoothsweep.core.errors import InputError
from smoothsweep.core.external.kinds import kind_of_file
from smoothsweep.core.external.model import ExternalModel
from smoothsweep.core.external.opening import open_external, try_external
from smoothsweep.core.external.reading import is_distribution
from smoothsweep.core.models.normalisation import USUAL
from tests.foreign_classifier import SIDE
from tests.made_programs import Deciding, Shades, Softmaxed, exported, torchscript

CPU = torch.device("cpu")
IMAGENET, OURS = USUAL["ImageNet mean/std"], USUAL["inputs in [-1, 1]"]
CLASSES = 4


@pytest.fixture(scope="module")
def network():
    return Shades(torch.linspace(-1, 1, CLASSES)).eval()


@pytest.fixture(scope="module")
def files(network, tmp_path_factory):
    """kind and answers -> file."""
    root = tmp_path_factory.mktemp("programs")
    made = {"logits": network, "probabilities": Softmaxed(network), "labels": Deciding(network)}
    found = {("torchscript", answers): torchscript(one, root / f"{answers}.pt") for answers, one in made.items()}
    found |= {("torch_export", answers): exported(one, root / f"{answers}.pt2") for answers, one in made.items()}
    return found


def opened(path, answers, access, normalisation=OURS):
    return ExternalModel(
        started(path), answers=answers, access=access, num_classes=CLASSES, normalisation=normalisation, where="here"
    )


@cache
def started(path):
    """The file's program, in one process for all tests that ask it: each takes seconds to start."""
    return open_external(kind_of_file(path), path, {}, CPU)


@pytest.fixture(scope="module", autouse=True)
def _ended():
    yield
    started.cache_clear()


def pictures(count, seed=0):
    shades = torch.linspace(-1, 1, count)[:, None, None, None]
    noise = torch.rand(count, 3, SIDE, SIDE, generator=torch.Generator().manual_seed(seed))
    return (shades + 0.2 * noise - 0.1).clamp(-1, 1)


@pytest.mark.parametrize("kind", ["torchscript", "torch_export"])
def test_a_program_answers_as_its_network_does_and_gives_its_gradients(files, network, kind):
    path, images = files[kind, "logits"], pictures(5).requires_grad_(True)
    assert kind_of_file(path) == kind
    model = opened(path, "logits", "gradients", IMAGENET)
    mean, std = (torch.tensor(values)[:, None, None] for values in (IMAGENET.mean, IMAGENET.std))
    expected = network(((images + 1) / 2 - mean) / std)
    torch.testing.assert_close(model(images), expected)
    got, wanted = (torch.autograd.grad(answer.square().sum(), images)[0] for answer in (model(images), expected))
    torch.testing.assert_close(got, wanted)


@pytest.mark.parametrize("kind", ["torchscript", "torch_export"])
def test_probabilities_and_labels_are_what_the_softmax_of_the_logits_gives_back(files, network, kind):
    images = pictures(5)
    wanted = network(images).softmax(1)
    scores = opened(files[kind, "probabilities"], "probabilities", "gradients")(images).softmax(1)
    torch.testing.assert_close(scores, wanted)
    decided = opened(files[kind, "labels"], "labels", "labels")(images).softmax(1)
    assert torch.equal(decided.argmax(1), wanted.argmax(1)) and torch.all(decided.amax(1) == 1)


@pytest.mark.parametrize("kind", ["torchscript", "torch_export"])
@pytest.mark.parametrize(
    ("answers", "access"), [("logits", "gradients"), ("probabilities", "gradients"), ("labels", "labels")]
)
def test_what_a_program_gives_is_found_out_by_asking(files, kind, answers, access):
    found = try_external(
        started(files[kind, answers]),
        answers=answers,
        num_classes=CLASSES,
        image_size=SIDE,
        normalisation=OURS,
        where="here",
    )
    assert (found.access, found.rows) == (access, None)


def test_a_program_that_takes_a_fixed_number_of_images_is_shown_so_many_each_time(network, tmp_path):
    path = exported(network, tmp_path / "two.pt2", rows=2)
    program = started(path)
    assert (program.rows, program.side) == (2, SIDE)
    images = pictures(5)
    torch.testing.assert_close(opened(path, "logits", "gradients")(images), network(images))
    with pytest.raises(InputError, match="--image-size: expected 32, which here takes, got 64"):
        try_external(program, answers="logits", num_classes=CLASSES, image_size=64, normalisation=OURS, where="here")


def test_a_script_for_single_images_is_found_to_be_one(tmp_path):
    class Single(nn.Module):
        def forward(self, images: torch.Tensor) -> torch.Tensor:
            return images.reshape(1, 3, -1).mean(2)

    path = torchscript(Single(), tmp_path / "single.pt")
    found = try_external(
        open_external("torchscript", path, {}, CPU),
        answers="logits",
        num_classes=3,
        image_size=SIDE,
        normalisation=OURS,
        where="here",
    )
    assert (found.rows, found.access) == (1, "gradients")


def test_answers_of_another_kind_or_shape_than_said_are_one_line(files):
    for said, made, line in (
        ("logits", "probabilities", "got numbers that add up to one: say --answers probabilities"),
        ("probabilities", "logits", "got numbers that do not add up to one: say --answers logits"),
        ("logits", "labels", r"expected logits of shape \[5, 4\], got \[5\]"),
        ("labels", "logits", r"expected labels of shape \[5\], got \[5, 4\]"),
    ):
        with pytest.raises(InputError, match=line):
            opened(files["torchscript", made], said, "labels").check_answers(pictures(5))
    assert is_distribution(torch.tensor([[0.25, 0.75]])) and not is_distribution(torch.tensor([[-0.5, 1.5]]))


def test_below_gradients_no_gradient_leads_back_and_no_view_of_more_is_made(files):
    model = opened(files["torchscript", "logits"], "logits", "scores")
    assert not model(pictures(2).requires_grad_(True)).requires_grad

    def view(access):
        execution = Execution(ExecutionConfig(), "cpu")
        return view_of(
            PreparedTarget(model), access, num_classes=CLASSES, image_size=SIDE, execution=execution, gives=model.access
        )

    assert type(view("labels")) is LabelView and type(view("scores")) is ScoreView
    with pytest.raises(InputError, match="expected access to its gradients, got a model that gives scores alone"):
        view("gradients")


def test_an_attack_that_looks_at_layers_is_told_that_there_are_none(files):
    model = opened(files["torchscript", "logits"], "logits", "gradients")
    view = view_of(
        PreparedTarget(model),
        "gradients",
        num_classes=CLASSES,
        image_size=SIDE,
        execution=Execution(ExecutionConfig(), "cpu"),
        gives="gradients",
    )
    assert isinstance(view, GradientView)
    for look in (lambda: view.features(pictures(2)), lambda: view.scores_in_training(pictures(2), 0)):
        with pytest.raises(InputError, match="got one that shows its answers alone"):
            look()
