"""The package `random-face` 2021.7.21.1 as priors: its files are compared by digest, then read by names; none is run.

They are OpenVINO's graphs with a file of constants each. Where they may be: in the installed package, which is found
and not imported; in the wheel; in a folder. A folder is written for 1024 pixels and one for each read-out.
"""

from __future__ import annotations

import hashlib
import json
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import torch

from smoothsweep.core.cards import read_card, read_weights
from smoothsweep.core.errors import InputError
from smoothsweep.core.files import making_folder, write_file
from smoothsweep.core.models.weight_files import find_file, weight_folders
from smoothsweep.core.priors.kinds import network_card
from smoothsweep.core.priors.mobilestylegan import MobileStyleGAN
from smoothsweep.core.priors.registry import load_prior, save_prior
from smoothsweep.core.priors.settings import RANDOM_FACE_LICENCE, MobileStyleGANConfig, RandomFace
from smoothsweep.core.readers.files import open_regular, read_whole, why_unread

VERSION = "2021.7.21.1"
WHEEL = f"random_face-{VERSION}-py3-none-any.whl"
PACKAGE, DATA = "random_face", "data"
MANIFEST = "import.json"
MEAN_DRAWS = 4096
"""Latents that the mean of w is taken over."""


@dataclass(frozen=True, kw_only=True)
class PublishedFile:
    """A file of the published package: its bytes, and the SHA-256 of its content."""

    size: int
    sha256: str


FILES: dict[str, PublishedFile] = {
    "MappingNetwork.xml": PublishedFile(
        size=59_865, sha256="73e2096cad6e696e4af47df2477e048ab4c42c0e0dec83c7c66604822689e55b"
    ),
    "MappingNetwork.bin": PublishedFile(
        size=8_405_040, sha256="212dd716bdb556e18db603ea97300d4fa3c872b878c726b2402fea80820e7305"
    ),
    "SynthesisNetwork.xml": PublishedFile(
        size=425_183, sha256="7918fce515243954d3e06628cb39a23902d6b1d5d02932cc0c2faee7a2aeeedd"
    ),
    "SynthesisNetwork.bin": PublishedFile(
        size=32_025_440, sha256="c7da15fa22d508c82e1c30dd6b4cdf67fe3ccdddaf85b310ee764dbf0c289645"
    ),
}

HOW = (
    f"`pip download --no-deps random-face=={VERSION}`, then name the wheel (Apache-2.0; its weights are for "
    "non-commercial use, docs/weights.md)"
)


def find_package(path: Path | None) -> Path:
    """Where the package is: `path`, else the installed one, else its wheel among the staged weight files.

    Raises InputError, one line that says what to fetch and under which licence, where it is nowhere.
    """
    if path is not None:
        if not path.exists():
            raise InputError(f"{path}: expected the wheel or folder of random-face {VERSION}, got nothing; {HOW}")
        return path
    spec = PathFinder.find_spec(PACKAGE)
    for place in (spec.submodule_search_locations or ()) if spec is not None else ():
        if (Path(place) / DATA).is_dir():
            return Path(place)
    if (staged := find_file(WHEEL, weight_folders())) is not None:
        return staged
    raise InputError(f"import prior random-face: expected the package, which is neither installed nor staged: {HOW}")


def package_files(place: Path) -> dict[str, bytes]:
    """The four files by name, of a wheel or a folder, each of the published content.

    Raises InputError, one line: a file that is missing, of another version, or broken.
    """
    contents = _in_folder(place) if place.is_dir() else _in_wheel(place)
    for name, content in contents.items():
        if (digest := hashlib.sha256(content).hexdigest()) != FILES[name].sha256:
            raise InputError(
                f"{place}: {name}: expected the file of random-face {VERSION} (SHA-256 {FILES[name].sha256[:12]}...), "
                f"got another version or a damaged one ({digest[:12]}...)"
            )
    return contents


def _in_folder(place: Path) -> dict[str, bytes]:
    """The files of a package's folder, its data folder, or a folder that holds the package."""
    candidates = (place, place / DATA, place / PACKAGE / DATA)
    folder = next((folder for folder in candidates if (folder / "SynthesisNetwork.xml").is_file()), None)
    if folder is None:
        raise InputError(f"{place}: expected a folder with {', '.join(FILES)}, got none of them; {HOW}")
    try:
        return {name: read_whole(folder / name, most_bytes=max(file.size, 1)) for name, file in FILES.items()}
    except OSError as error:
        raise InputError(f"{error.filename}: cannot be read: {error.strerror}") from error


def _in_wheel(place: Path) -> dict[str, bytes]:
    try:
        with open_regular(place) as file, zipfile.ZipFile(file) as wheel:
            members = {name: f"{PACKAGE}/{DATA}/{name}" for name in FILES}
            return {name: wheel.open(member).read(FILES[name].size + 1) for name, member in members.items()}
    except (OSError, LookupError, zipfile.BadZipFile, zlib.error, RuntimeError, EOFError) as error:
        raise InputError(
            f"{place}: expected the wheel of random-face {VERSION}, got: {why_unread(error)}; {HOW}"
        ) from None


