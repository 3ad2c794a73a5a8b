"""Checks the table of messages against Kafka's own schemas, or writes its requests anew.

    python tools/wire_table.py SOURCE ...           says what differs; exit 1 if anything does
    python tools/wire_table.py --write SOURCE ...   writes the table: versions of all sources

A SOURCE is a jar that has its schemas under common/message/ (kafka-clients for requests,
kafka-group-coordinator of 4.0 or later for records), or a JSON file of several releases, in the
form of the golden data's schemas.json. Where two sources differ in the
versions of a field, the narrower end is right: the wider one is of a release that ends earlier.
Only messages that the table has are compared.
"""

import argparse
import json
import re
import sys
import zipfile
from pathlib import Path

TABLE = Path(__file__).parents[1] / "pycore/coterie/base/schemas.txt"
sys.path.insert(0, str(Path(__file__).parents[1] / "pycore"))
from coterie.base.schemas import LAST, sections, versions_of  # noqa: E402

REQUEST = ("request", "response")
# Fields that a release renamed in all versions -> the name in the table, up to which version.
RENAMED = {("TxnOffsetCommitRequest", "generationIdOrMemberEpoch"): ("generationId", 5)}
KEY_VERSIONS = (0, 0)  # of a record's key, which has no versions of its own


def read(path):
    """Give the messages of a source, one dict for each release: {name: (key, parts)}."""
    if path.endswith(".jar"):
        return [of_jar(path)]
    with open(path, encoding="utf-8") as file:
        releases = [release["apis"] for release in json.load(file).values()]
    return [
        {name: (api["key"], {part: api[part] for part in REQUEST}) for name, api in apis.items()}
        for apis in releases
    ]


def of_jar(path):
    """Give the messages of the schemas in a jar."""
    found = {}
    with zipfile.ZipFile(path) as jar:
        for name in sorted(jar.namelist()):
            match = re.fullmatch(r"common/message/(\w+?)(Request|Response|Key|Value)?\.json", name)
            if match:
                text = re.sub(r"^\s*//.*$", "", jar.read(name).decode("utf-8"), flags=re.M)
                message = json.loads(text)
                if has_stable_version(message):
                    part = (match[2] or "message").lower()
                    named = match[1] if part in REQUEST else snake_case(match[1])
                    parts = found.setdefault(named, (message.get("apiKey", 0), {}))[1]
                    parts[part] = of_schema(message)
    return {name: api for name, api in found.items() if len(api[1]) == 2 or "message" in api[1]}


def has_stable_version(message):
    """Whether a version of a message is neither dropped nor one that may still change."""
    first, last = versions_of(message["validVersions"])
    return first <= last - message.get("latestVersionUnstable", False)


def snake_case(name):
    """Give the table's name of a record."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


def of_schema(message):
    """Give a schema of Kafka's in the form of schemas.json."""
    is_request = message["type"] in REQUEST
    structs = {s["name"]: s["fields"] for s in message.get("commonStructs", ())}

    def fields_of(fields):
        return [one(*named) for field in fields for named in by_name(field)]

    def by_name(f):
        """Give a field as the table names it: by its former name in the versions of that."""
        name = f["name"][0].lower() + f["name"][1:]
        versions = f.get("versions", f.get("taggedVersions"))
        former, last = RENAMED.get((message["name"], name), (None, None))
        if former:
            first = versions_of(versions)[0]
            return [(former, f"{first}-{last}", f), (name, f"{last + 1}+", f)]
        return [(name, versions, f)]

    def one(name, versions, f):
        kind = f["type"]
        array, base = kind.startswith("[]"), kind.removeprefix("[]")
        inner = f.get("fields") or structs.get(base)
        kind = ("[]" if array else "") + ("struct" if inner is not None else base)
        default = f.get("default")
        if kind == "struct" and "tag" in f and default is None and not is_request:
            default = "null"  # to Kafka an empty struct: it always writes the tag of such a field
        return [
            *(name, kind, versions),
            *(f.get("nullableVersions"), f.get("flexibleVersions")),
            *(f.get("tag"), f.get("taggedVersions"), default),
            fields_of(inner) if inner is not None else None,
        ]

    return {
        "valid": message["validVersions"],
        "flexible": message["flexibleVersions"],
        "fields": fields_of(message["fields"]),
    }


