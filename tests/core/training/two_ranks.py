"""A program that trains with a team of two ranks, this one being argv[1]; what comes out goes to the file argv[3]."""

import sys

import torch
import torch.distributed

from smoothsweep.core.training.team import Team
from tests.core.training.shared_trainings import TRAININGS

rank, store, out = int(sys.argv[1]), sys.argv[2], sys.argv[3]
torch.set_num_threads(1)
torch.distributed.init_process_group("gloo", store=torch.distributed.FileStore(store, 2), rank=rank, world_size=2)
made = {name: train(Team(rank=rank, world_size=2), still) for name, train in TRAININGS.items() for still in [True]}
made |= {f"{name}, moving": train(Team(rank=rank, world_size=2), False) for name, train in TRAININGS.items()}
torch.save(made, out)
torch.distributed.destroy_process_group()
