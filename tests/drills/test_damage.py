"""The disk gives back something else than was written; somebody changes code and weights while a sweep runs."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import time

import pandas as pd
import pytest
from drills.sweep_runs import partly_done
from safetensors.torch import load_file, save_file

from smoothsweep.core.judges.columns import TIME_COLUMNS
from smoothsweep.core.models.embedders import own_weights
from tests.checkout import copy_packages
from tests.tiny import tiny_sweep, write_tiny

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3000)]


IMAGE_MB = 192
FLUSHED_S = 5.0  # what is seen under its name may be on its way to the disk; then it counts as finished


class Disk:
    """A file system in a file. What was written and not flushed is not in the file: a copy of it is the disk as a
    machine that loses power at that moment finds it again."""

    def __init__(self, image, place):
        self.image, self.place = image, place
        place.mkdir()
        with image.open("wb") as file:
            file.truncate(IMAGE_MB * 2**20)
        subprocess.run(["mkfs.ext4", "-q", "-E", "lazy_itable_init=0", str(image)], check=True)
        self.mount()
        shutil.rmtree(place / "lost+found")

    def mount(self):
        subprocess.run(["mount", "-o", "loop", str(self.image), str(self.place)], check=True)

    def unmount(self):
        subprocess.run(["umount", "-l", str(self.place)], check=True)  # MLflow may hold its database open

    def as_after_a_power_failure(self):
        """Take the copy now; `recover` mounts it in the disk's place."""
        self.copy = self.image.with_suffix(f".{random.randrange(10**9)}")
        shutil.copyfile(self.image, self.copy)

    def recover(self):
        self.unmount()
        self.image = self.copy
        self.mount()


def loop_devices() -> bool:
    return os.getuid() == 0 and bool(shutil.which("mkfs.ext4")) and os.path.exists("/dev/loop-control")


@pytest.mark.skipif(not loop_devices(), reason="mounting a file needs root and loop devices")
def test_the_power_fails(drill):
    """Twice: in a training, and in an attack. The same command goes on from what the disk holds then."""
    disk = Disk(drill.folder / "disk.img", drill.store)
    try:
        partly_done(drill.undisturbed.store, disk.place / "copy", "target")
        for folder in (disk.place / "copy").iterdir():
            folder.rename(disk.place / folder.name)
        (disk.place / "copy").rmdir()
        os.sync()  # the copy stands for what earlier runs have flushed
        for first, left in (("target", "target/*.work/checkpoint.pt"), ("attack", "attack/*.work/classes/*")):
            drill.take_away(first)  # the attack may have ended before the first failure came
            os.sync()
            run = drill.run()
            run.until(lambda left=left: any(drill.store.glob(left)))
            drill.about_to_harm()
            time.sleep(FLUSHED_S)
            disk.as_after_a_power_failure()
            run.process.kill()
            run.wait()
            drill.nothing_left_on_the_cluster()
            disk.recover()
        drill.finish("the power fails, in a training and in an attack", note="the disk's image, taken while mounted")
    finally:
        disk.unmount()


