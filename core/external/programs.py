"""Models that are programs in a file: TorchScript, torch.export, ONNX. They run in a process that can only compute.

Nothing of a file is looked at here: `core.isolation` is the wall. The loaders below run behind it.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Mapping, Sequence
from contextlib import redirect_stderr
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from smoothsweep.core.errors import InputError
from smoothsweep.core.external.base import ForeignModel
from smoothsweep.core.files import write_file
from smoothsweep.core.readers.files import MOST_BYTES, open_regular, too_large, why_unread
from smoothsweep.core.text import shortened, suggestion

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn

    from smoothsweep.core.external.model import OpenedModel
    from smoothsweep.core.isolation.worker import Loaded
    from smoothsweep.core.models.official import ImportFacts

MOST_ONNX = 2 * 2**30  # bytes of a protocol buffer
WITHOUT_CONVERTER = "gradients come back through an ONNX model only where onnx2torch is installed"
NOT_CONVERTED = "onnx2torch, by which gradients come back, does not know this graph; another opset may help"
AGREEMENT = 1e-3  # relative to the largest answer: between onnxruntime and the network that onnx2torch made
CHANNELS = {3: "", 1: "grey"}
ONNX_DTYPES = {"tensor(float)": "float32", "tensor(double)": "float64"}  # else as torch calls them: tensor(uint8)


class TorchScript(ForeignModel):
    """What `torch.jit.save` writes."""

    words = "a TorchScript program"
    short = "TorchScript"
    file = "program.torchscript"
    computes_alone = True

    @classmethod
    def is_archive(cls, members: Sequence[str]) -> bool:
        """It holds constants and code."""
        return "constants.pkl" in members and any(name.startswith("code/") for name in members)

    @staticmethod
    def open(path: Path, settings: Mapping[str, Any], device: torch.device) -> OpenedModel:
        """The program in evaluation mode; how many images of which form it takes is tried at its import."""
        return _opened(path, settings, device, loader="load_script", what=TorchScript.words)


class TorchExport(ForeignModel):
    """What `torch.export.save` writes. timm's networks become such programs."""

    words = "a program of torch.export"
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
        """A network of timm's, `timm:NAME`, with the checkpoint's weights, for any number of square images of one size.

        timm is asked for the architecture alone: by the names that it lists, never for weights, and never for a name
        that leads to a server (`huggingface/pytorch-image-models`, timm/models/_factory.py). The weights must fit in
        every name and shape. image_size: None where the network has one size. weights: the set that is taken where the
        checkpoint holds several. Raises InputError, one line.
        """
        from smoothsweep.core.models import checkpoints
        from smoothsweep.core.models.official import ImportFacts
        from smoothsweep.core.models.weight_files import file_sha256

        try:
            import timm  # ty: ignore[import-not-found]  # an extra, which may not be installed
        except ImportError:
            got = "got none: pip install 'smoothsweep[timm]'"
            raise InputError(
                f"--architecture {shortened(architecture)}: expected timm to be installed, {got}"
            ) from None
        name = architecture.partition(":")[2]
        if name not in timm.list_models():
            meant = suggestion(name, timm.list_models())
            raise InputError(
                f"--architecture: expected a network of timm {timm.__version__}, got {shortened(name)!r}{meant}"
            )
        where = f"checkpoint {checkpoint} as {architecture} of {num_classes} classes"
        content = checkpoints.read_tensor_file(checkpoint, "checkpoint")
        usual = timm.get_pretrained_cfg(name, allow_unregistered=True)
        fixed = bool(usual is not None and usual.fixed_input_size)
        if image_size is None and not fixed:
            raise InputError(f"--image-size: expected the side in pixels that this {name} was trained at, got none")
        side = image_size or usual.input_size[-1]
        sized: dict[str, Any] = {"img_size": side} if fixed else {}
        network = timm.create_model(name, pretrained=False, num_classes=num_classes, **sized)
        own = network.state_dict()
        taken, others = checkpoints.choose_weights(content, [{key: key for key in own}], architecture, where, weights)
        state = checkpoints.plain_tensors(taken.state, where, most_bytes=checkpoints.most_of(network))
        network.load_state_dict(checkpoints.fitting_state(state, own, where, taken.keys))
        _export(network.eval(), side, out, architecture)
        return ImportFacts(
            architecture="torch_export",
            num_classes=num_classes,
            protocol="paper",
            transform_input=None,
            sha256=file_sha256(checkpoint),
            wrapping=f"{architecture} of timm {timm.__version__}",
            prefix=taken.prefix,
            tensors=len(state),
            epoch=None,
            remarks=tuple(checkpoints.remarks_on(taken, others)),
        )

    @staticmethod
    def open(path: Path, settings: Mapping[str, Any], device: torch.device) -> OpenedModel:
        """The program as it was exported."""
        return _opened(
            path, settings, device, loader="load_exported", what=TorchExport.words, preload=("torch.export",)
        )


