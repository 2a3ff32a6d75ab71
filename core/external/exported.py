"""Programs that `torch.export.save` wrote, run operation by operation; nothing in them is unpickled or evaluated.

torch's own reader unpickles sample inputs and odd tensors, evaluates formulas and guards as Python, and calls whatever
in `torch` a node names. So the graph is looked through before it: every operation must be arithmetic of torch, every
formula plain, every other text a name; what only serves other ends (sample inputs, guards, where in the source a node
came from) is left out, and torch is given a new archive of the rest. Source of the format: `pytorch/pytorch`,
torch/_export/serde/schema.py and serialize.py, torch/export/pt2_archive.
"""

from __future__ import annotations

import io
import json
import re
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from smoothsweep.core.errors import InputError
from smoothsweep.core.external.base import ForeignModel
from smoothsweep.core.external.operators import ATEN
from smoothsweep.core.readers.archives import Members, members_of, text_of
from smoothsweep.core.readers.files import why_unread
from smoothsweep.core.text import shortened

if TYPE_CHECKING:
    import torch

    from smoothsweep.core.external.model import OpenedModel
    from smoothsweep.core.isolation.serving import Loaded
    from smoothsweep.core.models.official_targets import ImportFacts

WHAT = "a program of torch.export"
GRAPH = "models/model.json"
WEIGHTS, CONSTANTS = "data/weights/model_weights_config.json", "data/constants/model_constants_config.json"
SAMPLES = "data/sample_inputs/model.pt"
_PLAIN = ("archive_format", "archive_version", ".data/version", "byteorder")
_TENSOR_FILE = re.compile(r"(weight|tensor)_\d+")

_SYMBOL = r"Symbol\('[a-z]+\d+'(?:, [a-z]+=(?:True|False))*\)"
_FUNCTION = r"(?:Integer|Add|Mul|Max|Min|Mod|FloorDiv|CeilDiv|CleanDiv)(?=\()"
_FORMULA = re.compile(rf"(?:{_SYMBOL}|{_FUNCTION}|\d{{1,12}}(?!\d)|[-+/%(), ]|\*(?!\*))+")
_ATEN = re.compile(r"torch\.ops\.aten\.(\w+)\.\w+")
_NUMBERS = re.compile(
    r"torch\.sym_(?:max|min|float|int|not)"
    r"|_operator\.(?:getitem|add|sub|mul|floordiv|truediv|mod|neg|eq|ne|lt|le|gt|ge)"
)
_WORD = re.compile(r"[\w.:+-]*")
_SPECS = ("in_spec", "out_spec")
_CONTAINERS = (None, "builtins.tuple", "builtins.list", "builtins.dict")


class TorchExport(ForeignModel):
    """What `torch.export.save` writes. timm's networks become such programs."""

    words = WHAT
    short = "torch.export"
    file = "program.pt2"
    makes = "timm:"
    computes_alone = True

    @classmethod
    def is_archive(cls, members: Sequence[str]) -> bool:
        """It holds a graph."""
        return any(name.startswith("models/") and name.endswith(".json") for name in members)

    def make(
        self,
        architecture: str,
        checkpoint: Path,
        *,
        num_classes: int,
        image_size: int | None,
        out: Path,
        weights: str | None,
    ) -> ImportFacts:
        """A network of timm's with the checkpoint's weights."""
        from smoothsweep.core.external.timm_network import export_timm

        return export_timm(
            architecture, checkpoint, num_classes=num_classes, image_size=image_size, out=out, weights=weights
        )

    @staticmethod
    def open(path: Path, settings: Mapping[str, Any], device: torch.device) -> OpenedModel:
        """The program, checked, in an isolated process."""
        return open_exported(path, settings, device)


def check_exported(members: Members, path: Path) -> dict[str, bytes | None]:
    """The members that torch is given; None for tensors, which are taken as they are.

    Raises InputError, one line, for whatever is no plain arithmetic on tensors.
    """
    import torch

    for name in (GRAPH, WEIGHTS, CONSTANTS, *_PLAIN):
        if name not in members:
            raise InputError(f"{path}: expected {WHAT} as torch 2.9 or later saves it, got an archive without {name}")
    graph = _json(members.read(GRAPH), f"{path}: {GRAPH}")
    _leave_out_remarks(graph)
    _check(graph, f"{path}: {GRAPH}")
    kept: dict[str, bytes | None] = {name: members.read(name) for name in _PLAIN}
    for config in (WEIGHTS, CONSTANTS):
        kept |= _tensors(config, members, path)
    samples = io.BytesIO()
    torch.save(((), {}), samples)  # where its sample inputs were
    return {**kept, GRAPH: json.dumps(graph).encode(), SAMPLES: samples.getvalue()}


def _json(content: bytes, where: str) -> dict[str, Any]:
    try:
        value = json.loads(text_of(content, where))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{where}: expected an object in JSON, got: {why_unread(error)}") from None
    if not isinstance(value, dict):
        raise InputError(f"{where}: expected an object in JSON, got {type(value).__name__}")
    return value


