"""The consumer of Kafka 0.8.2 over ZooKeeper, and the brokers as it sees them."""
