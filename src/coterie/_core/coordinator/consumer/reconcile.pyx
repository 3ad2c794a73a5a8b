"""From a member's subscription to its assignment: fields, targets, resolved expressions, epochs.

Source: GroupMetadataManager.java, CurrentAssignmentBuilder.java, TargetAssignmentBuilder.java.
"""
from cpython.ref cimport PyObject
from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcmp

from coterie._core.coordinator.codes cimport FENCED_MEMBER_EPOCH, INVALID_REGULAR_EXPRESSION, NONE
from coterie._core.coordinator.consumer.assignors cimport (
    TopicUse, assign as assign_all, sorted_topics)
from coterie._core.coordinator.consumer.group cimport (
    ACKNOWLEDGED_EPOCH_STAYS, ASSIGNMENT_INTERVAL, CLASSIC_JOIN_ENDS_REGEX, INHERITED_TARGET_STAYS,
    LOST_REGEX_BUMPS, ONLY_SUBSCRIBED, OWN_PENDING_IS_FREE, PARTITION_EPOCHS, REGEX, STABLE_MEMBER,
    TARGET, UNRELEASED_PARTITIONS, UNREVOKED_PARTITIONS, ConsumerGroup, ConsumerMember, Current,
    epoch_record, new_current, new_record, place_of, preferred, target_epoch_record, tombstone)
from coterie._core.coordinator.consumer.group import assignment_from
from coterie._core.coordinator.consumer.protocol cimport (
    REFRESH_MS, ConsumerProtocol, Heartbeat, write_records)
from coterie._core.coordinator.consumer.values cimport (
    Assignment, ClassicPart, MemberFields, Names, Resolved, TopicId, add_count, assignment_of_refs,
    before, no_names, no_partitions, utf16_sorted)
from coterie._core.coordinator.consumer.values import compile_regex, matching
from coterie._core.coordinator.runtime cimport CONSUMER, Group


# ---- A member's new fields, and what a group reads once the member has them ----------------------
# Source: GroupMetadataManager.java (consumerGroupHeartbeat), ModernGroup.java.

cdef MemberFields updated_fields(ConsumerProtocol protocol, ConsumerMember member, Heartbeat r):
    """The member's fields with what the request names; the same object if all is as it was."""
    cdef MemberFields had = member.fields, made
    cdef Names names = had.names
    if r.names is not None:
        names = protocol.image.names_of(r.names)
    if (names is had.names and same_classic(had.classic, r.classic)
            and r.client_id == had.client_id
            and r.client_host == had.client_host
            and (r.instance_id is None or r.instance_id == had.instance_id)
            and (r.rack_id is None or r.rack_id == had.rack_id)
            and (r.assignor is None or r.assignor == had.assignor)
            and (r.regex is None or r.regex == had.regex)
            and (r.classic is None or not had.regex or not protocol.rules & CLASSIC_JOIN_ENDS_REGEX)
            and (r.rebalance_timeout_ms == -1
                 or r.rebalance_timeout_ms == had.rebalance_timeout_ms)):
        return had
    made = copied(had)
    made.classic = r.classic
    made.names = names
    made.client_id, made.client_host = r.client_id, r.client_host
    if r.instance_id is not None:
        made.instance_id = r.instance_id
    if r.rack_id is not None:
        made.rack_id = r.rack_id
    if r.assignor is not None:
        made.assignor = r.assignor
    if r.regex is not None:
        made.regex = r.regex
    elif r.classic is not None and had.regex and protocol.rules & CLASSIC_JOIN_ENDS_REGEX:
        made.regex = ""
    if r.rebalance_timeout_ms != -1:
        made.rebalance_timeout_ms = r.rebalance_timeout_ms
    return made


cdef object subscribed(ConsumerProtocol protocol, ConsumerGroup group, MemberFields fields):
    """Names of the topics that a member subscribes to, which count since 4.2; else None."""
    if not protocol.rules & ONLY_SUBSCRIBED:
        return None
    if not fields.regex or fields.regex not in group.resolved:
        return fields.names.names
    return fields.names.names | (<Resolved>group.resolved[fields.regex]).topics


