"""What a defense is called: its family, how strong it is, and a recipe's name that fits a table's first column."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from smoothsweep.core.text import NBSP, minus

PLAIN = "plain training"
SMOOTHING = "label_smoothing"

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


@dataclass(frozen=True, kw_only=True)
class RecipeWords:
    """One recipe in words.

    family: its key. name: the family's display name. strength: with the parameter's name ("beta 0.003"). mark: the
    same beside a point of the family's own curve ("0.003"). label: the recipe's name ("MID beta 0.003"). order: see
    `Strength`. arm: what else sets it apart within its family, empty for the main curve. smoothing: the label of the
    smoothing it is combined with, empty without. plain: no defense at all.
    """

    family: str
    name: str
    strength: str
    mark: str
    label: str
    order: Order | None
    arm: str = ""
    smoothing: str = ""
    starts_plain: bool = False
    plain: bool = False

    @property
    def combined(self) -> bool:
        return bool(self.smoothing)


def recipe_words(defense: Mapping[str, Any]) -> RecipeWords:
    """The words for a defense as a sweep file gives it: `kind`, its parameters, `smoothing` (alpha, schedule).

    Parameters that are null or have their default go without saying; all others enter the label, so that two recipes
    share one only where they are the same. An unknown kind is described by its own names. Never raises: a card that
    somebody brought along may hold anything.
    """
    given = {key: _plain_value(value) for key, value in defense.items() if value is not None}
    kind = str(given.pop("kind", "none"))
    if kind in (SMOOTHING, "none"):
        return _smoothed(given)
    smoothing = _as_smoothing(given.pop("smoothing", None))
    family = FAMILIES.get(kind) or _unknown(kind, given)
    strength = family.read(given)
    extras = [
        "COCO" if (key, value) == ("measure", "coco") else _said(key, value)
        for key, value in given.items()
        if key not in strength.used and value != family.defaults.get(key)
    ]
    beside = _smoothed(smoothing)
    added = "" if beside.plain else beside.label
    named = not strength.value[:1].isdigit()  # "skip removal scale 0.5" may break before its last two words
    own = (" " if named else NBSP).join(part for part in (family.word, strength.value) if part)
    tail = "".join(f", {extra}" for extra in extras)
    plus = f" + {added}" if added else ""
    called = NBSP.join(part for part in (family.parameter, strength.value) if part)
    return RecipeWords(
        family=kind,
        name=family.name,
        strength=f"{called or family.word}{tail}{plus}",
        mark=f"{_mark(strength) or family.word}{tail}{plus}",
        label=f"{own}{tail}{plus}",
        order=strength.order,
        arm=", ".join(filter(None, (strength.way, *extras, added))),
        smoothing=added,
        starts_plain=family.starts_plain,
    )


def _mark(strength: Strength) -> str:
    """The strength without the parameter's name, which the curve's title says."""
    first, _, rest = strength.value.partition(NBSP)
    return rest if rest and not first[:1].isdigit() else strength.value


def _smoothed(given: Mapping[str, Any]) -> RecipeWords:
    """Label smoothing, of which plain training is the middle."""
    schedule = given.get("schedule")
    alpha = given.get("alpha", _last_point(schedule))
    order = (float(alpha),) if _is_number(alpha) else None
    extras = [_said(key, value) for key, value in given.items() if key not in ("alpha", "schedule")]
    through = isinstance(schedule, Mapping) and schedule.get("points")
    if schedule is not None and (order != (0.0,) or through):  # without points every path from 0 to 0 is plain
        extras += [words] if (words := _schedule(schedule)) else []
    if order == (0.0,) and not extras:
        return RecipeWords(family=SMOOTHING, name="Label smoothing", strength="alpha\u00a00", mark="0", label=PLAIN,
                           order=order, starts_plain=True, plain=True)  # fmt: skip
    shown, tail = value_text(alpha), "".join(f", {extra}" for extra in extras)
    return RecipeWords(
        family=SMOOTHING,
        name="Label smoothing",
        strength=f"alpha{NBSP}{shown}{tail}",
        mark=f"{shown}{tail}",
        label=f"smoothing{NBSP}{shown}{tail}",
        order=order,
        arm=", ".join(extras),
        starts_plain=True,
    )


def _as_smoothing(smoothing: Any) -> Mapping[str, Any]:
    """`{alpha: ..., schedule: ...}`, of which a file or card may give the factor alone."""
    return smoothing if isinstance(smoothing, Mapping) else {} if smoothing is None else {"alpha": smoothing}


def _last_point(schedule: Any) -> Any:
    """Where a piecewise schedule ends; 0 where nothing says anything."""
    points = schedule.get("points") if isinstance(schedule, Mapping) else None
    last = points[-1] if isinstance(points, (list, tuple)) and points else None
    return last[-1] if isinstance(last, (list, tuple)) and last else 0


def _schedule(schedule: Any) -> str:
    """`linear, start 0.2`; a constant goes without saying."""
    if not isinstance(schedule, Mapping):
        return value_text(schedule)
    given = {key: value for key, value in schedule.items() if value is not None and key != "kind"}
    kind = str(schedule.get("kind", "constant"))
    return "" if kind == "constant" and not given else " ".join([kind, *(_said(k, v) for k, v in given.items())])


def _said(key: str, value: Any) -> str:
    return f"{str(key).replace('_', ' ')}{NBSP}{value_text(value)}"


def value_text(value: Any) -> str:
    """Numbers without a tail of digits; everything else as text, never empty, containers without their brackets."""
    if _is_number(value):
        return minus(f"{value:.6g}".replace("e-0", "e-"))
    if isinstance(value, Mapping):
        text = " ".join(_said(key, inner) for key, inner in value.items() if inner is not None)
    elif isinstance(value, (list, tuple)):
        text = " ".join(value_text(inner) for inner in value)
    else:
        text = str(value).replace("_", " ")
    return text or "nothing"


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value == value


def _plain_value(value: Any) -> Any:
    return tuple(_plain_value(inner) for inner in value) if isinstance(value, (list, tuple)) else value


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
        ordered = tuple(grows(value) for value in values) if all(map(_is_number, values)) else None
        name = f"{parameters[0]}{NBSP}" if named and shown else ""
        return Strength(value=f"{name}{shown}".replace(" / ", f"{NBSP}/{NBSP}"), order=ordered, used=parameters)

    return read


def _frozen(given: Mapping[str, Any]) -> Strength:
    """Stages or a share of the parameters have an order, parts by name have none."""
    for name in ("stages", "fraction", "layers"):
        if name in given:
            order = (float(given[name]),) if _is_number(given[name]) else None
            way = "" if name == "stages" else name
            return Strength(value=f"{name}{NBSP}{value_text(given[name])}", order=order, used=(name,), way=way)
    return Strength(value="", order=None, used=())


def _erased(given: Mapping[str, Any]) -> Strength:
    """By the share of an image that is erased on average."""
    p, area = given.get("p", 1.0), given.get("area", (0.1, 0.4))
    if not (_is_number(p) and isinstance(area, tuple) and len(area) == 2 and all(map(_is_number, area))):
        return Strength(value="", order=None, used=())
    often = "" if p == 1 else f" p{NBSP}{value_text(p)}"
    value = f"{value_text(area[0])}{NBSP}to{NBSP}{value_text(area[1])}{often}"
    return Strength(value=value, order=(p * sum(area) / 2,), used=("p", "area"))


def _skipped(given: Mapping[str, Any]) -> Strength:
    scale = given.get("scale", 0.0)
    if not _is_number(scale) or given.get("skip") is not None:  # which skips, beside how much of them
        return Strength(value="", order=None, used=())
    value = f"scale{NBSP}{value_text(scale)}" if scale else ""
    return Strength(value=value, order=(1.0 - scale,), used=("scale",))


def _unknown(kind: str, given: Mapping[str, Any]) -> Family:
    """A family of which nothing is known: a single number is its strength, anything else tells recipes apart."""
    names = tuple(name for name, value in given.items() if _is_number(value) and name != "smoothing")
    name, single = kind.replace("_", " "), names if len(names) == 1 else ()
    read = _numbers(*single, named=True) if single else (lambda _: Strength(value="", order=None, used=()))
    return Family(name=name[:1].upper() + name[1:], word=name, parameter="", read=read, starts_plain=False,
                  why="what its weakest setting leaves is not known here")  # fmt: skip


FAMILIES: dict[str, Family] = {
    "mid": Family(
        name="MID", word="MID", parameter="", read=_numbers("beta", named=True), starts_plain=False,
        why="at beta 0 the bottleneck and its noise remain", defaults={"beta_warmup": 0.0}),
    "bido": Family(
        name="BiDO", word="BiDO", parameter="lambda", read=_numbers("lambda_input", "lambda_label"), starts_plain=False,
        why="at lambda 0 its batches remain",
        defaults={"measure": "hsic", "label_kernel": "linear", "batches": "identities"}),
    "freeze": Family(
        name="Freezing (TL-DMI)", word="freeze", parameter="", read=_frozen, starts_plain=True),
    "random_erasing": Family(
        name="Random erasing (MIDRE)", word="random erasing", parameter="area", read=_erased, starts_plain=True,
        defaults={"aspect": (1.0, 1.0), "fill": "constant"}),
    "skip_removal": Family(
        name="Skip removal (RoLSS)", word="skip removal", parameter="", read=_skipped, starts_plain=True),
    "dropout": Family(
        name="Dropout", word="dropout", parameter="p", read=_numbers("p"), starts_plain=True),
    "weight_decay": Family(
        name="Weight decay", word="weight decay", parameter="", read=_numbers("value"), starts_plain=True),
    "focal": Family(
        name="Focal loss", word="focal", parameter="", read=_numbers("gamma", named=True), starts_plain=True),
    "confidence_penalty": Family(
        name="Confidence penalty", word="confidence penalty", parameter="beta", read=_numbers("beta"),
        starts_plain=True),
    "mixup": Family(
        name="Mixup", word="mixup", parameter="alpha", read=_numbers("alpha"), starts_plain=True),
    "logit_clipping": Family(
        name="Logit clipping", word="logit clipping", parameter="norm",
        read=_numbers("norm", grows=lambda norm: 1 / norm if norm else float("inf")), starts_plain=True),
    "loft": Family(
        name="LoFt", word="LoFt", parameter="", starts_plain=False, defaults={"norm": True},
        read=_numbers("rank", named=True, grows=lambda rank: 1 / rank if rank else float("inf")),
        why="however wide, the tanh remains"),
    "at_at": Family(
        name="AT-AT", word="AT-AT", parameter="weight", read=_numbers("weight", usual=0.08), starts_plain=True,
        defaults={"eps": 5e-4, "step": 1e-4, "steps": 5}),
    "ssd": Family(
        name="SSD", word="SSD", parameter="eps", read=_numbers("eps"), starts_plain=False,
        why="at eps 0 images are still kept back from the training",
        defaults={"temperature": 0.1, "share": 0.1, "draws": "by_image"}),
    "dp_sgd": Family(
        name="DP-SGD", word="DP-SGD", parameter="noise", read=_numbers("noise"), starts_plain=False,
        why="without noise the clipping remains", defaults={"clip": 1.0}),
    "trap_mid": Family(
        name="Trap-MID", word="Trap-MID", parameter="weight", read=_numbers("weight", usual=0.2), starts_plain=True,
        defaults={"blend": 0.02, "step": 0.02, "smooth_traps": True}),
}  # fmt: skip
"""Kind of defense -> how a reader meets it, in the order of the report. Label smoothing, of which plain training is the
middle, comes before all."""
