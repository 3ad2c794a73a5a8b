import java.time.Duration;
import java.util.Collection;
import java.util.List;
import java.util.Queue;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.function.Consumer;
import java.util.function.Function;
import java.util.function.IntConsumer;
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
    private volatile Set<TopicPartition> assignment = Set.of();
    private final Queue<Consumer<KafkaConsumer<String, String>>> asked =
            new ConcurrentLinkedQueue<>();
    volatile int revoked;
    volatile int lost;
    volatile IntConsumer whenRevoked = count -> {};

    /** A member by the settings of its protocol. */
    Member(KafkaConsumer<String, String> consumer, Consumer<Member> subscribe) {
        this.consumer = consumer;
        thread = new Thread(() -> poll(subscribe));
        thread.start();
    }

    Member(Settings settings, String group, String topic, String assignor, String instance) {
        this(classic(settings, group, assignor, instance), member -> member.subscribe(topic));
    }

    /** A member of the protocol that the environment variable GROUP_PROTOCOL names. */
    static Member of(Settings settings, String group, String topic, String instance) {
        return Settings.isOfConsumerProtocol()
                ? ofConsumerProtocol(settings, group, topic, instance)
                : new Member(settings, group, topic, RANGE, instance);
    }

    static Member ofConsumerProtocol(
            Settings settings, String group, String topic, String instance) {
        return new Member(
                consumerProtocol(settings, group, "group.instance.id", instance),
                member -> member.subscribe(topic));
    }

    private static KafkaConsumer<String, String> classic(
            Settings settings, String group, String assignor, String instance) {
        return settings.consumer(
                group,
                "group.instance.id", instance,
                "partition.assignment.strategy", assignor,
                "session.timeout.ms", 45000,
                "heartbeat.interval.ms", 100,
                "retry.backoff.ms", 20);
    }

    static KafkaConsumer<String, String> consumerProtocol(
            Settings settings, String group, Object name, Object value) {
        return settings.consumer(
                group, name, value, "group.protocol", "consumer", "retry.backoff.ms", 20);
    }

    void subscribe(String topic) {
        consumer.subscribe(List.of(topic), this);
    }

    /** Subscribe to an expression that the coordinator resolves, by a class that 3.9 lacks. */
    void subscribeToAll(String expression) {
        try {
            Class<?> kind = Class.forName("org.apache.kafka.clients.consumer.SubscriptionPattern");
            Object pattern = kind.getConstructor(String.class).newInstance(expression);
            KafkaConsumer.class
                    .getMethod("subscribe", kind, ConsumerRebalanceListener.class)
                    .invoke(consumer, pattern, this);
        } catch (ReflectiveOperationException error) {
            throw new IllegalStateException(error);
        }
    }

    private void poll(Consumer<Member> subscribe) {
        try (consumer) {
            subscribe.accept(this);
            while (!closing) {
                consumer.poll(Duration.ofMillis(20));
                assignment = Set.copyOf(consumer.assignment());
                held =
                        assignment.stream()
                                .map(TopicPartition::partition)
                                .collect(Collectors.toCollection(TreeSet::new));
                Consumer<KafkaConsumer<String, String>> call = asked.poll();
                if (call != null) call.accept(consumer);
            }
        }
    }

    /** Call the consumer in the thread that polls, and wait for that. */
    <T> T ask(Function<KafkaConsumer<String, String>, T> call) throws Exception {
        CompletableFuture<T> answer = new CompletableFuture<>();
        asked.add(consumer -> answer.complete(call.apply(consumer)));
        return answer.get();
    }

    Set<String> topics() {
        return assignment.stream()
                .map(TopicPartition::topic)
                .collect(Collectors.toCollection(TreeSet::new));
    }

    @Override
    public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
        revoked += partitions.size();
        whenRevoked.accept(partitions.size());
    }

    @Override
    public void onPartitionsLost(Collection<TopicPartition> partitions) {
        lost += partitions.size();
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
