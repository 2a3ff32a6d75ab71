"""What an unfinished stage keeps between attempts: with a checksum in every file, and thrown away where that is wrong.

A power failure leaves files empty or full of zeros, a bad disk turns a bit: neither may be taken for work that was
done, or be sealed with the artifact. What is thrown away is made again.
"""

from __future__ import annotations

import errno
import hashlib
import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from smoothsweep.core import screen
from smoothsweep.core.files import replacing, write_file

DIGEST = "sha256"  # in the header of a tensor file; before the content of a checkpoint
_HEAD_BYTES = len("sha256 ") + 64 + len("\n")


def save_class(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Leave what one class has come to: named tensors, with their checksum."""
    plain = {name: tensor.contiguous() for name, tensor in tensors.items()}
    path.parent.mkdir(parents=True, exist_ok=True)
    write_file(path, save(plain, {DIGEST: _digest(plain)}))


def load_class(path: Path) -> dict[str, Tensor] | None:
    """What `save_class` left; None, the file thrown away, where it is not that any more. None where there is none."""
    try:
        with safe_open(str(path), framework="pt") as file:
            stored = (file.metadata() or {}).get(DIGEST)
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - no mapping
    except FileNotFoundError:
        return None
    except (SafetensorError, OSError, ValueError):
        return _thrown_away(path)
    return tensors if stored == _digest(tensors) else _thrown_away(path)


def finished_class(path: Path) -> dict[str, Tensor]:
    """What `save_class` has just left. Raises OSError where the disk does not give it back."""
    tensors = load_class(path)
    if tensors is None:
        raise OSError(errno.EIO, "cannot be read back as it was written", str(path))
    return tensors


def save_checkpoint(path: Path, state: Mapping[str, object]) -> None:
    """A training state, replaced as a whole: a worker killed while saving leaves the previous one."""
    buffer = io.BytesIO()  # torch's own writer hides a full disk behind an internal error
    torch.save(dict(state), buffer)
    content = buffer.getbuffer()
    with replacing(path) as temporary, temporary.open("wb") as file:
        file.write(_head(content))
        file.write(content)


def load_checkpoint(path: Path) -> dict[str, Any] | None:
    """The state saved last. Only tensors and plain values are read.

    None where there is none, and, the file thrown away, where it is not what was saved.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    state = memoryview(content)[_HEAD_BYTES:]
    if not content.startswith(_head(state)):
        return _thrown_away(path)
    try:
        return torch.load(io.BytesIO(state), weights_only=True, map_location="cpu")
    except Exception:  # torch's zip reader and unpickler raise whatever a cut file makes them trip over
        return _thrown_away(path)


def _thrown_away(path: Path) -> None:
    screen.err(f"smoothsweep: {path}: unfinished work is damaged; it is thrown away and made again")
    path.unlink(missing_ok=True)


def _head(content: memoryview) -> bytes:
    """What stands before a checkpoint's content."""
    return f"sha256 {hashlib.sha256(content).hexdigest()}\n".encode()


def _digest(tensors: Mapping[str, Tensor]) -> str:
    return hashlib.sha256(save(dict(tensors))).hexdigest()
