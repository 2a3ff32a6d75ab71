"""What stages read: held to the plan, damaged, unfinished; what they write beside it."""

from __future__ import annotations

import ast
import hashlib
import os
import re
import shutil
import socket
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from harm import HARMS, harmed
from hypothesis import given
from hypothesis import strategies as st

from smoothsweep.core.data.images import ImageSet
from smoothsweep.core.errors import InputChanged
from smoothsweep.orchestrator.planning.trial import inversion_stages
from smoothsweep.orchestrator.scheduling.execute import execute
from smoothsweep.orchestrator.scheduling.scheduler import one_line
from smoothsweep.orchestrator.stages import stage as fingerprints
from smoothsweep.orchestrator.stages.stage import Stage
from smoothsweep.orchestrator.store.opening import open_store
from smoothsweep.sweeps.expand import check
from smoothsweep.tasks import files
from smoothsweep.tasks.context import TaskContext, read_progress
from smoothsweep.tasks.planned_files import PlannedFile, content_at
from smoothsweep.tasks.unfinished import finished_class, load_checkpoint, load_class, save_checkpoint, save_class
from tests.planned_cases import CASES, SAYS, Case, made_inputs
from tests.tiny import tiny_sweep


@pytest.fixture(autouse=True)
def fresh():
    fingerprints._digest.cache_clear()
    yield
    fingerprints._digest.cache_clear()


def independent(root):
    """A second way of saying what a folder holds."""
    return tuple(
        sorted((str(p.relative_to(root)), hashlib.md5(p.read_bytes()).hexdigest()) for p in root.rglob("*.png"))
    )


STEPS = ("touch", "same", "swap", "other", "add", "remove", "rename", "keeps_time", "replace")


def step(root, name, pick):
    files = sorted(root.rglob("*.png"))
    file, other = files[pick % len(files)], files[(pick + 1) % len(files)]
    if name == "touch":
        os.utime(file)
    elif name == "same":
        file.write_bytes(file.read_bytes())
    elif name == "swap":
        one, two = file.read_bytes(), other.read_bytes()
        file.write_bytes(two)
        other.write_bytes(one)
    elif name == "other":
        file.write_bytes(b"x" * (pick + 1))
    elif name == "add":
        (root / f"new{pick}.png").write_bytes(b"new")
    elif name == "remove" and len(files) > 1:
        file.unlink()
    elif name == "rename":
        file.rename(file.with_name(f"r{pick}.png"))
    elif name == "keeps_time":  # of the same size, under the old time
        facts = file.stat()
        file.write_bytes(b"y" * facts.st_size)
        os.utime(file, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    elif name == "replace":
        beside = file.with_name("beside")
        beside.write_bytes(file.read_bytes())
        os.replace(beside, file)


@given(steps=st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 5)), max_size=4), any_files=st.booleans())
def test_a_folder_is_refused_exactly_when_it_holds_something_else(steps, any_files, tmp_path_factory):
    root = tmp_path_factory.mktemp("set")
    for number in range(4):
        (root / f"{number}.png").write_bytes(bytes([number]) * 3)
    planned, held = PlannedFile(root, content_at(root, any_files=any_files), any_files), independent(root)
    for name, pick in steps:
        step(root, name, pick)
    if independent(root) == held:
        assert planned.read(independent) == held
    else:
        with pytest.raises(InputChanged, match=SAYS):
            planned.read(independent)


def test_what_moves_all_the_time_with_one_content_is_read_twice_at_most(tmp_path):
    file = tmp_path / "a.bin"
    file.write_bytes(b"as planned")
    reads = []

    def moving(path):
        reads.append(path)
        os.utime(path)
        return path.read_bytes()

    assert PlannedFile(file, content_at(file)).read(moving) == b"as planned" and len(reads) == 2


