import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.TreeMap;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.kstream.KStream;

/**
 * Words counted by Kafka Streams: a repartition topic, a store, its changelog. The application is
 * stopped, its folder is lost, and it goes on from the changelog.
 */
final class WordCount {
    private static final String COUNTS = "counts";

    private WordCount() {}

    static void count(Settings settings, String group, String topic, String[] more)
            throws Exception {
        try (Admin admin = settings.admin()) {
            NewTopic counts = new NewTopic(COUNTS, Optional.of(1), Optional.empty());
            admin.createTopics(List.of(counts)).all().get();
        }
        run(settings, group, topic, more[0], "to be or not to be", 6);
        run(settings, group, topic, more[0], "to be is to do", 11);
        try (Admin admin = settings.admin()) {
            Facts.tell(
                    "internal",
                    admin.listTopics().names().get().stream()
                            .filter(name -> name.startsWith(group))
                            .map(name -> name.substring(name.lastIndexOf('-') + 1))
                            .sorted()
                            .toList());
        }
    }

    private static void run(
            Settings settings,
            String group,
            String topic,
            String guarantee,
            String text,
            int words)
            throws Exception {
        Path folder = Files.createTempDirectory("streams");
        Properties all = new Properties();
        all.putAll(
                settings.with(
                        "application.id", group,
                        "processing.guarantee", guarantee,
                        "commit.interval.ms", 50,
                        "num.stream.threads", 2,
                        "statestore.cache.max.bytes", 0,
                        "replication.factor", 1,
                        "consumer.heartbeat.interval.ms", 100,
                        "consumer.auto.offset.reset", "earliest",
                        "default.key.serde", Serdes.StringSerde.class,
                        "default.value.serde", Serdes.StringSerde.class,
                        "state.dir", folder.toString()));
        KafkaStreams streams = new KafkaStreams(topology(topic), all);
        streams.start();
        try (KafkaProducer<String, String> producer = settings.producer()) {
            producer.send(new ProducerRecord<>(topic, text));
        }
        Map<String, Long> counts = new TreeMap<>();
        try (KafkaConsumer<String, String> consumer =
                settings.consumer("reader", "isolation.level", "read_committed")) {
            consumer.subscribe(List.of(COUNTS));
            while (counts.values().stream().mapToLong(Long::longValue).sum() < words) {
                for (ConsumerRecord<String, String> record :
                        consumer.poll(Duration.ofMillis(50))) {
                    counts.put(record.key(), Long.valueOf(record.value()));
                }
            }
        }
        streams.close();
        Utils.delete(folder.toFile());
        Facts.tell("counts", counts);
    }

    private static Topology topology(String topic) {
        StreamsBuilder builder = new StreamsBuilder();
        KStream<String, String> lines = builder.stream(topic);
        lines.flatMapValues(line -> List.of(line.split(" ")))
                .groupBy((key, word) -> word)
                .count()
                .toStream()
                .mapValues(String::valueOf)
                .to(COUNTS);
        return builder.build();
    }
}