cdef int64_t hash_with(ConsumerProtocol protocol, ConsumerGroup group, MemberFields had,
                       MemberFields fields, str lost_regex, bint is_new) except? -7:
    """The metadata hash over what the group reads once a member has these fields."""
    cdef set names
    cdef Resolved lost = None
    if lost_regex is not None:
        lost = group.resolved.get(lost_regex)
    if not group.resolved:
        # Often all members name the same topics, before and after.
        if not group.names_count or (len(group.names_count) == 1 and fields.names
                                     in group.names_count):
            return protocol.image.hash_of_names(fields.names)
        if (len(group.names_count) == 1 and not is_new
                and group.names_count.get(had.names) == 1):
            return protocol.image.hash_of_names(fields.names)
    names = set(group.topic_count)
    if not is_new and fields.names is not had.names and group.names_count.get(had.names) == 1:
        for name in had.names.ordered:
            if group.topic_count[name] == 1:
                names.discard(name)
    if lost is not None:
        # A topic may be counted for the member's names, for the expression, and for others.
        for name in lost.topics:
            left = group.topic_count[name] - 1
            if name not in names:
                continue
            if (not is_new and fields.names is not had.names and name in had.names.names
                    and group.names_count.get(had.names) == 1):
                left -= 1
            if left <= 0:
                names.discard(name)
    names.update(fields.names.names)
    return protocol.image.hash_of(names)


cdef bint will_be_homogeneous(ConsumerProtocol protocol, ConsumerGroup group, MemberFields had,
                              MemberFields fields, bint is_new) except -1:
    """Whether the group is, once the member has these fields."""
    cdef dict names_count, regex_count
    if fields is had and not is_new:
        return group.is_homogeneous()
    if not group.regex_count and not fields.regex:
        names_count = group.names_count
        if is_new or fields.names is had.names:
            return not names_count or (len(names_count) == 1 and fields.names in names_count)
    names_count, regex_count = dict(group.names_count), dict(group.regex_count)
    if not is_new:
        add_count(names_count, had.names, -1)
        if had.regex:
            add_count(regex_count, had.regex, -1)
    names_count[fields.names] = names_count.get(fields.names, 0) + 1
    if fields.regex:
        regex_count[fields.regex] = regex_count.get(fields.regex, 0) + 1
    if not regex_count:
        return len(names_count) == 1
    if len(regex_count) > 1 or len(names_count) > 1 or no_names() not in names_count:
        return False
    if next(iter(regex_count.values())) != len(group.members) + is_new:
        return False
    return each_once(group.resolved)


cdef MemberFields copied(MemberFields fields):
    cdef MemberFields made = MemberFields.__new__(MemberFields)
    made.instance_id, made.rack_id = fields.instance_id, fields.rack_id
    made.client_id, made.client_host = fields.client_id, fields.client_host
    made.names, made.regex, made.assignor = fields.names, fields.regex, fields.assignor
    made.rebalance_timeout_ms = fields.rebalance_timeout_ms
    made.classic = fields.classic
    return made


cdef bint same_classic(ClassicPart had, ClassicPart now) except -1:
    if had is None or now is None:
        return had is now
    return (had.session_timeout_ms == now.session_timeout_ms
            and had.protocols == now.protocols)


cdef bint each_once(dict resolved) except -1:
    """Whether no topic is matched by two expressions."""
    cdef set seen = set()
    for one in resolved.values():
        for name in (<Resolved>one).topics:
            if name in seen:
                return False
            seen.add(name)
    return True


# ---- the next assignment of a member: what it keeps, gives up, gets, and waits for ---------------
# A member gives partitions up first; it gets a partition once no member owns it. ``owned`` is what
# the member reports as owned: topic id -> partitions, None without a report. Changes nothing.
# Source: modern/consumer/CurrentAssignmentBuilder.java.

