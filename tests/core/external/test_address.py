"""Addresses that may be written into files, and what is said of others without what may be secret in them."""

import pytest

from smoothsweep.core.errors import InputError
from smoothsweep.core.external.address import ADDRESS, TOKEN, WHAT, bearer, check_plain, is_plain, named_address

HINT = f": expected {WHAT}; a token's place is the environment variable of --token-env"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://me:secret@host/v1", "https://***@host/v1"),
        ("https://host/v1?key=secret", "https://host/v1?***"),
        ("https://host/v1#secret", "https://host/v1#***"),
        ("ftp://host/v1", "ftp://host/v1"),
        (None, "no address"),
        (7, "no address"),
        (b"https://host/v1", "no address"),
    ],
)
def test_what_is_no_plain_address_is_shown_without_its_secret(url, shown):
    with pytest.raises(InputError) as refused:
        check_plain(url)
    assert str(refused.value) == shown + HINT


@pytest.mark.parametrize(
    ("url", "fine"),
    [
        ("http://host", True),
        ("https://host:1/", True),
        ("https://host:65535", True),
        ("https://host:0/", False),
        ("https://host:65536/", False),
        ("https://host:99999/", False),
        ("https://host:123456/", False),
        ("https://host/a:0/b:99999", True),
        ("https://[::1]:8000/v1", True),
        ("https://[::1]", True),
        ("https://[::1]:0/v1", False),
        ("https://[fe80::99999]/", True),
        ("https://-host/", False),
        ("https://" + "h" * 253 + "/", True),
        ("https://" + "h" * 254 + "/", False),
        ("https://host/%20/%aF", True),
        ("https://host/%2", False),
        ("https://host/a b", False),
        ("https://host/a\n", False),
        ("HTTPS://host/", False),
        ("httpss://host/", False),
        ("https:///v1", False),
    ],
)
def test_an_address_is_a_host_perhaps_a_port_and_a_path(url, fine):
    assert is_plain(url) is fine
    if fine:
        check_plain(url)
        return
    with pytest.raises(InputError, match="a token's place is"):
        check_plain(url)


def test_the_names_of_the_variables_are_those_that_users_have_set(repository):
    """Under another name a user's address or token would no longer be found."""
    assert (ADDRESS, TOKEN) == ("SMOOTHSWEEP_ASKED_URL", "SMOOTHSWEEP_ASKED_TOKEN")
    told = "".join(path.read_text() for path in (repository / "docs").rglob("*.md"))
    assert ADDRESS in told and TOKEN in told


def test_where_pictures_may_be_sent_to(monkeypatch):
    monkeypatch.delenv(ADDRESS, raising=False)
    assert named_address() is None
    for given, found in (("", None), ("https://host/v1", "https://host/v1"), ("http://host/v1//", "http://host/v1")):
        monkeypatch.setenv(ADDRESS, given)
        assert named_address() == found
    monkeypatch.setenv(ADDRESS, "https://me:secret@host/v1")
    with pytest.raises(InputError, match=f"^{ADDRESS}: expected an address like") as refused:
        named_address()
    assert "secret" not in str(refused.value)


def test_a_token_is_a_header_and_is_never_said(monkeypatch):
    monkeypatch.delenv("MY_TOKEN", raising=False)
    assert bearer("MY_TOKEN") == {}
    for token, found in (("", {}), ("a!~Z9", {"Authorization": "Bearer a!~Z9"})):
        monkeypatch.setenv("MY_TOKEN", token)
        assert bearer("MY_TOKEN") == found
    for token in ("two words", "line\nbreak", "caf\u00e9", "tail "):
        monkeypatch.setenv("MY_TOKEN", token)
        with pytest.raises(InputError, match=r"^MY_TOKEN: expected a token of printable ASCII") as refused:
            bearer("MY_TOKEN")
        assert token not in str(refused.value)


@pytest.mark.parametrize(
    ("url", "fine"),
    [
        ("http://h:1/x", True),
        ("http://h:65535/x", True),
        ("http://h:65536/x", False),
        ("http://h:0/x", False),
        ("http://h:/x", False),
        ("http://[::1]:65536", False),
        ("http://[::1]", True),
        ("http://h/%zz", False),
        ("http://h/a:99999/b", True),
        ("https://h:443", True),
        ("http://-h/x", False),
        ("http://", False),
    ],
)
def test_ports_and_paths_that_an_address_may_have(url, fine):
    assert is_plain(url) is fine


def test_the_token_of_an_environment_is_a_header_or_nothing(monkeypatch):
    monkeypatch.setenv("ONE", "a~!b")
    monkeypatch.setenv("EMPTY", "")
    assert bearer("ONE") == {"Authorization": "Bearer a~!b"} and bearer("EMPTY") == {} == bearer("NOT_THERE_AT_ALL")
