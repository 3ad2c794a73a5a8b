"""The recorder of incidents: a broker, its clients, and the written truth.

The truth is what this program did and what Kafka's own tools and logs reported, with the ms of the
clock. Nothing in it comes from coterie.
"""

import gzip
import json
import re
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from time import monotonic, sleep

from recorders.members import Member, now_ms
from support.broker.kafka_broker import running_broker

TOPIC = "__consumer_offsets"
HOME = "/kafka"
GROUP_APIS = (
    *("JOIN_GROUP", "SYNC_GROUP", "HEARTBEAT", "LEAVE_GROUP", "FIND_COORDINATOR"),
    *("OFFSET_COMMIT", "OFFSET_FETCH", "OFFSET_DELETE", "TXN_OFFSET_COMMIT", "DELETE_GROUPS"),
    *("CREATE_TOPICS", "DELETE_TOPICS", "DELETE_RECORDS", "CREATE_PARTITIONS"),
    *("INIT_PRODUCER_ID", "ADD_OFFSETS_TO_TXN", "END_TXN"),
)
API_NAME = re.compile(r'"requestApiKeyName":"(\w+)"')
LINE_TIME = "%Y-%m-%d %H:%M:%S,%f"
CLEANED = re.compile(
    rf"^\[([^\]]+)\].*Building offset map for log {TOPIC}-(\d+) "
    r"for \d+ segments in offset range \[(\d+), (\d+)\)"
)
SETTINGS = """\
group.min.session.timeout.ms=1000
log.cleaner.threads=1
log.cleaner.dedupe.buffer.size=4194304
log.cleaner.backoff.ms=100
log.cleaner.min.cleanable.ratio=1.0
transaction.abort.timed.out.transaction.cleanup.interval.ms=500
"""


def put(path, data):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def packed(path, data):
    put(path, gzip.compress(data, mtime=0))


def file_of(path):
    """The partition and the base offset of a segment."""
    return int(path.parent.name.rpartition("-")[2]), int(path.name.partition(".")[0])


