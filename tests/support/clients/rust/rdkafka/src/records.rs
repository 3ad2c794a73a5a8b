//! Records written and read: in transactions, and in each codec.

use crate::groups::{committed, outsider};
use crate::{Given, LONG, tell};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::{Header, Headers, Message, OwnedHeaders, OwnedMessage};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use serde_json::json;

/// Reads a partition from its begin to its end, as this isolation sees it.
fn read(given: &Given, partition: i32, isolation: &str) -> Vec<OwnedMessage> {
    let consumer: BaseConsumer = given
        .settings(&[
            ("group.id", "reader"),
            ("enable.auto.commit", "false"),
            ("enable.partition.eof", "true"),
            ("isolation.level", isolation),
        ])
        .create()
        .unwrap();
    let mut from = TopicPartitionList::new();
    from.add_partition_offset(&given.topic, partition, Offset::Beginning).unwrap();
    consumer.assign(&from).unwrap();
    let mut found = Vec::new();
    loop {
        match consumer.poll(LONG).expect("nothing more") {
            Ok(message) => found.push(message.detach()),
            Err(KafkaError::PartitionEOF(_)) => return found,
            Err(error) => panic!("{error}"),
        }
    }
}

fn text(bytes: Option<&[u8]>) -> String {
    String::from_utf8(bytes.unwrap().to_vec()).unwrap()
}

pub fn codecs(given: &Given, names: &[String]) {
    for (number, codec) in names.iter().enumerate() {
        let partition = number as i32;
        let producer: BaseProducer =
            given.settings(&[("compression.codec", codec), ("linger.ms", "50")]).create().unwrap();
        for n in 0..3 {
            let (key, value, header) = (format!("k{n}"), format!("v{n}"), format!("h{n}"));
            let headers = OwnedHeaders::new().insert(Header { key: "h", value: Some(&header) });
            let record = BaseRecord::to(&given.topic)
                .partition(partition)
                .key(&key)
                .payload(&value)
                .headers(headers);
            producer.send(record).map_err(|(error, _)| error).unwrap();
        }
        producer.flush(LONG).unwrap();
        let records: Vec<[String; 3]> = read(given, partition, "read_uncommitted")
            .iter()
            .map(|each| {
                let header = each.headers().unwrap().get(0).value;
                [text(each.key()), text(each.payload()), text(header)]
            })
            .collect();
        tell(json!({ "codec": codec, "records": records }));
    }
}

pub fn transactions(given: &Given) {
    let id = format!("{}-id", given.group);
    let producer: BaseProducer = given.settings(&[("transactional.id", &id)]).create().unwrap();
    let of = outsider(given).group_metadata().unwrap();
    producer.init_transactions(LONG).unwrap();
    let steps: [(&[&str], Option<i64>, bool); 3] =
        [(&["a", "b"], Some(3), true), (&["c", "d"], Some(9), false), (&["e"], None, true)];
    for (values, offset, commits) in steps {
        producer.begin_transaction().unwrap();
        for value in values {
            let record = BaseRecord::<(), str>::to(&given.topic).partition(0).payload(*value);
            producer.send(record).map_err(|(error, _)| error).unwrap();
        }
        if let Some(offset) = offset {
            let mut offsets = TopicPartitionList::new();
            offsets.add_partition_offset(&given.topic, 0, Offset::Offset(offset)).unwrap();
            producer.send_offsets_to_transaction(&offsets, &of, LONG).unwrap();
        }
        producer.flush(LONG).unwrap();
        if commits {
            producer.commit_transaction(LONG).unwrap();
        } else {
            producer.abort_transaction(LONG).unwrap();
        }
    }
    for isolation in ["read_committed", "read_uncommitted"] {
        let found = read(given, 0, isolation);
        let values: Vec<String> = found.iter().map(|each| text(each.payload())).collect();
        tell(json!({ isolation: values }));
    }
    let offset = committed(given, &given.topic, 1)[0].as_ref().map(|(offset, _)| *offset);
    tell(json!({ "offset": offset }));
}
