package coterie.peers;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.File;
import java.io.FileInputStream;
import java.io.InputStreamReader;
import java.net.InetAddress;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.function.Supplier;
import java.util.stream.Collectors;
import java.util.zip.GZIPInputStream;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.message.ConsumerGroupHeartbeatRequestData;
import org.apache.kafka.common.message.ConsumerGroupHeartbeatRequestData.TopicPartitions;
import org.apache.kafka.common.message.ConsumerGroupHeartbeatResponseData;
import org.apache.kafka.common.message.ConsumerGroupHeartbeatResponseData.Assignment;
import org.apache.kafka.common.metadata.PartitionRecord;
import org.apache.kafka.common.metadata.TopicRecord;
import org.apache.kafka.common.network.ClientInformation;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.requests.RequestContext;
import org.apache.kafka.common.requests.RequestHeader;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.coordinator.group.GroupCoordinatorService;
import org.apache.kafka.coordinator.group.InlineService;
import org.apache.kafka.image.MetadataDelta;
import org.apache.kafka.image.MetadataImage;
import org.apache.kafka.image.MetadataProvenance;
import org.apache.kafka.server.util.timer.VirtualTimer;

/**
 * Kafka's GroupCoordinatorService playing a trace of heartbeats that was parsed before.
 *
 * Kafka visits members, topics and partitions in the order of Java's hashes, the trace in the order
 * of their ids. So a client sends the epoch and the partitions that this coordinator gave it; when
 * it sends them is as in the trace: after its assignment changed.
 */
final class ConsumerGroups {
    /** A heartbeat; epoch 1 stands for the one that was answered last. */
    private record Event(long at, int client, RequestContext context, String group, String member,
            int epoch, int rebalanceMs, List<String> names, String assignor, JsonNode metadata) {
    }

    private record Clock(VirtualTimer timer) implements Time {
        @Override
        public long milliseconds() {
            return timer.nowMs();
        }

        @Override
        public long nanoseconds() {
            return timer.nowMs() * 1_000_000;
        }

        @Override
        public void sleep(long ms) {
            throw new UnsupportedOperationException();
        }

        @Override
        public void waitObject(Object object, Supplier<Boolean> condition, long deadlineMs) {
            throw new UnsupportedOperationException();
        }
    }

    private final JsonNode topics;
    private final List<Event> events = new ArrayList<>();
    private final Map<String, Integer> clients = new HashMap<>();

