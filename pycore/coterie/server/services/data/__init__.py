"""Topics and their partitions' data, in memory. No sockets and no clock."""
