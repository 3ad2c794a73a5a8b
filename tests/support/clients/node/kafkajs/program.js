// KafkaJS: BOOTSTRAP SCENARIO GROUP TOPIC [ARGS], see tests/clients/scenarios.py. It divides by a
// round robin of its own, has no cooperative assignor, and is never a static member.
"use strict";
const { Kafka, logLevel } = require("kafkajs");
const { compressors } = require("./codecs");

const PARTITIONS = 3;
const MADE = "made";
const [bootstrap, scenario, group, topic, ...more] = process.argv.slice(2);
const kafka = new Kafka({
  brokers: [bootstrap],
  logLevel: logLevel.INFO,
  logCreator: () => (entry) => console.error(JSON.stringify(entry)),
  retry: { initialRetryTime: 20, maxRetryTime: 1000 },
});

const tell = (fact) => console.log(JSON.stringify(fact));
const settled = async (condition) => {
  while (!condition()) await new Promise((go) => setTimeout(go, 5));
};
const sorted = (numbers) => [...numbers].sort((left, right) => left - right);

const consumer = (groupId, more = {}) =>
  kafka.consumer({
    groupId,
    sessionTimeout: 45000,
    heartbeatInterval: 100,
    maxWaitTimeInMs: 20,
    ...more,
  });

async function newMember(of = topic) {
  const client = consumer(group);
  const member = { client, held: [] };
  client.on(client.events.GROUP_JOIN, ({ payload }) => {
    member.held = sorted(payload.memberAssignment[of] ?? []);
  });
  client.on(client.events.REBALANCING, () => {
    member.held = [];
  });
  await client.connect();
  await client.subscribe({ topics: [of] });
  await client.run({ autoCommit: false, eachMessage: async () => {} });
  return member;
}

const settle = (members, count = PARTITIONS) =>
  settled(() => {
    const all = members.flatMap(({ held }) => held);
    const some = members.every(({ held }) => held.length > 0);
    return some && all.length === count && new Set(all).size === count;
  });

async function tellSizes(members) {
  await settle(members);
  tell({ sizes: sorted(members.map(({ held }) => held.length)) });
}

async function join() {
  const member = await newMember();
  await settle([member]);
  tell({ assigned: member.held });
  await member.client.disconnect();
}

async function stay() {
  const member = await newMember();
  await settle([member]);
  tell({ assigned: member.held });
  await new Promise(() => {});
}

async function rebalance() {
  const members = [];
  for (let count = 0; count < 3; count += 1) {
    members.push(await newMember());
    await tellSizes(members);
  }
  await members.shift().client.disconnect();
  await tellSizes(members);
  for (const { client } of members) await client.disconnect();
}

async function commit() {
  const member = await newMember(); // who is no member cannot commit here
  await settle([member]);
  member.client.pause([{ topic }]); // else it fetches from there, where nothing is
  await member.client.commitOffsets([
    { topic, partition: 0, offset: "5", metadata: "five" },
    { topic, partition: 1, offset: "7" },
  ]);
  await member.client.disconnect();
  const told = {};
  for (const { partition, offset, metadata } of await offsets(topic)) {
    told[partition] = offset === "-1" ? null : [Number(offset), metadata ?? ""];
  }
  tell({ committed: told });
}

async function offsets(of) {
  const admin = kafka.admin();
  await admin.connect();
  const [found] = await admin.fetchOffsets({ groupId: group, topics: [of] });
  await admin.disconnect();
  return found.partitions;
}

// Reads a topic from its begin until so many records are there.
async function read(count, more) {
  const client = consumer("reader-" + JSON.stringify(more) + count, more);
  const found = [];
  await client.connect();
  await client.subscribe({ topics: [topic], fromBeginning: true });
  await client.run({
    autoCommit: false,
    eachMessage: async ({ partition, message }) => found.push({ partition, ...message }),
  });
  await settled(() => found.length >= count);
  await client.disconnect();
  return found;
}

async function transactions() {
  const producer = kafka.producer({
    transactionalId: group + "-id",
    idempotent: true,
    maxInFlightRequests: 1,
  });
  await producer.connect();
  const steps = [
    [["a", "b"], "3", "commit"],
    [["c", "d"], "9", "abort"],
    [["e"], null, "commit"],
  ];
  for (const [values, offset, end] of steps) {
    const transaction = await producer.transaction();
    for (const value of values) {
      await transaction.send({ topic, messages: [{ partition: 0, value }] });
    }
    if (offset !== null) {
      const topics = [{ topic, partitions: [{ partition: 0, offset }] }];
      await transaction.sendOffsets({ consumerGroupId: group, topics });
    }
    await transaction[end]();
  }
  await producer.disconnect();
  const values = (records) => records.map(({ value }) => value.toString());
  tell({ read_committed: values(await read(3, { readUncommitted: false })) });
  tell({ read_uncommitted: values(await read(5, { readUncommitted: true })) });
  const committed = await offsets(topic);
  tell({ offset: Number(committed.find(({ partition }) => partition === 0).offset) });
}

async function records() {
  const types = await compressors();
  const producer = kafka.producer();
  await producer.connect();
  for (const [partition, codec] of more.entries()) {
    const messages = [0, 1, 2].map((n) => ({
      partition,
      key: `k${n}`,
      value: `v${n}`,
      headers: { h: `h${n}` },
    }));
    await producer.send({ topic, messages, compression: types[codec], acks: -1 });
  }
  await producer.disconnect();
  const found = await read(3 * more.length, {});
  for (const [partition, codec] of more.entries()) {
    const of = found.filter((each) => each.partition === partition);
    const told = of.map(({ key, value, headers }) => [key, value, headers.h].map(String));
    tell({ codec, records: told });
  }
}

async function admin() {
  const asks = kafka.admin();
  await asks.connect();
  await require("./admin")({ asks, tell, group, MADE, newMember, settle });
  await asks.disconnect();
}

const scenarios = { join, stay, rebalance, commit, transactions, records, admin };
scenarios[scenario]().then(
  () => process.exit(0),
  (error) => {
    console.error(error);
    process.exit(1);
  },
);