def default_of(text):
    """Give what is written after "="; None where it says nothing."""
    text = "" if text is None else str(text).lower() if isinstance(text, bool) else str(text)
    if text.startswith("0x"):
        text = str(int(text, 16))
    return None if text in ("", "0", "false") else text


def normal(fields, within):
    """Give the fields as the table has them, in the versions of their message."""
    found = []
    for name, kind, versions, nullable, _, tag, tagged, default, inner in fields:
        first, last = cut(versions, within)
        if first > last:
            continue
        if tag is not None and cut(tagged, within) != (first, last):
            raise SystemExit(f"{name}: tagged in other versions than it is there")
        null = cut(nullable, (first, last))
        below = None if inner is None else normal(inner, (first, last))
        found.append([name, kind, (first, last), null, tag, default_of(default), below])
    return found


def cut(span, within):
    """Give the part of a span that lies within another."""
    first, last = versions_of(span or "none")
    first, last = max(first, within[0]), min(last, within[1])
    return (first, last) if first <= last else (1, 0)


def merged(old, new):
    """Give the fields of two releases, each version as the release that has it says."""
    by_name = {f[0]: f for f in old}
    order = [f[0] for f in new]
    for n, field in enumerate(old):  # what the newer one lacks goes where the older one has it
        if field[0] not in order:
            before = old[n - 1][0] if n else None
            order.insert(order.index(before) + 1 if before else 0, field[0])
    fresh = {f[0]: f for f in new}
    return [
        joined(by_name[name], fresh[name])
        if name in by_name and name in fresh
        else by_name.get(name) or fresh[name]
        for name in order
    ]


def joined(a, b):
    """Give one field of two releases."""
    if (a[1], a[4], a[5]) != (b[1], b[4], b[5]):
        raise SystemExit(f"{a[0]}: {a} in one source, {b} in another")
    below = None if a[6] is None else merged(a[6], b[6])
    return [a[0], a[1], union(a[2], b[2]), union(a[3], b[3]), a[4], a[5], below]


def union(a, b):
    """Give the span of two spans."""
    if a == (1, 0) or b == (1, 0):
        return b if a == (1, 0) else a
    return min(a[0], b[0]), max(a[1], b[1])


def gather(sources):
    """Give the APIs of all sources: {name: (key, valid, flexible, {direction: fields})}."""
    found = {}
    for release in [release for path in sources for release in read(path)]:
        for name, api in release.items():
            if "request" not in api[1]:
                continue
            key, valid, flexible, both = of_api(api)
            if name in found:
                _, was, _, fields = found[name]
                both = {d: merged(fields[d], both[d]) for d in both}
                valid = union(was, valid)
            found[name] = (key, valid, flexible, both)
    return found


def span_text(span):
    """Write a span."""
    return str(span[0]) if span[0] == span[1] else f"{span[0]}-{span[1]}"


def shown(span, within):
    """Write a span, open where it ends with its message."""
    if span[1] < within[1]:
        return span_text(span)
    return f"{span[0]}+"


def lines_of(fields, within, depth):
    """Write the lines of some fields."""
    for name, kind, span, null, tag, default, below in fields:
        words = [name, kind]
        if null != (1, 0):
            words[1] += "?" if null == span else "?" + shown(null, span)
        if span != within:
            words.append(shown(span, within))
        if tag is not None:
            words.append(f"#{tag}")
        if default is not None:
            words.append(f"={default}")
        yield " " * depth + " ".join(words)
        if below is not None:
            yield from lines_of(below, span, depth + 1)


def text_of(apis, old):
    """Write the table: requests anew, what else there is as it stood."""
    head, *blocks = old.rstrip("\n").split("\n\n")
    parts = [head + "\n"]
    for name, (key, valid, flexible, both) in sorted(apis.items(), key=lambda item: item[1][0]):
        lines = [
            f"{name} {key} {span_text(valid)} {'none' if flexible == LAST else f'{flexible}+'}"
        ]
        for direction in ("request", "response"):
            lines += [direction, *lines_of(both[direction], valid, 1)]
        parts.append("\n".join(lines) + "\n")
    parts += [block + "\n" for block in blocks if "\nrequest\n" not in block]
    return "\n".join(parts)


