"""Which embedders judge an audit: the one that is named, and a second whose weights are there."""

import pytest

from smoothsweep.core.errors import InputError
from smoothsweep.core.models.weight_files import WEIGHT_FILES
from smoothsweep.orchestrator.commands.audit.request import AuditRequest
from smoothsweep.orchestrator.commands.audit.subject import judge_of, judges_of


@pytest.fixture
def weights(tmp_path, monkeypatch):
    """A folder with the files of two embedders, and an empty one where files are staged."""
    monkeypatch.setenv("SMOOTHSWEEP_WEIGHTS", str(tmp_path / "staged"))
    (tmp_path / "staged").mkdir()
    for name in ("mobilefacenet_a", "mobilefacenet_b", "ir50", "swag_vit_b_16"):
        (tmp_path / f"{name}.safetensors").touch()
    return tmp_path


A, B, IR50 = (f"{name}=PLACE/{name}.safetensors" for name in ("mobilefacenet_a", "mobilefacenet_b", "ir50"))
GENERAL = "swag_vit_b_16=PLACE/swag_vit_b_16.safetensors"


def second(place, *options, gallery=None):
    """The second judge of an audit with these options `--judge`."""
    options = [option.replace("PLACE", str(place)) for option in options]
    first, found = judges_of(AuditRequest(judge=options or None, data=None, gallery=gallery))
    assert first == judge_of(options[0] if options else None)
    return found.get("embedder", {}).get("name")


@pytest.mark.parametrize(
    ("options", "found"),
    [((A,), "mobilefacenet_b"), ((B,), "mobilefacenet_a"), ((A, IR50), "ir50"), (("synthetic",), None), ((), None)],
)
def test_the_second_is_the_one_that_is_named_or_whose_weights_lie_beside_the_first_s(weights, options, found):
    assert second(weights, *options) == found and second(weights, GENERAL) is None
    assert second(weights, *options, gallery=weights) == (found if len(options) == 2 else None), "it may be under audit"


def test_a_staged_one_is_taken_where_none_lies_beside(weights):
    for name in ("mobilefacenet_b", "ir50"):
        (weights / f"{name}.safetensors").unlink()
    assert second(weights, A) is None
    (weights / "staged" / WEIGHT_FILES["facenet"].file_name).touch()
    assert second(weights, A) == "facenet"


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ((A, A), "--judge: expected two different embedders, got mobilefacenet_a twice"),
        ((GENERAL, A), "--judge: expected two embedders of faces where it is said"),
        ((A, A, A), "--judge: expected it once or twice, got it 3 times"),
    ],
)
def test_a_wrong_second_is_refused(weights, options, line):
    with pytest.raises(InputError, match=line):
        second(weights, *options)
