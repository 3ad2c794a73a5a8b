"""``coterie serve --make-credential``: a password in, what a users file keeps of it out."""

from __future__ import annotations

import secrets
import sys

import click

from coterie.errors import ArgumentError
from coterie.server.services.sasl.users import credential_toml

__all__ = ["make_credential"]

SALT_BYTES = 20


def make_credential(user: str) -> None:
    """Print the tables of a user; the password is read without echo, or from a pipe."""
    try:
        told = credential_toml(user, _password(user), lambda: secrets.token_bytes(SALT_BYTES))
    except ArgumentError as error:
        raise click.UsageError(str(error)) from None
    click.echo(told, nl=False)


def _password(user: str) -> str:
    if sys.stdin.isatty():
        asked: str = click.prompt(
            f"password of {user}", hide_input=True, confirmation_prompt=True, err=True
        )
        return asked
    return sys.stdin.readline().rstrip("\r\n")
