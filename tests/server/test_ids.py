"""Ids of a server: their forms, and that each kind is drawn for itself."""

import re
import uuid
from base64 import urlsafe_b64decode

from coterie.server.ids import Ids


def test_ids_are_random_uuids_in_the_forms_of_kafka():
    ids = Ids(5)
    texts = [ids.uuid() for _ in range(200)]
    members = [ids.member_id("client-1") for _ in range(200)]
    assert len({*texts, *members}) == 400
    for text in texts:
        assert len(text) == 22
        found = uuid.UUID(bytes=urlsafe_b64decode(f"{text}=="))
        assert (found.version, found.variant) == (4, uuid.RFC_4122)
    for member in members:
        prefix, hyphen, text = member.partition("client-1-")
        assert (prefix, hyphen) == ("", "client-1-")
        assert re.fullmatch("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", text)
        assert (uuid.UUID(text).version, uuid.UUID(text).variant) == (4, uuid.RFC_4122)


def test_producer_ids_count_from_0():
    ids = Ids(None)
    assert [ids.producer_id() for _ in range(3)] == [0, 1, 2]


def test_a_number_has_at_most_its_bits_and_uses_all_of_them():
    ids = Ids(1)
    numbers = [ids.number(31) for _ in range(200)]
    assert 2**30 <= max(numbers) < 2**31
    assert min(numbers) >= 0


def test_how_many_ids_of_one_kind_are_drawn_changes_no_other_kind():
    one, two = Ids(9), Ids(9)
    for _ in range(3):
        one.number(31)
        one.uuid()
    assert one.member_id("m") == two.member_id("m")
    assert one.uuid() != two.uuid()
    assert Ids(8).member_id("m") != two.member_id("m")
