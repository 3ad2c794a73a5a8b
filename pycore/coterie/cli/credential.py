"""``coterie serve --make-credential``: the tables of a users file from a password."""

from __future__ import annotations

import secrets
import sys

import click

from coterie.errors import ArgumentError
from coterie.server.services.users import credential_toml

SALT_BYTES = 20


def make_credential(user: str) -> None:
    """Print a user's tables; read the password from a terminal without echo, or from a pipe."""
    try:
        tables = credential_toml(user, _password(user), lambda: secrets.token_bytes(SALT_BYTES))
    except ArgumentError as error:
        raise click.UsageError(str(error)) from None
    click.echo(tables, nl=False)


def _password(user: str) -> str:
    if sys.stdin.isatty():
        password: str = click.prompt(
            f"password of {user}", hide_input=True, confirmation_prompt=True, err=True
        )
        return password
    return sys.stdin.readline().rstrip("\r\n")
