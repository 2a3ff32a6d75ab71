"""What one call of the library works on: pictures as files, models and priors as folders, and the stages of sweeps.

All calls of a process share a store in a temporary folder, which ends with the process: what one has made, the next
one finds there. Stages run one after the other in this process.
"""

from __future__ import annotations

import atexit
import copy
import json
import os
import shutil
import tempfile
import unicodedata
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cache, partial
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from PIL import Image
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from torch import Tensor, nn

from smoothsweep.core.data.images import ImageSet
from smoothsweep.core.data.labelled import SplitImages, load_labelled, load_unlabelled
from smoothsweep.core.data.sources import TEST, TRAIN, list_labelled, list_unlabelled
from smoothsweep.core.errors import InputError
from smoothsweep.core.external.named import Function
from smoothsweep.core.files import write_file
from smoothsweep.core.held import holding
from smoothsweep.core.models.classifiers import Classifier
from smoothsweep.core.models.inference import Channels, Normalisation, fit_images
from smoothsweep.core.models.reading import Claim, check_reading
from smoothsweep.core.priors.base import Prior
from smoothsweep.core.priors.kinds import NETWORKS
from smoothsweep.core.priors.registry import HeldPrior, card_of, save_prior
from smoothsweep.core.text import printable
from smoothsweep.model import Model
from smoothsweep.orchestrator.commands.audit.sweep_file import (
    EIGENFACES,
    LEAST_PUBLIC,
    STORED_SIZE,
    as_loaded,
    components_of,
)
from smoothsweep.orchestrator.planning.trial import inversion_stages
from smoothsweep.orchestrator.scheduling.execute import commit_made, execute_with_inputs
from smoothsweep.orchestrator.stages.stage import Stage, with_ancestors
from smoothsweep.orchestrator.store.base import Store
from smoothsweep.orchestrator.store.opening import open_store
from smoothsweep.sweeps.expand import as_inversion
from smoothsweep.sweeps.imported import CARD, CARD_VERSION, TargetCard, checked_card
from smoothsweep.tasks.class_names import NAMES_FILE
from smoothsweep.tasks.context import Metrics, TaskContext
from smoothsweep.tasks.data import save_split
from smoothsweep.tasks.external import keep_external, load_target
from smoothsweep.tasks.files import load_images, load_tensors, save_tensors
from smoothsweep.tasks.imported import WEIGHTS
from smoothsweep.tasks.manifests import config_of
from smoothsweep.tasks.target import measure_utility
from smoothsweep.tasks.training import load_classifier, normalisation_from

Place = str | Path
Pictures = Place | Tensor | np.ndarray
"""Images uint8 [N, 3, S, S], or a folder or Parquet file."""

People = Place | tuple[Tensor | np.ndarray, Tensor | np.ndarray | Sequence[str]] | ImageSet | SplitImages
"""Images with their labels [N], whole numbers from 0, or names, whose sorted order is that of the model's outputs;
or a folder with one folder per person, or a Parquet file."""

PriorLike = Prior | Mapping[str, Any]
Section = dict[str, Any]
"""A part of a sweep file."""

OnProgress = Callable[[float, str], None]
"""Called with the finished fraction in [0, 1] and a few words."""

PUBLIC_LIMIT = 8000  # images of a place, drawn at random where there are more
PLAIN_SIZE = 16  # pixels of the pictures of nobody


@dataclass(frozen=True, kw_only=True)
class Subject:
    """A model that was brought in: its folder, its card, and the network's architecture where it is one of ours."""

    folder: Path
    card: TargetCard
    architecture: str | None

    @property
    def access(self) -> str:
        """What an attacker sees of it."""
        return self.card.access


@contextmanager
def progress_bar(shown: bool) -> Generator[OnProgress]:
    """A progress bar on stderr, or none."""
    if not shown:
        yield lambda fraction, words: None
        return
    text = TextColumn("{task.description}", markup=False)
    with Progress(text, BarColumn(), TimeElapsedColumn(), console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=1.0)
        yield lambda fraction, words: bar.update(task, completed=fraction, description=printable(words))


@contextmanager
def workbench(device: torch.device | str, progress: bool) -> Generator[Workbench]:
    """A workbench for one call. progress: whether a bar on stderr shows how far it is."""
    store = open_store(str(_home(os.getpid()) / "store"))
    store.open_for_writing()
    threads = torch.get_num_threads()
    with ExitStack() as stack, progress_bar(progress) as on_progress:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=_home(os.getpid()))))
        try:
            yield Workbench(store=store, folder=folder, device=str(device), on_progress=on_progress, stack=stack)
        finally:
            torch.set_num_threads(threads)  # stages on a CPU compute in one


