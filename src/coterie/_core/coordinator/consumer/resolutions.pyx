"""Regular expressions of a group: when they are resolved, and the records of the result.

Source: GroupMetadataManager.java (maybeUpdateRegularExpressions).
"""
from libc.stdint cimport int64_t

from coterie._core.coordinator.codes cimport INVALID_REGULAR_EXPRESSION
from coterie._core.coordinator.consumer.group cimport (
    KAFKA_4_1_2, REGEX, ConsumerGroup, epoch_record, new_record, tombstone)
from coterie._core.coordinator.consumer.protocol cimport REFRESH_MS, ConsumerProtocol
from coterie._core.coordinator.consumer.values cimport (
    MemberFields, Resolved, add_count, utf16_sorted)
from coterie._core.coordinator.consumer.writes cimport write_records
from coterie._core.coordinator.runtime cimport CONSUMER, Group

from coterie._core.coordinator.consumer.regexes import compile_regex, matching

cdef enum:
    REGEX_PAUSE_MS = 10000         # between two resolutions


cdef bint regex_step(ConsumerProtocol protocol, ConsumerGroup group, MemberFields had,
                     MemberFields fields, list records) except -1:
    """Resolve expressions where that is due; whether the group's epoch has to rise."""
    cdef bint bump = False, refresh = False
    cdef dict regexes = group.regex_count
    cdef Resolved last = None
    cdef int64_t now_ms = protocol.runtime.wheel.clock_ms
    if (had.regex or "") != (fields.regex or ""):
        regexes = dict(regexes)
        if had.regex and regexes.get(had.regex) is not None:
            if regexes[had.regex] == 1:
                records.append(tombstone(REGEX, had.regex))
            add_count(regexes, had.regex, -1)
        if had.regex and not fields.regex and protocol.revision >= KAFKA_4_1_2:
            bump = True
        if fields.regex:
            if fields.regex in regexes:
                bump = fields.regex in group.resolved
            elif not compile_regex(fields.regex):
                protocol.error = INVALID_REGULAR_EXPRESSION
                return False
            else:
                refresh = True
            regexes[fields.regex] = regexes.get(fields.regex, 0) + 1
    if (not refresh and not group.regex_count) or group.group_id in protocol.resolving:
        return bump
    for resolved in group.resolved.values():
        last = <Resolved>resolved
        break
    if last is not None and now_ms <= last.at_ms + REGEX_PAUSE_MS:
        return bump
    if (len(regexes) != len(group.resolved)
            or (0 if last is None else last.version) < protocol.image.version_with_new_topics
            or (last is not None and now_ms > last.at_ms + protocol.regex_interval_ms)):
        refresh = True
    if refresh and regexes:
        start_resolution(protocol, group.group_id, regexes)
    return bump


cdef int start_resolution(ConsumerProtocol protocol, str group_id, object regexes) except -1:
    protocol.resolving.add(group_id)
    protocol.tasks.append((group_id, tuple(regexes)))


cdef int run_tasks(ConsumerProtocol protocol) except -1:
    """Run the resolutions that were started; each writes by itself."""
    cdef list tasks = protocol.tasks
    protocol.tasks = []
    for group_id, regexes in tasks:
        finish_resolution(protocol, group_id, matching(regexes, protocol.image.topics))


cdef int finish_resolution(ConsumerProtocol protocol, str group_id, dict found) except -1:
    cdef Group known = protocol.runtime.find(group_id)
    cdef ConsumerGroup group
    cdef Resolved resolved, had
    cdef bint bump = False
    cdef list records = []
    cdef dict after
    cdef int64_t digest
    protocol.resolving.discard(group_id)
    if known is None or known.group_type != CONSUMER:
        return 0
    group = <ConsumerGroup>known
    after = dict(group.topic_count)
    for regex in utf16_sorted(found):
        if regex not in group.regex_count:
            continue
        had = group.resolved.get(regex)
        resolved = Resolved.__new__(Resolved)
        resolved.topics = frozenset(found[regex])
        resolved.version = protocol.image.version
        resolved.at_ms = protocol.runtime.wheel.clock_ms
        if (frozenset() if had is None else had.topics) != resolved.topics:
            bump = True
        for name in () if had is None else had.topics:
            add_count(after, name, -1)
        for name in resolved.topics:
            after[name] = after.get(name, 0) + 1
        records.append(new_record(REGEX, regex, resolved))
    digest = protocol.image.hash_of(after)
    if bump or digest != group.metadata_hash:
        records.append(epoch_record(group.epoch + 1, digest))
        protocol.set_refresh(group, protocol.runtime.wheel.clock_ms + REFRESH_MS, group.epoch + 1)
    if records:
        write_records(protocol, group_id, records)
