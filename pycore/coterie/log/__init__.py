"""The log as files: its folders, its records as JSON, how far back it can be trusted."""