def _export(network: nn.Module, side: int, out: Path, architecture: str) -> None:
    import torch

    example, written = torch.zeros(2, 3, side, side), io.BytesIO()
    try:
        with torch.no_grad(), redirect_stderr(io.StringIO()):  # where torch writes what it has traced so far
            program = torch.export.export(network, (example,), dynamic_shapes=({0: torch.export.Dim("images")},))
    except Exception as error:  # whatever torch or the network raises: it is code from outside
        reason = " ".join(str(error).split())[:200]
        raise InputError(
            f"{architecture}: expected a network that torch.export takes at {side} pixels, got: {reason}"
        ) from None
    torch.export.save(program, written)
    write_file(out, written.getvalue())


class ONNX(ForeignModel):
    """A file of the Open Neural Network Exchange."""

    words = "an ONNX model"
    short = "ONNX"
    file = "model.onnx"
    computes_alone = True

    @classmethod
    def is_named(cls, path: Path) -> bool:
        """Nothing in it says what it is."""
        return path.suffix == ".onnx"

    @staticmethod
    def open(path: Path, settings: Mapping[str, Any], device: torch.device) -> OpenedModel:
        """The model on the device where onnxruntime has it, else on the CPU.

        settings: `access`, unless it is not known yet; below gradients onnx2torch is not asked.
        """
        if find_spec("onnxruntime") is None:
            needed = "expected onnxruntime to run it, which is not installed: pip install 'smoothsweep[onnx]'"
            raise InputError(f"{path}: {needed}")
        wanted = settings.get("access", "gradients") == "gradients"
        convert = wanted and find_spec("onnx2torch") is not None
        return _opened(
            path,
            settings,
            device,
            loader="load_onnx",
            what=ONNX.words,
            told={"convert": convert, "compare": "access" not in settings},
            preload=("onnxruntime", *(("onnx2torch",) if convert else ())),
            packages=("onnx", "onnxruntime", "onnx2torch", "google"),
            most_bytes=MOST_ONNX,
        )


