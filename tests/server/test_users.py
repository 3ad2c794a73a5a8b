"""The users file: who is read from it, and what is refused, in one line."""

import base64

import pytest

from coterie.errors import ArgumentError
from coterie.server.services.scram import HASHES, derive
from coterie.server.services.users import credential_toml, read_users, users_of

SALT = "YWxpY2Utc2FsdC0wMDAx"
KEYS = {
    name: base64.b64encode(bytes(size)).decode()
    for name, size in (("sha-256", 32), ("sha-512", 64))
}


def no_salt():
    raise AssertionError("a salt was given")


def written(tmp_path, text, mode=0o600):
    path = tmp_path / "users.toml"
    path.write_text(text, encoding="utf-8")
    path.chmod(mode)
    return path


@pytest.mark.parametrize("mechanism", HASHES)
def test_keys_are_made_from_the_password_with_the_salt_of_the_file(tmp_path, mechanism):
    table = f'[users.alice]\npassword = "s"\n[users.alice.{mechanism.lower()}]\n'
    users = read_users(written(tmp_path, f'{table}salt = "{SALT}"\niterations = 5000\n'))
    expected = derive(mechanism, b"s", base64.b64decode(SALT), 5000)
    assert users.credential(mechanism, no_salt, "alice") == expected
    assert users.password("alice") == b"s"
    assert users.credential(mechanism, no_salt, "bob") is None
    assert users.password("bob") is None


def test_a_password_alone_serves_each_mechanism_with_a_salt_drawn_once():
    users = users_of({"alice": {"password": "s"}})
    made = users.credential("SCRAM-SHA-256", lambda: b"drawn", "alice")
    assert made == derive("SCRAM-SHA-256", b"s", b"drawn", 4096)
    assert users.credential("SCRAM-SHA-256", no_salt, "alice") is made


@pytest.mark.parametrize("salt", [None, SALT])
@pytest.mark.parametrize("iterations", [None, 5000])
def test_beside_a_password_a_salt_is_drawn_and_iterations_are_the_fewest_if_not_given(
    salt, iterations
):
    table = {"salt": salt, "iterations": iterations}
    table = {name: value for name, value in table.items() if value is not None}
    users = users_of({"alice": {"password": "s", "scram-sha-256": table}})
    made = users.credential("SCRAM-SHA-256", lambda: b"drawn", "alice")
    bytes_of_salt = base64.b64decode(salt) if salt else b"drawn"
    assert made == derive("SCRAM-SHA-256", b"s", bytes_of_salt, iterations or 4096)
    assert users.iterations("SCRAM-SHA-256", "alice") == (iterations or 4096)
    assert users.iterations("SCRAM-SHA-512", "alice") == 4096


def test_only_who_has_a_password_or_keys_has_iterations():
    keys = dict.fromkeys(("stored_key", "server_key"), KEYS["sha-256"])
    table = {"salt": SALT, "iterations": 5000, **keys}
    users = users_of({"alice": {"scram-sha-256": table}, "bob": "s"})
    shown = {
        (name, mechanism): users.iterations(mechanism, name)
        for name in ("alice", "bob", "carol")
        for mechanism in HASHES
    }
    assert shown == {
        ("alice", "SCRAM-SHA-256"): 5000, ("alice", "SCRAM-SHA-512"): None,
        ("bob", "SCRAM-SHA-256"): 4096, ("bob", "SCRAM-SHA-512"): 4096,
        ("carol", "SCRAM-SHA-256"): None, ("carol", "SCRAM-SHA-512"): None,
    }  # fmt: skip
    users.delete_credential("SCRAM-SHA-256", "alice")
    assert users.iterations("SCRAM-SHA-256", "alice") is None
    assert users.credential("SCRAM-SHA-256", no_salt, "alice") is None


@pytest.mark.parametrize("name", ["alice", "a b", 'quo"te', "back\\slash", "żółw", "a.b"])
def test_a_printed_credential_lets_in_without_the_password(tmp_path, name):
    users = read_users(written(tmp_path, credential_toml(name, "secret", lambda: b"0123456789")))
    assert users.password(name) is None
    for mechanism in HASHES:
        made = users.credential(mechanism, no_salt, name)
        assert made == derive(mechanism, b"secret", b"0123456789", made.iterations)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644, 0o660, 0o666])
