"""What one call of the library works on: a user's model, pictures as files, models and priors as folders, and stages.

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
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cache, partial
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import Annotated, Any, TypeGuard, cast, get_args

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from annotated_types import Ge
from PIL import Image
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from safetensors.torch import save_file
from torch import Tensor, nn

from smoothsweep.core.attacks.shared.base import ACCESS_LEVELS, Access
from smoothsweep.core.bounds import Count
from smoothsweep.core.checks import require, require_choice
from smoothsweep.core.data.images import ImageSet
from smoothsweep.core.data.labelled import SplitImages, load_labelled, load_unlabelled
from smoothsweep.core.data.sources import TEST, TRAIN, list_labelled, list_unlabelled
from smoothsweep.core.declared import check_value
from smoothsweep.core.errors import InputError
from smoothsweep.core.external.base import Answers
from smoothsweep.core.external.kinds import KINDS
from smoothsweep.core.external.model import ExternalModel, OpenedModel, answering, check_side, has_gradient
from smoothsweep.core.external.named import HELD, Function
from smoothsweep.core.files import write_file
from smoothsweep.core.held import holding
from smoothsweep.core.models.architectures import TRANSFORMS_INPUT
from smoothsweep.core.models.classifiers import Classifier, UnalteredLogits, build_classifier
from smoothsweep.core.models.inference import Channels, Normalisation, Triple, fit_images
from smoothsweep.core.models.official import classifier_of
from smoothsweep.core.models.reading import Claim, check_reading
from smoothsweep.core.priors.base import Prior
from smoothsweep.core.priors.kinds import NETWORKS
from smoothsweep.core.priors.registry import HeldPrior, card_of, save_prior
from smoothsweep.core.text import printable
from smoothsweep.orchestrator.commands.audit.sweep_file import EIGENFACES, LEAST_PUBLIC, components_of
from smoothsweep.orchestrator.planning.trial import inversion_stages
from smoothsweep.orchestrator.scheduling.execute import commit_made, execute_with_inputs
from smoothsweep.orchestrator.stages.stage import Stage, with_ancestors
from smoothsweep.orchestrator.store.base import Store
from smoothsweep.orchestrator.store.opening import open_store
from smoothsweep.sweeps.expand import as_inversion, check
from smoothsweep.sweeps.imported import CARD, CARD_VERSION, WEIGHTS, TargetCard, checked_card
from smoothsweep.sweeps.schema import InversionSweep
from smoothsweep.tasks.classes import NAMES_FILE
from smoothsweep.tasks.context import Metrics, TaskContext
from smoothsweep.tasks.data import save_split
from smoothsweep.tasks.files import config_of, load_images, load_tensors, save_tensors
from smoothsweep.tasks.imported import keep_external
from smoothsweep.tasks.target import measure_utility
from smoothsweep.tasks.training import load_classifier, load_target, normalisation_from

Place = str | Path
Pictures = Place | Tensor | np.ndarray
"""Images uint8 [N, 3, S, S], or a folder or Parquet file."""

People = Place | tuple[Tensor | np.ndarray, Tensor | np.ndarray | Sequence[str]] | ImageSet | SplitImages
"""Images with their labels [N], whole numbers from 0, or names, whose sorted order is that of the model's outputs;
or a folder with one folder per person, or a Parquet file."""

PriorLike = Prior | Mapping[str, Any]
Section = dict[str, Any]
"""A part of a sweep file."""

PUBLIC_LIMIT = 8000  # images of a place, drawn at random where there are more
PLAIN_SIZE = 16  # pixels of the pictures of nobody


# A user's model

ANSWERS: tuple[Answers, ...] = get_args(Answers)
FUNCTION = "function"
"""The kind of external model that an object of this process is."""
PROBE_IMAGES = 2  # images sent to a model when it is opened


@dataclass(frozen=True)
class Model:
    """Any network or function from images to classes.

    Raises InputError for settings that contradict each other or the classifier.

    Attributes:
        classifier: Images float32 [N, 3, S, S] -> logits or probabilities float [N, C], or labels, whole numbers [N]; a
            function may answer as a numpy array. A network (also of TorchScript) is used as a copy, in evaluation mode
            and in float32, whatever the precision of its weights. Or a state dictionary, or a trainer's dictionary that
            holds one, with its `architecture`, a name as in a sweep file.
        image_size: S in pixels.
        input_range: The numbers of black and white, such as (0, 1) or (-1, 1); this or `mean` and `std` is given.
        mean, std: Mean and deviation of the channels of pictures in [0, 1], as torchvision's Normalize has them.
        channels: "rgb", or "bgr" for a network that gets blue first.
        answers: "logits", "probabilities" or "labels".
        architecture: Architecture of a state dictionary.
        num_classes: C; may be left out unless it answers labels.
        access: What an attacker sees of it; None for all that its answers give: "labels", else "gradients" where they
            carry them, else "scores". Probabilities carry their gradients through a softmax, which may vanish.
    """

    classifier: nn.Module | Callable[[Tensor], Any] | Mapping[str, Any]
    _: KW_ONLY
    image_size: int
    input_range: tuple[float, float] | None = None
    mean: Triple | None = None
    std: Triple | None = None
    channels: Channels = "rgb"
    architecture: str | None = None
    answers: Answers = "logits"
    num_classes: int | None = None
    access: Access | None = None
    reads: Normalisation = field(init=False)

    def __post_init__(self) -> None:
        if isinstance(self.classifier, Mapping):
            if self.architecture is None:
                raise InputError(
                    'model: expected architecture="resnet18" or another name beside a state dictionary, which says no '
                    "layers, got none"
                )
            network = classifier_of(self.classifier, self.architecture, f"model as {self.architecture}")
            object.__setattr__(self, "classifier", network)
        elif self.architecture is not None:
            raise InputError(f"architecture: expected it with a state dictionary alone, got {self.architecture}")
        require(callable(self.classifier), "model", "a network, a function or a state dictionary", self.classifier)
        check_value(Count, self.image_size, "image_size")
        require_choice("answers", self.answers, ANSWERS)
        if self.num_classes is not None:
            check_value(Annotated[Count, Ge(2)], self.num_classes, "num_classes")
        elif self.answers == "labels":
            raise InputError("num_classes: expected how many classes there are, since labels do not show it, got none")
        if self.access is not None:
            require_choice("access", self.access, ACCESS_LEVELS[1:])
        object.__setattr__(self, "reads", self._reading())

    def _reading(self) -> Normalisation:
        stated = [name for name in ("input_range", "mean", "std") if getattr(self, name) is not None]
        if stated == ["input_range"] and self.input_range is not None:
            require(len(self.input_range) == 2, "input_range", "the numbers of black and white", self.input_range)
            return Normalisation.of_range(*self.input_range, channels=self.channels)
        if stated == ["mean", "std"] and self.mean is not None and self.std is not None:
            return Normalisation(mean=(*self.mean,), std=(*self.std,), channels=self.channels)
        got = " and ".join(stated) or "nothing"
        raise InputError(f"model: expected either input_range, or mean and std, got {got}")

    @contextmanager
    def bring_in(self, folder: Path, images: Tensor, *, device: torch.device | str) -> Generator[TargetCard]:
        """Write the folder that a sweep names as an imported target, which is good within the context.

        images: float32 [N, 3, S, S] in [-1, 1]; two of them are sent to the model, which no query count includes.
        Gives the card. Raises InputError where the answers contradict the stated settings.
        """
        samples, answer = images[:PROBE_IMAGES].to(device), cast("nn.Module | Callable[[Tensor], Any]", self.classifier)
        if isinstance(answer, nn.Module):
            answer = copy.deepcopy(answer)
            # A program of TorchScript's copy has weights that are no leaves: moved before this, torch warns of their
            # gradients.
            for weights in answer.parameters():
                weights.detach_().requires_grad_(False)
            answer = answer.to(device).float().eval()
        access, classes = self._examined(answer, samples)
        card: dict[str, Any] = {"num_classes": classes, "image_size": self.image_size, "transform_input": False}
        card |= {"mean": self.reads.mean, "std": self.reads.std, "channels": self.reads.channels}
        folder.mkdir(parents=True)
        with holding(answer) as name:
            if access == "gradients" and self.answers == "logits" and _is_plain(answer):
                transforms = answer.architecture == TRANSFORMS_INPUT and getattr(
                    answer.backbone, "transform_input", False
                )
                card |= {"architecture": answer.architecture, "transform_input": bool(transforms)}
                state = {key: value.detach().cpu().contiguous() for key, value in answer.state_dict().items()}
                save_file(state, folder / WEIGHTS)
            else:
                card |= {"architecture": FUNCTION, "outside": {"answers": self.answers, "access": access}}
                write_file(folder / KINDS[FUNCTION].file, json.dumps({HELD: name}))
            checked = checked_card({"version": CARD_VERSION, "data": None, "defense": None, **card}, "model")
            write_file(folder / CARD, checked.text)
            yield checked

    def _examined(self, answer: Any, samples: Tensor) -> tuple[Access, int]:
        """What an attacker sees of the model, and how many classes it has; asks it for two images."""

        def ask(classes: int | None, access: Access) -> ExternalModel:
            return ExternalModel(
                OpenedModel(answer=answering(answer, "model")),
                answers=self.answers,
                access=access,
                num_classes=classes,
                normalisation=self.reads,
                where="model",
            )

        first = ask(self.num_classes, "scores")
        # No query is sent to a function without need: it may be an endpoint that counts queries.
        is_network = isinstance(answer, nn.Module)
        classes = (check_side(first, samples, said_by="image_size=") if is_network else first(samples)).shape[1]
        if self.answers == "probabilities":
            ask(classes, "scores").check_answers(samples, said_by="answers =")
        highest, why = "gradients", ""
        if self.answers == "labels":
            highest, why = "labels", "its answers are labels"
        elif isinstance(self.classifier, Classifier) and self.classifier.answer.leaves != highest:
            highest, why = self.classifier.answer.leaves, "its defense leaves no more"
        elif not has_gradient(ask(classes, "gradients"), samples):
            highest, why = "scores", "its answers carry no gradients"
        if self.access is not None and ACCESS_LEVELS.index(self.access) > ACCESS_LEVELS.index(highest):
            raise InputError(f"access: expected at most {highest}, since {why}, got {self.access}")
        return self.access or highest, classes


def _is_plain(network: Any) -> TypeGuard[Classifier]:
    """Whether it is a classifier of ours as its architecture and its weights make it, which shows its layers."""
    if not isinstance(network, Classifier) or not isinstance(network.normalise, nn.Identity):
        return False
    if type(network.answer) is not UnalteredLogits or type(network.head) is not nn.Linear:
        return False
    with torch.device("meta"):
        plain = build_classifier(network.architecture, network.num_classes, protocol="clean")
    shapes = ({name: value.shape for name, value in one.state_dict().items()} for one in (plain, network))
    return next(shapes) == next(shapes)


# One call


@contextmanager
def workbench(device: torch.device | str, progress: bool) -> Generator[Workbench]:
    """A workbench for one call. progress: whether a bar on stderr shows how far it is."""
    store = open_store(str(_home(os.getpid()) / "store"))
    store.open_for_writing()
    threads = torch.get_num_threads()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=_home(os.getpid()))))
        try:
            yield Workbench(store=store, folder=folder, device=str(device), progress=progress, stack=stack)
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
        stack: What is to be given back after the call.
        splits: Images in memory that their owner has split, by the file that they lie in.
    """

    store: Store
    folder: Path
    device: str
    progress: bool
    stack: ExitStack
    splits: dict[str, SplitImages] = field(default_factory=dict)

    def people(self, data: People, size: int) -> Section:
        """The section `data`. size: side in pixels at which a folder or a file is read. Raises InputError."""
        if isinstance(data := _as_images(data), Path):
            list_labelled(data, images=False)
            return {"kind": "labelled", "path": str(data.resolve()), "size": size}
        parts = {TRAIN: data.train, TEST: data.test} if isinstance(data, SplitImages) else {"": data}
        columns: dict[str, list[Any]] = {"label": [], "identity": [], "split": []}
        for split, images in parts.items():
            labels = images.labels.tolist()
            columns["label"] += labels
            columns["identity"] += [images.names[label] for label in labels]
            columns["split"] += [split] * len(labels)
        pictures = torch.cat([_squares(images.images, "data") for images in parts.values()])
        if not isinstance(data, SplitImages):
            del columns["split"]
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

    def bring_in(self, model: Model, pictures: Section, name: str = "model") -> tuple[Path, TargetCard]:
        """The model as a folder, and its card. pictures: the section of some images, two of which it is shown. Raises
        InputError."""
        images = load_unlabelled(Path(pictures["path"]), size=pictures["size"], limit=PROBE_IMAGES)
        samples, folder = fit_images(images, model.image_size), self.folder / name
        return folder, self.stack.enter_context(model.bring_in(folder, samples, device=self.device))

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
            config, test, made = {**stage.config, **stage.hints}, load_images(folder, "test"), self.store.path(stage)
            check_reading(
                load_target(made, config, self.device),
                test,
                load_tensors(made / "test_logits.safetensors")["logits"],
                Claim(normalisation=normalisation_from(config), order=torch.arange(test.num_classes)),
                orders={},
                image_size=config["image_size"],
                device=self.device,
                where="model",
                then=as_arguments,
            )

    def nobody(self, stage: Stage, classes: int) -> None:
        """Make the data of a model whose people are not known here, and not asked for: a black picture of each."""
        black = torch.zeros(classes, 3, PLAIN_SIZE, PLAIN_SIZE, dtype=torch.uint8)
        people = ImageSet(images=black, labels=torch.arange(classes), names=tuple(map(str, range(classes))))
        commit_made(self.store, stage, partial(save_split, people, people, ()), device=self.device)

    def make(self, stages: Sequence[Stage]) -> None:
        """Make what is missing of the stages and of what they read."""
        missing = [stage for stage in with_ancestors(list(stages)) if not self.store.has(stage)]
        shown = TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn()
        with Progress(*shown, console=Console(stderr=True), transient=True, disable=not self.progress) as bar:
            task = bar.add_task("", total=len(missing))
            for number, stage in enumerate(missing):
                bar.update(task, completed=number, description=printable(stage.label))
                split = self.splits.get(stage.hints.get("path", "")) if stage.name == "data" else None
                if split is None:
                    execute_with_inputs(self.store, stage, device=self.device)
                else:  # as it is, also where both parts have some images in common
                    write = partial(save_split, split.train, split.test, split.notes)
                    commit_made(self.store, stage, write, device=self.device)

    def trained(self, data: Section, recipe: Mapping[str, Any], seed: int) -> tuple[Stage, Classifier]:
        """The stage of a training on these images, and what it made."""
        stage = inversion_stages(sweep_of(seed, data=data, recipe=dict(recipe)), seed).target
        self.make([stage])
        folder = self.store.path(stage)
        return stage, load_classifier(folder, config_of(folder), self.device)


