//! rdkafka: BOOTSTRAP SCENARIO GROUP TOPIC [ARGS], see tests/clients/scenarios.py.

mod admin;
mod groups;
mod records;

use rdkafka::config::ClientConfig;
use serde_json::Value;
use std::time::Duration;

pub const PARTITIONS: usize = 3;
pub const LONG: Duration = Duration::from_secs(1800);

/// What a scenario is called with.
pub struct Given {
    pub bootstrap: String,
    pub group: String,
    pub topic: String,
}

impl Given {
    pub fn settings(&self, more: &[(&str, &str)]) -> ClientConfig {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", &self.bootstrap);
        for (name, value) in more {
            config.set(*name, *value);
        }
        config
    }
}

pub fn tell(fact: Value) {
    println!("{fact}");
}

pub fn wait_for(condition: impl Fn() -> bool) {
    while !condition() {
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let given = Given {
        bootstrap: arguments[0].clone(),
        group: arguments[2].clone(),
        topic: arguments[3].clone(),
    };
    match arguments[1].as_str() {
        "join" => groups::join(&given),
        "stay" => groups::stay(&given),
        "rebalance" => groups::rebalance(&given),
        "cooperative" => groups::cooperative(&given),
        "static" => groups::restart(&given),
        "commit" => groups::commit(&given),
        "transactions" => records::transactions(&given),
        "records" => records::codecs(&given, &arguments[4..]),
        "admin" => admin::calls(&given),
        other => panic!("no scenario {other}"),
    }
}
