"""A program that makes a part of an attack and kills itself when its fourth state is kept."""

KILLED = """
import json, os, signal, sys
from pathlib import Path
import torch
from smoothsweep.tasks import attack as parts
from smoothsweep.tasks.context import TaskContext

config, inputs, folder, threads = json.loads(sys.argv[1])
torch.set_num_threads(threads)
keep, kept = parts.WorkFolder.keep_state, []

def keep_and_die(self, state):
    keep(self, state)
    kept.append(state)
    if len(kept) == 4:
        os.kill(os.getpid(), signal.SIGKILL)

parts.WorkFolder.keep_state = keep_and_die
work = TaskContext(work=Path(folder) / "work")
parts.make_part(config, {name: Path(path) for name, path in inputs.items()}, Path(folder) / "out", work)
"""