def sweep_of(seed: int = 1, *, where: str = "audit", **sections: Any) -> InversionSweep:
    """A sweep of one trial, which attacks and judges nothing unless a section says so. Raises InputError, which calls
    the sweep `where`."""
    tree = {"name": "call", "seeds": [seed], "attack": None, "judges": {}, **sections}
    return as_inversion(check(tree, where))


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


def check_model(model: object) -> None:
    """Raise InputError for anything but a `Model`, such as a bare network."""
    if not isinstance(model, Model):
        raise InputError(
            "model: expected smoothsweep.Model(network, image_size=..., input_range=...), which says how it reads "
            f"images, got {type(model).__name__}"
        )


def everything(data: People, size: int) -> ImageSet:
    """All images, training images first where there is a split. size: as of `Workbench.people`. Raises InputError."""
    if isinstance(data := _as_images(data), Path):
        data = load_labelled(data, size=size)
    if isinstance(data, ImageSet):
        return data
    return ImageSet(
        images=torch.cat([data.train.images, data.test.images]),
        labels=torch.cat([data.train.labels, data.test.labels]),
        names=data.train.names,
    )


def asked_once(model: Model) -> Model:
    """The model, which is not asked again for pictures that it has answered unless gradients are wanted. A network,
    which counts no queries, stays as it is."""
    function, known = model.classifier, dict[bytes, Any]()
    if isinstance(function, nn.Module | Mapping):
        return model

    def answer(images: Tensor) -> Any:
        if images.requires_grad:
            return function(images)
        keys = [sha256(image.tobytes()).digest() for image in images.cpu().numpy()]
        if not known.keys() >= set(keys):
            answers = function(images)
            if isinstance(answers, Tensor | np.ndarray) and len(answers) == len(keys):
                known.update(zip(keys, answers, strict=True))
            return answers
        rows = [known[key] for key in keys]
        return torch.stack(rows) if isinstance(rows[0], Tensor) else np.stack(rows)

    return replace(model, classifier=answer)


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


def _as_images(data: Any) -> Path | ImageSet | SplitImages:
    """Images with their labels in one form. Raises InputError."""
    if isinstance(data, Place):
        return Path(data)
    if isinstance(data, ImageSet | SplitImages):
        return data
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