cdef bint names_any(dict owned, Assignment assignment) except -1:
    """Whether a request names any partition of an assignment; one without a list names all."""
    cdef Py_ssize_t n
    cdef int32_t at, start = 0
    cdef tuple partitions
    if owned is None:
        return True
    for n in range(assignment.topic_count):
        partitions = owned.get((<TopicId>assignment.topics[n]).raw)
        if partitions is not None:
            for at in range(start, assignment.ends[n]):
                if assignment.partitions[at] in partitions:
                    return True
        start = assignment.ends[n]
    return False


cdef bint all_within(dict owned, Assignment assignment) except -1:
    """Whether all partitions that a request names are of an assignment."""
    cdef Py_ssize_t n
    cdef TopicId topic
    for raw, partitions in owned.items():
        for n in range(assignment.topic_count):
            if (<TopicId>assignment.topics[n]).raw == raw:
                break
        else:
            if partitions:
                return False
            continue
        topic = <TopicId>assignment.topics[n]
        for partition in partitions:
            if not assignment.holds(topic, partition):
                return False
    return True


cdef enum:
    FEW = 128                      # words that the parts of most members fit in

cdef struct Parts:                 # an assignment that is being made
    PyObject** topics              # borrowed: an assignment that is walked has them
    int32_t* ends
    int32_t* partitions
    int32_t* epochs                # of each partition; NULL: none are needed
    int32_t count
    int32_t topic_count


cdef inline void begin(Parts* parts, char* memory, Py_ssize_t topics, Py_ssize_t room,
                       bint with_epochs) noexcept:
    parts.topics = <PyObject**>memory
    parts.ends = <int32_t*>(memory + topics * sizeof(PyObject*))
    parts.partitions = parts.ends + topics
    parts.epochs = parts.partitions + room if with_epochs else NULL
    parts.count = parts.topic_count = 0


cdef inline void put(Parts* parts, int32_t partition, int32_t epoch) noexcept:
    parts.partitions[parts.count] = partition
    if parts.epochs != NULL:
        parts.epochs[parts.count] = epoch
    parts.count += 1


cdef inline void close(Parts* parts, TopicId topic) noexcept:
    """The partitions of a topic are complete; one without any is left out."""
    if parts.count > (parts.ends[parts.topic_count - 1] if parts.topic_count else 0):
        parts.topics[parts.topic_count] = <PyObject*>topic
        parts.ends[parts.topic_count] = parts.count
        parts.topic_count += 1


cdef bint same(Parts* parts, Assignment other) noexcept:
    cdef Py_ssize_t n
    if parts.topic_count != other.topic_count or parts.count != other.count:
        return False
    if not parts.count:
        return True
    for n in range(parts.topic_count):
        if parts.topics[n] != <PyObject*>other.topics[n]:
            return False
    return (memcmp(parts.ends, other.ends, parts.topic_count * sizeof(int32_t)) == 0
            and memcmp(parts.partitions, other.partitions, parts.count * sizeof(int32_t)) == 0
            and (parts.epochs == NULL
                 or memcmp(parts.epochs, other.epochs, parts.count * sizeof(int32_t)) == 0))


cdef Assignment assignment(Parts* parts, Assignment assigned, Assignment target):
    """What was made; equal to what there is, it is the same object."""
    if same(parts, assigned):
        return assigned
    if parts.epochs == NULL and same(parts, target):       # a target has no epochs
        return target
    return assignment_of_refs(parts.topics, parts.topic_count, parts.ends, parts.partitions,
                              parts.epochs)


