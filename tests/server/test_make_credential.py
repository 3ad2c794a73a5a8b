"""``coterie serve --make-credential``: what it prints lets in, without the password."""

import io
import sys

import pytest

from coterie.cli.credential import make_credential
from coterie.server.services.scram import HASHES, derive
from coterie.server.services.users import read_users
from support.commandline import coterie


def made(user, typed):
    was, sys.stdin = sys.stdin, io.StringIO(typed)
    try:
        return coterie("serve", "--make-credential", user)
    finally:
        sys.stdin = was


@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
def test_what_is_printed_is_a_users_file_for_that_password(tmp_path, end):
    done = made("alice", f"secret {end}")
    assert done.returncode == 0
    assert "secret" not in done.stdout + done.stderr
    path = tmp_path / "users.toml"
    path.write_text(done.stdout)
    path.chmod(0o600)
    users = read_users(path)
    for mechanism in HASHES:
        has = users.credential(mechanism, bytes, "alice")
        assert has == derive(mechanism, b"secret ", has.salt, has.iterations)


def test_each_credential_has_a_salt_of_its_own():
    done = [made("alice", "secret").stdout for _ in range(2)]
    salts = [line for text in done for line in text.splitlines() if line.startswith("salt")]
    assert len(set(salts)) == 4


@pytest.mark.parametrize(("user", "typed"), [("alice", ""), ("alice", "\n"), ("", "secret")])
def test_no_name_or_password_is_wrong_usage(user, typed):
    done = made(user, typed)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1


def test_at_a_terminal_the_password_is_asked_for_until_it_is_given_twice(monkeypatch):
    answers = iter(["secret", "sceret", "secret", "secret"])
    prompts = []
    monkeypatch.setattr(
        "click.termui.hidden_prompt_func", lambda text: prompts.append(text) or next(answers)
    )
    terminal = io.StringIO()
    terminal.isatty = lambda: True
    monkeypatch.setattr(sys, "stdin", terminal)
    done = coterie("serve", "--make-credential", "alice")
    assert (done.returncode, next(answers, None)) == (0, None)
    assert len(prompts) == 4
    assert "password of alice" not in done.stdout  # that is the file


def test_on_a_terminal_a_password_is_asked_for_twice_without_echo(monkeypatch, capsys):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    typed, prompts = ["secret", "other", "secret", "secret"], []

    def hidden(prompt):
        prompts.append(prompt)
        return typed.pop(0)

    monkeypatch.setattr("click.termui.hidden_prompt_func", hidden)
    monkeypatch.setattr(sys, "stdin", Terminal())
    make_credential("alice")
    out, err = capsys.readouterr()
    assert typed == []  # the first two differ
    assert (err + "".join(prompts)).count("password of alice") == 2  # one or the other prints it
    assert "password of" not in out
    assert "alice" in out
