"""`random-face` as folders of priors: one for 1024 pixels and one for each read-out, with where they come from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch

from smoothsweep.core.cards.cards import read_card
from smoothsweep.core.errors import InputError
from smoothsweep.core.files import making_folder, write_file
from smoothsweep.core.priors.mobilestylegan import MobileStyleGAN
from smoothsweep.core.priors.random_face.package import FILES, VERSION, package_files
from smoothsweep.core.priors.random_face.rewriting import MAPPING_KINDS, SYNTHESIS_KINDS, rewritten
from smoothsweep.core.priors.random_face_facts import RANDOM_FACE_LICENCE
from smoothsweep.core.priors.registry import load_prior, save_prior
from smoothsweep.core.readers.openvino_graph import read_graph

MANIFEST = "import.json"
MEAN_DRAWS = 4096
"""Latents that the mean of w is taken over."""


def import_package(place: Path) -> MobileStyleGAN:
    """The generator of 1024 pixels from a wheel or folder. Raises InputError, one line; nothing of it is run."""
    files = package_files(place)
    mapping = read_graph(
        files["MappingNetwork.xml"], files["MappingNetwork.bin"], MAPPING_KINDS, f"{place}: MappingNetwork"
    )
    synthesis = read_graph(
        files["SynthesisNetwork.xml"], files["SynthesisNetwork.bin"], SYNTHESIS_KINDS, f"{place}: SynthesisNetwork"
    )
    return with_mean(rewritten(mapping, synthesis))


@torch.no_grad()
def with_mean(network: MobileStyleGAN) -> MobileStyleGAN:
    """The network with the mean of w over `MEAN_DRAWS` latents, towards which attacks truncate."""
    draws = torch.from_numpy(network.sample_z(MEAN_DRAWS, 0))
    network.mapping.mean.copy_(network.mapping(draws).double().mean(0))
    return network.eval().requires_grad_(False)


def write_resolution(network: MobileStyleGAN, folder: Path, facts: dict[str, Any]) -> None:
    """Write one resolution's weights.safetensors, prior.json and import.json, all of them or nothing."""
    with making_folder(folder) as draft:
        save_prior(network, draft)
        write_file(draft / MANIFEST, json.dumps(manifest(facts), indent=2, allow_nan=False) + "\n")


def manifest(facts: dict[str, Any]) -> dict[str, Any]:
    """What import.json says: package, checksums, licence, and the facts of this resolution."""
    sums = {name: file.sha256 for name, file in FILES.items()}
    return {
        "package": "random-face",
        "package_version": VERSION,
        "sha256": sums,
        "licence": RANDOM_FACE_LICENCE,
        **facts,
    }


def read_facts(folder: Path) -> dict[str, Any]:
    """What was written there. Raises InputError."""
    return read_card(folder / MANIFEST, "what `smoothsweep import prior random-face` writes")


def is_this_import(network: MobileStyleGAN, folder: Path) -> bool:
    """Whether the folder holds this very generator. Raises InputError where it holds something else."""
    if not folder.exists():
        return False
    other = f"{folder}: expected a new folder or this very import, it already holds another one"
    if read_facts(folder).get("sha256") != manifest({})["sha256"]:
        raise InputError(other)
    held, state = load_prior(folder).state_dict(), network.state_dict()
    # What was computed here (the mean of w) may differ in its last digit on another machine.
    if held.keys() != state.keys() or not all(torch.allclose(held[name], state[name], atol=1e-5) for name in state):
        raise InputError(other)
    return True
