"""Files of weights are opened before there is any work: which are taken, and what is said of the others."""

import re
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from smoothsweep.core.errors import InputError
from smoothsweep.tasks import weight_checks
from smoothsweep.tasks.planned_files import PlannedFile
from smoothsweep.tasks.weight_checks import check_judge, check_prior

SAID = {
    "empty": "expected tensors, got none",
    "nonsense": "expected a safetensors file, got: ",
    "absent": "expected a safetensors file, got: ",
}


def write(path, what):
    if what == "nonsense":
        path.write_bytes(b"nonsense")
    elif what != "absent":
        save_file({"a": torch.zeros(2)} if what == "whole" else {}, path)


@pytest.mark.parametrize("discriminator", ["unread", "whole", "empty", "nonsense", "absent"])
@pytest.mark.parametrize("weights", ["whole", "empty", "nonsense", "absent"])
def test_a_priors_files_are_opened_where_they_will_be_read(tmp_path, weights, discriminator):
    write(tmp_path / "weights.safetensors", weights)
    write(tmp_path / "discriminator.safetensors", discriminator.replace("unread", "nonsense"))
    config = {"kind": "folder", "path": str(tmp_path)}
    config |= {"discriminator": "its digest"} if discriminator != "unread" else {}
    wrong = [(name, what) for name, what in (("weights", weights), ("discriminator", discriminator)) if what in SAID]
    if not wrong:
        return check_prior(config, {})
    name, what = wrong[0]
    with pytest.raises(InputError, match=re.escape(f"{tmp_path / name}.safetensors: {SAID[what]}")) as refusal:
        check_prior(config, {})
    assert "\n" not in str(refusal.value)
    return None


@pytest.mark.parametrize(
    ("network", "reader", "given"),
    [
        ("fid_inception", "_load_fid", ("a.pth", "ab")),
        ("fid_lomma", "_load_published_fid", ("fid_lomma", "a.pth", "ab")),
        ("facenet", "_load_embedder", ("facenet", "a.pth")),
    ],
)
def test_a_judges_file_is_read_as_the_judge_will_read_it(monkeypatch, network, reader, given):
    asked = []
    monkeypatch.setattr(weight_checks, reader, lambda *words: asked.append(words))
    check_judge({"network": network, "path": "a.pth", "content": "12ab", "sha256": "ab"}, {})
    file = PlannedFile(Path("a.pth"), "12ab")
    assert asked == [tuple(file if word == "a.pth" else word for word in given)]


def test_a_judge_without_a_file_of_its_own_has_nothing_to_be_read(monkeypatch):
    monkeypatch.setattr(weight_checks, "_load_embedder", lambda *words: pytest.fail("nothing was named"))
    check_judge({"network": "synthetic"}, {})