def _opened(
    path: Path,
    settings: Mapping[str, Any],
    device: torch.device,
    *,
    loader: str,
    what: str,
    told: Any = None,
    most_bytes: int = MOST_BYTES,
    **how: Any,
) -> OpenedModel:
    """The program as its file or its card has it. Raises InputError, one line that begins with the path."""
    from smoothsweep.core.external.model import OpenedModel
    from smoothsweep.core.isolation.process import IsolatedProgram
    from smoothsweep.core.isolation.worker import DTYPES, LAYOUTS

    try:
        with open_regular(path) as file:
            if (size := path.stat().st_size) > most_bytes:
                raise InputError(f"{path}: expected {what} of {too_large(most_bytes, size)}")
            how |= {"loader": f"{__name__}:{loader}", "what": what, "where": str(path)}
            program = IsolatedProgram(file, device=device, settings=told, **how)
    except OSError as error:
        raise InputError(f"{path}: expected {what}, got: {why_unread(error)}") from None
    facts = program.facts
    shape, differentiable = facts["shape"], facts.get("differentiable", True)
    if facts["inputs"] != 1 or facts["outputs"] != 1 or (shape and len(shape) != 4):
        raise InputError(
            f"{path}: expected one input of images [N, 3, S, S] and one output, got {facts['inputs']} inputs"
            f"{f', the first {shape}' if shape else ''}, and {facts['outputs']} outputs"
        )
    if not differentiable and settings.get("access") == "gradients":
        raise InputError(f"{path}: expected onnx2torch, by which gradients came back when it was brought in, got none")
    found = layout_of(shape)
    if facts["dtype"] not in DTYPES:
        raise InputError(f"{path}: expected images as numbers, got an input of {facts['dtype']}")
    if found is None and shape and None not in (shape[1], shape[3]):
        raise InputError(f"{path}: expected images [N, 3, S, S], of another order or one channel, got {shape}")
    layout = settings.get("layout") or found or (LAYOUTS[0] if "access" in settings else None)  # a card says all
    return OpenedModel(
        answer=program.arranged(layout or LAYOUTS[0], settings.get("dtype") or facts["dtype"]),
        rows=settings.get("rows") or (shape[0] if shape else None),
        side=shape[2] if shape else None,
        differentiable=differentiable,
        unknown_form=layout is None,
        remark=facts.get("remark", ""),
    )


def layout_of(shape: Sequence[int | None]) -> str | None:
    """How images [N, 3, S, S] are shown to a program of such an input, None where it does not say."""
    if len(shape) != 4:
        return None
    for place, end in ((1, "nchw"), (3, "nhwc")):
        if (channels := shape[place]) is not None and channels in CHANNELS:
            return f"{CHANNELS[channels]} {end}".strip()
    return None


def load_script(program: BinaryIO, settings: dict[str, Any], device: torch.device) -> Loaded:
    """A TorchScript program; it says nothing of its input but the type of its weights."""
    import torch

    from smoothsweep.core.isolation.worker import Loaded

    script = torch.jit.load(program, map_location=device).eval()
    graph, weights = script.inlined_graph, [*script.parameters(), *script.buffers()]
    for parameter in script.parameters():
        parameter.requires_grad_(False)
    if not weights:  # frozen: they are constants of its graph
        nodes = graph.findAllNodes("prim::Constant")
        weights = [node.t("value") for node in nodes if node.hasAttribute("value") and node.kindOf("value") == "t"]
    kind = "int8" if "quantized::" in str(graph) else _precision(weights)
    facts = {"inputs": 1, "outputs": 1, "shape": [], "dtype": "float32", "weights": kind}
    return Loaded(answer=script, facts=facts)


def load_exported(program: BinaryIO, settings: dict[str, Any], device: torch.device) -> Loaded:
    """A program of torch.export, with the shape of its input, None for what may vary."""
    import torch

    from smoothsweep.core.isolation.worker import Loaded

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The given buffer is not writable")
        exported = torch.export.load(program)
    module = exported.module(check_guards=False)
    for parameter in module.parameters():
        parameter.requires_grad_(False)
    names = exported.graph_signature.user_inputs
    inputs = [node for node in exported.graph.nodes if node.op == "placeholder" and node.name in names]
    first = inputs[0].meta["val"] if inputs else None
    tensor = isinstance(first, torch.Tensor)
    facts = {
        "inputs": len(inputs),
        "outputs": len(exported.graph_signature.user_outputs),
        "shape": [side if isinstance(side, int) else None for side in first.shape] if tensor else [],
        "dtype": str(first.dtype).removeprefix("torch.") if tensor else "float32",
        "weights": _precision([*module.parameters()]),
    }
    return Loaded(answer=module.to(device), facts=facts)


def _precision(weights: Sequence[Tensor]) -> str:
    """The type of the largest floating tensor."""
    floating = [weight for weight in weights if weight.is_floating_point()]
    largest = max(floating, key=lambda weight: weight.numel(), default=None)
    return "float32" if largest is None else str(largest.dtype).removeprefix("torch.")


