"""DescribeUserScramCredentials and AlterUserScramCredentials.

Changes are in memory: the users file stays as it is. Messages are Kafka's. Source: ScramImage and
ScramControlManager of Kafka 3.9.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from coterie.server.api.call import Call, Slices
from coterie.server.api.entry_errors import EntryError
from coterie.server.api.rows_in_slices import Pace, answer_in_slices
from coterie.server.services.scram import MAX_ITERATIONS, MIN_ITERATIONS, derive_keys
from coterie.values import Error

Body = dict[str, Any]

_ENTRIES = 10  # deriving keys costs as much as so many entries of a list
_MECHANISMS = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}  # ScramMechanism's types


def describe_users(call: Call) -> Slices:
    """Return the SCRAM mechanisms and iterations of users; of all users if none is named."""
    body = {"errorCode": 0, "errorMessage": ""}
    return answer_in_slices(call, lambda rows: {**body, "results": rows}, _described(call))


def _described(call: Call) -> Iterator[Body]:
    users = call.cluster.users
    named = Counter(user["name"] for user in call.body["users"] or ())
    for name in named or sorted(users.names):
        credentials = [
            {"mechanism": number, "iterations": iterations}
            for number, mechanism in _MECHANISMS.items()
            if (iterations := users.iterations(mechanism, name)) is not None
        ]
        error, message = Error.NONE, ""
        if named[name] > 1:
            error, credentials = Error.DUPLICATE_RESOURCE, []
            message = (
                "Cannot describe SCRAM credentials for the same user twice in a single request: "
                + name
            )
        elif not credentials:
            if not named:
                continue
            error = Error.RESOURCE_NOT_FOUND
            message = f"Attempt to describe a user credential that does not exist: {name}"
        yield {
            "user": name,
            "errorCode": error,
            "errorMessage": message,
            "credentialInfos": credentials,
        }


def alter_users(call: Call) -> Slices:
    """Delete and set SCRAM credentials, in slices; a request may alter each user once."""
    body, users = call.body, call.cluster.users
    named = Counter(entry["name"] for entry in body["deletions"] + body["upsertions"])
    results: dict[str, Body] = {}
    changes = [(_check_deletion, entry) for entry in body["deletions"]]
    changes += [(_check_upsertion, entry) for entry in body["upsertions"]]
    pace = Pace()
    for check, entry in changes:
        if pace.is_over(_ENTRIES):
            yield
        name = entry["name"]
        error, message = Error.NONE, None
        try:
            mechanism = check(call, entry)
            if named[name] > 1:
                message = "A user credential cannot be altered twice in the same request"
                raise EntryError(Error.DUPLICATE_RESOURCE, message)
            if check is _check_deletion:
                users.delete_credential(mechanism, name)
            else:
                salted, salt, iterations = (
                    entry["saltedPassword"], entry["salt"], entry["iterations"],
                )  # fmt: skip
                credential = derive_keys(mechanism, salted, salt, iterations)
                users.set_credential(mechanism, name, credential)
        except EntryError as refused:
            error, message = refused.error, refused.message
        # Kafka reports the first error of a user that is named several times.
        results.setdefault(name, {"user": name, "errorCode": error, "errorMessage": message})
    return call.answer({"results": list(results.values())})


def _check_deletion(call: Call, entry: Body) -> str:
    mechanism = _mechanism(entry)
    if call.cluster.users.iterations(mechanism, entry["name"]) is None:
        message = "Attempt to delete a user credential that does not exist"
        raise EntryError(Error.RESOURCE_NOT_FOUND, message)
    return mechanism


def _check_upsertion(call: Call, entry: Body) -> str:
    mechanism = _mechanism(entry)
    if entry["iterations"] < MIN_ITERATIONS:
        raise EntryError(Error.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
    if entry["iterations"] > MAX_ITERATIONS:
        raise EntryError(Error.UNACCEPTABLE_CREDENTIAL, "Too many iterations")
    return mechanism


def _mechanism(entry: Body) -> str:
    if not entry["name"]:
        raise EntryError(Error.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
    mechanism = _MECHANISMS.get(entry["mechanism"])
    if mechanism is None:
        raise EntryError(Error.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
    return mechanism
