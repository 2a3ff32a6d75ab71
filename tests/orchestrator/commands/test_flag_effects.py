"""What flags are for, of those that no other test looks at."""

import json

import pytest
import torch

from smoothsweep.orchestrator.cli import main
from smoothsweep.orchestrator.store.base import Store
from smoothsweep.sweeps.imported import ImportedClassifier
from tests.foreign_classifier import PEOPLE, SIDE
from tests.orchestrator.commands.owned_model import IMAGENET
from tests.tiny import write_tiny


@pytest.mark.parametrize(("stated", "code"), [(None, 0), ("0.5", 0), ("0.97", 2), ("1.5", 2)])
def test_a_stated_accuracy_is_held_against_real_images(owned, tmp_path, capsys, stated, code):
    """A classifier that has forgotten two of its six people is taken as it is, unless more is stated of it."""
    root, people, _ = owned
    state = torch.load(root / "own.pth", weights_only=True)
    state["fc.bias"][[1, 4]] -= 1000
    torch.save(state, tmp_path / "blunt.pth")
    given = ["--architecture", "resnet18", "--classes", str(len(PEOPLE)), "--image-size", str(SIDE), *IMAGENET]
    command = ["import", "target", str(tmp_path / "blunt.pth"), *given, "--data", str(people)]
    command += ["--test-acc", stated] if stated else []
    assert main([*command, "--class-names", str(alphabetical(tmp_path)), "--out", str(tmp_path / "out")]) == code
    said = capsys.readouterr().err
    assert (tmp_path / "out").exists() == (code == 0) and said.count("\n") == (code != 0)
    if code == 0:
        card = ImportedClassifier(imported=str(tmp_path / "out")).checked
        assert card.stated_acc == (None if stated is None else pytest.approx(0.5))
    elif stated == "0.97":
        assert "its card states 97.0%" in said


def test_an_order_of_classes_that_fits_is_written_to_a_file_which_is_taken(owned, tmp_path, capsys):
    """As it is, and as JSON that numbers the names, either way round."""
    root, people, _ = owned
    given = ["--architecture", "resnet18", "--classes", str(len(PEOPLE)), "--image-size", str(SIDE), *IMAGENET]
    state, outputs = torch.load(root / "own.pth", weights_only=True), [2, 0, 1, 3, 5, 4]
    state |= {key: state[key][outputs] for key in ("fc.weight", "fc.bias")}
    torch.save(state, tmp_path / "turned.pth")
    command = ["import", "target", str(tmp_path / "turned.pth"), *given, "--data", str(people), "--out"]
    assert main([*command, str(tmp_path / "out")]) == 2
    order = tmp_path / "out.class-names.txt"
    assert f"--class-names {order}" in capsys.readouterr().err and not (tmp_path / "out").exists()
    names = order.read_text().splitlines()
    assert names == [sorted(PEOPLE)[number] for number in outputs]
    (tmp_path / "class_to_idx.json").write_text(json.dumps({name: number for number, name in enumerate(names)}))
    (tmp_path / "id2label.json").write_text(json.dumps(dict(enumerate(names))))
    for file in (order, tmp_path / "class_to_idx.json", tmp_path / "id2label.json"):
        assert main([*command, str(tmp_path / file.stem), "--class-names", str(file)]) == 0
    (tmp_path / "twice.json").write_text(json.dumps(dict.fromkeys(names, 0)))
    assert main([*command, str(tmp_path / "twice"), "--class-names", str(tmp_path / "twice.json")]) == 2


def alphabetical(folder):
    (folder / "names.txt").write_text("\n".join(sorted(PEOPLE)))
    return folder / "names.txt"


def test_the_report_goes_where_it_is_told(tmp_path, capsys):
    sweep, store = write_tiny(tmp_path), Store(root=tmp_path / "store")
    store.open_for_writing()
    command = ["report", str(sweep), "--store", str(store.root)]
    assert main([*command, "--out", str(tmp_path / "there"), "--set", "name=renamed"]) == 0, capsys.readouterr().err
    assert "renamed" in (tmp_path / "there" / "report.html").read_text()
    assert not list(store.root.glob("sweeps/*/report.html"))
    assert main([*command, "--set", "name=other"]) == 0
    assert [path.parent.name for path in store.root.glob("sweeps/*/report.html")] == ["other"]