def difference(table, apis):
    """Give where the table differs from a release, which may lack versions, and how."""
    for name, (key, valid, flexible, both) in apis.items():
        if name not in table:
            yield name, "is not in the table"
            continue
        own = table[name]
        own_valid = cut(span_text(own[1]), valid)
        if (own[0], own_valid, own[2]) != (key, valid, flexible):
            yield name, f"is {own[:3]} in the table, {(key, valid, flexible)} in the source"
        for direction, fields in both.items():
            mine = narrowed(own[3][direction], KEY_VERSIONS if direction == "key" else valid)
            yield from other_fields(mine, fields, f"{name}.{direction}")


def narrowed(fields, within):
    """Give the table's fields in some versions only."""
    found = []
    for name, kind, span, null, tag, default, below in fields:
        first, last = max(span[0], within[0]), min(span[1], within[1])
        if first <= last:
            null = cut(span_text(null), (first, last)) if null != (1, 0) else null
            below = None if below is None else narrowed(below, (first, last))
            found.append([name, kind, (first, last), null, tag, default, below])
    return found


def other_fields(mine, theirs, path):
    """Give the fields that differ, or that only one side has, by their paths."""
    ours, other = ({field[0]: field for field in fields} for fields in (mine, theirs))
    if ours.keys() == other.keys() and list(ours) != list(other):
        yield path, f"has the order {list(ours)} in the table, {list(other)} in the source"
    for name in [*other, *(name for name in ours if name not in other)]:
        a, b, where = ours.get(name), other.get(name), f"{path}.{name}"
        if a is None or b is None:
            yield where, "is not in the table" if a is None else "is only in the table"
        elif a[:6] != b[:6]:
            yield where, f"is {a[1:6]} in the table, {b[1:6]} in the source"
        elif a[6]:
            yield from other_fields(a[6], b[6], where)


def own_table():
    """Give the table as ``gather`` does."""
    return {
        name: (section.keys[1], (section.first, section.last), section.flexible, {
            part: plain(section.fields(part)) for part in section.parts
        })
        for name, section in sections(TABLE.read_text("utf-8")).items()
    }  # fmt: skip


def plain(fields):
    """Give fields of the table as ``normal`` does."""
    return [
        [
            *(name, kind, (first, last), (null_first, null_last), None if tag < 0 else tag),
            *(default, plain(below) if kind.removeprefix("[]") == "struct" else None),
        ]
        for name, kind, first, last, null_first, null_last, tag, default, below in fields
    ]


def main():
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sources", nargs="+", metavar="SOURCE")
    parser.add_argument("--write", action="store_true", help="write the table")
    args = parser.parse_args()
    if args.write:
        TABLE.write_text(text_of(gather(args.sources), TABLE.read_text("utf-8")), "utf-8")
        return 0
    table = own_table()
    problems, compared = [], set()
    for path in args.sources:
        for release in read(path):
            names = {name: api for name, api in release.items() if name in table}
            compared |= names.keys()
            problems += [f"{at} {what}" for at, what in difference(table, of_release(names))]
    print("\n".join(problems) or f"{len(compared)} messages, nothing differs")
    return 1 if problems else 0


def of_release(release):
    """Give the APIs of one release, as ``gather`` does."""
    return {name: of_api(api) for name, api in release.items()}


def of_api(api):
    """Give one API of a source, as ``gather`` does."""
    key, parts = api
    first = parts.get("request") or parts.get("value") or parts["message"]
    valid, flexible = versions_of(first["valid"]), versions_of(first["flexible"])
    both = {
        part: normal(schema["fields"], KEY_VERSIONS if part == "key" else valid)
        for part, schema in parts.items()
    }
    return key, valid, LAST if flexible == (1, 0) else flexible[0], both


if __name__ == "__main__":
    sys.exit(main())
