from collections.abc import Sequence

def consumer_topics(subscriptions: Sequence[bytes], protocol: str | None) -> frozenset[str] | None:
    """Return the topics that a group of protocol type ``consumer`` subscribes to.

    Each subscription is read as an int16 version and the layout of version 0, whatever the
    version. No members give the empty set. None means unknown topics: no protocol is selected, or
    a subscription cannot be read. If Kafka's reader throws anything but a SchemaException, its load
    stops; here the topics are unknown.

    Source: GroupMetadata.computeSubscribedTopics.
    """
