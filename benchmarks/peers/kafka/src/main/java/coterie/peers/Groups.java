package coterie.peers;

import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import kafka.common.OffsetAndMetadata;
import kafka.coordinator.group.CommitRecordMetadataAndOffset;
import kafka.coordinator.group.Empty$;
import kafka.coordinator.group.GroupMetadata;
import kafka.coordinator.group.MemberMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.utils.Time;
import scala.Option;
import scala.Some;
import scala.Tuple2;
import scala.collection.mutable.HashMap;
import scala.jdk.javaapi.CollectionConverters;

/** Kafka's GroupMetadata: votes of its members, expiry of its offsets. */
final class Groups {
    private static final String[][] ORDERS = {
        {"sticky", "range", "roundrobin"}, {"range", "sticky", "roundrobin"},
        {"sticky", "roundrobin", "range"}, {"roundrobin", "range", "sticky"},
    };
    private static final int SELECTIONS = 200;
    static final long DAY_MS = 86_400_000L;

    private Groups() {
    }

    static GroupMetadata empty(String id) {
        return new GroupMetadata(id, Empty$.MODULE$, Time.SYSTEM);
    }

    static GroupMetadata ofMembers(int size) {
        String[][] lists = new String[size][];
        for (int i = 0; i < size; i++) {
            lists[i] = ORDERS[i % ORDERS.length];
        }
        return ofLists(lists);
    }

    private static GroupMetadata ofLists(String[][] lists) {
        GroupMetadata group = empty("votes");
        for (int i = 0; i < lists.length; i++) {
            List<Tuple2<String, byte[]>> protocols = new ArrayList<>();
            for (String name : lists[i]) {
                protocols.add(new Tuple2<>(name, new byte[0]));
            }
            group.add(new MemberMetadata("member-" + i, Option.empty(), "c", "/h", 300_000, 45_000,
                "consumer", CollectionConverters.asScala(protocols).toList(), new byte[0]), null);
        }
        return group;
    }

    /** A group a line, a list a word, its names with commas between them. */
    static List<GroupMetadata> ofFile(File file) throws IOException {
        List<GroupMetadata> groups = new ArrayList<>();
        for (String line : Files.readAllLines(file.toPath())) {
            String[] words = line.split(" ");
            String[][] lists = new String[words.length][];
            for (int i = 0; i < words.length; i++) {
                lists[i] = words[i].split(",");
            }
            groups.add(ofLists(lists));
        }
        return groups;
    }

    /** One selection each, the mean of many: one alone is shorter than the clock is good for. */
    static Rounds.Result select(List<GroupMetadata> groups) {
        int members = groups.stream().mapToInt(GroupMetadata::size).sum();
        int again = Math.max(1, SELECTIONS * 1000 / members);
        String[] winners = new String[groups.size()];
        long began = Rounds.now();
        for (int i = 0; i < again; i++) {
            for (int g = 0; g < winners.length; g++) {
                winners[g] = groups.get(g).selectProtocol();
            }
        }
        double seconds = (Rounds.now() - began) * 1e-9 / again;
        return new Rounds.Result(seconds, "[\"" + String.join("\", \"", winners) + "\"]");
    }

    /** Every second offset was committed two days ago, the others now. */
    static GroupMetadata ofOffsets(int size) {
        GroupMetadata group = empty("offsets");
        HashMap<TopicPartition, CommitRecordMetadataAndOffset> offsets = new HashMap<>();
        long now = 10 * DAY_MS;
        for (int i = 0; i < size; i++) {
            long commit = i % 2 == 0 ? now - 2 * DAY_MS : now;
            offsets.put(new TopicPartition("topic-" + i / 100, i % 100),
                new CommitRecordMetadataAndOffset(new Some<>(i), new OffsetAndMetadata(
                    i, Optional.empty(), "", commit, Option.empty())));
        }
        group.initializeOffsets(offsets, scala.collection.immutable.Map$.MODULE$.empty());
        return group;
    }

    /** A day of retention. */
    static Rounds.Result expire(int size) {
        GroupMetadata group = ofOffsets(size);
        long now = 10 * DAY_MS;
        long began = Rounds.now();
        int removed = group.removeExpiredOffsets(now, DAY_MS).size();
        double seconds = (Rounds.now() - began) * 1e-9;
        return new Rounds.Result(seconds, "[" + removed + ", " + group.numOffsets() + "]");
    }
}