def _tensors(config: str, members: Members, path: Path) -> dict[str, bytes | None]:
    """The description of the weights or constants, and the raw files that it names."""
    content, folder = members.read(config), config.rpartition("/")[0]
    described = _json(content, f"{path}: {config}")
    entries, kept = described.get("config"), dict[str, bytes | None]({config: content})
    if not isinstance(entries, dict):
        raise InputError(f"{path}: {config}: expected tensors by name, got none")
    for name, entry in entries.items():
        file = entry.get("path_name") if isinstance(entry, dict) else None
        if not isinstance(file, str) or not _TENSOR_FILE.fullmatch(file) or entry.get("use_pickle") is not False:
            raise InputError(f"{path}: {config}: {shortened(name)}: expected raw numbers, got something pickled")
        if f"{folder}/{file}" not in members:
            raise InputError(f"{path}: {config}: {shortened(name)}: expected its numbers in {file}, got no such member")
        kept[f"{folder}/{file}"] = None
    _check(described, f"{path}: {config}")
    return kept


def _leave_out_remarks(graph: dict[str, Any]) -> None:
    """Drop what the arithmetic does not need: source lines, guards, how submodules were called."""
    graph["guards_code"] = []
    module = graph.get("graph_module")
    calls = module.get("module_call_graph") if isinstance(module, dict) else None
    if isinstance(module, dict) and isinstance(calls, list):
        module["module_call_graph"] = [call for call in calls if isinstance(call, dict) and call.get("fqn") == ""]
    pending: list[Any] = [graph]
    while pending:
        value = pending.pop()
        if isinstance(value, dict):
            if isinstance(value.get("metadata"), dict):
                value["metadata"] = {}
            pending += value.values()
        elif isinstance(value, list):
            pending += value


def _check(tree: Any, where: str) -> None:
    """Raise InputError for a text that is neither an operation of torch's, nor a formula, nor a name."""
    pending: list[tuple[str, Any]] = [("", tree)]
    while pending:
        key, value = pending.pop()
        if isinstance(value, dict):
            pending += [*value.items(), *(("", name) for name in value)]
        elif isinstance(value, list):
            pending += [(key, item) for item in value]
        elif isinstance(value, str):
            _check_text(key, value, where)


def _check_text(key: str, text: str, where: str) -> None:
    if key in ("target", "as_operator"):
        named = _ATEN.fullmatch(text)
        if not _NUMBERS.fullmatch(text) and (named is None or named[1] not in ATEN):
            raise InputError(
                f"{where}: expected operations of torch.ops.aten that are listed as arithmetic, got {shortened(text)}"
            )
    elif key == "expr_str":
        if not _FORMULA.fullmatch(text):
            raise InputError(f"{where}: expected a size as a plain formula, got {shortened(text)}")
    elif key in _SPECS:
        _check_spec(text, where)
    elif not _WORD.fullmatch(text):
        raise InputError(f"{where}: expected a name, got {shortened(text)}")


def _check_spec(text: str, where: str) -> None:
    """How arguments lie in one another: plain containers alone, which torch makes without importing anything."""
    try:
        version, root = json.loads(text)
    except (ValueError, TypeError, RecursionError):
        raise InputError(f"{where}: expected how arguments lie in one another, got {shortened(text)}") from None
    pending: list[Any] = [root]
    while pending:
        node = pending.pop()
        plain = isinstance(node, dict) and node.get("type", "") in _CONTAINERS
        plain = plain and isinstance(node.get("children_spec"), list)
        if version != 1 or not plain or node.get("context") not in (None, "null", "[]"):
            raise InputError(f"{where}: expected one tensor in and one out, got {shortened(text)}")
        pending += node["children_spec"]


def open_exported(path: Path, settings: Mapping[str, Any], device: torch.device) -> OpenedModel:
    """The program on the device, as it was exported. Raises InputError, one line."""
    from smoothsweep.core.external.model import OpenedModel
    from smoothsweep.core.isolation.process import in_memory
    from smoothsweep.core.isolation.program import IsolatedProgram

    with in_memory() as program:
        with members_of(path, WHAT) as members:
            members.write(check_exported(members, path), program)
        isolated = IsolatedProgram(
            program,
            loader=f"{__name__}:load",
            settings={},
            device=device,
            where=str(path),
            what=WHAT,
            preload=(__name__, "torch.export"),
        )
    shape = isolated.facts["shape"]
    if len(shape) != 4:
        raise InputError(
            f"{path}: expected a program of one tensor of images [N, 3, S, S], got {isolated.facts['inputs']} inputs"
        )
    return OpenedModel(answer=isolated, rows=shape[0], side=shape[2])


def load(program: BinaryIO, settings: dict[str, Any], device: torch.device) -> Loaded:
    """Load, in the isolated process, the checked program and the shape of its one input, None for what may vary."""
    import torch

    from smoothsweep.core.isolation.serving import Loaded, whole

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The given buffer is not writable")
        exported = torch.export.load(whole(program))
    module = exported.module(check_guards=False)
    for parameter in module.parameters():
        parameter.requires_grad_(False)
    names = exported.graph_signature.user_inputs
    inputs = [node for node in exported.graph.nodes if node.op == "placeholder" and node.name in names]
    shape = list(inputs[0].meta["val"].shape) if len(inputs) == 1 else []
    sides = [side if isinstance(side, int) else None for side in shape]
    return Loaded(answer=module.to(device), facts={"shape": sides, "inputs": len(inputs)})
