"""Every word that a program may use, by the word itself: what torch writes passes, and nothing else of Python's."""

import ast
import builtins

import pytest

from smoothsweep.core.errors import InputError
from smoothsweep.core.external.script_names import Declared, Refused, check_constant, check_type, dotted
from tests.made_scripts import body, checked

CLASSES = ["Module", "NamedTuple", "Interface", "ModuleInterface", "Enum"]
LISTS = ["__parameters__", "__buffers__", "__annotations__", "__forward_hooks__", "__forward_pre_hooks__"]
ONE = ["int", "float", "bool", "str", "complex", "range", "print", "len", "min", "max", "abs"]
TYPED = ["annotate", "unchecked_cast", "uninitialized"]
NUMBERS = ["inf", "nan", "infj", "nanj"]
OF_TENSORS = ["dtype", "device", "shape", "layout", "requires_grad", "is_cuda", "T", "mT", "H", "ndim", "data"]
OF_TENSORS += ["itemsize", "names"]
TYPES = ["Tensor", "Optional", "List", "Tuple", "Dict", "Final", "NoneType", "Any", "int", "float", "bool", "str"]
TYPES += ["complex", "number", "Device", "Scalar", "Layout", "ScalarType", "None", "Union", "Stream"]

FORMS = {
    "class A({}):\n  x : Tensor\n": CLASSES,
    'class A(Module):\n  {} = ["x", ]\n  x : Tensor\n': LISTS,
    body("return {}(x)"): ONE,
    body("return {}(Tensor, x)"): TYPED,
    body("return {}"): NUMBERS,
    body("return x.{}"): OF_TENSORS,
    body("return annotate({}, x)"): TYPES,
    body("return x", arguments="self: __torch__.own.Part, x: {}"): TYPES,
    "class A(Module):\n  x : {}\n": TYPES,
    "class A(Module):\n  x : Final[float] = {}\n": NUMBERS,
}


@pytest.mark.parametrize(("form", "word"), [(form, word) for form, words in FORMS.items() for word in words])
def test_every_word_of_torchs_passes(form, word):
    text = form.format(word)
    assert ast.dump(ast.parse(checked(text))) == ast.dump(ast.parse(text))


WORDS = {word for words in FORMS.values() for word in words}
LINES = [form for form in FORMS if "__annotations__" not in FORMS[form]]


@pytest.mark.parametrize("form", LINES)
@pytest.mark.parametrize("word", ["object", "type", "eval", "exec", "open", "getattr", "Exception", "torch", "evil"])
def test_other_words_are_refused_in_their_places(form, word):
    assert word in dir(builtins) or word in ("torch", "evil")
    with pytest.raises(InputError, match="expected a program that computes, got"):
        checked(form.format(word))


@pytest.mark.parametrize("form", LINES)
def test_a_word_is_allowed_where_it_has_its_place_and_nowhere_else(form):
    """`min` is no type and `Tensor` is no function: each place has its own list."""
    for word in sorted(WORDS - set(FORMS[form]) - {"x", "f"}):
        if form == body("return {}(x)") and word in TYPED:
            continue  # a function whose first argument is a type: it is refused for what `x` is, below
        text = form.format(word)
        if word == "None" and form in (body("return {}"), "class A(Module):\n  x : Final[float] = {}\n"):
            assert checked(text)  # a value as any
            continue
        with pytest.raises(InputError):
            checked(text)
    for word in TYPED:
        with pytest.raises(InputError, match="the type x"):
            checked(body(f"return {word}(x)"))


def expression(text):
    return ast.parse(text, mode="eval").body


@pytest.mark.parametrize(
    ("text", "name"),
    [("a", "a"), ("a.b", "a.b"), ("a.b.c", "a.b.c"), ("a().b", ""), ("a[0].b.c", ""), ("1", ""), ('"a".b', "")],
)
def test_a_dotted_name_is_of_a_name_and_attributes_alone(text, name):
    assert dotted(expression(text)) == name


@pytest.mark.parametrize(
    "text", ["1", "-1.5", '"a"', "[1, 2]", "(1, )", '{"a": [1]}', "inf", "-nan", "True", "not True"]
)
def test_a_constant_is_made_of_numbers_and_texts(text):
    check_constant(expression(text))
    check_constant(None)


@pytest.mark.parametrize(
    ("text", "got"),
    [
        ("a", "Name as a constant"),
        ("[1, a]", "Name as a constant"),
        ("f(1)", "Call as a constant"),
        ("1 + 1", "BinOp as a constant"),
        ("{1}", "Set as a constant"),
        ("inf.real", "Attribute as a constant"),
        ("[1][0]", "Subscript as a constant"),
    ],
)
def test_what_has_to_be_worked_out_is_no_constant(text, got):
    with pytest.raises(Refused, match=f"^{got}$") as refused:
        check_constant(expression(text))
    assert isinstance(refused.value.node, ast.AST)


OWN = Declared(names={"__torch__.a.B"})


@pytest.mark.parametrize(
    "text",
    [
        "Tensor",
        "None",
        "List[Tensor]",
        "Dict[str, List[__torch__.a.B]]",
        "__torch__.a.B",
        "Tuple[int, None]",
        "[int, str]",
    ],
)
def test_a_type_is_made_of_types(text):
    check_type(expression(text), OWN)


@pytest.mark.parametrize(
    ("text", "got"),
    [
        ("evil", "the type evil"),
        ("List[evil]", "the type evil"),
        ("evil[int]", "the type evil"),
        ("Dict[str, evil]", "the type evil"),
        ("[int, evil]", "the type evil"),
        ("__torch__.a.C", "the type __torch__.a.C"),
        ("a().b", "the type of an expression"),
        ("1", "Constant as a type"),
        ('"Tensor"', "Constant as a type"),
        ("f(1)", "Call as a type"),
    ],
)
def test_what_is_no_type_is_named(text, got):
    with pytest.raises(Refused, match=f"^{got}$".replace(".", r"\.")):
        check_type(expression(text), OWN)
