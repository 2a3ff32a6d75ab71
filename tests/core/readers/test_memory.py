"""A file of kilobytes costs no gigabytes, whoever reads it: each is read in a process whose memory is limited."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.core.readers.hostile_files import CASES, MIB, READ, ROOM

PROGRAM = Path(__file__).with_name("hostile_files.py")


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="only Linux says what a process has taken")
def test_what_is_small_on_disk_stays_small_in_memory(tmp_path, repository):
    """Refused in one line, or read, within the same bounds."""
    environment = {**os.environ, "PYTHONPATH": str(repository), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, str(PROGRAM), str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
        env=environment,
    )
    assert done.returncode == 0, done.stderr
    told = [json.loads(line) for line in done.stdout.splitlines()]
    assert [one["case"] for one in told] == list(CASES), done.stderr
    for said in told:
        assert said["growth"] < ROOM, said
        if said["case"] in READ:
            assert said["error"] is None, said
            continue
        assert said["error"].startswith("InputError: ") and "expected" in said["error"], said
        assert "\n" not in said["error"] and str(tmp_path) in said["error"] and said["growth"] < 1100 * MIB, said
