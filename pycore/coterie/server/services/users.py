"""The users that may authenticate: the file of ``--sasl-users``, or a mapping of the same form.

A user has either a password or only SCRAM keys, as printed by ``coterie serve --make-credential``.
From a password the keys are derived on first use. Stolen keys do not allow a login.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from coterie.base.arguments import file_path, text
from coterie.base.user_files import FileTooLarge, check_private, read_limited
from coterie.errors import ArgumentError, shown
from coterie.server.services.scram import HASHES, MAX_ITERATIONS, MIN_ITERATIONS, Credential, derive

USERS_BYTES_MAX = 16 << 20
MOST_ITERATIONS = 1_000_000  # deriving the keys blocks the other connections
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_TABLES = {mechanism.lower(): mechanism for mechanism in HASHES}
_SALTED = {"salt", "iterations"}
_KEYS = {"stored_key", "server_key"}


class _Salted(NamedTuple):
    """The parameters for deriving one mechanism's keys from a password."""

    salt: bytes | None
    iterations: int


class _User(NamedTuple):
    password: bytes | None
    mechanisms: dict[str, Credential | _Salted]


class Users:
    """The users of a server; their SCRAM credentials can be altered in memory."""

    def __init__(self, users: Mapping[str, _User]) -> None:
        self._users = users
        self._derived: dict[tuple[str, str], Credential] = {}
        self._altered: dict[tuple[str, str], Credential | None] = {}  # None: deleted

    @property
    def names(self) -> set[str]:
        """The names of all users, also of those without SCRAM credentials."""
        return {*self._users, *(name for _, name in self._altered)}

    def password(self, username: str) -> bytes | None:
        """Return a user's password; None for an unknown user or one that has only keys."""
        user = self._users.get(username)
        return None if user is None else user.password

    def credential(
        self, mechanism: str, salts: Callable[[], bytes], username: str
    ) -> Credential | None:
        """Return a user's SCRAM credential; it is derived from a password on first use.

        ``salts`` returns a new salt, for a password without one.
        """
        if (mechanism, username) in self._altered:
            return self._altered[mechanism, username]
        user = self._users.get(username)
        entry = None if user is None else user.mechanisms.get(mechanism)
        if isinstance(entry, Credential) or user is None or user.password is None:
            return entry if isinstance(entry, Credential) else None
        derived = self._derived.get((mechanism, username))
        if derived is None:
            salt, iterations = entry or _Salted(None, MIN_ITERATIONS)
            derived = derive(mechanism, user.password, salt or salts(), iterations)
            self._derived[mechanism, username] = derived
        return derived

    def iterations(self, mechanism: str, username: str) -> int | None:
        """Return the iterations of a user's SCRAM credential; None if there is none."""
        if (mechanism, username) in self._altered:
            altered = self._altered[mechanism, username]
            return None if altered is None else altered.iterations
        user = self._users.get(username)
        entry = None if user is None else user.mechanisms.get(mechanism)
        if entry is not None:
            return entry.iterations
        return None if user is None or user.password is None else MIN_ITERATIONS

    def set_credential(self, mechanism: str, username: str, credential: Credential) -> None:
        """Create or replace a user's SCRAM credential; a password for PLAIN stays as it is."""
        self._altered[mechanism, username] = credential

    def delete_credential(self, mechanism: str, username: str) -> None:
        self._altered[mechanism, username] = None


