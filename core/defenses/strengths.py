"""How strong each defense is, as a reader meets it: the families of the report's curves."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from smoothsweep.core.plugins import by_plugin
from smoothsweep.core.text import NBSP, minus

Order = tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class Strength:
    """How strongly a defense is applied. value: in a reader's words. order: numbers that grow with the strength, 0
    where nothing is left of it; None where the strength has no order. used: the parameters this says all about.
    way: which of several ways to measure it, empty for the usual one: strengths measured otherwise share no curve."""

    value: str
    order: Order | None
    used: tuple[str, ...]
    way: str = ""


@dataclass(frozen=True, kw_only=True)
class Family:
    """A defense as a reader meets it.

    name: of its curve. word: before the strength in a recipe's name. parameter: what the strength is called. read: the
    strength of a defense's parameters. starts_plain: whether the weakest end of the curve is plain training;
    why: what is left at that end, where it is not. defaults: parameters that go without saying.
    """

    name: str
    word: str
    parameter: str
    read: Callable[[Mapping[str, Any]], Strength]
    starts_plain: bool
    why: str = ""
    defaults: Mapping[str, Any] = field(default_factory=dict)


def setting_text(key: str, value: Any) -> str:
    """`norm 3`: a parameter beside its value."""
    return f"{str(key).replace('_', ' ')}{NBSP}{value_text(value)}"


def value_text(value: Any) -> str:
    """Numbers without a tail of digits; everything else as text, never empty, containers without their brackets."""
    if is_number(value):
        return minus(f"{value:.6g}".replace("e-0", "e-"))
    if isinstance(value, Mapping):
        text = " ".join(setting_text(key, inner) for key, inner in value.items() if inner is not None)
    elif isinstance(value, (list, tuple)):
        text = " ".join(value_text(inner) for inner in value)
    else:
        text = str(value).replace("_", " ")
    return text or "nothing"


def is_number(value: Any) -> bool:
    """A number that is neither a boolean nor NaN."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value == value


def plain_value(value: Any) -> Any:
    """Lists as tuples, so that values compare."""
    return tuple(plain_value(inner) for inner in value) if isinstance(value, (list, tuple)) else value


def _numbers(
    *parameters: str, named: bool = False, grows: Callable[[float], float] = float, usual: float | None = None
) -> Callable[..., Strength]:
    """A strength that is one or several numbers, named where the family's word does not say what they are.

    usual: of a number that is not given.
    """

    def read(given: Mapping[str, Any]) -> Strength:
        values = [given.get(name, usual) for name in parameters]
        known = [value for value in values if value is not None]
        shown = " / ".join(map(value_text, known)) if known else ""
        ordered = tuple(grows(value) for value in values) if all(map(is_number, values)) else None
        name = f"{parameters[0]}{NBSP}" if named and shown else ""
        return Strength(value=f"{name}{shown}".replace(" / ", f"{NBSP}/{NBSP}"), order=ordered, used=parameters)

    return read


def _frozen(given: Mapping[str, Any]) -> Strength:
    """Stages or a share of the parameters have an order, parts by name have none."""
    for name in ("stages", "fraction", "layers"):
        if name in given:
            order = (float(given[name]),) if is_number(given[name]) else None
            way = "" if name == "stages" else name
            return Strength(value=f"{name}{NBSP}{value_text(given[name])}", order=order, used=(name,), way=way)
    return Strength(value="", order=None, used=())


def _erased(given: Mapping[str, Any]) -> Strength:
    """By the share of an image that is erased on average."""
    p, area = given.get("p", 1.0), given.get("area", (0.1, 0.4))
    if not (is_number(p) and isinstance(area, tuple) and len(area) == 2 and all(map(is_number, area))):
        return Strength(value="", order=None, used=())
    often = "" if p == 1 else f" p{NBSP}{value_text(p)}"
    value = f"{value_text(area[0])}{NBSP}to{NBSP}{value_text(area[1])}{often}"
    return Strength(value=value, order=(p * sum(area) / 2,), used=("p", "area"))


def _skipped(given: Mapping[str, Any]) -> Strength:
    scale = given.get("scale", 0.0)
    if not is_number(scale) or given.get("skip") is not None:  # which skips, beside how much of them
        return Strength(value="", order=None, used=())
    value = f"scale{NBSP}{value_text(scale)}" if scale else ""
    return Strength(value=value, order=(1.0 - scale,), used=("scale",))


