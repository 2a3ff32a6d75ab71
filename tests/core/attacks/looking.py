"""What tests of attacks look with: networks trained in seconds or made by hand, a view of them, what another sees."""

import copy

import torch

from smoothsweep.core.attacks.shared.execution import Execution, PreparedTarget, same_bits
from smoothsweep.core.attacks.shared.view import view_of
from smoothsweep.core.data.images import resize
from smoothsweep.core.devices import ExecutionConfig
from smoothsweep.core.models.classifiers import build_classifier
from smoothsweep.core.models.recipe import TrainingRecipe
from smoothsweep.core.training.classifier import train_classifier
from tests.core.attacks.examples import PEOPLE, SIZE


def classifier(architecture, data, seed):
    model = build_classifier(architecture, PEOPLE, pretrained=False, protocol="clean", seed=seed)
    recipe = TrainingRecipe(architecture=architecture, image_size=SIZE, epochs=12, batch_size=16)
    train_classifier(model, data, recipe, seed=seed, device="cpu")
    return model.eval().requires_grad_(False)


class Counted(torch.nn.Module):
    """A network that knows how many images it was really shown."""

    def __init__(self, network):
        super().__init__()
        self.network, self.shown = network, []

    def __deepcopy__(self, memo):
        return self  # the attack's own copy is this one: what it is shown is seen here

    def forward(self, images):
        self.shown.append(len(images))
        return self.network(images)

    def embed(self, images):
        self.shown.append(len(images))
        return self.network.embed(images)

    @property
    def head(self):
        return self.network.head


def look(target, access="gradients"):
    return seen(target, access, classes=PEOPLE, side=SIZE)


def seen(target, access="gradients", *, classes, side, **settings):
    """A view of any target, a network or a function; settings: of the execution."""
    execution = Execution(ExecutionConfig(**settings), "cpu")
    answer = target if target is None or isinstance(target, torch.nn.Module) else PreparedTarget(target)
    return view_of(answer, access, num_classes=classes, image_size=side, execution=execution)


def alone_and_beside(attack, target, inputs, numbers, **look):
    """What the attack leaves of each class by itself, to the bit that of all side by side; and the queries of both.

    numbers: the classes.
    """
    runs = []
    for pieces in ([[c] for c in numbers], [numbers]):
        view = seen(target, **look)
        kept = [one for piece in pieces for one in attack.invert_batch(view, inputs, piece, seed=5)]
        runs.append((kept, view.queries))
    (alone, asked), (beside, shown) = runs
    for pair in zip(alone, beside, strict=True):
        mine, theirs = (
            {"w": one.w, "scores": one.scores, **one.rows, **one.curves, "facts": torch.tensor([*one.facts.values()])}
            for one in pair
        )
        assert mine.keys() == theirs.keys() and all(same_bits(mine[name], theirs[name]) for name in mine)
    return alone, asked, shown


class Kept:
    """A context that remembers its states and what it was told, and dies at one of them."""

    def __init__(self, state=None, *, dies_at=None):
        self.state, self.states, self.told, self.dies_at = state, [], [], dies_at

    def last_state(self):
        return copy.deepcopy(self.state)

    def keep_state(self, state):
        self.states.append(copy.deepcopy(state))
        if len(self.states) == self.dies_at:
            raise KeyboardInterrupt

    def progress(self, fraction, text):
        assert 0 <= fraction <= 1 and text
        self.told.append((fraction, text))


def same_networks(one, other):
    """Whether the networks of two parts are equal to the bit."""
    states = [{name: network.state_dict() for name, network in part.networks.items()} for part in (one, other)]
    return states[0].keys() == states[1].keys() and all(
        torch.equal(value, states[1][name][key]) for name, state in states[0].items() for key, value in state.items()
    )


def recognised(judge, decoder, w, target_class):
    return taken_for(judge, decoder.synthesize(w), target_class)


def taken_for(judge, images, target_class):
    return (judge(resize(images, SIZE)).argmax(1) == target_class).float().mean().item()


class Rows:
    """Images [n, 3, side, side] -> logits [n, classes].

    seen: rows of every pass; blind: bool of the images' means for which it gives no numbers; coupled: how much its
    answer to an image depends on what it is shown beside it.
    """

    def __init__(self, classes, side, *, seed, blind=None, coupled=0.0):
        source = torch.Generator().manual_seed(seed)
        self.weight = torch.randn(classes, 3 * side * side, generator=source) / 4
        self.seen, self.blind, self.coupled = [], blind, coupled

    def __call__(self, images):
        self.seen.append(len(images))
        flat = images.contiguous().flatten(1)
        logits = (flat[:, None] * self.weight).sum(2).tanh() * 4
        if self.coupled:
            logits = logits + self.coupled * logits.mean(0)
        return logits if self.blind is None else logits.where(~self.blind(flat.mean(1))[:, None], torch.nan)
