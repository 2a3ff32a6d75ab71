"""The disk gives back something else than was written: after a power failure, and for a bit that turned."""

import json
import os
import random
import shutil
import subprocess
import time

import pytest
from drills.sweep_runs import partly_done

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
