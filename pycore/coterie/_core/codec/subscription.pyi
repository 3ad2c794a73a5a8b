from collections.abc import Sequence

def consumer_topics(subscriptions: Sequence[bytes], protocol: str | None) -> frozenset[str] | None:
    """Topics that a group of protocol type ``consumer`` subscribes to.

    Each subscription is read as an int16 version and the layout of version 0, whatever the
    version. No members give the empty set; None means that Kafka does not know them: no protocol
    is selected, or a subscription cannot be read (where Kafka's reader throws something other
    than a SchemaException, its load stops; here the topics are unknown).

    Source: GroupMetadata.computeSubscribedTopics.
    """