def test_no_task_reads_a_configured_path_but_through_the_one_function(repository):
    """Neither `config["path"]`, `config.get("path")`, nor a prior's files, anywhere else below tasks/."""
    found = []
    for path in sorted((repository / "tasks").rglob("*.py")):
        if path.name == "planned_files.py":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            key = node.slice if isinstance(node, ast.Subscript) else None
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith((".get", ".pop")) and node.args:
                key = node.args[0]
            if isinstance(key, ast.Constant) and key.value == "path":
                found.append(f"{path.name}:{node.lineno}")
            if (
                isinstance(node, ast.Attribute)
                and node.attr in ("weights", "discriminator")
                and ast.unparse(node.value).endswith("files")
            ):
                found.append(f"{path.name}:{node.lineno}")
    assert not found


def test_whatever_a_stage_reads_from_outside_was_planned_with_its_content(tmp_path):
    """A stage that knows where a file lies counts what the file holds; with the kind of digest that its reader asks."""
    for number, kind in enumerate(CASES):
        (tmp_path / str(number)).mkdir()
        case = Case(tmp_path / str(number), kind)
        named = [stage for stage in case.stages if "path" in stage.hints]
        assert named and all(re.fullmatch("[0-9a-f]{64}", stage.config["content"]) for stage in named)


@pytest.fixture
def store(tmp_path):
    store = open_store(str(tmp_path / "store"))
    store.open_for_writing()
    return store


@pytest.mark.parametrize("kind", CASES)
def test_what_changed_since_the_plan_is_one_line_and_nothing_is_sealed(kind, tmp_path, store):
    case = Case(tmp_path, kind)
    made_inputs(store, case.reading)
    kept = tmp_path / "kept"
    (shutil.copytree if case.file.is_dir() else shutil.copy2)(case.file, kept)
    for way in case.ways:
        way(case.file)
        with pytest.raises(InputChanged) as caught:
            execute(store, case.reading)
        line = str(caught.value)
        planned = case.reading.config["discriminator" if kind == "discriminator" else "content"]
        got = "got nothing at this path" if way is Path.unlink else "got [0-9a-f]{12}"
        assert re.search(rf"^{re.escape(str(case.file))}: {SAYS} \(SHA-256 {planned[:12]}\), {got}: ", line)
        assert one_line(caught.value) == line and "\n" not in line
        assert not store.has(case.reading) and not store.place(case.reading).exists()
        if case.file.is_dir():
            shutil.rmtree(case.file)
            shutil.copytree(kept, case.file)
        else:
            shutil.copy2(kept, case.file)
    if kind != "imported":  # which recognises nobody: it was never trained
        execute(store, case.reading)
        assert store.has(case.reading), "what was put back is read"


def test_what_is_replaced_for_a_moment_while_it_is_read_is_read_again(tmp_path):
    (victim := tmp_path / "a.png").write_bytes(b"right")
    planned, reads = PlannedFile(tmp_path, content_at(tmp_path)), []

    def meddled_with(path):
        reads.append(path)
        if len(reads) == 1:
            victim.write_bytes(b"wrong")
        try:
            return victim.read_bytes()
        finally:
            victim.write_bytes(b"right")

    assert planned.read(meddled_with) == b"right" and len(reads) == 2


def test_shipped_weights_are_held_to_the_plan_as_well(store):
    """As planned with another version of smoothsweep."""
    raw = {**tiny_sweep(), "grid": {}, "baseline": {}, "judges": {"embedder": {"name": "synthetic"}}}
    stages = inversion_stages(check(raw, "shipped"), 1)
    reading = stages.judges.get("judge_embedder").inputs["real"]
    made_inputs(store, reading)
    with pytest.raises(InputChanged, match=SAYS):
        execute(store, Stage(name=reading.name, config={**reading.config, "content": "0" * 64}, inputs=reading.inputs))


def test_images_come_back_with_labels_and_names(tmp_path):
    images = torch.randint(0, 256, (4, 3, 8, 8), dtype=torch.uint8)
    for part, labels in (("train", [0, 1, 1, 0]), ("test", [1, 1, 0, 0])):
        given = ImageSet(images=images, labels=torch.tensor(labels), names=("Zoë", "Ann"))
        files.save_images(tmp_path, part, given)
    for part, labels in (("train", [0, 1, 1, 0]), ("test", [1, 1, 0, 0])):
        found = files.load_images(tmp_path, part)
        assert torch.equal(found.images, images) and found.labels.tolist() == labels and found.names == ("Zoë", "Ann")
    assert (tmp_path / "names.json").read_text() == '["Zoë", "Ann"]'