def test_bits_that_turn_in_what_is_finished_and_in_what_is_not(drill):
    """The targets' weights, the prior's, a manifest, and the classes of unfinished work."""
    draw = random.Random(7)

    def turn_a_bit(path):
        content = bytearray(path.read_bytes())
        content[draw.randrange(len(content) // 2, len(content))] ^= 1 << draw.randrange(8)
        path.write_bytes(content)

    partly_done(drill.undisturbed.store, drill.store, "target")
    run = drill.run()
    run.until(lambda: any(drill.store.glob("attack/*.work/classes/*")))
    run.process.kill()
    run.wait()
    drill.nothing_left_on_the_cluster()
    for path in drill.store.glob("*/*.work/**/*.safetensors"):
        turn_a_bit(path)
    for path in drill.store.glob("target/*/weights.safetensors"):
        turn_a_bit(path)
    turn_a_bit(next(drill.store.glob("prior/*/weights.safetensors")))
    manifest = next(drill.store.glob("data/*/manifest.json"))
    content = json.loads(manifest.read_text())
    manifest.write_text(json.dumps({**content, "metrics": {key: 0.99 for key in content["metrics"]}}))
    drill.finish("bits that turn: weights, a manifest, finished classes")
    said = (drill.folder / "driver.log").read_text()
    assert "weights.safetensors differs from its checksum" in said and "was changed after it was written" in said
    assert len(list(drill.store.glob("damaged/*/*"))) >= 3


ROOMS = ("core", "tasks", "sweeps", "orchestrator")
PATIENCE_S = 400


@pytest.fixture
def tree(repository, tmp_path):
    """A copy of the code, which may be edited."""
    copy_packages(repository, tmp_path / "tree")
    shutil.copy(repository / "pyproject.toml", tmp_path / "tree")
    return tmp_path / "tree"


@pytest.fixture
def sweep(tmp_path):
    weights = tmp_path / "embedder.safetensors"
    shutil.copy(own_weights("synthetic"), weights)
    judges = {**tiny_sweep()["judges"], "embedder": {"name": "synthetic", "weights": str(weights)}}
    return write_tiny(tmp_path, judges=judges), weights


def begin(tree, sweep, store):
    command = [sys.executable, "-m", "smoothsweep", "run", str(sweep), "--store", str(store)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(tree)}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, cwd=tree, env=environment, text=True, **pipes)


def after(store, pattern):
    """Returns as soon as the store has such a manifest."""
    deadline = time.monotonic() + PATIENCE_S
    while not list(store.glob(pattern)):
        assert time.monotonic() < deadline, pattern
        time.sleep(0.02)


def ended(run):
    out, err = run.communicate(timeout=PATIENCE_S)
    assert "Traceback" not in out + err, err
    return run.returncode, err


def numbers(folder):
    """The content of a sealed stage's arrays by their names."""
    found = {path.name: path.read_bytes() for path in folder.iterdir() if path.name != "manifest.json"}
    assert found
    return found


def table(store):
    found = pd.read_parquet(store / "sweeps" / "tiny" / "results.parquet")
    return found.drop(columns=[*TIME_COLUMNS, "failure"])


def test_code_that_is_edited_in_the_middle(tree, sweep, tmp_path):
    store = tmp_path / "store"
    run = begin(tree, sweep[0], store)
    after(store, "pool/*/manifest.json")
    edited = tree / "core" / "metrics" / "distances.py"
    whole = edited.read_text()
    edited.write_text(whole.replace("def nearest_real", "def nearest_unreal"))
    code, said = ended(run)
    assert code == 1 and "expected the code that this run began with" in said
    assert "last changed: core/metrics/fidelity.py" in said and not list(store.glob("judge_e*/*/manifest.json"))
    edited.write_text(whole)
    code, said = ended(begin(tree, sweep[0], store))
    assert code == 0, said
    other = tmp_path / "other"
    assert ended(begin(tree, sweep[0], other))[0] == 0
    pd.testing.assert_frame_equal(table(store), table(other))


def test_weights_that_are_replaced_in_the_middle(tree, sweep, tmp_path):
    store, (path, weights) = tmp_path / "store", sweep
    kept = tmp_path / "kept"
    shutil.copy2(weights, kept)
    run = begin(tree, path, store)
    after(store, "pool/*/manifest.json")
    save_file({name: value * 1.05 for name, value in load_file(weights).items()}, weights)
    code, said = ended(run)
    assert code == 1 and f"{weights}: expected what it held when this was planned" in said
    assert not list(store.glob("judge_embedder/*/manifest.json"))
    sealed = [path.parent.relative_to(store) for path in store.glob("embeddings/*/manifest.json")]
    os.replace(kept, weights)
    assert ended(begin(tree, path, store))[0] == 0
    other = tmp_path / "other"
    assert ended(begin(tree, path, other))[0] == 0
    for folder in sealed:  # an embedder may have done its work before: by the weights that were planned
        assert numbers(store / folder) == numbers(other / folder)
    pd.testing.assert_frame_equal(table(store), table(other))
