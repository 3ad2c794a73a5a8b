"""Keys, values and the consumer protocol, from plain dicts to bytes. See encode.pyi.

The other direction of ``schema``, over the same tables. What a dict lacks or cannot be written
is the caller's mistake: a CoterieError that names the field. Cost: one pass, a list of parts.
"""
from binascii import Error as Base64Error
from binascii import a2b_base64

from coterie._core.checks cimport bytes_of, dict_of, int64_or_none, items_of, text_of, within
from coterie._core.codec.fields cimport Field, Layout
from coterie._core.codec.walk cimport (
    ARRAY, BYTES, INT8, INT16, INT32, INT64, STRING, STRUCT, UUID)

from coterie._core.codec.fields import ASSIGNMENTS, KEYS, SUBSCRIPTIONS, VALUES
from coterie.errors import CoterieError, shown

cdef dict KEY_LAYOUTS = KEYS
cdef dict VALUE_LAYOUTS = VALUES
cdef enum:
    STRING_MAX = 32767            # an int16 length; the compact form is held to it by Kafka too


cdef bytes fixed(object value, Py_ssize_t size, Field field, bint signed):
    if not isinstance(value, int):
        raise CoterieError(f"{field.name}: {shown(value)} is no whole number")
    try:
        return int.to_bytes(value, size, "big", signed=signed)
    except OverflowError:
        raise CoterieError(f"{field.name}: {shown(value)} does not fit {8 * size} bits") from None


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
        raise CoterieError(f"{field.name}: {shown(value)} is no text")
    # A surrogate alone has no UTF-8: Java writes a question mark.
    cdef bytes raw = text_of(value, field.name).encode("utf-8", "replace")
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
            raise CoterieError(f"{field.name}: {shown(value)} is no bytes object")
        value = bytes_of(value, field.name)
        out.append(length_of(len(value), 4, flexible))
        out.append(value)
    elif field.op == ARRAY:
        if isinstance(value, (str, bytes, dict)):
            raise CoterieError(f"{field.name}: {shown(value)} is no list")
        value = items_of(value, field.name)
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
    raw = b""
    if isinstance(value, str):
        try:
            raw = a2b_base64(value.replace("-", "+").replace("_", "/") + "==")
        except (Base64Error, ValueError):
            pass
    if len(raw) != 16:
        raise CoterieError(f"{field.name}: {shown(value)} is no uuid as Kafka prints it")
    return raw


cdef int write_struct(list out, Layout layout, object data) except -1:
    cdef Field field
    if not isinstance(data, dict):
        raise CoterieError(f"{shown(data)} stands where a struct is needed")
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
    cdef dict tags = {
        within(tag, "a tag of tagged_fields", 0, 0xFFFFFFFF): bytes_of(raw, "a tagged field")
        for tag, raw in dict_of(data.get("tagged_fields", {}), "tagged_fields").items()}
    cdef list parts
    for field in layout.tagged:
        value = data.get(field.name, field.default)
        if type(value) is type(field.default) and value == field.default and not field.always:
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
        raise CoterieError(f"version {shown(version)} is unknown")
    return version


cdef bytes write_message(object version, Layout layout, dict message):
    cdef list out = [int.to_bytes(version, 2, "big", signed=True)]
    if "data" not in message:
        raise CoterieError("data is missing")
    write_struct(out, layout, message["data"])
    return b"".join(out)


def encode_key(key):
    """See ``encode.pyi``."""
    cdef dict message = dict_of(key, "key")
    if "raw" in message:
        return bytes_of(message["raw"], "raw")
    version = version_of(message, max(KEY_LAYOUTS) + 1)
    if version not in KEY_LAYOUTS:
        raise CoterieError(f"version {version} is unknown")
    return write_message(version, <Layout?>KEY_LAYOUTS[version], message)


def encode_value(key_version, value):
    """See ``encode.pyi``."""
    cdef object of_key = int64_or_none(key_version, "key_version")
    if value is None:
        return None
    cdef dict message = dict_of(value, "value")
    if "raw" in message:
        return bytes_of(message["raw"], "raw")
    cdef list layouts = VALUE_LAYOUTS.get(of_key, [])
    version = version_of(message, len(layouts))
    return write_message(version, <Layout?>layouts[version], message)


cdef bytes encode_protocol(object given, str name, list layouts):
    if given is None:
        return b""
    cdef dict message = dict_of(given, name)
    version = version_of(message, 32768)
    return write_message(
        version, <Layout?>layouts[min(version, len(layouts) - 1)], message)


def encode_subscription(subscription):
    """See ``encode.pyi``."""
    return encode_protocol(subscription, "subscription", SUBSCRIPTIONS)


def encode_assignment(assignment):
    """See ``encode.pyi``."""
    return encode_protocol(assignment, "assignment", ASSIGNMENTS)
