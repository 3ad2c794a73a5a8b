//! Members of groups, and what they commit.

use crate::{Given, LONG, PARTITIONS, tell, wait_for};
use rdkafka::client::ClientContext;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer, ConsumerContext, Rebalance};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

#[derive(Default)]
struct State {
    held: Mutex<BTreeSet<i32>>,
    revoked: AtomicUsize,
    closing: AtomicBool,
}

struct Watch(Arc<State>);

impl ClientContext for Watch {}

impl ConsumerContext for Watch {
    fn pre_rebalance(&self, _: &BaseConsumer<Self>, rebalance: &Rebalance<'_>) {
        if let Rebalance::Revoke(lost) = rebalance {
            self.0.revoked.fetch_add(lost.count(), Ordering::SeqCst);
        }
    }
}

/// A consumer that polls in a thread of its own until it is closed.
pub struct Member {
    state: Arc<State>,
    thread: JoinHandle<()>,
}

impl Member {
    pub fn new(given: &Given, topic: &str, strategy: &str, instance: Option<&str>) -> Member {
        let mut settings = given.settings(&[
            ("group.id", &given.group),
            ("enable.auto.commit", "false"),
            ("partition.assignment.strategy", strategy),
            ("session.timeout.ms", "45000"),
            ("heartbeat.interval.ms", "100"),
        ]);
        if let Some(id) = instance {
            settings.set("group.instance.id", id);
        }
        let state = Arc::new(State::default());
        let consumer: BaseConsumer<Watch> =
            settings.create_with_context(Watch(state.clone())).unwrap();
        consumer.subscribe(&[topic]).unwrap();
        let shared = state.clone();
        let thread = thread::spawn(move || {
            while !shared.closing.load(Ordering::SeqCst) {
                if let Some(Err(error)) = consumer.poll(Duration::from_millis(20)) {
                    eprintln!("{error}");
                }
                let assigned = consumer.assignment().unwrap();
                let now = assigned.elements().iter().map(|each| each.partition()).collect();
                *shared.held.lock().unwrap() = now;
            }
        });
        Member { state, thread }
    }

    pub fn range(given: &Given, topic: &str, instance: Option<&str>) -> Member {
        Member::new(given, topic, "range", instance)
    }

    fn held(&self) -> BTreeSet<i32> {
        self.state.held.lock().unwrap().clone()
    }

    pub fn close(self) {
        self.state.closing.store(true, Ordering::SeqCst);
        self.thread.join().unwrap();
    }
}

/// Waits until the members have divided the partitions among them, some for each.
pub fn settle(count: usize, members: &[&Member]) {
    wait_for(|| {
        let held: Vec<_> = members.iter().map(|each| each.held()).collect();
        let together: BTreeSet<i32> = held.iter().flatten().copied().collect();
        together.len() == count
            && held.iter().map(BTreeSet::len).sum::<usize>() == count
            && held.iter().all(|each| !each.is_empty())
    });
}

fn tell_sizes(members: &[Member]) {
    settle(PARTITIONS, &members.iter().collect::<Vec<_>>());
    let mut sizes: Vec<usize> = members.iter().map(|each| each.held().len()).collect();
    sizes.sort();
    tell(json!({ "sizes": sizes }));
}

fn joined(given: &Given) -> Member {
    let member = Member::range(given, &given.topic, None);
    settle(PARTITIONS, &[&member]);
    tell(json!({ "assigned": member.held() }));
    member
}

pub fn join(given: &Given) {
    joined(given).close();
}

pub fn stay(given: &Given) {
    joined(given).thread.join().unwrap();
}

pub fn rebalance(given: &Given) {
    let mut members = Vec::new();
    for _ in 0..3 {
        members.push(Member::range(given, &given.topic, None));
        tell_sizes(&members);
    }
    members.remove(0).close();
    tell_sizes(&members);
    members.into_iter().for_each(Member::close);
}

pub fn cooperative(given: &Given) {
    let mut members = Vec::new();
    for _ in 0..2 {
        members.push(Member::new(given, &given.topic, "cooperative-sticky", None));
        tell_sizes(&members);
    }
    let revoked = members[0].state.revoked.load(Ordering::SeqCst);
    tell(json!({ "revoked": revoked }));
    members.into_iter().for_each(Member::close);
}

pub fn restart(given: &Given) {
    let both = |one: &Member, two: &Member| {
        settle(PARTITIONS, &[one, two]);
        tell(json!({ "one": one.held(), "two": two.held() }));
    };
    let one = Member::range(given, &given.topic, Some("one"));
    settle(PARTITIONS, &[&one]);
    let two = Member::range(given, &given.topic, Some("two"));
    both(&one, &two);
    two.close(); // a member with an instance id does not leave
    let two = Member::range(given, &given.topic, Some("two"));
    both(&one, &two);
    one.close();
    two.close();
}

/// A consumer that is no member, for what a group has committed.
pub fn outsider(given: &Given) -> BaseConsumer {
    let settings = [("group.id", given.group.as_str()), ("enable.auto.commit", "false")];
    given.settings(&settings).create().unwrap()
}

pub fn commit_as(consumer: &BaseConsumer, topic: &str, offsets: &[(i32, i64, &str)]) {
    let mut all = TopicPartitionList::new();
    for (partition, offset, metadata) in offsets {
        let mut one = all.add_partition(topic, *partition);
        one.set_offset(Offset::Offset(*offset)).unwrap();
        one.set_metadata(*metadata);
    }
    consumer.commit(&all, CommitMode::Sync).unwrap();
}

/// What is committed: offset and metadata for each partition, where there is one.
pub fn committed(given: &Given, topic: &str, partitions: i32) -> Vec<Option<(i64, String)>> {
    let mut asked = TopicPartitionList::new();
    asked.add_partition_range(topic, 0, partitions - 1);
    let found = outsider(given).committed_offsets(asked, LONG).unwrap();
    (0..partitions)
        .map(|partition| {
            let one = found.find_partition(topic, partition).unwrap();
            match one.offset() {
                Offset::Offset(offset) => Some((offset, one.metadata().to_string())),
                _ => None,
            }
        })
        .collect()
}

pub fn commit(given: &Given) {
    let consumer = outsider(given);
    let mut assigned = TopicPartitionList::new();
    assigned.add_partition_range(&given.topic, 0, PARTITIONS as i32 - 1);
    consumer.assign(&assigned).unwrap();
    commit_as(&consumer, &given.topic, &[(0, 5, "five"), (1, 7, "")]);
    drop(consumer);
    let told: Map<String, Value> = committed(given, &given.topic, PARTITIONS as i32)
        .into_iter()
        .enumerate()
        .map(|(partition, found)| (partition.to_string(), json!(found)))
        .collect();
    tell(json!({ "committed": told }));
}
