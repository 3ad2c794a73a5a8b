"""From bytes to plain values by a layout: dicts, lists, str, bytes, numbers.

Safe on any bytes: a length is compared with what is left before anything is reserved, a list grows
as its elements come, and the depth is that of the table. What does not parse is a
``WireError`` of a frame, a ``CorruptData`` of a record.
Rules of lengths, nulls and tags as in Kafka's generated readers (MessageDataGenerator, ByteUtils).
"""