def test_a_file_that_others_may_read_is_refused(tmp_path, mode):
    path = written(tmp_path, '[users.alice]\npassword = "s"\n', mode)
    with pytest.raises(ArgumentError, match=r"others may read it; run chmod 600"):
        read_users(path)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("users = 1", "users must be a table of users, not 1"),
        ("[user.alice]", "user is not known"),
        ("[users]\nalice = 1", r"users\.alice must be a table, not 1"),
        ("[users.alice]", r"users\.alice needs a password"),
        ("[users.alice]\npassword = 1", r"alice\.password must be a text"),
        ('[users.alice]\npassword = ""', r"alice\.password must be a text that is not empty"),
        ('[users.""]\npassword = "s"', "'' is no user's name"),
        ('[users.alice]\npasword = "s"', r"users\.alice\.pasword is not known"),
        ("[users.alice]\nscram-sha-256 = 1", r"scram-sha-256 must be a table, not 1"),
        ("[users.alice.scram-sha-1]", r"users\.alice\.scram-sha-1 is not known"),
        ("[v]\n[users]\n[u]", "u is not known"),  # of several the first by name
        ('[users.alice]\nb = 1\npassword = "s"\na = 1', r"users\.alice\.a is not known"),
        ("[users.alice.scram-sha-256]", r"scram-sha-256\.iterations is missing"),
        ("[users.alice", r"users\.toml: "),
    ],
)
def test_what_is_wrong_in_a_file_is_one_line_that_says_where(tmp_path, text, what):
    path = written(tmp_path, text)
    with pytest.raises(ArgumentError, match=what) as refused:
        read_users(path)
    assert str(path) in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_file_that_is_not_there_is_one_line(tmp_path):
    with pytest.raises(ArgumentError, match="No such file"):
        read_users(tmp_path / "none.toml")


@pytest.mark.parametrize(
    ("table", "what"),
    [
        ({"salt": SALT, "iterations": 4095}, "4096 to 1000000, not 4095"),
        ({"salt": SALT, "iterations": True}, "4096 to 1000000, not True"),
        ({"salt": SALT, "iterations": 10**9}, "4096 to 1000000, not 1000000000"),
        ({"salt": "not base64", "iterations": 4096}, "salt must be base64"),
        ({"salt": "", "iterations": 4096}, "salt must be base64"),
        ({"salt": f"{SALT[:4]}*{SALT[4:]}", "iterations": 4096}, "salt must be base64"),
        ({"salt": 1, "iterations": 4096}, "salt must be base64, not 1"),
        ({"stored_key": KEYS["sha-256"]}, "has keys beside a password"),
        ({"rounds": 1}, "rounds is not known"),
        ({"rounds": 1, "cost": 1}, "cost is not known"),
    ],
)
def test_what_is_wrong_beside_a_password_is_told(table, what):
    with pytest.raises(ArgumentError, match=what):
        users_of({"alice": {"password": "s", "scram-sha-256": table}})


def test_keys_have_the_size_of_their_hash():
    table = {"salt": SALT, "iterations": 4096, "stored_key": KEYS["sha-256"]}
    with pytest.raises(ArgumentError, match="server_key must have 32 bytes, not 64"):
        users_of({"alice": {"scram-sha-256": {**table, "server_key": KEYS["sha-512"]}}})
    both = dict.fromkeys(("stored_key", "server_key"), KEYS["sha-256"])
    with pytest.raises(ArgumentError, match="server_key must have 64 bytes, not 32"):
        users_of({"alice": {"scram-sha-512": {**table, **both}}})


def test_iterations_are_from_4096_to_a_million():
    keys = dict.fromkeys(("stored_key", "server_key"), KEYS["sha-256"])
    for iterations in (4096, 1_000_000):
        table = {"salt": SALT, "iterations": iterations, **keys}
        users = users_of({"alice": {"scram-sha-256": table}})
        assert users.iterations("SCRAM-SHA-256", "alice") == iterations
    with pytest.raises(ArgumentError, match="4096 to 1000000, not 1000001"):
        users_of({"alice": {"scram-sha-256": {**table, "iterations": 1_000_001}}})


def test_a_credential_has_a_table_for_each_mechanism_by_name():
    printed = credential_toml("alice", "secret", lambda: b"0123456789")
    tables = [line for line in printed.splitlines() if line.startswith("[")]
    assert tables == ["[users.alice.scram-sha-256]", "[users.alice.scram-sha-512]"]


@pytest.mark.parametrize("name", ["", "a\nb", "a\0b", 1])
def test_what_is_no_name_is_told(name):
    with pytest.raises(ArgumentError, match="no user's name"):
        users_of({name: "secret"})


@pytest.mark.parametrize(("name", "password"), [("", "s"), ("a\n", "s"), ("alice", "")])
def test_no_credential_is_printed_for_nobody_or_nothing(name, password):
    with pytest.raises(ArgumentError):
        credential_toml(name, password, lambda: b"salt")
