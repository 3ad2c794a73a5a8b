"""The services of a server: topics, groups, transactions and authentication."""
