"""What a release has otherwise than coterie is named until it is decided, on made-up releases."""

import json
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HEARTBEAT = {
    "HeartbeatRequest": [
        {"name": "GroupId", "type": "string", "versions": "0+"},
        {"name": "GenerationId", "type": "int32", "versions": "0+"},
        {"name": "MemberId", "type": "string", "versions": "0+"},
        {"name": "GroupInstanceId", "type": "string", "versions": "3+", "nullableVersions": "3+",
         "default": "null"},
    ],
    "HeartbeatResponse": [
        {"name": "ThrottleTimeMs", "type": "int32", "versions": "1+"},
        {"name": "ErrorCode", "type": "int16", "versions": "0+"},
    ],
}  # fmt: skip
NEW_FIELD = {"name": "Mood", "type": "int8", "versions": "0+"}


@pytest.fixture
def tool(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "tools")
    import kafka_release

    return kafka_release


class MadeUp:
    """A release: a folder with a jar of one API, and with the facts of what is known."""

    def __init__(self, tool, folder, release="4.4"):
        self.folder, self.decisions = folder, folder / "decisions.txt"
        self.facts = [
            f"{kind} {name} {' '.join(words)}"
            for kind, known in tool.known_of(release).items()
            for name, words in known.items()
        ]
        for name, setting in tool.settings.read_settings(release).items():
            ends = tool.bounds(setting.least, setting.most)
            self.facts.append(f"broker {name} {setting.type.name}{ends}")
        self.messages = json.loads(json.dumps(HEARTBEAT))
        self.decisions.write_text("")

    def write(self):
        (self.folder / "facts.txt").write_text("\n".join(self.facts))
        with zipfile.ZipFile(self.folder / "made-up.jar", "w") as jar:
            for name, fields in self.messages.items():
                message = {
                    "apiKey": 12, "type": "request" if "Request" in name else "response",
                    "name": name, "validVersions": "0-4", "flexibleVersions": "4+",
                    "fields": fields,
                }  # fmt: skip
                jar.writestr(f"common/message/{name}.json", "// a comment\n" + json.dumps(message))
        return self

    def change(self, was, now):
        """Change one line of the facts; None: it comes, or goes."""
        if was is not None:
            self.facts.remove(was)
        if now is not None:
            self.facts.append(now)


@pytest.fixture
def compared(tool, tmp_path, monkeypatch, capsys):
    """Compare a made-up release; return the exit status and the lines."""

    def compare(made_up, version="4.4.7", source=None):
        source = source or made_up.write().folder
        options = ["--from", source, "--decisions", made_up.decisions]
        monkeypatch.setattr(sys, "argv", ["kafka_release.py", version, *map(str, options)])
        return tool.main(), capsys.readouterr().out.splitlines()

    return compare


@pytest.fixture
def made_up(tool, tmp_path):
    return MadeUp(tool, tmp_path)


def test_a_release_of_known_facts_has_nothing_undecided(compared, made_up):
    assert compared(made_up) == (0, ["Kafka 4.4.7: 0 differences, 0 undecided"])


@pytest.mark.parametrize(
    ("was", "now", "line"),
    [
        (None, "error GROUP_IS_SHY 137", "error GROUP_IS_SHY is new: 137"),
        ("error NONE 0", None, "error NONE is gone; here 0"),
        ("api Heartbeat 12 0-4", "api Heartbeat 12 0-5", "api Heartbeat is 12 0-5; here 12 0-4"),
        (None, "api Mood 95 0-0", "api Mood is new: 95 0-0"),
        ("feature group.version 0-1", "feature group.version 0-2",
         "feature group.version is 0-2; here 0-1"),
        ("topic retention.ms LONG[-1,] =604800000", "topic retention.ms LONG[-1,] =1",
         "topic retention.ms is LONG[-1,] =1; here LONG[-1,] =604800000"),
        (None, "group mood.ms INT[0,] =0", "group mood.ms is new: INT[0,] =0"),
        (None, "broker mood.ms INT[0,] =0", "broker mood.ms is new: INT[0,]"),
        ("broker num.partitions INT[1,]", "broker num.partitions INT[0,]",
         "broker num.partitions is INT[0,]; here INT[1,]"),
        ("broker num.partitions INT[1,]", "broker num.partitions LONG[1,]",
         "broker num.partitions is LONG[1,]; here INT[1,]"),
    ],
)  # fmt: skip
def test_each_kind_of_difference_is_named_and_a_line_decides_it(compared, made_up, was, now, line):
    made_up.change(was, now)
    assert compared(made_up) == (
        1, [f"undecided: {line}", "Kafka 4.4.7: 1 differences, 1 undecided"]
    )  # fmt: skip
    kind, name, *_ = line.split()
    made_up.decisions.write_text(f"# a comment\n\n{kind} {name[:-2]}* nobody needs it\n")
    assert compared(made_up) == (
        0,
        [f"{kind} {name[:-2]}* (1): nobody needs it", "Kafka 4.4.7: 1 differences, 0 undecided"],
    )


def test_a_broker_setting_with_narrower_bounds_or_another_kind_of_text_is_known(compared, made_up):
    made_up.change("broker num.partitions INT[1,]", "broker num.partitions INT[2,9]")
    made_up.change("broker log.dirs STRING", "broker log.dirs LIST")
    assert compared(made_up)[0] == 0


def test_a_field_and_a_message_that_are_new_are_named(compared, made_up):
    made_up.messages["HeartbeatRequest"].append(NEW_FIELD)
    made_up.messages |= {"MoodRequest": [NEW_FIELD], "MoodResponse": [NEW_FIELD]}
    status, lines = compared(made_up)
    assert status == 1
    assert lines == [
        "undecided: message Heartbeat.request.mood is not in the table",
        "undecided: message Mood is not in the table",
        "Kafka 4.4.7: 2 differences, 2 undecided",
    ]


def test_of_one_jar_only_messages_are_compared(compared, made_up):
    made_up.facts.append("error GROUP_IS_SHY 137")
    made_up.messages["HeartbeatResponse"].append(NEW_FIELD)
    made_up.decisions.write_text("error GROUP_* nobody needs it\n")
    jar = made_up.write().folder / "made-up.jar"
    assert compared(made_up, source=jar) == (
        1,
        [
            "undecided: message Heartbeat.response.mood is not in the table",
            "Kafka 4.4.7: 1 differences, of messages alone, 1 undecided",
        ],
    )


def test_a_release_without_a_row_is_compared_with_the_newest_one(compared, made_up):
    assert compared(made_up, "4.9.0") == (
        1,
        [
            "undecided: release 4.9 has no row in RELEASES",
            "Kafka 4.9.0: 1 differences, 1 undecided",
        ],
    )


def test_a_decision_that_matches_nothing_is_named(compared, made_up):
    made_up.decisions.write_text("api Mood nobody is in one\n")
    line = f"{made_up.decisions}:1: matches nothing in Kafka 4.4.7"
    assert compared(made_up) == (0, [line, "Kafka 4.4.7: 0 differences, 0 undecided"])


def test_a_decision_has_a_reason(compared, made_up):
    made_up.decisions.write_text("api Mood\n")
    with pytest.raises(SystemExit, match=r"decisions\.txt:1: a decision is KIND NAME REASON"):
        compared(made_up)