def import_package(place: Path) -> MobileStyleGAN:
    """The generator of 1024 pixels from a wheel or folder. Raises InputError, one line; nothing of it is run."""
    files = package_files(place)
    numbers = {}
    for name in ("MappingNetwork", "SynthesisNetwork"):
        numbers |= _constants(files[f"{name}.xml"], files[f"{name}.bin"])
    state = {name: torch.from_numpy(np.array(value, np.float32)) for name, value in _renamed(numbers).items()}
    channels = [len(state["first.bias"])]
    while (last := f"stages.{len(channels) - 1}.conv2.bias") in state:
        channels.append(len(state[last]))
    w_dim, z_dim = state["mapping.layers.0.weight"].shape
    layers = sum(name.startswith("mapping.") for name in state) // 2
    config = MobileStyleGANConfig(channels=tuple(channels), z_dim=z_dim, w_dim=w_dim, mapping_layers=layers)
    network = MobileStyleGAN(config)
    network.load_state_dict(state | {"mapping.mean": torch.zeros(w_dim)})
    return with_mean(network)


def _constants(xml: bytes, content: bytes) -> dict[str, np.ndarray]:
    """The float constants of a published graph by their layers' names."""
    found = {}
    for layer in ElementTree.fromstring(xml).iterfind("./layers/layer[@type='Const']"):
        stated = {} if (data := layer.find("data")) is None else data.attrib
        if stated.get("element_type") == "f32":
            shape = [int(size) for size in stated["shape"].split(",") if size.strip()]
            count, offset = int(stated["size"]) // 4, int(stated["offset"])
            found[layer.attrib["name"]] = np.frombuffer(content, "<f4", count, offset).reshape(shape)
    return found


def _renamed(numbers: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Our names of the published constants. Those that OpenVINO numbered have a number that rises with the stage."""
    stages = sum(name.endswith(".up.modulation.bias") for name in numbers)
    state = {}
    for index in range(sum(f"{173 + 4 * index}" in numbers for index in range(64))):
        state[f"mapping.layers.{index}.weight"] = numbers[f"{173 + 4 * index}"]
        state[f"mapping.layers.{index}.bias"] = numbers[f"{174 + 4 * index}"]
    state["first.constant"] = numbers["m.input.input"]
    layers = [("first", "m.conv1", "Mul_39_copy", "1531", "Constant_18", stages > 0)]
    for stage in range(stages):
        pair = ((1, 106, 1560, 84), (2, 139, 1572, 117))
        for number, pointwise, noise, gain in pair:
            layers.append(
                (
                    f"stages.{stage}.conv{number}",
                    f"m.layers.{stage}.conv{number}",
                    f"Mul_{pointwise + 100 * stage}_copy",
                    f"{noise + 41 * stage}",
                    f"Constant_{gain + 100 * stage}",
                    number == 2 and stage + 1 < stages,
                )
            )
        state |= _style(numbers, f"stages.{stage}.up", f"m.layers.{stage}.up", ordered=True)
    for ours, theirs, pointwise, noise, gain, ordered in layers:
        bias = numbers[f"{theirs}.bias"].reshape(-1)
        order = _subbands(len(bias) // 4) if ordered else slice(None)
        state[f"{ours}.bias"] = bias[order]
        state[f"{ours}.noise"] = numbers[noise][0].transpose(1, 2, 0)
        kernel = numbers[pointwise]
        if ours == "first":
            state[f"{ours}.pointwise"] = kernel[order]
        else:
            state[f"{ours}.pointwise"] = kernel[order][:, :, 0, 0]
            state[f"{ours}.depthwise"] = numbers[f"{theirs}.conv.weight_dw"][:, 0]
        style = _style(numbers, f"{ours}.style", f"{theirs}.conv", ordered=False)
        state |= {name: value * numbers[gain].reshape(()) for name, value in style.items()}
    image = f"m.layers.{stages - 1}.to_img"
    state["to_image.weight"] = numbers[f"{image}.conv.weight"][_subbands(3)][:, :, 0, 0]
    state["to_image.bias"] = numbers[f"{image}.bias"].reshape(-1)[_subbands(3)]
    style = _style(numbers, "to_image.style", f"{image}.conv", ordered=False)
    gain = numbers[f"Constant_{50 + 100 * stages}"].reshape(())
    return state | {name: value * gain for name, value in style.items()}


def _style(numbers: Mapping[str, np.ndarray], ours: str, theirs: str, *, ordered: bool) -> dict[str, np.ndarray]:
    """ordered: its outputs are sub-bands, brought into the order of `fused.InverseWavelet`."""
    weight, bias = numbers[f"{theirs}.modulation.weight"], numbers[f"{theirs}.modulation.bias"][0]
    order = _subbands(len(bias) // 4) if ordered else slice(None)
    return {f"{ours}.weight": weight[order], f"{ours}.bias": bias[order]}


def _subbands(count: int) -> np.ndarray:
    """The graph's number of each channel: `count` averages, then all details along rows, along columns, along both.

    The graph has the three details of a channel side by side.
    """
    return np.concatenate([np.arange(count), *(count + 3 * np.arange(count) + band for band in range(3))])


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


def framed(settings: RandomFace, images: None = None) -> MobileStyleGAN:
    """The prior of a sweep: an imported resolution, in the frame of the data's faces. Raises InputError."""
    return read_weights(MobileStyleGAN, network_card(settings, None).config, settings.files.weights)