STATE = {"epoch": 3, "weights": {"a": torch.arange(200.0)}, "records": [{"loss": 0.5}]}
CLASS = {"w": torch.arange(12.0).reshape(3, 4), "labels": torch.tensor([1, 2, 3])}
KINDS = {"checkpoint": (save_checkpoint, load_checkpoint, STATE), "class": (save_class, load_class, CLASS)}


def equal(a, b):
    if isinstance(a, torch.Tensor):
        return torch.equal(a, b)
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(equal(a[key], b[key]) for key in a)
    return a == b


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("how", [*HARMS, *(f"bit {n}" for n in range(16))])
def test_what_is_not_what_was_saved_is_thrown_away(tmp_path, capsys, kind, how):
    save, load, content = KINDS[kind]
    path = tmp_path / "file"
    assert load(path) is None and capsys.readouterr().err == ""
    save(path, content)
    assert equal(load(path), content)
    path.write_bytes(harmed(path.read_bytes(), how))
    found = load(path)
    if found is not None:  # a bit of padding, which says nothing
        assert equal(found, content) and how.startswith("bit")
        return
    said = capsys.readouterr().err
    assert not path.exists() and said.count("\n") == 1 and "thrown away and made again" in said


def test_a_class_without_a_checksum_is_made_again(tmp_path):
    from safetensors.torch import save_file

    save_file(CLASS, tmp_path / "class")
    assert load_class(tmp_path / "class") is None
    with pytest.raises(OSError, match="cannot be read back"):
        finished_class(tmp_path / "class")


@pytest.mark.parametrize("harm", [None, "the checkpoint", "Ray Train's note"])
def test_damaged_checkpoints_of_ray_train_are_thrown_away_before_it_reads_them(tmp_path, capsys, harm):
    from smoothsweep.tasks import ray_train

    folder = tmp_path / "ray_train"
    (folder / "checkpoint_1").mkdir(parents=True)
    save_checkpoint(folder / "checkpoint_1" / ray_train.STATE_FILE, STATE)
    (folder / "checkpoint_manager_snapshot.json").write_text('{"latest": "checkpoint_1"}')
    damaged = {
        "the checkpoint": f"checkpoint_1/{ray_train.STATE_FILE}",
        "Ray Train's note": "checkpoint_manager_snapshot.json",
    }.get(harm)
    if damaged:
        (folder / damaged).write_bytes(harmed((folder / damaged).read_bytes(), "zeroed"))
    ray_train._throw_away_damaged(folder)
    assert folder.exists() == (harm is None)
    assert ("checkpoints are damaged" in capsys.readouterr().err) == (harm is not None)


def test_a_mark_says_how_far_who_and_when(tmp_path):
    before = time.time()
    TaskContext(work=tmp_path).progress(0.25, "epoch 1/4")
    mark = read_progress(tmp_path)
    assert before <= mark.pop("time") <= time.time()
    assert mark == {"fraction": 0.25, "text": "epoch 1/4", "host": socket.gethostname(), "pid": os.getpid()}


def test_no_mark_and_a_broken_one_are_none(tmp_path):
    assert read_progress(tmp_path) is None
    (tmp_path / "progress.json").write_text("{half")
    assert read_progress(tmp_path) is None


def test_a_folder_that_cannot_be_written_stops_no_work(tmp_path):
    TaskContext(work=tmp_path / "not there").progress(0.5)
    assert read_progress(tmp_path / "not there") is None


def test_a_manifest_says_with_which_libraries_and_where_it_was_made(paper):
    manifest = paper.store.manifest(paper.stage("target"))
    assert set(manifest["libraries"]) == {"python", "torch", "torchvision", "numpy", "ray", "scikit-learn", "pyarrow"}
    assert manifest["libraries"]["numpy"] == np.__version__ and manifest["device"] == "cpu"
