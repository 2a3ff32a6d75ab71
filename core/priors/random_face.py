"""The package `random-face` 2021.7.21.1 as priors: its files are compared by digest, then read by names; none is run.

They are OpenVINO's graphs with a file of constants each. Where they may be: in the installed package, which is found
and not imported; in the wheel; in a folder. A folder is written for 1024 pixels and one for each read-out.
"""

from __future__ import annotations

import hashlib
import json
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from smoothsweep.core.cards import read_card, read_weights
from smoothsweep.core.errors import InputError
from smoothsweep.core.files import making_folder, write_file
from smoothsweep.core.models.embedders import load_embedder
from smoothsweep.core.models.inference import evaluate_logits
from smoothsweep.core.models.weight_files import find_file, weight_folders
from smoothsweep.core.priors.kinds import network_card
from smoothsweep.core.priors.mobilestylegan import SLOPE, MobileStyleGAN, whole
from smoothsweep.core.priors.registry import load_prior, save_prior
from smoothsweep.core.priors.settings import ALIGNED, RANDOM_FACE_LICENCE, MobileStyleGANConfig, RandomFace
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
    """ordered: its outputs are sub-bands, brought into the order of `mobilestylegan.InverseWavelet`."""
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


# Read-outs: images of 64, 128 or 256 pixels from the first stages of the generator, whose late stages cost most.
#
# The wavelets of the image of side r are read from the features of side r / 2, as the generator itself does at its end.
# First in closed form (least squares on the features of the stage), of the channels that count most; then that stage's
# last convolution, narrowed to these channels, and the read-out are trained on images of the whole generator. The loss
# is the squared error of the wavelet bands, whose sum is that of the pixels, and the absolute error of the details,
# which keeps edges sharp. No face embedder has a part in the loss: it could not judge the images afterwards.

HEADS = {64: 256, 128: 128, 256: 64}
"""Channels that a read-out keeps of its last convolution, by the side of the image in pixels."""
PSI = (0.5, 1.0)  # of the latents that it learns from: attacks draw within
RIDGE = 1e-6
LEARNING_RATE = 0.004
RELATIVE = {
    "depthwise": 1.0,
    "pointwise": 0.05,
    "bias": 0.3,
    "style.bias": 0.3,
    "image.weight": 0.01,
    "image.bias": 0.1,
    "image.style.weight": 0.02,
    "image.style.bias": 0.3,
}
"""Learning rates of the trained numbers, relative to LEARNING_RATE: about in proportion to their sizes."""
DETAILS = 0.05  # weight of the absolute error of the details
KEPT, STEPS, BATCH, WARM = 12, 2, 2, 20  # images to learn from at a time, steps after each new one, images of a step

OnImage = Callable[[int, int], None]


@dataclass(frozen=True, kw_only=True)
class Effort:
    """How much work a read-out's fit takes.

    Attributes:
        images: Images that are learnt from.
        closed: How many of them the closed form uses.
        held_out: Images to test on.
        seed: Seed of all latents and draws.
    """

    images: int = 96
    closed: int = 24
    held_out: int = 16
    seed: int = 0


@dataclass(kw_only=True)
class LatentSample:
    """What is kept of one latent.

    Attributes:
        w: [1, w_dim].
        between: Resolution -> what the last convolution reads, float16 [1, s, s, C].
        features: What it makes, float32, where the closed form needs it.
        bands: The wavelets of the image [1, s s, 12].
        picture: The whole image uint8 [1, 3, R, R], of a latent that is tested on.
    """

    w: Tensor
    between: dict[int, Tensor] = field(default_factory=dict)
    features: dict[int, Tensor] = field(default_factory=dict)
    bands: dict[int, Tensor] = field(default_factory=dict)
    picture: Tensor | None = None


