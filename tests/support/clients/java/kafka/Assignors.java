import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Assignment;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupSubscription;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.clients.consumer.internals.ConsumerProtocol;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;

/**
 * Kafka's own assignors: a line of JSON for each assignment, and a line with the result.
 *
 * <p>Subscriptions and assignments are bytes, as in JoinGroup and SyncGroup. An assignor is used
 * until a line has another name or says "new": a leader's assignor has a memory.
 */
public final class Assignors {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final HexFormat HEX = HexFormat.of();
    private static final Node[] NODES = {Node.noNode()};

    private Assignors() {}

    public static void main(String[] args) throws Exception {
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        BufferedReader in =
                new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        ConsumerPartitionAssignor leader = null;
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JsonNode asked = JSON.readTree(line);
            if (asked.path("new").asBoolean()) leader = assignor(asked.get("assignor").asText());
            out.println(JSON.writeValueAsString(answer(leader, asked)));
        }
    }

    private static ConsumerPartitionAssignor assignor(String name) {
        switch (name) {
            case "range":
                return new RangeAssignor();
            case "roundrobin":
                return new RoundRobinAssignor();
            case "sticky":
                return new StickyAssignor();
            default:
                return new CooperativeStickyAssignor();
        }
    }

    private static Map<String, Object> answer(ConsumerPartitionAssignor leader, JsonNode asked) {
        Map<String, Subscription> subscriptions = new HashMap<>();
        for (JsonNode member : asked.get("members")) {
            ByteBuffer bytes = ByteBuffer.wrap(HEX.parseHex(member.get("subscription").asText()));
            Subscription subscription = ConsumerProtocol.deserializeSubscription(bytes);
            JsonNode instance = member.get("instance");
            subscription.setGroupInstanceId(
                    instance.isNull() ? Optional.empty() : Optional.of(instance.asText()));
            subscriptions.put(member.get("id").asText(), subscription);
        }
        Map<String, Assignment> plan;
        try {
            GroupSubscription group = new GroupSubscription(subscriptions);
            plan = leader.assign(cluster(asked), group).groupAssignment();
        } catch (RuntimeException error) {
            return Map.of("error", error.getClass().getSimpleName());
        }
        Map<String, Object> assignments = new LinkedHashMap<>();
        Map<String, Object> userData = new LinkedHashMap<>();
        plan.forEach((member, assignment) -> {
            ByteBuffer bytes = ConsumerProtocol.serializeAssignment(assignment);
            assignments.put(member, hex(bytes.duplicate()));
            ConsumerPartitionAssignor own = assignor(leader.name());
            int generation = asked.get("generation").asInt();
            own.onAssignment(
                    ConsumerProtocol.deserializeAssignment(bytes),
                    new ConsumerGroupMetadata("group", generation, member, Optional.empty()));
            userData.put(member, hex(own.subscriptionUserData(Set.of())));
        });
        return Map.of("assignments", assignments, "user_data", userData);
    }

    private static Cluster cluster(JsonNode asked) {
        List<PartitionInfo> partitions = new ArrayList<>();
        asked.get("topics").fields().forEachRemaining(topic -> {
            for (int number = 0; number < topic.getValue().asInt(); number++) {
                Node[] nodes = replicas(asked.path("racks").path(topic.getKey()).path(number));
                partitions.add(
                        new PartitionInfo(topic.getKey(), number, Node.noNode(), nodes, nodes));
            }
        });
        return new Cluster("cluster", List.of(), partitions, Set.of(), Set.of());
    }

    private static Node[] replicas(JsonNode racks) {
        if (racks.isEmpty()) return NODES;
        List<Node> nodes = new ArrayList<>();
        racks.forEach(rack -> nodes.add(new Node(nodes.size(), "host", 9092, rack.asText())));
        return nodes.toArray(new Node[0]);
    }

    private static String hex(ByteBuffer bytes) {
        if (bytes == null) return null;
        byte[] copy = new byte[bytes.remaining()];
        bytes.get(copy);
        return HEX.formatHex(copy);
    }
}
