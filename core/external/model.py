"""A model that answers and shows no layers: whatever it is, images in and logits out, as far as its access goes."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import torch
from torch import Tensor

from smoothsweep.core.attacks.shared.base import Access
from smoothsweep.core.checks import present
from smoothsweep.core.errors import InputError
from smoothsweep.core.external.base import Answers
from smoothsweep.core.isolation.process import IsolatedProgram
from smoothsweep.core.isolation.worker import LAYOUTS
from smoothsweep.core.models.inference import Normalisation, input_layer
from smoothsweep.core.models.reading import USUAL_SIZES, is_near
from smoothsweep.core.text import first_sentence

LEAST_PROBABILITY = 1e-30
"""What a probability counts as at least: its logarithm must be a number."""
ROUNDED = 0.01
"""How far an answer may miss what a probability is; a sum of many may miss it by more."""
LEAST_DIGITS, MOST_DIGITS, SLACK = 2, 4, 1e-5
"""Decimals that probabilities may be rounded to; what float32 may add to their sum."""
UNDECIDED = -100.0
"""The logit of every class but the decided one, where a model names its decision alone: a probability of 0."""
BATCHES = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 48, 64, 100, 128)
"""How many images at once a program is tried with that takes no three."""
PRECISION = {"float16": 1e-2, "bfloat16": 5e-2, "int8": 0.2}
"""How far two answers to one picture may differ, relative to the largest: by the type of the numbers. Numbers of eight
bits are scaled by all images of a batch."""
USUAL_PRECISION, GPU_PRECISION = 1e-3, 1e-2


@dataclass(frozen=True, kw_only=True)
class OpenedModel:
    """A model from outside that answers.

    Attributes:
        answer: float32 [n, 3, S, S] on the device, as the model wants its images -> [n, C], or int64 [n] decided
            classes.
        rows: The number of images that it takes at once, None for any.
        side: S where the file says it.
        differentiable: Whether a gradient may come back through it.
        own_input: Whether it is shown pictures in [0, 1] whatever was said of a normalisation.
        accepts: The logit from which on it accepts a picture as anybody, None for a model that always decides for a
            class.
        unknown_form: Whether a program's file does not say of which form its images are (`worker.arranged`).
        remark: A sentence for the user on what the model answers.
    """

    answer: Callable[[Tensor], Tensor]
    rows: int | None = None
    side: int | None = None
    differentiable: bool = True
    own_input: bool = False
    accepts: float | None = None
    unknown_form: bool = False
    remark: str = ""


class ExternalModel:
    """images float [N, 3, S, S] in [-1, 1] -> logits float32 [N, C] in the data's order, on the images' device.

    Of a model that gives probabilities the logits are their logarithms: the softmax brings them back, and each image's
    logits are the true ones up to a constant. Of one that names a class they are 0 there, elsewhere far below.
    Gradients come back only where `access` is gradients: below that every answer is cut off.
    """

    def __init__(
        self,
        opened: OpenedModel,
        *,
        answers: Answers,
        access: Access,
        num_classes: int | None,
        normalisation: Normalisation,
        order: Tensor | None = None,
        leave_out: Sequence[int] = (),
        where: str,
    ) -> None:
        """Read an opened model as it was said to answer.

        Args:
            num_classes: None where the answers show it.
            order: int64 [C], the model's output for each class of the data, None for its own.
            leave_out: Outputs that are nobody; the others are numbered without them.
            where: How an error begins.
        """
        if leave_out and answers == "labels":  # whom it names may be nobody: then it accepts no one
            opened = replace(opened, accepts=UNDECIDED / 2)
        self.opened, self.answers, self.access, self.where = opened, answers, access, where
        self.num_classes, self._order = num_classes, order
        self._outputs = None if num_classes is None else num_classes + len(leave_out)
        self._kept = [output for output in range(self._outputs or 0) if output not in leave_out] if leave_out else None
        self.wants(normalisation)

    def wants(self, normalisation: Normalisation) -> None:
        """Show the model images in [-1, 1] as this normalisation has them, from now on."""
        self._normalise = input_layer(Normalisation.of_range(0, 1) if self.opened.own_input else normalisation)

    def __call__(self, images: Tensor) -> Tensor:
        """Raises InputError, one line, for answers that are not what was said of them."""
        with nullcontext() if self.access == "gradients" else torch.no_grad():
            logits = self.logits(self._raw(images))
        logits = logits if self._kept is None else logits[:, self._kept]
        return logits if self._order is None else logits[:, self._order.to(images.device)]

    def _raw(self, images: Tensor) -> Tensor:
        pixels = self._normalise.to(images.device)(images.float()).contiguous()
        rows = self.opened.rows
        return torch.cat([self._answer(chunk, rows) for chunk in pixels.split(rows or max(1, len(pixels)))])

    def _answer(self, chunk: Tensor, rows: int | None) -> Tensor:
        """The answers to these images; where the model takes a fixed number at once, the last one fills it up."""
        count = len(chunk)
        if rows is not None and count < rows:
            chunk = torch.cat([chunk, chunk[-1:].expand(rows - count, -1, -1, -1)])
        return self.shaped(self.opened.answer(chunk), len(chunk))[:count].to(chunk.device)

    def shaped(self, answer: object, images: int) -> Tensor:
        """The answer to so many images as a tensor, numbers [N, C] or labels [N]; it may come as a numpy array.

        One number for two classes is the second one's: logits 0 and z, probabilities 1 - p and p. Raises InputError,
        one line, for answers that are not what was said of them.
        """
        answers = torch.from_numpy(answer) if isinstance(answer, np.ndarray) and answer.dtype.kind in "iuf" else answer
        if not isinstance(answers, Tensor):
            wanted = f"{self.answers} as one tensor or an array of numbers"
            raise InputError(f"{self.where}: expected {wanted}, got {type(answer).__name__}")
        if self.answers != "labels" and self._outputs == 2 and tuple(answers.shape) in ((images,), (images, 1)):
            second = answers.reshape(images, 1)
            first = 1 - second if self.answers == "probabilities" else torch.zeros_like(second)
            answers = torch.cat([first, second], 1)
        wide = self.answers != "labels"
        classes = self._outputs or max(2, answers.shape[1] if answers.ndim == 2 else 0)
        if tuple(answers.shape) != ((images, classes) if wide else (images,)):
            shape = f"[{images}, {self._outputs or 'C'}]" if wide else f"[{images}]"
            got = f"{list(answers.shape)}"
            if wide and self._outputs and answers.ndim == 2 and answers.shape[1] > self._outputs:
                got += "; outputs that are nobody are named by --leave-out"
            raise InputError(f"{self.where}: expected {self.answers} of shape {shape}, got {got}")
        return answers

    def logits(self, answers: Tensor) -> Tensor:
        """What `shaped` gives as logits float32 [N, C]. Raises InputError as `shaped`."""
        if self.answers == "labels":
            return self._decided(answers)
        answers = answers.float()
        if not bool(torch.isfinite(answers).all()):
            raise InputError(f"{self.where}: expected finite {self.answers}, got NaN or infinity")
        if self.answers == "probabilities" and not is_distribution(answers):
            worst = answers[((answers.sum(1) - 1).abs() + (answers.clamp(0, 1) - answers).abs().sum(1)).argmax()]
            got = ", ".join(f"{number:g}" for number in worst[:8].tolist())
            logarithms = " (their logarithms are logits)" if is_distribution(answers.exp()) else ""
            raise InputError(
                f"{self.where}: expected probabilities, each from 0 to 1 and together 1, got {got}{logarithms}; of "
                "other numbers say that the answers are logits"
            )
        return answers.clamp_min(LEAST_PROBABILITY).log() if self.answers == "probabilities" else answers

    def _decided(self, answers: Tensor) -> Tensor:
        labels, classes = answers.long(), present(self._outputs, "num_classes")
        inside = (labels >= 0) & (labels < classes)
        if not torch.equal(labels.to(answers.dtype), answers) or not bool(inside.all()):
            got = f"{answers.min().item():g} to {answers.max().item():g}"
            wanted = f"labels, whole numbers from 0 to {classes - 1}"
            raise InputError(f"{self.where}: expected {wanted}, got {got}")
        logits = torch.full((len(labels), classes), UNDECIDED, device=answers.device)
        return logits.scatter(1, labels[:, None], 0.0)

    @torch.no_grad()
    def check_answers(self, images: Tensor, *, said_by: str = "--answers") -> None:
        """Raise InputError unless the answers to these images [N, 3, S, S] in [-1, 1] are of the kind that was said.

        said_by: where the kind is said, for the sentence.
        """
        answer = self._raw(images)
        if self.answers == "labels":
            return
        looks = is_distribution(answer.float())
        if looks != (self.answers == "probabilities"):
            observed = "add up to one" if looks else "do not add up to one"
            other = "probabilities" if looks else "logits"
            raise InputError(
                f"{self.where}: expected {self.answers}, got numbers that {observed}: say {said_by} {other}"
            )

    @torch.no_grad()
    def check_alone(self, images: Tensor) -> None:
        """Raise InputError unless the answer to each of these images [N, 3, S, S] depends on nothing but the image.

        Each is asked twice among all, in halves, and the first and the last of them alone. A model that is sent
        pictures is asked for each by itself anyway.
        """
        if self.opened.own_input:
            return
        among_all = self._raw(images)
        if not self._same(among_all, self._raw(images)):
            raise InputError(
                f"{self.where}: expected the same answer to the same pictures, got another the second time: export it "
                "after .eval(), or say --random-answers of a defense that draws noise on purpose"
            )
        half = len(images) // 2
        parts = (images[:half], images[half:], images[:1], images[-1:])
        wanted = (among_all[:half], among_all[half:], among_all[:1], among_all[-1:])
        if not all(self._same(self._raw(part), one) for part, one in zip(parts, wanted, strict=True)):
            raise InputError(
                f"{self.where}: expected answers to each picture by itself, got answers that depend on the other "
                "images of a batch: export it after .eval()"
            )

    def _same(self, one: Tensor, other: Tensor) -> bool:
        """Whether two answers to the same images are the same as far as their numbers go."""
        if self.answers == "labels":
            return torch.equal(one, other)
        kinds = {str(one.dtype).removeprefix("torch.")}
        if isinstance(program := self.opened.answer, IsolatedProgram):
            kinds |= {program.dtype, program.facts.get("weights", "float32")}
        usual = GPU_PRECISION if one.is_cuda else USUAL_PRECISION
        precision = max(usual, *(PRECISION.get(kind, usual) for kind in kinds))
        apart, scale = (one - other).float().abs().max(), one.float().abs().max()
        return bool(apart <= precision * scale)


def is_distribution(answers: Tensor) -> bool:
    """Whether every row [N, C] can be one, also rounded as services answer; False for no rows.

    Numbers that all have the same few digits may each be off by half of the last one: of many classes most then read 0,
    and the rest adds up to less than one.
    """
    if not len(answers):
        return False
    inside = (answers >= -ROUNDED).all() and (answers <= 1 + ROUNDED).all()
    missed, usual = answers.sum(1) - 1, ROUNDED * answers.shape[1] ** 0.5
    half = _half_of_last_digit(answers)
    above, below = half * (answers > 0).sum(1), half * answers.shape[1]  # what was rounded up is above 0
    return bool(
        inside and ((missed <= (above + SLACK).clamp_min(usual)) & (missed >= -max(usual, below + SLACK))).all()
    )


def _half_of_last_digit(answers: Tensor) -> float:
    """Half a unit of the last decimal that numbers were rounded to; 0 where they have more than `MOST_DIGITS`."""
    for digits in range(LEAST_DIGITS, MOST_DIGITS + 1):
        scaled = answers.double() * 10**digits
        if bool(((scaled - scaled.round()).abs() < 1e-6 * 10**digits).all()):
            return 0.5 * 10**-digits
    return 0.0


def answering(program: Callable[[Tensor], Tensor], where: str) -> Callable[[Tensor], Tensor]:
    """The program, whose own errors become InputErrors that begin with `where`.

    A device without memory left is no fault of the program's: the caller, who chose the batch, hears of it as it is.
    """

    def answer(images: Tensor) -> Tensor:
        try:
            return program(images)
        except (torch.OutOfMemoryError, InputError):
            raise
        except Exception as error:  # whatever code from outside may raise
            raise InputError(
                f"{where}: expected answers to images {list(images.shape)}, got: {first_sentence(error)}"
            ) from error

    return answer


def check_side(model: ExternalModel, images: Tensor, *, said_by: str = "--image-size ") -> Tensor:
    """The logits of images [N, 3, S, S] in [-1, 1]. Raises InputError, one line, where the model does not take them.

    The line ends with the nearest usual side that the model does take, if any. That is not tried on a model that is
    sent pictures, since what it may be asked is counted. said_by: how the side is said, before its number.
    """
    try:
        return model(images)
    except InputError as refused:
        stated, counted = images.shape[-1], model.opened.own_input
        near = sorted((side for side in USUAL_SIZES if is_near(side, stated)), key=lambda side: abs(side - stated))
        for side in () if counted or model.opened.side is not None else near:
            try:
                model(torch.zeros(1, 3, side, side))
            except InputError:
                continue
            raise InputError(f"{refused}; it takes images of {side} pixels: use {said_by}{side}") from None
        raise


@dataclass(frozen=True, kw_only=True)
class ModelAbilities:
    """What trying a model from outside found.

    Attributes:
        access: The most that the model gives.
        rows: How many images it takes at once, None for any.
        layout, dtype: How a program is shown images (`core.isolation.worker.LAYOUTS`), None for the usual.
    """

    access: Access
    rows: int | None
    layout: str | None = None
    dtype: str | None = None


def try_external(
    opened: OpenedModel,
    *,
    answers: Answers,
    num_classes: int,
    image_size: int,
    normalisation: Normalisation,
    where: str,
    leave_out: Sequence[int] = (),
    random: bool = False,
) -> ModelAbilities:
    """What the model gives, found out by asking: a few images, alone and together, and a backward pass.

    random: whether it was said to draw noise on purpose.

    Raises InputError, one line, for another size of images or number of classes, for what answers nothing, and for
    answers that depend on more than the picture.
    """
    if opened.side is not None and opened.side != image_size:
        raise InputError(f"--image-size: expected {opened.side}, which {where} takes, got {image_size}")
    images = torch.rand(4, 3, image_size, image_size, generator=torch.Generator().manual_seed(0)) * 2 - 1
    images[1:] = images[1:] * torch.tensor([0.5, 0.1, 0.3])[:, None, None, None]  # of several contrasts
    images[1:] += torch.tensor([0.4, -0.8, 0.6])[:, None, None, None]

    def ask(tried: OpenedModel, access: Access) -> ExternalModel:
        return ExternalModel(
            tried,
            answers=answers,
            access=access,
            num_classes=num_classes,
            normalisation=normalisation,
            leave_out=leave_out,
            where=where,
        )

    pixels = input_layer(Normalisation.of_range(0, 1) if opened.own_input else normalisation)(images)
    scores = ask(_form_that_answers(opened, pixels) or replace(opened, rows=opened.rows or 1), "scores")
    check_side(scores, images[:3])
    if not random:
        scores.check_alone(images)
    form: dict[str, str] = {}
    if isinstance(program := scores.opened.answer, IsolatedProgram):
        form |= {"layout": program.layout} if program.layout != LAYOUTS[0] else {}
        form |= {"dtype": program.dtype} if program.dtype != "float32" else {}
    rows = scores.opened.rows
    if answers == "labels":
        return ModelAbilities(access="labels", rows=rows, **form)
    gives = opened.differentiable and has_gradient(ask(scores.opened, "gradients"), images[:3])
    return ModelAbilities(access="gradients" if gives else "scores", rows=rows, **form)


@torch.no_grad()
def _form_that_answers(opened: OpenedModel, pixels: Tensor) -> OpenedModel | None:
    """The model shown images of the form, and as many at once, as it answers to; None where nothing helps."""
    forms = [opened]
    if isinstance(opened.answer, IsolatedProgram) and opened.unknown_form:
        shown = product(LAYOUTS, dict.fromkeys(("float32", opened.answer.facts["weights"])))
        forms = [replace(opened, answer=opened.answer.arranged(layout, dtype)) for layout, dtype in shown]
    refusals = [_refusal(form, pixels) for form in forms]
    if "" in refusals:
        return forms[refusals.index("")]
    if opened.rows is not None or opened.own_input:
        return None
    named = [int(number) for number in re.findall(r"\b\d{1,3}\b", refusals[0])]  # shape '[4, 2048]' is invalid for ...
    for rows in dict.fromkeys((1, *(number for number in named if 1 < number <= BATCHES[-1]), *BATCHES)):
        for form in forms:
            if not _refusal(tried := replace(form, rows=rows), pixels):
                return tried
    return None


def _refusal(opened: OpenedModel, pixels: Tensor) -> str:
    """Why the model does not answer to each of so many images at once; "" where it does."""
    for count in (3, 1) if opened.rows is None else (opened.rows,):
        try:
            answer = opened.answer(pixels[torch.arange(count) % len(pixels)])
        except InputError as refused:
            return str(refused)
        if isinstance(answer, Tensor | np.ndarray) and (answer.ndim == 0 or len(answer) != count):
            return f"{list(answer.shape)}"
    return ""


def has_gradient(model: ExternalModel, images: Tensor) -> bool:
    """Whether a gradient reaches the images: finite, and not zero everywhere, as it is behind rounded answers."""
    pictures = images.clone().requires_grad_(True)
    try:
        with torch.enable_grad():
            gradient = torch.autograd.grad(model(pictures).square().sum(), pictures, allow_unused=True)[0]
    except RuntimeError:  # torch's word for an answer that nothing leads back from
        return False
    return gradient is not None and bool(torch.isfinite(gradient).all()) and bool(gradient.any())