@dataclass(frozen=True, kw_only=True)
class ReadOut:
    """A fitted read-out, and how well it draws.

    Attributes:
        network: The generator with this read-out.
        psnr: Peak signal-to-noise ratio in dB on held-out latents, against the whole image averaged to its size, in
            [-1, 1].
        closed_psnr: The same ratio of the closed form alone.
        trained: Whether the training was better and is used.
    """

    network: MobileStyleGAN
    psnr: float
    closed_psnr: float
    trained: bool


def train_read_outs(
    network: MobileStyleGAN, resolutions: Sequence[int], effort: Effort, on_image: OnImage
) -> tuple[dict[int, ReadOut], list[LatentSample]]:
    """The read-outs of an imported generator by resolution, and the latents that they were tested on."""
    held = list(_seen(network, resolutions, effort.held_out, seed=effort.seed + 1, tested=True))
    heads = {resolution: _Head(network, resolution) for resolution in resolutions}
    kept: list[LatentSample] = []
    generator = torch.Generator().manual_seed(effort.seed)
    total = effort.images
    for index, seen in enumerate(_seen(network, resolutions, total, seed=effort.seed, closed=effort.closed)):
        kept = [*kept[-KEPT + 1 :], seen]
        for head in heads.values():
            if index < effort.closed:
                head.gather(seen)
            if index == min(effort.closed, total) - 1:
                head.solve(held)
            elif index >= effort.closed:
                head.learn(kept, generator, done=(index - effort.closed) / (total - effort.closed))
        seen.features.clear()
        on_image(index + 1, total)
    return {resolution: head.finished(held) for resolution, head in heads.items()}, held


def _seen(
    network: MobileStyleGAN,
    resolutions: Sequence[int],
    count: int,
    *,
    seed: int,
    closed: int = 0,
    tested: bool = False,
) -> Iterator[LatentSample]:
    """One latent after the other, with all that the read-outs learn from."""
    w = network.map(torch.from_numpy(network.sample_z(count, seed)))[:, 0]
    psi = torch.empty(count, 1).uniform_(*PSI, generator=torch.Generator().manual_seed(seed))
    mean = network.mapping.mean
    for index, latent in enumerate((mean + psi * (w - mean)).split(1)):
        yield _sample_latent(network, latent, resolutions, features=index < closed, tested=tested)


