"""Files from outside are read as what they were when a stage was planned, or the stage fails with one line."""

from __future__ import annotations

import ast
import hashlib
import os
import re
import shutil
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from safetensors.torch import load_file, save_file

from smoothsweep.core.attacks.networks import save_network
from smoothsweep.core.errors import InputChanged
from smoothsweep.core.models.classifiers import build_classifier
from smoothsweep.core.models.embedders import own_weights
from smoothsweep.core.network_card import NetworkCard
from smoothsweep.core.priors.card import StyleGAN2Config
from smoothsweep.core.priors.registry import save_discriminator, save_prior
from smoothsweep.core.priors.stylegan2 import StyleGAN2
from smoothsweep.core.priors.stylegan2_discriminator import StyleGAN2Discriminator
from smoothsweep.orchestrator.planning.trial import inversion_stages
from smoothsweep.orchestrator.scheduling.execute import execute, execute_with_inputs
from smoothsweep.orchestrator.scheduling.scheduler import one_line
from smoothsweep.orchestrator.stages import fingerprints
from smoothsweep.orchestrator.stages.stage import with_ancestors
from smoothsweep.orchestrator.store.opening import open_store
from smoothsweep.sweeps.data import PublishedData, PublishedPublic
from smoothsweep.sweeps.loaded import check
from smoothsweep.tasks import judges, planned_files, registry
from smoothsweep.tasks.context import TaskContext
from smoothsweep.tasks.planned_files import PlannedFile, content_at
from tests.every_stage import imported_folder
from tests.official_gans import networks_of
from tests.pipeline import SETTINGS
from tests.tiny import tiny_sweep

SAYS = "expected what it held when this was planned"
NETWORK = {"resolution": 32, "z_dim": 8, "w_dim": 8, "mapping_layers": 2, "channel_base": 64, "channel_max": 8,
           "conv_clamp": None, "mbstd_group": None}  # fmt: skip


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


def pictures(folder, people, each):
    """A folder per person; every picture another grey."""
    for person in range(people):
        for number in range(each):
            path = folder / f"person {person}" / f"{number}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.new("RGB", (32, 32), (40 * person + 20, 20 * number, 90)).save(path)
    return folder


def flat(folder, count):
    folder.mkdir()
    for number in range(count):
        Image.new("L", (32, 32), 4 * number).save(folder / f"{number:03}.png")
    return folder


def prior_folder(folder):
    torch.manual_seed(0)
    config = StyleGAN2Config(**NETWORK)
    save_prior(StyleGAN2(config), folder)
    save_discriminator(StyleGAN2Discriminator(config), folder)
    assert NetworkCard(kind="stylegan2", config=config).plain["config"]["resolution"] == 32
    return folder


def perturbed(path):
    """Weights that load as well, and are others."""
    save_file({name: value * 1.01 for name, value in load_file(path).items()}, path)


def other_picture(folder):
    Image.new("RGB", (32, 32), (1, 2, 3)).save(sorted(folder.rglob("*.png"))[0])


def one_more(folder):
    shutil.copy(sorted(folder.rglob("*.png"))[0], sorted(folder.rglob("*.png"))[0].with_name("zz.png"))


def one_fewer(folder):
    sorted(folder.rglob("*.png"))[-1].unlink()


class Case:
    """A sweep that reads something from outside: which stage reads it, and ways in which it may change."""

    def __init__(self, folder, kind):
        self.folder, self.kind = folder, kind
        changes, self.names, self.file, self.ways = getattr(self, f"_{kind}")(tiny_sweep())
        raw = {**tiny_sweep(), "grid": {}, "baseline": {}, "judges": {}, **changes}
        self.stages = with_ancestors(list(inversion_stages(check(raw, kind), 1)))
        self.reading = next(stage for stage in self.stages if stage.name == self.names)

    def _labelled(self, tiny):
        file = pictures(self.folder / "faces", 3, 6)
        return {"data": {"kind": "labelled", "path": str(file), "size": 32}}, "data", file, (
            other_picture, one_more, one_fewer)  # fmt: skip

    def _unlabelled(self, tiny):
        file = flat(self.folder / "public", 30)
        return {"public": {"kind": "unlabelled", "path": str(file), "size": 32}}, "public", file, (
            other_picture, one_more, one_fewer)  # fmt: skip

    def _embedder(self, tiny):
        file = self.folder / "weights.safetensors"
        shutil.copy(own_weights("synthetic"), file)
        judge = {"embedder": {"name": "synthetic", "weights": str(file)}}
        return {"judges": judge}, "embeddings", file, (perturbed, Path.unlink, lambda path: path.write_bytes(b"junk"))

    def _imported(self, tiny):
        torch.manual_seed(0)
        network = build_classifier("resnet_small", 4, pretrained=False, protocol="clean")
        place = imported_folder(
            self.folder / "target", network.state_dict(), architecture="resnet_small", num_classes=4
        )
        file = Path(place) / "weights.safetensors"
        return {"recipe": {"imported": place}}, "imported", file, (perturbed, Path.unlink)

    def _prior(self, tiny):
        place = prior_folder(self.folder / "prior")
        prior = {"prior": {"kind": "folder", "path": str(place)}, "public": None}
        return prior, "prior", place / "weights.safetensors", (perturbed, Path.unlink)

    def _discriminator(self, tiny):
        changes, name, file, ways = self._prior(tiny)
        attack = {"attack": {**tiny["attack"], "discriminator_weight": 0.1}}
        return {**changes, **attack}, name, file.with_name("discriminator.safetensors"), ways


    def _gan(self, tiny):
        place = self.folder / "gan"
        place.mkdir()
        for name, network in networks_of("general_gan").items():
            save_network(network, place, name)
        attack = {"kind": "gmi", "gan": {"imported": str(place)}, "steps": 2, "selected": 2}
        changes = {"attack": attack, "data": SETTINGS["data"], "public": SETTINGS["public"]}
        return changes, "general_gan", place, (
            lambda path: perturbed(path / "generator.network.safetensors"),
            lambda path: (path / "notes.txt").write_text("beside them"),
        )  # fmt: skip