    ConsumerGroups(File trace) throws Exception {
        ObjectMapper mapper = new ObjectMapper();
        try (BufferedReader lines = new BufferedReader(new InputStreamReader(
                new GZIPInputStream(new FileInputStream(trace)), StandardCharsets.UTF_8))) {
            topics = mapper.readTree(lines.readLine()).get("topics");
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                events.add(event(mapper.readTree(line)));
            }
        }
    }

    private Event event(JsonNode node) throws Exception {
        if (node.get("op").asText().equals("metadata")) {
            return new Event(node.get("at").asLong(), -1, null, null, null, 0, 0, null, null,
                node.get("topics"));
        }
        String group = node.get("group_id").asText();
        String member = node.get("member_id").asText();
        List<String> names = null;
        if (node.has("subscribed_topic_names")) {
            names = new ArrayList<>();
            for (JsonNode name : node.get("subscribed_topic_names")) {
                names.add(name.asText());
            }
        }
        int epoch = node.path("member_epoch").asInt(0);
        return new Event(node.get("at").asLong(),
            clients.computeIfAbsent(group + " " + member, each -> clients.size()),
            context(node.get("client_id").asText()), group, member, Math.min(epoch, 1),
            node.path("rebalance_timeout_ms").asInt(-1), names,
            node.path("server_assignor").asText(null), null);
    }

    private static RequestContext context(String client) {
        return new RequestContext(
            new RequestHeader(ApiKeys.CONSUMER_GROUP_HEARTBEAT, (short) 1, client, 0), "0",
            InetAddress.getLoopbackAddress(), KafkaPrincipal.ANONYMOUS,
            new ListenerName("PLAINTEXT"), SecurityProtocol.PLAINTEXT, ClientInformation.EMPTY,
            false);
    }

    /** A coordinator of one partition, and its image of the topics. */
    private static final class Broker {
        final VirtualTimer timer = new VirtualTimer(0);
        final GroupCoordinatorService service =
            InlineService.create(new Clock(timer), timer, 1);
        private MetadataImage image = MetadataImage.EMPTY;
        private long version;

        Broker(JsonNode topics) {
            update(topics);
            service.onElection(0, 1);
        }

        /** Topics that are new, and partitions that known ones get. */
        void update(JsonNode topics) {
            MetadataDelta delta = new MetadataDelta.Builder().setImage(image).build();
            for (JsonNode topic : topics) {
                Uuid id = Uuid.fromString(topic.get("topic_id").asText());
                int first = 0;
                if (image.topics().getTopic(id) == null) {
                    delta.replay(new TopicRecord().setTopicId(id)
                        .setName(topic.get("topic").asText()));
                } else {
                    first = image.topics().getTopic(id).partitions().size();
                }
                for (int n = first; n < topic.get("partitions").asInt(); n++) {
                    List<Integer> replicas = List.of(n % 4, (n + 1) % 4);
                    delta.replay(new PartitionRecord().setTopicId(id).setPartitionId(n)
                        .setReplicas(replicas).setIsr(replicas).setLeader(n % 4));
                }
            }
            image = delta.apply(new MetadataProvenance(++version, 0, 0, true));
            service.onMetadataUpdate(delta, image);
        }
    }

    /** What a client knows: the epoch that was answered last, and the partitions it was given. */
    private static final class Client {
        int epoch;
        List<TopicPartitions> owned = List.of();
        boolean changed;

        void answered(ConsumerGroupHeartbeatResponseData response) {
            epoch = response.memberEpoch();
            changed = false;
            if (response.assignment() != null) {
                List<TopicPartitions> given = partitions(response.assignment());
                changed = !sorted(given).equals(sorted(owned));
                owned = given;
            }
        }
    }

    private static List<TopicPartitions> partitions(Assignment assignment) {
        List<TopicPartitions> given = new ArrayList<>();
        assignment.topicPartitions().forEach(each -> given.add(new TopicPartitions()
            .setTopicId(each.topicId()).setPartitions(each.partitions())));
        return given;
    }

    private static TreeMap<Uuid, TreeSet<Integer>> sorted(List<TopicPartitions> topics) {
        TreeMap<Uuid, TreeSet<Integer>> found = new TreeMap<>();
        topics.forEach(each -> found.put(each.topicId(), new TreeSet<>(each.partitions())));
        return found;
    }

    Rounds.Result play() throws Exception {
        Broker broker = new Broker(topics);
        Client[] known = new Client[clients.size()];
        for (int i = 0; i < known.length; i++) {
            known[i] = new Client();
        }
        List<ConsumerGroupHeartbeatResponseData> answers = new ArrayList<>(events.size());
        long began = Rounds.now();
        for (Event event : events) {
            broker.timer.advanceTo(event.at);
            if (event.metadata != null) {
                broker.update(event.metadata);
                continue;
            }
            Client client = known[event.client];
            ConsumerGroupHeartbeatRequestData request = new ConsumerGroupHeartbeatRequestData()
                .setGroupId(event.group)
                .setMemberId(event.member)
                .setMemberEpoch(event.epoch > 0 ? client.epoch : event.epoch)
                .setRebalanceTimeoutMs(event.rebalanceMs)
                .setSubscribedTopicNames(event.names)
                .setServerAssignor(event.assignor);
            if (event.epoch == 0 || client.changed) {
                request.setTopicPartitions(client.owned);
            }
            ConsumerGroupHeartbeatResponseData response =
                broker.service.consumerGroupHeartbeat(event.context, request).join();
            client.answered(response);
            answers.add(response);
        }
        double seconds = (Rounds.now() - began) * 1e-9;
        return new Rounds.Result(seconds, described(answers, known));
    }

    /**
     * Answers by error; the highest epoch; how many clients own how many partitions at the end; a
     * digest of every epoch and assignment.
     */
    private static String described(List<ConsumerGroupHeartbeatResponseData> answers,
            Client[] known) throws Exception {
        MessageDigest digest = MessageDigest.getInstance("SHA-256");
        Map<String, Integer> errors = new TreeMap<>();
        Map<String, Integer> sizes = new TreeMap<>();
        int epoch = 0;
        for (ConsumerGroupHeartbeatResponseData answer : answers) {
            errors.merge(Errors.forCode(answer.errorCode()).name(), 1, Integer::sum);
            epoch = Math.max(epoch, answer.memberEpoch());
            digest.update((answer.memberEpoch() + " " + (answer.assignment() == null ? ""
                : sorted(partitions(answer.assignment()))) + "\n").getBytes(StandardCharsets.UTF_8));
        }
        for (Client client : known) {
            if (client.epoch > 0) {
                int size = client.owned.stream().mapToInt(each -> each.partitions().size()).sum();
                sizes.merge(Integer.toString(size), 1, Integer::sum);
            }
        }
        return String.format(
            "{\"errors\": %s, \"epoch\": %d, \"sizes\": %s, \"digest\": \"%s\"}", json(errors),
            epoch, json(sizes), HexFormat.of().formatHex(digest.digest()));
    }

    private static String json(Map<String, Integer> counts) {
        return counts.entrySet().stream()
            .map(each -> String.format("\"%s\": %d", each.getKey(), each.getValue()))
            .collect(Collectors.joining(", ", "{", "}"));
    }

    /** A group of so many members with one partition each; all have joined and none is reconciled. */
    static Object ofMembers(int size) {
        ObjectMapper mapper = new ObjectMapper();
        Broker broker = new Broker(mapper.createArrayNode().add(mapper.createObjectNode()
            .put("topic", "t").put("topic_id", new Uuid(0, 16).toString())
            .put("partitions", size)));
        for (int n = 0; n < size; n++) {
            broker.service.consumerGroupHeartbeat(context("c"),
                new ConsumerGroupHeartbeatRequestData().setGroupId("g").setMemberId("member-" + n)
                    .setRebalanceTimeoutMs(60_000).setSubscribedTopicNames(List.of("t"))
                    .setTopicPartitions(List.of())).join();
        }
        return broker;
    }
}
