"""Record what Kafka's own assignors assign: ``tests/golden/assignors``.

    PYTHONPATH=tests python -m support.clients.record_assignors SEED CHAINS [racks]

A chain is a group whose members come, go and change their subscriptions, while topics change, too.
Members claim what Kafka's assignor gave them; some claim what they had long ago, or what they never
had. All versions of Kafka must give the same results. With ``racks``, members and replicas have
racks, and ``racks.jsonl.gz`` is written.
"""

import gzip
import json
import random
import subprocess
import sys
import uuid
from pathlib import Path

from coterie.base.consumer_protocol import read_assignment, subscription
from support.clients.java_clients import java

VERSIONS = ("4.1.1", "3.9.1")
STICKY = ("sticky", "cooperative-sticky")
ASSIGNORS = ("range", "roundrobin", *STICKY, *STICKY)
GOLDEN = Path(__file__).parents[2] / "golden" / "assignors"
NAMES = [
    "orders",
    "payments",
    "a",
    "b",
    "AaAa",
    "BBBB",
    "AaBB",
    "t-1",
    "t-2",
    "été",
    "\uff5e",
    "😀",
]


class Kafka:
    """The program of every version; it must answer alike."""

    def __init__(self):
        self.programs = [
            subprocess.Popen(
                java(version, "Assignors"),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                encoding="utf-8",
            )
            for version in VERSIONS
        ]

    def assign(self, question):
        answers = []
        for program in self.programs:
            program.stdin.write(json.dumps(question) + "\n")
            program.stdin.flush()
            answers.append(json.loads(program.stdout.readline()))
        assert all(answer == answers[0] for answer in answers), (question, answers)
        return answers[0]

    def close(self):
        for program in self.programs:
            program.stdin.close()
            program.wait()


