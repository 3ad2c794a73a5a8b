package coterie.peers;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.File;
import java.io.FileInputStream;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.Supplier;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import java.util.zip.GZIPInputStream;
import kafka.coordinator.group.GroupConfig;
import kafka.coordinator.group.GroupCoordinator;
import kafka.coordinator.group.GroupMetadataManager;
import kafka.common.OffsetAndMetadata;
import kafka.coordinator.group.JoinGroupResult;
import kafka.coordinator.group.LeaveGroupResult;
import kafka.coordinator.group.SyncGroupResult;
import kafka.server.DelayedOperationPurgatory;
import kafka.server.RequestLocal;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.message.LeaveGroupRequestData.MemberIdentity;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.common.MetadataVersion;
import org.apache.kafka.server.util.timer.VirtualTimer;
import scala.Function1;
import scala.Option;
import scala.Tuple2;
import scala.collection.immutable.Map$;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.BoxedUnit;

/** Kafka's GroupCoordinator playing a trace that was parsed before, on a clock of its own. */
final class Coordinators {
    /** One event. Members are numbers: the n-th id that was made; 0 none; -1 not one of these. */
    private record Event(long at, String op, String group, int generation, int member,
            int sessionMs, int rebalanceMs, String client, String host, String type,
            scala.collection.immutable.List<Tuple2<String, byte[]>> protocols,
            int[] assigned, byte[][] assignments,
            scala.collection.immutable.Map<TopicIdPartition, OffsetAndMetadata> offsets,
            int[] leaving) {
    }

    /** The clock is the timer's; nobody sleeps. */
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

    private final List<Event> events = new ArrayList<>();
    private int members;

