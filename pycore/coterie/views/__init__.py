"""What kafka-consumer-groups shows of a group, and how it draws it."""