@cache
def _home(process: int) -> Path:
    """The temporary folder of a process, which removes it when it ends; a fork of it has its own."""
    home = Path(tempfile.mkdtemp(prefix="smoothsweep-"))
    atexit.register(lambda: shutil.rmtree(home, ignore_errors=True) if os.getpid() == process else None)
    return home


@dataclass(frozen=True, kw_only=True)
class Workbench:
    """One call of the library.

    Attributes:
        store: Where stages leave what they make.
        folder: For files that are good during the call.
        device: What networks run on.
        stack: What is to be given back after the call.
        splits: Images in memory that their owner has split, by the file that they lie in.
    """

    store: Store
    folder: Path
    device: str
    on_progress: OnProgress
    stack: ExitStack
    splits: dict[str, SplitImages] = field(default_factory=dict)

    def people(self, data: People, size: int) -> Section:
        """The section `data`. size: side in pixels at which a folder or a file is read. Raises InputError."""
        if isinstance(data, Place):
            list_labelled(Path(data), images=False)
            return {"kind": "labelled", "path": str(Path(data).resolve()), "size": size}
        if isinstance(data, SplitImages):
            parts = [(data.train, TRAIN), (data.test, TEST)]
        else:
            parts = [(data if isinstance(data, ImageSet) else _labelled(data), None)]
        columns: dict[str, list[Any]] = {"label": [], "identity": [], "split": []}
        for images, split in parts:
            columns["label"] += images.labels.tolist()
            columns["identity"] += [images.names[label] for label in images.labels.tolist()]
            columns["split"] += [split] * len(images)
        if parts[0][1] is None:
            del columns["split"]
        pictures = torch.cat([_squares(images.images, "data") for images, _ in parts])
        path = str(_as_file(pictures, columns))
        if isinstance(data, SplitImages):
            self.splits[path] = data
        return {"kind": "labelled", "path": path, "size": pictures.shape[-1]}

    def public(self, pictures: Pictures, size: int) -> Section:
        """The section `public`. size: side in pixels at which a folder or a file is read. Raises InputError."""
        if isinstance(pictures, Place):
            count, path = len(list_unlabelled(Path(pictures))), str(Path(pictures).resolve())
            section: Section = {"kind": "unlabelled", "path": path, "size": size, "limit": PUBLIC_LIMIT}
        else:
            images = _squares(pictures, "public")
            count = len(images)
            section = {"kind": "unlabelled", "path": str(_as_file(images, {})), "size": images.shape[-1]}
        if count < LEAST_PUBLIC:
            raise InputError(f"public: expected at least {LEAST_PUBLIC} images, got {count}")
        return section

    def prior(self, prior: PriorLike, public: Section) -> Section:
        """The section `prior`. Raises InputError."""
        if prior is EIGENFACES:  # the usual number of directions, unless there are too few images for it
            count = len(list_unlabelled(Path(public["path"])))
            return {**EIGENFACES, "components": components_of(min(count, public.get("limit", count)))}
        if isinstance(prior, Mapping):
            return dict(prior)
        folder = self.folder / "prior"
        if card_of(prior).kind not in NETWORKS:
            own = copy.deepcopy(prior) if isinstance(prior, nn.Module) else prior
            prior = HeldPrior.of(own, self.stack.enter_context(holding(own)))
        save_prior(prior, folder)
        return {"kind": "folder", "path": str(folder)}

    def bring_in(self, model: Model, pictures: Section) -> Subject:
        """The model as a folder. pictures: the section of some images, two of which it is shown. Raises InputError."""
        images = load_unlabelled(Path(pictures["path"]), size=pictures["size"], limit=2)
        folder = self.folder / "model"
        samples = fit_images(images, model.image_size)
        card = self.stack.enter_context(model.bring_in(folder, samples, device=self.device))
        return Subject(folder=folder, card=card, architecture=getattr(model.classifier, "architecture", None))

    def adopt(self, stage: Stage, *, tested: bool = False) -> None:
        """Make the artifact of a model that was brought in, as it is.

        tested: whether the data show its people, on which its reading is then tried. Raises InputError where they show
        that it was stated wrongly, or chance might recognise them as well.
        """
        (data,) = stage.inputs.values()
        self.make([data])
        folder = self.store.path(data)
        if tested and (people := len(json.loads((folder / NAMES_FILE).read_text()))) != stage.config["num_classes"]:
            raise InputError(f"data: expected the model's {stage.config['num_classes']} classes, got {people}")
        write = partial(_adopt, stage, folder, measured=tested, device=self.device)
        commit_made(self.store, stage, write, device=self.device)
        if tested:
            _check_reading(stage, self.store.path(stage), load_images(folder, "test"), self.device)

    def nobody(self, stage: Stage, classes: int) -> None:
        """Make the data of a model whose people are not known here, and not asked for: a black picture of each."""
        black = torch.zeros(classes, 3, PLAIN_SIZE, PLAIN_SIZE, dtype=torch.uint8)
        people = ImageSet(images=black, labels=torch.arange(classes), names=tuple(map(str, range(classes))))
        commit_made(self.store, stage, partial(save_split, people, people, ()), device=self.device)

    def make(self, stages: Sequence[Stage]) -> None:
        """Make what is missing of the stages and of what they read."""
        missing = [stage for stage in with_ancestors(list(stages)) if not self.store.has(stage)]
        for number, stage in enumerate(missing):
            self.on_progress(number / len(missing), stage.label)
            split = self.splits.get(stage.hints.get("path", "")) if stage.name == "data" else None
            if split is None:
                execute_with_inputs(self.store, stage, device=self.device)
            else:  # as it is, also where both parts have some images in common
                write = partial(save_split, split.train, split.test, split.notes)
                commit_made(self.store, stage, write, device=self.device)

    def trained(self, data: Section, recipe: Mapping[str, Any], seed: int) -> tuple[Stage, Classifier]:
        """The stage of a training on these images, and what it made."""
        tree = {"name": "training", "seeds": [seed], "data": data, "recipe": dict(recipe), "attack": None}
        stage = inversion_stages(as_inversion(as_loaded({**tree, "judges": {}}).sweep), seed).target
        self.make([stage])
        folder = self.store.path(stage)
        return stage, load_classifier(folder, config_of(folder), self.device)

    def imported_judge(self, network: Classifier, names: Sequence[str], image_size: int) -> Path:
        """A classifier that judges, as the folder of an imported one."""
        folder = self.folder / "judge"
        card: dict[str, Any] = {"version": CARD_VERSION, "architecture": network.architecture}
        card |= {"num_classes": len(names), "image_size": image_size, "transform_input": False}
        card |= {"data": None, "defense": None}
        folder.mkdir()
        save_tensors(folder / WEIGHTS, {name: value.cpu() for name, value in network.state_dict().items()})
        write_file(folder / CARD, checked_card(card, "judge").text)
        return folder

    def context(self) -> TaskContext:
        """For what is computed outside of a stage."""
        return TaskContext(work=self.folder, device=self.device)