class Recording:
    """An incident that is being recorded into a folder."""

    def __init__(self, name, folder, broker, kind=Member, address=None):
        import kafka

        self.address = address or broker.address
        self.name, self.folder, self.broker, self.kind = name, folder, broker, kind
        self.events, self.samples, self.members = [], [], []
        self.findings = []  # what went wrong, for the questions that should find it
        self._on_close = []
        self.more = {}  # further parts of the truth, by name
        self.whole = {}  # (partition, base offset) -> bytes, as they were before any cleaning
        self.admin = kafka.KafkaAdminClient(bootstrap_servers=self.address.split(","))
        self.producer = kafka.KafkaProducer(bootstrap_servers=self.address.split(","))

    # ---- actions, which are recorded ----------------------------------------------------------

    def note(self, what, **details):
        event = {"at_ms": now_ms(), "what": what, **details}
        self.events.append(event)
        return event

    def finding(self, kind, group, **details):
        """Record what went wrong, from what the clients and Kafka's tools reported."""
        self.findings.append({"kind": kind, "group": group, **details})

    def topics(self, **partitions):
        from kafka.admin import NewTopic

        self.admin.create_topics([NewTopic(name, n, 1) for name, n in partitions.items()])
        self.note("topics created", topics=partitions)

    def produce(self, **counts):
        """Write so many records to each partition: ``orders=[10, 20]``."""
        for topic, numbers in counts.items():
            for partition, number in enumerate(numbers):
                for _ in range(number):
                    self.producer.send(topic, b"x", partition=partition)
        self.producer.flush()
        self.note("produced", records=counts)

    def member(self, name, group, topics, **options):
        """Start a consumer, and return it after its first assignment."""
        member = self.start(name, group, topics, **options)
        member.await_("assigned")
        return member

    def start(self, name, group, topics, **options):
        self.note("process started", member=name, group=group)
        member = self.kind(self.address, name, group, topics, **options)
        self.members.append(member)
        return member

    def leave(self, member):
        member.leave()
        return self.note("process closed in order", member=member.name, group=member.what["group"])

    def kill(self, member):
        member.kill()
        return self.note("process killed", member=member.name, group=member.what["group"])

    def groups_tool(self, *arguments):
        """Run kafka-consumer-groups, and record its arguments and output."""
        since_ms = now_ms()
        output = self.broker.groups_tool(*arguments)
        self.note("kafka-consumer-groups", since_ms=since_ms, arguments=arguments, told=output)
        return output

    def topics_tool(self, *arguments):
        """Run kafka-topics, and record its arguments and output."""
        since_ms = now_ms()
        output = self.broker.tool("TopicCommand", *arguments)
        self.note("kafka-topics", since_ms=since_ms, arguments=arguments, told=output)
        return output

    def timed(self, action, *arguments):
        """Do something; return its result, and the times before and after it."""
        since_ms = now_ms()
        return action(*arguments), [since_ms, now_ms()]

    def running(self):
        return [member for member in self.members if member.process.poll() is None]

    def quiet(self, order="quiet"):
        for member in self.running():
            member.order(order, order)

    # ---- the output of Kafka's tools -----------------------------------------------------------

    def sample(self, label):
        """Record end offsets and lags by Kafka's tools while there are no commits and writes."""
        self.quiet()
        since_ms = now_ms()
        with ThreadPoolExecutor(2) as both:
            ends = both.submit(self.broker.end_offsets_tool, "--exclude-internal-topics")
            described = both.submit(
                self.broker.groups_tool, "--describe", "--all-groups", "--offsets"
            )
        sample = {"label": label, "at_ms": since_ms, "until_ms": now_ms()}
        sample["end_offsets"] = [line.split(":") for line in ends.result().split()]
        sample["end_offsets"] = [[t, int(p), int(at)] for t, p, at in sample["end_offsets"]]
        sample["described"] = list(rows_of(described.result()))
        self.samples.append(sample)
        self.quiet("go on")

    # ---- the log --------------------------------------------------------------------------

    def segments(self, ending=".log"):
        found = self.broker.logs.glob(f"{TOPIC}-*/*{ending}")
        return sorted(found, key=file_of)

    def copy(self, into, *also, pack=False):
        """Copy the segments of the running broker, compressed if ``pack``.

        The folder ``also`` gets the segments that the cleaner has just replaced, too.
        """
        self.note("copied", into=into)
        for path in self.segments():
            for folder in (into, *also):
                to = self.folder / folder / path.parent.name / path.name
                if pack:
                    packed(to.with_name(to.name + ".gz"), path.read_bytes())
                else:
                    put(to, path.read_bytes())
        for folder in also:
            for path in self.segments(".log.deleted"):
                put(self.folder / folder / path.parent.name / path.name, path.read_bytes())

    def cleaned_to(self):
        """Where the next cleaning of each partition begins, by the cleaner's checkpoint."""
        file = self.broker.logs / "cleaner-offset-checkpoint"
        lines = file.read_text().splitlines()[2:] if file.exists() else []
        entries = [line.split() for line in lines]
        return {int(number): int(at) for topic, number, at in entries if topic == TOPIC}

    def record_uncleaned(self, paths):
        """Record those segments that have not been cleaned."""
        cleaned_to = self.cleaned_to()
        for path in paths:
            partition, base = file_of(path)
            if base >= cleaned_to.get(partition, 0):
                self.whole[partition, base] = path.read_bytes()

    def clean(self, held=False):
        """Run the cleaner once on each partition that it can clean.

        It has finished at the active segments. If an open transaction blocks it (``held``), it has
        finished after ten seconds without progress.
        """
        self.quiet()
        self.record_uncleaned(self.segments())
        active = dict(map(file_of, self.segments()))
        self._set_ratio("0.01")
        reached, since_s = self.cleaned_to(), monotonic()
        while any(base != reached.get(partition, 0) for partition, base in active.items()):
            if held and monotonic() > since_s + 10:
                break
            sleep(0.05)
            before, reached = reached, self.cleaned_to()
            since_s = since_s if before == reached else monotonic()
        self._set_ratio("1.0")
        assert active == dict(map(file_of, self.segments())), "a segment was rolled meanwhile"
        self.note("cleaned", to=reached)
        self.quiet("go on")

    def _set_ratio(self, ratio):
        from kafka.admin import ConfigResource

        change = {"min.cleanable.dirty.ratio": ratio}
        self.admin.alter_configs([ConfigResource("topic", TOPIC, change)])

    def write_whole(self):
        """Write the log without any cleaning, up to the last copy."""
        copied = sorted((self.folder / "compacted").glob("*/*.log"), key=file_of)
        self.record_uncleaned(copied)
        for (partition, base), data in self.whole.items():
            to = self.folder / "whole" / f"{TOPIC}-{partition}" / f"{base:020}.log.gz"
            packed(to, data)

    # ---- the recording -------------------------------------------------------------

    def on_close(self, action):
        self._on_close.append(action)

    def close(self):
        for action in self._on_close:
            action()
        for member in self.running():
            member.kill()
        self.producer.close()
        self.admin.close()

    def write(self, text):
        """Write the broker's logs, the truth and a README."""
        lines = self.write_server_log(self.broker, "server.log.gz")
        self._write_requests()
        truth = {
            "incident": self.name,
            "kafka": self.broker.version,
            "settings": self.broker.overrides,
            "events": self.events,
            "samples": self.samples,
            "cleanings": [cleaning_of(found) for found in map(CLEANED.search, lines) if found],
            "members": [
                {**member.what, "seen": [e for e in member.seen if e["event"] != "committed"]}
                for member in self.members
            ],
            **({"findings": self.findings} if self.findings else {}),
            **self.more,
        }
        write_lines(self.folder / "truth.json", truth, str(self.broker.folder))
        commits = [
            {"group": member.what["group"], "member": member.name, **event}
            for member in self.members
            for event in member.seen
            if event["event"] == "committed"
        ]
        commits.sort(key=lambda commit: commit["at_ms"])
        packed(self.folder / "commits.jsonl.gz", b"".join(map(line_of, commits)))
        (self.folder / "README.md").write_text(text)

    def write_server_log(self, broker, name):
        """Write the log of a broker, without the dumps of its settings; return its lines."""
        text = (broker.folder / "server.log").read_text().replace(str(broker.folder), HOME)
        lines = [line for line in text.splitlines(keepends=True) if line.startswith("[")]
        packed(self.folder / name, "".join(lines).encode())
        return lines

    def _write_requests(self):
        with open(self.broker.folder / "kafka-request.log") as lines:
            named = ((API_NAME.search(line), line) for line in lines)
            text = "".join(line for name, line in named if name and name[1] in GROUP_APIS)
        if text:
            packed(self.folder / "kafka-request.log.gz", text.encode())


