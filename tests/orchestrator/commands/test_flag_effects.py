"""What flags are for, of those that no other test looks at."""

import json
import re
import shutil
import zlib
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from smoothsweep.core.attacks.registry import ATTACKS
from smoothsweep.core.attacks.shared.base import ACCESS_LEVELS
from smoothsweep.orchestrator.cli import main
from smoothsweep.orchestrator.commands.audit import auditing, costs, pages
from smoothsweep.orchestrator.commands.audit.sweep_file import spread_classes
from smoothsweep.orchestrator.store.base import Store
from smoothsweep.sweeps.imported import ImportedClassifier
from smoothsweep.sweeps.load import load_sweep
from tests.foreign_classifier import PEOPLE, SIDE
from tests.orchestrator.commands.owned_model import IMAGENET
from tests.orchestrator.result.test_audit import NAMES, data
from tests.tiny import write_tiny


@pytest.fixture
def one_round(monkeypatch):
    """An audit whose first round does nothing, and for whose others there is no time."""
    monkeypatch.setattr(auditing, "run_and_report", lambda *_, **__: 0)
    monkeypatch.setattr(costs, "forecast", lambda tree, store: costs.Cost(training=1e9, rest=1e9))
    monkeypatch.setattr(auditing, "_warn_of_shared_pictures", lambda *_: ())


@pytest.fixture
def unwritten(one_round, monkeypatch):
    """The same, and no pages."""
    monkeypatch.setattr(auditing.Work, "write", lambda work: None)
    monkeypatch.setattr(auditing.Work, "print_result", lambda work: None)


def audited(owned, model, out, *more):
    """The exit code of an audit of these people."""
    _, people, public = owned
    given = ["--data", str(people), "--public", str(public), "--effort", "quick", "--out", str(out)]
    return main(["audit", str(model), *given, *map(str, more)])


@pytest.fixture
def found(one_round, imported, monkeypatch):
    """The pages of an audit whose store would hold what `data` says: photographs are of a shade, by their row."""
    made = data()
    trial = SimpleNamespace(
        id="None-ppa-1",
        settings=SimpleNamespace(recipe=ImportedClassifier(imported=str(imported))),
        seed=1,
        cell=SimpleNamespace(axes={}),
        stages=(),
    )
    labels = np.array([2, 0, 1, 0, 3, 1])
    fakes = {
        "trials_of": lambda loaded, store: [trial],
        "results_table": lambda *_: None,
        "report_data": lambda *_: made,
        "class_names": lambda *_: NAMES,
        "read_membership": lambda *_: None,
        "inversion_stages": lambda *_: None,
        "recipe_label": lambda *_: None,
        "training_labels": lambda *_: labels,
        "training_image": lambda store, stages, row: np.full((3, 8, 8), 10 * row, np.uint8),
        "reconstruction": lambda store, stages, label, rank: np.full((3, 8, 8), 100 + label, np.uint8),
    }
    for name, fake in fakes.items():
        monkeypatch.setattr(pages, name, fake)
    return labels


def pictures_of(pdf):
    """How many images a PDF holds, its compressed streams looked into as well."""
    streams = re.findall(rb"stream\r?\n(.*?)\r?\nendstream", pdf, re.DOTALL)
    inflated = []
    for stream in streams:
        try:
            inflated.append(zlib.decompress(stream))
        except zlib.error:
            inflated.append(stream)
    return pdf.count(b"/Subtype /Image") + sum(part.count(b"/Subtype /Image") for part in inflated)


@pytest.mark.parametrize("redact", [False, True])
def test_a_redacted_audit_leaves_no_name_and_no_picture_of_anybody(owned, imported, found, tmp_path, capsys, redact):
    """From the command to what lies on the disk and what the terminal says; without the flag all of it is there."""
    out = tmp_path / "out"
    assert audited(owned, imported, out, "--people", "3", *(["--redact"] if redact else [])) == 0
    printed = capsys.readouterr().out
    written = {name: (out / name).read_bytes() for name in ("audit.html", "audit.json", "audit.pdf")}
    text = printed + written["audit.html"].decode() + written["audit.json"].decode()
    named = [name for name in ("Zoe", "Ann", "Bob") if re.search(rf"\b{name}\b", text)]
    images = written["audit.html"].count(b"data:image")
    assert (named, images > 0, pictures_of(written["audit.pdf"]) > 0) == (
        ([], False, False) if redact else (["Zoe", "Ann", "Bob"], True, True)
    )
    people = json.loads(written["audit.json"])["people"]
    assert [one["label"] for one in people] == [0, 1, 2, 3]
    assert not redact or [one["name"] for one in people] == ["person 0", "person 1", "person 2", "person 3"]


def test_the_place_of_another_models_audits_is_refused(owned, unwritten, tmp_path, capsys):
    """The same file goes on, under another name too; one whose weights differ a little does not."""
    root, out = owned[0], tmp_path / "out"
    reading = ["--architecture", "resnet18", "--image-size", SIDE, *IMAGENET]
    assert audited(owned, root / "own.pth", out, *reading) == 0
    before = {path: path.read_bytes() for path in (out / "model").iterdir()}
    capsys.readouterr()
    shutil.copy(root / "own.pth", tmp_path / "again.pth")
    assert audited(owned, tmp_path / "again.pth", out, *reading) == 0
    assert "converted before" in capsys.readouterr().out
    state = torch.load(root / "own.pth", weights_only=True)
    state["fc.bias"] = state["fc.bias"] + 1e-3
    torch.save(state, tmp_path / "other.pth")
    assert audited(owned, tmp_path / "other.pth", out, *reading) == 2
    said = capsys.readouterr().err
    assert said == f"smoothsweep: --out {out}: expected a folder of this model's audits, got one of another model\n"
    assert {path: path.read_bytes() for path in (out / "model").iterdir()} == before
    assert audited(owned, tmp_path / "other.pth", tmp_path / "elsewhere", *reading) == 0


@pytest.mark.parametrize("access", ["labels", "scores", "gradients"])
@pytest.mark.parametrize("people", [2, 4])
def test_an_audit_shows_no_more_than_its_access(owned, imported, unwritten, tmp_path, access, people):
    """And attacks so many people, evenly from all."""
    assert audited(owned, imported, tmp_path / "out", "--access", access, "--people", people) == 0
    sweep = load_sweep(tmp_path / "out" / "audit.yaml").sweep
    tried = [ATTACKS[one["kind"]].access for one in sweep.grid["attack"]]
    assert max(map(ACCESS_LEVELS.index, tried)) == ACCESS_LEVELS.index(access) and len(set(tried)) > 1
    assert list(sweep.classes) == spread_classes(len(PEOPLE), people) and len(sweep.classes) == people


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
