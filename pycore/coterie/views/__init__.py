"""The views of kafka-consumer-groups: rows, and tables as Kafka prints them."""