class Chain:
    """A group of one assignor: random steps, each with Kafka's answer."""

    def __init__(self, rng, kafka):
        self.rng, self.kafka = rng, kafka
        self.assignor = rng.choice(ASSIGNORS)
        self.equal = rng.random() < 0.4  # all members subscribe to the same topics
        self.most = rng.choice([3, 3, 8, 8, 30])
        self.wild = rng.random() < 0.15  # members claim what they never had
        self.names = rng.sample(NAMES, rng.randint(1, 8))
        self.counts = {name: self.count() for name in self.names if rng.random() < 0.95}
        self.generation = rng.randint(1, 5)
        self.members, self.gone = {}, {}
        for _ in range(rng.randint(1, self.most)):
            self.join()

    def count(self):
        return self.rng.choice([1, 2, 3, 4, 5, 6, 7, 9, 12, self.rng.randint(1, 60)])

    def some_topics(self):
        if self.equal:
            return list(self.names)
        return self.rng.sample(
            self.names, self.rng.randint(self.rng.random() > 0.1, len(self.names))
        )

    def rack(self):
        return None

    def racks(self):
        return {}

    def join(self):
        client = self.rng.choice(["consumer-g-1", "app", "ä", "c", "\uff5e", "😀"])
        name = f"{client}-{uuid.UUID(int=self.rng.getrandbits(128))}"
        instance = f"i{len(self.members)}" if self.rng.random() < 0.2 else None
        self.members[name] = {
            "instance": instance,
            "version": self.rng.choice([3, 3, 3, 3, 2, 1, 0]),
            "topics": self.some_topics(),
            "owned": {},
            "generation": -1,
            "user_data": None,
            "rack": self.rack(),
        }

    def change(self):
        """Let one to three things happen before the next rebalance."""
        for _ in range(self.rng.randint(1, 3)):
            what = self.rng.random()
            if what < 0.3 and len(self.members) < self.most:
                self.join()
            elif what < 0.55 and len(self.members) > 1:
                name = self.rng.choice(list(self.members))
                self.gone[name] = self.members.pop(name)
            elif what < 0.65 and self.gone:
                name = self.rng.choice(list(self.gone))
                self.members[name] = self.gone.pop(name)
            elif what < 0.8:
                self.rng.choice(list(self.members.values()))["topics"] = self.some_topics()
            elif what < 0.9:
                name = self.rng.choice(self.names)
                self.counts[name] = self.counts.get(name, 0) + self.rng.randint(1, 4)
            elif what < 0.94:
                self.counts.pop(self.rng.choice(self.names), None)
            elif what < 0.95:
                self.counts[self.rng.choice(self.names)] = 1
            elif self.wild:
                member = self.rng.choice(list(self.members.values()))
                member["owned"] = {
                    topic: list(range(self.rng.randint(1, 6))) for topic in self.some_topics()
                }
                member["generation"] = self.rng.choice([-1, self.generation, self.generation - 1])
                member["user_data"] = self.rng.choice(
                    [
                        None,
                        "",
                        "00",
                        "00000001",
                        "ffffffff",
                        *[each["user_data"] for each in self.members.values()],
                    ]
                )

    def step(self, first):
        """Rebalance: return the question with Kafka's answer."""
        self.generation += self.rng.choice([1, 1, 1, 2])
        order = list(self.members)
        self.rng.shuffle(order)
        shown = {
            name: {k: v for k, v in self.members[name].items() if v not in (None, {}, -1)}
            for name in order
        }
        step = {"generation": self.generation, "topics": dict(self.counts), "members": shown}
        step |= self.racks()
        members = [
            {
                "id": name,
                "instance": member["instance"],
                "subscription": subscription(
                    member["topics"],
                    member["version"],
                    user_data=from_hex(member["user_data"]),
                    owned=member["owned"],
                    generation_id=member["generation"],
                    rack_id=member["rack"],
                ).hex(),
            }
            for name, member in ((name, self.members[name]) for name in order)
        ]
        answer = self.kafka.assign(
            {**step, "new": first, "assignor": self.assignor, "members": members}
        )
        if "error" in answer:
            return {**step, **answer}
        step["assigned"] = {
            name: read_assignment(bytes.fromhex(data))
            for name, data in answer["assignments"].items()
        }
        for name, data in answer["user_data"].items():
            member = self.members[name]
            member["user_data"], member["generation"] = data, self.generation
            if self.assignor == "cooperative-sticky":
                member["owned"] = step["assigned"][name]
        return {**step, "user_data": answer["user_data"]}


class RackChain(Chain):
    """A group whose members and replicas have racks."""

    def __init__(self, rng, kafka):
        self.known = rng.sample(["r1", "r2", "r3", "r4"], rng.randint(1, 4))
        self.with_racks = rng.choice([0.3, 0.8, 1, 1])
        self.replicas = rng.randint(1, 3)
        self.of_topics = {}
        super().__init__(rng, kafka)

    def rack(self):
        return self.rng.choice(self.known) if self.rng.random() < self.with_racks else None

    def racks(self):
        for topic, count in self.counts.items():
            known = self.of_topics.setdefault(topic, [])
            while len(known) < count:
                size = min(self.replicas, len(self.known))
                known.append(sorted(self.rng.sample(self.known, size)))
        return {"racks": {topic: list(self.of_topics[topic]) for topic in self.counts}}


def from_hex(text):
    return None if text is None else bytes.fromhex(text)


def main(seed, chains, racks=""):
    kafka = Kafka()
    lines = []
    for number in range(int(chains)):
        rng = random.Random(f"{seed}-{number}")
        chain = (RackChain if racks else Chain)(rng, kafka)
        steps = []
        for place in range(rng.randint(2, 9)):
            if place:
                chain.change()
            steps.append(chain.step(first=not place))
            if "error" in steps[-1]:
                break
        lines.append(json.dumps({"assignor": chain.assignor, "steps": steps}, ensure_ascii=False))
    kafka.close()
    file = GOLDEN / ("racks.jsonl.gz" if racks else "chains.jsonl.gz")
    file.write_bytes(gzip.compress("\n".join(lines).encode() + b"\n", 9, mtime=0))


if __name__ == "__main__":
    main(*sys.argv[1:])
