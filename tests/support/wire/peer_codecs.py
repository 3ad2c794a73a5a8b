"""Other decoders of frames, run as a process because kio's ends its process on some lengths.

Reads a pickled list of (peer, key, version, direction, fields, body bytes) from standard input.
Writes a pickled list of (body, bytes encoded again), or of an error text. ``fields`` are (name in
Kafka's JSON, fields of a struct or None), in the order on the wire.
"""

import base64
import dataclasses
import datetime
import enum
import io
import pickle
import re
import sys
import uuid


def camel_to_snake(name):
    return re.sub(r"(?<!^)([A-Z])", r"_\1", name).lower()


def plain_kio(value, fields):
    """Convert a value of kio to JSON; kio has types of its own for times, errors and ids."""
    if isinstance(value, tuple):
        return [plain_kio(each, fields) for each in value]
    if dataclasses.is_dataclass(value):
        own = dataclasses.fields(value)
        assert len(own) == len(fields), [f.name for f in own]
        return {
            name: plain_kio(known(getattr(value, f.name), f), below)
            for f, (name, below) in zip(own, fields, strict=True)
        }
    if isinstance(value, datetime.timedelta):
        return value // datetime.timedelta(milliseconds=1)
    if isinstance(value, datetime.datetime):
        start = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
        return (value - start) // datetime.timedelta(milliseconds=1)
    if isinstance(value, uuid.UUID):
        return base64.urlsafe_b64encode(value.bytes).decode().rstrip("=")
    if isinstance(value, enum.Enum):
        return int(value.value)
    return value


def known(value, field):
    """The zero uuid and the time -1 are None to kio."""
    kind = field.metadata.get("kafka_type")
    if value is None and kind == "uuid":
        return "A" * 22
    return -1 if value is None and kind in ("datetime_i64", "timedelta_i64") else value


def kio(key, version, direction, fields, data):
    from kio import index
    from kio.serial import entity_reader, entity_writer

    kind = getattr(index, f"load_{direction}_schema")(key, version)
    entity, size = entity_reader(kind)(data, 0)
    assert size == len(data)
    out = io.BytesIO()
    entity_writer(kind)(out, entity)
    return plain_kio(entity, fields), out.getvalue()


def kafka_classes():
    import importlib
    import pkgutil

    import kafka.protocol
    from kafka.protocol.api_message import ApiMessage

    for module in pkgutil.walk_packages(kafka.protocol.__path__, "kafka.protocol."):
        if ".old" not in module.name and "stubs" not in module.name:
            importlib.import_module(module.name)
    return {(c.API_KEY, c.type): c for c in ApiMessage.__subclasses__()}


def plain_kafka(value, fields):
    if isinstance(value, (list, tuple)):
        return [plain_kafka(each, fields) for each in value]
    if isinstance(value, uuid.UUID):
        return base64.urlsafe_b64encode(value.bytes).decode().rstrip("=")
    if fields is None or value is None:
        return bytes(value) if isinstance(value, memoryview) else value
    return {
        name: plain_kafka(getattr(value, camel_to_snake(name)), below)
        for name, below in fields
        if "AuthorizedOperations" not in name  # it has sets of its own in their place
        and name != "authorizedOperations"
    }


def kafka_python(key, version, direction, fields, data):
    message = CLASSES[key, direction].decode(data, version=version)
    message._header = None
    return plain_kafka(message, fields), bytes(message.encode(version=version))


PEERS = {"kio": kio, "kafka-python": kafka_python}
CLASSES = {}


def main():
    requests = pickle.load(sys.stdin.buffer)
    if any(peer == "kafka-python" for peer, *_ in requests):
        CLASSES.update(kafka_classes())
    answers = [answer(peer, *rest) for peer, *rest in requests]
    sys.stdout.buffer.write(pickle.dumps(answers))


def answer(peer, *rest):
    try:
        return PEERS[peer](*rest)
    except Exception as error:
        return f"{type(error).__name__}: {error}"


if __name__ == "__main__":
    main()
