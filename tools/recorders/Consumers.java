import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.*;
import java.util.concurrent.*;
import java.util.stream.*;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.*;

/**
 * Consumers that are driven by lines of standard input; what happens comes out as JSON lines with
 * the clock's ms. A line is an order, a name, and settings as KEY=VALUE (lists with commas):
 *
 *   topic NAME partitions=6 records=60     start NAME topics=a,b group.id=g group.protocol=consumer
 *   stop NAME how=DEFAULT                  subscribe NAME topics=a,b
 *
 * `how`: DEFAULT, LEAVE_GROUP or REMAIN_IN_GROUP.
 */
public class Consumers {
    static final Map<String, Member> MEMBERS = new ConcurrentHashMap<>();

    static synchronized void say(String what, String name, String more) {
        System.out.printf("{\"at_ms\": %d, \"what\": \"%s\", \"name\": \"%s\"%s}%n",
            System.currentTimeMillis(), what, name, more);
        System.out.flush();
    }

    static String text(String name, Object value) {
        String plain = String.valueOf(value).replace("\\", "\\\\").replace("\"", "\\\"").replace("\n", " ");
        return ", \"" + name + "\": \"" + plain + "\"";
    }

    static class Member extends Thread implements ConsumerRebalanceListener {
        final String name;
        final KafkaConsumer<byte[], byte[]> consumer;
        volatile List<String> topics;
        volatile boolean resubscribe = true;
        volatile CloseOptions.GroupMembershipOperation how;

        Member(String name, Map<String, Object> settings, List<String> topics) {
            this.name = name;
            this.topics = topics;
            consumer = new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        }

        @Override public void run() {
            try {
                while (how == null) {
                    if (resubscribe) {
                        resubscribe = false;
                        consumer.subscribe(topics, this);
                    }
                    consumer.poll(java.time.Duration.ofMillis(100));
                }
                consumer.close(CloseOptions.groupMembershipOperation(how));
                say("stopped", name, "");
            } catch (Exception error) {
                say("failed", name, text("error", error.getClass().getSimpleName()) + text("message", error.getMessage()));
                try {
                    consumer.close();
                } catch (Exception again) {
                    say("failed", name, text("error", again.getClass().getSimpleName()));
                }
            }
        }

        void tell(String what, Collection<TopicPartition> partitions) {
            ConsumerGroupMetadata who = consumer.groupMetadata();
            say(what, name, text("member_id", who.memberId()) + ", \"generation\": " + who.generationId()
                + text("partitions", partitions.stream().map(String::valueOf).sorted().collect(Collectors.joining(" "))));
        }

        @Override public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            tell("assigned", partitions);
        }

        @Override public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            tell("revoked", partitions);
        }

        @Override public void onPartitionsLost(Collection<TopicPartition> partitions) {
            tell("lost", partitions);
        }
    }

    static void topic(String address, String name, Map<String, Object> given) throws Exception {
        int partitions = Integer.parseInt((String) given.get("partitions"));
        int records = Integer.parseInt((String) given.get("records"));
        Map<String, Object> at = Map.of("bootstrap.servers", address);
        try (Admin admin = Admin.create(at)) {
            admin.createTopics(List.of(new NewTopic(name, partitions, (short) 1))).all().get();
        }
        try (var producer = new KafkaProducer<>(at, new ByteArraySerializer(), new ByteArraySerializer())) {
            for (int number = 0; number < records; number++) {
                producer.send(new ProducerRecord<>(name, number % partitions, null, new byte[1]));
            }
        }
        say("topic", name, "");
    }

    public static void main(String[] arguments) throws Exception {
        String address = arguments[0];
        var orders = new BufferedReader(new InputStreamReader(System.in));
        for (String line = orders.readLine(); line != null; line = orders.readLine()) {
            String[] words = line.trim().split(" +");
            Map<String, Object> given = new HashMap<>();
            for (int number = 2; number < words.length; number++) {
                String[] pair = words[number].split("=", 2);
                given.put(pair[0], pair[1]);
            }
            List<String> topics = List.of(((String) given.getOrDefault("topics", "")).split(","));
            Member member = MEMBERS.get(words[1]);
            switch (words[0]) {
                case "topic" -> topic(address, words[1], given);
                case "start" -> {
                    given.remove("topics");
                    given.put("bootstrap.servers", address);
                    given.putIfAbsent("auto.offset.reset", "earliest");
                    Member fresh = new Member(words[1], given, topics);
                    MEMBERS.put(words[1], fresh);
                    say("start", words[1], text("client_id", given.get("client.id")));
                    fresh.start();
                }
                case "subscribe" -> {
                    member.topics = topics;
                    member.resubscribe = true;
                    say("subscribe", words[1], text("topics", given.get("topics")));
                }
                case "stop" -> {
                    say("stop", words[1], text("how", given.get("how")));
                    member.how = CloseOptions.GroupMembershipOperation.valueOf((String) given.get("how"));
                }
                default -> throw new IllegalArgumentException(line);
            }
        }
        System.exit(0);
    }
}
