import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ListOffsetsOptions;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.protocol.Errors;

/** Transactions that end without their producer. */
final class Fencing {
    private Fencing() {}

    private static KafkaProducer<String, String> begun(
            Settings settings, TopicPartition to, String value) {
        KafkaProducer<String, String> producer =
                settings.producer("transactional.id", "the-id", "transaction.timeout.ms", 60000);
        producer.initTransactions();
        producer.beginTransaction();
        producer.send(new ProducerRecord<>(to.topic(), to.partition(), null, value));
        producer.flush();
        return producer;
    }

    private static String commit(KafkaProducer<String, String> producer) {
        try {
            producer.commitTransaction();
            return "NONE";
        } catch (KafkaException refused) {
            return Errors.forException(refused).name();
        }
    }

    private static List<String> read(Settings settings, TopicPartition partition) {
        return Records.read(settings, partition, "read_committed").stream()
                .map(record -> record.value())
                .toList();
    }

    /** A second producer with the id aborts what the first began. */
    static void fence(Settings settings, String topic) throws Exception {
        TopicPartition partition = new TopicPartition(topic, 0);
        KafkaProducer<String, String> first = begun(settings, partition, "first");
        KafkaProducer<String, String> second = begun(settings, partition, "second");
        Facts.tell("first", commit(first));
        Facts.tell("second", commit(second));
        Facts.tell("read", read(settings, partition));
    }

    /** The time of a transaction is over. */
    static void timeOut(Settings settings, String topic) throws Exception {
        TopicPartition partition = new TopicPartition(topic, 0);
        KafkaProducer<String, String> producer = begun(settings, partition, "late");
        Facts.tell("open", true);
        ListOffsetsOptions stable = new ListOffsetsOptions(IsolationLevel.READ_COMMITTED);
        try (Admin admin = settings.admin()) {
            while (admin.listOffsets(Map.of(partition, OffsetSpec.latest()), stable)
                            .partitionResult(partition)
                            .get()
                            .offset()
                    == 0) {
                Thread.sleep(5);
            }
        }
        Facts.tell("commit", commit(producer));
        Facts.tell("read", read(settings, partition));
    }
}