    Coordinators(File trace) throws Exception {
        ObjectMapper mapper = new ObjectMapper();
        try (BufferedReader lines = new BufferedReader(new InputStreamReader(
                new GZIPInputStream(new FileInputStream(trace)), StandardCharsets.UTF_8))) {
            lines.readLine(); // the header: Kafka's defaults, as both heavy traces have them
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                events.add(event(mapper.readTree(line)));
            }
        }
        for (Event event : events) {
            members += event.op.equals("join_group") && event.member == 0 ? 1 : 0;
        }
    }

    int size() {
        return events.size();
    }

    private static Event event(JsonNode node) throws Exception {
        List<Tuple2<String, byte[]>> protocols = new ArrayList<>();
        for (JsonNode protocol : node.path("protocols")) {
            protocols.add(new Tuple2<>(protocol.get("name").asText(),
                protocol.get("metadata").binaryValue()));
        }
        JsonNode given = node.path("assignments");
        int[] assigned = new int[given.size()];
        byte[][] assignments = new byte[given.size()][];
        for (int i = 0; i < assigned.length; i++) {
            assigned[i] = number(given.get(i).get("member_id").asText());
            assignments[i] = given.get(i).get("assignment").binaryValue();
        }
        return new Event(node.get("at").asLong(), node.get("op").asText(),
            node.path("group_id").asText(null), node.path("generation_id").asInt(-1),
            number(node.path("member_id").asText("")),
            node.path("session_timeout_ms").asInt(45_000),
            node.path("rebalance_timeout_ms").asInt(300_000), node.path("client_id").asText(""),
            node.path("client_host").asText(""), node.path("protocol_type").asText(null),
            CollectionConverters.asScala(protocols).toList(), assigned, assignments,
            offsets(node.path("offsets"), node.get("at").asLong()), leaving(node.path("members")));
    }

    private static scala.collection.immutable.Map<TopicIdPartition, OffsetAndMetadata> offsets(
            JsonNode given, long at) {
        Map<TopicIdPartition, OffsetAndMetadata> offsets = new TreeMap<>(
            Comparator.comparing(TopicIdPartition::toString));
        for (JsonNode each : given) {
            offsets.put(new TopicIdPartition(Uuid.ZERO_UUID, each.get("partition").asInt(),
                each.get("topic").asText()), OffsetAndMetadata.apply(each.get("offset").asLong(),
                each.path("metadata").asText(""), at));
        }
        return Map$.MODULE$.from(CollectionConverters.asScala(offsets));
    }

    private static int[] leaving(JsonNode given) {
        int[] leaving = new int[given.size()];
        for (int i = 0; i < leaving.length; i++) {
            leaving[i] = number(given.get(i).get("member_id").asText());
        }
        return leaving;
    }

    private static int number(String member) {
        if (member.isEmpty()) {
            return 0;
        }
        String tail = member.substring(member.lastIndexOf('-') + 1);
        return tail.length() == 8 && tail.chars().allMatch(Character::isDigit)
            ? Integer.parseInt(tail) : -1;
    }

    /** One game: a fresh coordinator, and what it answered. */
    private final class Game {
        final VirtualTimer timer = new VirtualTimer(0);
        final Clock clock = new Clock(timer);
        final String[] ids = new String[members + 1];
        final int[] joins = new int[Errors.values().length];
        final int[] syncs = new int[Errors.values().length];
        final int[] beats = new int[Errors.values().length];
        final int[] commits = new int[Errors.values().length];
        final int[] leaves = new int[Errors.values().length];
        final GroupCoordinator coordinator;
        private int made;

        Game() {
            Metrics metrics = new Metrics();
            GroupMetadataManager manager = new GroupMetadataManager(0,
                MetadataVersion.latestProduction(), Logs.config(), Replicas.create(), clock, metrics);
            coordinator = new GroupCoordinator(0,
                new GroupConfig(6000, 1_800_000, Integer.MAX_VALUE, 3000), Logs.config(), manager,
                new DelayedOperationPurgatory<>("Heartbeat", timer, 0, 1000, false, true),
                new DelayedOperationPurgatory<>("Rebalance", timer, 0, 1000, false, true),
                clock, metrics);
            coordinator.startup(() -> 1, false);
            manager.addOwnedPartition(0);
        }

        String id(int member) {
            return member == 0 ? "" : member < 0 ? "nobody" : ids[member];
        }

        void play() {
            for (Event event : events) {
                timer.advanceTo(event.at);
                switch (event.op) {
                    case "heartbeat" -> coordinator.handleHeartbeat(event.group, id(event.member),
                        Option.empty(), event.generation, this::beaten);
                    case "join_group" -> join(event);
                    case "sync_group" -> sync(event);
                    case "offset_commit" -> commit(event);
                    case "leave_group" -> leave(event);
                    default -> { } // advance; the two views are not what is measured
                }
            }
        }

        private BoxedUnit beaten(Errors error) {
            beats[error.ordinal()]++;
            return BoxedUnit.UNIT;
        }

        private void join(Event event) {
            int number = event.member == 0 ? ++made : event.member;
            Function1<JoinGroupResult, BoxedUnit> back = result -> {
                joins[result.error().ordinal()]++;
                if (number > 0) {
                    ids[number] = result.memberId();
                }
                return BoxedUnit.UNIT;
            };
            coordinator.handleJoinGroup(event.group, id(event.member), Option.empty(), false,
                false, event.client, event.host, event.rebalanceMs, event.sessionMs, event.type,
                event.protocols, back, Option.empty(), RequestLocal.NoCaching());
        }

        private void sync(Event event) {
            Map<String, byte[]> assignment = new TreeMap<>();
            for (int i = 0; i < event.assigned.length; i++) {
                assignment.put(id(event.assigned[i]), event.assignments[i]);
            }
            Function1<SyncGroupResult, BoxedUnit> back = result -> {
                syncs[result.error().ordinal()]++;
                return BoxedUnit.UNIT;
            };
            coordinator.handleSyncGroup(event.group, event.generation, id(event.member),
                Option.empty(), Option.empty(), Option.empty(),
                CollectionConverters.asScala(assignment), back, RequestLocal.NoCaching());
        }

        private void commit(Event event) {
            coordinator.handleCommitOffsets(event.group, id(event.member), Option.empty(),
                event.generation, event.offsets, errors -> {
                    errors.valuesIterator().foreach(error -> ++commits[error.ordinal()]);
                    return BoxedUnit.UNIT;
                }, RequestLocal.NoCaching());
        }

        private void leave(Event event) {
            List<MemberIdentity> leaving = new ArrayList<>(event.leaving.length);
            for (int member : event.leaving) {
                leaving.add(new MemberIdentity().setMemberId(id(member)));
            }
            coordinator.handleLeaveGroup(event.group,
                CollectionConverters.asScala(leaving).toList(), this::left);
        }

        private BoxedUnit left(LeaveGroupResult result) {
            leaves[result.topLevelError().ordinal()]++;
            return BoxedUnit.UNIT;
        }
    }

    private static String counts(String op, int[] counts) {
        StringBuilder text = new StringBuilder();
        for (Errors error : Errors.values()) {
            if (counts[error.ordinal()] > 0) {
                text.append(String.format("%s\"%s %s\": %d", text.isEmpty() ? "" : ", ", op,
                    error.name(), counts[error.ordinal()]));
            }
        }
        return text.toString();
    }

    Rounds.Result play() {
        Game game = new Game();
        long began = Rounds.now();
        game.play();
        double seconds = (Rounds.now() - began) * 1e-9;
        String answer = Stream.of(counts("join_group", game.joins),
            counts("sync_group", game.syncs), counts("heartbeat", game.beats),
            counts("offset_commit", game.commits), counts("leave_group", game.leaves))
            .filter(text -> !text.isEmpty()).collect(Collectors.joining(", ", "{", "}"));
        return new Rounds.Result(seconds, answer);
    }
}