cdef Current next_current(ConsumerGroup group, ConsumerMember member, int32_t epoch,
                          int32_t target_epoch, Assignment target, dict owned,
                          object subscribed):
    cdef Assignment assigned = member.assigned, pending
    cdef Py_ssize_t topics = assigned.topic_count + target.topic_count
    cdef Py_ssize_t room = assigned.count + target.count + 1
    cdef bint with_epochs = (group.rules & PARTITION_EPOCHS) != 0
    cdef Py_ssize_t size = (topics * (sizeof(PyObject*) + sizeof(int32_t))
                            + room * (1 + with_epochs) * sizeof(int32_t) + 7) & ~7
    cdef PyObject* few[FEW]
    cdef char* memory = <char*>few
    cdef Parts keep, revoke, both
    cdef bint unreleased
    if 3 * size > <Py_ssize_t>sizeof(few):
        memory = <char*>malloc(3 * size)
        if memory == NULL:
            raise MemoryError
    begin(&keep, memory, topics, room, with_epochs)
    begin(&revoke, memory + size, topics, room, with_epochs)
    begin(&both, memory + 2 * size, topics, room, with_epochs)
    try:
        unreleased = divide(group, member, target_epoch, target, subscribed, &keep, &revoke, &both)
        if revoke.count:
            pending = assignment(&revoke, assigned, target)
            if names_any(owned, pending):
                return new_current(UNREVOKED_PARTITIONS, epoch, member.epoch,
                                   assignment(&keep, assigned, target), pending)
        return new_current(UNRELEASED_PARTITIONS if unreleased else STABLE_MEMBER, target_epoch,
                           member.epoch, assignment(&both, assigned, target), no_partitions())
    finally:
        if memory != <char*>few:
            free(memory)


cdef bint divide(ConsumerGroup group, ConsumerMember member, int32_t target_epoch,
                 Assignment target, object subscribed, Parts* keep, Parts* revoke,
                 Parts* both) except -1:
    """Walk both assignments by topic and partition; whether some of the target is not free yet.

    A partition that the member gets has the target epoch, the others have the one that they had.
    """
    cdef Assignment assigned = member.assigned
    cdef Py_ssize_t a = 0, t = 0
    cdef int32_t at, at_end, to, to_end, epoch = 0
    cdef TopicId topic
    cdef TopicUse use
    cdef bint in_assigned, in_target, unreleased = False
    while a < assigned.topic_count or t < target.topic_count:
        in_assigned = a < assigned.topic_count and (
            t == target.topic_count or not before(<TopicId>target.topics[t],
                                                  <TopicId>assigned.topics[a]))
        in_target = t < target.topic_count and (
            a == assigned.topic_count or not before(<TopicId>assigned.topics[a],
                                                    <TopicId>target.topics[t]))
        topic = <TopicId>(assigned.topics[a] if in_assigned else target.topics[t])
        at = at_end = to = to_end = 0
        if in_assigned:
            at, at_end = assigned.ends[a - 1] if a else 0, assigned.ends[a]
            a += 1
        if in_target:
            if subscribed is None or topic.name in subscribed:
                to, to_end = target.ends[t - 1] if t else 0, target.ends[t]
            t += 1
        use = group.uses.get(topic)
        while at < at_end or to < to_end:
            if at < at_end and assigned.epochs != NULL:
                epoch = assigned.epochs[at]
            if to == to_end or (at < at_end and assigned.partitions[at] < target.partitions[to]):
                put(revoke, assigned.partitions[at], epoch)
                at += 1
            elif at == at_end or target.partitions[to] < assigned.partitions[at]:
                if use is None or use.is_free(target.partitions[to]) or (
                        group.rules & OWN_PENDING_IS_FREE
                        and member.revoking.holds(topic, target.partitions[to])):
                    put(both, target.partitions[to], target_epoch)
                else:
                    unreleased = True
                to += 1
            else:
                put(keep, assigned.partitions[at], epoch)
                put(both, assigned.partitions[at], epoch)
                at += 1
                to += 1
        close(keep, topic)
        close(revoke, topic)
        close(both, topic)
    return unreleased


