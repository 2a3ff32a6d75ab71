"""What cannot be with the low-resolution attacks: one line, exit code 2, nothing written."""

import pytest
import yaml
from tiny import tiny_sweep

from orchestrator.cli import main

GAN = {"batch_size": 8}
WRONG = {
    "fewer public images than a class is labelled with": (
        {"attack": {"kind": "plg_mi", "top_n": 61}}, "attack.top_n: expected at most the 60 public images, got 61"),
    "less public images than a batch": (
        {"attack": {"kind": "gmi", "gan": {"batch_size": 61}}},
        "public: expected at least attack.gan.batch_size (61) images, got 60"),
    "a student of no known architecture": (
        {"attack": {"kind": "lomma_gmi", "gan": GAN, "students": {"architectures": ["efficientnet_b9"]}}},
        "attack.students.architectures: expected one of"),
    "a student that does not take the target's images": (
        {"attack": {"kind": "lomma_ked", "gan": GAN, "students": {"architectures": ["vit_b_16"], "batch_size": 8}}},
        "vit_b_16: expected images of 224 pixels, got 32"),
    "an attack of 64 pixels on a target of 224": (
        {"attack": {"kind": "ked", "gan": GAN}, "recipe": {"image_size": 224}},
        "recipe.image_size: expected 32 or 64 pixels with this attack, got 224"),
    "a conditional GAN for a target of 224": (
        {"attack": {"kind": "plg_mi", "top_n": 8}, "recipe": {"image_size": 224}},
        "attack plg_mi: side of the target's input: expected 64 pixels, or 16 or 32, got 224"),
    "a generator of its own for a target of 224": (
        {"attack": {"kind": "brep_mi", "generator": "general_gan", "gan": GAN}, "recipe": {"image_size": 224}},
        "recipe.image_size: expected 32 or 64 pixels with generator general_gan, got 224"),
    "labels alone for an attack that needs gradients": (
        {"attack": {"kind": "gmi", "gan": GAN, "access": "labels"}},
        "attack.access: expected no such key, got 'labels'"),
    "a training of a generator that the prior is": (
        {"attack": {"kind": "rlb_mi", "gan": GAN}, "prior": {"kind": "eigenfaces", "components": 8}},
        "attack.gan: expected no value with generator prior"),
    "public pictures whose list is not there": (
        {"attack": {"kind": "gmi", "gan": GAN}, "public": {"kind": "celeba64"}}, "public.celeba64.path"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_it_is_one_line_and_nothing_is_written(tmp_path, capsys, case):
    changes, message = WRONG[case]
    raw = tiny_sweep()
    raw |= {"prior": None, "judges": {}, "recipe": {**raw["recipe"], "image_size": 32}}
    for key, value in changes.items():
        raw[key] = {**raw[key], **value} if key == "recipe" else value
    path = tmp_path / "s.yaml"
    path.write_text(yaml.safe_dump({key: value for key, value in raw.items() if value is not None}, sort_keys=False))
    for door in ("plan", "run"):
        assert main([door, str(path), "--store", str(tmp_path / "store")]) == 2
        [line] = capsys.readouterr().err.strip().splitlines()
        assert message.replace("celeba64.", "") in line
    assert not (tmp_path / "store").exists()