def read_users(path: str | Path) -> Users:
    """Read a users file (TOML).

    Raises
    ------
    coterie.ArgumentError
        It cannot be read, users other than its owner may read it, or its content is wrong.
    """
    path = file_path(path, "users file")
    try:
        with open(path, "rb", buffering=0) as file:
            check_private(file, f"users file {path}", path)
            table = tomllib.loads(read_limited(file, USERS_BYTES_MAX).decode("utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        what = error.strerror if isinstance(error, OSError) else str(error)
        raise ArgumentError(f"users file {path}: {what}") from error
    except FileTooLarge as error:
        raise ArgumentError(f"users file {path}: {error}") from None
    if table.keys() - {"users"}:
        raise ArgumentError(f"users file {path}: {min(table.keys() - {'users'})} is not known")
    return users_of(table.get("users", {}), f"users file {path}: users")


def users_of(users: Mapping[str, Any], where: str = "users") -> Users:
    """Build users from a mapping: user name -> the user's table, or its password."""
    if not isinstance(users, Mapping):
        raise ArgumentError(f"{where} must be a table of users, not {shown(users)}")
    return Users(
        {_name(name, where): _user(table, f"{where}.{name}") for name, table in users.items()}
    )


def _name(name: object, where: str) -> str:
    if not isinstance(name, str) or not name or not name.isprintable():
        raise ArgumentError(f"{where}: {shown(name)} is no user's name")
    return name


def _user(table: object, where: str) -> _User:
    if isinstance(table, str):
        table = {"password": table}
    if not isinstance(table, Mapping):
        raise ArgumentError(f"{where} must be a table, not {shown(table)}")
    unknown = table.keys() - {"password", *_TABLES}
    if unknown:
        raise ArgumentError(f"{where}.{_first(unknown)} is not known")
    password = table.get("password")
    if "password" in table and (not isinstance(password, str) or not password):
        raise ArgumentError(f"{where}.password must be a text that is not empty")
    if password is not None:
        text(password, f"{where}.password")
    mechanisms = {
        mechanism: _mechanism(mechanism, table[name], password is not None, f"{where}.{name}")
        for name, mechanism in _TABLES.items()
        if name in table
    }
    if password is None and not mechanisms:
        raise ArgumentError(f"{where} needs a password, or a table such as [{where}.scram-sha-256]")
    return _User(None if password is None else password.encode(), mechanisms)


def _first(names: set[Any]) -> str:
    return min(name if isinstance(name, str) else shown(name) for name in names)


def _mechanism(
    mechanism: str, table: object, has_password: bool, where: str
) -> Credential | _Salted:
    if not isinstance(table, Mapping):
        raise ArgumentError(f"{where} must be a table, not {shown(table)}")
    unknown = table.keys() - _SALTED - _KEYS
    if unknown:
        raise ArgumentError(f"{where}.{_first(unknown)} is not known")
    if has_password and _KEYS & table.keys():
        raise ArgumentError(f"{where} has keys beside a password: leave one of them out")
    missing = set() if has_password else (_SALTED | _KEYS) - table.keys()
    if missing:
        raise ArgumentError(f"{where}.{min(missing)} is missing (or give a password)")
    iterations = table.get("iterations", MIN_ITERATIONS)
    if type(iterations) is not int or not MIN_ITERATIONS <= iterations <= MOST_ITERATIONS:
        limits = f"{MIN_ITERATIONS} to {MOST_ITERATIONS}"
        raise ArgumentError(f"{where}.iterations must be {limits}, not {shown(iterations)}")
    salt = _bytes(table["salt"], f"{where}.salt") if "salt" in table else None
    if has_password or salt is None:
        return _Salted(salt, iterations)
    keys = {key: _bytes(table[key], f"{where}.{key}") for key in _KEYS}
    size = hashlib.new(HASHES[mechanism]).digest_size
    for key in sorted(_KEYS):
        if len(keys[key]) != size:
            raise ArgumentError(f"{where}.{key} must have {size} bytes, not {len(keys[key])}")
    return Credential(salt, iterations, **keys)


def _bytes(encoded: object, where: str) -> bytes:
    try:
        data = base64.b64decode(encoded, validate=True) if isinstance(encoded, str) else b""
    except (binascii.Error, ValueError):
        data = b""
    if not data:
        raise ArgumentError(f"{where} must be base64, not {shown(encoded)}")
    return data


def credential_toml(user: str, password: str, salts: Callable[[], bytes]) -> str:
    """Return the TOML tables of a user's SCRAM credentials, without the password.

    Raises
    ------
    coterie.ArgumentError
        The name or the password is not allowed.
    """
    _name(user, "user")
    if not password:
        raise ArgumentError("the password is empty")
    name = user
    if not _BARE.fullmatch(user):
        name = '"' + user.replace("\\", "\\\\").replace('"', '\\"') + '"'
    tables = []
    for table, mechanism in sorted(_TABLES.items()):
        credential = derive(mechanism, password.encode(), salts(), MAX_ITERATIONS)
        salt, stored_key, server_key = (
            base64.b64encode(data).decode("ascii")
            for data in (credential.salt, credential.stored_key, credential.server_key)
        )
        tables.append(
            f'[users.{name}.{table}]\nsalt = "{salt}"\niterations = {credential.iterations}\n'
            f'stored_key = "{stored_key}"\nserver_key = "{server_key}"\n'
        )
    return "\n".join(tables)
