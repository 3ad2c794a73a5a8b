import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;

/** Members of the consumer protocol (KIP-848). */
final class ConsumerGroups {
    private static final int PARTITIONS = 3;

    private ConsumerGroups() {}

    private static void settle(Member... members) throws InterruptedException {
        Facts.await(() -> Member.settled(PARTITIONS, List.of(members)));
    }

    static void regex(Settings settings, String group, String topic) throws Exception {
        try (Admin admin = settings.admin();
                Member member =
                        new Member(
                                Member.consumerProtocol(settings, group, "client.id", "regex"),
                                self -> self.subscribeToAll("ord.*"))) {
            Facts.await(() -> member.topics().equals(Set.of(topic)));
            Facts.tell("topics", member.topics());
            admin.createTopics(List.of(new NewTopic("orders-2", 1, (short) 1))).all().get();
            Facts.tell("made", "orders-2");
            Facts.await(() -> member.topics().equals(Set.of(topic, "orders-2")));
            Facts.tell("topics", member.topics());
        }
    }

    static void migrate(Settings settings, String group, String topic) throws Exception {
        List<Member> members = new ArrayList<>();
        List<String> protocols = new ArrayList<>();
        TopicPartition first = new TopicPartition(topic, 0);
        long step = 0;
        for (String protocol :
                List.of("classic", "classic", "consumer", "consumer", "classic", "classic")) {
            if (members.size() == 2) {
                members.remove(0).close();
                protocols.remove(0);
            }
            protocols.add(protocol);
            members.add(
                    protocol.equals("consumer")
                            ? Member.ofConsumerProtocol(settings, group, topic, null)
                            : new Member(settings, group, topic, Member.RANGE, null));
            if (members.size() < 2) continue;
            settle(members.toArray(Member[]::new));
            OffsetAndMetadata offset = new OffsetAndMetadata(++step);
            Member owner =
                    members.stream().filter(each -> each.held().contains(0)).findAny().get();
            owner.ask(
                    consumer -> {
                        consumer.commitSync(Map.of(first, offset));
                        return true;
                    });
            long committed =
                    members.get(1).ask(c -> c.committed(Set.of(first)).get(first).offset());
            Facts.tell(
                    "protocols", protocols, "sizes", Member.sizes(members), "committed", committed);
        }
        for (Member member : members) member.close();
    }

    static void fenced(Settings settings, String group, String topic) throws Exception {
        try (Member member = Member.of(settings, group, topic, null)) {
            settle(member);
            Facts.tell("assigned", member.held());
            Facts.await(() -> member.lost > 0);
            Facts.tell("lost", member.lost);
            settle(member);
            Facts.tell("assigned", member.held());
        }
    }

    /** One member keeps what another one is to get, until the coordinator takes it away. */
    static void lateRevocation(Settings settings, String group, String topic) throws Exception {
        Member one = slow(settings, group, topic);
        settle(one);
        Facts.tell("assigned", one.held());
        Thread blocked = Thread.currentThread();
        one.whenRevoked =
                count -> {
                    try {
                        Facts.tell("revoking", count);
                        blocked.join();
                    } catch (Exception error) {
                        throw new IllegalStateException(error);
                    }
                };
        Member two = slow(settings, group, topic);
        settle(two);
        Facts.tell("assigned", two.held());
    }

    private static Member slow(Settings settings, String group, String topic) {
        return new Member(
                Member.consumerProtocol(settings, group, "max.poll.interval.ms", 50000),
                self -> self.subscribe(topic));
    }
}