cdef Current without_others(ConsumerGroup group, ConsumerMember member, object subscribed,
                            dict owned):
    """Revoke what a member has of topics that it subscribes to no longer; None if nothing is."""
    cdef Assignment assigned = member.assigned, revoking = member.revoking, pending
    cdef dict kept = {}, lost
    cdef bint with_epochs = assigned.epochs != NULL or revoking.epochs != NULL
    cdef int32_t previous_epoch = member.previous_epoch
    if subscribed is None:
        return None
    lost = revoking.epochs_by_topic()
    for topic, epochs in assigned.epochs_by_topic().items():
        if (<TopicId>topic).name in subscribed:
            kept[topic] = epochs
        else:
            lost[topic] = dict(sorted({**lost.get(topic, {}), **epochs}.items()))
    if len(kept) == assigned.topic_count:
        return None
    if group.rules & PARTITION_EPOCHS:
        previous_epoch = member.epoch
    pending = <Assignment>assignment_from(lost, with_epochs)
    if names_any(owned, pending):
        return new_current(UNREVOKED_PARTITIONS, member.epoch, previous_epoch,
                           <Assignment>assignment_from(kept, with_epochs), pending)
    return new_current(member.state, member.epoch, previous_epoch,
                       <Assignment>assignment_from(kept, with_epochs), revoking)


cdef Current reconciled(ConsumerGroup group, ConsumerMember member, int32_t target_epoch,
                        Assignment target, dict owned, object subscribed, bint changed,
                        int* error):
    """What a member's record says next; None if it stays as it is.

    ``subscribed``: the names of its topics, None before 4.2; ``changed``: they have changed.
    """
    cdef Current made
    error[0] = NONE
    if member.state == STABLE_MEMBER:
        if member.epoch == target_epoch:
            return without_others(group, member, subscribed, owned) if changed else None
        made = next_current(group, member, member.epoch, target_epoch, target, owned, subscribed)
    elif member.state == UNREVOKED_PARTITIONS:
        if names_any(owned, member.revoking):
            return without_others(group, member, subscribed, owned) if changed else None
        made = next_current(group, member, member.epoch + (
            not group.rules & ACKNOWLEDGED_EPOCH_STAYS), target_epoch, target, owned, subscribed)
    elif member.state == UNRELEASED_PARTITIONS:
        made = next_current(group, member, member.epoch, target_epoch, target, owned, subscribed)
    elif owned is None or any(owned.values()):
        error[0] = FENCED_MEMBER_EPOCH
        return None
    else:
        made = next_current(group, member, target_epoch, target_epoch, target, owned, subscribed)
    if (made.state == member.state and made.epoch == member.epoch
            and made.previous_epoch == member.previous_epoch
            and made.assigned.equals(member.assigned)
            and made.revoking.equals(member.revoking)):
        return None
    return made


# ---- the target assignment of a group: its assignor's input, and the records of what changed -----
# Source: TargetAssignmentBuilder.java.

cdef Assignment assign_targets(ConsumerProtocol protocol, ConsumerGroup group,
                               ConsumerMember member, MemberFields fields, ConsumerMember replaced,
                               bint homogeneous, int32_t epoch, list records):
    """Assign all members; return the target of the member that sent the heartbeat."""
    cdef list members = group.order
    cdef Py_ssize_t n
    cdef bint is_new = False
    if replaced is not None or not member.present:
        if replaced is not None:
            members = list(members)
            members.remove(replaced)
        n = place_of(members, member.member_id)
        if n < len(members) and (<ConsumerMember>members[n]).member_id == member.member_id:
            members = list(members)
            members[n] = member
        else:
            is_new = replaced is None      # the group's own list has it for this assignment
            members.insert(n, member)
    try:
        member.instance_id = fields.instance_id
        assign_members(protocol, group, member, fields, replaced, homogeneous, members)
        put_changes(group, replaced, member, members, records)
    finally:
        if is_new:
            del members[n]
    records.append(target_epoch_record(
        epoch, protocol.runtime.wheel.clock_ms if group.rules & ASSIGNMENT_INTERVAL else 0))
    member.instance_id = member.fields.instance_id      # until the member's record is replayed
    return <Assignment>member.computed


