"""Keys, values and the consumer protocol, from plain dicts to bytes. See encode.pyi.

The other direction of ``schema``, over the same tables. What a dict lacks or cannot be written
is the caller's mistake: a CoterieError that names the field. Cost: one pass, a list of parts.
"""
from binascii import Error as Base64Error
from binascii import a2b_base64

from coterie._core.fields cimport (
    ARRAY, BYTES, INT8, INT16, INT32, INT64, STRING, STRUCT, UUID, Field, Layout)

from coterie._core.fields import ASSIGNMENTS, KEYS, SUBSCRIPTIONS, VALUES
from coterie.errors import CoterieError

cdef dict KEY_LAYOUTS = KEYS
cdef dict VALUE_LAYOUTS = VALUES
cdef enum:
    STRING_MAX = 32767            # an int16 length; the compact form is held to it by Kafka too


cdef bytes fixed(object value, Py_ssize_t size, Field field, bint signed):
    if not isinstance(value, int):
        raise CoterieError(f"{field.name}: {value!r} is no whole number")
    try:
        return value.to_bytes(size, "big", signed=signed)
    except OverflowError:
        raise CoterieError(f"{field.name}: {value} does not fit {8 * size} bits") from None


cdef bytes uvarint(Py_ssize_t value):
    cdef list out = []
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


cdef bytes length_of(object size, Py_ssize_t width, bint flexible):
    """A length or count; ``size`` None: null."""
    if flexible:
        return uvarint(0 if size is None else size + 1)
    return (-1 if size is None else size).to_bytes(width, "big", signed=True)


cdef int write_string(list out, Field field, object value, bint flexible) except -1:
    if not isinstance(value, str):
        raise CoterieError(f"{field.name}: {value!r} is no text")
    # A surrogate alone has no UTF-8: Java writes a question mark.
    cdef bytes raw = value.encode("utf-8", "replace")
    if len(raw) > STRING_MAX:
        raise CoterieError(f"{field.name}: {len(raw)} bytes, a text has {STRING_MAX} at most")
    out.append(length_of(len(raw), 2, flexible))
    out.append(raw)
    return 0


cdef int write_field(list out, Field field, object value, bint flexible) except -1:
    if value is None:
        if not field.nullable:
            raise CoterieError(f"{field.name}: null where none is allowed")
        if field.op == STRUCT:
            out.append(b"\xff")
        else:
            out.append(length_of(None, 2 if field.op == STRING else 4, flexible))
    elif field.op == STRING:
        write_string(out, field, value, flexible)
    elif field.op == BYTES:
        if not isinstance(value, bytes):
            raise CoterieError(f"{field.name}: {value!r} is no bytes object")
        out.append(length_of(len(value), 4, flexible))
        out.append(value)
    elif field.op == ARRAY:
        out.append(length_of(len(value), 4, flexible))
        for item in value:
            write_field(out, field.item, item, flexible)
    elif field.op == STRUCT:
        if field.nullable:
            out.append(b"\x01")
        write_struct(out, field.layout, value)
    elif field.op == UUID:
        out.append(uuid_bytes(field, value))
    else:
        out.append(number(field, value))
    return 0


cdef bytes number(Field field, object value):
    if field.op == INT64:
        return fixed(value, 8, field, True)
    if field.op == INT32:
        return fixed(value, 4, field, True)
    if field.op == INT8:
        return fixed(value, 1, field, True)
    return fixed(value, 2, field, field.op == INT16)


cdef bytes uuid_bytes(Field field, object value):
    try:
        raw = a2b_base64(value.replace("-", "+").replace("_", "/") + "==")
    except (AttributeError, Base64Error, ValueError):
        raw = b""
    if len(raw) != 16:
        raise CoterieError(f"{field.name}: {value!r} is no uuid as Kafka prints it")
    return raw


cdef int write_struct(list out, Layout layout, object data) except -1:
    cdef Field field
    if not isinstance(data, dict):
        raise CoterieError(f"{data!r} stands where a struct is needed")
    for field in layout.fields:
        if field.name not in data:
            raise CoterieError(f"{field.name} is missing")
        write_field(out, field, data[field.name], layout.flexible)
    if layout.flexible:
        write_tagged(out, layout, data)
    return 0


cdef int write_tagged(list out, Layout layout, dict data) except -1:
    """Known tagged fields that are not their default, and the bytes of unknown ones, by tag."""
    cdef Field field
    cdef dict tags = dict(data.get("tagged_fields", ()))
    cdef list parts
    for field in layout.tagged:
        value = data.get(field.name, field.default)
        if value == field.default and not field.always:
            continue
        parts = []
        if field.op == STRUCT:
            parts.append(b"\x00" if value is None else b"\x01")
            if value is not None:
                write_struct(parts, field.layout, value)
        else:
            write_field(parts, field, value, True)
        tags[field.tag] = b"".join(parts)
    out.append(uvarint(len(tags)))
    for tag in sorted(tags):
        out += (uvarint(tag), uvarint(len(tags[tag])), tags[tag])
    return 0


cdef object version_of(dict message, Py_ssize_t count):
    version = message.get("version")
    if not isinstance(version, int) or not 0 <= version < count:
        raise CoterieError(f"version {version!r} is unknown")
    return version


cdef bytes write_message(object version, Layout layout, dict message):
    cdef list out = [version.to_bytes(2, "big", signed=True)]
    write_struct(out, layout, message["data"])
    return b"".join(out)


def encode_key(dict key not None):
    if "raw" in key:
        return key["raw"]
    layout = KEY_LAYOUTS.get(key.get("version"))
    if layout is None:
        raise CoterieError(f"version {key.get('version')!r} is unknown")
    return write_message(key["version"], layout, key)


def encode_value(object key_version, dict value):
    if value is None:
        return None
    if "raw" in value:
        return value["raw"]
    cdef list layouts = VALUE_LAYOUTS.get(key_version, [])
    version = version_of(value, len(layouts))
    return write_message(version, layouts[version], value)


cdef bytes encode_protocol(dict message, list layouts):
    if message is None:
        return b""
    version = message.get("version")
    if not isinstance(version, int) or not 0 <= version <= 32767:
        raise CoterieError(f"version {version!r} is unknown")
    return write_message(version, layouts[min(version, 3)], message)


def encode_subscription(dict subscription):
    return encode_protocol(subscription, SUBSCRIPTIONS)


def encode_assignment(dict assignment):
    return encode_protocol(assignment, ASSIGNMENTS)
