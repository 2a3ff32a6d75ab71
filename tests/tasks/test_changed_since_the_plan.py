"""What a stage reads from outside is what it was when the stage was planned, or the stage fails with one line."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from smoothsweep.core.errors import InputChanged
from smoothsweep.core.models.embedders import own_weights
from smoothsweep.orchestrator.planning.trial import inversion_stages
from smoothsweep.orchestrator.scheduling.execute import execute
from smoothsweep.orchestrator.scheduling.scheduler import one_line
from smoothsweep.orchestrator.stages import fingerprints
from smoothsweep.orchestrator.store.opening import open_store
from smoothsweep.sweeps.loaded import check
from smoothsweep.tasks import judges
from smoothsweep.tasks.planned_files import PlannedFile
from tests.planned_cases import CASES, SAYS, Case, made_inputs, other_picture, perturbed
from tests.tiny import tiny_sweep


@pytest.fixture
def store(tmp_path):
    store = open_store(str(tmp_path / "store"))
    store.open_for_writing()
    return store


@pytest.fixture(autouse=True)
def fresh():
    fingerprints._digest.cache_clear()
    yield
    fingerprints._digest.cache_clear()


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


@pytest.mark.parametrize("kind", ["labelled", "unlabelled"])
def test_what_is_replaced_for_a_moment_while_it_is_read_leaves_no_trace(kind, tmp_path, store, monkeypatch):
    case, other = Case(tmp_path, kind), open_store(str(tmp_path / "other"))
    other.open_for_writing()
    execute(other, case.reading)
    victim = sorted(case.file.rglob("*.png"))[0]
    right, reads = victim.read_bytes(), []
    other_picture(case.file)
    wrong = victim.read_bytes()
    victim.write_bytes(right)
    real = PlannedFile.read

    def meddle(self, read):
        def while_read(path):
            reads.append(path)
            if len(reads) == 1:
                victim.write_bytes(wrong)
            try:
                return read(path)
            finally:
                victim.write_bytes(right)

        return real(self, while_read)

    monkeypatch.setattr(PlannedFile, "read", meddle)
    execute(store, case.reading)
    assert len(reads) == 2  # the first reading was of other pictures
    assert store.manifest(case.reading)["result"] == other.manifest(case.reading)["result"]


def test_shipped_weights_are_held_to_the_plan_as_well(tmp_path, store, monkeypatch):
    raw = {**tiny_sweep(), "grid": {}, "baseline": {}, "judges": {"embedder": {"name": "synthetic"}}}
    stages = inversion_stages(check(raw, "shipped"), 1)
    reading = stages.judges.get("judge_embedder").inputs["real"]
    made_inputs(store, reading)
    file = tmp_path / "weights.safetensors"
    shutil.copy(own_weights("synthetic"), file)
    perturbed(file)
    monkeypatch.setattr(judges, "own_weights", lambda name: file)
    with pytest.raises(InputChanged, match=SAYS):
        execute(store, reading)
