/*
 * Prints what a release of Kafka has besides its message schemas, a fact a line: errors, versions of
 * APIs, features, settings of brokers, topics and groups. Run with the release's jars as class path;
 * tools/kafka_release.py does.
 */

import java.lang.reflect.Field;
import java.util.TreeMap;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.Errors;

public class KafkaFacts {
    public static void main(String[] arguments) throws Exception {
        for (Errors error : Errors.values())
            System.out.println("error " + error.name() + " " + error.code());
        for (ApiKeys api : ApiKeys.values()) {
            boolean served = false;
            for (Object listener : api.messageType.listeners())
                served |= listener.toString().equals("BROKER");
            if (served)
                System.out.println("api " + api.messageType.name + " " + api.id + " "
                    + api.oldestVersion() + "-" + api.latestVersion(false));
        }
        try {
            Class<?> feature = Class.forName("org.apache.kafka.server.common.Feature");
            for (Object one : (Iterable<?>) feature.getField("PRODUCTION_FEATURES").get(null))
                System.out.println("feature " + call(one, "featureName") + " "
                    + call(one, "minimumProduction") + "-" + call(one, "latestProduction"));
            Class<?> metadata = Class.forName("org.apache.kafka.server.common.MetadataVersion");
            System.out.println("feature metadata.version "
                + call(metadata.getField("MINIMUM_VERSION").get(null), "featureLevel") + "-"
                + call(call(metadata, "latestProduction"), "featureLevel"));
        } catch (ClassNotFoundException absent) {
            // before 4.0
        }
        print("broker", call(Class.forName("kafka.server.KafkaConfig"), "configDef"));
        print("topic", call(
            Class.forName("org.apache.kafka.storage.internals.log.LogConfig"), "configDefCopy"));
        print("group", groupDef(Class.forName("org.apache.kafka.coordinator.group.GroupConfig")));
    }

    static Object call(Object target, String method) throws Exception {
        if (target instanceof Class<?> type)
            return type.getMethod(method).invoke(null);
        return target.getClass().getMethod(method).invoke(target);
    }

    static Object groupDef(Class<?> type) throws Exception {
        try {
            return call(type, "configDef"); // before 4.3
        } catch (NoSuchMethodException absent) {
            Field field = type.getField("CONFIG_DEF");
            return field.get(null);
        }
    }

    static void print(String kind, Object definition) {
        for (ConfigDef.ConfigKey key : new TreeMap<>(((ConfigDef) definition).configKeys()).values()) {
            String bounds = "";
            if (key.validator != null && key.validator.toString().matches("\\[[^\\]]*\\.\\.\\.[^\\]]*\\]"))
                bounds = key.validator.toString().replace(",...,", ",").replace("...", "");
            System.out.println(kind + " " + key.name + " " + key.type + bounds
                + (key.hasDefault() ? " =" + (key.defaultValue == null ? "null" : shown(key)) : ""));
        }
    }

    static String shown(ConfigDef.ConfigKey key) {
        return ConfigDef.convertToString(key.defaultValue, key.type).replace("\n", " ");
    }
}
