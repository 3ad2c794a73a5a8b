//! What the admin client asks: topics, their configurations, groups, their offsets.

use crate::groups::{Member, commit_as, committed, outsider, settle};
use crate::{Given, LONG, tell};
use pollster::block_on;
use rdkafka::admin::{
    AdminClient, AdminOptions, AlterConfig, NewPartitions, NewTopic, ResourceSpecifier,
    TopicReplication,
};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::types::RDKafkaErrorCode;
use serde_json::{Map, Value, json};

const MADE: &str = "made";

struct Asks {
    admin: AdminClient<DefaultClientContext>,
    consumer: BaseConsumer,
    options: AdminOptions,
}

impl Asks {
    fn topics(&self) -> Vec<String> {
        let told = self.consumer.fetch_metadata(None, LONG).unwrap();
        let names = told.topics().iter().map(|each| each.name().to_string());
        let mut names: Vec<String> = names.filter(|name| !name.starts_with('_')).collect();
        names.sort();
        names
    }

    /// The number of partitions, and of replicas of the first.
    fn described(&self) -> (usize, usize) {
        let told = self.consumer.fetch_metadata(Some(MADE), LONG).unwrap();
        let partitions = told.topics()[0].partitions();
        (partitions.len(), partitions[0].replicas().len())
    }

    fn retention(&self) -> String {
        let of = [ResourceSpecifier::Topic(MADE)];
        let told = block_on(self.admin.describe_configs(&of, &self.options)).unwrap();
        let config = told[0].as_ref().unwrap();
        config.get("retention.ms").unwrap().value.clone().unwrap()
    }

    fn listed(&self) -> Vec<String> {
        let told = self.consumer.fetch_group_list(None, LONG).unwrap();
        told.groups().iter().map(|each| each.name().to_string()).collect()
    }

    fn create(&self) -> Result<String, (String, RDKafkaErrorCode)> {
        let made = NewTopic::new(MADE, 2, TopicReplication::Fixed(1)).set("retention.ms", "60000");
        block_on(self.admin.create_topics([&made], &self.options)).unwrap().remove(0)
    }

    fn delete_group(&self, group: &str) -> Result<String, (String, RDKafkaErrorCode)> {
        block_on(self.admin.delete_groups(&[group], &self.options)).unwrap().remove(0)
    }
}

fn refusal(of: Result<String, (String, RDKafkaErrorCode)>) -> String {
    match of.unwrap_err().1 {
        RDKafkaErrorCode::TopicAlreadyExists => "TOPIC_ALREADY_EXISTS".to_string(),
        RDKafkaErrorCode::NonEmptyGroup => "NON_EMPTY_GROUP".to_string(),
        other => format!("{other:?}"),
    }
}

pub fn calls(given: &Given) {
    let asks = Asks {
        admin: given.settings(&[]).create().unwrap(),
        consumer: outsider(given),
        options: AdminOptions::new().request_timeout(Some(LONG)).operation_timeout(Some(LONG)),
    };
    topics(&asks);
    let member = Member::range(given, MADE, None);
    settle(4, &[&member]);
    groups(&asks, &given.group);
    member.close();
    commit_as(&asks.consumer, MADE, &[(0, 11, ""), (1, 12, "")]);
    let mut told = Map::new();
    for (partition, found) in committed(given, MADE, 4).into_iter().enumerate() {
        if let Some((offset, _)) = found {
            told.insert(partition.to_string(), Value::from(offset));
        }
    }
    tell(json!({ "offsets": told }));
    asks.delete_group(&given.group).unwrap();
    tell(json!({ "after": asks.listed() }));
    block_on(asks.admin.delete_topics(&[MADE], &asks.options)).unwrap().remove(0).unwrap();
    tell(json!({ "kept": asks.topics() }));
}

fn topics(asks: &Asks) {
    asks.create().unwrap();
    tell(json!({ "topics": asks.topics() }));
    let (partitions, replicas) = asks.described();
    tell(json!({ "partitions": partitions, "replicas": replicas }));
    tell(json!({ "retention": asks.retention() }));
    let longer = AlterConfig::new(ResourceSpecifier::Topic(MADE)).set("retention.ms", "90000");
    let altered = block_on(asks.admin.alter_configs([&longer], &asks.options)).unwrap();
    altered[0].as_ref().unwrap();
    tell(json!({ "altered": asks.retention() }));
    let more = NewPartitions::new(MADE, 4);
    let grown = block_on(asks.admin.create_partitions([&more], &asks.options)).unwrap();
    grown[0].as_ref().unwrap();
    tell(json!({ "grown": asks.described().0 }));
    tell(json!({ "again": refusal(asks.create()) }));
}

fn groups(asks: &Asks, group: &str) {
    tell(json!({ "groups": asks.listed() }));
    let told = asks.consumer.fetch_group_list(Some(group), LONG).unwrap();
    let told = &told.groups()[0];
    let members = told.members();
    let assigned: Vec<i32> =
        members.iter().flat_map(|each| partitions(each.assignment().unwrap())).collect();
    tell(json!({
        "state": told.state(), "protocol": told.protocol(),
        "members": members.len(), "assigned": assigned,
    }));
    tell(json!({ "refused": refusal(asks.delete_group(group)) }));
}

/// The partitions of an assignment of one topic, as consumers write it.
fn partitions(assignment: &[u8]) -> Vec<i32> {
    let number = |at: usize| i32::from_be_bytes(assignment[at..at + 4].try_into().unwrap());
    let name = u16::from_be_bytes(assignment[6..8].try_into().unwrap()) as usize;
    let count = number(8 + name) as usize;
    (0..count).map(|each| number(12 + name + 4 * each)).collect()
}
