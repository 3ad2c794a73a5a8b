"""With a seed the same requests at the same times give the same bytes, on the wire and in the log.

Without one, or with another, they differ where ids are drawn.
"""

from support.server.asking import SUBSCRIBED, answer, ask, commit, heartbeat, joining, request
from support.server.playing import Server


def life(seed):
    """Ids, joins, commits and a session's end; every byte that came, and the offsets topic's."""
    server = Server({"group.initial.rebalance.delay.ms": 1000}, seed=seed)
    heard = []
    server.cluster.topics.create("t", 2)
    peers = [server.connect() for _ in range(3)]
    for number, peer in enumerate(peers):
        client = f"client-{number}"
        protocols = [{"name": "range", "metadata": SUBSCRIBED}]
        body = joining("g", protocols=protocols)
        peer.send(request("JoinGroup", 5, body, client_id=client))
        asked = answer(peer, "JoinGroup", 5)
        heard.append(repr(asked))
        body["memberId"] = asked["memberId"]
        peer.send(request("JoinGroup", 5, body, client_id=client))
    server.run(5000)
    heard += [peer.take() for peer in peers]
    other = server.connect()
    ids = member_of_another_group(server, other)
    heard.append(repr(ask(other, "Heartbeat", 3, heartbeat("h", *ids))))
    heard.append(repr(ask(other, "OffsetCommit", 7, commit("h", "t", {0: 1, 1: 2}, *ids))))
    server.run(100_000)
    heard.append(repr(ask(other, "DescribeGroups", 5, {"groups": ["g", "h"]})))
    topics = server.cluster.topics
    logs = [topics.partition("__consumer_offsets", number).data() for number in range(50)]
    return heard, logs


def member_of_another_group(server, peer):
    peer.send(request("JoinGroup", 3, joining("h")))
    server.run(1000)
    joined = answer(peer, "JoinGroup", 3)
    ids = joined["memberId"], joined["generationId"]
    assignments = [{"memberId": ids[0], "assignment": b"a"}]
    sync = {"groupId": "h", "generationId": ids[1], "memberId": ids[0], "assignments": assignments}
    ask(peer, "SyncGroup", 2, sync)
    return ids


def test_the_same_requests_with_the_same_seed_give_the_same_bytes():
    assert life(7) == life(7)
    assert any(life(7)[1])


def test_another_seed_gives_other_ids():
    assert life(7)[0] != life(8)[0]
    assert life(7)[1] != life(8)[1]


def test_without_a_seed_ids_are_drawn_anew():
    assert life(None)[0] != life(None)[0]
