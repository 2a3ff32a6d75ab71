"""What tests of attacks look with: a network trained in seconds, a view of it, and what another sees in an image."""

import torch

from smoothsweep.core.attacks.shared.execution import Execution
from smoothsweep.core.attacks.shared.view import view_of
from smoothsweep.core.data.images import resize
from smoothsweep.core.devices import ExecutionConfig
from smoothsweep.core.models.classifiers import build_classifier
from smoothsweep.core.models.recipe import TrainingRecipe
from smoothsweep.core.training.classifier import train_classifier
from tests.attack_examples import PEOPLE, SIZE


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
    execution = Execution(ExecutionConfig(), "cpu")
    return view_of(target, access, num_classes=PEOPLE, image_size=SIZE, execution=execution)


class Silent:
    """A context that keeps nothing."""

    def last_state(self):
        return None

    def keep_state(self, state):
        pass

    def progress(self, fraction, text):
        pass


def recognised(judge, decoder, w, target_class):
    return taken_for(judge, decoder.synthesize(w), target_class)


def taken_for(judge, images, target_class):
    return (judge(resize(images, SIZE)).argmax(1) == target_class).float().mean().item()
