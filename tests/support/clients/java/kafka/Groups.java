import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;

/** Members of groups, and what they commit. */
final class Groups {
    private static final int PARTITIONS = 3;

    private Groups() {}

    private static void settle(List<Member> members) throws InterruptedException {
        Facts.await(() -> Member.settled(PARTITIONS, members));
    }

    static void join(Settings settings, String group, String topic) throws Exception {
        try (Member member = Member.of(settings, group, topic, null)) {
            settle(List.of(member));
            Facts.tell("assigned", member.held());
        }
    }

    static void stay(Settings settings, String group, String topic) throws Exception {
        Member member = Member.of(settings, group, topic, null);
        settle(List.of(member));
        Facts.tell("assigned", member.held());
        Thread.currentThread().join();
    }

    static void rebalance(Settings settings, String group, String topic) throws Exception {
        List<Member> members = new ArrayList<>();
        for (int count = 0; count < 3; count++) {
            members.add(Member.of(settings, group, topic, null));
            settle(members);
            Facts.tell("sizes", Member.sizes(members));
        }
        members.remove(0).close();
        settle(members);
        Facts.tell("sizes", Member.sizes(members));
        for (Member member : members) member.close();
    }

    static void cooperative(Settings settings, String group, String topic) throws Exception {
        List<Member> members = new ArrayList<>();
        for (int count = 0; count < 2; count++) {
            members.add(
                    Settings.isOfConsumerProtocol()
                            ? Member.of(settings, group, topic, null)
                            : new Member(settings, group, topic, Member.COOPERATIVE, null));
            settle(members);
            Facts.tell("sizes", Member.sizes(members));
        }
        Facts.tell("revoked", members.get(0).revoked);
        for (Member member : members) member.close();
    }

    static void restart(Settings settings, String group, String topic) throws Exception {
        Member one = Member.of(settings, group, topic, "one");
        settle(List.of(one));
        Member two = Member.of(settings, group, topic, "two");
        settle(List.of(one, two));
        Facts.tell("one", one.held(), "two", two.held());
        two.close();
        two = Member.of(settings, group, topic, "two");
        settle(List.of(one, two));
        Facts.tell("one", one.held(), "two", two.held());
        one.close();
        two.close();
    }

    static void commit(Settings settings, String group, String topic) throws Exception {
        List<TopicPartition> partitions =
                IntStream.range(0, PARTITIONS)
                        .mapToObj(number -> new TopicPartition(topic, number))
                        .toList();
        try (KafkaConsumer<String, String> consumer = settings.consumer(group)) {
            consumer.assign(partitions);
            consumer.commitSync(
                    Map.of(
                            partitions.get(0), new OffsetAndMetadata(5, "five"),
                            partitions.get(1), new OffsetAndMetadata(7)));
        }
        try (KafkaConsumer<String, String> consumer = settings.consumer(group)) {
            Map<String, Object> told = new TreeMap<>();
            consumer.committed(Set.copyOf(partitions))
                    .forEach(
                            (partition, found) ->
                                    told.put(
                                            String.valueOf(partition.partition()),
                                            found == null
                                                    ? null
                                                    : List.of(found.offset(), found.metadata())));
            Facts.tell("committed", told);
        }
    }

    /** Partitions of a topic among offsets, as facts tell them. */
    static Map<String, Long> told(Map<TopicPartition, OffsetAndMetadata> offsets, String topic) {
        return offsets.entrySet().stream()
                .filter(entry -> entry.getKey().topic().equals(topic) && entry.getValue() != null)
                .collect(
                        Collectors.toMap(
                                entry -> String.valueOf(entry.getKey().partition()),
                                entry -> entry.getValue().offset(),
                                (left, right) -> left,
                                TreeMap::new));
    }
}
