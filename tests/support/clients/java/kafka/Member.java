import java.time.Duration;
import java.util.Collection;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;

/** A consumer that polls in a thread of its own until it is closed. */
final class Member implements AutoCloseable, ConsumerRebalanceListener {
    static final String RANGE = "org.apache.kafka.clients.consumer.RangeAssignor";
    static final String COOPERATIVE =
            "org.apache.kafka.clients.consumer.CooperativeStickyAssignor";

    private final KafkaConsumer<String, String> consumer;
    private final Thread thread;
    private volatile boolean closing;
    private volatile Set<Integer> held = Set.of();
    volatile int revoked;

    Member(Settings settings, String group, String topic, String assignor, String instance) {
        consumer =
                settings.consumer(
                        group,
                        "group.instance.id", instance,
                        "partition.assignment.strategy", assignor,
                        "session.timeout.ms", 45000,
                        "heartbeat.interval.ms", 100,
                        "retry.backoff.ms", 20);
        thread = new Thread(() -> poll(topic));
        thread.start();
    }

    static Member of(Settings settings, String group, String topic, String instance) {
        return new Member(settings, group, topic, RANGE, instance);
    }

    private void poll(String topic) {
        try (consumer) {
            consumer.subscribe(List.of(topic), this);
            while (!closing) {
                consumer.poll(Duration.ofMillis(20));
                held =
                        consumer.assignment().stream()
                                .map(TopicPartition::partition)
                                .collect(Collectors.toCollection(TreeSet::new));
            }
        }
    }

    @Override
    public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
        revoked += partitions.size();
    }

    @Override
    public void onPartitionsAssigned(Collection<TopicPartition> partitions) {}

    Set<Integer> held() {
        return held;
    }

    /** Whether the members have divided so many partitions among them, some for each. */
    static boolean settled(int partitions, List<Member> members) {
        List<Set<Integer>> all = members.stream().map(Member::held).toList();
        Set<Integer> together = all.stream().flatMap(Set::stream).collect(Collectors.toSet());
        return together.size() == partitions
                && all.stream().mapToInt(Set::size).sum() == partitions
                && all.stream().noneMatch(Set::isEmpty);
    }

    static List<Integer> sizes(List<Member> members) {
        return members.stream().map(member -> member.held().size()).sorted().toList();
    }

    @Override
    public void close() throws InterruptedException {
        closing = true;
        thread.join();
    }
}
