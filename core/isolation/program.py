"""A program in a process of its own, as a function of images that gradients lead back through."""

from __future__ import annotations

import itertools
from typing import Any, BinaryIO

import torch
from torch import Tensor

from smoothsweep.core import screen
from smoothsweep.core.errors import InputError
from smoothsweep.core.isolation.limits import Limits, can_isolate, usual_limits
from smoothsweep.core.isolation.numerics import Numerics
from smoothsweep.core.isolation.process import Failed, Isolated

MOST_ANSWER = 2**30  # bytes of one answer: a million classes for 256 images


class IsolatedProgram:
    """images float [n, 3, S, S] -> whatever the program answers, on the images' device.

    Its numbers are those of the same program in this process: threads, precision and strides are the same there. What
    it draws at random comes from a generator of its own, seeded with 0 when it is loaded. Second derivatives are not
    available.
    """

    def __init__(
        self,
        program: BinaryIO,
        *,
        loader: str,
        settings: dict[str, Any],
        device: torch.device,
        where: str,
        what: str,
        preload: tuple[str, ...] = (),
        packages: tuple[str, ...] = (),
        limits: Limits | None = None,
    ) -> None:
        """As `core.isolation.process.Isolated`; what: the kind of program, for the sentence about one that is none.

        Raises InputError, one line.
        """
        self._where, self._device, self._ids, self._forgotten = where, device, itertools.count(), []
        try:
            self.process = Isolated(
                program,
                loader=loader,
                settings=settings,
                device=device,
                where=where,
                preload=preload,
                packages=packages,
                limits=limits or usual_limits(),
                isolated=can_isolate(),
            )
        except Failed as failed:
            raise InputError(f"{where}: expected {what}, got: {failed.first[:200]}") from None
        self._noted = False
        self._note_output()

    @property
    def facts(self) -> dict[str, Any]:
        """What the loader found out."""
        return self.process.facts

    def __call__(self, images: Tensor) -> Tensor:
        """Raises InputError, one line, for whatever the program raises, and where its process ends."""
        if torch.is_grad_enabled() and images.requires_grad:
            return _Answer.apply(images, self)
        return self.answer(images, gradient=False)[0]

    def answer(self, images: Tensor, *, gradient: bool) -> tuple[Tensor, int, bool]:
        """The answer, the number by which its gradient is asked for, and whether one leads back."""
        number = next(self._ids)
        grad_mode = gradient or torch.is_grad_enabled()
        request = {"do": "answer", "id": number, "gradient": gradient, "grad_mode": grad_mode}
        header, answer = self._ask(request, images, most_bytes=MOST_ANSWER, shape=list(images.shape))
        if answer is None:
            raise InputError(f"{self._where}: expected an answer, got none")
        return answer.to(images.device), number, header.get("leads_back") is True

    def back(self, number: int, gradient: Tensor, images: Tensor, *, keep: bool) -> Tensor | None:
        """The gradient with regard to the images, by that of the answer. keep: it may be asked for again."""
        request = {"do": "back", "id": number, "keep": keep}
        size = images.numel() * images.element_size()
        _, image_gradient = self._ask(request, gradient, most_bytes=size, shape=list(images.shape))
        if image_gradient is not None and (
            image_gradient.shape != images.shape or image_gradient.dtype != images.dtype
        ):
            raise InputError(
                f"{self._where}: expected a gradient of shape {list(images.shape)}, got {list(image_gradient.shape)}"
            )
        return None if image_gradient is None else image_gradient.to(images.device)

    def forget(self, number: int) -> None:
        """An answer whose gradient is not asked for any more."""
        self._forgotten.append(number)

    def _ask(
        self, request: dict[str, Any], tensor: Tensor, *, most_bytes: int, shape: list[int]
    ) -> tuple[dict[str, Any], Tensor | None]:
        forget, self._forgotten = self._forgotten[:1000], self._forgotten[1000:]
        numerics = vars(Numerics.here(self._device))
        try:
            return self.process.ask({**request, "numerics": numerics, "forget": forget}, tensor, most_bytes=most_bytes)
        except Failed as failed:
            if failed.memory == "device":
                raise torch.OutOfMemoryError(failed.last) from None
            raise InputError(f"{self._where}: expected answers to images {shape}, got: {failed.last[:200]}") from None
        finally:
            self._note_output()

    def _note_output(self) -> None:
        if self.process.printed and not self._noted:
            self._noted = True
            screen.err(f"{self._where}: the program prints text, which is not shown")


class _Answer(torch.autograd.Function):
    """An answer from the other process; its gradient is asked for there."""

    @staticmethod
    def forward(ctx: Any, images: Tensor, program: IsolatedProgram) -> Tensor:
        answer, number, leads_back = program.answer(images, gradient=True)
        ctx.save_for_backward(images)
        ctx.program, ctx.handle = program, _Handle(program, number)
        if not leads_back:
            ctx.mark_non_differentiable(answer)
        return answer

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, None]:
        [images] = ctx.saved_tensors  # torch raises its own error where the graph was freed
        internals: Any = torch._C  # no stubs of its own
        keep = internals._autograd._get_current_graph_task_keep_graph()
        return ctx.program.back(ctx.handle.number, gradient, images, keep=keep), None


class _Handle:
    """Lives as long as a caller could ask for the gradient of an answer."""

    def __init__(self, program: IsolatedProgram, number: int) -> None:
        self.number, self._program = number, program

    def __del__(self) -> None:
        self._program.forget(self.number)
