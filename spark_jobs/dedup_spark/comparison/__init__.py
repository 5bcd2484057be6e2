"""Building blocks of the streaming plans: read keys, compare two sets of keys, find changed rows and duplicate keys."""