cdef int assign_members(ConsumerProtocol protocol, ConsumerGroup group, ConsumerMember member,
                        MemberFields fields, ConsumerMember replaced, bint homogeneous,
                        list members) except -1:
    """Run the assignor. ``fields``: those that ``member``, which sent the heartbeat, will have."""
    cdef ConsumerMember each
    cdef Py_ssize_t n
    cdef str assignor = assignor_of(protocol, group, member, fields, replaced)
    # The topics of the first are all; in `range` static members are first.
    for n in range(1 if homogeneous and assignor != "range" else len(members)):
        each = <ConsumerMember>members[n]
        each.topics = topics_of(protocol, group, fields if each is member else each.fields)
    return assign_all(assignor, members, homogeneous, group.uses)


cdef int put_changes(ConsumerGroup group, ConsumerMember replaced, ConsumerMember member,
                     list members, list records) except -1:
    """The records of targets that are new or differ."""
    cdef ConsumerMember each, absent
    cdef Assignment had
    for each in members:
        had = each.target
        if each is member and replaced is not None:
            # The replacement's own record comes first: what it says is what was there.
            if group.rules & INHERITED_TARGET_STAYS:
                had = no_partitions() if replaced.target is None else replaced.target
            else:
                had = replaced.target if replaced.member_id == each.member_id else None
        if had is not None and each.computed is had:
            continue
        if had is None:
            absent = group.absent.get(each.member_id)
            had = None if absent is None else absent.target
        if had is None or not (<Assignment>each.computed).equals(had):
            records.append(new_record(TARGET, each.member_id, each.computed))
    return 0


cdef tuple topics_of(ConsumerProtocol protocol, ConsumerGroup group, MemberFields fields):
    """Topics that a member subscribes to and that exist, by their ids."""
    if fields.regex and fields.regex in group.resolved:
        return topics_named(
            protocol, fields.names.names | (<Resolved>group.resolved[fields.regex]).topics)
    if fields.names.topics_stamp != protocol.image.stamp:
        fields.names.topics = topics_named(protocol, fields.names.names)
        fields.names.topics_stamp = protocol.image.stamp
    return fields.names.topics


cdef tuple topics_named(ConsumerProtocol protocol, names):
    return tuple(sorted_topics([
        protocol.image.topics[name] for name in names if name in protocol.image.topics]))


cdef str assignor_of(ConsumerProtocol protocol, ConsumerGroup group, ConsumerMember member,
                     MemberFields fields, ConsumerMember replaced):
    """The assignor with the most votes; of several the one whose name sorts first."""
    cdef dict votes = group.assignor_count
    cdef MemberFields had = replaced.fields if replaced is not None else member.fields
    cdef bint counted = replaced is not None or member.present
    if (had.assignor if counted else None) != fields.assignor:
        votes = dict(votes)
        if counted and had.assignor is not None:
            add_count(votes, had.assignor, -1)
        if fields.assignor is not None:
            add_count(votes, fields.assignor, 1)
    return preferred(votes, protocol.assignors)


# ---- regular expressions of a group: when they are resolved, and the records of the result -------
# Source: GroupMetadataManager.java (maybeUpdateRegularExpressions).

cdef enum:
    REGEX_PAUSE_MS = 10000         # between two resolutions


cdef bint regex_step(ConsumerProtocol protocol, ConsumerGroup group, MemberFields had,
                     MemberFields fields, list records) except -1:
    """Resolve expressions where that is due; whether the group's epoch has to rise."""
    cdef bint bump = False, refresh = False
    cdef dict regexes = group.regex_count
    cdef Resolved last
    cdef int64_t now_ms = protocol.runtime.wheel.clock_ms
    if (had.regex or "") != (fields.regex or ""):
        regexes = dict(regexes)
        if had.regex and regexes.get(had.regex) is not None:
            if regexes[had.regex] == 1:
                records.append(tombstone(REGEX, had.regex))
            add_count(regexes, had.regex, -1)
        if had.regex and not fields.regex and protocol.rules & LOST_REGEX_BUMPS:
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
    last = group.first_resolved()
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
