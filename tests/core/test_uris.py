"""No password in anything that is printed, whatever characters it has and however the URI is put together."""

import string
import time
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from core.errors import InputError
from core.uris import ambiguity, hidden, shown_uri, without_secrets

SPECIAL = "@:/?#%&=+;,!$'\"()*[]{}|\\^~` .-_<>äß中"
# letters that our own words and the URIs below do not use, so that a hit is a leak; two at least at each end
PIECES = st.text(alphabet="QZXJ", min_size=2, max_size=5)
PASSWORDS = st.builds(
    lambda first, middle, last: first + middle + last, PIECES, st.text(alphabet=SPECIAL + "QZXJ", max_size=12), PIECES
)
FORMS = (
    "postgresql+psycopg2://mlflow:{}@127.0.0.1:5432/mlflow", "mysql://u:{}@db", "http://me:{}@host:5000/base/path",
    "https://:{}@[::1]:5000", "s3://abc:{}@bucket/prefix", "mssql+pyodbc://u:{}@host/db?driver=ODBC", "me:{}@host",
    "postgresql:/me:{}@host/db",
)  # fmt: skip
QUERIES = (
    "postgresql://host:5432/db?user=me&password={}", "postgresql:///db?password={}&host=h", "s3://b/p?secret_key={}",
    "http://host/?access_token={}", "mssql+pyodbc:///?odbc_connect={}",
)  # fmt: skip


def leaked(password, text):
    """The pieces of the password that stand in the text; none of its letters occurs in anything else."""
    return [letter for letter in "QZXJ" if letter in text]


@given(password=PASSWORDS, form=st.sampled_from(FORMS), encode=st.sampled_from([str, quote_plus, quote]))
@example(password="QQ@ZZ", form=FORMS[0], encode=str)
@example(password="QQ://Z@Z", form=FORMS[0], encode=str)
@example(password="QQ?password=ZZ", form=FORMS[0], encode=str)
@example(password="QQ&ZZ", form=FORMS[2], encode=str)
def test_no_password_is_shown(password, form, encode):
    uri = form.format(encode(password))
    assert not leaked(password, shown_uri(uri)), shown_uri(uri)
    assert "***" in shown_uri(uri)
    said = f"got {uri}, {password!r} or {password} is wrong for {uri!r} ({quote(password, safe='')}, {quote(password)})"
    assert not leaked(password, without_secrets(said, uri)), without_secrets(said, uri)


@given(password=PASSWORDS.filter(lambda p: "&" not in p), form=st.sampled_from(QUERIES))
def test_nor_one_in_the_query(password, form):
    for uri in (form.format(password), form.format(quote_plus(password))):
        assert not leaked(password, shown_uri(uri)), shown_uri(uri)
        assert not leaked(password, without_secrets(f"{uri}: {password!r}, {password}", uri))


@given(password=st.text(alphabet="QZXJ@:/?#%&=+", min_size=1, max_size=12), form=st.sampled_from(FORMS))
def test_an_error_s_line_hides_the_uris_that_it_quotes(password, form):
    uri = form.format(password)
    if "://" in uri and "QZXJ".find(password[0]) >= 0 and password[0] != "?":
        assert not leaked(password, str(InputError(f"--store {uri}: expected another, got this")))
        assert not leaked(password, hidden(f"'{uri}' or {uri}"))


@given(password=PASSWORDS)
def test_a_uri_that_readers_would_cut_differently_is_told(password):
    for form in FORMS[:4]:
        assert ambiguity(form.format(quote(password, safe=""))) is None
        told = ambiguity(form.format(password))
        if any(letter in password for letter in "@/?# \\"):
            assert told and not leaked(password, told)


@pytest.mark.parametrize(
    "uri",
    [
        "http://127.0.0.1:5000", "https://host/base", "sqlite:////home/a:b@c/mlflow.db", "s3://bucket/prefix", "file:///x",
        "http://me@host:5000/", "http://[::1]:5000/x", "postgresql://host/db?sslmode=require", "store", "/a/b:c",
    ],
)  # fmt: skip
def test_what_has_no_password_stays(uri):
    assert shown_uri(uri) == hidden(uri) == without_secrets(uri, uri) == uri
    assert ambiguity(uri) is None


@pytest.mark.parametrize("long", ["a" * 300_000, "a://b" * 60_000, "x://?" + "pass" * 80_000, "?pass=" * 50_000])
def test_long_texts_take_no_time(long):
    started = time.monotonic()
    hidden(long)
    shown_uri(long)
    assert time.monotonic() - started < 2


def test_a_forgotten_host_does_not_make_the_password_a_port():
    assert shown_uri("postgresql://me:QZ/X") == "postgresql://me:***"
    assert ambiguity("postgresql://me:QZ/X")


def test_short_words_are_hidden_too():
    assert "mlflow" not in without_secrets('role "mlflow" refused', "postgresql://u:mlflow@h/db")
    assert string.ascii_lowercase == without_secrets(string.ascii_lowercase, "http://u@h")


@pytest.mark.parametrize("end", [",", ".", ";", ")", "),"])
def test_punctuation_after_a_port_is_the_sentences(end):
    told = f"no answer from http://127.0.0.1:9{end} got none"
    assert hidden(told) == told
    assert "pass1" not in hidden(f"no answer from http://me:pass1{end} got none")
    assert "9," not in hidden("no answer from postgresql://me:9,@host, got none")