CASES = ("labelled", "unlabelled", "embedder", "imported", "prior", "discriminator", "gan")


def made_inputs(store, stage):
    for source in stage.inputs.values():
        execute_with_inputs(store, source)


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


def test_judge_weights_that_are_replaced_in_the_middle_of_their_loading(tmp_path, store, monkeypatch):
    case = Case(tmp_path, "embedder")
    made_inputs(store, case.reading)
    real = judges.load_embedder

    def replaced(name, path):
        perturbed(path)
        return real(name, path)

    monkeypatch.setattr(judges, "load_embedder", replaced)
    with pytest.raises(InputChanged, match=SAYS):
        execute(store, case.reading)
    assert not store.has(case.reading)


def test_shipped_weights_are_held_to_the_plan_as_well(tmp_path, store, monkeypatch):
    raw = {**tiny_sweep(), "grid": {}, "baseline": {}, "judges": {"embedder": {"name": "synthetic"}}}
    stages = inversion_stages(check(raw, "shipped"), 1)
    reading = stages.judge_embedder.inputs["real"]
    made_inputs(store, reading)
    file = tmp_path / "weights.safetensors"
    shutil.copy(own_weights("synthetic"), file)
    perturbed(file)
    monkeypatch.setattr(judges, "own_weights", lambda name: file)
    with pytest.raises(InputChanged, match=SAYS):
        execute(store, reading)


def independent(root):
    """A second way of saying what a folder holds."""
    return tuple(sorted((str(p.relative_to(root)), hashlib.md5(p.read_bytes()).hexdigest())
                        for p in root.rglob("*.png")))  # fmt: skip


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


def test_a_large_file_is_read_for_its_digest_once_and_looked_at_afterwards(tmp_path, monkeypatch):
    file, digested = tmp_path / "a.bin", []
    file.write_bytes(b"as planned")
    monkeypatch.setattr(planned_files, "content_digest", lambda path: digested.append(path) or "0" * 64)
    planned = PlannedFile(file, "0" * 64)
    for _ in range(3):
        planned.read(Path.read_bytes)
    assert len(digested) == 1


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
            if isinstance(node, ast.Attribute) and node.attr in ("weights", "discriminator") \
                    and ast.unparse(node.value).endswith("files"):  # fmt: skip
                found.append(f"{path.name}:{node.lineno}")
    assert not found


def test_whatever_a_stage_reads_from_outside_was_planned_with_its_content(tmp_path):
    """A stage that knows where a file lies counts what the file holds; with the kind of digest that its reader asks."""
    for number, kind in enumerate(CASES):
        (tmp_path / str(number)).mkdir()
        case = Case(tmp_path / str(number), kind)
        named = [stage for stage in case.stages if "path" in stage.hints]
        assert named and all(re.fullmatch("[0-9a-f]{64}", stage.config["content"]) for stage in named)


def test_published_sets_are_digested_as_their_reader_expects(tmp_path, monkeypatch):
    """Folders with lists beside the pictures: planning and reading must agree on which digest is meant."""
    kinds = {cls: cls.model_fields["kind"].annotation.__args__ for cls in (PublishedData, PublishedPublic)}
    asked = []

    class Seen(Exception):
        pass

    def read(self, _):
        asked.append(self.any_files)
        raise Seen

    monkeypatch.setattr(PlannedFile, "read", read)
    for cls, names in kinds.items():
        function = registry._load(registry.TASKS["data" if cls is PublishedData else "public"].run)
        for kind in names:
            config = {"kind": kind, "path": str(tmp_path), "content": "0", "size": 64, "split_seed": 0,
                      "on_corrupt": "refuse"}  # fmt: skip
            with pytest.raises(Seen):
                function(config, {}, tmp_path, TaskContext(work=tmp_path))
    assert asked and all(asked)