@torch.no_grad()
def _sample_latent(
    network: MobileStyleGAN, w: Tensor, resolutions: Sequence[int], *, features: bool, tested: bool
) -> LatentSample:
    seen, x, side = LatentSample(w=w), network.first(w), 8
    for stage in network.every_stage:
        between = stage.between(x, w, whole(side))
        x = stage.conv2(between, stage.conv2.style(w), whole(side))
        if 2 * side in resolutions:
            seen.between[2 * side] = between.half()
            if features:
                seen.features[2 * side] = x
        side *= 2
    picture = network.to_image(x, w)
    for resolution in resolutions:
        seen.bands[resolution] = wavelets(functional.avg_pool2d(picture, side // resolution))
    if tested:
        seen.picture = picture.add(1).mul(127.5).round().clamp(0, 255).byte()
    return seen


def wavelets(images: Tensor) -> Tensor:
    """images [n, 3, 2 s, 2 s] -> [n, s s, 12]: three averages, then the details along rows, columns and both."""
    a, b = images[:, :, 0::2, 0::2], images[:, :, 0::2, 1::2]
    c, d = images[:, :, 1::2, 0::2], images[:, :, 1::2, 1::2]
    bands = torch.cat((a + b + c + d, a + b - c - d, a - b + c - d, a - b - c + d), dim=1) / 2
    return bands.flatten(2).transpose(1, 2)


class _Head:
    """The narrowed last convolution and the read-out of one resolution, while they are made."""

    def __init__(self, network: MobileStyleGAN, resolution: int) -> None:
        self.whole, self.resolution = network, resolution
        self.stages = next(n for n in range(len(network.stages)) if 16 * 2**n == resolution) + 1
        self.stage = network.every_stage[self.stages - 1]
        self.side = resolution // 2
        channels = len(self.stage.conv2.bias)
        self.head = min(HEADS[resolution], channels) if resolution in HEADS else channels
        self._products = torch.zeros(channels + 1, channels + 1, dtype=torch.float64)
        self._answers = torch.zeros(channels + 1, 12, dtype=torch.float64)
        self.numbers: dict[str, Tensor] = {}

    def gather(self, seen: LatentSample) -> None:
        """One more image for the closed form."""
        x = seen.features[self.resolution].flatten(0, 2)
        x = torch.cat((x, x.new_ones(len(x), 1)), dim=1)
        self._products += (x.T @ x).double()
        self._answers += (x.T @ seen.bands[self.resolution][0]).double()

    def solve(self, held: Sequence[LatentSample]) -> None:
        """The closed form: first of all channels, then of those that count most."""
        weight = self._solved(torch.arange(len(self._products)))
        mean_square = self._products.diagonal() / self._products[-1, -1]
        spread = (mean_square - (self._products[-1] / self._products[-1, -1]).square()).clamp_min(0).sqrt()
        counts = weight[:-1].norm(dim=1) * spread[:-1]
        chosen = counts.topk(self.head).indices.sort().values
        weight = self._solved(torch.cat((chosen, torch.tensor([len(counts)])))).float()
        conv = self.stage.conv2
        w_dim = conv.style.weight.shape[1]
        made = {
            "depthwise": conv.depthwise,
            "pointwise": conv.pointwise[chosen],
            "bias": conv.bias[chosen],
            "style.weight": conv.style.weight,
            "style.bias": conv.style.bias,
            "image.weight": weight[:-1].T,
            "image.bias": weight[-1],
            "image.style.weight": weight.new_zeros(self.head, w_dim),
            "image.style.bias": weight.new_ones(self.head),
        }
        self.numbers = {name: value.detach().clone().contiguous() for name, value in made.items()}
        self._closed = {name: value.clone() for name, value in self.numbers.items()}
        self._closed_psnr = self.psnr(held)
        for name in RELATIVE:
            self.numbers[name].requires_grad_()
        groups = [
            {"params": [self.numbers[name]], "lr": LEARNING_RATE * rate, "full": LEARNING_RATE * rate}
            for name, rate in RELATIVE.items()
        ]
        self._optimizer, self._steps = torch.optim.Adam(groups, betas=(0.9, 0.99)), 0

    def _solved(self, rows: Tensor) -> Tensor:
        products = self._products[rows][:, rows]
        products = products + RIDGE * products.diagonal().mean() * torch.eye(len(rows), dtype=torch.float64)
        return torch.linalg.solve(products, self._answers[rows])

    def learn(self, kept: Sequence[LatentSample], generator: torch.Generator, *, done: float) -> None:
        """Some steps on the images kept. done: the fraction of the training that lies behind."""
        for _ in range(STEPS):
            self._steps += 1
            for group in self._optimizer.param_groups:
                group["lr"] = group["full"] * min(1.0, self._steps / WARM) * (1 - done)
            some = [kept[int(index)] for index in torch.randint(len(kept), (BATCH,), generator=generator)]
            error = self._read(some) - torch.cat([seen.bands[self.resolution] for seen in some])
            loss = error.square().mean() + DETAILS * error[:, :, 3:].abs().mean()
            self._optimizer.zero_grad()
            loss.backward()
            self._optimizer.step()

    def _read(self, some: Sequence[LatentSample]) -> Tensor:
        """The bands [n, s s, 12] that are read, differentiable in the numbers; as `network` computes them."""
        numbers, w = self.numbers, torch.cat([seen.w for seen in some])
        x = torch.cat([seen.between[self.resolution] for seen in some]).float()
        x = x * functional.linear(w, numbers["style.weight"], numbers["style.bias"])[:, None, None]
        kernel = numbers["depthwise"]
        y = functional.conv2d(x.permute(0, 3, 1, 2), kernel, padding=1, groups=len(kernel)).permute(0, 2, 3, 1)
        y = functional.linear(y, numbers["pointwise"], numbers["bias"]) + self.stage.conv2.noise
        y = functional.leaky_relu(y, SLOPE)
        y = y * functional.linear(w, numbers["image.style.weight"], numbers["image.style.bias"])[:, None, None]
        return functional.linear(y, numbers["image.weight"], numbers["image.bias"]).flatten(1, 2)

    @torch.no_grad()
    def psnr(self, held: Sequence[LatentSample]) -> float:
        """The mean over latents, in dB."""
        errors = [(self._read([seen]) - seen.bands[self.resolution]).square().mean() for seen in held]
        return float((10 * torch.log10(4 / torch.stack(errors))).mean())

    def finished(self, held: Sequence[LatentSample]) -> ReadOut:
        """The better of the closed form and what the training made of it, as a network."""
        psnr = self.psnr(held)
        if not psnr > self._closed_psnr:
            psnr, self.numbers = self._closed_psnr, self._closed
        trained = self.numbers is not self._closed
        network = self._network({name: value.detach() for name, value in self.numbers.items()})
        return ReadOut(network=network, psnr=psnr, closed_psnr=self._closed_psnr, trained=trained)

    def _network(self, numbers: dict[str, Tensor]) -> MobileStyleGAN:
        config = replace(self.whole.config, channels=self.whole.config.channels[: self.stages + 1], head=self.head)
        made = MobileStyleGAN(config)
        own = self.whole.state_dict()
        state = {name: own.get(name, value) for name, value in made.state_dict().items()}
        last = f"stages.{self.stages - 1}.conv2"
        for name, value in numbers.items():
            image, _, rest = name.partition("image.")
            state[f"to_image.{rest}" if rest and not image else f"{last}.{name}"] = value
        made.load_state_dict(state)
        return made.eval().requires_grad_(False)


IMAGE_INDICES = (195, 284, 635)
"""Left, top and side of the square of the 1024 pixels that is shown: eyes where aligned faces have them."""


def agreement(network: MobileStyleGAN, held: Sequence[LatentSample], judge: str, weights: Path) -> dict[str, Any]:
    """Agreement of the images of held-out latents: the mean cosine of a read-out's with its whole image and with the
    others', and the fraction that is nearest to its own."""
    embedder = load_embedder(judge, weights)
    with torch.no_grad():
        made = torch.cat([network.synthesize(seen.w[:, None]) for seen in held])
    size = 112
    ours = evaluate_logits(embedder, _face(_bytes(made), size), image_size=size)
    theirs = torch.cat([seen.picture for seen in held if seen.picture is not None])
    whole = evaluate_logits(embedder, _face(theirs, size), image_size=size)
    cosine = functional.normalize(ours) @ functional.normalize(whole).T
    same_face = cosine.diagonal()
    others = (cosine.sum() - same_face.sum()) / (cosine.numel() - len(same_face))
    nearest = (cosine.argmax(dim=1) == torch.arange(len(cosine))).float().mean()
    return {
        "judge": judge,
        "cosine_with_whole_image": round(float(same_face.mean()), 4),
        "cosine_with_other_images": round(float(others), 4),
        "nearest_is_own": round(float(nearest), 4),
    }


def _bytes(images: Tensor) -> Tensor:
    return images.add(1).mul(127.5).round().clamp(0, 255).byte()


def _face(images: Tensor, size: int) -> Tensor:
    """The tight square around the face, at `size` pixels."""
    left, top, side = (round(number * images.shape[-1] / ALIGNED) for number in IMAGE_INDICES)
    face = images[:, :, top : top + side, left : left + side].float()
    resized = functional.interpolate(face, size=(size, size), mode="bilinear", antialias=True, align_corners=False)
    return resized.round().clamp(0, 255).byte()
