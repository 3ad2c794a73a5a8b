"""The metadata image that a coordinator assigns by: topics, brokers, and hashes of both.

A group's metadata hash is computed of the hashes of its topics, which are cached as Kafka caches
them: until the topic changes, or no group subscribes to it. So a change of racks alone is not
noticed. Knows no group.
Source: org.apache.kafka.coordinator.group.Utils (computeTopicHash, computeGroupHash).
"""
cimport cython
from libc.stdint cimport int64_t

from coterie._core.coordinator.consumer.values cimport Names, TopicId, no_names, utf16_sorted

import struct


cdef object text_and_length(str text):
    raw = text.encode("utf-16-le", "surrogatepass")
    return raw + struct.pack("<i", len(raw) // 2)


@cython.final
cdef class MetadataImage:
    """Topics by name and by id; brokers and their racks."""

    def __cinit__(self):
        self.topics = {}
        self.ids = {}
        self.racks = {}
        self.hashes = {}
        self.names = {(): no_names()}
        self.version = 0           # the first update makes it 1

    cdef TopicId topic_id(self, bytes raw):
        """The one object of an id, whether there is such a topic or not."""
        topic = self.ids.get(raw)
        if topic is None:
            topic = self.ids[raw] = TopicId(raw)
        return <TopicId>topic

    cdef Names names_of(self, tuple texts):
        """The one object of a set of names, in whatever order and however often they come."""
        names = self.names.get(texts)
        if names is None:
            ordered = utf16_sorted(set(texts))
            names = self.names.get(ordered)
            if names is None:
                names = self.names[ordered] = Names(ordered)
            self.names[texts] = names
        return <Names>names

    cdef set update(self, object brokers, object deleted, object topics):
        """Apply a new image; names of topics that were created, deleted or grew.

        ``brokers``: (id, rack) pairs; ``deleted``: names; ``topics``: (name, id, replicas), where
        the replicas of a partition are broker ids.
        """
        cdef set changed = set()
        cdef bint created = False
        cdef TopicId topic
        for broker, rack in brokers:
            self.racks[broker] = rack
        for name in deleted:
            topic = self.topics.pop(name, None)
            if topic is not None:
                topic.name = None
                changed.add(name)
        for name, raw, replicas in topics:
            topic = self.topics.get(name)
            if topic is None or topic.raw != raw:
                if topic is not None:
                    topic.name = None
                topic = self.topics[name] = self.topic_id(raw)
                topic.name = name
                topic.replicas = []
                created = True
            topic.replicas.extend(replicas[len(topic.replicas):])
            topic.partition_count = <int>len(topic.replicas)
            changed.add(name)
        for name in changed:
            self.hashes.pop(name, None)
        self.stamp += 1
        self.version += 1
        if created:
            self.version_with_new_topics = self.version
        return changed

    cdef int forget_hash(self, str name) except -1:
        """No group subscribes to a topic any more."""
        if self.hashes.pop(name, None) is not None:
            self.stamp += 1

    cdef int forget_hashes(self) except -1:
        """The coordinator loads: nothing is cached, and all topics count as new."""
        self.hashes = {}
        self.stamp += 1
        self.version_with_new_topics = self.version

    cdef int64_t hash_of(self, object names) except? -7:
        """The metadata hash over the topics of these names that exist; 0 without any."""
        from xxhash import xxh3_64_digest, xxh3_64_intdigest

        cdef list parts = []
        for name in sorted([name for name in names if name in self.topics]):
            digest = self.hashes.get(name)
            if digest is None:
                digest = xxh3_64_digest(self.described(self.topics[name]))[::-1]  # little-endian
                self.hashes[name] = digest
            parts.append(digest)
        if not parts:
            return 0
        value = xxh3_64_intdigest(b"".join(parts))
        return <int64_t>(value - (1 << 64) if value >> 63 else value)

    cdef int64_t hash_of_names(self, Names names) except? -7:
        """The same for one set of names, computed once for each state of the image."""
        if names.hash_stamp != self.stamp:
            names.digest = self.hash_of(names.names)
            names.hash_stamp = self.stamp
        return names.digest

    cdef bytes described(self, TopicId topic):
        """What a topic's hash is computed of."""
        cdef list parts = [b"\0", topic.raw[:8][::-1], topic.raw[8:][::-1],
                           text_and_length(topic.name), struct.pack("<i", topic.partition_count)]
        for number, replicas in enumerate(topic.replicas):
            parts.append(struct.pack("<i", number))
            racks = [self.racks.get(broker) for broker in replicas]
            for rack in sorted([rack for rack in racks if rack is not None]):
                parts.append(struct.pack("<i", len(rack.encode("utf-16-le")) // 2))
                parts.append(text_and_length(rack))
        return b"".join(parts)
