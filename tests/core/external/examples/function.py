"""The network as what a function of the user's returns; its module lies in the folder of the command."""

import os
import sys
from contextlib import contextmanager

import torch

ACCESS = "gradients"
CODE = """
import torch
from tests.made_programs import Shades

def load():
    network = Shades(torch.zeros({classes}))
    network.load_state_dict(torch.load({weights!r}, weights_only=True))
    return network
"""


@contextmanager
def made(network, folder):
    torch.save(network.state_dict(), folder / "weights.pth")
    code = CODE.format(classes=len(network.bias), weights=str(folder / "weights.pth"))
    name, before = f"example_{folder.parent.name.replace('-', '_')}", os.getcwd()
    (folder / f"{name}.py").write_text(code)
    os.chdir(folder)
    try:
        yield f"python:{name}:load", []
    finally:
        os.chdir(before)
        sys.modules.pop(name, None)