def _adopt(stage: Stage, data: Path, out: Path, *, measured: bool, device: str) -> Metrics:
    """Write the artifact of a model. A function, which may count its queries, is shown test images if `measured`."""
    config, folder = {**stage.config, **stage.hints}, Path(stage.hints["path"])
    write_file(out / NAMES_FILE, (data / NAMES_FILE).read_text())
    if "outside" in config:
        keep_external(folder / Function.file, config, torch.arange(config["num_classes"]), out)
        if not measured:
            return {}
    else:
        save_tensors(out / WEIGHTS, load_tensors(folder / WEIGHTS))
    network, context = load_target(out, config, device), TaskContext(work=out, device=device)
    metrics = measure_utility(network, load_images(data, "test"), config, out, context)
    labels_alone = config.get("outside", {}).get("answers") == "labels"
    return metrics | ({"ece": None} if labels_alone else {})


def _check_reading(stage: Stage, folder: Path, test: ImageSet, device: str) -> None:
    config = {**stage.config, **stage.hints}
    check_reading(
        load_target(folder, config, device),
        test,
        load_tensors(folder / "test_logits.safetensors")["logits"],
        Claim(normalisation=normalisation_from(config), order=torch.arange(test.num_classes)),
        orders={},
        image_size=config["image_size"],
        device=device,
        where="model",
        then=as_arguments,
    )


def as_arguments(
    normalisation: Normalisation | None, reordered: bool, image_size: int | None = None, stated: Channels = "rgb"
) -> str:
    """The remedy in a message: which arguments of `Model` and which order of labels to use (see `check_reading`)."""
    fields = [] if image_size is None else [f"image_size={image_size}"]
    if normalisation is not None and normalisation.ends is not None:
        fields.append("input_range=({:g}, {:g})".format(*normalisation.ends))
    elif normalisation is not None:
        fields.append(f"mean={normalisation.mean} and std={normalisation.std}")
    if normalisation is not None and "bgr" in (normalisation.channels, stated):
        fields.append(f"channels={normalisation.channels!r}")
    advice = [f"say {' and '.join(fields)} to Model"] if fields else []
    return " and ".join([*advice, *(["number the labels of data as its outputs are"] if reordered else [])])


