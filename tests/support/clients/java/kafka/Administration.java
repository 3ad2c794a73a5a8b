import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ExecutionException;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.admin.ConsumerGroupListing;
import org.apache.kafka.clients.admin.MemberDescription;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.protocol.Errors;

/** What the admin client asks: topics, their configurations, groups, their offsets. */
final class Administration {
    private static final String MADE = "made";
    private static final ConfigResource CONFIG =
            new ConfigResource(ConfigResource.Type.TOPIC, MADE);

    private Administration() {}

    static void calls(Settings settings, String group, String topic) throws Exception {
        try (Admin admin = settings.admin()) {
            topics(admin);
            try (Member member = Member.of(settings, group, MADE, null)) {
                Facts.await(() -> Member.settled(4, List.of(member)));
                groups(admin, group);
            }
            offsets(admin, group);
            admin.deleteConsumerGroups(List.of(group)).all().get();
            Facts.tell("after", listed(admin));
            admin.deleteTopics(List.of(MADE)).all().get();
            Facts.tell("kept", new TreeSet<>(admin.listTopics().names().get()));
        }
    }

    private static void topics(Admin admin) throws Exception {
        NewTopic made =
                new NewTopic(MADE, Optional.of(2), Optional.empty())
                        .configs(Map.of("retention.ms", "60000"));
        admin.createTopics(List.of(made)).all().get();
        Facts.tell("topics", new TreeSet<>(admin.listTopics().names().get()));
        TopicDescription told = described(admin);
        Facts.tell(
                "partitions", told.partitions().size(),
                "replicas", told.partitions().get(0).replicas().size());
        Facts.tell("retention", retention(admin));
        AlterConfigOp longer =
                new AlterConfigOp(
                        new ConfigEntry("retention.ms", "90000"), AlterConfigOp.OpType.SET);
        admin.incrementalAlterConfigs(Map.of(CONFIG, List.of(longer))).all().get();
        Facts.tell("altered", retention(admin));
        admin.createPartitions(Map.of(MADE, NewPartitions.increaseTo(4))).all().get();
        Facts.tell("grown", described(admin).partitions().size());
        Facts.tell("again", refusal(admin.createTopics(List.of(made)).all()));
    }

    private static void groups(Admin admin, String group) throws Exception {
        Facts.tell("groups", listed(admin));
        ConsumerGroupDescription told =
                admin.describeConsumerGroups(List.of(group)).all().get().get(group);
        Set<Integer> assigned = new TreeSet<>();
        for (MemberDescription member : told.members()) {
            member.assignment().topicPartitions().forEach(each -> assigned.add(each.partition()));
        }
        Facts.tell(
                "state", told.state().toString(),
                "protocol", told.partitionAssignor(),
                "members", told.members().size(),
                "assigned", assigned);
        Facts.tell("refused", refusal(admin.deleteConsumerGroups(List.of(group)).all()));
    }

    private static void offsets(Admin admin, String group) throws Exception {
        TopicPartition first = new TopicPartition(MADE, 0), second = new TopicPartition(MADE, 1);
        admin.alterConsumerGroupOffsets(
                        group,
                        Map.of(
                                first, new OffsetAndMetadata(11),
                                second, new OffsetAndMetadata(12)))
                .all()
                .get();
        Facts.tell("offsets", committed(admin, group));
        admin.deleteConsumerGroupOffsets(group, Set.of(second)).all().get();
        Facts.tell("left", committed(admin, group));
    }

    private static Map<String, Long> committed(Admin admin, String group) throws Exception {
        return Groups.told(
                admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get(), MADE);
    }

    private static List<String> listed(Admin admin) throws Exception {
        return admin.listConsumerGroups().all().get().stream()
                .map(ConsumerGroupListing::groupId)
                .sorted()
                .collect(Collectors.toList());
    }

    private static TopicDescription described(Admin admin) throws Exception {
        return admin.describeTopics(List.of(MADE)).allTopicNames().get().get(MADE);
    }

    private static String retention(Admin admin) throws Exception {
        return admin.describeConfigs(List.of(CONFIG))
                .all()
                .get()
                .get(CONFIG)
                .get("retention.ms")
                .value();
    }

    private static String refusal(KafkaFuture<?> asked) throws InterruptedException {
        try {
            asked.get();
            return "NONE";
        } catch (ExecutionException refused) {
            return Errors.forException(refused.getCause()).name();
        }
    }
}
