"""What every room uses: times, ordering, files, arguments; nothing here knows a subject."""