def usual_size(model: Model) -> int:
    """Side in pixels at which pictures are read, unless a caller says otherwise."""
    return min(STORED_SIZE, model.image_size)


def check_model(model: object) -> None:
    """Raise InputError for anything but a `Model`, such as a bare network."""
    if not isinstance(model, Model):
        raise InputError(
            "model: expected smoothsweep.Model(network, image_size=..., input_range=...), which says how it reads "
            f"images, got {type(model).__name__}"
        )


def everything(data: People, size: int) -> ImageSet:
    """All images, training images first where there is a split. size: as of `Workbench.people`. Raises InputError."""
    if isinstance(data, ImageSet):
        return data
    if isinstance(data, tuple):
        return _labelled(data)
    split = data if isinstance(data, SplitImages) else load_labelled(Path(data), size=size)
    return ImageSet(
        images=torch.cat([split.train.images, split.test.images]),
        labels=torch.cat([split.train.labels, split.test.labels]),
        names=split.train.names,
    )


def has_split(data: People) -> bool:
    """Whether the data mark training images and held-out images. Raises InputError."""
    if isinstance(data, Place):
        return any(entry.split == TEST for entry in list_labelled(Path(data), images=False).entries)
    return isinstance(data, SplitImages)


def _as_file(images: Tensor, columns: Mapping[str, list[Any]]) -> Path:
    """A Parquet file of pictures uint8 [N, 3, S, S], lossless, under a name that its content gives."""

    def encoded(pixels: np.ndarray) -> bytes:
        buffer = BytesIO()
        Image.fromarray(pixels).save(buffer, "PNG", compress_level=1)
        return buffer.getvalue()

    pictures = [encoded(pixels) for pixels in images.permute(0, 2, 3, 1).contiguous().numpy()]
    buffer = BytesIO()
    pq.write_table(pa.table({"image": pa.array(pictures, pa.binary()), **columns}), buffer)
    path = _home(os.getpid()) / f"{sha256(buffer.getvalue()).hexdigest()[:32]}.parquet"
    if not path.is_file():
        write_file(path, buffer.getvalue())
    return path


def _labelled(data: Any) -> ImageSet:
    if not isinstance(data, tuple) or len(data) != 2:
        raise InputError(f"data: expected (images, labels), a folder or a Parquet file, got {type(data).__name__}")
    images = _squares(data[0], "data")
    values = data[1].tolist() if isinstance(data[1], np.ndarray) else data[1]
    if isinstance(values, list | tuple) and values and all(isinstance(value, str) for value in values):
        if len(values) != len(images):
            raise InputError(f"data: expected a label for each of {len(images)} images, got {len(values)}")
        named = [unicodedata.normalize("NFC", value) for value in values]
        names, numbers = np.unique(named, return_inverse=True)
        return ImageSet(images=images, labels=torch.from_numpy(numbers).long(), names=tuple(names.tolist()))
    labels = _tensor(data[1], "data: labels")
    if labels.is_floating_point() or labels.dtype == torch.bool or labels.shape != images.shape[:1]:
        got = f"{labels.dtype} {list(labels.shape)}"
        raise InputError(f"data: expected labels, whole numbers [{len(images)}], got {got}")
    if labels.min() < 0:
        raise InputError(f"data: expected labels from 0, got {int(labels.min())}")
    return ImageSet(images=images, labels=labels.long(), names=tuple(map(str, range(int(labels.max()) + 1))))


def _squares(pictures: Any, what: str) -> Tensor:
    tensor = _tensor(pictures, what)
    square = tensor.ndim == 4 and tensor.shape[1] == 3 and tensor.shape[2] == tensor.shape[3] and len(tensor) > 0
    if tensor.dtype != torch.uint8 or not square:
        raise InputError(f"{what}: expected images uint8 [N, 3, S, S], got {tensor.dtype} {list(tensor.shape)}")
    return tensor.cpu()


def _tensor(value: Any, what: str) -> Tensor:
    if isinstance(value, np.ndarray) and value.dtype.kind in "iufb":
        return torch.from_numpy(value)
    if not isinstance(value, Tensor):
        raise InputError(f"{what}: expected a tensor or a numpy array, got {type(value).__name__}")
    return value