def load_onnx(program: BinaryIO, settings: dict[str, Any], device: torch.device) -> Loaded:
    """An ONNX model as a session, or as a network that answers as the session does."""
    import numpy as np
    import torch

    from smoothsweep.core.isolation.worker import Loaded

    content = program.read()
    _check_whole(content)
    session = _session(content, device)
    inputs, outputs = session.get_inputs(), session.get_outputs()
    shape = inputs[0].shape if inputs else []
    facts: dict[str, Any] = {
        "inputs": len(inputs),
        "outputs": len(outputs),
        "shape": [side if isinstance(side, int) and side > 0 else None for side in shape],
        "dtype": ONNX_DTYPES.get(inputs[0].type, inputs[0].type[7:-1]) if inputs else "float32",
        "weights": "int8" if b"DynamicQuantizeLinear" in content else "float32",
        "differentiable": False,
        "remark": "",
    }

    def run(images: Tensor) -> Tensor:
        shown = np.ascontiguousarray(images.detach().cpu().numpy())
        return torch.from_numpy(np.ascontiguousarray(session.run(None, {inputs[0].name: shown})[0]))

    if len(inputs) != 1 or len(outputs) != 1 or len(shape) != 4:
        return Loaded(answer=run, facts=facts)
    network = _network(content, device) if settings["convert"] else None
    if network is None and not find_spec("onnx2torch"):
        facts["remark"] = WITHOUT_CONVERTER
    elif network is None and settings["convert"]:
        facts["remark"] = NOT_CONVERTED
    if network is not None and settings["compare"] and not _agree(network, run, facts, device):
        network = None
    return Loaded(answer=network or run, facts={**facts, "differentiable": network is not None})


def _check_whole(content: bytes) -> None:
    """Raise ValueError for a model whose weights lie in another file beside it."""
    if find_spec("onnx") is None:
        return
    import onnx
    from onnx.external_data_helper import uses_external_data

    tensors = onnx.load_model_from_string(content).graph.initializer
    elsewhere = next((tensor for tensor in tensors if uses_external_data(tensor)), None)
    if elsewhere is not None:
        place = next((entry.value for entry in elsewhere.external_data if entry.key == "location"), "another file")
        raise ValueError(
            f"weights that lie in {place}: write one file, by torch.onnx.export(..., external_data=False) or onnx.save"
        )


def _session(content: bytes, device: torch.device) -> Any:
    import onnxruntime
    import torch

    onnxruntime.set_default_logger_severity(3)
    onnxruntime.disable_telemetry_events()
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = torch.get_num_threads()
    wanted = ["CUDAExecutionProvider"] if device.type == "cuda" else []
    there = [name for name in wanted if name in onnxruntime.get_available_providers()]
    return onnxruntime.InferenceSession(content, options, providers=[*there, "CPUExecutionProvider"])


def _network(content: bytes, device: torch.device) -> nn.Module | None:
    """A torch network of the same graph, None for operators that onnx2torch does not know."""
    import onnx
    from onnx2torch import convert

    try:
        return convert(onnx.load_model_from_string(content)).to(device).eval().requires_grad_(False)
    except Exception:  # whatever a graph makes the converter stumble on: scores remain
        return None


def _agree(network: nn.Module, run: Any, facts: Mapping[str, Any], device: torch.device) -> bool:
    """Whether the network that was made answers as onnxruntime does: gradients of another function are of no use."""
    import torch

    from smoothsweep.core.isolation.worker import LAYOUTS, arranged

    shape = facts["shape"]
    side, known = shape[2] or 64, layout_of(shape)
    images = torch.rand(shape[0] or 2, 3, side, side, generator=torch.Generator().manual_seed(1))
    for layout in (known,) if known else LAYOUTS:
        shown = arranged(images, layout, facts["dtype"])
        try:
            with torch.no_grad():
                wanted, got = run(shown).float(), network(shown.to(device)).float().cpu()
        except Exception:  # a side that the graph does not take, an operator on another device: scores remain
            continue
        most = AGREEMENT * wanted.abs().max().clamp_min(1)
        return wanted.shape == got.shape and bool((wanted - got).abs().max() <= most)
    return False