def unknown_family(kind: str, given: Mapping[str, Any]) -> Family:
    """A family of which nothing is known: a single number is its strength, anything else tells recipes apart."""
    names = tuple(name for name, value in given.items() if is_number(value) and name != "smoothing")
    name, single = by_plugin(kind.replace("_", " "), "defenses", kind), names if len(names) == 1 else ()
    read = _numbers(*single, named=True) if single else (lambda _: Strength(value="", order=None, used=()))
    return Family(
        name=name[:1].upper() + name[1:],
        word=name,
        parameter="",
        read=read,
        starts_plain=False,
        why="what its weakest setting leaves is not known here",
    )


FAMILIES: dict[str, Family] = {
    "mid": Family(
        name="MID",
        word="MID",
        parameter="",
        read=_numbers("beta", named=True),
        starts_plain=False,
        why="at beta 0 the bottleneck and its noise remain",
        defaults={"beta_warmup": 0.0},
    ),
    "bido": Family(
        name="BiDO",
        word="BiDO",
        parameter="lambda",
        read=_numbers("lambda_input", "lambda_label"),
        starts_plain=False,
        why="at lambda 0 its batches remain",
        defaults={"measure": "hsic", "label_kernel": "linear", "batches": "identities"},
    ),
    "freeze": Family(name="Freezing (TL-DMI)", word="freeze", parameter="", read=_frozen, starts_plain=True),
    "random_erasing": Family(
        name="Random erasing (MIDRE)",
        word="random erasing",
        parameter="area",
        read=_erased,
        starts_plain=True,
        defaults={"aspect": (1.0, 1.0), "fill": "constant"},
    ),
    "skip_removal": Family(
        name="Skip removal (RoLSS)", word="skip removal", parameter="", read=_skipped, starts_plain=True
    ),
    "dropout": Family(name="Dropout", word="dropout", parameter="p", read=_numbers("p"), starts_plain=True),
    "weight_decay": Family(
        name="Weight decay", word="weight decay", parameter="", read=_numbers("value"), starts_plain=True
    ),
    "focal": Family(
        name="Focal loss", word="focal", parameter="", read=_numbers("gamma", named=True), starts_plain=True
    ),
    "confidence_penalty": Family(
        name="Confidence penalty", word="confidence penalty", parameter="beta", read=_numbers("beta"), starts_plain=True
    ),
    "mixup": Family(name="Mixup", word="mixup", parameter="alpha", read=_numbers("alpha"), starts_plain=True),
    "logit_clipping": Family(
        name="Logit clipping",
        word="logit clipping",
        parameter="norm",
        read=_numbers("norm", grows=lambda norm: 1 / norm if norm else float("inf")),
        starts_plain=True,
    ),
    "loft": Family(
        name="LoFt",
        word="LoFt",
        parameter="",
        starts_plain=False,
        defaults={"norm": True},
        read=_numbers("rank", named=True, grows=lambda rank: 1 / rank if rank else float("inf")),
        why="however wide, the tanh remains",
    ),
    "at_at": Family(
        name="AT-AT",
        word="AT-AT",
        parameter="weight",
        read=_numbers("weight", usual=0.08),
        starts_plain=True,
        defaults={"eps": 5e-4, "step": 1e-4, "steps": 5},
    ),
    "ssd": Family(
        name="SSD",
        word="SSD",
        parameter="eps",
        read=_numbers("eps"),
        starts_plain=False,
        why="at eps 0 images are still kept back from the training",
        defaults={"temperature": 0.1, "share": 0.1, "draws": "by_image"},
    ),
    "dp_sgd": Family(
        name="DP-SGD",
        word="DP-SGD",
        parameter="noise",
        read=_numbers("noise"),
        starts_plain=False,
        why="without noise the clipping remains",
        defaults={"clip": 1.0},
    ),
    "trap_mid": Family(
        name="Trap-MID",
        word="Trap-MID",
        parameter="weight",
        read=_numbers("weight", usual=0.2),
        starts_plain=True,
        defaults={"blend": 0.02, "step": 0.02, "smooth_traps": True},
    ),
}
"""Kind of defense -> how a reader meets it, in the order of the report. Label smoothing, of which plain training is the
middle, comes before all."""
