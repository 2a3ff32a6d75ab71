"""Where the kernel cannot isolate a process, a program counts as code: it needs consent, by its digest."""

from hashlib import sha256

import pytest

from smoothsweep.core.external import consent
from smoothsweep.core.external.consent import agree_to, agreed_to, needs_consent
from smoothsweep.core.external.kinds import KINDS
from smoothsweep.core.isolation import seccomp
from smoothsweep.core.isolation.limits import can_isolate


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path


@pytest.mark.parametrize("kind", [*KINDS, "resnet18", "a kind of tomorrow"])
@pytest.mark.parametrize("able", [True, False])
def test_programs_need_consent_where_they_cannot_be_isolated(kind, able, monkeypatch):
    monkeypatch.setattr(consent, "can_isolate", lambda: able)
    assert needs_consent(kind) is (kind in KINDS and not (able and KINDS[kind].computes_alone))


def test_a_kernel_without_filters_cannot(monkeypatch):
    monkeypatch.setattr(seccomp, "_libc", lambda: type("None", (), {"syscall": lambda *given: -1})())
    assert not can_isolate()


@pytest.mark.parametrize(("platform", "machine"), [("darwin", "arm64"), ("linux", "riscv64"), ("win32", "AMD64")])
def test_other_systems_cannot(monkeypatch, platform, machine):
    monkeypatch.setattr(seccomp.sys, "platform", platform)
    monkeypatch.setattr(seccomp.os, "uname", lambda: type("Name", (), {"machine": machine})())
    assert not can_isolate()


def test_consent_is_to_the_content_and_not_to_the_name(home):
    first, second = home / "a.pt", home / "b.pt"
    first.write_bytes(b"one")
    second.write_bytes(b"two")
    assert not agreed_to(first) and not agreed_to(second)
    agree_to(first)
    assert agreed_to(first) and not agreed_to(second)
    second.write_bytes(b"one")
    assert agreed_to(second)
    first.write_bytes(b"One")
    assert not agreed_to(first)


def test_consents_lie_in_the_user_s_settings_one_file_of_each_content(home, monkeypatch):
    """In XDG_CONFIG_HOME, else in ~/.config, by SHA-256: another home has agreed to nothing."""
    models = [home / name for name in ("a.pt", "b.pt", "c.pt")]
    for model, content in zip(models, (b"one", b"two", b"one"), strict=True):
        model.write_bytes(content)
        agree_to(model)
    agreed = home / "config" / "smoothsweep" / "agreed"
    assert {path.name for path in agreed.iterdir()} == {sha256(content).hexdigest() for content in (b"one", b"two")}
    for unset in (lambda: monkeypatch.delenv("XDG_CONFIG_HOME"), lambda: monkeypatch.setenv("XDG_CONFIG_HOME", "")):
        unset()
        monkeypatch.setenv("HOME", str(home / "other"))
        assert not any(map(agreed_to, models))
    agree_to(models[1])
    assert [agreed_to(model) for model in models] == [False, True, False]
    assert (home / "other" / ".config" / "smoothsweep" / "agreed" / sha256(b"two").hexdigest()).is_file()
    with pytest.raises(FileNotFoundError):
        agreed_to(home / "nothing")
