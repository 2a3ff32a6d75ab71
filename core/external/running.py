"""What a program from outside raises, as one line for the user who brought it in."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from smoothsweep.core.errors import InputError


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
                f"{where}: expected answers to images {list(images.shape)}, got: {one_line(error, last=True)}"
            ) from error

    return answer


def one_line(error: Exception, *, last: bool = False) -> str:
    """What went wrong: the first line, or the last one of an error that begins with where it was."""
    lines = (str(error).strip() or type(error).__name__).splitlines()
    return " ".join(lines[-1 if last else 0].split())[:200]
