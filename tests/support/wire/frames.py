"""Golden and random frames of Kafka's protocol, with their contents by the player's codec.

The model is ``play.py`` of ``../shared/golden/wire``, which reads and writes frames by
``schemas.json``, slowly and simply. Its JSON has bytes in base64; ``plain`` decodes them.
"""

import base64
import gzip
import importlib.util
import json
from collections import defaultdict
from functools import cache

from support.golden_data import shared

DIRECTIONS = ("request", "response")
TEXTS = ["", "t", "группа", "x" * 126, "x" * 127, "é\0📦", "y" * 300]


@cache
def play():
    spec = importlib.util.spec_from_file_location("golden_play", shared("wire") / "play.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@cache
def tables():
    return json.loads((shared("wire") / "schemas.json").read_text("utf-8"))


@cache
def model(release):
    """The player's codec by the schemas of a release."""
    return play().Schemas(tables()[release])


def rows(name):
    with gzip.open(shared("wire") / f"frames/{name}.jsonl.gz") as file:
        return [json.loads(line) for line in file]


@cache
def by_api():
    """Golden frames: {api: rows}; a row's frame is bytes, its body as ``plain`` has it."""
    found = defaultdict(list)
    for row in rows("frames"):
        row["frame"] = base64.b64decode(row["frame"])
        fields = model(row["release"]).apis[row["api"]][1][row["direction"]][2]
        row["body"] = plain(fields, row["body"])
        found[row["api"]].append(row)
    return found


def plain(fields, body):
    """A body of the player's with its bytes as bytes."""
    by_name = {field.name: field for field in fields}

    def converted(field, value):
        if value is None:
            return None
        if field.base == "struct":
            return plain(field.sub, value)
        return base64.b64decode(value) if field.base in ("bytes", "records") else value

    found = {}
    for name, value in body.items():
        if name == "$tags":
            found["_unknown_tags"] = [(t["tag"], base64.b64decode(t["data"])) for t in value]
            continue
        field = by_name[name]
        many = field.array and value is not None
        found[name] = [converted(field, v) for v in value] if many else converted(field, value)
    return found


def with_tags(row):
    """The body of a golden frame with its inserted unknown tags."""
    body = json_copy(row["body"])
    for tag in row.get("unknown_tags", ()):
        at = body
        for step in tag["at"]:
            at = at[step]
        pair = (tag["tag"], base64.b64decode(tag["data"]))
        at.setdefault("_unknown_tags", []).append(pair)
    return body


def json_copy(value):
    if isinstance(value, dict):
        return {name: json_copy(inner) for name, inner in value.items()}
    return [json_copy(inner) for inner in value] if isinstance(value, list) else value


def without_records(value):
    """As Kafka's own converter shows a body: record bytes are left empty."""
    if isinstance(value, dict):
        return {
            name: b"" if name == "records" and inner else without_records(inner)
            for name, inner in value.items()
        }
    return [without_records(inner) for inner in value] if isinstance(value, list) else value


def messages():
    """Every message: (release, api, key, version, direction, fields); the newest release's."""
    seen = set()
    for release in ("4.1.1", "3.9.1"):
        for api, (key, both) in model(release).apis.items():
            for version in model(release).versions(api):
                for direction in DIRECTIONS:
                    if (api, version, direction) not in seen:
                        seen.add((api, version, direction))
                        yield release, api, key, version, direction, both[direction][2]


def random_body(rng, fields, version, flexible):
    """A body of the player's with random values of its version."""
    within = play().within
    found = {}
    for field in fields:
        if field.tag is not None and rng.random() < 0.5:
            continue
        if within(field.versions, version):
            found[field.name] = random_value(rng, field, version, flexible)
    if flexible and rng.random() < 0.1:
        data = base64.b64encode(rng.randbytes(3)).decode()
        found["$tags"] = [{"tag": 100 + k, "data": data} for k in range(rng.randrange(1, 3))]
    return found


def random_value(rng, field, version, flexible):
    if play().within(field.nullable, version) and rng.random() < 0.3:
        return None
    if field.array:
        count = rng.choice([0, 1, 1, 2, 3])
        return [random_one(rng, field, version, flexible) for _ in range(count)]
    return random_one(rng, field, version, flexible)


def random_one(rng, field, version, flexible):
    kind = field.base
    if kind == "struct":
        return random_body(rng, field.sub, version, flexible)
    if kind == "string":
        return rng.choice(TEXTS)
    if kind in ("bytes", "records"):
        return base64.b64encode(rng.randbytes(rng.choice([0, 1, 20, 200]))).decode()
    if kind == "uuid":
        return play().uuid_text(rng.randbytes(16))
    if kind == "bool":
        return rng.random() < 0.5
    bits = int(kind.lstrip("uint"))
    least = 0 if kind.startswith("u") else -(1 << bits - 1)
    most = (1 << bits) - 1 + least
    return rng.choice([least, most, 0, 1, rng.randint(least, most)])
