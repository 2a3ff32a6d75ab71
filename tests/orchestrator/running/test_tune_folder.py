"""Tune's notes lie in a folder per driver: a second one does not take them away from the first."""

import os

from smoothsweep.core.writers import machine_id
from smoothsweep.orchestrator.running.tuning import own_folder


def test_folders_of_dead_drivers_go_and_those_of_living_ones_stay(tmp_path):
    host = machine_id()
    dead, alive, elsewhere = f"tune.{host}.{2**22 + 1}", f"tune.{host}.{os.getppid()}", "tune.other.host.17"
    for name in ("tune", dead, alive, elsewhere, f"tune.{host}.{os.getpid()}"):
        (tmp_path / name).mkdir()
    assert own_folder(tmp_path / "tune") == tmp_path / f"tune.{host}.{os.getpid()}"
    assert {path.name for path in tmp_path.iterdir()} == {alive, elsewhere}
