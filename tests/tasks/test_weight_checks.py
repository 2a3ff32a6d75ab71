"""Files of weights are opened before there is any work: which are taken, and what is said of the others."""

import re

import pytest
import torch
from safetensors.torch import save_file

from smoothsweep.core.errors import InputError
from smoothsweep.tasks.planned_files import content_at
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


@pytest.mark.parametrize("network", ["fid_inception", "fid_lomma", "facenet"])
def test_a_judges_file_is_opened_where_it_names_one(tmp_path, network):
    check_judge({"network": "synthetic"}, {})  # comes with its own
    write(tmp_path / "a.pth", "nonsense")
    config = {"network": network, "path": str(tmp_path / "a.pth"), "content": content_at(tmp_path / "a.pth")}
    with pytest.raises(InputError, match=re.escape("a.pth")) as refusal:
        check_judge(config, {})
    assert "planned" not in str(refusal.value) and "\n" not in str(refusal.value)
