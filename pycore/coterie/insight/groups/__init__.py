"""What the metadata records of groups show: generations and their causes, members, changes."""
