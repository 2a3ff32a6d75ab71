"""What attacks are tried on: a target, a judge that no attack sees, public images, a prior, and its parts."""

import pytest

from smoothsweep.core.attacks.registry import PARTS, make_attack
from smoothsweep.core.attacks.shared.base import AttackInputs
from smoothsweep.core.data.synthetic import synthetic_faces
from smoothsweep.core.priors.eigenfaces import fit_eigenfaces
from smoothsweep.core.priors.kinds import make_settings
from smoothsweep.core.priors.registry import from_files
from tests.core.attacks.examples import EXAMPLES, PEOPLE, SIZE, example
from tests.core.attacks.looking import Kept, classifier, look


@pytest.fixture(scope="session")
def faces():
    return synthetic_faces(identities=PEOPLE, per_identity=16, size=SIZE, spread=0.6, seed=5, population="private")


@pytest.fixture(scope="session")
def target(faces):
    return classifier("resnet_small", faces, seed=1)


@pytest.fixture(scope="session")
def judge(faces):
    """Another network, that no attack sees."""
    return classifier("vgg_small", faces, seed=2)


@pytest.fixture(scope="session")
def public():
    return synthetic_faces(identities=120, per_identity=1, size=SIZE, spread=0.6, seed=5, population="public").images


@pytest.fixture(scope="session")
def prior(public):
    return fit_eigenfaces(public, components=24, seed=0)


@pytest.fixture(scope="session")
def given(target, prior, public):
    """(attack, protocol) -> what it is given; the parts are made once, as the stages would."""
    made, shipped = {}, {}

    def find(name, protocol="clean"):
        own, which = prior, getattr(example(name), "SHIPPED_PRIOR", None)
        if which is not None:
            if which not in shipped:
                shipped[which] = from_files(make_settings("shipped", name=which))
            own = shipped[which]
        common, parts, networks = {"protocol": protocol, "prior": own, "public": public}, {}, {}
        for part in make_attack(name, **EXAMPLES[name]).parts:
            way = protocol if PARTS[part.name].told_protocol else None
            key = (way, part.name, repr(part.settings), which)
            if key not in made:
                kind = PARTS[part.name]
                told = common if kind.told_protocol else {**common, "protocol": None}
                asked = AttackInputs(**told, parts=parts, networks=networks)
                made[key] = kind.function()(part.settings, asked, look(target, kind.access), Kept())
            parts, networks = (
                {**known, part.name: new} for known, new in ((parts, made[key].tensors), (networks, made[key].networks))
            )
        return AttackInputs(**common, parts=parts, networks=networks)

    return find
