"""What cannot be with the low-resolution attacks: one line, exit code 2, nothing written."""

import json

import pytest
import yaml
from PIL import Image
from tiny import tiny_sweep

from smoothsweep.core.attacks.kept_networks import save_network
from smoothsweep.orchestrator.cli import main
from tests.official_gans import networks_of

pytestmark = pytest.mark.usefixtures("quick_programs")

GAN = {"batch_size": 8}
CONDITIONAL = {"attack": {"kind": "plg_mi", "gan": {"imported": "HERE/plg_gan"}}, "public": None}  # of seven people
KNOWING = {"imported": "HERE/specific_gan"}  # likewise
PEOPLE = {"kind": "labelled", "path": "HERE/people", "size": 32}  # two, and only the folder says so
ANSWERS = {"logits": "gradients", "labels": "labels"}  # what a program says -> the most that it gives
WRONG = {
    "fewer public images than a class is labelled with": (
        {"attack": {"kind": "plg_mi", "top_n": 61}},
        "attack.top_n: expected at most the 60 public images, got 61",
    ),
    "less public images than a batch": (
        {"attack": {"kind": "gmi", "gan": {"batch_size": 61}}},
        "public: expected at least attack.gan.batch_size (61) images, got 60",
    ),
    "a student of no known architecture": (
        {"attack": {"kind": "lomma_gmi", "gan": GAN, "students": {"architectures": ["efficientnet_b9"]}}},
        "attack.students.architectures: expected one of",
    ),
    "a student that does not take the target's images": (
        {"attack": {"kind": "lomma_ked", "gan": GAN, "students": {"architectures": ["vit_b_16"], "batch_size": 8}}},
        "vit_b_16: expected images of 224 pixels, got 32",
    ),
    "an attack of 64 pixels on a target of 224": (
        {"attack": {"kind": "ked", "gan": GAN}, "recipe": {"image_size": 224}},
        "recipe.image_size: expected 32 or 64 pixels with this attack, got 224",
    ),
    "a conditional GAN for a target of 224": (
        {"attack": {"kind": "plg_mi", "top_n": 8}, "recipe": {"image_size": 224}},
        "attack plg_mi: side of the target's input: expected 64 pixels, or 16 or 32, got 224",
    ),
    "a generator of its own for a target of 224": (
        {"attack": {"kind": "brep_mi", "generator": "general_gan", "gan": GAN}, "recipe": {"image_size": 224}},
        "recipe.image_size: expected 32 or 64 pixels with generator general_gan, got 224",
    ),
    "a conditional GAN of another number of classes": (
        CONDITIONAL,
        "plg_gan: generator: expected the target's 4 classes, got 7",
    ),
    "the same, where only the pictures say how many people there are": (
        {**CONDITIONAL, "data": PEOPLE},
        "plg_gan: generator: expected the target's 2 classes, got 7",
    ),
    "the same, of a published set with the paper's number": (
        {**CONDITIONAL, "data": {"kind": "celeba64", "path": "HERE"}},
        "plg_gan: generator: expected the target's 1000 classes, got 7",
    ),
    "the same, of a target that was brought in": (
        {**CONDITIONAL, "recipe": {"imported": "HERE/logits"}},
        "plg_gan: generator: expected the target's 4 classes, got 7",
    ),
    "a discriminator that knows the classes of another target": (
        {"attack": {"kind": "ked", "gan": KNOWING}, "public": None},
        "specific_gan: discriminator: expected the target's 4 classes, got 7",
    ),
    "the same under LOMMA, where only the pictures say how many people there are": (
        {
            "attack": {
                "kind": "lomma_ked",
                "form": "L_aug",
                "gan": KNOWING,
                "students": {"architectures": ["resnet_small"], "pretrained": False, "batch_size": 8},
            },
            "data": PEOPLE,
        },
        "specific_gan: discriminator: expected the target's 2 classes, got 7",
    ),
    "a target without the features that LOMMA pulls": (
        {"attack": {"kind": "lomma_gmi", "gan": GAN, "form": "L_logit"}, "recipe": {"imported": "HERE/logits"}},
        "attack.kind: expected an attack on answers alone, since a TorchScript program shows no layers",
    ),
    "a target that says labels alone under an attack that needs gradients": (
        {"attack": {"kind": "gmi", "gan": GAN}, "recipe": {"imported": "HERE/labels"}},
        "attack.kind: expected an attack on labels, which is all that a TorchScript program gives here",
    ),
    "a defense that leaves answers alone under an attack that needs gradients": (
        {"attack": {"kind": "plg_mi", "top_n": 8}, "recipe": {"defense": {"kind": "ssd", "eps": 0.1}}},
        "attack: expected nothing that sees more than scores of a target with defense ssd, got one that sees",
    ),
    "labels alone for an attack that needs gradients": (
        {"attack": {"kind": "gmi", "gan": GAN, "access": "labels"}},
        "attack.access: expected one of the keys ",
    ),
    "a training of a generator that the prior is": (
        {"attack": {"kind": "rlb_mi", "gan": GAN}, "prior": {"kind": "eigenfaces", "components": 8}},
        "attack.gan: expected no value with generator prior",
    ),
    "public pictures whose list is not there": (
        {"attack": {"kind": "gmi", "gan": GAN}, "public": {"kind": "celeba64"}},
        "public.celeba64.path",
    ),
}


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    """GANs of seven people, pictures of two, and programs that tell four apart."""
    root = tmp_path_factory.mktemp("here")
    for part in ("plg_gan", "specific_gan"):
        (root / part).mkdir()
        for name, network in networks_of(part, classes=7).items():
            save_network(network, root / part, name)
    for person in ("ada", "bob"):
        (root / "people" / person).mkdir(parents=True)
        for shade in range(4):
            Image.new("RGB", (32, 32), (60 * shade, 10, len(person))).save(root / "people" / person / f"{shade}.png")
    for answers, access in ANSWERS.items():
        (root / answers).mkdir()
        (root / answers / "target.json").write_text(
            json.dumps(
                {
                    "version": 3,
                    "architecture": "torchscript",
                    "num_classes": 4,
                    "image_size": 32,
                    "transform_input": False,
                    "outside": {"answers": answers, "access": access},
                    "data": None,
                    "defense": None,
                }
            )
        )
        (root / answers / "program.torchscript").touch()
    return root


@pytest.mark.parametrize("case", WRONG)
def test_it_is_one_line_and_nothing_is_written(tmp_path, capsys, here, case):
    changes, message = WRONG[case]
    raw = tiny_sweep(prior=None, judges={}, grid={}, baseline={})
    for key, value in changes.items():
        raw[key] = {**raw[key], **value} if key == "recipe" and "imported" not in value else value
    path, raw = tmp_path / "s.yaml", {key: value for key, value in raw.items() if value is not None}
    path.write_text(yaml.safe_dump(raw, sort_keys=False).replace("HERE", str(here)))
    for command in ("plan", "run"):
        assert main([command, str(path), "--store", str(tmp_path / "store")]) == 2
        [line] = capsys.readouterr().err.strip().splitlines()
        assert message.replace("celeba64.", "") in line
    assert not (tmp_path / "store").exists()
