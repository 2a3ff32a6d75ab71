"""No small file is unfolded or costs half a gigabyte, whatever it asks for."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

BOMBS = Path(__file__).with_name("bombs.py")
NOT_UNFOLDED_S = 30  # what unfolds one takes minutes; a slow machine refuses them all the same


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="only Linux sets the peak of a process back")
def test_every_bomb_is_refused_in_one_line_at_little_cost(tmp_path, repository):
    """In a process of its own, whose peak is set back before each: tracing would not see what torch allocates."""
    command = [sys.executable, str(BOMBS), str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": str(repository), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=240, env=environment)
    assert done.returncode == 0, done.stderr
    costs = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(costs) > 20
    for cost in costs:
        assert cost["error"] and "\n" not in cost["error"] and len(cost["error"]) < 2100, cost
        assert cost["seconds"] < NOT_UNFOLDED_S and cost["growth"] < 500e6, cost
