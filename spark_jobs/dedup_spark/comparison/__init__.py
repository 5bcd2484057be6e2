"""What plans that stream files share: to read keys, compare two sets of keys, find changed rows and duplicate keys."""
