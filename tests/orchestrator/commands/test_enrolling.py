"""What an audit is told of an embedder's gallery, and the order in which a model gets the channels."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from smoothsweep.core.data.labelled import load_labelled, load_unlabelled
from smoothsweep.core.external.recogniser import EnrolledEmbedder, read_recogniser
from smoothsweep.orchestrator.cli import main
from smoothsweep.orchestrator.commands.importing.enrolling import Gallery, import_recogniser
from smoothsweep.orchestrator.commands.requests import Reading
from smoothsweep.sweeps.imported import ImportedClassifier
from tests.foreign_classifier import PEOPLE, SIDE, write_people
from tests.made_programs import NAMES, torchscript
from tests.orchestrator.commands.owned_model import write_public

SIZED = ["--image-size", str(SIDE)]


class Direction(nn.Module):
    """An embedder: a direction in the plane, by how bright a picture is."""

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        mean = images.mean((1, 2, 3), keepdim=True)[:, 0, 0]
        return torch.cat([mean, (1.0 - mean * mean).clamp_min(0.0).sqrt()], 1)


class ThirdChannel(nn.Module):
    """Tells people apart by the shade of the third channel that it gets, of pictures in [-1, 1]."""

    def __init__(self) -> None:
        super().__init__()
        known = [(20 + 40 * list(PEOPLE).index(name)) / 127.5 - 1 for name in NAMES]
        self.weight = nn.Parameter(torch.tensor(known))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        mean = images[:, 2:].mean((1, 2, 3))
        return 32 * (mean[:, None] * self.weight - self.weight * self.weight / 2)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A gallery, strangers, an embedder's program; people of whom the red channel alone tells, and their model."""
    root = tmp_path_factory.mktemp("made")
    write_people(root / "people")
    write_public(root / "public")
    torchscript(Direction().eval(), root / "embedder.pt")
    generator = np.random.default_rng(3)
    for shade, (name, count) in enumerate(PEOPLE.items()):
        (root / "red" / name).mkdir(parents=True)
        for at in range(count):
            pixels = generator.normal(generator.uniform(0, 255), 12, (SIDE, SIDE, 3))
            pixels[..., 0] = generator.normal(20 + 40 * shade, 12, (SIDE, SIDE))
            Image.fromarray(pixels.clip(0, 255).astype("uint8")).save(root / "red" / name / f"{at:03}.png")
    torchscript(ThirdChannel().eval(), root / "third.pt")
    return root


def enrolled(made: Path, out: Path, *, templates="mean", threshold=None):
    """The gallery as it was enrolled, and the card beside it."""
    gallery = Gallery(people=made / "people", templates=templates, threshold=threshold, strangers=made / "public")
    import_recogniser(made / "embedder.pt", Reading(image_size=SIDE), gallery, out, judge={"name": "synthetic"})
    return read_recogniser(out / EnrolledEmbedder.file), ImportedClassifier(imported=str(out)).checked


def directions(images):
    mean = (images.double() / 127.5 - 1).mean((1, 2, 3))
    return torch.stack([mean, (1 - mean.square()).sqrt()], 1)


@pytest.mark.parametrize("templates", ["mean", "each"])
def test_the_people_of_a_gallery_are_enrolled_by_the_templates_asked_for(made, tmp_path, templates):
    """One for a person, which lies between their photographs, or each photograph."""
    held, card = enrolled(made, tmp_path / "out", templates=templates)
    assert card.architecture == "recogniser" and card.test_acc > 0.9 and set(card.class_names) == set(PEOPLE)
    train = load_labelled(made / "people", size=SIDE).train
    found = directions(train.images)
    if templates == "each":
        assert torch.equal(held.owners, train.labels)
        torch.testing.assert_close(held.templates.double(), found, atol=1e-4, rtol=0)
    else:
        assert held.owners.tolist() == list(range(len(PEOPLE)))
        for person, template in enumerate(held.templates.double()):
            total = found[train.labels == person].sum(0)
            torch.testing.assert_close(template, total / total.norm(), atol=1e-4, rtol=0)


@pytest.mark.parametrize("threshold", [None, 0.25])
def test_the_threshold_is_the_one_given_or_lets_one_stranger_in_a_hundred_in(made, tmp_path, capsys, threshold):
    held, _ = enrolled(made, tmp_path / "out", threshold=threshold)
    assert f"accepted from a cosine of {held.threshold:.3f}" in capsys.readouterr().out
    strangers = load_unlabelled(made / "public", size=SIDE, limit=500)
    share = ((directions(strangers) @ held.templates.double().T) >= held.threshold - 1e-5).double().mean().item()
    if threshold:
        assert held.threshold == 0.25 and share > 0.05
    else:
        assert 0 < share < 0.02


@pytest.mark.parametrize(
    ("more", "line"),
    [
        (["--data", "{people}", "--templates", "each"], "--templates: expected it with --gallery alone, got each"),
        (["--data", "{people}", "--threshold", "0.5"], "--threshold: expected it with --gallery alone, got 0.5"),
        (["--gallery", "{people}", "--threshold", "1.5"], "--threshold: expected a cosine between -1 and 1, got 1.5"),
        (["--gallery", "{people}", "--fix"], "--fix: expected none with --gallery"),
        (["--gallery", "{people}", "--architecture", "resnet18"], "--architecture: expected none with --gallery"),
    ],
)
def test_what_is_said_of_a_gallery_without_one_or_against_it_is_one_line(made, tmp_path, capsys, more, line):
    given = ["--public", str(made / "public"), "--out", str(tmp_path / "out"), "--judge", "synthetic", *SIZED]
    given += [one.format(people=made / "people") for one in more]
    assert main(["audit", str(made / "embedder.pt"), *given]) == 2
    said = capsys.readouterr().err
    assert line in said and said.count("\n") == 1 and not (tmp_path / "out").exists()


@pytest.mark.parametrize("channels", [None, "rgb", "bgr"])
def test_a_model_gets_the_channels_in_the_order_said(made, tmp_path, capsys, channels):
    """One that was trained on blue first recognises nobody otherwise, and is refused with the flag to give."""
    (tmp_path / "names.txt").write_text("\n".join(NAMES))
    given = ["--data", str(made / "red"), *SIZED, *(["--channels", channels] if channels else [])]
    given += ["--classes", str(len(PEOPLE)), "--class-names", str(tmp_path / "names.txt")]
    out = tmp_path / "out"
    code = main(["import", "target", str(made / "third.pt"), *given, "--out", str(out)])
    assert code == (0 if channels == "bgr" else 2)
    if channels == "bgr":
        card = ImportedClassifier(imported=str(out)).checked
        assert card.channels == "bgr" and card.test_acc > 0.9
    else:
        said = capsys.readouterr().err
        assert said.endswith("--channels bgr\n") and said.count("\n") == 1 and not out.exists()
