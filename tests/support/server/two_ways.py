"""The same requests to a server without observers and to one with an observer.

The first takes the fast path: from bytes to the coordinator and back, responses passed on as the
core has them. The other creates events and observes each request. Answers, groups and logs have to
be the same, byte for byte.
"""

from support.server.playing import Server

TOPICS = (("t", 3), ("u", 1))


class Both:
    """Two servers and their connections with the same requests.

    Attributes
    ----------
    handled : list of int
        The API keys of the requests that the first server left to its handlers.
    """

    def __init__(self, config, groups, kafka="3.9", connections=6):
        self.servers = [Server(config, kafka=kafka), Server(config, kafka=kafka)]
        self.groups, self.events, self.handled = groups, [], []
        for server in self.servers:
            for topic, count in TOPICS:
                server.cluster.topics.create(topic, count)
        quick, watched = self.servers
        watched.dispatcher.observer = lambda call, handler: True
        watched.cluster.groups.on_event = self.events.append
        handle = quick.dispatcher.handle
        quick.dispatcher.handle = lambda call, handler: (
            self.handled.append(call.api_key), handle(call, handler))[1]  # fmt: skip
        self.topic_id = watched.cluster.topics.get("t").topic_id
        self.peers = [self.connect() for _ in range(connections)]

    def connect(self):
        return [server.connect() for server in self.servers]

    def send(self, number, data):
        for peer in self.peers[number]:
            peer.send(data)

    def leave(self, number):
        """Close a connection, which may wait for something, and open another."""
        for peer in self.peers[number]:
            peer.leave()
        self.peers[number] = self.connect()

    def run(self, ms):
        for server in self.servers:
            server.run(ms)

    def answers(self):
        """What each connection was answered since the last call; a closed one is replaced."""
        found = []
        for number, (quick, watched) in enumerate(self.peers):
            data = quick.take()
            assert data == watched.take()
            assert quick.connection.closing == watched.connection.closing
            quick.received = watched.received = b""
            found.append(data)
            if quick.connection.closing:
                self.peers[number] = self.connect()
        return found

    def check(self):
        """Compare the clocks, groups and logs of both."""
        quick, watched = (self.state(server.cluster) for server in self.servers)
        assert quick == watched

    def state(self, cluster):
        logs = [log.data() for topic in cluster.topics for log in topic.partitions]
        snapshots = [cluster.groups.snapshot(group) for group in self.groups]
        return cluster.now_ms, cluster.next_deadline_ms(), snapshots, logs
