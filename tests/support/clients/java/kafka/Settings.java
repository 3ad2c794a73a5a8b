import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Makes clients of one cluster; what is given beside is name, value, name, value ... The environment
 * variable SECURITY has settings of all of them: lines of NAME=VALUE. GROUP_PROTOCOL is the protocol
 * of members.
 */
record Settings(String bootstrap) {
    static boolean isOfConsumerProtocol() {
        return "consumer".equals(System.getenv("GROUP_PROTOCOL"));
    }

    Map<String, Object> with(Object... pairs) {
        Map<String, Object> all = new HashMap<>();
        all.put("bootstrap.servers", bootstrap);
        System.getenv()
                .getOrDefault("SECURITY", "")
                .lines()
                .map(line -> line.split("=", 2))
                .forEach(pair -> all.put(pair[0], pair[1]));
        for (int at = 0; at < pairs.length; at += 2) all.put((String) pairs[at], pairs[at + 1]);
        return all;
    }

    KafkaConsumer<String, String> consumer(String group, Object... pairs) {
        Map<String, Object> all = with(pairs);
        all.put("group.id", group);
        all.put("enable.auto.commit", false);
        all.putIfAbsent("auto.offset.reset", "earliest");
        return new KafkaConsumer<>(all, new StringDeserializer(), new StringDeserializer());
    }

    KafkaProducer<String, String> producer(Object... pairs) {
        return new KafkaProducer<>(with(pairs), new StringSerializer(), new StringSerializer());
    }

    Admin admin() {
        return Admin.create(with());
    }
}