def rows_of(described):
    """Yield group, topic, partition, offset, end and lag of each line; None for -."""
    for line in described.splitlines():
        words = line.split()
        if len(words) < 6 or not words[2].isdigit():
            continue
        yield [*words[:2], *(None if word == "-" else int(word) for word in words[2:6])]


def cleaning_of(found):
    at = datetime.strptime(found[1], LINE_TIME).replace(tzinfo=UTC)
    at_ms = round(at.timestamp() * 1000)
    return {
        "at_ms": at_ms,
        "partition": int(found[2]),
        "from": int(found[3]),
        "to": int(found[4]),
    }


def line_of(row):
    return json.dumps(row).encode() + b"\n"


def write_lines(path, truth, home):
    """Write JSON with a line for each entry of a list, so that it is easy to read and compare.

    The folder ``home`` of the broker gets the name that all recordings have.
    """
    parts = []
    for name, found in truth.items():
        if isinstance(found, list):
            rows = ",\n".join("  " + json.dumps(row) for row in found)
            parts.append(f' "{name}": [\n{rows}\n ]')
        else:
            parts.append(f' "{name}": {json.dumps(found)}')
    text = "{\n" + ",\n".join(parts) + "\n}\n"
    path.write_text(text.replace(home, HOME))


def record(incident, name, folder, scratch, *, settings="", kind=Member, **options):
    """Record one incident, a function whose docstring describes it, into a folder.

    ``kind`` is the class of its clients, ``options`` are those of the broker.
    """
    options = {"settings": SETTINGS + settings, "request_log": True, **options}
    with running_broker(scratch, **options) as broker:
        run = Recording(name, folder, broker, kind)
        try:
            incident(run)
            run.write(page_of(incident, name, broker.version))
        finally:
            run.close()


def page_of(incident, name, version):
    text = incident.__doc__.replace("\n    ", "\n").strip()
    made = f"Made by `tools/recorders/record_incidents.py {name}` with Kafka {version}."
    return f"# {name}\n\n{text}\n\n{made}\n"
