"""One table of operations: what stands elsewhere by name or number is what the table says."""

import inspect
import re
from pathlib import Path

import pytest

from coterie import Error, GroupCoordinator
from coterie.coordinator.operations import ALONE, DETAILS, OPERATIONS
from coterie.coordinator.requests import NUMBER, compile_request, show_request
from coterie.events import Cause

CORE = Path(__file__).parents[1] / "src/coterie/_core/coordinator"


def enum(file, name):
    """The members of an enum of the core, by name."""
    text = (CORE / file).read_text(encoding="utf-8")
    body = re.search(rf"cdef enum {name}:.*?\n((?:    .*\n)+)", text)[1]
    return {m[1]: int(m[2]) for m in re.finditer(r"^    (\w+) = (-?\d+)", body, re.M)}


@pytest.mark.parametrize("op", sorted({*OPERATIONS} - {"advance"}))
def test_a_method_takes_the_fields_of_its_operation(op):
    parameters = [*inspect.signature(getattr(GroupCoordinator, op)).parameters][1:]
    assert {field.name for field in OPERATIONS[op].fields} == set(parameters)


def test_each_operation_has_a_number_of_the_core():
    assert {name.lower(): number for name, number in enum("effects.pxd", "Op").items()} == NUMBER
    assert not set(OPERATIONS) - set(NUMBER)


@pytest.mark.parametrize("op", OPERATIONS)
def test_the_details_of_an_operation_have_one_place_each(op):
    places = [field.place for field in OPERATIONS[op].fields if field.place >= DETAILS]
    assert len(set(places)) == len(places)
    assert all(place - DETAILS < len(OPERATIONS[op].blank) for place in places)
    alone = [field for field in OPERATIONS[op].fields if field.place == ALONE]
    assert len(alone) + bool(OPERATIONS[op].blank) <= 1


GIVEN = {
    "group_id": "g", "generation_id": 3, "member_id": "m-1", "group_instance_id": "i",
    "protocol_type": "consumer", "protocols": [{"name": "range", "metadata": "AAE="}],
    "session_timeout_ms": 6000, "rebalance_timeout_ms": 7000, "client_id": "c",
    "client_host": "/h", "require_known_member_id": True, "supports_skipping_assignment": True,
    "protocol_name": "range", "assignments": [{"member_id": "m-1", "assignment": "AAE="}],
    "members": [{"member_id": "m-1", "group_instance_id": "i"}],
    "offsets": [{"topic": "t", "partition": 1, "offset": 5, "leader_epoch": 0, "metadata": "x",
                 "expire_timestamp": 9}],
    "producer_id": 8, "producer_epoch": 2, "committed": True,
    "topics": [{"topic": "t", "partitions": [0, 1]}], "require_stable": True,
    "partitions": [{"topic": "t", "partition": 1}], "states": ["Empty"], "group_ids": ["g"],
    "error": "NETWORK_EXCEPTION", "count": 2,
}  # fmt: skip


@pytest.mark.parametrize("op", OPERATIONS)
def test_a_request_is_shown_as_it_was_given(op):
    names = {field.name for field in OPERATIONS[op].fields} - {"reason"}
    given = {name: value for name, value in GIVEN.items() if name in names}
    assert set(given) == names
    assert show_request(op, compile_request(op, given)) == given


def test_the_codes_of_the_core_are_kafkas_errors():
    codes = enum("codes.pxd", "Code")
    assert len(codes) > 25
    assert {name: Error[name].value for name in codes} == codes


def test_the_causes_of_the_core_are_those_of_events():
    causes = {name.removeprefix("BY_"): n for name, n in enum("effects.pxd", "CauseCode").items()}
    assert causes == {cause.name: cause.value for cause in Cause}
