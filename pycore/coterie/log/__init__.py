"""A log's files: folders and segments, records as JSON, the effect of compaction."""
