"""What the metadata records of groups tell: generations and their causes, members, changes."""
