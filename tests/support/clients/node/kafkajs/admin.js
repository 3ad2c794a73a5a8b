// What the admin client asks.
"use strict";
const { AssignerProtocol, ConfigResourceTypes } = require("kafkajs");

module.exports = async ({ asks, tell, group, MADE, newMember, settle }) => {
  const topics = async () => (await asks.listTopics()).filter((name) => name[0] !== "_").sort();
  const described = async () =>
    (await asks.fetchTopicMetadata({ topics: [MADE] })).topics[0].partitions;
  const retention = async () => {
    const of = { type: ConfigResourceTypes.TOPIC, name: MADE, configNames: ["retention.ms"] };
    const { resources } = await asks.describeConfigs({ resources: [of] });
    return resources[0].configEntries[0].configValue;
  };
  const listed = async () =>
    (await asks.listGroups()).groups.map(({ groupId }) => groupId).sort();
  const made = (ms) => [
    {
      topic: MADE,
      numPartitions: 2,
      replicationFactor: 1,
      configEntries: [{ name: "retention.ms", value: ms }],
    },
  ];

  await asks.createTopics({ topics: made("60000") });
  tell({ topics: await topics() });
  const partitions = await described();
  tell({ partitions: partitions.length, replicas: partitions[0].replicas.length });
  tell({ retention: await retention() });
  const configEntries = [{ name: "retention.ms", value: "90000" }];
  const longer = { type: ConfigResourceTypes.TOPIC, name: MADE, configEntries };
  await asks.alterConfigs({ validateOnly: false, resources: [longer] });
  tell({ altered: await retention() });
  await asks.createPartitions({ topicPartitions: [{ topic: MADE, count: 4 }] });
  tell({ grown: (await described()).length });
  // KafkaJS says that it created nothing, where the broker says that the topic exists.
  tell({ again: (await asks.createTopics({ topics: made("1") })) || "TOPIC_ALREADY_EXISTS" });

  const member = await newMember(MADE);
  await settle([member], 4);
  tell({ groups: await listed() });
  const told = (await asks.describeGroups([group])).groups[0];
  const assigned = told.members.flatMap(
    ({ memberAssignment }) =>
      AssignerProtocol.MemberAssignment.decode(memberAssignment).assignment[MADE],
  );
  assigned.sort();
  tell({
    state: told.state,
    protocol: told.protocol,
    members: told.members.length,
    assigned,
  });
  const refused = await asks.deleteGroups([group]).catch((error) => error);
  tell({ refused: refused.groups[0].error.type });
  await member.client.disconnect();

  const altered = [
    { partition: 0, offset: "11" },
    { partition: 1, offset: "12" },
  ];
  await asks.setOffsets({ groupId: group, topic: MADE, partitions: altered });
  const [found] = await asks.fetchOffsets({ groupId: group, topics: [MADE] });
  const kept = found.partitions.filter(({ offset }) => offset !== "-1");
  kept.sort((left, right) => left.partition - right.partition);
  tell({
    offsets: Object.fromEntries(
      kept.map(({ partition, offset }) => [partition, Number(offset)]),
    ),
  });
  await asks.deleteGroups([group]);
  tell({ after: await listed() });
  await asks.deleteTopics({ topics: [MADE] });
  tell({ kept: await topics() });
};
