import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.regex.Pattern;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.RemoveMembersFromConsumerGroupOptions;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * Consumers that do what each line of the input says: a line of JSON with what happened, by consumer.
 * All are called by one thread, in turn. tests/clients/test_same_callbacks.py has the commands.
 */
public final class Commanded {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final String GROUP = "g";
    private final Map<String, KafkaConsumer<String, String>> consumers = new LinkedHashMap<>();
    private final Map<String, List<Object>> events = new TreeMap<>();
    private final Settings settings;
    private int generation;

    private Commanded(Settings settings) {
        this.settings = settings;
    }

    public static void main(String[] args) throws Exception {
        Commanded commanded = new Commanded(new Settings(args[0]));
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JsonNode command = JSON.readTree(line);
            String name = command.path("name").asText();
            try {
                commanded.run(command, name);
            } catch (RuntimeException error) {
                commanded.happened(name, "raised", error.getClass().getSimpleName());
            }
            System.out.println(JSON.writeValueAsString(commanded.events));
            commanded.events.clear();
        }
    }

    private void happened(String name, String what, Object details) {
        events.computeIfAbsent(name, none -> new ArrayList<>()).add(List.of(what, details));
    }

    private void run(JsonNode command, String name) throws Exception {
        KafkaConsumer<String, String> consumer = consumers.get(name);
        switch (command.get("do").asText()) {
            case "start" -> start(name, command);
            case "subscribe" -> subscribe(name, command);
            case "settle" -> settle(command);
            case "poll" -> {
                while (events.isEmpty()) consumer.poll(Duration.ofMillis(10));
            }
            case "commit" -> consumer.commitSync(offsets(command));
            case "commit_async" ->
                    consumer.commitAsync(
                            offsets(command),
                            (offsets, error) ->
                                    happened(name, "callback", error == null
                                            ? "none" : error.getClass().getSimpleName()));
            case "committed" -> {
                Map<String, Long> found = new TreeMap<>();
                consumer.committed(consumer.assignment()).forEach(
                        (tp, at) -> found.put(tp.toString(), at == null ? -1 : at.offset()));
                happened(name, "committed", found);
            }
            case "positions" -> {
                Map<String, Long> found = new TreeMap<>();
                for (TopicPartition tp : consumer.assignment())
                    found.put(tp.toString(), consumer.position(tp));
                happened(name, "positions", found);
            }
            case "enforce_rebalance" -> consumer.enforceRebalance();
            case "unsubscribe" -> consumer.unsubscribe();
            case "pause" -> consumer.pause(consumer.assignment());
            case "paused" -> happened(name, "paused", names(consumer.paused()));
            case "close" -> consumers.remove(name).close();
            case "remove_members" -> {
                try (Admin admin = settings.admin()) {
                    admin.removeMembersFromConsumerGroup(
                            GROUP, new RemoveMembersFromConsumerGroupOptions()).all().get();
                }
            }
            default -> throw new IllegalArgumentException(command.toString());
        }
    }

    private void start(String name, JsonNode command) throws Exception {
        Map<String, Object> chosen = new HashMap<>(settings.with());
        command.get("settings").fields().forEachRemaining(
                each -> chosen.put(each.getKey(), each.getValue().asText()));
        consumers.put(name, new KafkaConsumer<>(
                chosen, new StringDeserializer(), new StringDeserializer()));
        subscribe(name, command);
    }

    private void subscribe(String name, JsonNode command) throws Exception {
        KafkaConsumer<String, String> consumer = consumers.get(name);
        ConsumerRebalanceListener listener = listener(name, command);
        if (command.has("pattern")) {
            consumer.subscribe(Pattern.compile(command.get("pattern").asText()), listener);
        } else if (command.has("server_pattern")) {  // of clients since 4.0
            Class<?> kind = Class.forName("org.apache.kafka.clients.consumer.SubscriptionPattern");
            KafkaConsumer.class.getMethod("subscribe", kind, ConsumerRebalanceListener.class).invoke(
                    consumer,
                    kind.getConstructor(String.class).newInstance(
                            command.get("server_pattern").asText()),
                    listener);
        } else {
            List<String> topics = new ArrayList<>();
            command.get("topics").forEach(topic -> topics.add(topic.asText()));
            consumer.subscribe(topics, listener);
        }
    }

    private ConsumerRebalanceListener listener(String name, JsonNode command) {
        String raisesIn = command.path("raises_in").asText();
        return new ConsumerRebalanceListener() {
            private void called(String what, Collection<TopicPartition> partitions) {
                happened(name, what, names(partitions));
                if (what.equals(raisesIn) && !partitions.isEmpty())
                    throw new IllegalArgumentException(what);
            }

            @Override
            public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
                called("assigned", partitions);
            }

            @Override
            public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
                called("revoked", partitions);
            }

            @Override
            public void onPartitionsLost(Collection<TopicPartition> partitions) {
                called("lost", partitions);
            }
        };
    }

    /** Poll until the group has rebalanced and each consumer has so many partitions. */
    private void settle(JsonNode command) {
        JsonNode sizes = command.get("sizes");
        while (true) {
            TreeSet<Integer> generations = new TreeSet<>();
            boolean settled = true;
            for (var names = sizes.fieldNames(); names.hasNext(); ) {
                String name = names.next();
                KafkaConsumer<String, String> consumer = consumers.get(name);
                consumer.poll(Duration.ofMillis(10));
                generations.add(consumer.groupMetadata().generationId());
                settled &= consumer.assignment().size() == sizes.get(name).asInt();
            }
            boolean later = generations.first() > generation || command.has("same_generation");
            if (settled && later && generations.size() == 1) break;
        }
        String one = sizes.fieldNames().next();
        generation = consumers.get(one).groupMetadata().generationId();
    }

    private static Map<TopicPartition, OffsetAndMetadata> offsets(JsonNode command) {
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        command.get("offsets").fields().forEachRemaining(each -> offsets.put(
                new TopicPartition("orders", Integer.parseInt(each.getKey())),
                new OffsetAndMetadata(each.getValue().asLong())));
        return offsets;
    }

    private static TreeSet<String> names(Collection<TopicPartition> partitions) {
        TreeSet<String> names = new TreeSet<>();
        partitions.forEach(each -> names.add(each.toString()));
        return names;
    }
}
