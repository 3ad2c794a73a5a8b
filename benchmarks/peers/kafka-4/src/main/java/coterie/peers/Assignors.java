package coterie.peers;

import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.Collectors;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.metadata.PartitionRecord;
import org.apache.kafka.common.metadata.TopicRecord;
import org.apache.kafka.coordinator.common.runtime.KRaftCoordinatorMetadataImage;
import org.apache.kafka.coordinator.group.api.assignor.ConsumerGroupPartitionAssignor;
import org.apache.kafka.coordinator.group.api.assignor.GroupAssignment;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.assignor.RangeAssignor;
import org.apache.kafka.coordinator.group.assignor.UniformAssignor;
import org.apache.kafka.coordinator.group.modern.Assignment;
import org.apache.kafka.coordinator.group.modern.GroupSpecImpl;
import org.apache.kafka.coordinator.group.modern.MemberSubscriptionAndAssignmentImpl;
import org.apache.kafka.coordinator.group.modern.SubscribedTopicDescriberImpl;
import org.apache.kafka.image.MetadataDelta;
import org.apache.kafka.image.MetadataProvenance;

/**
 * Kafka's assignors over SIZE members and ten times as many partitions: ten of each topic.
 *
 * Members come in the order of their ids, and topic ids are such that Java's hashes keep it.
 */
final class Assignors {
    private static final int PARTITIONS = 10;

    private final ConsumerGroupPartitionAssignor assignor;
    private final GroupSpecImpl group;
    private final SubscribedTopicDescriberImpl describer;

    Assignors(String work, int size) {
        boolean unequal = work.equals("uniform-unequal");
        assignor = work.equals("range") ? new RangeAssignor() : new UniformAssignor();
        MetadataDelta delta = new MetadataDelta.Builder().build();
        for (int n = 0; n < size; n++) {
            delta.replay(new TopicRecord().setTopicId(topic(n)).setName("t" + n));
            for (int partition = 0; partition < PARTITIONS; partition++) {
                delta.replay(new PartitionRecord().setTopicId(topic(n)).setPartitionId(partition)
                    .setReplicas(List.of(0)).setIsr(List.of(0)).setLeader(0));
            }
        }
        describer = new SubscribedTopicDescriberImpl(new KRaftCoordinatorMetadataImage(
            delta.apply(new MetadataProvenance(1, 0, 0, true))));
        Map<String, MemberSubscriptionAndAssignmentImpl> members = new LinkedHashMap<>();
        for (int n = 0; n < size; n++) {
            Set<Uuid> topics = new LinkedHashSet<>();
            for (int topic = 0; topic < size; topic++) {
                if (!unequal || topic % 2 == n % 2 || topic % 3 == 0) {
                    topics.add(topic(topic));
                }
            }
            members.put(String.format(Locale.ROOT, "m%06d", n),
                new MemberSubscriptionAndAssignmentImpl(Optional.empty(), Optional.empty(), topics,
                    Assignment.EMPTY));
        }
        group = new GroupSpecImpl(Collections.unmodifiableMap(members), unequal
            ? SubscriptionType.HETEROGENEOUS : SubscriptionType.HOMOGENEOUS, Map.of());
    }

    /** Java's hash of this id is n, and no table is so large that it would wrap. */
    private static Uuid topic(int n) {
        return new Uuid(0, 4096 + n);
    }

    Rounds.Result assign() {
        long began = Rounds.now();
        GroupAssignment made = assignor.assign(group, describer);
        double seconds = (Rounds.now() - began) * 1e-9;
        List<String> lines = new ArrayList<>();
        for (String member : group.memberIds()) {
            List<String> given = new ArrayList<>();
            var partitions = made.members().get(member).partitions();
            for (Uuid topic : new TreeSet<>(partitions.keySet())) {
                given.add(String.format("[%d, %s]", topic.getLeastSignificantBits() - 4096,
                    new TreeSet<>(partitions.get(topic))));
            }
            lines.add(given.toString());
        }
        return new Rounds.Result(seconds,
            lines.stream().collect(Collectors.joining(", ", "[", "]")));
    }
}
