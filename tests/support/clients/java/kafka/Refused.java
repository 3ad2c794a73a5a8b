import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.time.Duration;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.CompletableFuture;
import org.apache.kafka.common.serialization.Deserializer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;

/** Members of groups that the server does not have: what their application gets. */
final class Refused {
    private Refused() {}

    private static void tell(Throwable refused) throws Exception {
        Throwable cause = refused;
        while (cause.getCause() != null) cause = cause.getCause();
        Facts.tell("refused", cause.getClass().getSimpleName());
    }

    /** By reflection: the jars of 3.9 have no share consumer. */
    static void share(Settings settings, String group, String topic) throws Exception {
        Class<?> type = Class.forName("org.apache.kafka.clients.consumer.KafkaShareConsumer");
        Map<String, Object> all = settings.with("group.id", group);
        Object consumer =
                type.getConstructor(Map.class, Deserializer.class, Deserializer.class)
                        .newInstance(all, new StringDeserializer(), new StringDeserializer());
        type.getMethod("subscribe", Collection.class).invoke(consumer, List.of(topic));
        Method poll = type.getMethod("poll", Duration.class);
        try {
            while (true) poll.invoke(consumer, Duration.ofMillis(50));
        } catch (InvocationTargetException refused) {
            tell(refused);
        }
    }

    static void streams(Settings settings, String group, String topic) throws Exception {
        Properties all = new Properties();
        all.putAll(
                settings.with(
                        "application.id", group,
                        "group.protocol", "streams",
                        "default.key.serde", Serdes.StringSerde.class,
                        "default.value.serde", Serdes.StringSerde.class));
        StreamsBuilder builder = new StreamsBuilder();
        builder.stream(topic).foreach((key, value) -> {});
        CompletableFuture<Throwable> refused = new CompletableFuture<>();
        KafkaStreams streams = new KafkaStreams(builder.build(), all);
        streams.setUncaughtExceptionHandler(
                error -> {
                    refused.complete(error);
                    return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
                });
        streams.start();
        tell(refused.get());
    }
}
