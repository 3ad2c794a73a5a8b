"""Random operations: the invariants of a coordinator after any requests."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from coterie import Error, GroupCoordinator
from support.examples import examples

GROUPS = st.sampled_from(["g", "h"])
CLIENTS = st.sampled_from("abcd")
LISTS = st.sampled_from(
    [
        (("range", b""),),
        (("range", b""), ("sticky", b"\0")),
        (("sticky", b""), ("range", b"\0\0\0\0\0\1\0\1t\xff\xff\xff\xff")),
    ]
)
FAILURES = st.sampled_from([Error.NOT_ENOUGH_REPLICAS, Error.REQUEST_TIMED_OUT])


class AnyRequests(RuleBasedStateMachine):
    @initialize(
        delay_ms=st.sampled_from([0, 3000]),
        size=st.sampled_from([2, 2**31 - 1]),
        behaviour=st.sampled_from(["3.9", "2.4"]),
    )
    def begin(self, delay_ms, size, behaviour):
        self.coordinator = GroupCoordinator(
            {
                "group.initial.rebalance.delay.ms": delay_ms,
                "group.max.size": size,
                "coterie.behaviour": behaviour,
                "offsets.retention.minutes": 1,
            }
        )
        self.ids, self.waiting = [""], []

    def pick(self, number):
        return self.ids[number % len(self.ids)]

    def keep(self, pending):
        self.waiting.append(pending)
        if pending.done and getattr(pending.response, "member_id", ""):
            self.ids.append(pending.response.member_id)

    def generation(self, group):
        view = self.coordinator.snapshot(group)
        return view.generation_id if view else 0

    @rule(group=GROUPS, who=st.integers(0, 99), client=CLIENTS, protocols=LISTS,
          static=st.booleans(), known=st.booleans(), skips=st.booleans(),
          session_ms=st.sampled_from([6000, 30_000]),
          rebalance_ms=st.sampled_from([5000, 20_000]))  # fmt: skip
    def join(self, group, who, client, protocols, static, known, skips, session_ms, rebalance_ms):
        self.keep(
            self.coordinator.join_group(
                group,
                self.pick(who),
                protocol_type="consumer",
                protocols=protocols,
                client_id=client,
                group_instance_id=f"i-{client}" if static else None,
                require_known_member_id=known,
                supports_skipping_assignment=skips,
                session_timeout_ms=session_ms,
                rebalance_timeout_ms=rebalance_ms,
            )
        )

    @rule(group=GROUPS, client=CLIENTS, protocols=LISTS)
    def join_anew(self, group, client, protocols):
        self.join(group, 0, client, protocols, False, False, False, 10_000, 20_000)

    @rule(group=GROUPS)
    def everyone_rejoins(self, group):
        view = self.coordinator.snapshot(group)
        for member in view.members if view else ():
            self.keep(
                self.coordinator.join_group(
                    group,
                    member.member_id,
                    protocol_type="consumer",
                    protocols=member.protocols,
                    client_id="a",
                    group_instance_id=member.group_instance_id,
                )
            )

    @rule(group=GROUPS, who=st.integers(0, 99))
    def sync(self, group, who):
        generation = self.generation(group)
        self.keep(self.coordinator.sync_group(group, generation, self.pick(who)))

    @rule(group=GROUPS)
    def everyone_syncs(self, group):
        view = self.coordinator.snapshot(group)
        for member in view.members if view else ():
            self.keep(
                self.coordinator.sync_group(
                    group,
                    view.generation_id,
                    member.member_id,
                    assignments={m.member_id: b"x" for m in view.members},
                )
            )

    @rule(group=GROUPS, who=st.integers(0, 99))
    def heartbeat(self, group, who):
        self.coordinator.heartbeat(group, self.generation(group), self.pick(who))

    @rule(group=GROUPS, who=st.integers(0, 99), client=CLIENTS)
    def leave(self, group, who, client):
        self.coordinator.leave_group(group, [self.pick(who), ("", f"i-{client}")])

    @rule(group=GROUPS, who=st.integers(0, 99), partition=st.integers(0, 2), txn=st.booleans())
    def commit(self, group, who, partition, txn):
        offsets = {("t", partition): self.coordinator.now_ms}
        if txn:
            self.keep(
                self.coordinator.txn_offset_commit(
                    group, offsets, producer_id=who % 2, producer_epoch=0
                )
            )
        else:
            self.keep(
                self.coordinator.offset_commit(
                    group,
                    offsets,
                    generation_id=self.generation(group) if who else -1,
                    member_id=self.pick(who),
                )
            )

    @rule(producer=st.integers(0, 1), committed=st.booleans())
    def end_txn(self, producer, committed):
        self.coordinator.end_txn(producer, committed=committed)

    @rule(error=FAILURES)
    def fail_append(self, error):
        self.coordinator.fail_append(error)

    @rule(group=GROUPS)
    def delete(self, group):
        self.coordinator.delete_groups([group])

    @rule()
    def cleanup(self):
        self.coordinator.cleanup()

    @rule()
    def failover(self):
        """What a failover gives is what the log gives a coordinator that never saw the groups."""
        self.coordinator.failover()
        afresh = GroupCoordinator(
            dict(self.coordinator.config), now_ms=self.coordinator.now_ms, log=self.coordinator.log
        )
        for group in "gh":
            assert afresh.snapshot(group) == self.coordinator.snapshot(group)

    @rule(ms=st.sampled_from([0, 1, 2999, 3000, 6000, 20_000, 61_000]))
    def advance(self, ms):
        self.coordinator.advance_by(ms)

    @rule()
    def nobody_waits_for_ever(self):
        """Left alone, everyone who waits is answered or dropped, and no timer is left."""
        for _ in range(4000):
            deadline_ms = self.coordinator.next_deadline_ms()
            if deadline_ms is None:
                break
            self.coordinator.advance(deadline_ms)
        assert self.coordinator.next_deadline_ms() is None
        assert not [p for p in self.waiting if p.status == "waiting"]

    @invariant()
    def groups_are_whole(self):
        if not hasattr(self, "coordinator"):
            return
        for group in "gh":
            view = self.coordinator.snapshot(group)
            if view is not None:
                check(view, self.coordinator.now_ms)


def check(view, now_ms):
    ids = [member.member_id for member in view.members]
    assert (view.leader_id in ids) == bool(ids)
    assert view.state != "Dead"
    assert (view.state == "Empty") <= (not ids)
    assert (view.state in ("Stable", "CompletingRebalance")) <= bool(ids)
    flat = [name for member in view.members for name, _ in member.protocols]
    assert view.supported_protocols == {name: flat.count(name) for name in flat}
    static = {m.group_instance_id: m.member_id for m in view.members if m.group_instance_id}
    assert view.static_members == static
    assert len(static) == sum(m.group_instance_id is not None for m in view.members)
    assert not set(ids) & set(view.pending_members)
    sessions = [timer.member_id for timer in view.timers if timer.kind == "session"]
    assert len(sessions) == len(set(sessions))
    assert set(sessions) <= set(ids)
    assert all(timer.deadline_ms >= now_ms for timer in view.timers)
    waits = [m for m in view.members if m.is_awaiting_join or m.is_awaiting_sync]
    # Who does not wait has a session that will end.
    assert {m.member_id for m in view.members} - {m.member_id for m in waits} <= set(sessions)
    kinds = [timer.kind for timer in view.timers]
    assert kinds.count("join") == (view.state == "PreparingRebalance")
    assert kinds.count("sync") <= bool(view.pending_sync_members)


TestAnyRequests = AnyRequests.TestCase
TestAnyRequests.settings = settings(max_examples=examples(150), stateful_step_count=50)
