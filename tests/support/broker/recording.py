"""What every recorded incident shares: a broker, its clients, and the truth written meanwhile.

The truth is what this program did and what Kafka's own tools and logs said, at which ms of the
clock; nothing in it comes from coterie.
"""

import gzip
import json
import re
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone
from time import monotonic, sleep

from support.broker.kafka_broker import running_broker
from support.broker.members import Member, now_ms

TOPIC = "__consumer_offsets"
GROUP_APIS = (
    *("JOIN_GROUP", "SYNC_GROUP", "HEARTBEAT", "LEAVE_GROUP", "FIND_COORDINATOR"),
    *("OFFSET_COMMIT", "OFFSET_FETCH", "OFFSET_DELETE", "TXN_OFFSET_COMMIT", "DELETE_GROUPS"),
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

    def __init__(self, name, folder, broker):
        import kafka

        self.name, self.folder, self.broker = name, folder, broker
        self.events, self.samples, self.members = [], [], []
        self.whole = {}  # (partition, base offset) -> bytes, as they were before any cleaning
        self.admin = kafka.KafkaAdminClient(bootstrap_servers=broker.address)
        self.producer = kafka.KafkaProducer(bootstrap_servers=broker.address)

    # ---- what is done, and noted ----------------------------------------------------------

    def note(self, what, **details):
        self.events.append({"at_ms": now_ms(), "what": what, **details})

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
        """Start a consumer, and return it when partitions (or none) were given to it."""
        found = self.start(name, group, topics, **options)
        found.await_("assigned")
        return found

    def start(self, name, group, topics, **options):
        self.note("process started", member=name, group=group)
        found = Member(self.broker.address, name, group, topics, **options)
        self.members.append(found)
        return found

    def leave(self, member):
        member.leave()
        self.note("process closed in order", member=member.name, group=member.what["group"])

    def kill(self, member):
        member.kill()
        self.note("process killed", member=member.name, group=member.what["group"])

    def groups_tool(self, *arguments):
        """Run kafka-consumer-groups and keep what it was asked and what it said."""
        since_ms = now_ms()
        told = self.broker.groups_tool(*arguments)
        self.note("kafka-consumer-groups", since_ms=since_ms, arguments=arguments, told=told)
        return told

    def running(self):
        return [one for one in self.members if one.process.poll() is None]

    def quiet(self, order="quiet"):
        for member in self.running():
            member.order(order, order)

    # ---- what Kafka's tools say -----------------------------------------------------------

    def sample(self, label):
        """Ask the tools for end offsets and lags, while nobody commits and nothing is written."""
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

    def copy(self, into, *also):
        """Copy the segments as they lie there, the broker running.

        ``also`` is a folder that gets those too that the cleaner has replaced a moment ago.
        """
        self.note("copied", into=into)
        for path in self.segments():
            for folder in (into, *also):
                put(self.folder / folder / path.parent.name / path.name, path.read_bytes())
        for folder in also:
            for path in self.segments(".log.deleted"):
                put(self.folder / folder / path.parent.name / path.name, path.read_bytes())

    def cleaned_to(self):
        """Where the next cleaning of each partition begins, as the cleaner's file says."""
        file = self.broker.logs / "cleaner-offset-checkpoint"
        lines = file.read_text().splitlines()[2:] if file.exists() else []
        entries = [line.split() for line in lines]
        return {int(number): int(at) for topic, number, at in entries if topic == TOPIC}

    def keep_uncleaned(self, paths):
        """Keep the segments that no cleaning has touched, among those given."""
        cleaned_to = self.cleaned_to()
        for path in paths:
            partition, base = file_of(path)
            if base >= cleaned_to.get(partition, 0):
                self.whole[partition, base] = path.read_bytes()

    def clean(self, held=False):
        """Let the cleaner work once on each partition that has something to clean.

        It has worked when it has come to the active segments; where it is ``held`` up by a
        transaction that is open, when it has come no further for ten seconds.
        """
        self.quiet()
        self.keep_uncleaned(self.segments())
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
        """Write the log as it would be had no cleaner run, up to the copy made last."""
        copied = sorted((self.folder / "compacted").glob("*/*.log"), key=file_of)
        self.keep_uncleaned(copied)
        for (partition, base), data in self.whole.items():
            to = self.folder / "whole" / f"{TOPIC}-{partition}" / f"{base:020}.log.gz"
            packed(to, data)

    # ---- what is written down -------------------------------------------------------------

    def close(self):
        for member in self.running():
            member.kill()
        self.producer.close()
        self.admin.close()

    def write(self, text):
        """Write the broker's logs, the truth and a page on how it was made."""
        told = self.broker.folder / "server.log"
        lines = told.read_text().splitlines(keepends=True)
        lines = [line for line in lines if line.startswith("[")]  # without the settings' dumps
        packed(self.folder / "server.log.gz", "".join(lines).encode())
        self._write_requests()
        truth = {
            "incident": self.name,
            "kafka": self.broker.version,
            "settings": self.broker.told,
            "events": self.events,
            "samples": self.samples,
            "cleanings": [cleaning_of(found) for found in map(CLEANED.search, lines) if found],
            "members": [
                {**one.what, "seen": [told for told in one.seen if told["event"] != "committed"]}
                for one in self.members
            ],
        }
        write_lines(self.folder / "truth.json", truth)
        commits = [
            {"group": one.what["group"], "member": one.name, **told}
            for one in self.members
            for told in one.seen
            if told["event"] == "committed"
        ]
        commits.sort(key=lambda told: told["at_ms"])
        packed(self.folder / "commits.jsonl.gz", b"".join(map(line_of, commits)))
        (self.folder / "README.md").write_text(text)

    def _write_requests(self):
        with open(self.broker.folder / "kafka-request.log") as lines:
            named = ((API_NAME.search(line), line) for line in lines)
            kept = "".join(line for name, line in named if name and name[1] in GROUP_APIS)
        if kept:
            packed(self.folder / "kafka-request.log.gz", kept.encode())


def rows_of(described):
    """Yield group, topic, partition, offset, end and lag of each line; None where it says -."""
    for line in described.splitlines():
        words = line.split()
        if len(words) < 6 or not words[2].isdigit():
            continue
        yield [*words[:2], *(None if word == "-" else int(word) for word in words[2:6])]


def cleaning_of(found):
    at = datetime.strptime(found[1], LINE_TIME).replace(tzinfo=timezone.utc)
    at_ms = round(at.timestamp() * 1000)
    return {
        "at_ms": at_ms,
        "partition": int(found[2]),
        "from": int(found[3]),
        "to": int(found[4]),
    }


def line_of(told):
    return json.dumps(told).encode() + b"\n"


def write_lines(path, truth):
    """JSON with a line for each entry of a list, so that it can be read and compared."""
    parts = []
    for name, found in truth.items():
        if isinstance(found, list):
            rows = ",\n".join("  " + json.dumps(row) for row in found)
            parts.append(f' "{name}": [\n{rows}\n ]')
        else:
            parts.append(f' "{name}": {json.dumps(found)}')
    path.write_text("{\n" + ",\n".join(parts) + "\n}\n")


def record(incident, folder, scratch, settings="", request_log=True):
    """Record one incident, a function whose docstring tells what is done, into a folder."""
    name = incident.__name__.replace("_", "-")
    options = {"settings": SETTINGS + settings, "request_log": request_log}
    with running_broker(scratch, **options) as broker:
        run = Recording(name, folder, broker)
        try:
            incident(run)
            run.write(page_of(incident, broker.version))
        finally:
            run.close()


def page_of(incident, version):
    name = incident.__name__.replace("_", "-")
    text = incident.__doc__.replace("\n    ", "\n").strip()
    made = f"Made by `tests/support/broker/record_incidents.py {name}` with Kafka {version}."
    return f"# {name}\n\n{text}\n\n{made}\n"
