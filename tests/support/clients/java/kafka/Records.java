import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;

/** Records written and read: in transactions, and in each codec. */
final class Records {
    private Records() {}

    /** Reads a partition from its begin to its end, as a consumer with this isolation sees it. */
    static List<ConsumerRecord<String, String>> read(
            Settings settings, TopicPartition partition, String isolation) {
        List<ConsumerRecord<String, String>> found = new ArrayList<>();
        try (KafkaConsumer<String, String> consumer =
                settings.consumer("reader", "isolation.level", isolation)) {
            consumer.assign(List.of(partition));
            consumer.seekToBeginning(List.of(partition));
            long end = consumer.endOffsets(List.of(partition)).get(partition);
            while (consumer.position(partition) < end) {
                consumer.poll(Duration.ofMillis(100)).forEach(found::add);
            }
        }
        return found;
    }

    private static void send(
            KafkaProducer<String, String> producer, TopicPartition to, String... values) {
        for (String value : values) {
            producer.send(new ProducerRecord<>(to.topic(), to.partition(), null, value));
        }
    }

    static void transactions(Settings settings, String group, String topic) throws Exception {
        TopicPartition partition = new TopicPartition(topic, 0);
        ConsumerGroupMetadata of = new ConsumerGroupMetadata(group);
        try (KafkaProducer<String, String> producer =
                settings.producer("transactional.id", group + "-id")) {
            producer.initTransactions();
            producer.beginTransaction();
            send(producer, partition, "a", "b");
            producer.sendOffsetsToTransaction(Map.of(partition, new OffsetAndMetadata(3)), of);
            producer.commitTransaction();
            producer.beginTransaction();
            send(producer, partition, "c", "d");
            producer.sendOffsetsToTransaction(Map.of(partition, new OffsetAndMetadata(9)), of);
            producer.flush();
            producer.abortTransaction();
            producer.beginTransaction();
            send(producer, partition, "e");
            producer.commitTransaction();
        }
        for (String isolation : List.of("read_committed", "read_uncommitted")) {
            Facts.tell(
                    isolation,
                    read(settings, partition, isolation).stream()
                            .map(ConsumerRecord::value)
                            .toList());
        }
        try (KafkaConsumer<String, String> consumer = settings.consumer(group)) {
            Facts.tell("offset", consumer.committed(Set.of(partition)).get(partition).offset());
        }
    }

    static void codecs(Settings settings, String topic, String[] codecs) throws Exception {
        for (int number = 0; number < codecs.length; number++) {
            TopicPartition partition = new TopicPartition(topic, number);
            try (KafkaProducer<String, String> producer =
                    settings.producer("compression.type", codecs[number], "linger.ms", 1000)) {
                for (int n = 0; n < 3; n++) {
                    ProducerRecord<String, String> record =
                            new ProducerRecord<>(topic, number, "k" + n, "v" + n);
                    record.headers().add("h", ("h" + n).getBytes(StandardCharsets.UTF_8));
                    producer.send(record);
                }
            }
            List<List<String>> found = new ArrayList<>();
            for (ConsumerRecord<String, String> record :
                    read(settings, partition, "read_uncommitted")) {
                byte[] header = record.headers().lastHeader("h").value();
                String text = new String(header, StandardCharsets.UTF_8);
                found.add(List.of(record.key(), record.value(), text));
            }
            Facts.tell("codec", codecs[number], "records", found);
        }
    }
}
